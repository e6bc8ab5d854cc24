"""The command line. Threads are limited here, before anything imports NumPy or jax."""

import os
import sys


def main() -> None:
    """Runs `pacoh`: bad input ends with exit code 2 and one sentence, never with a traceback."""
    for library in ("OPENBLAS", "MKL", "OMP"):
        os.environ.setdefault(f"{library}_NUM_THREADS", "1")
    import warnings

    import typer

    from pacoh.cli import app
    from pacoh.errors import PacohError, PacohWarning

    if len(sys.argv) == 1:
        sys.argv.append("--help")
    code, sentence, usual = 0, "", warnings.showwarning

    def tell(message, category, *place) -> None:
        if issubclass(category, PacohWarning):
            print(f"pacoh: {message}", file=sys.stderr)
        else:
            usual(message, category, *place)

    try:
        with warnings.catch_warnings():
            warnings.showwarning = tell
            code = app(standalone_mode=False)
    except (PacohError, OSError) as error:
        code, sentence = 2, str(error)
    except (KeyboardInterrupt, typer.Abort):
        code, sentence = 130, "stopped; the same command goes on from its last checkpoint."
    except Exception as error:
        if not any(base.__name__ == "ClickException" for base in type(error).__mro__):
            raise
        code, sentence = 2, error.format_message()  # pyright: ignore[reportAttributeAccessIssue]
    if sentence:
        print(f"pacoh: {sentence}", file=sys.stderr)
    sys.exit(code)


if __name__ == "__main__":
    main()

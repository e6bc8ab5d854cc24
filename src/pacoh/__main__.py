"""The command line. Threads are limited here, before anything imports NumPy or jax."""

import os
import sys


def main() -> None:
    """Runs `pacoh`: bad input ends with exit code 2 and one sentence, never with a traceback."""
    for library in ("OPENBLAS", "MKL", "OMP"):
        os.environ.setdefault(f"{library}_NUM_THREADS", "1")
    import typer

    from pacoh.cli import app
    from pacoh.errors import PacohError

    if len(sys.argv) == 1:
        sys.argv.append("--help")
    code, sentence = 0, ""
    try:
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

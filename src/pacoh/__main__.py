"""The command line. Threads are limited here, before anything imports NumPy or jax."""

import os
import sys


def main() -> None:
    """Runs `pacoh`: bad input ends with exit code 2 and one sentence, never with a traceback."""
    for library in ("OPENBLAS", "MKL", "OMP"):
        os.environ.setdefault(f"{library}_NUM_THREADS", "1")
    from pacoh.cli import app
    from pacoh.types import PacohError

    try:
        app()
    except (PacohError, OSError) as error:
        print(f"pacoh: {error}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()

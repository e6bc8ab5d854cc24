"""Files that are there whole or not at all."""

import os
from pathlib import Path


def unfinished(path: Path) -> Path:
    """Where a file is written before it takes its name."""
    return path.with_name(path.name + ".part")


def write_whole(path: Path, content: bytes) -> None:
    """Replaces a file at once: whoever reads it, or is killed meanwhile, finds the old one or the new one."""
    with unfinished(path).open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(unfinished(path), path)

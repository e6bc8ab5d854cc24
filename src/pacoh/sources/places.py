"""Where data lie: the user's own folder first, then a cache."""

import os
import sys
from pathlib import Path

VARIABLE = "PACOH_DATA_DIR"


def own_folder() -> Path | None:
    """The folder that $PACOH_DATA_DIR names, with a sub-folder for each source; None where it is not set."""
    named = os.environ.get(VARIABLE)
    return Path(named).expanduser() if named else None


def cache_folder() -> Path:
    """The folder for downloads and parsed data: $XDG_CACHE_HOME/pacoh/data, or the platform's own place."""
    named = os.environ.get("XDG_CACHE_HOME")
    if named:
        root = Path(named).expanduser()
    elif sys.platform == "darwin":
        root = Path.home() / "Library" / "Caches"
    elif sys.platform == "win32":
        root = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    else:
        root = Path.home() / ".cache"
    return root / "pacoh" / "data"


def folders(source: str) -> list[Path]:
    """The folders that may hold the files of a source, the first that has a file wins."""
    own = own_folder()
    return [*([own / source] if own else []), cache_folder() / source]


def find(source: str, name: str) -> Path | None:
    """The file of this name, where there is one."""
    return next((path for folder in folders(source) if (path := folder / name).is_file()), None)

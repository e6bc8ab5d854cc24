"""A page as a reader's browser shows it."""

import html
import re
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest

CHROMIUM = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)
needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here: the page was not looked at in a browser")


class Seen(NamedTuple):
    """The text of a page, and the widths of its images as they were loaded."""

    text: str
    widths: list[int]


def look(page: Path, folder: Path) -> Seen:
    """Opens a page in headless Chromium."""
    command = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder / 'profile'}"]
    script = "<script>document.body.dataset.images = [...document.images].map(i => i.naturalWidth).join(' ');"
    script += "document.body.dataset.text = document.body.innerText;</script></body>"
    looked = folder / "looked.html"
    looked.write_text(page.read_text().replace("</body>", script))
    shown = subprocess.run(
        [*command, "--virtual-time-budget=5000", "--dump-dom", looked.as_uri()],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    ).stdout
    widths, text = (re.search(rf'data-{name}="([^"]*)"', shown) for name in ("images", "text"))
    assert widths is not None
    assert text is not None
    return Seen(html.unescape(text[1]), [int(width) for width in widths[1].split()])


def fetches_nothing(page: Path) -> bool:
    """Whether a page holds no address of anything else."""
    return "http" not in re.sub(r"data:image[^\"]*", "", page.read_text())

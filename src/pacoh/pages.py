"""Blocks of a page, and the two ways to show them: HTML that needs nothing else, and Markdown."""

import base64
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

import matplotlib
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure


@dataclass(frozen=True)
class Heading:
    """A heading of a level."""

    level: int
    text: str


@dataclass(frozen=True)
class Text:
    """A paragraph."""

    text: str


@dataclass(frozen=True)
class Items:
    """A list."""

    texts: Sequence[str]


@dataclass(frozen=True)
class Grid:
    """A table: groups of columns, and lines of (text, whether it is bold)."""

    header: Sequence[tuple[str, Sequence[str]]]
    lines: Sequence[Sequence[tuple[str, bool]]]


@dataclass(frozen=True)
class Image:
    """A figure; Markdown finds it as figures/NAME.svg, and its numbers, where there are, as figures/NAME.csv."""

    name: str
    caption: str
    svg: bytes
    table: bytes = b""


@dataclass(frozen=True)
class Code:
    """Commands."""

    text: str


@dataclass(frozen=True)
class Details:
    """What only the HTML page shows."""

    blocks: "Sequence[Block]"


Block = Heading | Text | Items | Grid | Image | Code | Details

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem; color: #1a1a1a; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: 13px; }
th, td { padding: .2rem .6rem; border-bottom: 1px solid #ddd; text-align: left; white-space: nowrap; }
thead th { border-bottom: 1px solid #888; vertical-align: bottom; }
tbody td:first-child { position: sticky; left: 0; background: #fff; }
figure { margin: 1.5rem 0; } figure img { max-width: 100%; } figcaption { color: #555; font-size: 13px; }
pre { background: #f4f4f4; padding: .8rem; overflow-x: auto; }
"""


def blank(width: float, height: float) -> Figure:
    """A figure to draw on, of so many inches; made without pyplot: no global state."""
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasSVG(figure)
    return figure


def image(name: str, caption: str, figure: Figure, table: bytes = b"") -> Image:
    """A drawn figure as a block; the same figure is the same file."""
    content = io.BytesIO()
    with matplotlib.rc_context({"svg.hashsalt": name}):
        figure.savefig(content, format="svg", metadata={"Date": None})
    return Image(name, caption, content.getvalue(), table)


def to_html(title: str, blocks: Iterable[Block]) -> str:
    """One page with everything in it."""
    body = "\n".join(_html(block) for block in blocks)
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{escape(title)}</title>'
    return (
        f'<!doctype html>\n<html lang="en"><head>{head}<style>{_STYLE}</style></head>\n<body>\n{body}\n</body></html>\n'
    )


def _html(block: Block) -> str:
    match block:
        case Heading(level, text):
            return f"<h{level}>{escape(text)}</h{level}>"
        case Text(text):
            return f"<p>{escape(text)}</p>"
        case Items(texts):
            return "<ul>" + "".join(f"<li>{escape(text)}</li>" for text in texts) + "</ul>"
        case Code(text):
            return f"<pre>{escape(text)}</pre>"
        case Details(blocks):
            return "\n".join(map(_html, blocks))
        case Image(name, caption, svg, table):
            image = f'<img alt="{escape(caption)}" src="data:image/svg+xml;base64,{_base64(svg)}">'
            numbers = f"data:text/csv;base64,{_base64(table)}"
            link = f' <a download="{escape(name)}.csv" href="{numbers}">The numbers (CSV)</a>' if table else ""
            return f"<figure>{image}<figcaption>{escape(caption)}{link}</figcaption></figure>"
        case Grid(header, lines):
            return f'<div class="wide"><table>{_head(header)}<tbody>{"".join(map(_line, lines))}</tbody></table></div>'


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()


def _head(header: Sequence[tuple[str, Sequence[str]]]) -> str:
    names = "".join(f"<th>{escape(name)}</th>" for _, group in header for name in group)
    if not any(title for title, _ in header):
        return f"<thead><tr>{names}</tr></thead>"
    groups = "".join(f'<th colspan="{len(group)}">{escape(title)}</th>' for title, group in header)
    return f"<thead><tr>{groups}</tr><tr>{names}</tr></thead>"


def _line(line: Sequence[tuple[str, bool]]) -> str:
    cells = (f"<td><b>{escape(text)}</b></td>" if bold else f"<td>{escape(text)}</td>" for text, bold in line)
    return f"<tr>{''.join(cells)}</tr>"


def to_markdown(blocks: Iterable[Block]) -> str:
    """The same as text; a group of columns is named in each of its columns."""
    return "\n\n".join(_markdown(block) for block in blocks if not isinstance(block, Details)) + "\n"


def _markdown(block: Heading | Text | Items | Grid | Image | Code) -> str:
    match block:
        case Heading(level, text):
            return "#" * level + f" {text}"
        case Text(text):
            return text
        case Items(texts):
            return "\n".join(f"- {text}" for text in texts)
        case Code(text):
            return f"```\n{text}\n```"
        case Image(name, caption, _, table):
            link = f" [The numbers (CSV)](figures/{name}.csv)" if table else ""
            return f"![{caption}](figures/{name}.svg)\n\n*{caption}*{link}"
        case Grid(header, lines):
            names = [f"{title} {name}".strip() for title, group in header for name in group]
            rows = [[f"**{text}**" if bold and text else text for text, bold in line] for line in lines]
            return "\n".join(_row(row) for row in [names, ["---"] * len(names), *rows])


def _row(texts: Sequence[str]) -> str:
    return "| " + " | ".join(text.replace("|", "\\|") for text in texts) + " |"

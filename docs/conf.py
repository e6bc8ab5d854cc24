"""How Sphinx builds these pages: Markdown, docstrings as they stand in the source, and formulas without a script."""

import re
from importlib.metadata import version as installed

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx import addnodes
from sphinx.util import logging

project = "pacoh"
author = copyright = "The pacoh developers"
version = release = installed("pacoh")

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.autosummary", "sphinx.ext.viewcode"]
myst_enable_extensions = ["dollarmath", "colon_fence"]
myst_heading_anchors = 3
exclude_patterns = ["_build"]

html_theme = "furo"
html_title = "pacoh"
html_math_renderer = "mathml"
html_copy_source = False

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
autodoc_inherit_docstrings = False
autodoc_default_options = {"members": True}
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 100

# Types of other packages have no page here, and nothing is fetched to find theirs; nor have parts inside the library.
_OTHERS = "numpy|jax|jaxlib|jaxtyping|equinox|optuna|collections|typing|pathlib|abc|types"
_INSIDE = "data|encoding|environments|inference|learners|priors|ranges|theory|types|recipes|tuning|transfer"
nitpick_ignore_regex = [("py:.*", rf"({_OTHERS}|pacoh\.({_INSIDE}))\..*"), ("py:.*", "Any|Key|Params|Scalar|Trained")]

_GENERATED = ("choosing", "sklearn", "report", "reproduction")
_ARRAY = "jaxlib._jax.Array"
_SEEDS = re.compile(r"Key\[.*UInt32\[[^]]*\]")
_PROTECTED = re.compile(r"`+[^`]*`+")
_SPECIAL = re.compile(r"([*|\\])|(?<=\w)_(?!\w)")


def _to_rst(line: str) -> str:
    """Plain text with `code` as reStructuredText: code stays code, and no other sign means anything."""
    parts, end = [], 0
    for found in _PROTECTED.finditer(line):
        parts += [_SPECIAL.sub(r"\\\g<0>", line[end : found.start()]), f"``{found[0].strip('`')}``"]
        end = found.end()
    return "".join([*parts, _SPECIAL.sub(r"\\\g<0>", line[end:])])


def _plain_docstring(app, what, name, obj, options, lines: list[str]) -> None:
    """Docstrings are plain text; examples are left as they are."""
    del app, what, name, obj, options
    example = False
    for i, line in enumerate(lines):
        example = line.lstrip().startswith(">>>") or (example and bool(line.strip()))
        if not example:
            lines[i] = _to_rst(line)


def _without_absent(app, name: str, source: list[str]) -> None:
    """Leaves pages that are generated, and may not have been yet, out of the table of contents."""
    if name == "index":
        absent = set(_GENERATED) - set(app.env.found_docs)
        source[0] = "\n".join(line for line in source[0].split("\n") if line not in absent)


def _short_types(app, tree) -> None:
    """Arrays by their short name in every signature."""
    del app
    for signature in tree.findall(addnodes.desc_signature):
        for text in list(signature.findall(nodes.Text)):
            if _ARRAY in text:
                text.parent.replace(text, nodes.Text(_SEEDS.sub("Key", text).replace(_ARRAY, "Array")))


def _formula(self, node) -> None:
    """A formula as MathML, which browsers draw by themselves."""
    try:
        self.body.append(tex2mathml(node.astext(), as_block=isinstance(node, nodes.math_block)))
    except MathError as error:
        logging.getLogger(__name__).warning("formula: %s", error, location=node)
    raise nodes.SkipNode


def setup(app) -> None:
    """Joins the parts above to the build."""
    app.connect("autodoc-process-docstring", _plain_docstring)
    app.connect("source-read", _without_absent)
    app.connect("doctree-read", _short_types)
    app.add_html_math_renderer("mathml", inline_renderers=(_formula, None), block_renderers=(_formula, None))

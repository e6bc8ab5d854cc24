"""The API reference names every public object, and the example in each docstring does what it says."""

import doctest
import importlib
import inspect
import re
from pathlib import Path
from types import ModuleType

import pytest

PAGES = sorted((Path(__file__).parent.parent / "docs" / "api").glob("*.md"))
FACADES = ("pacoh", "pacoh.optimize", "pacoh.bounds", "pacoh.certify", "pacoh.testing", "pacoh.sklearn")  # `__all__`
ROOMS = ("errors", "api", "metrics", "predictive", "categorical", "registry", "bounds.losses", "integrations.optuna")
BESIDES = ("pacoh.reading:Tasks", "pacoh.reading:Split", "pacoh.inference.base:Budget", "pacoh.recipes.base:Shape")
SLOW = ("PacohSampler", "pacoh.report")


def defined_in(room: ModuleType) -> list[str]:
    """The public functions and classes that a module defines itself."""
    named = inspect.getmembers(room, lambda one: inspect.isfunction(one) or inspect.isclass(one))
    return [name for name, one in named if not name.startswith("_") and one.__module__ == room.__name__]


def public() -> dict[str, object]:
    """Every public function and class by the name under which it is imported."""
    found: dict[str, object] = {}
    for name in FACADES:
        module = importlib.import_module(name)
        found |= {f"{name}.{one}": getattr(module, one) for one in module.__all__}
    for name in ROOMS:
        module = importlib.import_module(f"pacoh.{name}")
        found |= {f"pacoh.{name}.{one}": getattr(module, one) for one in defined_in(module)}
    for module, one in (place.split(":") for place in BESIDES):
        found[f"{module}.{one}"] = getattr(importlib.import_module(module), one)
    return {name: one for name, one in found.items() if inspect.isfunction(one) or inspect.isclass(one)}


PUBLIC = public()
ONCE = {id(one): (name, one) for name, one in PUBLIC.items()}.values()  # some have two names


def test_every_public_object_has_an_example():
    assert [name for name, one in PUBLIC.items() if ">>> " not in (one.__doc__ or "")] == []


@pytest.mark.parametrize(
    ("name", "one"),
    [pytest.param(*pair, id=pair[0], marks=[pytest.mark.slow] if pair[0].endswith(SLOW) else []) for pair in ONCE],
)
def test_the_example_in_a_docstring_does_what_it_says(name, one, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    example = doctest.DocTestParser().get_doctest(inspect.getdoc(one) or "", {}, name, None, None)
    said: list[str] = []
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    result = doctest.DocTestRunner(optionflags=flags).run(example, out=said.append)
    assert result.attempted > 0
    assert result.failed == 0, "".join(said)


def test_the_reference_names_every_public_object():
    text = "\n".join(page.read_text() for page in PAGES)
    places = (name.rpartition(".") for name in re.findall(r"^\.\. auto(?:class|function):: (\S+)", text, re.MULTILINE))
    told = {id(getattr(importlib.import_module(module), attribute)) for module, _, attribute in places}
    assert [name for name, one in PUBLIC.items() if id(one) not in told] == []

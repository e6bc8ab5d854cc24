"""Assertions about arrays and trees that say what differs, and by how much."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import equinox as eqx
import jax
import numpy as np

_COMPILED = "/jax/core/compile/backend_compile_duration"


@contextmanager
def compilations() -> Iterator[list[str]]:
    """The names of the functions that jax compiles in the block, in order.

    >>> import jax
    >>> import jax.numpy as jnp
    >>> from pacoh.testing import compilations
    >>> double = jax.jit(lambda x: 2 * x)
    >>> with compilations() as names:
    ...     for x in (jnp.ones(3), jnp.zeros(3)):
    ...         value = double(x)
    >>> len([name for name in names if "lambda" in name])
    1
    """
    names: list[str] = []

    def listen(event: str, duration_secs: float, **facts: Any) -> None:
        del duration_secs
        if event == _COMPILED:
            names.append(str(facts.get("fun_name", "a function")))

    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        yield names
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)


def is_a(value: Any, kind: type, what: str) -> None:
    """A value of the type that the contract says."""
    assert isinstance(value, kind), f"{what} must be a {kind.__name__}, got a {type(value).__name__}"


def is_finite(values: Any, shape: tuple[int, ...], what: str) -> None:
    """Finite numbers of the expected shape."""
    assert values.shape == shape, f"{what} must have shape {shape}, got {values.shape}"
    assert np.isfinite(np.asarray(values)).all(), f"{what} must be finite, got {values}"


def _pairs(first: Any, second: Any, what: str) -> list[tuple[np.ndarray, np.ndarray]]:
    (one, one_tree), (other, other_tree) = (jax.tree.flatten(eqx.filter(t, eqx.is_array)) for t in (first, second))
    shapes = [[np.shape(leaf) for leaf in leaves] for leaves in (one, other)]
    assert one_tree == other_tree, f"{what} differ in structure"
    assert shapes[0] == shapes[1], f"{what} differ in shapes: {shapes[0]} and {shapes[1]}"
    return [(np.asarray(a), np.asarray(b)) for a, b in zip(one, other, strict=True)]


def are_equal(first: Any, second: Any, what: str) -> None:
    """Equal to the last bit, leaf by leaf."""
    for a, b in _pairs(first, second, what):
        assert a.tobytes() == b.tobytes(), f"{what} differ, by up to {np.abs(a - b).max():.2g}"


def are_close(first: Any, second: Any, tolerance: float, what: str) -> None:
    """Equal up to a tolerance relative to 1 + |value|, leaf by leaf."""
    for a, b in _pairs(first, second, what):
        gap = np.abs(a - b) / (1 + np.abs(b))
        assert (gap <= tolerance).all(), f"{what} differ by {gap.max():.2g}, more than {tolerance:.2g}"

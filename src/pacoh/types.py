"""Names that every module shares.

Axis letters in shape annotations: n tasks, m points of a task, q query points, d inputs, K draws.
"""

from typing import Any, TypeAlias

from jaxtyping import Array, Float, PRNGKeyArray

Key: TypeAlias = PRNGKeyArray
Scalar: TypeAlias = Float[Array, ""]
Params: TypeAlias = Any  # a pytree of arrays


class PacohError(ValueError):
    """Bad input: the message says what was expected, what came and what to do."""


class PacohWarning(UserWarning):
    """The answer is given, but the reader should know something about it."""

"""Names that every module shares.

Axis letters in shape annotations: n tasks, m points of a task, q query points, d inputs, K draws.
"""

from typing import Any, TypeAlias

from jaxtyping import Array, Float, PRNGKeyArray

Key: TypeAlias = PRNGKeyArray
Scalar: TypeAlias = Float[Array, ""]
Params: TypeAlias = Any  # a pytree of arrays

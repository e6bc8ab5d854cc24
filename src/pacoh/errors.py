"""What goes wrong, said in a sentence. Nothing is imported here, so that commands without jax start at once."""


class PacohError(ValueError):
    """Bad input: the message says what was expected, what came and what to do.

    >>> import pacoh
    >>> from pacoh.errors import PacohError
    >>> try:
    ...     pacoh.fit([], "pacoh-gp-map")
    ... except PacohError as error:
    ...     print(str(error).split(". ")[0])
    There are no tasks: the source is empty
    """


class PacohWarning(UserWarning):
    """The answer is given, but the reader should know something about it.

    >>> import warnings
    >>> import pacoh
    >>> from pacoh.errors import PacohWarning
    >>> from pacoh.testing import ragged_tasks
    >>> predictor = pacoh.fit(ragged_tasks(), "pooled-ridge").adapt()
    >>> with warnings.catch_warnings(record=True, action="always") as said:
    ...     predictive = predictor([1e6])
    >>> said[0].category is PacohWarning
    True
    """

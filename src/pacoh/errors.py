"""What goes wrong, said in a sentence. Nothing is imported here, so that commands without jax start at once."""


class PacohError(ValueError):
    """Bad input: the message says what was expected, what came and what to do."""


class PacohWarning(UserWarning):
    """The answer is given, but the reader should know something about it."""

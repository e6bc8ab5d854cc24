"""Meta-learned priors: calibrated predictions from a handful of related data sets."""

from typing import TYPE_CHECKING

from pacoh.threads import keep_apart
from pacoh.version import VERSION

__version__ = VERSION
__all__ = ["Model", "Tune", "__version__", "choose", "fit", "load", "read", "report"]

keep_apart()

if TYPE_CHECKING:
    from pacoh.api import Model, choose, fit, load
    from pacoh.reading import read
    from pacoh.transfer import report
    from pacoh.tuning import Tune


def __getattr__(name: str):
    """The front of the library, imported when first used: `import pacoh` alone starts nothing."""
    if name in ("Model", "choose", "fit", "load"):
        from pacoh import api

        return getattr(api, name)
    if name == "read":
        from pacoh.reading import read

        return read
    if name == "report":
        from pacoh.transfer import report

        return report
    if name == "Tune":
        from pacoh.tuning import Tune

        return Tune
    raise AttributeError(f"module 'pacoh' has no attribute {name!r}")

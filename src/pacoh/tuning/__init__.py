"""Search over methods and settings on validation tasks, or by leaving tasks out, within a budget."""

from pacoh.tuning.choice import Choice, Tune
from pacoh.tuning.folds import Fold, environment_folds, leave_out_folds
from pacoh.tuning.methods import SECONDS, choose_method
from pacoh.tuning.rule import guarded, rule
from pacoh.tuning.search import Effort, Range, Report, search
from pacoh.tuning.space import SPACES

__all__ = [
    "SECONDS",
    "SPACES",
    "Choice",
    "Effort",
    "Fold",
    "Range",
    "Report",
    "Tune",
    "choose_method",
    "environment_folds",
    "guarded",
    "leave_out_folds",
    "rule",
    "search",
]

"""Search over settings on validation tasks, or by leaving tasks out, within a budget."""

from pacoh.tuning.choice import Tune
from pacoh.tuning.folds import Fold, environment_folds, leave_out_folds
from pacoh.tuning.search import Effort, Range, Report, search
from pacoh.tuning.space import SPACES

__all__ = ["SPACES", "Effort", "Fold", "Range", "Report", "Tune", "environment_folds", "leave_out_folds", "search"]

"""Search over settings on validation tasks, or by leaving tasks out, within a budget."""

from pacoh.tuning.folds import Fold, environment_folds, leave_out_folds
from pacoh.tuning.search import Range, Report, search

__all__ = ["Fold", "Range", "Report", "environment_folds", "leave_out_folds", "search"]

"""PAC-Bayesian bounds that return their terms, and the two case studies in which they can be evaluated.

NumPy and SciPy in float64. Each function's first line is its formula with its section in docs/theory.md.
"""

from pacoh.bounds.base import Bound, Setting
from pacoh.bounds.certificate import Certificate, certify
from pacoh.bounds.cgf import Gap, SquaredLoss, joint_log_moment, log_moment
from pacoh.bounds.comparison import amit_meir, pentina_lampert
from pacoh.bounds.linear import Gaussian, LinearPacoh, LinearTasks
from pacoh.bounds.meta import (
    Cgf,
    bounded,
    gibbs_bound,
    improvement,
    meta_bound,
    pacoh_bound,
    per_task_bound,
    sub_gamma,
    sub_gaussian,
)
from pacoh.bounds.problem import evaluate
from pacoh.bounds.single import catoni, gibbs_single_bound, maurer_seeger, single_bound

__all__ = [
    "Bound",
    "Certificate",
    "Cgf",
    "Gap",
    "Gaussian",
    "LinearPacoh",
    "LinearTasks",
    "Setting",
    "SquaredLoss",
    "amit_meir",
    "bounded",
    "catoni",
    "certify",
    "evaluate",
    "gibbs_bound",
    "gibbs_single_bound",
    "improvement",
    "joint_log_moment",
    "log_moment",
    "maurer_seeger",
    "meta_bound",
    "pacoh_bound",
    "pentina_lampert",
    "per_task_bound",
    "single_bound",
    "sub_gamma",
    "sub_gaussian",
]

"""Bounds on the entropy of Gaussian mixtures and on the mutual information of an ensemble of them.

Everything is in nats and holds for any leading axes.
"""

from milb.bounds.huber import (
    entropy_lower_bound,
    entropy_upper_bound,
    log_overlap_gap,
    mi_lower_bound,
    mi_lower_bound_maximum,
)
from milb.bounds.reference import MonteCarlo, mi_monte_carlo

__all__ = [
    "MonteCarlo",
    "entropy_lower_bound",
    "entropy_upper_bound",
    "log_overlap_gap",
    "mi_lower_bound",
    "mi_lower_bound_maximum",
    "mi_monte_carlo",
]

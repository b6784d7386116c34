"""Bounds on the entropy of Gaussian mixtures and on the mutual information of an ensemble of them.

Everything is in nats and holds for any leading axes, and takes a `milb.Mixture` (log_weights, means, variances, at
O(M^2 D) operations for M components) or a `milb.FullMixture` (log_weights, means, cholesky, at O(M^2 D^3)).
"""

from milb.bounds.certificate import entropy_upper_bound_moments, mi_certificate, mi_upper_bound
from milb.bounds.disagreement import (
    log_disagreement_gap,
    mi_disagreement,
    mi_lower_bound_members,
    mi_pairwise,
)
from milb.bounds.huber import (
    entropy_lower_bound,
    entropy_upper_bound,
    log_matched_gap,
    log_overlap_gap,
    mi_lower_bound,
    mi_lower_bound_maximum,
    mi_matched,
)
from milb.bounds.pairwise import entropy_lower_bound_chernoff, entropy_upper_bound_kl
from milb.bounds.quadrature import entropy_quadrature, mi_quadrature, quadrature_nodes
from milb.bounds.reference import MonteCarlo, mi_monte_carlo

__all__ = [
    "MonteCarlo",
    "entropy_lower_bound",
    "entropy_lower_bound_chernoff",
    "entropy_quadrature",
    "entropy_upper_bound",
    "entropy_upper_bound_kl",
    "entropy_upper_bound_moments",
    "log_disagreement_gap",
    "log_matched_gap",
    "log_overlap_gap",
    "mi_certificate",
    "mi_disagreement",
    "mi_lower_bound",
    "mi_lower_bound_maximum",
    "mi_lower_bound_members",
    "mi_matched",
    "mi_monte_carlo",
    "mi_pairwise",
    "mi_quadrature",
    "mi_upper_bound",
    "quadrature_nodes",
]

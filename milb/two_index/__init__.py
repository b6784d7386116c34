"""The Two-Index framework of the paper's section 2: Y = g(x; Z, epsilon), and both decompositions of its uncertainty.

`model` says what a model must offer, `decomposition` and `estimators` what can be computed from arrays. The example
families of Appendix B are a file each: `conditional_vae`, `flow_matching`, `bayesian_classifier`, `epinet`, and milb's
own `mixture_ensemble`, each with a `fit`; `examples` has data for them.
"""

from milb.two_index.decomposition import (
    Decomposition,
    Interval,
    entropy_bounds_mixture,
    entropy_decomposition_categorical,
    entropy_decomposition_log_densities,
    epistemic_standard_error,
    mutual_information_range,
    variance_decomposition,
    variance_decomposition_mixture,
)
from milb.two_index.estimators import (
    entropy_decomposition_kernel,
    entropy_decomposition_nearest_neighbours,
    entropy_nearest_neighbours,
    kernel_log_densities,
)
from milb.two_index.fitting import SETTINGS, Settings, settings
from milb.two_index.model import (
    TwoIndexModel,
    check_model,
    cross_log_densities,
    decompose_entropy,
    decompose_variance,
    epistemic_indices,
    sample,
)

__all__ = [
    "SETTINGS",
    "Decomposition",
    "Interval",
    "Settings",
    "TwoIndexModel",
    "check_model",
    "cross_log_densities",
    "decompose_entropy",
    "decompose_variance",
    "entropy_bounds_mixture",
    "entropy_decomposition_categorical",
    "entropy_decomposition_kernel",
    "entropy_decomposition_log_densities",
    "entropy_decomposition_nearest_neighbours",
    "entropy_nearest_neighbours",
    "epistemic_indices",
    "epistemic_standard_error",
    "kernel_log_densities",
    "mutual_information_range",
    "sample",
    "settings",
    "variance_decomposition",
    "variance_decomposition_mixture",
]

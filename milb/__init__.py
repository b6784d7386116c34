"""milb: active learning where outputs come in several modes, by a lower bound on mutual information."""

from milb.devices import use_cpu_cores
from milb.full_mixture import FullMixture
from milb.mixture import Mixture

__version__ = "0.1.0"
__all__ = ["FullMixture", "Mixture", "use_cpu_cores"]

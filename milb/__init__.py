"""milb: active learning where outputs come in several modes, by a lower bound on mutual information."""

from typing import TYPE_CHECKING, Any

from milb.devices import use_cpu_cores
from milb.full_mixture import FullMixture
from milb.mixture import Mixture

if TYPE_CHECKING:
    from milb.ask_tell import Learner

__version__ = "0.1.0"
__all__ = ["FullMixture", "Learner", "Mixture", "use_cpu_cores"]


def __getattr__(name: str) -> Any:
    """`milb.Learner`, which brings networks along, when it is first asked for."""
    if name != "Learner":
        raise AttributeError(f"module 'milb' has no attribute {name!r}")
    from milb.ask_tell import Learner

    return Learner

"""Many runs: a grid of them, in lockstep on one machine's devices, resumable, spread over machines."""

from milb.study.cluster import connect
from milb.study.grid import OWN_STRATEGIES, PAPER_STRATEGIES, Arm, Group, grid
from milb.study.runner import run
from milb.study.tables import curves, export, maker, picks, results

__all__ = [
    "OWN_STRATEGIES", "PAPER_STRATEGIES", "Arm", "Group",
    "connect", "curves", "export", "grid", "maker", "picks", "results", "run",
]  # fmt: skip

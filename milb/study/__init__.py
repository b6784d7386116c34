"""Many runs: a grid of them, in lockstep on one device, resumable, spread over machines."""

from milb.study.grid import OWN_STRATEGIES, PAPER_STRATEGIES, Arm, Group, grid
from milb.study.runner import run, run_group

__all__ = ["OWN_STRATEGIES", "PAPER_STRATEGIES", "Arm", "Group", "grid", "run", "run_group"]

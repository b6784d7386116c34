"""Benchmark problems by name."""

from milb.problems.double_well import DoubleWell
from milb.problems.multimodal import Multimodal
from milb.problems.problem import Dataset, Problem
from milb.problems.ternary import Ternary

PROBLEMS: dict[str, Problem] = {problem.name: problem for problem in (Multimodal(), DoubleWell(), Ternary())}

__all__ = ["PROBLEMS", "Dataset", "Problem"]

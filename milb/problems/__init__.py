"""Benchmark problems by name."""

from milb.problems.double_well import DoubleWell
from milb.problems.problem import Dataset, Problem

PROBLEMS: dict[str, Problem] = {problem.name: problem for problem in (DoubleWell(),)}

__all__ = ["PROBLEMS", "Dataset", "Problem"]

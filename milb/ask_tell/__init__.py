"""Active learning on your own problem: ask which rows of a pool to measure, tell what came out, save, resume."""

from milb.ask_tell.learner import DEFAULT_STRATEGY, Learner
from milb.ask_tell.prediction import Prediction
from milb.ask_tell.report import Report

__all__ = ["DEFAULT_STRATEGY", "Learner", "Prediction", "Report"]

"""Active learning on your own problem: ask which rows of a pool to measure, tell what came out, save, resume."""

from milb.ask_tell.learner import Learner
from milb.ask_tell.prediction import Prediction
from milb.ask_tell.report import Report

__all__ = ["Learner", "Prediction", "Report"]

"""Figures: one function each, data in, figure out, nothing shown and nothing saved unless asked to."""

from milb.plots import bounds, comparison, curves, double_well, multimodal, saturation, sphere, study, ternary
from milb.plots.sliders import explore
from milb.plots.style import STRATEGY_STYLES, figure, save, strategy_style

__all__ = [
    "STRATEGY_STYLES",
    "bounds",
    "comparison",
    "curves",
    "double_well",
    "explore",
    "figure",
    "multimodal",
    "saturation",
    "save",
    "sphere",
    "strategy_style",
    "study",
    "ternary",
]

"""Figures: one function each, data in, figure out, nothing shown and nothing saved unless asked to."""

from milb.plots import (
    comparison,
    curves,
    double_well,
    multimodal,
    one_input,
    replay,
    saturation,
    sphere,
    study,
    ternary,
)
from milb.plots.sliders import explore
from milb.plots.style import STRATEGY_STYLES, figure, save, strategy_style

__all__ = [
    "STRATEGY_STYLES",
    "comparison",
    "curves",
    "double_well",
    "explore",
    "figure",
    "multimodal",
    "one_input",
    "replay",
    "saturation",
    "save",
    "sphere",
    "strategy_style",
    "study",
    "ternary",
]

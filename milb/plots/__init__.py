"""Figures: one function each, data in, figure out, nothing shown and nothing saved unless asked to."""

from milb.plots import (
    bounds,
    comparison,
    curves,
    double_well,
    families,
    multimodal,
    one_input,
    own_problem,
    replay,
    saturation,
    sphere,
    study,
    ternary,
    two_index,
)
from milb.plots.sliders import explore
from milb.plots.style import STRATEGY_STYLES, figure, save, strategy_style

__all__ = [
    "STRATEGY_STYLES",
    "bounds",
    "comparison",
    "curves",
    "double_well",
    "explore",
    "families",
    "figure",
    "multimodal",
    "one_input",
    "own_problem",
    "replay",
    "saturation",
    "save",
    "sphere",
    "strategy_style",
    "study",
    "ternary",
    "two_index",
]

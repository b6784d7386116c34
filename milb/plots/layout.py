"""What figures with many small panels share: the grid, titles, labels at its edge, and scatters of bearable size."""

from collections.abc import Mapping
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from jaxtyping import Float
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import AutoLocator, LogFormatter, LogLocator, MaxNLocator, NullLocator, ScalarFormatter

from milb.plots.style import strategy_style

MAX_POINTS = 5_000  # in one scatter; of more, evenly spaced ones are drawn
MAX_COLUMNS = 5
WIDTH = 8.0  # inches, of a full row


def thinned(points: Float[np.ndarray, "n d"], at_most: int = MAX_POINTS) -> Float[np.ndarray, "m d"]:
    """All points, or evenly spaced ones of them."""
    if len(points) <= at_most:
        return points
    return points[np.linspace(0, len(points) - 1, at_most).astype(int)]


def panels(n: int, height: float = 1.5) -> tuple[Figure, list[Axes]]:
    """A figure with n panels in rows of at most MAX_COLUMNS, which share both axes; what is left of the grid is empty.

    Args:
        n: at least 1.
        height: of a row, in inches.
    """
    columns = min(n, MAX_COLUMNS)
    rows = -(-n // columns)
    size = (max(4.4, WIDTH * columns / MAX_COLUMNS), 0.7 + height * rows)
    fig, grid = plt.subplots(rows, columns, figsize=size, sharex=True, sharey=True, squeeze=False)
    for ax in grid.flat[n:]:
        ax.set_axis_off()
    return fig, list(grid.flat[:n])


def label_edge(fig: Figure, xlabel: str, ylabel: str) -> None:
    """Labels of the axes that all panels share, and ticks where the grid of filled `panels` ends."""
    axes = [ax for ax in fig.axes if ax.has_data()]
    for i, ax in enumerate(axes):
        ax.tick_params(labelbottom=i + MAX_COLUMNS >= len(axes))
    fig.supxlabel(xlabel, fontsize=9)
    fig.supylabel(ylabel, fontsize=9)


def legend(fig: Figure, marks: Mapping[str, Artist], **looks: Any) -> None:
    """A legend (marks by label) in the empty part of the grid of `panels`, or above the panels if it is full."""
    empty = [ax for ax in fig.axes if not ax.has_data()]
    if empty:
        empty[0].legend(marks.values(), marks.keys(), loc="center left", borderaxespad=0, **looks)
    else:
        fig.legend(marks.values(), marks.keys(), loc="outside upper right", ncols=len(marks), **looks)


def strategy_title(ax: Axes, name: str, line: str = "") -> None:
    """The strategy's name above its panel, and a line under it."""
    ax.set_title("\n".join(filter(None, (strategy_style(name)["label"], line))), fontsize=8.5)


def placed_by_hand(width: float, height: float) -> Figure:
    """An empty figure, inches, whose axes stay where they are put: a layout engine takes half of the drawing time."""
    fig = plt.figure(figsize=(width, height))
    fig.set_layout_engine("none")  # afterwards: told at once, it turns to the style sheet's engine when it is saved
    return fig


def few_ticks(ax: Axes) -> None:
    """Few ticks an axis, none of them minor: ticks are most of the time that drawing a small figure takes.

    Set limits first. Axes that are neither linear nor logarithmic to base 10, and ticks set by hand, stay as they are.
    """
    for axis in (ax.xaxis, ax.yaxis):
        locator = axis.get_major_locator()
        low, high = sorted(axis.get_view_interval())
        few = MaxNLocator(4, steps=[1, 2, 5, 10])
        if isinstance(locator, LogLocator):
            if axis.get_transform().base != 10:
                continue
            by_decade = LogLocator() if high > 100 * low else LogLocator(subs=(1, 2, 5))
            axis.set_major_locator(by_decade if high >= 10 * low else few)
            if high <= 100 * low and isinstance(axis.get_major_formatter(), LogFormatter):  # labels few of them
                axis.set_major_formatter("{x:g}" if high >= 10 * low else ScalarFormatter())
        elif isinstance(locator, AutoLocator):
            axis.set_major_locator(few)
        else:
            continue
        axis.set_minor_locator(NullLocator())

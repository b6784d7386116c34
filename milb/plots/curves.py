"""Learning curves: how the test error falls with the number of labels.

A *table of runs* has one row for every model trained: the columns of `milb.learner.Run.history`, and `strategy`,
`seed` and, where a seed was run with several, `training_seed`. Strategies are drawn in the order in which they first
appear. Error axes are logarithmic; if a value is not positive, linear below 10 nats.
"""

import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from milb.plots.style import figure, strategy_style

LINEAR_BELOW = 10.0  # nats, of an error axis that has to show values that are not positive
# What the released code calls its strategies, and what milb calls the same computation.
RELEASED_NAMES = {"random": "random", "mi-lb": "mi-lb-released"}
NLL_LABEL = "test NLL, mean over points (nats)"


class Recorded(NamedTuple):
    """A table from a file, and what the comment lines above it say about its making."""

    table: pd.DataFrame
    notes: tuple[str, ...]


def read_recorded(path: Path) -> Recorded:
    """Read a csv whose first lines, beginning with #, say what produced it. FileNotFoundError when there is none."""
    with path.open(encoding="utf-8") as file:
        notes = tuple(line.lstrip("#").strip() for line in file if line.startswith("#"))
    return Recorded(pd.read_csv(path, comment="#"), notes)


@figure
def learning_curves(table: pd.DataFrame, column: str = "nll_mean", label: str = NLL_LABEL) -> Figure:
    """A column of a table of runs against the number of labels.

    The mean over runs (line with markers), their range (band) and each run (thin line). The mean ends where the first
    of a strategy's runs does.

    Raises:
        ValueError: the table lacks a column, is empty, or has a number of labels twice in one run.
    """
    runs = _runs(table, column)
    fig, ax = plt.subplots(figsize=(6.2, 3.4))
    _draw_runs(ax, runs)
    log_axis(ax, table[column])
    ax.set(xlabel="labels n", ylabel=label, title=_how_many_runs(table))
    ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    return fig


@figure
def error_quantiles(table: pd.DataFrame) -> Figure:
    """Mean, median and 10-90 % range of the test points' NLL against the number of labels, a panel a strategy.

    Each is averaged over the runs of a strategy. Errors as `learning_curves`.
    """
    columns = ("nll_mean", "nll_median", "nll_q10", "nll_q90")
    groups = {column: _runs(table, column) for column in columns}
    names = list(groups["nll_mean"])
    fig, axes = plt.subplots(1, len(names), figsize=panel_size(len(names)), sharey=True, squeeze=False)
    for ax, name in zip(axes[0], names, strict=True):
        mean, median, low, high = (groups[column][name].mean(axis=1, skipna=False) for column in columns)
        style = strategy_style(name)
        ax.fill_between(mean.index, low, high, color=style["color"], alpha=0.2, lw=0)
        ax.plot(median.index, median, color=style["color"], ls="solid")
        ax.plot(mean.index, mean, color=style["color"], ls="none", marker=style["marker"])
        ax.set(title=style["label"], xlabel="labels n")
    log_axis(axes[0, 0], table[list(columns)])
    axes[0, 0].set_ylabel("test NLL (nats)")
    grey = "#555555"
    marks = {
        "mean of the test points": Line2D([], [], color=grey, marker="o", ls="none"),
        "median": Line2D([], [], color=grey),
        "10–90 % of the points": Patch(color=grey, alpha=0.3, lw=0),
    }
    fig.legend(marks.values(), marks.keys(), loc="outside upper right", ncols=3)
    return fig


@figure
def saturated_share(table: pd.DataFrame) -> Figure:
    """Share of the unlabelled pool whose MI-LB is within 0.01 nat of its maximum, against the number of labels.

    Runs of strategies that do not score by MI-LB are left out. ValueError when none is left, else as
    `learning_curves`.
    """
    scored = _scored_by_mi_lb(table)
    shares = _runs(scored, "saturated_share")
    fig, ax = plt.subplots(figsize=(6.2, 2.7))
    _draw_shares(ax, shares)
    ax.set_title(_how_many_runs(scored))
    ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    return fig


@figure
def against_released(table: pd.DataFrame, released: pd.DataFrame, notes: Sequence[str]) -> Figure:
    """A table of runs beside the released code's curves, and the saturated share of the pool.

    Args:
        table: of runs.
        released: columns strategy, seed, n, test_nll; drawn dashed, with open markers.
        notes: lines on protocol, device and date, written above; long ones are broken.

    Raises:
        ValueError: as `learning_curves` for either table, and as `saturated_share`.
    """
    ours, theirs = _runs(table, "nll_mean"), _runs(released, "test_nll")
    shares = _runs(_scored_by_mi_lb(table), "saturated_share")
    fig, (errors, saturation) = plt.subplots(1, 2, figsize=(8.0, 3.9), width_ratios=(1.7, 1))
    _draw_runs(errors, ours)
    for name, runs in theirs.items():
        looks = strategy_style(RELEASED_NAMES.get(name, name))
        looks |= {"label": f"{strategy_style(name)['label']}: released code", "linestyle": (0, (3, 3))}
        errors.plot(runs.index, runs, **looks, mfc="white", ms=6.5, lw=1.0, zorder=1.5)
    log_axis(errors, table["nll_mean"])
    errors.set(xlabel="labels n", ylabel=NLL_LABEL)
    _draw_shares(saturation, shares)
    handles, labels = errors.get_legend_handles_labels()
    fig.legend(handles, labels, loc="outside lower center", ncols=4)
    caption = "\n".join(textwrap.fill(note, 130) for note in notes)
    fig.suptitle(caption, fontsize=7.5, x=0.01, ha="left", color="#333333")
    return fig


def panel_size(n_panels: int, n_rows: float = 1) -> tuple[float, float]:
    """Width and height in inches of a figure with so many small panels in a row, and rows of such a height."""
    width = float(np.clip(2.0 * n_panels, 4.4, 8.0))
    return width, 0.3 + 2.2 * n_rows


def _runs(table: pd.DataFrame, column: str) -> dict[str, pd.DataFrame]:
    """For each strategy, in order of appearance: a column against n (the index), one column a run."""
    needed = ("strategy", "seed", "n", column)
    missing = [name for name in needed if name not in table]
    if missing:
        raise ValueError(f"the table must have the columns {', '.join(needed)}; it lacks {', '.join(missing)}")
    if table.empty:
        raise ValueError("the table has no rows")
    run = [name for name in ("seed", "training_seed") if name in table]
    double = table.duplicated(["strategy", *run, "n"])
    if double.any():
        row = table[double].iloc[0]
        raise ValueError(f"n = {row['n']} occurs twice in the run of {row['strategy']!r} with seed {row['seed']}")
    strategies = table.groupby("strategy", sort=False)
    return {str(name): rows.pivot(index="n", columns=run, values=column) for name, rows in strategies}


def _scored_by_mi_lb(table: pd.DataFrame) -> pd.DataFrame:
    if "saturated_share" in table and table["saturated_share"].notna().any():
        return table[table["saturated_share"].notna()]
    raise ValueError("the table must have a column saturated_share with values")


def _draw_runs(ax: Axes, strategies: dict[str, pd.DataFrame]) -> None:
    for name, runs in strategies.items():
        style = strategy_style(name)
        ax.plot(runs.index, runs.mean(axis=1, skipna=False), **style, zorder=3)
        if runs.shape[1] > 1:
            ax.plot(runs.index, runs, color=style["color"], lw=0.6, alpha=0.7, zorder=2)
            ax.fill_between(runs.index, runs.min(axis=1), runs.max(axis=1), color=style["color"], alpha=0.13, lw=0)


def _draw_shares(ax: Axes, shares: dict[str, pd.DataFrame]) -> None:
    _draw_runs(ax, shares)
    ax.set(xlabel="labels n", ylabel="saturated share of the pool", ylim=(-0.02, 1.02))


def log_axis(ax: Axes, values: pd.DataFrame | pd.Series, axis: str = "y", small: bool = False) -> None:
    """Logarithmic, of whole numbers where they span a decade; linear below LINEAR_BELOW where some are not positive.

    On a small panel, as many ticks as fit between the limits of the axis.
    """
    scale, on_axis = (ax.set_yscale, ax.yaxis) if axis == "y" else (ax.set_xscale, ax.xaxis)
    low, high = np.nanmin(values.to_numpy(float)), np.nanmax(values.to_numpy(float))
    if low <= 0:
        scale("symlog", linthresh=LINEAR_BELOW)
        return
    scale("log")
    if small:
        low, high = on_axis.get_view_interval()
        subs = (1,) if high > 200 * low else (1, 2, 5) if high > 5 * low else (1, 1.5, 2, 2.5, 3, 4, 5, 7)
    else:
        subs = (1, 2, 5) if high > 4 * low else tuple(np.arange(1, 10, 0.5 if low > 10 else 0.2))
    on_axis.set_major_locator(LogLocator(subs=subs))
    on_axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
    on_axis.set_minor_formatter(NullFormatter())


def _how_many_runs(table: pd.DataFrame) -> str:
    run = [name for name in ("seed", "training_seed") if name in table]
    n_runs = len(table[run].drop_duplicates())
    return "one run a strategy" if n_runs == 1 else f"mean, range and each of {n_runs} runs a strategy"

"""Strategies side by side: how their errors fall, and how many of their labels went into a region of interest."""

from collections.abc import Mapping

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from milb.plots.curves import log_axis
from milb.plots.layout import label_edge, legend, panels, strategy_title
from milb.plots.style import GUIDE, figure, strategy_style

_OTHERS = {"color": "#bbbbbb", "lw": 0.8}


@figure
def each_against_others(
    table: pd.DataFrame, oracle: float | None = None, column: str = "nll_mean", label: str = "test NLL, mean (nats)"
) -> Figure:
    """A column of a table of runs (see `milb.plots.curves`) against the number of labels, a panel a strategy.

    A panel shows its strategy, mean over runs (thick) and each of several runs (thin), before the means of `random`
    (dotted) and of all others (grey). The second line of its title is where the mean ends, and at which number of
    labels if others go further.

    Args:
        table: of runs, with the columns strategy, seed and n.
        oracle: what no model beats but by luck, a dashed line.
        column, label: what is drawn, and its name on the axis.
    """
    runs = {
        str(name): rows.pivot(index="n", columns="seed", values=column)
        for name, rows in table.groupby("strategy", sort=False)
    }
    means, furthest = {name: run.mean(axis=1, skipna=False) for name, run in runs.items()}, table["n"].max()
    fig, axes = panels(len(runs))
    for ax, (name, run) in zip(axes, runs.items(), strict=True):
        for mean in means.values():
            ax.plot(mean.index, mean, **_OTHERS, zorder=1)
        if "random" in means:
            ax.plot(means["random"].index, means["random"], **_random_line(), zorder=2)
        style = strategy_style(name)
        if run.shape[1] > 1:
            ax.plot(run.index, run, color=style["color"], lw=0.6, zorder=2)
        ax.plot(run.index, means[name], color=style["color"], marker=style["marker"], ms=3.5, zorder=3)
        if oracle is not None:
            ax.axhline(oracle, **GUIDE, zorder=1)
        end, last = _short(means[name].iloc[-1]), run.index[-1]
        strategy_title(ax, name, f"{end} at n = {last:,}" if last < furthest else f"ends at {end}")
    log_axis(axes[0], table[column], small=True)
    label_edge(fig, "labels n", label)
    marks = {
        "in the title": Line2D([], [], color=strategy_style("mi-lb")["color"], marker="D", ms=3.5),
        "its seeds": Line2D([], [], color=strategy_style("mi-lb")["color"], lw=0.6),
        "random": Line2D([], [], **_random_line()),
        "all others": Line2D([], [], **_OTHERS),
    }
    if all(run.shape[1] == 1 for run in runs.values()):
        del marks["its seeds"]
    if oracle is not None:
        marks["oracle"] = Line2D([], [], **GUIDE)
    legend(fig, marks)
    return fig


@figure
def share_of_picks(shares: Mapping[str, float], n_picks: int, pool_share: float, region: str) -> Figure:
    """Share of each strategy's picks that lie in a region, beside the pool's share (line).

    The grey band is `chance_band`.

    Args:
        shares: of the picks, 0 to 1, by strategy.
        n_picks: how many picks each strategy made.
        pool_share: of all points, 0 to 1.
        region: what they lie in, for the axis.
    """
    fig, ax = plt.subplots(figsize=(6.2, 0.9 + 0.22 * len(shares)))
    low, high = chance_band(pool_share, n_picks)
    ax.axvspan(100 * low, 100 * high, color="#eeeeee", zorder=0, label="by chance")
    ax.axvline(100 * pool_share, color="#555555", lw=0.9, label="pool")
    for i, (name, share) in enumerate(shares.items()):
        style = strategy_style(name)
        ax.plot([100 * pool_share, 100 * share], [i, i], color=style["color"], lw=1.2)
        ax.plot(100 * share, i, color=style["color"], marker=style["marker"], ms=6.5, ls="none")
    ax.set_yticks(range(len(shares)), [strategy_style(name)["label"] for name in shares])
    ax.set(xlabel=f"share of the picks {region} (%)", ylim=(len(shares) - 0.4, -0.6))
    ax.grid(axis="y", visible=False)
    ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), handlelength=1.4)
    return fig


def _short(value: float) -> str:
    return f"{value:,.2f}" if abs(value) < 10 else f"{value:,.1f}" if abs(value) < 1_000 else f"{value:,.0f}"


def chance_band(pool_share: float, n_picks: int) -> tuple[float, float]:
    """Where the share of so many picks at random lies 19 times out of 20: two standard deviations around the pool's."""
    spread = 2 * np.sqrt(pool_share * (1 - pool_share) / n_picks)
    return pool_share - spread, pool_share + spread


def _random_line() -> dict[str, object]:
    style = strategy_style("random")
    return {"color": style["color"], "ls": style["linestyle"], "lw": 1.1}

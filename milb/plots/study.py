"""A study's learning curves and final errors, benchmark by benchmark, beside the paper's numbers.

A *table of a study* has the columns benchmark, strategy, seed, n and test_nll: `milb.study.curves`, or the rows of
source "milb" of figures/data/learning_curves.csv.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from milb.plots.curves import NLL_LABEL, log_axis
from milb.plots.layout import few_ticks, placed_by_hand
from milb.plots.style import GUIDE, figure, strategy_style
from milb.study import OWN_STRATEGIES, PAPER_STRATEGIES

BENCHMARKS = ("multimodal", "double_well", "ternary")
COMPARED = (*PAPER_STRATEGIES, *OWN_STRATEGIES)  # what is compared at the last number of labels that all of these have
TOP_K = ("random", "variance", "bait", "core-set", "mi-lb-released", "mi-lb", "mi-pairwise")  # the paper's, and ours
ORACLES = {
    "multimodal": 23.05,
    "ternary": 1.328,
}  # means over the test sets of seeds 0-4; the double-well's is not known
_TITLES = {"multimodal": "multimodal", "double_well": "coupled double-well", "ternary": "ternary phases"}
_PAPER = {"color": "#777777", "lw": 3.5, "alpha": 0.45, "solid_capstyle": "butt"}


def read_curves(data: Path) -> pd.DataFrame:
    """Our rows of learning_curves.csv without changed options, benchmarks in the paper's order."""
    table = pd.read_csv(data / "learning_curves.csv", keep_default_na=False)
    table = table[(table["source"] == "milb") & (table["options"] == "")]
    order = table["benchmark"].map(BENCHMARKS.index)
    return table.assign(order=order).sort_values(["order", "seed", "n"], kind="stable").drop(columns="order")


def in_common(table: pd.DataFrame, strategies: Sequence[str] | None = None) -> pd.DataFrame:
    """A benchmark's rows up to the last number of labels that every one of its runs has come to.

    Args:
        table: of a study, see the module.
        strategies: whose runs; None for all. Others may end earlier; a benchmark without any of them is left out.
    """
    runs = table if strategies is None else table[table["strategy"].isin(strategies)]
    ends = runs.groupby(["benchmark", "strategy", "seed"])["n"].max().groupby("benchmark").min()
    return table[table["n"] <= table["benchmark"].map(ends)]


@figure
def learning_curves(table: pd.DataFrame, strategies: Sequence[str], oracles: Mapping[str, float]) -> Figure:
    """Mean over seeds (line) and their range (band) of some strategies, a panel a benchmark.

    Args:
        table: of a study, see the module.
        strategies: drawn in this order; one that a benchmark lacks is left out there.
        oracles: mean NLL of the true density by benchmark, a dashed line.
    """
    spreads = spread_over_seeds(table)
    fig, axes = plt.subplots(1, len(spreads), figsize=(2.9 * len(spreads), 3.3), squeeze=False)
    for ax, (benchmark, strategy_spreads) in zip(axes[0], spreads.items(), strict=True):
        _draw_spreads(ax, benchmark, strategy_spreads, strategies, oracles)
    axes[0, 0].set_ylabel(NLL_LABEL)
    marks = _marks(list(axes[0]))
    fig.legend(marks.values(), marks.keys(), loc="outside lower center", ncols=min(6, len(marks)))
    return fig


Spreads = dict[str, dict[str, pd.DataFrame]]


def spread_over_seeds(table: pd.DataFrame) -> Spreads:
    """By benchmark and strategy, both in order of appearance: mean, min and max of test_nll over seeds, by n."""
    spreads: Spreads = {str(benchmark): {} for benchmark in table["benchmark"].unique()}
    for (benchmark, name), rows in table.groupby(["benchmark", "strategy"], sort=False):
        runs = rows.pivot(index="n", columns="seed", values="test_nll")
        columns = {"mean": runs.mean(axis=1, skipna=False), "min": runs.min(axis=1), "max": runs.max(axis=1)}
        spreads[benchmark][name] = pd.DataFrame(columns)
    return spreads


@figure
def ticked_curves(spreads: Spreads, ticked: Mapping[str, bool], oracles: Mapping[str, float]) -> Figure:
    """`learning_curves` for an explorer: of the strategies that are ticked, on axes that stay where they are.

    Args:
        spreads: see `spread_over_seeds`; made once.
        ticked: by strategy.
        oracles: as `learning_curves`.
    """
    fig = placed_by_hand(8.4, 4.1)
    width = 0.9 / len(spreads)
    axes = [fig.add_axes((0.09 + i * width, 0.34, width - 0.05, 0.59)) for i in range(len(spreads))]
    for ax, (benchmark, strategy_spreads) in zip(axes, spreads.items(), strict=True):
        _draw_spreads(ax, benchmark, strategy_spreads, [name for name, tick in ticked.items() if tick], oracles)
        every = pd.concat(strategy_spreads.values())
        low, high = min(every["min"].min(), oracles.get(benchmark, np.inf)), every["max"].max()
        ax.set(xlim=(0, 1.05 * every.index.max()), ylim=(0.9 * low if low > 0 else None, 1.1 * high))
        few_ticks(ax)
    axes[0].set_ylabel(NLL_LABEL)
    marks = _marks(axes)
    fig.legend(marks.values(), marks.keys(), loc="upper center", bbox_to_anchor=(0.5, 0.22), ncols=4)
    return fig


def _draw_spreads(
    ax: Axes, benchmark: str, spreads: dict[str, pd.DataFrame], names: Sequence[str], oracles: Mapping[str, float]
) -> None:
    for name in names:
        if name not in spreads:
            continue
        spread, style = spreads[name], strategy_style(name)
        ax.fill_between(spread.index, spread["min"], spread["max"], color=style["color"], alpha=0.15, lw=0)
        ax.plot(spread.index, spread["mean"], **style, ms=3.5, markevery=2)
    if benchmark in oracles:
        ax.axhline(oracles[benchmark], **GUIDE, label="oracle")
    log_axis(ax, pd.concat([spread[["min", "max"]] for spread in spreads.values()]))
    ax.set(title=_TITLES.get(benchmark, benchmark), xlabel="labels n")


def _marks(axes: Sequence[Axes]) -> dict[str, Artist]:
    return {label: mark for ax in axes for mark, label in zip(*ax.get_legend_handles_labels(), strict=True)}


@figure
def final_errors(table: pd.DataFrame, paper: pd.DataFrame, oracles: Mapping[str, float]) -> Figure:
    """Every strategy's error at the last number of labels: each seed, mean and range; the paper's range in grey.

    Args:
        table: of a study, see the module.
        paper: columns benchmark, strategy, n, mean, min, max.
        oracles: as `learning_curves`.
    """
    benchmarks = list(dict.fromkeys(table["benchmark"]))
    names = list(dict.fromkeys(table["strategy"]))
    size = (2.7 * len(benchmarks) + 1.2, 1.3 + 0.24 * len(names))
    fig, axes = plt.subplots(1, len(benchmarks), figsize=size, sharey=True, squeeze=False)
    for ax, benchmark in zip(axes[0], benchmarks, strict=True):
        ours = table[table["benchmark"] == benchmark]
        last, quoted = ours["n"].max(), paper[paper["benchmark"] == benchmark].set_index("strategy")
        for i, name in enumerate(names):
            _draw_final(ax, i, name, ours.loc[(ours["strategy"] == name) & (ours["n"] == last), "test_nll"])
            if name in quoted.index:
                ax.plot(quoted.loc[name, ["min", "max"]].astype(float), [i + 0.28] * 2, **_PAPER)
        if benchmark in oracles:
            ax.axvline(oracles[benchmark], **GUIDE)
        log_axis(ax, pd.concat([ours.loc[ours["n"] == last, "test_nll"], quoted["mean"]]), axis="x")
        their_n = f", paper n = {quoted['n'].iloc[0]:,}" if len(quoted) else ""
        ax.set(title=f"{_TITLES.get(benchmark, benchmark)}\nours n = {last:,}{their_n}", xlabel="test NLL (nats)")
        ax.tick_params(axis="x", labelrotation=30)
    axes[0, 0].set_yticks(range(len(names)), [strategy_style(name)["label"] for name in names])
    axes[0, 0].set_ylim(len(names) - 0.4, -0.6)
    marks = {
        "mean and range of our seeds": Line2D([], [], color="#333333", marker="o", lw=1.2),
        "range of the paper's": Line2D([], [], **_PAPER),
        "oracle": Line2D([], [], **GUIDE),
    }
    fig.legend(marks.values(), marks.keys(), loc="outside lower center", ncols=3)
    return fig


@figure
def beyond_the_others(table: pd.DataFrame, paper: pd.DataFrame, benchmark: str) -> Figure:
    """The runs of one benchmark that have come furthest, seed by seed, and the paper's last errors beside them.

    Args:
        table: of a study, see the module.
        paper: as `final_errors`; mean and range, in a panel of their own, since their axis is not that of labels.
        benchmark: whose runs.
    """
    ours = table[table["benchmark"] == benchmark]
    common, last = in_common(ours)["n"].max(), ours["n"].max()
    names = list(dict.fromkeys(ours.loc[ours["n"] == last, "strategy"]))
    quoted = paper[(paper["benchmark"] == benchmark) & paper["strategy"].isin(names)].set_index("strategy")
    fig, (ax, theirs) = plt.subplots(1, 2, figsize=(7.6, 4.1), sharey=True, width_ratios=(6, 1))
    if common < last:
        ax.axvline(common, **GUIDE, label="all runs have come to here")
    for i, name in enumerate(names):
        rows, style = ours[ours["strategy"] == name], strategy_style(name)
        furthest = rows[rows.groupby("seed")["n"].transform("max") == last]
        runs = furthest.pivot(index="n", columns="seed", values="test_nll")
        ax.plot(runs.index, runs, color=style["color"], lw=0.7)
        ax.plot(runs.index, runs.mean(axis=1), **style, ms=3.5, markevery=2)
        if name in quoted.index:
            low, mean, high = quoted.loc[name, ["min", "mean", "max"]].astype(float)
            theirs.plot([i, i], [low, high], color=style["color"], lw=3.5, alpha=0.45, solid_capstyle="butt")
            theirs.plot(i, mean, color=style["color"], marker=style["marker"], ms=6, ls="none")
    log_axis(ax, pd.concat([ours.loc[ours["strategy"].isin(names), "test_nll"], quoted["min"], quoted["max"]]))
    ax.set(title=f"{_TITLES.get(benchmark, benchmark)}: each seed, and their mean", xlabel="labels n", ylabel=NLL_LABEL)
    theirs.set(title=f"paper,\nn = {quoted['n'].iloc[0]:,}" if len(quoted) else "", xticks=(), xlim=(-1, len(names)))
    marks = _marks([ax]) | {"one seed": Line2D([], [], color="#333333", lw=0.7)}
    if len(quoted):
        marks["the paper's mean and range"] = Line2D([], [], marker="o", ms=6, **_PAPER)
    fig.legend(marks.values(), marks.keys(), loc="outside lower center", ncols=3)
    return fig


def _draw_final(ax: Axes, row: int, name: str, values: pd.Series) -> None:
    if values.empty:
        return
    style = strategy_style(name)
    ax.plot([values.min(), values.max()], [row, row], color=style["color"], lw=1.4)
    ax.plot(values, np.full(len(values), row), color=style["color"], marker="|", ms=5, ls="none")
    ax.plot(values.mean(), row, color=style["color"], marker=style["marker"], ms=6, ls="none")

"""Figures of a problem of one's own: outcomes, what is asked next, forecasts, reports, strategies in pairs."""

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from jaxtyping import Float, Int, Real
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from scipy import stats

from milb.ask_tell.modes import Modes
from milb.plots.layout import legend, thinned
from milb.plots.style import CATEGORY_COLORS, CATEGORY_MARKERS, GUIDE, figure, strategy_style

CONFIDENCE = 0.95
_TRUTH = {"color": "#777777", "lw": 0, "alpha": 0.35}


@figure
def outcomes(
    grid: tuple[Real[np.ndarray, "a"], Real[np.ndarray, "b"]],
    share: Float[np.ndarray, "a b"],
    y: Real[np.ndarray, "n 2"],
    pathway: Int[np.ndarray, "n"],
    labels: Mapping[str, str],
    pathways: Sequence[str],
) -> Figure:
    """Which of two pathways wins, over two inputs; and what comes out, coloured by the one that won.

    Args:
        grid: values of the inputs on the axes.
        share: probability of pathway 0.
        y, pathway: outcomes, and the pathway of each, 0 or 1.
        labels: of the axes: keys x, y (of the map) and first, second (of the outcomes).
        pathways: their names.
    """
    fig, (left, right) = plt.subplots(1, 2, figsize=(8.0, 3.2))
    image = left.pcolormesh(*grid, share.T, cmap="cividis", vmin=0, vmax=1, shading="nearest", rasterized=True)
    left.contour(*grid, share.T, levels=[0.2, 0.5, 0.8], colors="white", linewidths=(0.8, 1.4, 0.8))
    left.set(xlabel=labels["x"], ylabel=labels["y"], title="who wins (white: 20, 50, 80 %)")
    left.grid(visible=False)
    fig.colorbar(image, ax=left, label=f"probability of the {pathways[0]} pathway")
    for which, name in enumerate(pathways):
        points = thinned(y[pathway == which], 1_500)
        looks = {"color": CATEGORY_COLORS[which], "marker": CATEGORY_MARKERS[which]}
        right.scatter(*points.T, s=6, alpha=0.6, **looks, label=name, rasterized=True)
    right.set(xlabel=labels["first"], ylabel=labels["second"], title="what comes out, over all settings")
    right.legend(title="pathway", markerscale=2)
    return fig


@figure
def next_batch(
    pool: Real[np.ndarray, "N 2"],
    labelled: Real[np.ndarray, "n 2"],
    failed: Real[np.ndarray, "f 2"],
    asked: Mapping[str, Float[np.ndarray, "k 2"]],
    xlabel: str,
    ylabel: str,
) -> Figure:
    """The pool over two of its inputs, what is labelled, and what each strategy asks next, a panel a strategy."""
    fig, axes = plt.subplots(1, len(asked), figsize=(8.0, 3.1), sharex=True, sharey=True, squeeze=False)
    for ax, (name, rows) in zip(axes[0], asked.items(), strict=True):
        style = strategy_style(name)
        ax.scatter(*pool.T, s=4, color="#cccccc", rasterized=True)
        ax.scatter(*labelled.T, s=20, facecolor="white", edgecolor="black", zorder=2)
        ax.scatter(*failed.T, s=24, color="black", marker="x", zorder=2)
        ax.scatter(*rows.T, s=34, color=style["color"], marker=style["marker"], zorder=3)
        ax.set(title=style["label"], xlabel=xlabel)
    axes[0, 0].set_ylabel(ylabel)
    dot = {"ls": "none", "marker": "o", "color": "black"}
    marks = {
        "pool": Line2D([], [], **{**dot, "color": "#cccccc"}, ms=3),
        "labelled": Line2D([], [], **dot, mfc="white", ms=5),
        "failed": Line2D([], [], **{**dot, "marker": "x"}, ms=5),
        "asked next (coloured)": Line2D([], [], **{**dot, "marker": "D", "color": "#555555"}, ms=5),
    }
    legend(fig, marks)
    return fig


@figure
def forecast(
    settings: Real[np.ndarray, "S"],
    y: Float[np.ndarray, "G"],
    predicted: Float[np.ndarray, "S G"],
    truth: Float[np.ndarray, "S G"],
    modes: Sequence[Modes],
    step: int,
    labels: Mapping[str, str],
    least_share: float = 0.05,
) -> Figure:
    """The predicted density of one output along one input, and at one value of it beside the true one.

    Args:
        settings: values of the input.
        y: values of the output.
        predicted, truth: densities of y at each setting.
        modes: of the prediction at each setting, all outputs together; the first coordinate is drawn.
        step: which setting the right panel shows.
        labels: of the axes: keys input and output.
        least_share: modes with less are not drawn.
    """
    fig, (left, right) = plt.subplots(1, 2, figsize=(8.0, 3.1), width_ratios=(1.25, 1))
    top = float(np.quantile(predicted, 0.995))
    left.pcolormesh(settings, y, predicted.T, cmap="Blues", vmin=0, vmax=top, shading="nearest", rasterized=True)
    dots = [
        (setting, location[0], share)
        for setting, found in zip(settings, modes, strict=True)
        for location, share in zip(*found, strict=True)
        if share >= least_share
    ]
    where, height, shares = np.array(dots).reshape(-1, 3).T
    left.scatter(where, height, s=25 * shares, color="#D55E00")
    left.axvline(settings[step], color="black", lw=1)
    left.set(xlabel=labels["input"], ylabel=labels["output"], title="forecast (dots: modes, their size: share)")
    left.grid(visible=False)
    right.fill_between(y, truth[step], **_TRUTH, label="truth")
    right.plot(y, predicted[step], color=strategy_style("mi-lb")["color"], label="forecast")
    kept = modes[step].shares >= least_share
    for i, m in enumerate(np.argsort(modes[step].locations[kept, 0])):
        location, share = modes[step].locations[kept][m, 0], modes[step].shares[kept][m]
        right.axvline(location, color="#D55E00", lw=0.8, ls=(0, (3, 2)))
        looks = {"fontsize": 7.5, "va": "bottom", "color": "#A04000", "ha": "center"}
        height = (1.005, 1.06)[i % 2]  # neighbours may be close
        right.annotate(f"{100 * share:.0f} %", (location, height), xycoords=("data", "axes fraction"), **looks)
    title = f"{labels['input']} = {settings[step]:g}, modes of {100 * least_share:g} % or more"
    right.set(xlabel=labels["output"], ylabel="density", ylim=(0, None))
    right.set_title(title, fontsize=9, pad=20)
    fig.legend(loc="outside lower right", ncols=2)
    return fig


@figure
def reports(curve: pd.DataFrame) -> Figure:
    """What a learner found out about itself, against the number of labels.

    Args:
        curve: index n; columns nll, nll_error, unconditional_nll (held out), test_nll (known only for made-up
            problems; left out if it is not there) and certificate_high.
    """
    fig, (left, right) = plt.subplots(1, 2, figsize=(8.0, 2.9), width_ratios=(1.5, 1))
    mine = strategy_style("mi-lb")["color"]
    looks = {"capsize": 2, "marker": "o", "color": mine, "label": "held-out folds, ± error"}
    left.errorbar(curve.index, curve["nll"], curve["nll_error"], **looks)
    without = {"color": "#555555", "ls": (0, (4, 3)), "marker": "s", "ms": 4, "label": "held out, without inputs"}
    left.plot(curve.index, curve["unconditional_nll"], **without)
    if "test_nll" in curve:
        left.plot(curve.index, curve["test_nll"], color="#D55E00", marker="^", label="test set (not known in a lab)")
    left.set(xlabel="labels n", ylabel="NLL (nats)")
    fig.legend(loc="outside lower left", ncols=3)
    right.plot(curve.index, curve["certificate_high"], color=mine, marker="o")
    right.set(xlabel="labels n", ylabel="nats", title="certified information, 90 % quantile", ylim=(0, None))
    return fig


def paired_differences(table: pd.DataFrame, column: str, baseline: str = "random") -> pd.DataFrame:
    """Each strategy's column minus the baseline's of the same seed, with a 95 % interval of the mean (Student's t).

    Args:
        table: columns strategy, seed and `column`, one row for each pair of strategy and seed.
        column: what is compared.
        baseline: a strategy in the table.

    Returns:
        Index strategy, in the table's order; columns mean, low, high, better (of how many seeds it is smaller), and one
        column a seed.

    Raises:
        ValueError: the baseline is not there, or a strategy lacks a seed or has one twice.
    """
    if baseline not in set(table["strategy"]):
        raise ValueError(f"the table has no strategy {baseline!r}")
    wide = table.pivot(index="strategy", columns="seed", values=column)
    if wide.isna().any(axis=None):
        raise ValueError("every strategy must have every seed")
    order = [name for name in dict.fromkeys(table["strategy"]) if name != baseline]
    difference = (wide - wide.loc[baseline]).loc[order]
    n = difference.shape[1]
    half = stats.t.ppf(0.5 + CONFIDENCE / 2, n - 1) * difference.std(axis=1, ddof=1) / np.sqrt(n)
    mean = difference.mean(axis=1)
    summary = pd.DataFrame(
        {"mean": mean, "low": mean - half, "high": mean + half, "better": (difference < 0).sum(axis=1)}
    )
    return pd.concat([summary, difference], axis=1)


@figure
def paired(differences: Mapping[str, pd.DataFrame], label: str) -> Figure:
    """Tables of `paired_differences`, a panel each by its title: every seed, mean and interval; left of 0 is better."""
    first = next(iter(differences.values()))
    size = (8.0, 0.9 + 0.24 * len(first))
    fig, axes = plt.subplots(1, len(differences), figsize=size, sharey=True, squeeze=False)
    for ax, (title, table) in zip(axes[0], differences.items(), strict=True):
        ax.axvline(0, **GUIDE)
        for i, (name, row) in enumerate(table.iterrows()):
            style = strategy_style(name)
            seeds = row.drop(["mean", "low", "high", "better"])
            ax.plot(seeds, np.full(len(seeds), i + 0.2), "|", color=style["color"], ms=5, alpha=0.8)
            ax.plot([row["low"], row["high"]], [i - 0.12, i - 0.12], color=style["color"], lw=2)
            ax.plot(row["mean"], i - 0.12, color=style["color"], marker=style["marker"], ms=6)
        ax.set(title=title, xlabel=label)
    axes[0, 0].set_yticks(range(len(first)), [strategy_style(name)["label"] for name in first.index])
    axes[0, 0].set_ylim(len(first) - 0.4, -0.6)
    marks = {
        "mean and 95 % interval": Line2D([], [], color="#333333", marker="o", lw=2),
        "a seed": Line2D([], [], color="#333333", marker="|", ls="none"),
    }
    fig.legend(marks.values(), marks.keys(), loc="outside lower center", ncols=2)
    return fig

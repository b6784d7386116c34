"""Figures of bounds on entropy and mutual information: how tight, in which order, and what they say of ensembles."""

from collections.abc import Mapping

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from milb.plots.layout import few_ticks, thinned
from milb.plots.style import GUIDE, figure, strategy_style

TRUTH = {"label": "mutual information", "color": "black", "linestyle": (0, (1, 1)), "lw": 2.2, "zorder": 4}
BOUND_STYLES = {
    "mi-lb": {"label": "MI-LB", "color": "#0072B2", "linestyle": "solid"},
    "members": {"label": "member-level", "color": "#E69F00", "linestyle": (0, (5, 2))},
    "certificate": {"label": "certificate", "color": "#009E73", "linestyle": "solid"},
    "upper": {"label": "upper bound", "color": "#D55E00", "linestyle": (0, (5, 1, 1, 1))},
    "matched": {"label": "matched (no bound)", "color": "#CC79A7", "linestyle": (0, (2, 1))},
}
_REACH = 2.0  # nats
_MARKERS = ("o", "s", "D", "^", "v", "P", "X")


@figure
def explorer(
    y: Float[np.ndarray, "n"],
    densities: Float[np.ndarray, "E n"],
    separation: Float[np.ndarray, "r"],
    truth: Float[np.ndarray, "r"],
    values: Mapping[str, Float[np.ndarray, "r"]],
    chosen: int,
    most: float,
) -> Figure:
    """Members' densities at one separation, and every bound against all separations.

    Args:
        y, densities: of the members along the first dimension.
        separation: between members, in standard deviations.
        truth, values: mutual information and the bounds, by names of BOUND_STYLES (nats).
        chosen: index of the separation that the densities belong to, marked in the right panel.
        most: H(w), the largest mutual information.
    """
    fig, (left, right) = plt.subplots(1, 2, figsize=(8.0, 3.1), width_ratios=(1, 1.5))
    for density, color in zip(densities, plt.colormaps["viridis"](np.linspace(0, 0.85, len(densities))), strict=True):
        left.plot(y, density, color=color, lw=1.2)
        left.fill_between(y, density, color=color, alpha=0.15, lw=0)
    left.set(title=f"{len(densities)} members", xlabel="$y_1$", ylabel="density", yticks=())
    _against(right, separation, truth, values)
    right.axhline(most, **GUIDE)
    right.annotate("H(w)", (separation[-1], most), (0, 3), textcoords="offset points", ha="right", fontsize=8)
    right.axvline(separation[chosen], color="#999999", lw=0.9)
    right.set(xlabel="separation (std)", ylabel="nats", title=f"information {truth[chosen]:.2f} nats at the line")
    few_ticks(right)
    right.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    return fig


@figure
def by_dimension(
    separation: Float[np.ndarray, "r"],
    panels: Mapping[int, tuple[Float[np.ndarray, "r"], Mapping[str, Float[np.ndarray, "r"]]]],
) -> Figure:
    """Bounds against separation, a panel a number of dimensions (the keys), with truth and bounds as in `explorer`."""
    fig, axes = plt.subplots(1, len(panels), figsize=(8.0, 2.9), sharey=True, squeeze=False)
    for ax, (n_dimensions, (truth, values)) in zip(axes[0], panels.items(), strict=True):
        _against(ax, separation, truth, values)
        ax.axhline(0, color="#999999", lw=0.8)
        ax.set(title=f"D = {n_dimensions}", xlabel="separation (std)")
    axes[0, 0].set_ylabel("nats")
    fig.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return fig


def _against(ax: Axes, separation: np.ndarray, truth: np.ndarray, values: Mapping[str, np.ndarray]) -> None:
    ax.plot(separation, truth, **TRUTH)
    for name, value in values.items():
        ax.plot(separation, value, **BOUND_STYLES[name])


@figure
def tightness(gaps: pd.DataFrame, ylabel: str) -> Figure:
    """Mean distance of bounds to the truth (rows) for numbers of dimensions (columns), on a logarithmic axis."""
    fig, ax = plt.subplots(figsize=(6.2, 3.1))
    for (name, row), marker in zip(gaps.iterrows(), _MARKERS, strict=False):
        ax.plot(range(len(row)), np.abs(row), marker=marker, label=str(name))
    ax.set(xlabel="output dimensions D", ylabel=ylabel, yscale="log")
    ax.set_xticks(range(gaps.shape[1]), [str(name) for name in gaps.columns])
    ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    return fig


@figure
def against_truth(truth: Float[np.ndarray, "n"], values: Mapping[str, Float[np.ndarray, "n"]]) -> Figure:
    """Every mixture's bound against its mutual information, a panel a bound; nothing certified lies across the line."""
    fig, axes = plt.subplots(1, len(values), figsize=(8.0, 2.9), sharex=True, squeeze=False)
    for ax, (name, value) in zip(axes[0], values.items(), strict=True):
        style = BOUND_STYLES[name]
        points = thinned(np.stack([truth, value], axis=1))
        ax.scatter(*points.T, s=3, color=style["color"], alpha=0.4, rasterized=True)
        ends = np.array([0, truth.max()])
        ax.plot(ends, ends, **GUIDE)
        ax.set(title=style["label"], xlabel="mutual information (nats)")
    axes[0, 0].set_ylabel("bound (nats)")
    return fig


@figure
def agreement(correlations: pd.DataFrame) -> Figure:
    """Rank correlation of scores (rows, names of strategies) with the mutual information, a marker a column."""
    fig, ax = plt.subplots(figsize=(6.4, 0.9 + 0.26 * len(correlations)))
    rows = np.arange(len(correlations))
    colors = ("#332288", "#DDAA33", "#44AA99", "#CC6677")
    for i, (name, column) in enumerate(correlations.items()):
        ax.plot(column, rows, marker=_MARKERS[i], color=colors[i % 4], ls="none", ms=6, label=str(name))
    ax.set_yticks(rows, [strategy_style(str(name))["label"] for name in correlations.index])
    ax.set(xlabel="Spearman correlation with the mutual information", ylim=(len(rows) - 0.5, -0.5))
    ax.set_xlim(right=1.03)
    ax.axvline(1, **GUIDE)
    ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    return fig


@figure
def receiver_operating(
    curves: Mapping[str, Mapping[str, tuple[Float[np.ndarray, "t"], Float[np.ndarray, "t"]]]],
) -> Figure:
    """ROC curves, a panel a problem: share of inputs off the data found, against false alarms, by score."""
    fig, axes = plt.subplots(1, len(curves), figsize=(8.0, 2.9), sharey=True, squeeze=False)
    for ax, (title, by_score) in zip(axes[0], curves.items(), strict=True):
        ax.plot([0, 1], [0, 1], **GUIDE)
        for name, (false_alarms, found) in by_score.items():
            style = strategy_style(name)
            ax.plot(false_alarms, found, color=style["color"], ls=style["linestyle"], label=style["label"])
        ax.set(title=title, xlabel="false alarms", aspect="equal", xticks=(0, 0.5, 1))
    axes[0, 0].set_ylabel("off the data, found")
    fig.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=5)
    return fig


@figure
def asymptotics(table: pd.DataFrame, entropy: float) -> Figure:
    """Information, members' mean entropy and total entropy against the number of labels.

    Entropies further than `_REACH` below the truth stand as numbers at the lower edge.

    Args:
        table: columns model (a label of a line), n, information, aleatoric, total (nats).
        entropy: of the truth, which the last two should come to.
    """
    fig, axes = plt.subplots(1, 3, figsize=(8.0, 3.0), sharex=True)
    titles = {"information": "information I", "aleatoric": "members' mean entropy", "total": "total entropy"}
    for ax, (column, title) in zip(axes, titles.items(), strict=True):
        for (name, rows), marker in zip(table.groupby("model", sort=False), _MARKERS, strict=False):
            (line,) = ax.plot(rows["n"], rows[column], marker=marker, label=str(name))
            below = rows[rows[column] < entropy - _REACH] if column != "information" else rows[:0]
            for n, value in zip(below["n"], below[column], strict=True):
                where = {"xycoords": ("data", "axes fraction"), "textcoords": "offset points", "fontsize": 8}
                ax.annotate(rf"$\downarrow{value:.0f}$", (n, 0), (-5, 4), color=line.get_color(), **where)
        ax.set(title=title, xlabel="labels n", xscale="log")
        if column != "information":
            ax.axhline(entropy, **GUIDE, label="truth")
            ax.set_ylim(bottom=max(ax.get_ylim()[0], entropy - _REACH))
    axes[0].set(yscale="log", ylabel="nats")
    fig.legend(*axes[1].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return fig


@figure
def divergence_limit(divergence: Float[np.ndarray, "n"], limit: Float[np.ndarray, "n"]) -> Figure:
    """KL(p_z || p) against its limit 2 M_C TV(p_z, p), which it must not exceed (line)."""
    fig, ax = plt.subplots(figsize=(4.6, 3.2))
    ax.scatter(limit, divergence, s=5, color="#0072B2", alpha=0.5, rasterized=True)
    ends = np.array([limit.min(), limit.max()])
    ax.plot(ends, ends, **GUIDE)
    ax.set(xlabel=r"$2 M_C \mathrm{TV}(p_z, p)$", ylabel=r"$\mathrm{KL}(p_z \| p)$ (nats)", xscale="log", yscale="log")
    return fig


@figure
def search(ratios: pd.DataFrame) -> Figure:
    """Error relative to mi-lb of every arm of the search (rows, best first), a marker a benchmark (columns).

    The thick end of a row is its worst benchmark, by which arms are ordered.
    """
    fig, ax = plt.subplots(figsize=(6.8, 0.9 + 0.22 * len(ratios)))
    rows = np.arange(len(ratios))
    ax.hlines(rows, ratios.min(axis=1), ratios.max(axis=1), color="#cccccc", lw=1.0, zorder=1)
    for i, (name, column) in enumerate(ratios.items()):
        color = ("#332288", "#DDAA33", "#44AA99")[i % 3]
        ax.plot(column, rows, marker=_MARKERS[i], color=color, ls="none", ms=5, label=str(name))
    ax.axvline(1, **GUIDE)
    ax.set_xscale("log")
    low, high = ratios.to_numpy().min(), ratios.to_numpy().max()
    ticks = [tick for tick in (0.25, 0.5, 0.7, 0.8, 0.9, 1, 1.2, 1.5, 2, 3, 5, 10, 20) if low / 1.1 < tick < high * 1.1]
    ax.set_xticks(ticks, [f"{tick:g}" for tick in ticks], minor=False)
    ax.set_xticks([], minor=True)
    ax.set_yticks(rows, [str(name) for name in ratios.index])
    ax.set(xlabel="test NLL relative to mi-lb (geometric mean over rounds and seeds)", ylim=(len(rows) - 0.5, -0.5))
    ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    return fig

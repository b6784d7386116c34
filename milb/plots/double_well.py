"""Figures of the coupled double-well (`milb.problems.double_well`) and of what strategies do there."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure

from milb.plots.curves import LINEAR_BELOW, panel_size
from milb.plots.layout import thinned
from milb.plots.style import figure, strategy_style

CROSSOVER = (0.5, 1.2)  # noise intensities around the onset of escape, sigma = sqrt(a / 2) = 0.71
_POINT_COLOR, _WELL_COLOR, _TRUTH_COLOR = "#aaaaaa", "#555555", "#666666"
_WELLS = {"color": _WELL_COLOR, "lw": 0.9, "ls": (0, (4, 3)), "zorder": 1}


@figure
def escape(
    positions: Mapping[float, Float[np.ndarray, "_"]],
    start: float,
    grid: Float[np.ndarray, "g"],
    equilibrium: Mapping[float, Float[np.ndarray, "_"]],
) -> Figure:
    """Histograms of where a particle ends, a panel for each noise intensity (the keys), wells dashed.

    Args:
        positions: final positions by noise intensity.
        start: where it started.
        grid, equilibrium: positions, and by noise intensity the density there after infinitely long a time.
    """
    fig, axes = plt.subplots(1, len(positions), figsize=panel_size(len(positions)), sharex=True, squeeze=False)
    bins = np.linspace(grid[0], grid[-1], 61)
    for ax, (sigma, q) in zip(axes[0], positions.items(), strict=True):
        ax.hist(q, bins, density=True, color="#56B4E9", label="simulated")
        ax.plot(grid, equilibrium[sigma], color="black", lw=1, label="equilibrium")
        ax.plot(start, 0, "^", color="#D55E00", ms=7, clip_on=False, label="start", ls="none", zorder=3)
        _mark_wells(ax.axvline)
        ax.set(title=rf"$\sigma$ = {sigma:g}", xlabel="final position $q(T)$", ylim=(0, None))
        ax.grid(visible=False)
    fig.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside upper right", ncols=3)
    axes[0, 0].set_ylabel("density")
    return fig


@figure
def trajectories(
    time: Float[np.ndarray, "t"], positions: Mapping[str, Float[np.ndarray, "t P"]], snapshots: Sequence[float]
) -> Figure:
    """Positions of all particles over time, a panel for each entry (titled by its key); recorded times marked."""
    fig, axes = plt.subplots(1, len(positions), figsize=panel_size(len(positions)), sharey=True, squeeze=False)
    for ax, (title, q) in zip(axes[0], positions.items(), strict=True):
        _mark_wells(ax.axhline)
        for snapshot in snapshots:
            ax.axvline(snapshot, color="#bbbbbb", lw=0.8, zorder=1)
        shades = plt.colormaps["viridis"](np.linspace(0, 0.9, q.shape[1]))
        for i, shade in enumerate(shades):
            ax.plot(time, q[:, i], color=shade, lw=1.1, label=f"$q_{i + 1}$")
        ax.set(title=title, xlabel="time t")
        ax.grid(visible=False)
    axes[0, 0].set_ylabel("position")
    axes[0, -1].legend(loc="center left", bbox_to_anchor=(1.0, 0.5), handlelength=1.5)
    return fig


@figure
def saturation(
    distance: Float[np.ndarray, "r"],
    value: Float[np.ndarray, "r"],
    information: Float[np.ndarray, "r"],
    maximum: float,
    rounding: Float[np.ndarray, "r"],
    log_gap: Float[np.ndarray, "r"],
) -> Figure:
    """MI-LB of two members that move apart: its value, its rounding error as a difference, its exact ranking.

    Args:
        distance: between the two means, in standard deviations.
        value, information, maximum: MI-LB, the mutual information, and the most that MI-LB can be (nats).
        rounding: the float32 difference of the two entropy bounds, minus the maximum (nats).
        log_gap: log of how far MI-LB is below its maximum.
    """
    fig, (left, middle, right) = plt.subplots(1, 3, figsize=(8.0, 2.6))
    left.axhline(maximum, color=_WELL_COLOR, lw=0.9, ls=(0, (4, 3)))
    left.annotate("largest MI-LB", (distance[-1], maximum), (0, -4), textcoords="offset points", ha="right", va="top")
    left.plot(distance, information, color="black", ls=(0, (1, 1)), label="mutual information")
    left.plot(distance, value, color=strategy_style("mi-lb")["color"], label="MI-LB")
    left.set(title="value", ylabel="nats")
    left.legend(loc="lower right")
    middle.plot(distance, -1e6 * np.exp(log_gap), color=strategy_style("mi-lb")["color"], label="exact")
    released = strategy_style("mi-lb-released")
    looks = {"color": released["color"], "marker": released["marker"], "ls": "none", "ms": 3.5}
    middle.plot(distance, 1e6 * rounding, **looks, label="in float32", zorder=1.5)
    middle.set(title="value, millionfold", ylabel="MI-LB − largest ($10^{-6}$ nats)")
    largest_error = 1e6 * np.abs(rounding[2 * len(rounding) // 3 :]).max()
    middle.set_ylim(-1.2 * largest_error, 1.2 * largest_error)
    middle.legend(loc="center left", handlelength=1.4)
    right.plot(distance, -log_gap, color=strategy_style("mi-lb")["color"])
    right.set(title="what milb ranks by", ylabel="−log gap")
    for ax in (left, middle, right):
        ax.set_xlabel("distance of the means (std)")
    return fig


@figure
def where_labelled(
    pool: Float[np.ndarray, "N 2"], picked: Mapping[str, Float[np.ndarray, "_ 2"]], titles: Mapping[str, str]
) -> Figure:
    """Noise intensity and coupling of the points that each strategy had labelled; below, of the pool as well.

    Args:
        pool: (sigma, kappa) of all points, of which the noise is shown.
        picked: the same of the points picked, by strategy.
        titles: a line under the strategy's name, by strategy.
    """
    columns = len(picked)
    fig, axes = plt.subplots(
        2, columns, figsize=panel_size(columns, 1.6), sharex=True, sharey="row", squeeze=False, height_ratios=(1.6, 1)
    )
    bins = np.linspace(pool[:, 0].min(), pool[:, 0].max(), 18)
    for (above, below), (name, points) in zip(axes.T, picked.items(), strict=True):
        style = strategy_style(name)
        above.scatter(*thinned(points).T, s=5, color=style["color"], rasterized=True)
        above.set_title(f"{style['label']}\n{titles[name]}", fontsize=9)
        below.hist(points[:, 0], bins, density=True, color=style["color"], alpha=0.75, label="picked")
        below.hist(pool[:, 0], bins, density=True, histtype="step", color="black", lw=1, label="pool")
        below.set_xlabel(r"noise intensity $\sigma$")
        for ax in (above, below):
            ax.axvspan(*CROSSOVER, color="#F0E442", alpha=0.22, lw=0, zorder=0)
            ax.grid(visible=False)
    axes[0, 0].set_ylabel(r"coupling $\kappa$")
    axes[1, 0].set_ylabel("density")
    axes[1, -1].legend(loc="upper right")
    return fig


@figure
def final_positions(samples: Mapping[str, Mapping[str, Float[np.ndarray, "_ 2"]]], limit: float = 3.0) -> Figure:
    """Final positions of the first two particles: a row for each input, a column for each source of samples.

    Args:
        samples: by input (the title of a row) and by source: "simulator" or a strategy, whose model drew them.
        limit: both axes show -limit .. limit; how many samples lie outside is written into the panel.
    """
    sources = list(next(iter(samples.values())))
    shape = (len(samples), len(sources))
    size = (1.35 * len(sources) + 0.6, 1.35 * len(samples) + 0.5)
    fig, axes = plt.subplots(*shape, figsize=size, sharex=True, sharey=True, squeeze=False)
    for row, (title, by_source) in zip(axes, samples.items(), strict=True):
        for ax, (source, q) in zip(row, by_source.items(), strict=True):
            is_truth = source == "simulator"
            color = _TRUTH_COLOR if is_truth else strategy_style(source)["color"]
            ax.scatter(*thinned(q).T, s=3, color=color, rasterized=True)
            _mark_wells(ax.axvline)
            _mark_wells(ax.axhline)
            outside = np.count_nonzero(np.abs(q).max(axis=1) > limit)
            if outside:
                note = f"{outside} of {len(q)} outside"
                ax.text(0.97, 0.02, note, transform=ax.transAxes, ha="right", va="bottom", fontsize=6.5)
            ax.set(xlim=(-limit, limit), ylim=(-limit, limit), aspect="equal", xticks=(-2, 0, 2), yticks=(-2, 0, 2))
            ax.grid(visible=False)
        row[0].set_ylabel(f"{title}\n$q_2(T)$")
    for ax, source in zip(axes[0], sources, strict=True):
        ax.set_title("Simulator" if source == "simulator" else strategy_style(source)["label"])
    for ax in axes[-1]:
        ax.set_xlabel("$q_1(T)$")
    return fig


@figure
def error_against_noise(
    sigma: Mapping[str, Float[np.ndarray, "_"]], nll: Mapping[str, Float[np.ndarray, "_"]], titles: Mapping[str, str]
) -> Figure:
    """NLL of each test point against its noise intensity, a panel a strategy; the steps are means over a bin.

    Args:
        sigma, nll: of the test points, by strategy; nll in nats.
        titles: a line under the strategy's name, by strategy.
    """
    fig, axes = plt.subplots(1, len(nll), figsize=panel_size(len(nll)), sharex=True, sharey=True, squeeze=False)
    lowest, highest = (function([function(values) for values in sigma.values()]) for function in (np.min, np.max))
    edges = np.linspace(lowest, highest, 9)
    for ax, (name, values) in zip(axes[0], nll.items(), strict=True):
        style = strategy_style(name)
        points = thinned(np.stack([sigma[name], values], axis=1))
        ax.scatter(*points.T, s=2, color=_POINT_COLOR, rasterized=True)
        count, _ = np.histogram(sigma[name], edges)
        total, _ = np.histogram(sigma[name], edges, weights=values)
        ax.stairs(total / np.maximum(count, 1), edges, baseline=None, color=style["color"], lw=2)
        ax.set_title(f"{style['label']}\n{titles[name]}", fontsize=9)
        ax.set_xlabel(r"noise intensity $\sigma$")
    axes[0, 0].set_yscale("symlog", linthresh=LINEAR_BELOW)
    axes[0, 0].set_ylim(1.5 * min(-LINEAR_BELOW, *(values.min() for values in nll.values())), None)
    axes[0, 0].set_ylabel("NLL of a test point (nats)")
    return fig


def _mark_wells(draw_line: Callable[..., Any]) -> None:
    for well in (-1, 1):
        draw_line(well, **_WELLS)

"""Figures of the coupled double-well (`milb.problems.double_well`) and of what strategies do there."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from milb.plots.curves import LINEAR_BELOW, panel_size
from milb.plots.layout import MAX_COLUMNS, WIDTH, strategy_title, thinned
from milb.plots.style import figure, strategy_style

CROSSOVER = (0.5, 1.2)  # noise intensities around the onset of escape, sigma = sqrt(a / 2) = 0.71
_POINT_COLOR, _WELL_COLOR, _TRUTH_COLOR, _MODEL_COLOR = "#aaaaaa", "#555555", "#666666", "#0072B2"
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
        mark_wells(ax.axvline)
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
        mark_wells(ax.axhline)
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
def where_labelled(
    pool: Float[np.ndarray, "N 2"], picked: Mapping[str, Float[np.ndarray, "_ 2"]], titles: Mapping[str, str]
) -> Figure:
    """Noise intensity and coupling of the points that each strategy had labelled, and below them histograms of the
    noise; the pool in grey and as a black line.

    Args:
        pool: (sigma, kappa) of all points.
        picked: the same of the points picked, by strategy.
        titles: a line under the strategy's name, by strategy.
    """
    columns = min(len(picked), MAX_COLUMNS)
    rows = -(-len(picked) // columns)
    size = (panel_size(columns)[0], 0.5 + 2.9 * rows)
    looks = {"sharex": True, "sharey": "row", "squeeze": False, "height_ratios": (1.6, 1) * rows}
    fig, axes = plt.subplots(2 * rows, columns, figsize=size, **looks)
    bins = np.linspace(pool[:, 0].min(), pool[:, 0].max(), 18)
    pairs = [(axes[2 * row, column], axes[2 * row + 1, column]) for row in range(rows) for column in range(columns)]
    for (above, below), (name, points) in zip(pairs, picked.items(), strict=False):
        style = strategy_style(name)
        above.scatter(*thinned(pool, 2_000).T, s=0.5, color="#cccccc", rasterized=True)
        above.scatter(*thinned(points).T, s=5, color=style["color"], rasterized=True)
        strategy_title(above, name, titles[name])
        below.hist(points[:, 0], bins, density=True, color=style["color"], alpha=0.75, label="picked")
        below.hist(pool[:, 0], bins, density=True, histtype="step", color="black", lw=1, label="pool")
        below.set_xlabel(r"noise intensity $\sigma$")
        below.tick_params(labelbottom=True)
        for ax in (above, below):
            ax.axvspan(*CROSSOVER, color="#F0E442", alpha=0.22, lw=0, zorder=0)
            ax.grid(visible=False)
    for unused in pairs[len(picked) :]:
        for ax in unused:
            ax.set_axis_off()
    for above, below in pairs[::columns]:
        above.set_ylabel(r"coupling $\kappa$")
        below.set_ylabel("density")
    pairs[columns - 1][1].legend(loc="upper right", fontsize=7, handlelength=1.2)
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
            _positions(ax, q, _TRUTH_COLOR if source == "simulator" else strategy_style(source)["color"], limit)
        row[0].set_ylabel(f"{title}\n$q_2(T)$")
    for ax, source in zip(axes[0], sources, strict=True):
        ax.set_title("Simulator" if source == "simulator" else strategy_style(source)["label"])
    for ax in axes[-1]:
        ax.set_xlabel("$q_1(T)$")
    return fig


@figure
def head_samples(samples: Mapping[str, Float[np.ndarray, "_ 2"]], limit: float = 3.0) -> Figure:
    """Final positions of the first two particles over many inputs, a panel a source, the truth first.

    Args:
        samples: by the panel's title.
        limit: as in `final_positions`.
    """
    fig, axes = plt.subplots(1, len(samples), figsize=(WIDTH, 2.9), sharex=True, sharey=True, squeeze=False)
    for i, (ax, (title, q)) in enumerate(zip(axes[0], samples.items(), strict=True)):
        _positions(ax, q, _MODEL_COLOR if i else _TRUTH_COLOR, limit)
        ax.set(title=title, xlabel="$q_1(T)$")
    axes[0, 0].set_ylabel("$q_2(T)$")
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


def _positions(ax: Axes, q: Float[np.ndarray, "_ 2"], color: str, limit: float) -> None:
    ax.scatter(*thinned(q).T, s=3, color=color, rasterized=True)
    mark_wells(ax.axvline)
    mark_wells(ax.axhline)
    outside = np.count_nonzero(np.abs(q).max(axis=1) > limit)
    if outside:
        note = f"{outside} of {len(q)} outside"
        box = {"facecolor": "white", "alpha": 0.85, "lw": 0, "pad": 1}
        ax.text(0.97, 0.03, note, transform=ax.transAxes, ha="right", va="bottom", fontsize=6.5, bbox=box)
    ax.set(xlim=(-limit, limit), ylim=(-limit, limit), aspect="equal", xticks=(-2, 0, 2), yticks=(-2, 0, 2))
    ax.grid(visible=False)


def mark_wells(draw_line: Callable[..., Any]) -> None:
    """Lines at the two wells; `draw_line` is `Axes.axvline` or `axhline`."""
    for well in (-1, 1):
        draw_line(well, **_WELLS)

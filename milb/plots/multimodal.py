"""Figures of the multimodal conditional (`milb.problems.multimodal`) and of what strategies do there."""

from collections.abc import Mapping

import matplotlib.pyplot as plt
import numpy as np
from jaxtyping import Float, Int
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from milb.plots.layout import MAX_POINTS, WIDTH, label_edge, legend, panels, strategy_title, thinned
from milb.plots.style import CATEGORY_COLORS, CATEGORY_MARKERS, figure, strategy_style

_POOL_COLOR, _TRUTH_COLOR, _MODEL_COLOR = "#cccccc", "#666666", "#0072B2"
_MARGIN = 4.0  # of y, around the true samples
_THRESHOLD = {"color": "black", "lw": 0.9, "ls": (0, (4, 3))}


@figure
def components(
    x: Float[np.ndarray, "n 2"],
    y: Float[np.ndarray, "n 2"],
    component: Int[np.ndarray, "n"],
    radius: Float[np.ndarray, "n"],
    weights: Float[np.ndarray, "n K"],
    threshold: float,
) -> Figure:
    """Samples in the plane of the first two outputs and of the first two inputs, and each mode's weight by radius.

    Args:
        x, y: first two inputs and outputs of the samples.
        component: which mode each sample came from.
        radius, weights: |x_1:4| of the samples, and the weight of every mode there.
        threshold: the radius at which the gate is half open.
    """
    fig, (outputs, inputs, gate) = plt.subplots(1, 3, figsize=(WIDTH, 2.9))
    for k in range(weights.shape[1]):
        _scatter_component(outputs, y[component == k], k)
        _scatter_component(inputs, x[component == k], k)
    by_point = thinned(np.column_stack([radius, weights]), MAX_POINTS // weights.shape[1])
    colors = np.tile(CATEGORY_COLORS[: weights.shape[1]], len(by_point))  # interleaved: no mode hides another
    gate.scatter(by_point[:, :1].repeat(weights.shape[1], 1), by_point[:, 1:], s=3, c=colors, rasterized=True)
    gate.axvline(threshold, **_THRESHOLD)
    gate.annotate("$r_0$", (threshold, 1.0), (3, 0), textcoords="offset points", va="top")
    gate.set(xlabel=r"radius $r = \|x_{1:4}\|$", ylabel="weight", ylim=(0, 1.02), title="weight of each mode")
    outputs.set(xlabel="$y_0$", ylabel="$y_1$", title="outputs")
    inputs.set(xlabel="$x_0$", ylabel="$x_1$", title="inputs")
    fig.legend(*outputs.get_legend_handles_labels(), loc="outside upper right", ncols=3, markerscale=2.5)
    return fig


@figure
def along_ray(
    radii: Float[np.ndarray, "r"],
    weights: Float[np.ndarray, "r K"],
    threshold: float,
    radius: float,
    y: Float[np.ndarray, "n 2"],
    component: Int[np.ndarray, "n"],
    limit: float,
) -> Figure:
    """Outputs that a single input may have, and where this input is on its way outwards.

    Args:
        radii, weights: along the way, and the weight of every mode there.
        threshold: the radius at which the gate is half open.
        radius: of the input.
        y, component: first two outputs of draws at the input, and the mode each came from.
        limit: the outputs' axes show -limit .. limit.
    """
    fig, (way, outputs) = plt.subplots(1, 2, figsize=(6.2, 2.9), width_ratios=(1.15, 1))
    for k in range(weights.shape[1]):
        way.plot(radii, weights[:, k], color=CATEGORY_COLORS[k])
        at_radius = np.interp(radius, radii, weights[:, k])
        way.plot(radius, at_radius, CATEGORY_MARKERS[k], color=CATEGORY_COLORS[k], ms=7)
        _scatter_component(outputs, y[component == k], k)
    way.axvline(threshold, **_THRESHOLD)
    way.annotate("$r_0$", (threshold, 1.0), (3, 0), textcoords="offset points", va="top")
    way.set(xlabel=r"radius $r = \|x_{1:4}\|$", ylabel="weight", ylim=(0, 1.02), title=f"r = {radius:g}")
    outputs.set(xlabel="$y_0$", ylabel="$y_1$", xlim=(-limit, limit), ylim=(-limit, limit), aspect="equal")
    outputs.set_title(f"{len(y)} draws at this input")
    outputs.legend(loc="lower right", markerscale=2, handletextpad=0.2, borderaxespad=0.2)
    return fig


@figure
def output_samples(samples: Mapping[str, Float[np.ndarray, "_ 2"]]) -> Figure:
    """First two outputs at the same inputs, a panel a source; the first is the truth, on whose range all are drawn.

    Args:
        samples: by the panel's title.
    """
    fig, axes = plt.subplots(1, len(samples), figsize=(WIDTH, 3.0), sharex=True, sharey=True, squeeze=False)
    truth = next(iter(samples.values()))
    low, high = truth.min(axis=0) - _MARGIN, truth.max(axis=0) + _MARGIN
    for i, (ax, (title, y)) in enumerate(zip(axes[0], samples.items(), strict=True)):
        ax.scatter(*thinned(y).T, s=4, color=_MODEL_COLOR if i else _TRUTH_COLOR, rasterized=True)
        ax.set(title=title, xlabel="$y_0$", xlim=(low[0], high[0]), ylim=(low[1], high[1]))
        outside = np.count_nonzero(((y < low) | (y > high)).any(axis=1))
        if outside:
            note = f"{outside} of {len(y)} outside"
            box = {"facecolor": "white", "alpha": 0.85, "lw": 0, "pad": 1}
            ax.text(0.97, 0.03, note, transform=ax.transAxes, ha="right", va="bottom", fontsize=7.5, bbox=box)
    axes[0, 0].set_ylabel("$y_1$")
    return fig


@figure
def labelled_points(
    pool: Float[np.ndarray, "N 2"], initial: Float[np.ndarray, "i 2"], picked: Mapping[str, Float[np.ndarray, "_ 2"]]
) -> Figure:
    """First two inputs of the points that each strategy had labelled (its colour), before those of the pool (grey).

    Args:
        pool: all points.
        initial: labelled from the start, by every strategy (crosses).
        picked: by strategy.
    """
    fig, axes = panels(len(picked), height=1.6)
    for ax, (name, points) in zip(axes, picked.items(), strict=True):
        style = strategy_style(name)
        ax.scatter(*thinned(pool, 2_000).T, s=1, color=_POOL_COLOR, rasterized=True, label="pool")
        ax.scatter(*thinned(initial).T, s=7, marker="x", lw=0.5, color="#666666", rasterized=True, label="first labels")
        ax.scatter(*thinned(points).T, s=6, color=style["color"], marker=style["marker"], rasterized=True)
        strategy_title(ax, name)
    label_edge(fig, "$x_0$", "$x_1$")
    handles, labels = axes[0].get_legend_handles_labels()
    legend(fig, dict(zip(labels, handles, strict=True)), markerscale=2)
    return fig


@figure
def radii(
    pool: Float[np.ndarray, "N"],
    picked: Mapping[str, Float[np.ndarray, "_"]],
    threshold: float,
    band: tuple[float, float],
) -> Figure:
    """Radii |x_1:4| of the points that each strategy had labelled (filled) and of the pool (black line).

    Args:
        pool: of all points.
        picked: by strategy.
        threshold: the radius at which the gate is half open.
        band: radii around it, shaded.
    """
    fig, axes = panels(len(picked))
    bins = np.linspace(min(pool.min(), *(radius.min() for radius in picked.values())), pool.max(), 20)
    for ax, (name, radius) in zip(axes, picked.items(), strict=True):
        ax.hist(radius, bins, density=True, color=strategy_style(name)["color"], alpha=0.8)
        ax.hist(pool, bins, density=True, histtype="step", color="black", lw=1, label="pool")
        ax.axvspan(*band, color="#F0E442", alpha=0.3, lw=0, zorder=0, label="around $r_0$")
        ax.axvline(threshold, **_THRESHOLD)
        ax.grid(visible=False)
        strategy_title(ax, name)
    label_edge(fig, r"radius $r = \|x_{1:4}\|$", "density")
    handles, labels = axes[0].get_legend_handles_labels()
    legend(fig, dict(zip(labels, handles, strict=True)))
    return fig


def _scatter_component(ax: Axes, points: Float[np.ndarray, "_ 2"], k: int) -> None:
    looks = {"color": CATEGORY_COLORS[k], "marker": CATEGORY_MARKERS[k], "label": f"mode {k}"}
    ax.scatter(*thinned(points, 2_000).T, s=5, alpha=0.7, rasterized=True, **looks)

"""Figures of the sphere example (`milb.problems.sphere`)."""

from collections.abc import Mapping

import matplotlib.pyplot as plt
import numpy as np
from jaxtyping import Float, Int
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from milb.plots.layout import few_ticks
from milb.plots.style import figure

UNIFORM = {"label": "uniform", "color": "#0072B2", "linestyle": "solid"}
POLAR = {"label": "polar", "color": "#D55E00", "linestyle": (0, (4, 2))}
# The smallest float64 above zero is e^-744.4.
_FLOAT64_NATS = -np.log(np.nextafter(0.0, 1.0))


@figure
def circle_samples(
    samples: Mapping[str, Float[np.ndarray, "n 2"]], entropies: Mapping[str, float], delta: float
) -> Figure:
    """Draws on the unit circle, side by side, keys "uniform" and "polar"; the caps of half-width `delta` are marked."""
    fig, axes = plt.subplots(1, 2, figsize=(6.4, 3.5), sharex=True, sharey=True)
    around = np.linspace(0, 2 * np.pi, 400)
    for ax, style in zip(axes, (UNIFORM, POLAR), strict=True):
        name = style["label"]
        drawn = samples[name]
        ax.plot(np.cos(around), np.sin(around), color="#bbbbbb", lw=0.8, zorder=1)
        ax.scatter(*drawn.T, s=12, color=style["color"], alpha=0.35, zorder=2)
        mean = drawn.mean(axis=0)
        ax.plot(*mean, "+", color="black", ms=9, zorder=3)
        ax.annotate("mean", mean, (0, 9), textcoords="offset points", ha="center", fontsize=8)
        facts = f"variance {drawn.var(axis=0).sum():.2f} (exact: 1)\nentropy {entropies[name]:.2f} nats"
        ax.text(0, -0.2, facts, ha="center", va="top")
        ax.set(title=f"{name}, {len(drawn)} draws", aspect="equal", xlabel="$y_1$")
        ax.set(xticks=(-1, 0, 1), yticks=(-1, 0, 1))
    for pole in (0, np.pi):
        cap = pole + np.linspace(-delta, delta, 50)
        axes[1].plot(1.12 * np.cos(cap), 1.12 * np.sin(cap), color="black", lw=1.2)
    axes[1].text(0, 0.7, rf"caps: $\delta$ = {delta:g} rad", ha="center", fontsize=8)
    axes[0].set_ylabel("$y_2$")
    return fig


@figure
def gap_growth(m: Int[np.ndarray, "n"], gaps: Mapping[float, Float[np.ndarray, "n"]]) -> Figure:
    """Entropy gap in nats against the dimension m, one line for each cap radius (the keys of `gaps`, rad)."""
    fig, ax = plt.subplots(figsize=(6.4, 3.8))
    shades = plt.colormaps["viridis"](np.linspace(0.0, 0.85, len(gaps)))
    for (delta, gap), shade in zip(gaps.items(), shades, strict=True):
        ax.plot(m, gap, color=shade)
        ax.annotate(
            rf"$\delta$ = {delta:g}",
            (m[-1], gap[-1]),
            xytext=(4, 0),
            textcoords="offset points",
            va="center",
            fontsize=8,
        )
    ax.axhline(_FLOAT64_NATS, color="#555555", lw=0.8, ls=(0, (2, 2)))
    ax.annotate(
        "above this line the caps' share of the sphere is 0 in float64",
        (m[0], _FLOAT64_NATS), xytext=(0, 3), textcoords="offset points", fontsize=8, color="#333333",
    )  # fmt: skip
    ax.set(xscale="log", yscale="log", xlabel="dimension m", ylabel="entropy gap (nats)")
    ax.set_title(r"one line for each cap radius $\delta$ (rad)")
    ax.margins(x=0.02)
    return fig


@figure
def variance_and_entropy(
    m: Int[np.ndarray, "n"],
    sampled_variances: Mapping[str, Float[np.ndarray, "n"]],
    entropies: Mapping[str, Float[np.ndarray, "n"]],
) -> Figure:
    """Variance and entropy of both distributions against the dimension m; keys "uniform" and "polar"."""
    fig, (left, right) = plt.subplots(1, 2, figsize=(6.8, 3.2))
    for style, marker, size in ((UNIFORM, "o", 9), (POLAR, "x", 5)):
        name = style["label"]
        looks = {"color": style["color"], "marker": marker, "ms": size, "mfc": "none", "label": name}
        left.plot(m, sampled_variances[name], ls="none", **looks)
        right.plot(m, entropies[name], ls=style["linestyle"], **looks)
    left.axhline(1, color="#555555", lw=0.8, zorder=1)
    left.annotate("exact: 1 for both", (m[0], 1), xytext=(0, 10), textcoords="offset points", fontsize=8)
    left.set(title="what variance sees", ylabel="variance of the draws", ylim=(0.94, 1.06))
    ends = [entropies[style["label"]][-1] for style in (POLAR, UNIFORM)]
    right.annotate("", (m[-1], ends[0]), (m[-1], ends[1]), arrowprops={"arrowstyle": "<->", "shrinkA": 6, "shrinkB": 6})
    label = f"{ends[1] - ends[0]:.0f} nats"
    right.annotate(label, (m[-1], np.mean(ends)), (5, 0), textcoords="offset points", rotation=90, va="center")
    right.margins(x=0.13)
    right.set(title="what entropy sees", ylabel="entropy (nats)")
    right.legend(loc="lower left")
    for ax in (left, right):
        ax.set(xlabel="dimension m")
    return fig


@figure
def disagreement(delta: Float[np.ndarray, "n"], information: Mapping[int, Float[np.ndarray, "n"]]) -> Figure:
    """Mutual information between output and member, against the cap radius, one line for each m (the keys)."""
    fig, ax = plt.subplots(figsize=(6.4, 3.4))
    shades = plt.colormaps["viridis"](np.linspace(0.0, 0.75, len(information)))
    dashes = ("solid", (0, (5, 2)), (0, (5, 1, 1, 1)), (0, (1, 1)))
    for i, (m, values) in enumerate(information.items()):
        ax.plot(delta, values, color=shades[i], ls=dashes[i % len(dashes)], label=f"information, m = {m}")
    ax.axhline(np.log(2), color="#555555", lw=0.8)
    ax.annotate(
        "log 2: the members can be told apart", (delta[0], np.log(2)), (0, 3), textcoords="offset points", fontsize=8
    )
    ax.axhline(0, color=POLAR["color"], lw=2, label="epistemic variance, every m")
    ax.set(xlabel=r"cap radius $\delta$ (rad)", ylabel="information (nats) or variance", ylim=(-0.03, 0.8))
    ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    return fig


@figure
def overview(
    angle: Float[np.ndarray, "a"],
    log_densities: Mapping[str, Float[np.ndarray, "a"]],
    m: Int[np.ndarray, "n"],
    gap: Float[np.ndarray, "n"],
    chosen: int,
) -> Figure:
    """Where the output points, its variance, and the entropy gap at the chosen entry of `m`.

    `log_densities` of the angle to the pole e_1, keys "uniform" and "polar", are drawn relative to their peaks.
    """
    fig, (where, variance, entropy) = plt.subplots(1, 3, figsize=(7.6, 2.9), width_ratios=(2.2, 0.8, 1.5))
    for style in (UNIFORM, POLAR):
        relative = np.exp(log_densities[style["label"]] - log_densities[style["label"]].max())
        where.fill_between(np.degrees(angle), relative, color=style["color"], alpha=0.25, lw=0)
        where.plot(np.degrees(angle), relative, color=style["color"], label=style["label"], lw=1.2)
    where.set(title=f"angle to the pole, m = {m[chosen]}", xlabel="angle (degrees)", xticks=(0, 45, 90, 135, 180))
    where.set(ylabel="density / its peak", ylim=(0, 1.3), yticks=(0, 0.5, 1))
    where.legend(loc="upper center", ncols=2)
    variance.bar([0, 1], [1, 1], color=[UNIFORM["color"], POLAR["color"]], width=0.6)
    variance.set(ylabel="variance", xticks=(0, 1), xticklabels=("uniform", "polar"), ylim=(0, 1.3), yticks=(0, 0.5, 1))
    variance.grid(axis="x", visible=False)
    _mark_gap(entropy, m, gap, chosen)
    few_ticks(entropy)
    return fig


def _mark_gap(ax: Axes, m: np.ndarray, gap: np.ndarray, chosen: int) -> None:
    ax.plot(m, gap, color="black", lw=1.2)
    ax.plot(m[chosen], gap[chosen], "o", color="black", ms=6)
    ax.set(title=f"gap {gap[chosen]:.4g} nats", ylabel="entropy gap (nats)")
    ax.set(xlabel="dimension m", xscale="log", yscale="log")

"""Figures of what MI-LB is: a constant minus an overlap gap, which saturates, and which rounding then ranks."""

from collections.abc import Mapping

import matplotlib.pyplot as plt
import numpy as np
from jaxtyping import Float, Int
from matplotlib.figure import Figure

from milb.plots.layout import thinned
from milb.plots.style import GUIDE, figure, strategy_style


@figure
def two_members(
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
    left.axhline(maximum, **GUIDE)
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
def ranking_of_a_pool(
    log_gap: Float[np.ndarray, "N"],
    rounded: Float[np.ndarray, "N"],
    picks: Mapping[str, Int[np.ndarray, "k"]],
    close_up: float = 40.0,
) -> Figure:
    """MI-LB of a pool's points as a float32 difference of entropies, against what it is exactly.

    Args:
        log_gap: log of how far each point's MI-LB is below its maximum.
        rounded: the float32 difference of the two entropy bounds, minus the maximum (nats).
        picks: which points are labelled next, by strategy.
        close_up: the second panel shows so many millionths of a nat on either side of the maximum.
    """
    fig, (whole, near) = plt.subplots(1, 2, figsize=(7.6, 3.1), sharex=True)
    for ax, unit in ((whole, 1.0), (near, 1e6)):
        ax.axhline(0, **GUIDE)
        ax.scatter(*thinned(np.stack([-log_gap, unit * rounded], axis=1)).T, s=2, color="#aaaaaa", rasterized=True)
        for name, rows in picks.items():
            style = strategy_style(name)
            looks = {"color": style["color"], "marker": style["marker"], "label": f"picked: {style['label']}"}
            ax.scatter(-log_gap[rows], unit * rounded[rows], s=16, rasterized=True, **looks, zorder=3)
        ax.set_xscale("symlog", linthresh=10)
        ax.set_xlabel("−log gap (linear to 10)")
    whole.set(title="value in float32", ylabel="MI-LB − largest (nats)")
    near.set(title="the same, millionfold", ylabel="MI-LB − largest ($10^{-6}$ nats)", ylim=(-close_up, close_up))
    whole.legend(loc="lower right")
    return fig

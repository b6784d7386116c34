"""Figures of the Two-Index framework (`milb.two_index`): its definitions, push-forwards, classes, estimators."""

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
from jaxtyping import Float, Int
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

from milb.plots.layout import few_ticks
from milb.plots.style import figure
from milb.two_index import Decomposition

# Values of z: Okabe and Ito's colours, each with a line style of its own.
Z_LOOKS = (
    {"color": "#0072B2", "ls": "solid"},
    {"color": "#D55E00", "ls": (0, (5, 2))},
    {"color": "#009E73", "ls": (0, (5, 1, 1, 1))},
    {"color": "#CC79A7", "ls": (0, (2, 1))},
    {"color": "#E69F00", "ls": (0, (1, 1))},
)
TERM_LOOKS = {
    "total": {"color": "black", "ls": "solid", "lw": 1.1},
    "aleatoric": {"color": "#E69F00", "ls": (0, (5, 2)), "lw": 1.8},
    "epistemic": {"color": "#0072B2", "ls": "solid", "lw": 1.8},
}
LABELLED_LOOKS = {"color": "#eeeeee", "lw": 0, "zorder": 0}


def z_looks(z: int) -> dict:
    """Colour and line style of a value of z; they repeat after five."""
    return Z_LOOKS[z % len(Z_LOOKS)]


@figure
def definitions(y: Float[np.ndarray, "m"], densities: Float[np.ndarray, "E m"]) -> Figure:
    """The framework as a picture: Z and epsilon go into g, and out come p(y | x, z) and their mean p(y | x).

    Args:
        y: grid of outputs.
        densities: p(y | x, z) on it, for a few z.
    """
    fig = plt.figure(figsize=(8.0, 3.5), layout="none")
    canvas = fig.add_axes((0, 0, 1, 1))
    canvas.set(xlim=(0, 1), ylim=(0, 1))
    canvas.set_axis_off()
    boxes = {
        "$Z \\sim P_Z$\nepistemic index:\nwhich hypothesis?": (0.09, 0.8, 0.155, 0.24),
        "$x$\ninput": (0.09, 0.5, 0.155, 0.15),
        "$\\varepsilon \\sim P_\\varepsilon$\naleatoric index:\nwhich outcome?": (0.09, 0.2, 0.155, 0.24),
        "$y = g_\\theta(x; z, \\varepsilon)$\nlearned": (0.325, 0.5, 0.17, 0.2),
    }
    for text, (x, height, width, tall) in boxes.items():
        corner = (x - width / 2, height - tall / 2)
        canvas.add_patch(
            FancyBboxPatch(corner, width, tall, "round,pad=0,rounding_size=0.015", fc="#f4f4f4", ec="#444444")
        )
        canvas.text(x, height, text, ha="center", va="center", fontsize=9)
    for start, end in (((0.17, 0.8), (0.25, 0.6)), ((0.17, 0.5), (0.235, 0.5)), ((0.17, 0.2), (0.25, 0.4))):
        canvas.annotate("", end, start, arrowprops={"arrowstyle": "->", "color": "#444444"})
    canvas.annotate("", (0.455, 0.5), (0.415, 0.5), arrowprops={"arrowstyle": "->", "color": "#444444"})
    canvas.annotate("", (0.765, 0.5), (0.725, 0.5), arrowprops={"arrowstyle": "->", "color": "#444444"})
    members, predictive = fig.add_axes((0.47, 0.31, 0.24, 0.5)), fig.add_axes((0.78, 0.31, 0.2, 0.5))
    for z, density in enumerate(densities):
        members.plot(y, density, **z_looks(z), label=f"z = {z}")
        members.fill_between(y, density, color=z_looks(z)["color"], alpha=0.08, lw=0)
    predictive.plot(y, densities.mean(0), color="black")
    predictive.fill_between(y, densities.mean(0), color="black", alpha=0.12, lw=0)
    members.set_title("fix $z$, vary $\\varepsilon$: $p(y \\mid x, z)$", fontsize=9)
    predictive.set_title("vary both: $p(y \\mid x)$", fontsize=9)
    members.legend(loc="upper left", fontsize=7, handlelength=2)
    for ax in (members, predictive):
        ax.set(xlabel="y", yticks=(), ylim=(0, 1.45 * densities.max()))
        ax.grid(False)
    canvas.text(0.59, 0.1, "spread of each curve: aleatoric", ha="center", fontsize=8.5)
    canvas.text(0.59, 0.03, "difference between the curves: epistemic", ha="center", fontsize=8.5)
    canvas.text(0.88, 0.1, "their mean: both, mixed", ha="center", fontsize=8.5)
    return fig


@figure
def push_forward(epsilon: Float[np.ndarray, "m"], outputs: Mapping[str, Float[np.ndarray, "E m"]], x: float) -> Figure:
    """y as a function of a one-dimensional epsilon, for some z, and the distribution that comes out at the side.

    Args:
        epsilon: quantiles of P_epsilon at equal steps of probability, so that counts of outputs are probabilities.
        outputs: g(x; z, epsilon) by family.
        x: the input, for the title.
    """
    fig = plt.figure(figsize=(8.0, 3.6))
    grid = fig.add_gridspec(2, 2 * len(outputs), width_ratios=(2.2, 1) * len(outputs), height_ratios=(3, 1))
    lowest = min(values.min() for values in outputs.values())
    highest = max(values.max() for values in outputs.values())
    bins = np.linspace(lowest, highest, 61)
    for i, (name, values) in enumerate(outputs.items()):
        main = fig.add_subplot(grid[0, 2 * i])
        side = fig.add_subplot(grid[0, 2 * i + 1], sharey=main)
        below = fig.add_subplot(grid[1, 2 * i], sharex=main)
        for z, of_z in enumerate(values):
            main.plot(epsilon, of_z, **z_looks(z), label=f"z = {z}")
            side.stairs(np.histogram(of_z, bins, density=True)[0], bins, orientation="horizontal", **z_looks(z))
        line = np.linspace(-3.2, 3.2, 200)
        below.fill_between(line, np.exp(-(line**2) / 2), color="#999999", lw=0)
        main.set(title=f"{name}, x = {x:g}", ylabel="y = g(x; z, ε)" if not i else "", ylim=(lowest, highest))
        main.set_xlim(-3.2, 3.2)
        side.set(xticks=(), title="p(y | x, z)")
        below.set(xlabel="ε", yticks=(), ylabel="$P_ε$", ylim=(0, 1.15))
        main.tick_params(labelbottom=False)
        side.tick_params(labelleft=False)
        few_ticks(main)
        if not i:
            main.legend(loc="upper left")
    return fig


@figure
def class_maps(
    axes: tuple[Float[np.ndarray, "w"], Float[np.ndarray, "h"]],
    probability: Float[np.ndarray, "h w"],
    entropy: Decomposition,
    points: Float[np.ndarray, "n 2"],
    labels: Int[np.ndarray, "n"],
) -> Figure:
    """Probability of class 1, and the three terms of the entropy (h, w) in one scale of colours, with the labels."""
    fig, grid = plt.subplots(1, 4, figsize=(8.4, 3.1), sharex=True, sharey=True)
    largest = float(np.max(entropy.total))
    maps = {"p(class 1 | x)": probability, **{f"{term}": values for term, values in entropy._asdict().items()}}
    for ax, (title, values) in zip(grid, maps.items(), strict=True):
        is_probability = title.startswith("p(")
        colours = {"cmap": "RdBu", "vmin": 0, "vmax": 1} if is_probability else {"vmin": 0, "vmax": largest}
        image = ax.pcolormesh(*axes, values, shading="nearest", rasterized=True, **colours)
        ax.set(title=title, xlabel="$x_1$")
        ax.grid(False)
        unit = "probability" if is_probability else "nats"
        fig.colorbar(image, ax=ax, orientation="horizontal", label=unit, pad=0.02, aspect=18)
    for label, marker in ((0, "o"), (1, "^")):
        looks = {"s": 7, "marker": marker, "lw": 0.3, "edgecolors": "black", "facecolors": "white"}
        grid[0].scatter(*points[labels == label].T, **looks, label=f"class {label}", rasterized=True)
    grid[0].set_ylabel("$x_2$")
    grid[0].legend(loc="upper left", fontsize=6.5, frameon=True, framealpha=0.8, handletextpad=0.2, borderpad=0.2)
    return fig


@figure
def estimators_by_dimension(
    dimensions: Int[np.ndarray, "n"], estimates: Mapping[str, Float[np.ndarray, "n"]], truth: float, largest: float
) -> Figure:
    """Estimates of one mutual information against the number of output dimensions, on which it does not depend."""
    fig, ax = plt.subplots(figsize=(6.6, 3.2))
    ax.axhline(truth, color="black", lw=1.1, label="true")
    ax.axhline(largest, color="#777777", lw=0.9, ls=(0, (1, 1)))
    ax.annotate("log E, the most it can be", (dimensions[0], largest), (0, 3), textcoords="offset points", fontsize=8)
    for i, (name, values) in enumerate(estimates.items()):
        ax.plot(dimensions, values, **z_looks(i), marker="os^Dv"[i % 5], mfc="white", label=name)
    ax.set(xlabel="output dimensions D", ylabel="I(Y; Z) (nats)", xscale="log", xticks=dimensions)
    ax.set_xticklabels([str(d) for d in dimensions])
    ax.minorticks_off()
    ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    return fig


@figure
def estimate_and_exact(
    x: Float[np.ndarray, "B"],
    estimates: Mapping[str, Decomposition],
    exact: Mapping[str, Decomposition],
    labelled: Sequence[tuple[float, float]] = (),
) -> Figure:
    """Both decompositions of one model, keys "variance" and "entropy": estimates as dots on the exact lines."""
    fig, axes = plt.subplots(1, 2, figsize=(7.6, 2.9))
    for ax, (kind, unit) in zip(axes, (("variance", ""), ("entropy", " (nats)")), strict=True):
        for term, looks in TERM_LOOKS.items():
            ax.plot(x, getattr(exact[kind], term), **looks, label=f"{term}, exact")
            dots = {"color": looks["color"], "ms": 3, "mfc": "white", "label": f"{term}, estimate"}
            ax.plot(x, getattr(estimates[kind], term), "o", **dots)
        for start, end in labelled:
            ax.axvspan(start, end, **LABELLED_LOOKS)
        ax.set(title=kind + unit, xlabel="x")
    axes[1].legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    return fig

"""Figures of trained families of the Two-Index framework, for one input and one output."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import matplotlib.pyplot as plt
import numpy as np
from jaxtyping import Float
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from milb.plots.style import figure
from milb.plots.two_index import LABELLED_LOOKS, TERM_LOOKS, z_looks
from milb.two_index import Decomposition

TRUTH_LOOKS = {"color": "#777777", "ls": (0, (1, 1)), "lw": 1.4}


class Family(NamedTuple):
    """What one trained family says along x: draws (E, n, B), and two decompositions of arrays (B,)."""

    samples: Float[np.ndarray, "E n B"]
    variance: Decomposition
    entropy: Decomposition


@figure
def along_x(
    x: Float[np.ndarray, "B"],
    described: Mapping[str, Family],
    labels: tuple[Float[np.ndarray, "n"], Float[np.ndarray, "n"]],
    labelled: Sequence[tuple[float, float]],
    truth: Mapping[str, Float[np.ndarray, "B"]],
    y_range: tuple[float, float] = (-3.6, 3.0),
) -> Figure:
    """One family a row: draws for three z, the predictive distribution, and both decompositions along x.

    Args:
        x: where the families were asked.
        described: by name.
        labels: x and y of the training set, drawn into the second column.
        labelled: intervals of x with labels, shaded.
        truth: "variance" and "entropy" (nats) of the true p(y | x), dotted.
        y_range: of the first two columns.
    """
    fig, grid = plt.subplots(len(described), 4, figsize=(8.4, 0.8 + 1.65 * len(described)), sharex=True, squeeze=False)
    for row, (name, family) in zip(grid, described.items(), strict=True):
        _draws(row[0], x, family.samples)
        _predictive(row[1], x, family.samples, np.linspace(*y_range, 81))
        row[1].scatter(*labels, s=2, marker="x", lw=0.6, color="#B0307A", label="labels", rasterized=True)
        for ax in row[:2]:
            ax.set_ylim(*y_range)
        row[0].set_ylabel(f"{name}\n\ny")
        for ax, kind in ((row[2], "variance"), (row[3], "entropy")):
            ax.plot(x, truth[kind], **TRUTH_LOOKS, label="true total")
            for term, values in getattr(family, kind)._asdict().items():
                ax.plot(x, values, **TERM_LOOKS[term], label=term)
            for start, end in labelled:
                ax.axvspan(start, end, **LABELLED_LOOKS)
        row[3].axhline(0, color="#444444", lw=0.6)
    _share_limits(grid[:, 2], least=0.0)
    _share_limits(grid[:, 3])
    for ax, title in zip(grid[0], ("draws, three z", "predictive, labels", "variance", "entropy (nats)"), strict=True):
        ax.set_title(title, fontsize=9)
    for ax in grid[-1]:
        ax.set_xlabel("x")
    handles, names = zip(*(entries for i in (0, 1, 2) for entries in _entries(grid[0, i])), strict=True)
    fig.legend(handles, names, loc="outside upper right", ncols=len(names), markerscale=3, columnspacing=1)
    return fig


@figure
def at_one_input(
    x: Float[np.ndarray, "B"], family: Family, chosen: int, z: int, y_range: tuple[float, float] = (-3.6, 3.0)
) -> Figure:
    """One family at the chosen entry of x: where that is, p(y | x, z) of every z with one of them marked, the terms."""
    fig, (where, here, terms) = plt.subplots(1, 3, figsize=(8.0, 2.9), width_ratios=(1.3, 1.3, 1))
    edges = np.linspace(*y_range, 81)
    _predictive(where, x, family.samples, edges)
    where.axvline(x[chosen], color="#D55E00", lw=1.4)
    where.set(title="p(y | x)", xlabel="x", ylabel="y", ylim=y_range)
    edges = np.linspace(*y_range, 51)
    for member, draws in enumerate(family.samples[:, :, chosen]):
        marked = member == z
        looks = {"color": "#0072B2", "lw": 2, "zorder": 3} if marked else {"color": "#aaaaaa", "lw": 0.8}
        density = np.histogram(draws, edges, density=True)[0]
        here.stairs(density, edges, **looks, label=f"z = {z}" if marked else "other z" if member == (z == 0) else None)
    pooled = np.histogram(family.samples[:, :, chosen], edges, density=True)[0]
    here.stairs(pooled, edges, color="black", fill=True, alpha=0.15, label="all: p(y | x)")
    here.set(title=f"x = {x[chosen]:.2f}", xlabel="y", ylabel="density", yticks=())
    here.set_ylim(0, 1.2 * here.get_ylim()[1])
    here.legend(loc="upper center", ncols=3, fontsize=7, handlelength=1.2, columnspacing=0.8, borderaxespad=0)
    _term_bars(terms, family, chosen)
    return fig


def _draws(ax: Axes, x: np.ndarray, samples: np.ndarray, n_z: int = 3, n_draws: int = 12) -> None:
    for z in range(min(n_z, len(samples))):
        draws, looks = samples[z, :n_draws], {"color": z_looks(z)["color"], "marker": "o^s"[z % 3], "label": f"z = {z}"}
        ax.scatter(np.tile(x, len(draws)), draws.ravel(), s=2, lw=0, alpha=0.7, rasterized=True, **looks)


def _entries(ax: Axes) -> list[tuple[Artist, str]]:
    return list(zip(*ax.get_legend_handles_labels(), strict=True))


def _predictive(ax: Axes, x: np.ndarray, samples: np.ndarray, edges: np.ndarray) -> None:
    density = np.stack([np.histogram(samples[:, :, b], edges, density=True)[0] for b in range(len(x))], axis=1)
    centres = 0.5 * (edges[1:] + edges[:-1])
    colours = {"cmap": "Greys", "vmin": 0, "vmax": np.quantile(density.max(0), 0.9)}
    ax.pcolormesh(x, centres, density, shading="nearest", rasterized=True, **colours)


def _term_bars(ax: Axes, family: Family, chosen: int) -> None:
    """Both decompositions at one input as numbers, epistemic variance as a share."""
    lines = []
    for kind, unit in (("variance", ""), ("entropy", " nats")):
        lines.append(f"$\\bf{{{kind}}}$")
        terms = {term: float(values[chosen]) for term, values in getattr(family, kind)._asdict().items()}
        lines += [f"{term}: {value:.2f}{unit}" for term, value in terms.items()]
        if kind == "variance":
            lines.append(f"epistemic share: {100 * terms['epistemic'] / terms['total']:.0f} %")
        else:
            lines.append(f"at most log E = {np.log(len(family.samples)):.2f}")
        lines.append("")
    ax.set_axis_off()
    ax.text(0, 0.98, "\n".join(lines), va="top", transform=ax.transAxes, fontsize=9, linespacing=1.35)


def _share_limits(axes: np.ndarray, least: float | None = None) -> None:
    """One scale for all rows of a column, so that families can be compared."""
    low, high = np.array([ax.get_ylim() for ax in axes]).T
    for ax in axes:
        ax.set_ylim(low.min() if least is None else least, high.max())

"""Figures of the ternary phase competition (`milb.problems.ternary`) on the composition triangle.

Corners are the pure components A (lower left), B (lower right) and C (top). A field is given by its values at the rows
of a grid of compositions, such as `milb.problems.ternary.composition_grid` makes.
"""

from collections.abc import Mapping

import matplotlib.pyplot as plt
import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.colors import Normalize, to_rgb
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.tri import Triangulation

from milb.plots.layout import WIDTH, legend, panels, strategy_title, thinned
from milb.plots.style import CATEGORY_COLORS, figure, strategy_style

BOUNDARY = 0.7  # no phase has a larger share: the published definition of the boundary
_CORNERS = np.array([[0, 0], [1, 0], [0.5, np.sqrt(3) / 2]])
_CENTRE = _CORNERS.mean(axis=0)


@figure
def phase_diagram(
    compositions: Float[np.ndarray, "g 3"], phases: Float[np.ndarray, "g P"], response: Float[np.ndarray, "g"]
) -> Figure:
    """Which phase is present (colours mix as the phases do), how large the largest share is, and the mean response.

    Args:
        compositions: (x_A, x_B, x_C), a grid over the triangle.
        phases: probability of each phase there.
        response: mean of the output there.
    """
    fig, (mixture, largest, mean) = plt.subplots(1, 3, figsize=(WIDTH, 3.2))
    mesh, share = _mesh(compositions), phases.max(axis=1)
    colors = phases[mesh.triangles].mean(axis=1) @ [to_rgb(color) for color in CATEGORY_COLORS[: phases.shape[1]]]
    corners = np.stack([mesh.x, mesh.y], axis=1)[mesh.triangles]
    looks = {"edgecolors": "face", "lw": 0.3, "antialiaseds": False, "rasterized": True}
    mixture.add_collection(PolyCollection(corners, facecolors=colors, **looks))
    for phase, color in enumerate(CATEGORY_COLORS[: phases.shape[1]]):
        place = np.average(np.stack([mesh.x, mesh.y], axis=1), axis=0, weights=phases[:, phase] ** 4)
        box = {"facecolor": "white", "edgecolor": color, "pad": 2.5, "alpha": 0.9}
        mixture.text(*place, f"{phase}", ha="center", va="center", fontsize=8, bbox=box)
    _triangle(mixture, room_below=0.22, ticks=True)
    mixture.set_title("which phase")
    _field(largest, mesh, share, Normalize(0, 1), "cividis", "largest share of a phase")
    _field(mean, mesh, response, None, "viridis", r"mean response $\mathbb{E}[Y \mid x]$")
    for ax in (largest, mean):
        _outline(ax, mesh, share)
    return fig


@figure
def labelled_compositions(
    compositions: Float[np.ndarray, "g 3"],
    share: Float[np.ndarray, "g"],
    picked: Mapping[str, Float[np.ndarray, "_ 3"]],
    titles: Mapping[str, str],
) -> Figure:
    """Compositions that each strategy had labelled, with the phase boundary: a panel a strategy.

    Args:
        compositions, share: a grid, and the largest share of a phase there.
        picked: the compositions picked, by strategy.
        titles: a line under the strategy's name, by strategy.
    """
    fig, axes = panels(len(picked), height=1.5)
    mesh = _mesh(compositions)
    for ax, (name, points) in zip(axes, picked.items(), strict=True):
        style = strategy_style(name)
        ax.tricontourf(mesh, share, levels=[0, BOUNDARY], colors=["#F0E442"], alpha=0.6)
        looks = {"s": 3.5, "color": style["color"], "marker": style["marker"], "rasterized": True}
        ax.scatter(*thinned(points @ _CORNERS).T, **looks)
        _outline(ax, mesh, share)
        _triangle(ax)
        strategy_title(ax, name, titles[name])
    boundary = Patch(facecolor="#F0E442", edgecolor="black", alpha=0.6)
    legend(fig, {"boundary:\nno phase above 70 %": boundary}, title="corners: pure A, B, C", title_fontsize=8)
    return fig


@figure
def maps(
    compositions: Float[np.ndarray, "g 3"],
    share: Float[np.ndarray, "g"],
    fields: Mapping[str, Float[np.ndarray, "g"]],
    same_scale: tuple[str, ...] = (),
) -> Figure:
    """Fields over the triangle, with the phase boundary: a panel each, titled by the key.

    Args:
        compositions, share: a grid, and the largest share of a phase there.
        fields: values by title.
        same_scale: titles of the fields that share one range of colours.
    """
    fig, axes = plt.subplots(1, len(fields), figsize=(WIDTH, 2.9), squeeze=False)
    mesh = _mesh(compositions)
    together = [fields[title] for title in same_scale]
    common = Normalize(np.min(together), np.max(together)) if together else None
    for ax, (title, values) in zip(axes[0], fields.items(), strict=True):
        _field(ax, mesh, values, common if title in same_scale else None, "viridis", title)
        _outline(ax, mesh, share, color="white")
    return fig


@figure
def means_and_residuals(
    compositions: Float[np.ndarray, "g 3"],
    share: Float[np.ndarray, "g"],
    truth: Float[np.ndarray, "g"],
    predicted: Mapping[str, Float[np.ndarray, "g"]],
) -> Figure:
    """Conditional means, the true one first, and below each prediction what it is off by.

    Args:
        compositions, share: a grid, and the largest share of a phase there.
        truth: the true conditional mean there.
        predicted: predictions of it, by title.
    """
    fig, axes = plt.subplots(2, 1 + len(predicted), figsize=(WIDTH, 5.4))
    mesh = _mesh(compositions)
    everything = np.stack([truth, *predicted.values()])
    means = Normalize(everything.min(), everything.max())
    largest = np.abs(everything[1:] - truth).max()
    residuals = Normalize(-largest, largest)
    axes[1, 0].set_axis_off()
    _field(axes[0, 0], mesh, truth, means, "viridis", "mean response: truth")
    _outline(axes[0, 0], mesh, share)
    for (above, below), (title, values) in zip(axes.T[1:], predicted.items(), strict=True):
        off = values - truth
        _field(above, mesh, values, means, "viridis", f"mean response: {title}")
        _field(below, mesh, off, residuals, "PuOr", f"{title} minus truth: rms {np.sqrt(np.mean(off**2)):.2f}")
        for ax in (above, below):
            _outline(ax, mesh, share)
    return fig


@figure
def across_boundary(
    path: Float[np.ndarray, "t 3"],
    compositions: Float[np.ndarray, "g 3"],
    share: Float[np.ndarray, "g"],
    chosen: int,
    y: Float[np.ndarray, "r"],
    truth: Float[np.ndarray, "r"],
    members: Float[np.ndarray, "E r"],
    title: str,
) -> Figure:
    """The density of the response at one composition of a path: the true one, and what each member predicts.

    Args:
        path, chosen: compositions, and which of them it is.
        compositions, share: a grid, and the largest share of a phase there.
        y, truth, members: responses, and the densities there.
        title: above the densities.
    """
    fig, (where, density) = plt.subplots(1, 2, figsize=(6.8, 2.9), width_ratios=(1, 1.7))
    mesh = _mesh(compositions)
    where.tricontourf(mesh, share, levels=[0, BOUNDARY], colors=["#F0E442"], alpha=0.6)
    _outline(where, mesh, share)
    where.plot(*(path @ _CORNERS).T, color="#555555", lw=1)
    where.plot(*(path[chosen] @ _CORNERS), "o", color="black", ms=6)
    _triangle(where)
    density.fill_between(y, truth, color="#cccccc", label="truth")
    density.plot(y, members.T, color=strategy_style("mi-lb")["color"], lw=0.9)
    density.set(xlabel="response y", ylabel="density", ylim=(0, None), title=title)
    handles = {"truth": Patch(color="#cccccc"), "members": Line2D([], [], color=strategy_style("mi-lb")["color"])}
    density.legend(handles.values(), handles.keys())
    return fig


def _mesh(compositions: Float[np.ndarray, "g 3"]) -> Triangulation:
    return Triangulation(*(compositions @ _CORNERS).T)


def _field(
    ax: Axes, mesh: Triangulation, values: Float[np.ndarray, "g"], norm: Normalize | None, cmap: str, title: str
) -> None:
    norm = norm or Normalize(values.min(), values.max())
    drawn = ax.tripcolor(mesh, values, shading="gouraud", norm=norm, cmap=cmap, rasterized=True)
    _triangle(ax, room_below=0.22)
    bar = ax.inset_axes((0.2, 0.07, 0.6, 0.04))  # takes no room from its panel: all triangles are of one size
    ax.figure.colorbar(drawn, cax=bar, orientation="horizontal").ax.tick_params(labelsize=7)
    ax.set_title(title, fontsize=9)


def _outline(ax: Axes, mesh: Triangulation, share: Float[np.ndarray, "g"], color: str = "black") -> None:
    ax.tricontour(mesh, share, levels=[BOUNDARY], colors=[color], linewidths=0.7)


def _triangle(ax: Axes, room_below: float = 0.0, ticks: bool = False) -> None:
    """Outline and corners, over some room; with ticks, each component's scale along the edge on which it grows."""
    ax.plot(*np.r_[_CORNERS, _CORNERS[:1]].T, color="#444444", lw=0.9, zorder=2)
    for corner, name in zip(_CORNERS, "ABC", strict=True):
        ax.text(*(corner + 0.09 * (corner - _CENTRE)), name, ha="center", va="center", fontsize=8)
    ax.set(xlim=(-0.13, 1.13), ylim=(-0.1 - room_below, 0.98), aspect="equal")
    ax.set_axis_off()
    if not ticks:
        return
    for i, name in enumerate("BCA"):
        start, end = _CORNERS[i], _CORNERS[(i + 1) % 3]
        outwards = (start + end) / 2 - _CENTRE
        for value in (0.25, 0.5, 0.75):
            place = start + value * (end - start)
            ax.plot(*np.stack([place, place + 0.08 * outwards]).T, color="#444444", lw=0.7)
            ax.text(*(place + 0.26 * outwards), f"{value:g}", ha="center", va="center", fontsize=6)
        tail, head = (start + share * (end - start) + 0.55 * outwards for share in (0.3, 0.7))
        ax.annotate("", head, tail, arrowprops={"arrowstyle": "->", "lw": 0.7, "color": "#444444"})
        ax.text(*((start + end) / 2 + 0.8 * outwards), f"$x_{name}$", ha="center", va="center", fontsize=9)

"""What the figures on the composition triangle show is what they were given, where it belongs."""

import numpy as np
import pytest
from matplotlib.colors import to_rgb
from numpy.testing import assert_allclose

from milb.plots import strategy_style
from milb.plots import ternary as figures
from milb.problems.ternary import composition_grid

GRID = composition_grid(12)
SHARE = GRID.max(axis=1)  # a phase for each corner, competing in the middle
RANDOM = np.random.default_rng(0)


def titles(fig):
    return [ax.get_title(loc="left") for ax in fig.axes if ax.get_title(loc="left")]


def corner_names(ax):
    return {text.get_text(): text.get_position() for text in ax.texts if text.get_text() in ("A", "B", "C")}


def test_phase_diagram():
    fig = figures.phase_diagram(GRID, GRID, GRID[:, 0] - GRID[:, 1])
    mixture, largest, mean = fig.axes[:3]
    places = corner_names(mixture)
    assert places["A"][0] < places["C"][0] < places["B"][0] and places["C"][1] > places["A"][1]
    assert {"0", "1", "2", "$x_A$", "$x_B$", "$x_C$", "0.25"} <= {text.get_text() for text in mixture.texts}
    assert_allclose(mean.collections[0].get_array(), GRID[:, 0] - GRID[:, 1])
    assert (largest.collections[0].norm.vmin, largest.collections[0].norm.vmax) == (0, 1)
    assert mixture.collections[0].get_rasterized() and mean.collections[0].get_rasterized()


def test_labelled_compositions_lie_where_they_are():
    corners, many = np.eye(3), RANDOM.dirichlet(np.ones(3), 6_000)
    fig = figures.labelled_compositions(GRID, SHARE, {"random": corners, "mi-lb": many}, {"random": "a", "mi-lb": "b"})
    assert titles(fig) == ["Random\na", "MI-LB\nb"]
    first, second = (next(c for c in ax.collections if len(c.get_offsets()) > 1) for ax in fig.axes[:2])
    assert_allclose(first.get_offsets(), [[0, 0], [1, 0], [0.5, np.sqrt(0.75)]], atol=1e-9)
    assert len(second.get_offsets()) == 5_000 and second.get_rasterized()
    assert tuple(second.get_facecolor()[0][:3]) == to_rgb(strategy_style("mi-lb")["color"])
    assert all(set(corner_names(ax)) == set("ABC") for ax in fig.axes[:2])


def test_maps_share_a_scale_where_asked():
    fields = {"one": GRID[:, 0], "two": 3 * GRID[:, 1], "three": 9 * GRID[:, 2]}
    fig = figures.maps(GRID, SHARE, fields, same_scale=("one", "two"))
    one, two, three = (ax.collections[0].norm for ax in fig.axes[:3])
    assert titles(fig) == list(fields)
    assert (one.vmin, one.vmax) == (two.vmin, two.vmax) == (0, 3)
    assert three.vmax == 9


def test_means_and_residuals():
    predicted = {"K = 4": GRID[:, 0] + 0.5, "K = 1": GRID[:, 0] - 2.0}
    fig = figures.means_and_residuals(GRID, SHARE, GRID[:, 0], predicted)
    assert titles(fig)[:3] == ["mean response: truth", "mean response: K = 4", "mean response: K = 1"]
    assert titles(fig)[3:] == ["K = 4 minus truth: rms 0.50", "K = 1 minus truth: rms 2.00"]
    below = fig.axes[4], fig.axes[5]
    for ax, values in zip(below, (0.5, -2.0), strict=True):
        assert_allclose(ax.collections[0].get_array(), values, rtol=1e-6)
        assert ax.collections[0].norm.vmin == pytest.approx(-2) and ax.collections[0].norm.vmax == pytest.approx(2)


def test_across_boundary():
    path, y = np.linspace([1.0, 0, 0], [0.0, 0, 1], 5), np.linspace(-1, 1, 11)
    fig = figures.across_boundary(path, GRID, SHARE, 4, y, np.ones(11), np.ones((3, 11)) / 2, "title")
    where, density = fig.axes
    dot = next(line for line in where.lines if line.get_marker() == "o")
    assert_allclose(np.ravel(dot.get_data()), [0.5, np.sqrt(0.75)])
    assert len(density.lines) == 3
    assert (density.get_xlabel(), density.get_title(loc="left")) == ("response y", "title")

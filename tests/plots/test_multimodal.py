"""What the figures of the multimodal conditional show is what they were given."""

import numpy as np
from matplotlib.colors import to_rgb
from numpy.testing import assert_allclose

from milb.plots import multimodal as figures
from milb.plots import strategy_style

RANDOM = np.random.default_rng(0)
NAMES = ("random", "mi-lb", "core-set")


def titles(fig):
    return [ax.get_title(loc="left") for ax in fig.axes if ax.axison]


def samples(n):
    weights = RANDOM.dirichlet(np.ones(3), n)
    x, y = RANDOM.uniform(-1, 1, (n, 2)), RANDOM.normal(size=(n, 2))
    return x, y, np.arange(n) % 3, RANDOM.uniform(0.8, 2, n), weights


def test_components():
    x, y, component, radius, weights = samples(90)
    outputs, inputs, gate = figures.components(x, y, component, radius, weights, 1.3).axes
    for k, (of_outputs, of_inputs) in enumerate(zip(outputs.collections, inputs.collections, strict=True)):
        assert_allclose(of_outputs.get_offsets(), y[component == k])
        assert_allclose(of_inputs.get_offsets(), x[component == k])
        assert_allclose(of_outputs.get_facecolor()[0][:3], gate.collections[0].get_facecolor()[k][:3])
    assert_allclose(gate.collections[0].get_offsets()[:3], np.stack([[radius[0]] * 3, weights[0]], 1))
    assert_allclose(gate.lines[0].get_xdata(), 1.3)
    assert all(ax.get_xlabel() and ax.get_ylabel() for ax in (outputs, inputs, gate))


def test_along_ray():
    radii, weights = np.linspace(0.6, 2, 15), RANDOM.dirichlet(np.ones(3), 15)
    y, component = RANDOM.normal(size=(30, 2)), np.arange(30) % 3
    way, outputs = figures.along_ray(radii, weights, 1.3, 1.0, y, component, limit=5.0).axes
    curves, marks = way.lines[:6:2], way.lines[1:6:2]
    assert_allclose([line.get_ydata() for line in curves], weights.T)
    assert_allclose([mark.get_ydata()[0] for mark in marks], weights[4])
    assert sum(len(mode.get_offsets()) for mode in outputs.collections) == 30
    assert titles(way.figure) == ["r = 1", "30 draws at this input"]


def test_output_samples_say_how_many_are_not_shown():
    truth, model = np.array([[0.0, 0], [1, 2]]), np.array([[0.0, 0], [1, 7], [-50, 50]])
    fig = figures.output_samples({"truth": truth, "model": model})
    assert titles(fig) == ["truth", "model"]
    assert_allclose(fig.axes[1].collections[0].get_offsets(), model)
    assert [text.get_text() for ax in fig.axes for text in ax.texts] == ["2 of 3 outside"]


def test_labelled_points_and_radii():
    pool, initial = RANDOM.uniform(-1, 1, (300, 2)), RANDOM.uniform(-1, 1, (10, 2))
    picked = {name: RANDOM.uniform(-1, 1, (20, 2)) for name in NAMES}
    fig = figures.labelled_points(pool, initial, picked)
    assert titles(fig) == [strategy_style(name)["label"] for name in NAMES]
    for ax, (name, points) in zip(fig.axes, picked.items(), strict=True):
        grey, crosses, colored = ax.collections
        for shown, expected in ((grey, pool), (crosses, initial), (colored, points)):
            assert_allclose(shown.get_offsets(), expected)
        assert tuple(colored.get_facecolor()[0][:3]) == to_rgb(strategy_style(name)["color"])

    radius = {name: np.linalg.norm(points, axis=1) for name, points in picked.items()}
    fig = figures.radii(np.linalg.norm(pool, axis=1), radius, 0.8, (0.7, 0.9))
    assert titles(fig) == [strategy_style(name)["label"] for name in NAMES]
    assert fig.get_supxlabel().startswith("radius") and fig.get_supylabel() == "density"


def test_no_scatter_has_more_than_5000_points():
    x, y, component, radius, weights = samples(12_345)
    figs = [
        figures.components(x, y, component, radius, weights, 1.3),
        figures.output_samples({"": y}),
        figures.labelled_points(x, x, {"random": x}),
    ]
    scatters = [scatter for fig in figs for ax in fig.axes for scatter in ax.collections]
    assert scatters and all(scatter.get_rasterized() for scatter in scatters)
    assert all(len(scatter.get_offsets()) <= 5_000 for scatter in scatters)

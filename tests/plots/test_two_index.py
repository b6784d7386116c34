"""What the figures of the framework show is what they were given."""

import numpy as np
from numpy.testing import assert_allclose

from milb.plots import two_index as figures
from milb.two_index import Decomposition

RNG = np.random.default_rng(0)
X = np.linspace(-2, 2, 6)


def terms(shift=0.0):
    aleatoric, epistemic = np.linspace(1, 2, 6) + shift, np.linspace(0.5, 0, 6)
    return Decomposition(aleatoric + epistemic, aleatoric, epistemic)


def test_definitions_draws_every_density_and_their_mean():
    y = np.linspace(-3, 3, 50)
    densities = np.exp(-((y - np.array([[-1], [1]])) ** 2))
    fig = figures.definitions(y, densities)
    canvas, members, predictive = fig.axes
    assert_allclose([line.get_ydata() for line in members.lines], densities)
    assert_allclose(predictive.lines[0].get_ydata(), densities.mean(0))
    text = " ".join(item.get_text() for item in canvas.texts)
    assert all(word in text for word in ("epistemic index", "aleatoric index", "g_\\theta(x; z, \\varepsilon)"))


def test_push_forward_has_a_map_and_a_distribution_for_every_z():
    epsilon = np.linspace(-2, 2, 100)
    outputs = {"linear": np.stack([epsilon, 2 * epsilon]), "steep": np.stack([np.sign(epsilon)] * 2)}
    fig = figures.push_forward(epsilon, outputs, x=0.5)
    mains = [ax for ax in fig.axes if ax.lines]
    for ax, (name, values) in zip(mains, outputs.items(), strict=True):
        assert ax.get_title(loc="left") == f"{name}, x = 0.5"
        assert_allclose([line.get_ydata() for line in ax.lines], values)
    sides = [ax for ax in fig.axes if ax.get_title(loc="left") == "p(y | x, z)"]
    assert [len(ax.patches) for ax in sides] == [2, 2]


def test_class_maps_share_one_scale_of_nats():
    entropy = Decomposition(*RNG.uniform(0, 0.6, (3, 4, 5)))
    points, labels = RNG.normal(size=(10, 2)), np.arange(10) % 2
    fig = figures.class_maps((np.arange(5.0), np.arange(4.0)), RNG.uniform(size=(4, 5)), entropy, points, labels)
    maps = fig.axes[:4]
    assert [ax.get_title(loc="left") for ax in maps] == ["p(class 1 | x)", "total", "aleatoric", "epistemic"]
    assert {ax.collections[0].get_clim() for ax in maps[1:]} == {(0.0, entropy.total.max())}
    assert_allclose(maps[2].collections[0].get_array(), entropy.aleatoric)
    assert_allclose(maps[0].collections[2].get_offsets(), points[labels == 1])


def test_estimators_by_dimension():
    dimensions = np.array([1, 2, 8])
    estimates = {"kernel": np.array([0.4, 0.5, 0.6]), "neighbours": np.array([0.4, 0.3, 0.1])}
    (ax,) = figures.estimators_by_dimension(dimensions, estimates, 0.41, np.log(2)).axes
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["true", "kernel", "neighbours"]
    for line, values in zip(ax.lines[2:], estimates.values(), strict=True):
        assert_allclose(line.get_ydata(), values)


def test_estimate_and_exact():
    estimates, exact = {"variance": terms(1), "entropy": terms(2)}, {"variance": terms(), "entropy": terms()}
    fig = figures.estimate_and_exact(X, estimates, exact, [(-1.0, 1.0)])
    for ax, kind in zip(fig.axes, exact, strict=True):
        for lines, both in zip(
            np.reshape(ax.lines, (3, 2)), zip(exact[kind], estimates[kind], strict=True), strict=True
        ):
            assert_allclose([line.get_ydata() for line in lines], both)


def test_values_of_z_have_looks_of_their_own():
    assert len({looks["color"] for looks in figures.Z_LOOKS}) == len({str(looks["ls"]) for looks in figures.Z_LOOKS})
    assert figures.z_looks(5) == figures.z_looks(0)

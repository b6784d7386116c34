"""What the figures of the sphere example show is what they were given."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from milb.plots import sphere as figures

NAMES = ("uniform", "polar")


def test_circle_samples():
    samples = {"uniform": np.array([[1.0, 0.0], [-1.0, 0.0]]), "polar": np.array([[0.0, 1.0], [0.0, -1.0], [1.0, 0.0]])}
    fig = figures.circle_samples(samples, {"uniform": 1.838, "polar": 0.182}, 0.3)
    for ax, name, n, entropy in zip(fig.axes, NAMES, (2, 3), ("1.84", "0.18"), strict=True):
        assert ax.get_title(loc="left") == f"{name}, {n} draws"
        assert_allclose(ax.collections[0].get_offsets(), samples[name])
        assert any(f"entropy {entropy} nats" in text.get_text() for text in ax.texts)
    assert any("variance 1.00 (exact: 1)" in text.get_text() for text in fig.axes[0].texts)


def test_gap_growth_has_a_labelled_line_per_radius():
    m = np.array([2, 10, 100])
    gaps = {0.3: np.array([1.0, 10.0, 100.0]), 1.0: np.array([0.5, 5.0, 50.0])}
    (ax,) = figures.gap_growth(m, gaps).axes
    for line, gap in zip(ax.lines, gaps.values(), strict=False):
        assert_allclose(line.get_ydata(), gap)
    assert_allclose(ax.lines[-1].get_ydata(), 744.44, rtol=1e-4)
    assert [text.get_text() for text in ax.texts][:2] == [r"$\delta$ = 0.3", r"$\delta$ = 1"]
    assert ax.get_ylabel() == "entropy gap (nats)"


def test_variance_and_entropy():
    m = np.array([2, 10, 100])
    variances = {"uniform": np.array([1.0, 0.99, 1.01]), "polar": np.array([0.98, 1.0, 1.0])}
    entropies = {"uniform": np.array([1.8, 3.0, -85.0]), "polar": np.array([0.2, -9.0, -208.0])}
    left, right = figures.variance_and_entropy(m, variances, entropies).axes
    for i, name in enumerate(NAMES):
        assert_allclose(left.lines[i].get_ydata(), variances[name])
        assert_allclose(right.lines[i].get_ydata(), entropies[name])
    assert "123 nats" in [text.get_text() for text in right.texts]


def test_disagreement_draws_information_and_the_variance_that_is_0():
    delta = np.array([0.1, 0.7, 1.5])
    information = {m: np.array([0.69, 0.4, 0.01]) / m for m in (2, 3, 10, 100, 1000)}
    (ax,) = figures.disagreement(delta, information).axes
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert labels[:2] == ["information, m = 2", "information, m = 3"]
    assert labels[-1] == "epistemic variance, every m"
    assert_allclose(ax.lines[0].get_ydata(), information[2])
    assert_allclose(ax.lines[-1].get_ydata(), 0)


@pytest.mark.parametrize("chosen", [0, 2])
def test_overview_marks_the_chosen_dimension(chosen):
    angle = np.linspace(0.1, 3.0, 30)
    log_densities = {"uniform": -(angle**2), "polar": np.where(angle < 0.3, 5.0, -np.inf)}
    m, gap = np.array([2, 10, 100]), np.array([1.656, 12.3, 123.45])
    where, variance, entropy = figures.overview(angle, log_densities, m, gap, chosen).axes
    assert all(line.get_ydata().max() == 1 for line in where.lines)
    assert [bar.get_height() for bar in variance.patches] == [1, 1]
    assert entropy.lines[1].get_xdata() == [m[chosen]]
    assert entropy.get_title(loc="left") == f"gap {gap[chosen]:.4g} nats"

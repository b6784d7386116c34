"""The unconditional mixture finds what is there, and does not depend on units."""

import numpy as np
import pytest

from milb.ask_tell.baseline import unconditional_nll


@pytest.fixture(scope="module")
def bumps():
    rng = np.random.default_rng(0)
    y = np.concatenate([rng.normal(-4, 1, (300, 2)), rng.normal(4, 1, (700, 2))])
    return rng.permutation(y)


def test_comes_near_the_truth(bumps):
    entropy = -(0.3 * np.log(0.3) + 0.7 * np.log(0.7)) + np.log(2 * np.pi * np.e)
    assert unconditional_nll(bumps, bumps, 2).mean() == pytest.approx(entropy, abs=0.1)
    assert unconditional_nll(bumps, bumps, 1).mean() > entropy + 1


def test_units_do_not_matter(bumps):
    nll = unconditional_nll(bumps[:200], bumps, 3)
    moved = unconditional_nll(1e6 + bumps[:200] * 1e-3, 1e6 + bumps * 1e-3, 3)
    np.testing.assert_allclose(moved - 2 * np.log(1e-3), nll, atol=1e-4)


@pytest.mark.parametrize("y", [np.ones((1, 2)), np.ones((30, 2)), np.repeat([[0.0, 1.0]], 5, axis=0)])
def test_few_or_constant_labels_stay_finite(y):
    assert np.isfinite(unconditional_nll(y, y + 1, 3)).all()

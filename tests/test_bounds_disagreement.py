"""The family between the member-level bound and the pairwise score; its two ends are tested in test_bounds_pairwise."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from milb import Mixture, bounds


def random_members(seed, dtype=np.float32):
    rng = np.random.default_rng(seed)
    shape = (3, 5, 2, 2)  # E, points, K, D
    arrays = rng.normal(size=shape[:-1]), 2 * rng.normal(size=shape), np.exp(rng.normal(size=shape))
    members = Mixture.from_logits(*(array.astype(dtype) for array in arrays))
    return members, rng.dirichlet(np.ones(3)).astype(dtype)


def largest(self_weight, weights):
    return -(weights * np.log(self_weight * weights / (self_weight * weights + 1 - weights))).sum()


def test_ends_and_everything_between():
    with jax.enable_x64(True):
        members, weights = random_members(0, np.float64)
        ends = bounds.mi_pairwise(members, weights), bounds.mi_lower_bound_members(members, weights)
        for self_weight, expected in zip((0.0, 1.0), ends, strict=True):
            np.testing.assert_allclose(bounds.mi_disagreement(members, self_weight, weights), expected, rtol=1e-12)
        for self_weight in (1e-3, 1.0, 50.0):
            value = bounds.mi_disagreement(members, self_weight, weights)
            gap = np.exp(bounds.log_disagreement_gap(members, self_weight, weights))
            np.testing.assert_allclose(value, largest(self_weight, weights) - gap, rtol=1e-10, atol=1e-12)
            assert (value > 0).all()


def test_by_hand_and_far_apart():
    """Three members, variance 1: rho = e^{-d^2 / 8}; far apart the gap is the mean overlap: the nearest pair's."""
    means = np.array([[0.0, 0.0], [2.0, 40.0], [4.0, 100.0]], np.float32)[:, :, None, None]
    members = Mixture(jnp.zeros((3, 2, 1)), jnp.asarray(means), jnp.ones((3, 2, 1, 1)))
    near, far = np.exp(-0.5), np.exp(-2.0)
    others = np.array([near + far, 2 * near, near + far]) / 3
    expected = np.log(np.log1p(others / (0.1 / 3)).mean())
    log_gap = np.asarray(bounds.log_disagreement_gap(members, 0.1))
    assert log_gap[0] == pytest.approx(expected, rel=1e-5)
    assert log_gap[1] == pytest.approx(np.log(2 / 3 / 0.1) - 200, rel=1e-5)
    pairwise = np.asarray(bounds.mi_pairwise(members))
    assert pairwise[1] == pytest.approx((200 + 200 + 450) / 3 + np.log(2), rel=1e-5)


def test_ranks_where_the_value_cannot():
    distance = np.geomspace(10, 1e12, 40, dtype=np.float32)
    means = np.stack([0 * distance, distance])[:, :, None, None]
    members = Mixture(jnp.zeros((2, 40, 1)), jnp.asarray(means), jnp.ones((2, 40, 1, 1)))
    assert np.ptp(bounds.mi_disagreement(members, 1.0)) < 1e-5
    log_gap = bounds.log_disagreement_gap(members, 1.0)
    assert np.isfinite(log_gap).all() and (np.diff(log_gap) < 0).all()


def test_one_member_and_wrong_arguments():
    members, _ = random_members(1)
    one = jax.tree.map(lambda leaf: leaf[:1], members)
    np.testing.assert_array_equal(bounds.mi_disagreement(one, 0.5), 0)
    assert np.isneginf(bounds.log_disagreement_gap(one, 0.5)).all()
    for wrong in (-0.1, np.inf, np.nan):
        with pytest.raises(ValueError, match="self_weight must be 0 or more and finite"):
            bounds.mi_disagreement(members, wrong)
    with pytest.raises(ValueError, match="self_weight must be positive"):
        bounds.log_disagreement_gap(members, 0.0)
    with pytest.raises(ValueError, match="axis 0"):
        bounds.mi_disagreement(jax.tree.map(lambda leaf: leaf[0, 0], members), 0.5)


@pytest.mark.parametrize(
    "bound", ["mi_certificate", "mi_upper_bound", "mi_matched", "log_matched_gap", "log_overlap_gap"]
)
def test_gradients_are_finite_where_a_component_or_a_member_is_off(bound):
    means, variances = jnp.asarray([[[0.0], [5.0]], [[1.0], [2.0]]]), jnp.ones((2, 2, 1))
    function, off, on = (
        getattr(bounds, bound),
        jnp.log(jnp.asarray([[1.0, 0.0], [0.5, 0.5]])),
        jnp.log(jnp.full((2, 2), 0.5)),
    )
    gradient = jax.jit(jax.grad(lambda means, logs, weights: function(Mixture(logs, means, variances), weights)))
    without_component = gradient(means, off, jnp.asarray([0.5, 0.5]))
    without_member = gradient(means, on, jnp.asarray([1.0, 0.0]))
    assert np.isfinite(without_component).all() and np.isfinite(without_member).all()

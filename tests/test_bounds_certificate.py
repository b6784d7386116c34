"""The certified enclosure of the mutual information, and the moment-matched bound that it needs."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads

from milb import Mixture, bounds

pytestmark = pytest.mark.slow

SIZES = [(3, 2, 1), (2, 3, 2), (4, 1, 5), (4, 3, 16), (2, 2, 20)]  # E, K, D: few, since each compiles
N_POINTS = 24
BOUNDS = {"certificate": bounds.mi_certificate, "upper": bounds.mi_upper_bound}
every_size = pytest.mark.parametrize(
    "size", [SIZES[0], *(pytest.param(size, marks=pytest.mark.exhaustive) for size in SIZES[1:])], ids=str
)
every_bound = pytest.mark.parametrize(
    "bound",
    [
        pytest.param(bound, id=name, marks=pytest.mark.exhaustive if name == "upper" else ())
        for name, bound in BOUNDS.items()
    ],
)


def random_members(seed, size, dtype=np.float32, extreme=False):
    """Members from almost alike to far apart; extreme ones have variances 1e-12 .. 1e12 and weights down to e^-50."""
    n_members, n_components, n_dimensions = size
    rng = np.random.default_rng(seed)
    shape = (n_members, N_POINTS, n_components, n_dimensions)
    disagreement = np.geomspace(0.01, 3, N_POINTS)[:, None, None]
    means = rng.normal(size=shape[1:]) + disagreement * rng.normal(size=shape)
    logits, log_variances = rng.normal(size=shape[:-1]), rng.normal(size=shape[1:]) + 0.1 * rng.normal(size=shape)
    if extreme:
        logits = rng.choice([0.0, -25.0, -50.0], shape[:-1])
        log_variances = rng.uniform(np.log(1e-12), np.log(1e12), shape)
    weights = rng.dirichlet(np.ones(n_members)).astype(dtype)
    return Mixture.from_logits(*(array.astype(dtype) for array in (logits, means, np.exp(log_variances)))), weights


@every_size
@pytest.mark.parametrize("extreme", [False, True])
def test_encloses_the_information(size, extreme):
    members, weights = random_members(0, size, extreme=extreme)
    truth = bounds.mi_monte_carlo(jax.random.key(0), members, 2_048, weights)
    below, above = bounds.mi_certificate(members, weights), bounds.mi_upper_bound(members, weights)
    slack = 5 * truth.standard_error + 1e-4
    assert (below <= truth.estimate + slack).all() and (above >= truth.estimate - slack).all()
    assert (below >= 0).all() and (above <= -(weights * np.log(weights)).sum() + 1e-6).all()
    assert (below >= bounds.mi_lower_bound(members, weights) - 1e-5).all()
    assert (below >= bounds.mi_lower_bound_members(members, weights) - 1e-6).all()


@every_size
@pytest.mark.parametrize("extreme", [False, True])
def test_moments_bound_the_entropy_from_above(size, extreme):
    mixture = random_members(1, size, extreme=extreme)[0].marginal()
    surprise = -mixture.log_prob(mixture.sample(jax.random.key(0), (2_048,)))
    error = 5 * surprise.std(0) / np.sqrt(2_048) + 2e-5 * np.abs(surprise.mean(0))
    assert (bounds.entropy_upper_bound_moments(mixture) >= surprise.mean(0) - error).all()


def test_moments_in_float64_and_float32():
    for size in SIZES[1:4:2]:
        with jax.enable_x64(True):
            mixture = random_members(2, size, np.float64)[0].marginal()
            w, means, variances = (np.asarray(leaf) for leaf in jax.tree.leaves(mixture))
            w = np.exp(w)
            centred = means - (w[..., None] * means).sum(1, keepdims=True)
            covariance = np.einsum("bk,bkd,bke->bde", w, centred, centred)
            covariance += np.einsum("bk,bkd,de->bde", w, variances, np.eye(size[2]))
            expected = 0.5 * np.linalg.slogdet(2 * np.pi * np.e * covariance)[1]
            np.testing.assert_allclose(bounds.entropy_upper_bound_moments(mixture), expected, rtol=1e-11)
        mixture = random_members(2, size)[0].marginal()
        np.testing.assert_allclose(bounds.entropy_upper_bound_moments(mixture), expected, rtol=1e-4)


@pytest.mark.exhaustive
def test_parts_in_float64():
    """The certificate is what its formula says, put together from the entropy bounds."""
    with jax.enable_x64(True):
        members, weights = random_members(3, SIZES[3], np.float64)
        marginal, entropy = members.marginal(weights), -(weights * np.log(weights)).sum()
        upper = [bounds.entropy_upper_bound_kl, bounds.entropy_upper_bound_moments]
        lower = [bounds.entropy_lower_bound, bounds.entropy_lower_bound_chernoff]

        def of_members(values):
            return (weights[:, None] * values).sum(0)

        below = np.maximum(*(f(marginal) for f in lower)) - of_members(np.minimum(*(f(members) for f in upper)))
        below = np.maximum(below, bounds.mi_lower_bound_members(members, weights))
        above = np.minimum(*(f(marginal) for f in upper)) - of_members(np.maximum(*(f(members) for f in lower)))
        expected = {"certificate": np.clip(below, 0, entropy), "upper": np.clip(above, 0, entropy)}
        for name, bound in BOUNDS.items():
            np.testing.assert_allclose(bound(members, weights), expected[name], rtol=0, atol=1e-12)
    members, weights = random_members(3, SIZES[3])
    for name, bound in BOUNDS.items():
        np.testing.assert_allclose(bound(members, weights), expected[name], rtol=2e-5, atol=2e-5)


def test_much_tighter_than_mi_lb_in_16_dimensions():
    members, weights = random_members(4, SIZES[3])
    truth = bounds.mi_monte_carlo(jax.random.key(0), members, 2_048, weights).estimate
    gaps = [(truth - bound(members, weights)).mean() for bound in (bounds.mi_certificate, bounds.mi_lower_bound)]
    assert gaps[0] < gaps[1] / 5


def test_alike_and_disjoint_members_are_known_exactly():
    same = jax.tree.map(lambda leaf: jnp.repeat(leaf[:1], 4, axis=0), random_members(5, SIZES[2])[0])
    means = 1e3 * jnp.arange(8.0).reshape(4, 1, 2, 1) * jnp.ones((1, 1, 1, 5))
    disjoint = Mixture(jnp.full((4, 1, 2), -jnp.log(2)), means, jnp.ones_like(means))
    for bound in BOUNDS.values():
        np.testing.assert_allclose(bound(same), 0, atol=2e-6)
        np.testing.assert_allclose(bound(disjoint), np.log(4), rtol=1e-6)
    one = jax.tree.map(lambda leaf: leaf[:1], random_members(5, SIZES[0])[0])
    for bound in BOUNDS.values():
        np.testing.assert_array_equal(bound(one), 0)


@every_bound
def test_members_of_weight_zero_are_as_absent(bound):
    members, _ = random_members(6, SIZES[0])
    two = jax.tree.map(lambda leaf: leaf[:2], members)
    weights = np.array([0.25, 0.75], np.float32)
    np.testing.assert_allclose(bound(members, np.append(weights, 0)), bound(two, weights), rtol=1e-5, atol=1e-5)


@every_bound
def test_moving_reordering_and_scaling(bound):
    with jax.enable_x64(True):
        members, weights = random_members(7, SIZES[3], np.float64)
        rng = np.random.default_rng(0)
        order, inner = rng.permutation(SIZES[3][0]), rng.permutation(SIZES[3][1])
        scale = np.exp(3 * rng.normal(size=SIZES[3][2]))[None, None, None]
        moved = Mixture(members.log_weights, members.means * scale + 7, members.variances * scale**2)
        moved = jax.tree.map(lambda leaf: leaf[order][:, :, inner], moved)
        np.testing.assert_allclose(bound(moved, weights[order]), bound(members, weights), rtol=1e-9, atol=1e-9)


@pytest.mark.exhaustive
@every_bound
@pytest.mark.parametrize("extreme", [False, True])
def test_gradients(bound, extreme):
    members, weights = random_members(8, SIZES[3], extreme=extreme)
    gradient = jax.grad(lambda members: bound(members, weights).sum())(members)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(gradient))
    if not extreme:
        with jax.enable_x64(True):
            members, weights = random_members(8, SIZES[3], np.float64)

            def total(means, variances):
                return bound(Mixture(members.log_weights, jnp.asarray(means), jnp.asarray(variances)), weights).sum()

            check_grads(total, (members.means, members.variances), order=1, modes=["rev"], eps=1e-6)


@every_bound
def test_any_leading_axes_and_wrong_members(bound):
    members, weights = random_members(9, SIZES[0])
    folded = jax.tree.map(lambda leaf: leaf.reshape(len(leaf), 4, 6, *leaf.shape[2:]), members)
    np.testing.assert_allclose(bound(folded, weights).ravel(), bound(members, weights), rtol=1e-5, atol=1e-6)
    assert bound(jax.tree.map(lambda leaf: leaf[:, 0], members)).shape == ()
    with pytest.raises(ValueError, match="shape"):
        bound(members, np.ones(2, np.float32) / 2)
    with pytest.raises(ValueError, match="axis 0"):
        bound(jax.tree.map(lambda leaf: leaf[0, 0], members))

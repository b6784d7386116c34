"""All bounds on mixtures with full covariances: as `Mixture` where those are diagonal, and whatever the axes are."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from milb import FullMixture, Mixture, bounds

pytestmark = pytest.mark.slow

SIZE = (3, 4, 2, 3)  # E, points, K, D


@jax.jit
def everything(members, weights):
    """All that `milb.bounds` has in closed form, by name."""
    marginal = members.marginal(weights)
    entropies = {
        "huber lower": bounds.entropy_lower_bound,
        "huber upper": bounds.entropy_upper_bound,
        "kl": bounds.entropy_upper_bound_kl,
        "chernoff": lambda mixture: bounds.entropy_lower_bound_chernoff(mixture, 0.3),
        "moments": bounds.entropy_upper_bound_moments,
    }
    information = {
        "gap": bounds.log_overlap_gap,
        "mi-lb": bounds.mi_lower_bound,
        "matched": bounds.mi_matched,
        "members": bounds.mi_lower_bound_members,
        "pairwise": bounds.mi_pairwise,
        "disagreement": lambda members, weights: bounds.mi_disagreement(members, 0.1, weights),
        "disagreement gap": lambda members, weights: bounds.log_disagreement_gap(members, 0.1, weights),
        "certificate": bounds.mi_certificate,
        "upper": bounds.mi_upper_bound,
    }
    values = {name: bound(marginal) for name, bound in entropies.items()}
    return values | {name: bound(members, weights) for name, bound in information.items()}


ENTROPIES = ("huber lower", "huber upper", "kl", "chernoff", "moments")


def random_arrays(seed, dtype=np.float64):
    """Logits, means, covariances (random axes) and member weights."""
    rng = np.random.default_rng(seed)
    roots = rng.normal(size=(*SIZE, SIZE[-1])) + 0.3 * np.eye(SIZE[-1])
    arrays = rng.normal(size=SIZE[:-1]), 2 * rng.normal(size=SIZE), roots @ np.swapaxes(roots, -1, -2)
    return *(array.astype(dtype) for array in arrays), rng.dirichlet(np.ones(SIZE[0])).astype(dtype)


def full(logits, means, covariances):
    return FullMixture.from_logits(logits, means, np.linalg.cholesky(covariances))


@pytest.fixture(scope="module", autouse=True)
def _in_float64():
    """One program for all tests: compiling it is what takes time."""
    with jax.enable_x64(True):
        yield


@pytest.mark.parametrize("extreme", [False, True])
def test_equal_mixture_where_covariances_are_diagonal(extreme):
    logits, means, covariances, weights = random_arrays(0)
    variances = np.diagonal(covariances, axis1=-2, axis2=-1)
    if extreme:
        variances = np.exp(np.random.default_rng(0).uniform(np.log(1e-12), np.log(1e12), SIZE))
    roots = np.sqrt(variances)[..., None] * np.eye(SIZE[-1])
    expected = everything(Mixture.from_logits(logits, means, variances), weights)
    values = everything(FullMixture.from_logits(logits, means, roots), weights)
    for name, value in expected.items():
        np.testing.assert_allclose(values[name], value, rtol=1e-9, atol=1e-9, err_msg=name)


def test_rotations_and_units_move_entropies_only():
    """Any linear map of y: information stays, entropies move by its log determinant."""
    logits, means, covariances, weights = random_arrays(1)
    rng = np.random.default_rng(1)
    rotation = np.linalg.qr(rng.normal(size=(SIZE[-1], SIZE[-1])))[0]
    linear = rotation @ np.diag(np.exp(rng.normal(size=SIZE[-1])))
    for map_of_y in (rotation, linear):
        before = everything(full(logits, means, covariances), weights)
        after = everything(full(logits, means @ map_of_y.T + 7, map_of_y @ covariances @ map_of_y.T), weights)
        moved = np.linalg.slogdet(map_of_y)[1]
        for name in before:
            shift = moved if name in ENTROPIES else 0
            np.testing.assert_allclose(after[name], before[name] + shift, rtol=1e-8, atol=1e-8, err_msg=name)


@pytest.mark.exhaustive
def test_float32_equals_float64():
    *arrays, weights = random_arrays(2)
    expected = everything(full(*arrays), weights)
    *arrays, weights = random_arrays(2, np.float32)
    for name, value in everything(full(*arrays), weights).items():
        np.testing.assert_allclose(value, expected[name], rtol=2e-3, atol=2e-3, err_msg=name)


@pytest.mark.parametrize("apart", [1, 30])
@pytest.mark.parametrize("ratio", [1e2, 1e3])
def test_a_narrow_component_beside_an_elongated_one_in_float32(ratio, apart):
    """Axes of ratio to 1, turned at random, means so many widths apart: a pair squares what float32 rounds."""
    rng = np.random.default_rng(5)
    n, d = 50, 4
    turned = np.linalg.qr(rng.normal(size=(n, d, d)))[0]
    root = np.linalg.qr((turned * [1, 1 / ratio, 1 / ratio, 1 / ratio]).swapaxes(-1, -2))[1].swapaxes(-1, -2)
    elongated = root * np.sign(np.diagonal(root, axis1=-2, axis2=-1))[:, None]
    cholesky = np.stack([elongated, np.broadcast_to(np.eye(d) / ratio, (n, d, d))])[:, :, None]
    means = np.stack([np.zeros((n, d)), apart * rng.normal(size=(n, d)) / ratio])[:, :, None]
    logits = np.zeros((2, n, 1))
    found = {}
    for dtype in (np.float64, np.float32):
        members = FullMixture.from_logits(*(array.astype(dtype) for array in (logits, means, cholesky)))
        found[dtype] = everything(members, np.full(2, 0.5, dtype))
    for name in ("pairwise", "members", "certificate", "mi-lb", "chernoff"):
        assert np.isfinite(found[np.float64][name]).all()
        difference = np.abs(np.asarray(found[np.float32][name]) - found[np.float64][name])
        assert (difference < 3e-8 * ratio**2 * np.maximum(1, np.abs(found[np.float64][name])) + 1e-3).all(), name


def test_directions_and_orderings():
    *arrays, weights = random_arrays(3)
    members = full(*arrays)
    values = {name: np.asarray(value) for name, value in everything(members, weights).items()}
    truth = bounds.mi_monte_carlo(jax.random.key(0), members, 2_048, weights)
    slack = 5 * truth.standard_error + 1e-4
    for name in ("mi-lb", "members", "certificate"):
        assert (values[name] <= truth.estimate + slack).all(), name
    assert (values["upper"] >= truth.estimate - slack).all()
    assert (values["certificate"] >= values["mi-lb"] - 1e-5).all() and (values["certificate"] >= 0).all()
    marginal = members.marginal(weights)
    surprise = -marginal.log_prob(marginal.sample(jax.random.key(1), (4_096,)))
    entropy, slack = surprise.mean(0), 5 * surprise.std(0) / 64
    for name in ("huber lower", "chernoff"):
        assert (values[name] <= entropy + slack).all(), name
    for name in ("huber upper", "kl", "moments"):
        assert (values[name] >= entropy - slack).all(), name
    assert (values["kl"] <= values["huber upper"] + 1e-5).all()


def test_one_gaussian_has_closed_forms():
    _, means, covariances, _ = random_arrays(4)
    gaussian = full(np.zeros((SIZE[1], 1)), means[0, :, :1], covariances[0, :, :1])
    n_dimensions = SIZE[-1]
    entropy = 0.5 * np.linalg.slogdet(2 * np.pi * np.e * covariances[0, :, 0])[1]
    slack = 0.5 * n_dimensions * (1 - np.log(2))
    np.testing.assert_allclose(bounds.entropy_lower_bound(gaussian), entropy - slack, rtol=1e-12)
    for bound in (bounds.entropy_upper_bound, bounds.entropy_upper_bound_kl, bounds.entropy_lower_bound_chernoff):
        np.testing.assert_allclose(bound(gaussian), entropy, rtol=1e-12)
    np.testing.assert_allclose(bounds.entropy_upper_bound_moments(gaussian), entropy, rtol=1e-7, atol=1e-7)


def test_two_gaussians_by_hand():
    """Means delta apart, one covariance C: Bhattacharyya's is d' C^-1 d / 8, Huber's overlap e^{-d' C^-1 d / 4}."""
    covariance = np.array([[2.0, 1.2], [1.2, 1.0]])
    delta = np.array([1.0, -1.0])
    root = np.broadcast_to(np.linalg.cholesky(covariance), (2, 1, 2, 2))
    members = FullMixture(jnp.zeros((2, 1)), jnp.asarray([0 * delta, delta])[:, None], jnp.asarray(root))
    squared = delta @ np.linalg.solve(covariance, delta)
    assert bounds.mi_pairwise(members) == pytest.approx(squared / 8, rel=1e-5)
    assert bounds.log_overlap_gap(members) == pytest.approx(np.log(np.log1p(np.exp(-squared / 4))), rel=1e-5)


@pytest.mark.exhaustive
def test_gradients_are_finite_and_blocks_change_nothing():
    *arrays, weights = random_arrays(5, np.float32)
    members = full(*arrays)
    gradient = jax.grad(lambda members: bounds.mi_certificate(members, weights).sum())(members)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(gradient))
    many = jax.tree.map(lambda leaf: jnp.tile(leaf, (1, 50, *(1,) * (leaf.ndim - 2))), members)
    expected = jnp.tile(bounds.log_overlap_gap(members), 50)
    np.testing.assert_allclose(bounds.log_overlap_gap(many), expected, rtol=1e-6)
    assert bounds.mi_certificate(jax.tree.map(lambda leaf: leaf[:, :0], members)).shape == (0,)

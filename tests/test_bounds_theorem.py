"""Thousands of random mixtures: no bound is on the wrong side of Monte Carlo, orderings hold, gradients are finite.

Together with `--exhaustive` these are 10,500 mixtures over D = 1, 2, 5, 16, 20; without, a tenth of one of the five.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from milb import Mixture, bounds

pytestmark = pytest.mark.slow

SIZES = [(2, 3, 1), (4, 2, 2), (2, 1, 5), (3, 3, 16), (2, 2, 20)]  # E, K, D
N_POINTS, N_GROUPS = 210, 10  # of each size: groups differ in member weights and in how wild they are
N_SAMPLES = 1_024


def random_group(group, size):
    """Members and member weights; from group 5 on variances 1e-12 .. 1e12 and weights down to e^-50."""
    n_members, n_components, n_dimensions = size
    rng = np.random.default_rng([group, *size])
    shape = (n_members, N_POINTS, n_components, n_dimensions)
    means = rng.choice([0.1, 1.0, 5.0], (1, N_POINTS, 1, 1)) * rng.normal(size=shape)
    means = means + 3 * rng.normal(size=shape[1:])
    logits, log_variances = rng.normal(size=shape[:-1]), rng.normal(size=shape)
    member_weights = rng.dirichlet(np.ones(n_members))
    if group >= 5:
        logits = rng.choice([0.0, -25.0, -50.0], shape[:-1])
        log_variances = rng.uniform(np.log(1e-12), np.log(1e12), shape)
    if group == 9:
        member_weights = np.array([1 - np.exp(-50), *np.full(n_members - 1, np.exp(-50) / (n_members - 1))])
    arrays = logits, means, np.exp(log_variances)
    members = Mixture.from_logits(*(array.astype(np.float32) for array in arrays))
    return members, member_weights.astype(np.float32)


@jax.jit
def everything(key, members, weights):
    """Bounds on entropy and information, and both by Monte Carlo with their standard errors."""
    marginal = members.marginal(weights)
    keys = jax.random.split(key)
    surprise = -marginal.log_prob(marginal.sample(keys[0], (N_SAMPLES,)))
    information = bounds.mi_monte_carlo(keys[1], members, N_SAMPLES, weights)
    return {
        "entropy": (surprise.mean(0), surprise.std(0) / np.sqrt(N_SAMPLES)),
        "information": information,
        "lower entropies": [f(marginal) for f in (bounds.entropy_lower_bound, bounds.entropy_lower_bound_chernoff)],
        "upper entropies": [f(marginal) for f in (bounds.entropy_upper_bound_kl, bounds.entropy_upper_bound_moments)],
        "huber upper": bounds.entropy_upper_bound(marginal),
        "mi-lb": bounds.mi_lower_bound(members, weights),
        "members": bounds.mi_lower_bound_members(members, weights),
        "certificate": bounds.mi_certificate(members, weights),
        "upper": bounds.mi_upper_bound(members, weights),
    }


@pytest.mark.parametrize(
    ("size", "groups"),
    [
        pytest.param(SIZES[1], (3, 8), id="few"),
        *(pytest.param(s, range(N_GROUPS), id=str(s), marks=pytest.mark.exhaustive) for s in SIZES),
    ],
)
def test_directions_and_orderings(size, groups):
    for group in groups:
        members, weights = random_group(group, size)
        found = jax.tree.map(np.asarray, everything(jax.random.key(group), members, weights))
        entropy, error = found["entropy"]
        slack = 6 * error + 2e-5 * (1 + np.abs(entropy))
        for bound in found["lower entropies"]:
            assert (bound <= entropy + slack).all(), group
        for bound in (*found["upper entropies"], found["huber upper"]):
            assert (bound >= entropy - slack).all(), group
        kl, huber = found["upper entropies"][0], found["huber upper"]
        assert (kl <= huber + 2e-6 * (1 + np.abs(huber))).all(), group

        information, error = found["information"]
        slack = 6 * error + 1e-4
        for name in ("mi-lb", "members", "certificate"):
            assert (found[name] <= information + slack).all(), (group, name)
        assert (found["upper"] >= information - slack).all(), group
        most = -(weights * np.log(weights)).sum()
        for name in ("members", "certificate", "upper"):
            assert (found[name] >= 0).all() and (found[name] <= most + 1e-6).all(), (group, name)
        assert (found["certificate"] >= np.maximum(found["mi-lb"], found["members"]) - 1e-5).all(), group
        assert (found["certificate"] <= found["upper"] + 1e-5).all(), group


@pytest.mark.exhaustive
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_gradients_are_finite(size):
    @jax.jit
    def gradient(members, weights):
        def total(members):
            marginal = members.marginal(weights)
            entropies = bounds.entropy_lower_bound(marginal) + bounds.entropy_upper_bound_moments(marginal)
            information = bounds.mi_certificate(members, weights) + bounds.mi_upper_bound(members, weights)
            return (entropies + information + bounds.mi_lower_bound(members, weights)).sum()

        return jax.grad(total)(members)

    for group in (0, 6, 9):
        for leaf in jax.tree.leaves(gradient(*random_group(group, size))):
            assert jnp.isfinite(leaf).all(), group


@pytest.mark.exhaustive
def test_certificate_is_five_times_closer_than_mi_lb_in_16_dimensions():
    """Members from almost alike to far apart: what MI-LB misses, the certificate misses a fifth of at most."""
    rng = np.random.default_rng(0)
    n_points, shape = 400, (4, 400, 3, 16)
    disagreement = np.geomspace(0.01, 3, n_points)[:, None, None]
    means = rng.normal(size=shape[1:]) + disagreement * rng.normal(size=shape)
    log_variances = rng.normal(size=shape[1:]) + 0.1 * rng.normal(size=shape)
    arrays = rng.normal(size=shape[:-1]), means, np.exp(log_variances)
    members = Mixture.from_logits(*(array.astype(np.float32) for array in arrays))
    truth = bounds.mi_monte_carlo(jax.random.key(0), members, 1_024).estimate
    certificate, mi_lb = ((truth - f(members)).mean() for f in (bounds.mi_certificate, bounds.mi_lower_bound))
    assert 0 < certificate < mi_lb / 5

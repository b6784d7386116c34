"""The double-well's explorer shows what simulator, ensemble and scores say at one input."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from milb import acquisition, mdn
from milb.plots import one_input
from milb.problems.double_well import trajectories
from milb.protocol import Options

KEY = jax.random.key(3)
NETWORK = mdn.MixtureDensityNetwork(width=8, depth=2, n_components=3, n_outputs=20)
N, SIGMAS = 12, 6


@pytest.fixture(scope="module")
def ensemble():
    """Untrained: two members that disagree."""
    inputs, outputs = (mdn.Standardisation(jnp.zeros(n), jnp.ones(n)) for n in (7, 20))
    return mdn.Ensemble(mdn.initialise(jax.random.key(0), NETWORK, 2, 7), inputs, outputs, NETWORK)


@pytest.fixture(scope="module")
def found(ensemble):
    leaves = one_input.evaluate(KEY, ensemble, -0.5, 0.9, 0.4, n_paths=N, n_sigma=SIGMAS)
    return one_input.OneInput(*(np.asarray(leaf) for leaf in leaves))


def test_paths_are_the_simulators(found):
    start = np.full((N, 5), -0.5, np.float32)
    q = trajectories(jax.random.split(KEY, N), start, np.full(N, 0.9, np.float32), np.full(N, 0.4, np.float32), 25)
    assert_allclose(found.paths[:, 0], -0.5)
    assert_allclose(found.paths[:, 1:], np.asarray(q)[:, :, 2], rtol=1e-4, atol=1e-4)


def test_densities_are_the_members_of_the_middle_particle_at_the_end(found, ensemble):
    x = np.array([[-0.5] * 5 + [0.9, 0.4]], np.float32)
    members = mdn.predict(ensemble, x)
    weights = np.exp(members.log_weights[:, 0])
    mean, variance = (np.asarray(leaf)[:, 0, :, 17] for leaf in (members.means, members.variances))
    y = found.grid[:, None, None]
    expected = (weights * np.exp(-0.5 * (y - mean) ** 2 / variance) / np.sqrt(2 * np.pi * variance)).sum(-1)
    assert_allclose(found.members, expected.T, rtol=2e-3, atol=1e-5)


def test_scores_are_the_acquisitions(found, ensemble):
    sigma = np.append(found.sigma, 0.9).astype(np.float32)
    x = np.column_stack([np.full((len(sigma), 5), -0.5), sigma, np.full(len(sigma), 0.4)])
    x = jnp.asarray(x, jnp.float32)
    keys = jax.random.split(KEY, len(x))
    bound = np.asarray(acquisition.mi_lower_bound(keys, ensemble, x, Options()))
    variance = np.asarray(acquisition.epistemic_variance(keys, ensemble, x, Options()))
    assert_allclose(np.append(found.mi_lower_bound, found.at[0]), bound, rtol=1e-3, atol=1e-3)
    assert_allclose(np.append(found.variance, found.at[2]), variance, rtol=1e-3)
    assert (found.sigma[[0, -1]] == np.array([0.3, 2.0], np.float32)).all()
    assert (found.certificate >= found.mi_lower_bound - 1e-4).all()


def test_moving_a_slider_compiles_nothing(ensemble, found):
    before = one_input.evaluate._cache_size()
    moved = one_input.evaluate(KEY, ensemble, 0.3, 1.5, 2.0, n_paths=N, n_sigma=SIGMAS)
    assert one_input.evaluate._cache_size() == before
    assert abs(np.asarray(moved.at) - found.at).max() > 1e-6


def test_figure(found):
    fig = one_input.draw(found, 0.9, -1.5)
    paths, final, bounds, variance = fig.axes
    (lines,) = paths.collections
    assert len(lines.get_segments()) == N
    assert_allclose(lines.get_segments()[3][:, 1], found.paths[3])
    assert_allclose(lines.get_segments()[3][:, 0], np.linspace(0, 5, 41))
    drawn = [line.get_xdata() for line in final.lines[: len(found.members) + 1]]
    assert_allclose(drawn, [*found.members, found.members.mean(axis=0)])
    (steps,) = final.patches
    assert steps.get_data().values.sum() * np.diff(steps.get_data().edges)[0] == pytest.approx(1)
    by_label = {line.get_label(): line for line in bounds.lines}
    assert_allclose(by_label["MI-LB"].get_ydata(), found.mi_lower_bound)
    assert_allclose(by_label["certificate"].get_ydata(), found.certificate)
    assert by_label["largest MI-LB"].get_ydata()[0] == -1.5
    assert_allclose(variance.lines[1].get_xydata()[0], [0.9, found.at[2]])
    assert bounds.get_ylabel() == "nats" and variance.get_xlabel() == r"noise intensity $\sigma$"

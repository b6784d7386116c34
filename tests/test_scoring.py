"""Pools in blocks: what `score_pool` refuses. That blocks change no score is tested of every acquisition."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from milb.acquisition import epistemic_variance
from milb.problems import PROBLEMS
from milb.scoring import score_pool
from milb.training import fit

pytestmark = pytest.mark.slow

PROBLEM = PROBLEMS["double_well"]

PROTOCOL = PROBLEM.protocol("smoke").replace(n_components=2, width=8, steps_per_label=1)

KEY = jax.random.key(3)


@pytest.fixture(scope="module")
def data():
    return PROBLEM.dataset(0, 50, 10, 20)


@pytest.fixture(scope="module")
def ensemble(data):
    return fit(jax.random.key(0), data.x[:20], data.y[:20], PROTOCOL)


@pytest.mark.parametrize("shape", [(50,), (50, 3), (0, 7)])
def test_refuses_wrong_inputs(ensemble, shape):
    with pytest.raises(ValueError, match="x must have shape"):
        score_pool(epistemic_variance, KEY, ensemble, np.zeros(shape, np.float32))


def scalar(keys, ensemble, x, options):
    return jnp.zeros(())


def one_column_each(keys, ensemble, x, options):
    return x[:, :1]


def two_each(keys, ensemble, x, options):
    return jnp.zeros(2 * len(x))


@pytest.mark.parametrize(
    ("wrong", "message"), [(scalar, "one row a point"), (two_each, "one row"), (one_column_each, "one score a point")]
)
def test_acquisitions_that_return_something_else(wrong, message, ensemble, data):
    with pytest.raises(ValueError, match=message):
        score_pool(wrong, KEY, ensemble, data.x)

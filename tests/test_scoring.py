"""Pools in blocks: what `score_pool` refuses. That blocks change no score is tested of every acquisition."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from milb.acquisition import epistemic_variance
from milb.scoring import score_pool

pytestmark = pytest.mark.slow


KEY = jax.random.key(3)


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

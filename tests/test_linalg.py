"""Elimination: as NumPy in float64, gradients too, NaN where it must be; and two at a time, which LAPACK's hang on."""

import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from milb import linalg


def matrices(n, batch, dtype):
    rows = np.random.default_rng(n).normal(size=(*batch, n, n + 2))
    return np.moveaxis(rows @ rows.swapaxes(-1, -2), (-2, -1), (0, 1)).astype(dtype)


def batch_first(array):
    return np.moveaxis(np.asarray(array, np.float64), (0, 1), (-2, -1))


@pytest.mark.parametrize("n", [1, 2, 5, 20])
@pytest.mark.parametrize("batch", [(), (3,), (2, 4)])
def test_as_numpy(n, batch):
    a = matrices(n, batch, np.float32)
    log_det = np.linalg.slogdet(batch_first(a))[1]
    np.testing.assert_allclose(jax.jit(linalg.log_det)(a), log_det, rtol=1e-5, atol=1e-4)

    lower = np.linalg.cholesky(batch_first(a))
    inverse = jax.jit(linalg.solve_lower)(np.moveaxis(lower.astype(np.float32), (-2, -1), (0, 1)), a)
    np.testing.assert_allclose(batch_first(inverse), np.linalg.solve(lower, batch_first(a)), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("n", [1, 2, 5, 20])
@pytest.mark.parametrize("batch", [(), (3,), (2, 4)])
def test_norm_and_log_det_of_a_sum_as_numpy(n, batch):
    rng = np.random.default_rng(n)
    lower = np.tril(rng.normal(size=(*batch, n, n)))
    vectors = rng.normal(size=(*batch, n))
    total = 0.3 * np.eye(n) + 0.7 * lower @ lower.swapaxes(-1, -2)
    norm = (vectors * np.linalg.solve(total, vectors[..., None])[..., 0]).sum(-1)
    arguments = np.moveaxis(lower, (-2, -1), (0, 1)), np.moveaxis(vectors, -1, 0)
    found, log_det = linalg.norm_and_log_det_of_sum(0.3, 0.7, *(np.asarray(a, np.float32) for a in arguments))
    assert found.shape == log_det.shape == batch
    np.testing.assert_allclose(found, norm, rtol=1e-4)
    np.testing.assert_allclose(log_det, np.linalg.slogdet(total)[1], rtol=1e-5, atol=1e-5)


def test_a_sum_whose_square_would_round_it_away():
    lower, vectors = np.array([[1e4, 0], [1e4, 1]]), np.array([1e4, -4.0])
    total = np.eye(2) + lower @ lower.T
    norm, log_det = vectors @ np.linalg.solve(total, vectors), np.linalg.slogdet(total)[1]
    found = linalg.norm_and_log_det_of_sum(1.0, 1.0, jnp.asarray(lower, jnp.float32), jnp.asarray(vectors, jnp.float32))
    np.testing.assert_allclose(found, (norm, log_det), rtol=2e-3)


def test_gradient_of_a_log_determinant_is_the_inverse():
    a = matrices(5, (), np.float32)
    gradient = jax.grad(linalg.log_det)(jnp.asarray(a))
    # Symmetric matrices have one entry where two are written: which of them carries its derivative is left open.
    np.testing.assert_allclose((gradient + gradient.T) / 2, np.linalg.inv(a), rtol=2e-3, atol=1e-4)


def test_not_positive_definite_is_nan():
    assert np.isnan(linalg.log_det(jnp.asarray([[1.0, 2.0], [2.0, 1.0]])))


TWO_AT_A_TIME = """
import jax
import jax.numpy as jnp
import numpy as np
import milb
milb.use_cpu_cores(2)
from jax.sharding import Mesh, PartitionSpec
from milb import FullMixture, Mixture, bounds

mesh = Mesh(jax.devices(), ("points",))
rng = np.random.default_rng(0)
means = rng.normal(size=(4, 1000, 2, 20)).astype(np.float32)
logits = np.zeros(means.shape[:3], np.float32)
diagonal = Mixture.from_logits(logits, means, np.ones_like(means))
identity = np.broadcast_to(np.eye(20, dtype=np.float32), (4, 100, 2, 20, 20))
full = FullMixture.from_logits(logits[:, :100], means[:, :100], identity)
points = PartitionSpec(None, "points")
both = lambda members: bounds.mi_certificate(members) + bounds.mi_upper_bound(members)
both = jax.shard_map(both, mesh=mesh, in_specs=points, out_specs=PartitionSpec("points"), check_vma=False)
for members in (diagonal, full):
    for _ in range(3):
        jax.block_until_ready(jax.jit(both)(members))
"""


@pytest.mark.slow
def test_both_devices_may_compute_bounds_at_once():
    subprocess.run([sys.executable, "-c", TWO_AT_A_TIME], check=True, timeout=200)

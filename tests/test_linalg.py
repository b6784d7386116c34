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
    a, b = matrices(n, batch, np.float32), np.random.default_rng(0).normal(size=(n, *batch)).astype(np.float32)
    log_det = np.linalg.slogdet(batch_first(a))[1]
    solution = np.linalg.solve(batch_first(a), np.moveaxis(b, 0, -1)[..., None].astype(float))[..., 0]
    norm = (np.moveaxis(b, 0, -1) * solution).sum(-1)
    found, total = jax.jit(linalg.squared_norm_and_log_det)(a, b)
    assert found.shape == total.shape == batch
    np.testing.assert_allclose(found, norm, rtol=1e-3)
    np.testing.assert_allclose(total, log_det, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(jax.jit(linalg.log_det)(a), total, rtol=1e-5, atol=1e-5)

    lower = np.linalg.cholesky(batch_first(a))
    inverse = jax.jit(linalg.solve_lower)(np.moveaxis(lower.astype(np.float32), (-2, -1), (0, 1)), a)
    np.testing.assert_allclose(batch_first(inverse), np.linalg.solve(lower, batch_first(a)), rtol=1e-3, atol=1e-3)


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

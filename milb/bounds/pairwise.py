"""Bounds on the entropy of a mixture from divergences between pairs of components.

Each is O(M^2 D) for M components in D dimensions, as MI-LB is, and holds for any leading axes. Float32 holds them while
the variances of one dimension of one mixture span at most 1e24 and means are less than 1e18 standard deviations apart.
"""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from milb.bounds.blocks import Block, Leaves, over_lanes
from milb.bounds.huber import mean_component_entropy
from milb.bounds.pairs import LogKernel, log_sum_of_pairs, weighted_sum, within_members
from milb.mixture import GaussianMixture


@jax.jit
def entropy_upper_bound_kl(mixture: GaussianMixture) -> Float[Array, "*batch"]:
    """Upper bound on the differential entropy from Kullback-Leibler divergences between components, in nats.

    U_KL = sum_m w_m h_m - sum_m w_m log sum_n w_n e^{-KL(m || n)}, h_m the entropy of component m. Valid for any
    weights, means and variances; never above `milb.bounds.entropy_upper_bound`, exact for a single Gaussian.

    Args:
        mixture: log_weights (..., K), means and variances (..., K, D).

    Returns:
        (...), one bound a mixture.

    Source: Kolchinsky and Tracey 2017.
    """

    def of_block(block: Block) -> Array:
        return _mean_log_similarity(block, log_kl(block))

    return mean_component_entropy(mixture) - over_lanes(of_block, mixture)


def entropy_lower_bound_chernoff(mixture: GaussianMixture, a: float = 0.5) -> Float[Array, "*batch"]:
    """Lower bound on the differential entropy from Chernoff divergences between components, in nats.

    L_a = sum_m w_m h_m - sum_m w_m log sum_n w_n e^{-C_a(m, n)}, C_a = -log of the integral of p_m^a p_n^(1 - a) and
    h_m the entropy of component m. Valid for any weights, means and variances; exact for a single Gaussian and where
    no components overlap. Neither above nor below `milb.bounds.entropy_lower_bound` in general.

    Args:
        mixture: log_weights (..., K), means and variances (..., K, D).
        a: a number, 0 .. 1; 1/2 (Bhattacharyya's) takes half the time of any other. 0 and 1 leave sum_m w_m h_m.

    Returns:
        (...), one bound a mixture.

    Raises:
        ValueError: a is not between 0 and 1.

    Source: Kolchinsky and Tracey 2017.
    """
    if not 0 <= a <= 1:
        raise ValueError(f"a must be between 0 and 1, got {a}")
    return _entropy_lower_bound_chernoff(mixture, float(a))


@partial(jax.jit, static_argnames="a")
def _entropy_lower_bound_chernoff(mixture: GaussianMixture, a: float) -> Array:
    def of_block(block: Block) -> Array:
        return _mean_log_similarity(block, log_chernoff(block, a))

    return mean_component_entropy(mixture) - over_lanes(of_block, mixture)


def _mean_log_similarity(block: Block, log_kernel: LogKernel) -> Array:
    """sum_m b_m log sum_n b_n k(m, n) of a plain mixture, (lanes,), for a kernel with k(m, m) = 1."""
    shifts = within_members(block.log_weights.shape[1])
    log_others = log_sum_of_pairs(log_kernel, block.leaves, block.log_weights, shifts)
    return weighted_sum(block.log_weights, jnp.logaddexp(block.log_weights, log_others), axis=(0, 1))


def log_chernoff(block: Block, a: float) -> LogKernel:
    """-C_a(m, n) = log of the integral of p_m^a p_n^(1 - a), and -C_a(n, m) unless a = 1/2."""

    def log_kernel(here: Leaves, there: Leaves) -> tuple[Array, ...]:
        def minus_divergence(a: float) -> Array:
            squares, log_det = block.pooled(here, there, 1 - a, a)
            return -0.5 * (a * (1 - a) * squares + log_det - (1 - a) * here[-1] - a * there[-1])

        return (minus_divergence(a),) if a == 0.5 else (minus_divergence(a), minus_divergence(1 - a))

    return log_kernel


def log_kl(block: Block) -> LogKernel:
    """-KL(m || n) and -KL(n || m)."""

    def log_kernel(here: Leaves, there: Leaves) -> tuple[Array, ...]:
        ahead, behind = block.divergences(here, there)
        return -ahead, -behind

    return log_kernel

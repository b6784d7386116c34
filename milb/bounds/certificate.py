"""The tightest closed-form enclosure of the mutual information that milb's bounds make together.

Every entropy bound here is written as an excess over the mean entropy of the components, sum_m b_m h_m, which marginal
and members share: it cancels by algebra, and no difference of large numbers is taken.
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float

from milb.bounds.blocks import Block, Leaves, over_lanes
from milb.bounds.disagreement import log_overlap_of_others
from milb.bounds.pairs import (
    LogKernel,
    Shifts,
    between_members,
    entropy_of_weights,
    log_sums,
    pair_logs,
    weighted_sum,
    within_members,
)
from milb.bounds.pairwise import log_kl
from milb.devices import by_backend
from milb.linalg import log_det
from milb.mixture import LOG_2PI, GaussianMixture, log_weights_of_members

_ROWS = (256, 8_192)  # mixtures whose correlations are held at once, on a CPU and on an accelerator


@jax.jit
def entropy_upper_bound_moments(mixture: GaussianMixture) -> Float[Array, "*batch"]:
    """Upper bound on the differential entropy: that of the Gaussian with the mixture's mean and covariance, in nats.

    U_G = 1/2 log((2 pi e)^D |Cov Y|), for among all densities of one covariance the Gaussian's has the largest entropy.
    Valid for any weights, means and variances; tight where components overlap, loose where they lie apart. No order
    with `milb.bounds.entropy_upper_bound_kl`.

    Args:
        mixture: log_weights (..., K), means and variances (..., K, D).

    Returns:
        (...), one bound a mixture.

    Correlations are computed with 10 D machine epsilons on their diagonal: still an upper bound, and it keeps rounding
    from a covariance that is singular. Costs D^3 operations a mixture.
    """
    constant = 0.5 * mixture.n_dimensions * (LOG_2PI + 1)
    return constant + 0.5 * (jnp.log(mixture.variance()).sum(-1) + _log_det_of_correlations(mixture))


def mi_certificate(members: GaussianMixture, member_weights: ArrayLike | None = None) -> Float[Array, "*batch"]:
    r"""Certified lower bound on the mutual information I(Y; Z | x), in nats: the best of all lower bounds here.

        min(H(w), max(0, max{L_Huber, L_1/2}(p) - sum_z w_z min{U_KL, U_G}(p_z), member-level))

    with the lower bounds of `entropy_lower_bound` and `entropy_lower_bound_chernoff` on the marginal p, the upper ones
    of `entropy_upper_bound_kl` and `entropy_upper_bound_moments` on the members, and `mi_lower_bound_members`. Valid
    for any weights, means and variances; between 0 and H(w), and never below `mi_lower_bound`. It saturates at H(w).

    Args:
        members: the ensemble on axis 0: log_weights (E, ..., K), means and variances (E, ..., K, D).
        member_weights: w_z, (E,), summing to 1; None for equal weights.

    Returns:
        (...), one bound a point.

    Raises:
        ValueError: no ensemble axis, member_weights not (E,) or not weights.

    Source: Huber et al. 2008; Kolchinsky and Tracey 2017. At most three times the cost of MI-LB.
    """
    return _mi_certificate(members, log_weights_of_members(members, member_weights))


def mi_upper_bound(members: GaussianMixture, member_weights: ArrayLike | None = None) -> Float[Array, "*batch"]:
    r"""Upper bound on the mutual information I(Y; Z | x), in nats.

        min(H(w), min{U_KL, U_G}(p) - sum_z w_z max{L_Huber, L_1/2}(p_z))

    in the notation of `mi_certificate`, with which it encloses I. Arguments, shapes and errors as there.
    """
    return _mi_upper_bound(members, log_weights_of_members(members, member_weights))


@jax.jit
def _mi_certificate(members: GaussianMixture, log_member_weights: Float[Array, "E"]) -> Float[Array, "*batch"]:
    n_members, n_components = len(members.means), members.n_components
    log_w = log_member_weights[:, None, None]
    inside, outside = within_members(n_components), between_members(n_members, n_components)

    def of_block(block: Block) -> Array:
        log_alpha = block.log_weights + math.log(n_members)
        kernel = _log_huber_and_bhattacharyya(block)
        pairs = [(pair_logs(kernel, block.leaves, shifts), shifts) for shifts in (inside, outside)]
        huber, bhattacharyya = _excess_of_lower_bounds(block, pairs, log_alpha + log_w, axis=(0, 1))
        log_others = log_overlap_of_others(pairs[1][0][1], log_alpha, log_w)
        overlap = -weighted_sum(log_w, jnp.logaddexp(log_w, log_others), axis=(0, 1))
        kl = pair_logs(log_kl(block), block.leaves, inside)
        kl_of_members = _excess(log_alpha, [log_sums(kl, log_alpha, inside)], axis=1)
        return jnp.concatenate([jnp.stack([jnp.maximum(huber, bhattacharyya), overlap]), kl_of_members])

    rows = over_lanes(of_block, members.marginal(), n_members)
    lower, overlap, kl_of_members = rows[..., 0], rows[..., 1], jnp.moveaxis(rows[..., 2:], -1, 0)
    upper_of_members = jnp.minimum(kl_of_members, _excess_of_moments(members))
    difference = lower - _mean_over_members(log_member_weights, upper_of_members)
    return jnp.clip(jnp.maximum(difference, overlap), 0, entropy_of_weights(log_member_weights))


@jax.jit
def _mi_upper_bound(members: GaussianMixture, log_member_weights: Float[Array, "E"]) -> Float[Array, "*batch"]:
    n_members, n_components = len(members.means), members.n_components
    log_w = log_member_weights[:, None, None]
    inside, outside = within_members(n_components), between_members(n_members, n_components)

    def of_block(block: Block) -> Array:
        log_alpha = block.log_weights + math.log(n_members)
        log_b = log_alpha + log_w
        kl = [log_sums(pair_logs(log_kl(block), block.leaves, shifts), log_b, shifts) for shifts in (inside, outside)]
        pairs = [(pair_logs(_log_huber_and_bhattacharyya(block), block.leaves, inside), inside)]
        lower_of_members = jnp.maximum(*_excess_of_lower_bounds(block, pairs, log_alpha, axis=1))
        return jnp.concatenate([_excess(log_b, kl, axis=(0, 1))[None], lower_of_members])

    rows = over_lanes(of_block, members.marginal(), n_members)
    upper = jnp.minimum(rows[..., 0], _excess_of_moments(members.marginal(jnp.exp(log_member_weights))))
    lower_of_members = _mean_over_members(log_member_weights, jnp.moveaxis(rows[..., 1:], -1, 0))
    return jnp.clip(upper - lower_of_members, 0, entropy_of_weights(log_member_weights))


def _log_huber_and_bhattacharyya(block: Block) -> LogKernel:
    """log t_mn (in units in which t_mm = |C_m|^(-1/2)) and minus Bhattacharyya's divergence: symmetric, two in one."""

    def log_kernels(here: Leaves, there: Leaves) -> tuple[Array, ...]:
        squares, log_det = block.pooled(here, there, 0.5, 0.5)
        bhattacharyya = -0.125 * squares - 0.5 * log_det + 0.25 * (here[-1] + there[-1])
        return -0.25 * squares - 0.5 * log_det, bhattacharyya

    return log_kernels


def _excess_of_lower_bounds(
    block: Block, pairs: list[tuple[tuple[Array, ...], Shifts]], log_weights: Array, axis: int | tuple[int, ...]
) -> tuple[Array, Array]:
    """Huber's and Bhattacharyya's, from logs of `_log_huber_and_bhattacharyya` and the shifts they were made with."""
    log_t, log_similarity = (
        [log_sums((logs[which],), log_weights, shifts) for logs, shifts in pairs] for which in (0, 1)
    )
    slack = 0.5 * len(block.log_scale) * (1 - math.log(2))
    over_own = [log_sum + 0.5 * block.log_det for log_sum in log_t]
    return _excess(log_weights, over_own, axis) - slack, _excess(log_weights, log_similarity, axis)


def _excess(log_weights: Array, log_others: list[Array], axis: int | tuple[int, ...]) -> Array:
    """-sum_m b_m log(b_m + the others' sums), for kernels that are 1 between a component and itself."""
    total = log_weights
    for log_sum in log_others:
        total = jnp.logaddexp(total, log_sum)
    return -weighted_sum(log_weights, total, axis)


def _excess_of_moments(mixture: GaussianMixture) -> Array:
    """Of `entropy_upper_bound_moments`, (...)."""
    ratios = jnp.log(mixture.variance())[..., None, :] - mixture.log_pivots()
    return 0.5 * (weighted_sum(mixture.log_weights, ratios.sum(-1), axis=-1) + _log_det_of_correlations(mixture))


def _log_det_of_correlations(mixture: GaussianMixture) -> Array:
    """Log determinant of Y's correlation matrix, (...), rounded upwards."""
    if mixture.n_dimensions == 1:
        return jnp.zeros_like(mixture.log_weights[..., 0])
    batch = mixture.log_weights.shape[:-1]
    flat = math.prod(batch)
    rows = min(by_backend(*_ROWS), max(flat, 1))
    n_blocks = -(-flat // rows)
    index = jnp.minimum(jnp.arange(n_blocks * rows), flat - 1).reshape(n_blocks, rows)  # the last one fills up

    def of_block(mixture: GaussianMixture) -> Array:
        correlations = jnp.moveaxis(mixture.correlation(), 0, -1)
        identity = jnp.eye(len(correlations), dtype=correlations.dtype)[..., None]
        return log_det(correlations + 10 * len(identity) * jnp.finfo(identity.dtype).eps * identity)

    blocks = jax.tree.map(lambda leaf: leaf.reshape(flat, *leaf.shape[len(batch) :])[index], mixture)
    return jax.lax.map(of_block, blocks).reshape(-1)[:flat].reshape(batch)


def _mean_over_members(log_member_weights: Array, values: Array) -> Array:
    lift = (slice(None),) + (None,) * (values.ndim - 1)
    return weighted_sum(log_member_weights[lift], values, axis=0)

"""Huber's bounds on the entropy of a Gaussian mixture, and MI-LB, which is made of them.

The work is over pairs of components: with M components and D dimensions, O(M^2 D) operations a mixture, in blocks, so
memory is O(M^2) times a fixed number of mixtures.
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
from jax.scipy.special import logsumexp
from jaxtyping import Array, ArrayLike, Float

from milb.mixture import LOG_2PI, Mixture, log_weights_of_members

# Mixtures handled at once: long enough rows for vector instructions, M^2 of them still fit a core's cache.
_LANES = 256
# Variances scaled to about 1 may spread over 1e-12 to 1e12: three factors of a product stay within float32.
_FACTORS = 3


@jax.jit
def entropy_lower_bound(mixture: Mixture) -> Float[Array, "*batch"]:
    """Huber's lower bound on the differential entropy, in nats.

    H_lower = -sum_i w_i log sum_j w_j N(m_i; m_j, C_i + C_j): Jensen's inequality on each component.
    Valid for any weights, means and variances; loose by D/2 (1 - log 2) for a single Gaussian.

    Args:
        mixture: log_weights (..., K), means and variances (..., K, D).

    Returns:
        (...), one bound a mixture.

    Source: Huber et al. 2008; paper equation (h_lower).
    """
    log_weights, log_others, log_self, scale = _pair_sums(mixture)
    log_density = jnp.logaddexp(log_weights + log_self, log_others) - 0.5 * mixture.n_dimensions * LOG_2PI
    return _unlanes(-_weighted_sum(log_weights, log_density, axis=-2) + scale, mixture)


@jax.jit
def entropy_upper_bound(mixture: Mixture) -> Float[Array, "*batch"]:
    """Huber's upper bound on the differential entropy, in nats.

    H_upper = sum_i w_i (-log w_i + 1/2 log((2 pi e)^D |C_i|)): the entropy of Y and its component together.
    Tight when components do not overlap.

    Args:
        mixture: log_weights (..., K), means and variances (..., K, D).

    Returns:
        (...), one bound a mixture.

    Source: Huber et al. 2008; paper equation (h_upper).
    """
    entropies = 0.5 * (mixture.n_dimensions * (LOG_2PI + 1) + jnp.log(mixture.variances).sum(-1))
    return _weighted_sum(mixture.log_weights, entropies - mixture.log_weights, axis=-1)


def log_overlap_gap(members: Mixture, member_weights: ArrayLike | None = None) -> Float[Array, "*batch"]:
    r"""Log of the overlap gap: how far MI-LB stays below the largest value it can take, kept in logs.

    With m running over all components (z, i), b_m = w_z alpha_i and t_mn = N(m_m; m_n, C_m + C_n),

        gap = sum_m b_m log(1 + sum_{n != m} b_n t_mn / (b_m t_mm)) >= 0.

    Small when the members predict components far from each other, i.e. when they disagree. Ranking by -log gap
    ranks by MI-LB, without the rounding of a difference of entropies and without ties where MI-LB saturates.

    Args:
        members: the ensemble on axis 0: log_weights (E, ..., K), means and variances (E, ..., K, D).
        member_weights: w_z, (E,), summing to 1; None for equal weights.

    Returns:
        (...), log gap; -inf for a single component.

    Raises:
        ValueError: no ensemble axis, member_weights not (E,) or not weights.

    Derivation: see `mi_lower_bound`. Float32 holds it while the variances of one dimension of one mixture span at
    most 1e24; their common scale does not matter.
    """
    return _log_overlap_gap(members, log_weights_of_members(members, member_weights))


def mi_lower_bound(members: Mixture, member_weights: ArrayLike | None = None) -> Float[Array, "*batch"]:
    r"""MI-LB, a lower bound on the mutual information I(Y; Z | x) between output and ensemble member, in nats.

    MI-LB = H_lower(marginal) - sum_z w_z H_upper(member z), computed as a constant minus an overlap gap:

        MI-LB = H(w) - D/2 (1 - log 2) - gap.

    Derivation. Let b_m = w_z alpha_i and t_mn as in `log_overlap_gap`; t_mm = (4 pi)^(-D/2) |C_m|^(-1/2). Pull the
    m-th term out of the inner sum of H_lower:

        H_lower = -sum_m b_m log(b_m t_mm) - gap
                = -sum_m b_m log b_m + 1/2 sum_m b_m log((4 pi)^D |C_m|) - gap.

    The members' upper bounds average to -sum_z w_z sum_i alpha_i log alpha_i + 1/2 sum_m b_m log((2 pi e)^D |C_m|).
    In the difference the determinants cancel, -sum b log b + sum w alpha log alpha = -sum w log w = H(w), and
    what is left of the constants is D/2 (log 4 pi - log 2 pi e) = -D/2 (1 - log 2).

    Often negative in many dimensions: that is slack of the bound, not negative information. It saturates at
    H(w) - D/2 (1 - log 2) once no two components overlap; rank by `log_overlap_gap` there.

    Args:
        members: the ensemble on axis 0: log_weights (E, ..., K), means and variances (E, ..., K, D).
        member_weights: w_z, (E,), summing to 1; None for equal weights.

    Returns:
        (...), one bound a point.

    Raises:
        ValueError: no ensemble axis, member_weights not (E,) or not weights.

    Source: paper equation (gee) and theorem (gee_lb); the identity is derived above.
    """
    return _mi_lower_bound(members, log_weights_of_members(members, member_weights))


@jax.jit
def _mi_lower_bound(members: Mixture, log_member_weights: Float[Array, "E"]) -> Float[Array, "*batch"]:
    gap = jnp.exp(_log_overlap_gap(members, log_member_weights))
    return mi_lower_bound_maximum(log_member_weights, members.n_dimensions) - gap


def mi_lower_bound_maximum(log_member_weights: Float[Array, "E"], n_dimensions: int) -> Float[Array, ""]:
    """H(w) - D/2 (1 - log 2): the value of MI-LB, in nats, when no two components overlap."""
    return -_weighted_sum(log_member_weights, log_member_weights, axis=-1) - 0.5 * n_dimensions * (1 - math.log(2))


def _weighted_sum(log_weights: Array, values: Array, axis: int) -> Array:
    """sum_m e^{log_weights} values along an axis, where weight 0 times anything is 0."""
    weights = jnp.exp(log_weights)
    return (weights * jnp.where(weights > 0, values, 0)).sum(axis)


@jax.jit
def _log_overlap_gap(members: Mixture, log_member_weights: Float[Array, "E"]) -> Float[Array, "*batch"]:
    marginal = members.marginal(jnp.exp(log_member_weights))
    log_weights, log_others, log_self, _ = _pair_sums(marginal)
    log_ratio = log_others - (log_weights + log_self)  # of everybody else to oneself, at one's own mean
    no_term = jnp.isneginf(log_weights) | jnp.isneginf(log_others)
    log_ratio = jnp.where(no_term, 0, log_ratio)
    # log log(1 + e^r) is r to within e^r / 2 for very negative r, where the plain formula would return -inf.
    tiny = log_ratio < -15
    log_log1p = jnp.where(tiny, log_ratio, jnp.log(jax.nn.softplus(jnp.where(tiny, 0, log_ratio))))
    log_gap = logsumexp(jnp.where(no_term, -jnp.inf, log_weights + log_log1p), axis=-2)
    return _unlanes(log_gap, marginal)


def _pair_sums(mixture: Mixture) -> tuple[Array, Array, Array, Array]:
    """The sums over pairs that all bounds here are made of, as (blocks, M, lanes) arrays, mixtures innermost.

    Returns:
        log b_m; log sum_{n != m} b_n t_mn; log t_mm (both without the factor (2 pi)^(-D/2)), where every dimension
        is divided by its geometric mean standard deviation; and the log of that scale, summed over dimensions,
        (blocks, lanes).
    """
    flat = math.prod(mixture.log_weights.shape[:-1])
    lanes = min(_LANES, max(flat, 1))
    n_blocks = -(-flat // lanes)

    def to_lanes(leaf: Array, trailing: int) -> Array:
        rows = leaf.reshape(flat, *leaf.shape[leaf.ndim - trailing :])
        rows = jnp.pad(rows, ((0, n_blocks * lanes - flat), *[(0, 0)] * trailing), constant_values=1)
        rows = rows.reshape(n_blocks, lanes, *rows.shape[1:])
        return rows.transpose(0, *range(rows.ndim - 1, 1, -1), 1)

    def one_block(block: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        log_weights, means, variances = block  # (M, lanes), (D, M, lanes), (D, M, lanes)
        # Bounds move with a change of units by a known amount, so they may be computed in any: scale is a constant.
        # The middle of a dimension's range of variances, so that its ends are equally far from overflow.
        log_variances = jax.lax.stop_gradient(jnp.log(variances))
        log_scale = 0.25 * (log_variances.max(1, keepdims=True) + log_variances.min(1, keepdims=True))
        scaled_variances = variances * jnp.exp(-2 * log_scale)
        log_others = _log_sum_over_others(log_weights, means, scaled_variances, jnp.exp(-log_scale))
        log_self = -0.5 * _sum_log(2 * scaled_variances)
        return log_others, log_self, log_scale.sum((0, 1))

    blocks = (to_lanes(mixture.log_weights, 1), to_lanes(mixture.means, 2), to_lanes(mixture.variances, 2))
    log_others, log_self, scale = jax.lax.map(one_block, blocks)
    return blocks[0], log_others, log_self, scale


def _log_sum_over_others(log_weights: Array, means: Array, variances: Array, per_unit: Array) -> Array:
    """log sum_{n != m} b_n t_mn for every m, (M, lanes), each pair's t computed once: t is symmetric.

    Variances are scaled already; differences of means are, by per_unit, once taken, so that what is far away from a
    pair cannot round it.

    Pair m with m + s on a ring of M components, for s = 1 .. M // 2. Ring neighbours are plain slices of a doubled
    array, so all reads are contiguous and no array over pairs and dimensions exists.
    """
    n_components = means.shape[1]
    half = n_components // 2
    if half == 0:
        return jnp.full_like(log_weights, -jnp.inf)
    ring_means, ring_variances = (jnp.concatenate([leaf, leaf], axis=1) for leaf in (means, variances))
    ring_weights = jnp.concatenate([log_weights, log_weights])

    def pair(shift: Array) -> Array:
        other_means, other_variances = (
            jax.lax.dynamic_slice_in_dim(ring, shift, n_components, axis=1) for ring in (ring_means, ring_variances)
        )
        summed = variances + other_variances
        return -0.5 * ((((means - other_means) * per_unit) ** 2 / summed).sum(0) + _sum_log(summed))

    shifts = jnp.arange(1, half + 1)
    log_t = jax.lax.map(pair, shifts)  # (half, M, lanes): log t of m and m + s

    def ahead(shift: Array, log_t: Array) -> Array:
        return log_t + jax.lax.dynamic_slice_in_dim(ring_weights, shift, n_components)

    def behind(shift: Array, log_t: Array) -> Array:
        doubled = jnp.concatenate([log_t + log_weights] * 2)
        return jax.lax.dynamic_slice_in_dim(doubled, n_components - shift, n_components)

    terms_ahead = jax.vmap(ahead)(shifts, log_t)
    # With M even, m and m + M/2 are opposite each other: that shift already meets both of them.
    one_way = half - 1 if n_components % 2 == 0 else half
    terms_behind = jax.vmap(behind)(shifts[:one_way], log_t[:one_way])
    return logsumexp(jnp.concatenate([terms_ahead, terms_behind]), axis=0)


def _sum_log(values: Array) -> Array:
    """Sum of logs over axis 0, as logs of products of a few factors each: a logarithm costs ten products."""
    total = 0.0
    for start in range(0, values.shape[0], _FACTORS):
        total = total + jnp.log(jnp.prod(values[start : start + _FACTORS], axis=0))
    return total


def _unlanes(blocks: Array, mixture: Mixture) -> Array:
    batch = mixture.log_weights.shape[:-1]
    return blocks.reshape(-1)[: math.prod(batch)].reshape(batch)

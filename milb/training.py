"""Training an ensemble: one compiled program for all members, every number of labels and every number of steps."""

from __future__ import annotations

import operator
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.scipy.special import logsumexp
from jax.sharding import PartitionSpec
from jaxtyping import Array, ArrayLike, Float, Int

from milb.checks import check_columns, unmasked
from milb.clipping import CLIPS
from milb.devices import AXIS, mesh_for
from milb.mdn import (
    CONSTANT,
    SCALE_FLOOR,
    VARIANCE_FLOOR,
    Ensemble,
    Heads,
    MixtureDensityNetwork,
    Standardisation,
    initialise,
    predict,
)  # fmt: skip
from milb.mixture import Mixture, PRNGKey
from milb.protocol import Protocol


def fit(
    key: PRNGKey,
    x: ArrayLike,
    y: ArrayLike,
    protocol: Protocol,
    n_labelled: int | None = None,
) -> Ensemble:
    """Train an ensemble from scratch on the first n_labelled rows of a buffer.

    Rows behind n_labelled are never looked at, and the count is traced: calls that differ only in it share one
    compilation. Members spread over the greatest common divisor of their number and the devices'.

    Args:
        key: consumed here; initialisation and mini-batches follow from it.
        x, y: the buffer, (N, dx) and (N, D), in raw units.
        protocol: network, optimiser and steps; see `milb.protocol.Protocol`.
        n_labelled: rows that are labels; None for all.

    Returns:
        The trained Ensemble; standardisation is that of the labels (population std + 1e-6; see `standardise`).

    Raises:
        ValueError: x or y not two-dimensional or of different length, n_labelled not in 1 .. N, NaN, infinity or
            values beyond 1e15 among the labelled rows. TypeError: n_labelled is no integer.

    Warns:
        UserWarning: a column is constant over the labels, to a millionth of its value; x has a standard deviation
            below 1e-4, or y one below 0.01, beside which 1e-6 in its scale, or 1e-8 in predicted variances, is seen.

    Source: the protocol of the paper's released experiments.
    """
    x, y = _checked(x, y, n_labelled)
    n_labelled = jnp.asarray(len(x) if n_labelled is None else n_labelled)
    return jax.block_until_ready(fit_buffer(key, x, y, n_labelled, protocol))  # see `milb.scoring.map_pool`


def fit_offline(key: PRNGKey, x: ArrayLike, y: ArrayLike, protocol: Protocol) -> Ensemble:
    """Plain supervised training on a large set: `fit`, with mini-batches drawn with replacement.

    A subset without replacement costs time in the number of rows at every step, which hundreds of labels do not
    notice and hundreds of thousands do. Arguments, returns, errors and warnings as `fit`.
    """
    x, y = _checked(x, y)
    return jax.block_until_ready(fit_buffer(key, x, y, jnp.asarray(len(x)), protocol, replace=True))


@partial(jax.jit, static_argnames=("protocol", "replace", "spread_members"))
def fit_buffer(
    key: PRNGKey,
    x: Float[Array, "N dx"],
    y: Float[Array, "N D"],
    n_labelled: Int[Array, ""],
    protocol: Protocol,
    replace: bool = False,
    spread_members: bool = True,
) -> Ensemble:
    """`fit`, or with replacement `fit_offline`, unchecked, for use inside jit.

    With spread_members False all members are trained on one device, as it must be inside a shard_map of runs.
    """
    labelled = jnp.arange(len(x)) < n_labelled
    inputs, outputs = standardise(x, labelled), standardise(y, labelled)
    x = jnp.where(labelled[:, None], inputs(x), 0)
    y = jnp.where(labelled[:, None], outputs(y), 0)
    network = network_of(protocol, y.shape[1])
    init_key, batch_key = jax.random.split(key)
    parameters = initialise(init_key, network, protocol.n_members, x.shape[1])
    axes = (AXIS,) if spread_members else ()
    train = partial(_train, network=network, protocol=protocol, replace=replace, axes=axes)
    if spread_members:
        train = jax.shard_map(
            train,
            mesh=mesh_for(protocol.n_members),
            in_specs=(PartitionSpec(AXIS), PartitionSpec(), PartitionSpec(), PartitionSpec(), PartitionSpec()),
            out_specs=PartitionSpec(AXIS),
            check_vma=False,
        )
    return Ensemble(train(parameters, batch_key, x, y, n_labelled), inputs, outputs, network)


def network_of(protocol: Protocol, n_outputs: int) -> MixtureDensityNetwork:
    """The architecture that a protocol asks for."""
    return MixtureDensityNetwork(protocol.width, protocol.depth, protocol.n_components, n_outputs)


def standardise(values: Float[Array, "N d"], labelled: Array) -> Standardisation:
    """Mean and population std + 1e-6 of the labelled rows.

    Of columns constant there to a millionth of their value, the least value and their range, or 1 if that is less: a
    mean and a std are rounding error there.
    """
    count = labelled.sum()
    mean = jnp.where(labelled[:, None], values, 0).sum(0) / count
    centred = jnp.where(labelled[:, None], values - mean[None], 0)
    std = jnp.sqrt((centred**2).sum(0) / count)
    low = jnp.where(labelled[:, None], values, jnp.inf).min(0)
    high = jnp.where(labelled[:, None], values, -jnp.inf).max(0)
    spread = high - low
    constant = spread <= CONSTANT * jnp.maximum(jnp.abs(low), jnp.abs(high))
    scale = jnp.where(constant, jnp.maximum(spread, 1), std + SCALE_FLOOR)
    return Standardisation(jnp.where(constant, low, mean), scale)


def n_steps(n_labelled: Int[ArrayLike, ""], protocol: Protocol) -> Int[Array, ""]:
    """Gradient steps of a training on n_labelled labels."""
    return jnp.clip(protocol.steps_per_label * jnp.asarray(n_labelled), protocol.min_steps, protocol.max_steps)


def learning_rate(step: Int[ArrayLike, ""], steps: Int[ArrayLike, ""], protocol: Protocol) -> Float[Array, ""]:
    """Rate of a step: linear warm-up from 0, then exponential decay; optax's schedules need a static `steps`."""
    warmup = jnp.minimum(protocol.warmup_steps, jnp.asarray(steps) // 5)
    warming = step / jnp.maximum(warmup, 1)
    decaying = protocol.decay_rate ** ((step - warmup) / protocol.decay_steps)
    return protocol.learning_rate * jnp.where(step < warmup, warming, decaying)


def negative_log_likelihood(ensemble: Ensemble, x: ArrayLike, y: ArrayLike) -> Float[Array, "B"]:
    """-log((1/E) sum_z p_z(y | x)) at each point: of the mixture of members, in nats, raw units.

    A density's, so it may be negative, and it is dominated by points that sharp predictions miss. Variances get
    1e-8 added, as in the released experiments. Shape errors are ValueErrors.
    """
    members, y = predict(ensemble, x), jnp.asarray(y)
    if y.shape != (len(x), ensemble.n_outputs):
        raise ValueError(f"y must have shape ({len(x)}, {ensemble.n_outputs}), got {y.shape}")
    members = Mixture(members.log_weights, members.means, members.variances + VARIANCE_FLOOR)
    log_prob = members.log_prob(y[None])
    return jnp.log(ensemble.n_members) - logsumexp(log_prob, axis=0)


def ensemble_nll(ensemble: Ensemble, x: ArrayLike, y: ArrayLike) -> Float[Array, ""]:
    """Test NLL as reported in the paper: the mean of `negative_log_likelihood` over the points."""
    return negative_log_likelihood(ensemble, x, y).mean()


def _train(
    parameters: Any,
    key: PRNGKey,
    x: Array,
    y: Array,
    n_labelled: Array,
    network: MixtureDensityNetwork,
    protocol: Protocol,
    replace: bool,
    axes: tuple[str, ...],
) -> Any:
    """The training of this device's members, in standardised units; axes: of devices that members are spread over."""
    adam = optax.scale_by_adam(b1=0.9, b2=0.999, eps=1e-8)
    decay = optax.add_decayed_weights(protocol.weight_decay)
    clip, draw = CLIPS[protocol.clip], minibatch_with_replacement if replace else minibatch
    steps = n_steps(n_labelled, protocol)

    def loss_of_member(parameters: Any, x: Array, y: Array, row_weights: Array) -> Array:
        return (row_weights * _nll_rows(network.apply(parameters, x), y)).sum()

    def step(t: Array, state: tuple[Any, Any]) -> tuple[Any, Any]:
        parameters, adam_state = state
        rows, row_weights = draw(jax.random.fold_in(key, t), len(x), n_labelled, protocol.batch_size)
        gradient = jax.vmap(jax.grad(loss_of_member), in_axes=(0, None, None, None))
        gradients = gradient(parameters, x[rows], y[rows], row_weights)
        gradients = clip(gradients, parameters, protocol.clip_threshold, protocol.n_members, axes)
        updates, adam_state = adam.update(gradients, adam_state)
        updates, _ = decay.update(updates, optax.EmptyState(), parameters)
        rate = learning_rate(t, steps, protocol)
        return jax.tree.map(lambda p, u: p - rate * u, parameters, updates), adam_state

    parameters, _ = jax.lax.fori_loop(0, steps, step, (parameters, adam.init(parameters)))
    return parameters


def minibatch(
    key: PRNGKey, n_rows: int, n_labelled: Int[ArrayLike, ""], batch_size: int
) -> tuple[Int[Array, "batch"], Float[Array, "batch"]]:
    """A uniform subset without replacement of the first n_labelled of n_rows rows, and weights that sum to 1.

    While there are fewer labels than batch_size all of them are in it; rows of weight 0 fill it up.
    """
    batch_size = min(batch_size, n_rows)
    draws = jnp.where(jnp.arange(n_rows) < n_labelled, jax.random.uniform(key, (n_rows,)), -1)
    draws, rows = jax.lax.top_k(draws, batch_size)
    return rows, jnp.where(draws >= 0, 1 / jnp.minimum(batch_size, n_labelled), 0)


def minibatch_with_replacement(
    key: PRNGKey, n_rows: int, n_labelled: Int[ArrayLike, ""], batch_size: int
) -> tuple[Int[Array, "batch"], Float[Array, "batch"]]:
    """As `minibatch`, rows drawn independently, all of equal weight."""
    del n_rows
    return jax.random.randint(key, (batch_size,), 0, n_labelled), jnp.full(batch_size, 1 / batch_size)


def _nll_rows(heads: Heads, y: Float[Array, "B D"]) -> Float[Array, "B"]:
    variances = heads.variances + VARIANCE_FLOOR
    return -Mixture(jax.nn.log_softmax(heads.logits[..., 0], -1), heads.means, variances).log_prob(y)


def _checked(x: ArrayLike, y: ArrayLike, n_labelled: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """The buffer as float32 arrays, once it is known to make sense; errors and warnings as `fit`."""
    x, y = unmasked("x", x), unmasked("y", y)
    if x.ndim != 2 or y.ndim != 2 or len(x) != len(y) or not (x.shape[1] and y.shape[1]):
        raise ValueError(f"x must be (N, dx) and y (N, D) with one N, dx and D >= 1, got {x.shape} and {y.shape}")
    n_labelled = len(x) if n_labelled is None else operator.index(n_labelled)
    if not 1 <= n_labelled <= len(x):
        raise ValueError(f"n_labelled must be between 1 and the buffer's {len(x)} rows, got {n_labelled}")
    check_columns("x", x[:n_labelled])
    check_columns("y", y[:n_labelled], VARIANCE_FLOOR)
    with np.errstate(over="ignore"):  # behind n_labelled, where there may be anything
        return x.astype(np.float32), y.astype(np.float32)

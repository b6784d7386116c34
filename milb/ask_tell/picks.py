"""What to ask next: by a design while there are few labels, by a strategy from then on."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from milb import acquisition, scoring
from milb import strategy as strategies
from milb.ask_tell.settings import capacity
from milb.ask_tell.state import State
from milb.history import saturated_share, subset_of
from milb.mdn import Ensemble
from milb.mixture import PRNGKey
from milb.protocol import Protocol
from milb.selection import k_center
from milb.strategy import Pool, Scored, Strategy

MI_LB = {acquisition.negative_log_overlap_gap, acquisition.mi_lower_bound, acquisition.mi_lower_bound_released}


def available(state: State) -> np.ndarray:
    """(N,), rows of the pool that are neither labelled nor failed."""
    mask = np.ones(len(state.pool.values), bool)
    mask[list(state.labels)] = False
    return mask


def askable(state: State) -> np.ndarray:
    """(N,), rows of the pool that are neither labelled nor failed nor pending."""
    mask = available(state)
    mask[state.pending] = False
    return mask


def by_design(state: State, x: Float[np.ndarray, "N dx"], extra_x: Float[np.ndarray, "e dx"], k: int) -> Array:
    """k-center-greedy on scaled inputs: far from the mean, then far from all that was told, failed or asked."""
    centres = np.concatenate([x[sorted({*state.labels, *state.pending})], extra_x])
    buffer = np.zeros((capacity(len(centres)), x.shape[1]), np.float32)
    buffer[: len(centres)] = centres
    return k_center(x, buffer, k, askable(state), np.arange(len(buffer)) < len(centres))


def by_strategy(
    strategy: Strategy,
    key: PRNGKey,
    ensemble: Ensemble,
    state: State,
    x: Float[np.ndarray, "N dx"],
    extra_x: Float[np.ndarray, "e dx"],
    k: int,
    protocol: Protocol,
) -> tuple[Int[Array, "k"], float]:
    """A strategy's picks, and the share of the rows left on which MI-LB is saturated, NaN if it does not score by it.

    Extras stand behind the pool's rows, never available: strategies that look at labelled points see them, too, and
    the pending rows, which will be labelled.
    """
    mask, padding = askable(state), capacity(len(extra_x)) if len(extra_x) else 0
    behind = np.repeat(x[:1], padding, axis=0)
    behind[: len(extra_x)] = extra_x
    labelled = [*sorted({*state.rows(), *state.pending}), *range(len(x), len(x) + len(extra_x))]
    rows = np.zeros(capacity(len(labelled)), np.int32)
    rows[: len(labelled)] = labelled
    pool = Pool(
        jnp.asarray(np.concatenate([x, behind]) if padding else x),
        jnp.asarray(np.concatenate([mask, np.zeros(padding, bool)])),
        jnp.asarray(rows),
        jnp.asarray(len(labelled)),
    )
    picked = strategies.propose(strategy, key, ensemble, pool, k, protocol).indices
    if not (isinstance(strategy, Scored) and strategy.score in MI_LB):
        return picked, float("nan")
    some = np.flatnonzero(mask)[subset_of(int(mask.sum()))]
    scores = scoring.score_pool(acquisition.negative_log_overlap_gap, key, ensemble, x[some], protocol)
    return picked, saturated_share(np.exp(-np.asarray(scores)))

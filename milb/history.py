"""What a run records of every round, and the random streams that a round takes."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float, Int, Key
from scipy.spatial.distance import pdist

from milb import acquisition
from milb.mdn import Ensemble
from milb.mixture import PRNGKey
from milb.protocol import Options
from milb.strategy import SATURATED

COLUMNS = [
    *("round", "n", "nll_mean", "nll_median", "nll_q10", "nll_q90"),
    *("score_min", "score_median", "score_max", "score_picked"),
    *("saturated_share", "certificate_mean", "certificate_q10", "certificate_median", "certificate_q90"),
    *("batch_distance", "train_seconds", "score_seconds"),
]
TRAINING, SELECTION = 0, 1  # folded into the root key: neither stream depends on the strategy
SUBSET = 2_000  # pool points at most whose scores a study keeps
SATURATION_SUBSET = 500  # and at which saturation is looked at: shares to 2 %, in a tenth of a second


def round_key(root: PRNGKey, stream: int, round_index: int) -> PRNGKey:
    """The key of a round's TRAINING or SELECTION; root is the key of the training seed."""
    return jax.random.fold_in(jax.random.fold_in(root, stream), round_index)


def subset_of(n_pool: int, at_most: int = SUBSET) -> Int[np.ndarray, "S"]:
    """At most so many evenly spaced rows of a pool."""
    return np.arange(0, n_pool, -(-n_pool // at_most))


def in_standard_deviations(x: Float[ArrayLike, "N dx"]) -> Float[np.ndarray, "N dx"]:
    """A pool's inputs in units of their standard deviation; a constant one as it is."""
    x = np.asarray(x)
    spread = x.std(0, dtype=np.float64)
    return x / np.where(spread > 0, spread, 1)


def gap_and_certificate(
    keys: Key[Array, "B"], ensemble: Ensemble, x: Float[Array, "B dx"], options: Options
) -> Float[Array, "B 2"]:
    """How far MI-LB stays below its largest value, and the certificate, in nats: for `milb.scoring.map_pool`."""
    gap = jnp.exp(-acquisition.negative_log_overlap_gap(keys, ensemble, x, options))
    return jnp.stack([gap, acquisition.mi_certificate(keys, ensemble, x, options)], axis=1)


@jax.jit
def saturation(ensemble: Ensemble, x: Float[Array, "S dx"]) -> Float[Array, "S 2"]:
    """`gap_and_certificate` at each x at once: of an ensemble that `milb.devices.on_one_device` has brought there."""
    return gap_and_certificate(jax.random.split(jax.random.key(0), len(x)), ensemble, x, Options())  # neither draws


def saturated_share(gap: Float[ArrayLike, "S"]) -> float:
    """Share of points where MI-LB is so close to its largest value that only its gap still ranks them.

    NaN where a gap is: of a model whose training has diverged.
    """
    gap = np.asarray(gap)
    return float("nan") if np.isnan(gap).any() else float((gap < SATURATED).mean())


def training_record(round_index: int, n: int, nll: np.ndarray) -> dict[str, float]:
    """Of a model: its round, its labels, and its negative log-likelihood over test points."""
    q10, median, q90 = np.quantile(nll, [0.1, 0.5, 0.9])
    mean = float(nll.mean(dtype=np.float64))
    statistics = {"nll_mean": mean, "nll_median": float(median), "nll_q10": float(q10), "nll_q90": float(q90)}
    return {"round": round_index, "n": n, **statistics}


def selection_record(
    scores: Float[ArrayLike, "N"] | None,
    saturated: Float[ArrayLike, "S 2"],
    x: Float[np.ndarray, "N dx"],
    picked: Int[np.ndarray, "k"],
    available: np.ndarray,
) -> dict[str, float]:
    """Of a batch: its scores among those of the available rows, saturation, and how close its points are.

    Args:
        scores: of all rows; None when the strategy has none.
        saturated: what `saturation` says of the pool's subset.
        x: the pool's inputs, `in_standard_deviations`.
        picked: the batch.
        available: (N,), rows that could be picked.
    """
    gap, certificate = np.asarray(saturated).T
    q10, median, q90 = np.quantile(certificate, [0.1, 0.5, 0.9])
    record = {
        "saturated_share": saturated_share(gap),
        "certificate_mean": float(certificate.mean(dtype=np.float64)),
        "certificate_q10": float(q10),
        "certificate_median": float(median),
        "certificate_q90": float(q90),
        "batch_distance": float(pdist(x[picked]).min()) if len(picked) > 1 else float("nan"),
    }
    if scores is not None:
        scores = np.asarray(scores)
        left = scores[available]
        record |= {
            "score_min": float(left.min()),
            "score_median": float(np.median(left.astype(np.float64))),
            "score_max": float(left.max()),
            "score_picked": float(scores[picked].min()),
        }
    return record

"""What a run records of every round, and the random streams that a round takes."""

from __future__ import annotations

import jax
import numpy as np
from jaxtyping import Array, ArrayLike

from milb import strategy as strategies
from milb.mdn import Ensemble
from milb.mixture import PRNGKey
from milb.strategy import Scored, Strategy

COLUMNS = [
    *("round", "n", "nll_mean", "nll_median", "nll_q10", "nll_q90"),
    *("score_min", "score_median", "score_max", "score_picked", "saturated_share"),
    *("train_seconds", "score_seconds"),
]
TRAINING, SELECTION = 0, 1  # folded into the root key: neither stream depends on the strategy


def round_key(root: PRNGKey, stream: int, round_index: int) -> PRNGKey:
    """The key of a round's TRAINING or SELECTION; root is the key of the training seed."""
    return jax.random.fold_in(jax.random.fold_in(root, stream), round_index)


def nll_statistics(nll: np.ndarray) -> dict[str, float]:
    """Mean, median, 10 and 90 % quantiles of the negative log-likelihood over test points."""
    q10, median, q90 = np.quantile(nll, [0.1, 0.5, 0.9])
    mean = float(nll.mean(dtype=np.float64))
    return {"nll_mean": mean, "nll_median": float(median), "nll_q10": float(q10), "nll_q90": float(q90)}


def headroom_of(strategy: Strategy, scores: ArrayLike, ensemble: Ensemble) -> Array | None:
    """How far each score is below MI-LB's maximum, in nats; None for strategies that do not score by MI-LB."""
    if not isinstance(strategy, Scored) or strategy.headroom is None:
        return None
    return strategy.headroom(scores, ensemble)


def score_statistics(
    scores: ArrayLike | None, headroom: ArrayLike | None, picked: np.ndarray, available: np.ndarray
) -> dict[str, float]:
    """Of the available rows' scores, (N,), and how low a score was picked; {} where there are none."""
    if scores is None:
        return {}
    scores = np.asarray(scores)
    left = scores[available]
    statistics = {
        "score_min": float(left.min()),
        "score_median": float(np.median(left)),
        "score_max": float(left.max()),
        "score_picked": float(scores[picked].min()),
    }
    if headroom is not None:
        below_maximum = np.asarray(headroom)[available]
        statistics["saturated_share"] = float((below_maximum < strategies.SATURATED).mean())
    return statistics

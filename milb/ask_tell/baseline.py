"""What a model has to beat: a Gaussian mixture of the outputs alone, that looks at no input."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from scipy.special import logsumexp

N_ITERATIONS = 100
LEAST_VARIANCE = 1e-2  # of a component, in units of the outputs' variance: no component may sit on a single label


def unconditional_nll(
    y: Float[np.ndarray, "n D"], test_y: Float[np.ndarray, "T D"], n_components: int
) -> Float[np.ndarray, "T"]:
    """Negative log-likelihood of test outputs under a diagonal Gaussian mixture fitted to y, in nats, raw units.

    By expectation maximisation from components that each start at an equal part of the labels, ordered along the
    direction in which they vary most; at most one component for ten labels. Deterministic.
    """
    mean, scale = y.mean(0), y.std(0)
    scale = np.where(scale > 1e-12 * np.abs(mean), scale, 1)
    y, test_y = (y - mean) / scale, (test_y - mean) / scale
    n_components = min(n_components, max(1, len(y) // 10))
    direction = np.linalg.svd(y, full_matrices=False)[2][0]
    parts = np.array_split(np.argsort(y @ direction, kind="stable"), n_components)
    weights = np.array([np.isin(np.arange(len(y)), part) for part in parts], float).T
    for _ in range(N_ITERATIONS):
        share = weights.sum(0) + 1e-12
        means = weights.T @ y / share[:, None]
        variances = weights.T @ y**2 / share[:, None] - means**2
        variances = np.maximum(variances, LEAST_VARIANCE)
        log_terms = _log_terms(y, np.log(share / share.sum()), means, variances)
        weights = np.exp(log_terms - logsumexp(log_terms, axis=1, keepdims=True))
    log_terms = _log_terms(test_y, np.log(share / share.sum()), means, variances)
    return np.log(scale).sum() - logsumexp(log_terms, axis=1)


def _log_terms(y: np.ndarray, log_weights: np.ndarray, means: np.ndarray, variances: np.ndarray) -> np.ndarray:
    squares = (y[:, None] - means) ** 2 / variances + np.log(2 * np.pi * variances)
    return log_weights - 0.5 * squares.sum(-1)

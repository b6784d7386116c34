"""Why a mixture head: one Gaussian against K components, trained offline on more data than active learning buys."""

from __future__ import annotations

import time
from typing import Any

import jax
import numpy as np
import pandas as pd

from milb.training import fit_offline, negative_log_likelihood


def mixture_head(problem: Any, scale: str, n_components: tuple[int, ...] | None = None) -> pd.DataFrame:
    """Test NLL of ensembles with different numbers of components, all else equal.

    Args:
        problem: of `milb.problems.PROBLEMS`.
        scale: "smoke", "demo" or "paper", of `problem.offline_protocol`.
        n_components: the numbers to compare; None for 1 and the problem's own.

    Returns:
        One row a number: problem, scale, n_components, nll_mean and nll_median over test points (nats, raw units),
        oracle_nll (NaN where the density is not known), seconds of training, with compilation.

    Source: paper, figure (mdn_baseline_samples) and appendices.
    """
    protocol, dataset = problem.offline_protocol(scale), problem.offline_dataset(scale)
    log_prob = problem.log_prob(dataset.test_y, dataset.test_x)
    oracle = np.nan if log_prob is None else -float(np.asarray(log_prob, np.float64).mean())
    rows = []
    for k in (1, protocol.n_components) if n_components is None else n_components:
        started = time.perf_counter()
        settings = protocol.replace(n_components=k)
        ensemble = jax.block_until_ready(fit_offline(jax.random.key(0), dataset.x, dataset.y, settings))
        seconds = time.perf_counter() - started
        nll = np.asarray(negative_log_likelihood(ensemble, dataset.test_x, dataset.test_y), np.float64)
        rows.append((problem.name, scale, k, nll.mean(), np.median(nll), oracle, seconds))
    names = ["problem", "scale", "n_components", "nll_mean", "nll_median", "oracle_nll", "seconds"]
    return pd.DataFrame(rows, columns=names)

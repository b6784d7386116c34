"""How good a learner's model is, from its labels alone, and whether more labels still help."""

from __future__ import annotations

import numbers
import warnings
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from milb.ask_tell.baseline import unconditional_nll
from milb.ask_tell.model import Model
from milb.ask_tell.picks import available
from milb.ask_tell.state import State
from milb.history import gap_and_certificate, saturated_share
from milb.mixture import PRNGKey
from milb.scoring import map_pool

LEVELS = (0.1, 0.5, 0.9)  # of the certificate's quantiles over the pool
MANY = 0.5  # share of the pool from which on a score counts as saturated
LITTLE = 0.05  # nats: what a label tells about the members, at most, where they agree
SOME = 5_000  # rows of the pool that a report scores
RECENT = 3  # reports that a stop hint looks back on


@dataclass(frozen=True)
class Report:
    """What `milb.Learner.report` found.

    Attributes:
        n, n_failed, n_left: labels (those from outside the pool included), rows that failed, rows that are left.
        nll, nll_error: held-out negative log-likelihood a label, mean and standard error, nats in the units of y: every
            label is predicted by a model trained on the other folds. NaN with fewer than two labels.
        unconditional_nll: the same of a Gaussian mixture that looks at no input: what a model has to beat.
        saturated_share: of the rows that are left, whose MI-LB is within 0.01 nat of its maximum. NaN if none are.
        certificate: quantiles over rows that are left of the certified lower bound on what a label would tell about
            the members, in nats, by level. NaN if none are left.
        hint: that more labels may not help much, or None. Only a hint: nothing stops.
    """

    n: int
    n_failed: int
    n_left: int
    nll: float
    nll_error: float
    unconditional_nll: float
    saturated_share: float
    certificate: Mapping[float, float]
    hint: str | None

    def __str__(self) -> str:
        quantiles = ", ".join(f"{100 * level:.0f} %: {value:.3g}" for level, value in self.certificate.items())
        lines = [
            f"{self.n} labels, {self.n_failed} failed, {self.n_left} rows left",
            f"held-out NLL {self.nll:.3f} ± {self.nll_error:.3f} nats, without inputs {self.unconditional_nll:.3f}"
            if self.n > 1
            else "held-out NLL: needs two labels",
        ]
        if self.n_left:
            lines += [
                f"MI-LB saturated on {100 * self.saturated_share:.0f} % of the rows left",
                f"certified information of a label (nats; quantiles over these rows): {quantiles}",
            ]
        return "\n".join(lines + ([f"hint: {self.hint}"] if self.hint else []))


def report(model: Model, state: State, x: Float[np.ndarray, "N dx"], key: PRNGKey, n_folds: int) -> Report:
    """Examine a model; what is found goes into the state's curve, too.

    Scores are those of at most SOME rows, evenly spaced in the pool.
    """
    if isinstance(n_folds, bool) or not isinstance(n_folds, numbers.Integral) or n_folds < 2:
        raise ValueError(f"n_folds must be an integer from 2 on, got {n_folds!r}")
    nll, unconditional = held_out(model, key, n_folds, state.seed)
    some = np.unique(np.linspace(0, len(x) - 1, min(SOME, len(x))).astype(int))
    left = available(state)[some]
    scores = np.asarray(map_pool(gap_and_certificate, key, model.ensemble, x[some], model.protocol))[left]
    certificate = np.quantile(scores[:, 1], LEVELS) if left.any() else np.full(len(LEVELS), np.nan)
    n, found = len(model.y), {"nll": float(nll.mean()), "unconditional_nll": float(unconditional.mean())}
    found["nll_error"] = float(nll.std(ddof=1) / np.sqrt(n)) if n > 1 else float("nan")
    state.curve[n] = {**found, "certificate_high": float(certificate[-1])}
    return Report(
        n=n,
        n_failed=len(state.rows(failed=True)),
        n_left=len(x) - len(state.labels),
        saturated_share=saturated_share(scores[:, 0]) if left.any() else float("nan"),
        certificate=dict(zip(LEVELS, certificate.tolist(), strict=True)),
        hint=stop_hint(state.curve),
        **found,
    )


def held_out(
    model: Model, key: PRNGKey, n_folds: int, seed: int
) -> tuple[Float[np.ndarray, "n"], Float[np.ndarray, "n"]]:
    """Each label's NLL under a model that has not seen it, and under a Gaussian mixture without inputs; raw units.

    Every label is held out once, in one of n_folds parts, or alone where there are fewer labels. NaN for one label.
    """
    n = len(model.y)
    order = np.random.default_rng([seed, n]).permutation(n)
    nll, unconditional = np.full(n, np.nan), np.full(n, np.nan)
    for part in np.array_split(order, min(n_folds, n)) if n > 1 else []:
        rest = np.setdiff1d(order, part)
        nll[part] = model.nll_without(key, rest, part)
        y = model.y.astype(float)
        unconditional[part] = unconditional_nll(y[rest], y[part], model.protocol.n_components)
    return nll, unconditional + np.log(model.outputs.scale).sum()


def stop_hint(curve: Mapping[int, Mapping[str, float]]) -> str | None:
    """A sentence when the last reports show neither progress nor disagreement; None otherwise.

    Both must hold: over the last three numbers of labels the held-out NLL has fallen by less than its standard error,
    and nine in ten of the rows left would tell less than 0.05 nat for certain. A lower bound proves no absence, and
    folds of few labels are noisy, so this is never more than a hint.
    """
    recent = [curve[n] for n in sorted(curve)[-RECENT:]]
    if len(recent) < RECENT or not all(np.isfinite(values["nll"]) for values in recent):
        return None
    gain = recent[0]["nll"] - recent[-1]["nll"]
    if gain > recent[-1]["nll_error"] or not recent[-1]["certificate_high"] <= LITTLE:  # NaN: no rows are left
        return None
    first, last = sorted(curve)[-RECENT], sorted(curve)[-1]
    return (
        f"from {first} to {last} labels the held-out NLL has not fallen by more than its error "
        f"({gain:.2f}, ± {recent[-1]['nll_error']:.2f} nats), and on nine in ten rows the members hardly disagree; "
        "more labels of this kind may tell little"
    )


def warn(report: Report, stacklevel: int) -> None:
    """UserWarning when the model is worse than one without inputs, or its score is saturated."""
    if report.nll > report.unconditional_nll:
        warnings.warn(
            f"with {report.n} labels the model predicts held-out labels worse ({report.nll:.2f} nats) than a Gaussian "
            f"mixture that looks at no input ({report.unconditional_nll:.2f}): its scores mean little yet; label by "
            "design or at random, or train otherwise (protocol=…)",
            stacklevel=stacklevel + 1,
        )
    warn_saturated(report.saturated_share, stacklevel + 1)


def warn_saturated(share: float, stacklevel: int) -> None:
    """UserWarning when MI-LB is within 0.01 nat of its maximum on more than half of the rows left."""
    if share > MANY:
        warnings.warn(
            f"MI-LB is saturated on {100 * share:.0f} % of the rows left: the members agree nowhere there. Strategies "
            "that use its value pick among these by chance; 'mi-lb' and 'mi-pairwise' still rank them",
            stacklevel=stacklevel + 1,
        )

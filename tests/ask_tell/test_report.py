"""Reports: counts, held-out folds that are really held out, warnings, and a hint that is only a hint."""

import itertools

import numpy as np
import pytest

from milb import acquisition
from milb.ask_tell import Learner, picks
from milb.ask_tell.model import Model
from milb.ask_tell.report import Report, held_out, stop_hint, warn
from milb.strategy import Scored, top_k

pytestmark = pytest.mark.slow

TINY = {
    "n_members": 2, "n_components": 2, "width": 8, "steps_per_label": 1, "min_steps": 200, "max_steps": 200,
    "weight_decay": 0.0, "learning_rate": 0.03, "n_initial": 1,
}  # fmt: skip
X = np.linspace(-2, 2, 40)[:, None]
NOISE = 0.1 * np.random.default_rng(0).normal(size=(40, 1))


@pytest.fixture(scope="module")
def learner():
    """A straight line, easy to learn from 30 labels."""
    learner = Learner(X, protocol=TINY, quiet=True)
    rows = np.random.default_rng(1).permutation(40)[:30]
    learner.tell(rows, 1_000 * (3 * X[rows] + NOISE[rows]))
    learner.tell([row for row in range(40) if row not in rows][:2], [np.nan, np.nan])
    return learner


def test_counts_and_a_model_that_beats_none(learner, recwarn):
    report = learner.report()
    assert (report.n, report.n_failed, report.n_left) == (30, 2, 8)
    assert report.nll + 1 < report.unconditional_nll and report.nll_error > 0
    assert report.unconditional_nll == pytest.approx(np.log(1_000 * 3 * X.std()) + 1.4, abs=0.4)  # nats, raw units
    quantiles = list(report.certificate.values())
    assert list(report.certificate) == [0.1, 0.5, 0.9] and quantiles == sorted(quantiles)
    assert quantiles[0] >= 0 and quantiles[-1] <= np.log(2) + 1e-6 and 0 <= report.saturated_share <= 1
    assert not [warning for warning in recwarn if "worse" in str(warning.message)]
    assert str(report).startswith("30 labels, 2 failed, 8 rows left\nheld-out NLL ") and report.hint is None


def test_without_rows_that_are_left_nothing_is_said_about_them(learner):
    spent = Learner(X[:30], protocol=TINY, quiet=True)
    spent.tell(range(30), 3 * X[:30])
    report = spent.report()
    assert report.n_left == 0 and np.isnan(report.saturated_share) and str(report).count("\n") == 1
    curve = {n: {"nll": 1.0, "nll_error": 0.1, "certificate_high": np.nan} for n in (10, 20, 30)}
    assert stop_hint(curve) is None


def test_warns_when_inputs_tell_nothing(learner):
    lost = Learner(X, protocol=TINY, quiet=True)
    lost.tell(range(30), np.random.default_rng(2).normal(size=30))
    with pytest.warns(UserWarning, match="the model predicts held-out labels worse .* than a Gaussian mixture"):
        lost.report()


def test_every_label_is_held_out_once(monkeypatch):
    y = np.arange(7.0)[:, None]
    seen = []

    def spy(self, key, rows, part):
        assert not set(rows) & set(part) and set(rows) | set(part) == set(range(7))
        seen.append(sorted(part.tolist()))
        return np.full(len(part), 2.0)

    monkeypatch.setattr(Model, "nll_without", spy)
    outputs = type("Outputs", (), {"scale": np.ones(1)})
    model = Model(None, outputs, y, y, type("P", (), {"n_components": 1}))
    nll, unconditional = held_out(model, None, 3, 0)
    assert sorted(itertools.chain(*seen)) == list(range(7)) and len(seen) == 3
    assert (nll == 2).all() and np.isfinite(unconditional).all()
    seen.clear()
    held_out(model, None, 100, 0)
    assert len(seen) == 7


def curve(*nll, certificate=0.01):
    return {10 * i: {"nll": value, "nll_error": 0.2, "certificate_high": certificate} for i, value in enumerate(nll)}


@pytest.mark.parametrize(
    ("found", "hinted"),
    [
        (curve(3, 1, 1, 1), True),
        (curve(3, 1, 0.9, 0.85), True),
        (curve(1, 0.9, 0.5), False),  # still falling
        (curve(1, 1), False),  # too few reports
        (curve(1, 1, 1, certificate=0.5), False),  # the members disagree
        (curve(np.nan, 1, 1), False),
    ],
)
def test_stop_hint(found, hinted):
    hint = stop_hint(found)
    assert (hint is not None) == hinted and (not hinted or "may tell little" in hint)


def test_warns_of_saturation():
    report = Report(10, 0, 5, 1.0, 0.1, 2.0, 0.7, {0.5: 0.1}, None)
    with pytest.warns(UserWarning, match="MI-LB is saturated on 70 % of the rows left"):
        warn(report, stacklevel=1)


def test_ask_warns_of_saturation(learner, monkeypatch):
    monkeypatch.setattr(picks, "MI_LB", {acquisition.random})
    monkeypatch.setattr(acquisition, "negative_log_overlap_gap", lambda keys, ensemble, x, options: 20 + 0 * x[:, 0])
    saturated = Scored(acquisition.random, top_k)
    other = Learner(X, saturated, TINY, quiet=True)
    other.tell(*zip(*learner.labels.items(), strict=True))
    with pytest.warns(UserWarning, match="MI-LB is saturated on 100 % of the rows left"):
        other.ask(2)


@pytest.mark.parametrize("n_folds", [1, 2.0, True])
def test_refuses_folds(learner, n_folds):
    with pytest.raises(ValueError, match="n_folds must be an integer from 2 on"):
        learner.report(n_folds)

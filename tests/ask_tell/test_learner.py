"""Ask and tell: nothing asked twice, counts that add up, the same batches whatever the way to the labels."""

import os
import signal
import subprocess
import sys

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import milb
from milb.ask_tell import Learner
from milb.ask_tell.model import Scaling
from milb.problems.furnace import Furnace
from milb.strategy import STRATEGIES
from milb.training import fit_buffer

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:MI-LB is saturated")]

TINY = {
    "n_members": 2, "n_components": 2, "width": 4, "steps_per_label": 1, "min_steps": 2, "max_steps": 2,
    "weight_decay": 0.1, "n_initial": 1,
}  # fmt: skip
N = 14
X = np.random.default_rng(0).normal(size=(N, 2))
Y = np.random.default_rng(1).normal(size=(N, 2))
FAILED = [2, 5, 11]
Y[FAILED, [0, 1, 0]] = np.nan
EXTRA_X, EXTRA_Y = X[:4] + 5, Y[[0, 1, 2, 3]]


def new(pool=X, strategy="mi-lb", **options):
    return Learner(pool, strategy, **{"protocol": TINY, "quiet": True, **options})


def told(rows=range(7), **options):
    learner = new(**options)
    learner.tell(list(rows), Y[list(rows)])
    return learner


def next_batch(learner, k=3):
    learner.withdraw()
    return learner.ask(k).tolist()


def test_milb_has_it():
    assert milb.Learner is Learner
    with pytest.raises(AttributeError, match="no attribute 'Lerner'"):
        milb.Lerner  # noqa: B018


def test_the_same_batch_until_told_in_parts_and_any_order():
    learner = told()
    batch = learner.ask(3).tolist()
    assert learner.ask(3).tolist() == learner.ask(1).tolist() == batch and not set(batch) & set(range(7))
    learner.tell(batch[2:0:-1], Y[batch[2:0:-1]])
    assert learner.ask(5).tolist() == batch[:1]
    learner.tell(batch[0], Y[batch[0]])
    assert len(learner.pending) == 0
    assert not set(learner.ask(3).tolist()) & {*batch, *range(7)}


def test_failed_rows_are_recorded_not_asked_and_not_trained_on():
    learner = told()
    assert (learner.n_labelled, learner.n_failed, learner.n_left) == (5, 2, N - 7)
    assert np.isnan(learner.labels[2]).any() and 2 not in learner.ask(N - 7)
    with pytest.raises(ValueError, match="k must be from 1 to the 7 rows that are left, got 8"):
        told().ask(8)
    other = told(rows=[0, 1, 3, 4, 6])
    members = [one.predict(X).standard for one in (learner, other)]
    np.testing.assert_allclose(members[0].means.std(), members[1].means.std(), rtol=1)  # trained on the same five
    np.testing.assert_array_equal(learner.predict(X).shift, other.predict(X).shift)


def test_a_failed_row_may_succeed_later():
    learner = told()
    learner.tell(2, [0.5, 0.5])
    assert (learner.n_labelled, learner.n_failed) == (6, 1)


OPERATIONS = st.lists(
    st.tuples(
        st.sampled_from(["ask", "tell", "own", "extra", "save", "again"]),
        st.integers(1, 3),
        st.randoms(use_true_random=False),
    ),
    max_size=9,
)


@settings(max_examples=15, deadline=None, derandomize=True)
@given(operations=OPERATIONS)
def test_any_sequence_of_asks_and_tells(operations, tmp_path_factory):
    path = tmp_path_factory.mktemp("states") / "state.npz"
    learner, known, extras = new(), set(), []
    for action, number, random in operations:
        if action == "ask" and learner.n_left >= number:
            batch = learner.ask(number).tolist()
            assert not set(batch) & known and len(set(batch)) == len(batch)
        elif action in ("tell", "own"):
            candidates = learner.pending.tolist() if action == "tell" else range(N)
            rows = random.sample(list(candidates), min(number, len(candidates)))
            learner.tell(rows, Y[rows])
            known |= set(rows)
        elif action == "extra" and len(extras) < 4:
            learner.tell_extra(EXTRA_X[[len(extras)]], EXTRA_Y[[len(extras)]])
            extras.append(len(extras))
        elif action in ("save", "again"):
            learner.save(path)
            learner = Learner.load(path, quiet=True)
        assert learner.n_left == N - len(known) and not set(learner.pending.tolist()) & known
        assert learner.n_failed == len(known & set(FAILED))
        assert learner.n_labelled == len(known - set(FAILED)) + len(set(extras) - {2})
    at_once = new()
    rows = sorted(known, reverse=True)
    at_once.tell(rows, Y[rows].reshape(len(rows), 2))
    at_once.tell_extra(EXTRA_X[extras[::-1]], EXTRA_Y[extras[::-1]].reshape(len(extras), 2))
    if learner.n_left:
        assert next_batch(learner, 1) == next_batch(at_once, 1)


KILLED = """
import sys
import milb
learner = milb.Learner.load(sys.argv[1], quiet=True)
learner.ask(3)
learner.save(sys.argv[1])
print("saved", flush=True)
while True:
    learner.save(sys.argv[1])
"""


def test_killed_between_ask_and_tell_nothing_is_lost(tmp_path):
    path = tmp_path / "state.npz"
    uninterrupted = told()
    uninterrupted.save(path)
    batch = uninterrupted.ask(3).tolist()
    with subprocess.Popen([sys.executable, "-c", KILLED, str(path)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "saved\n"
        os.kill(process.pid, signal.SIGKILL)  # wherever it is: asked, and writing the file again and again
    resumed = Learner.load(path, quiet=True)
    assert resumed.pending.tolist() == resumed.ask(3).tolist() == batch
    for learner in (resumed, uninterrupted):
        learner.tell(batch, Y[batch])
    assert resumed.ask(2).tolist() == uninterrupted.ask(2).tolist()
    np.testing.assert_array_equal(resumed.predict(X).mean, uninterrupted.predict(X).mean)


def test_cold_start_is_a_k_center_design():
    pool = np.array([[0, 0], [1, 0], [0, 1], [10, 0], [10, 1], [5, 5]], float)
    learner = new(pool, protocol={**TINY, "n_initial": 6})
    scaled = (pool - pool.mean(0)) / pool.std(0)
    first = int(np.argmax((scaled**2).sum(1)))
    picks = learner.ask(3).tolist()
    assert picks[0] == first
    for i in (1, 2):
        distance = ((scaled[:, None] - scaled[picks[:i]]) ** 2).sum(-1).min(1)
        assert distance[picks[i]] == pytest.approx(distance.max())
    learner.tell(picks, np.full((3, 1), np.nan))  # what failed counts as visited, too
    fourth = learner.ask(1)[0]
    distance = ((scaled[:, None] - scaled[picks]) ** 2).sum(-1).min(1)
    assert distance[fourth] == pytest.approx(distance.max())


def test_one_label_is_enough_for_a_strategy_if_told_so():
    learner = new()
    assert learner.ask(1).shape == (1,)
    learner.tell(learner.pending, [[3.0, 4.0]])
    assert learner.ask(2).shape == (2,) and np.isfinite(learner.predict(X).mean).all()
    assert learner.strategy == "mi-lb" and learner.curve.empty
    assert learner.curve.columns.tolist() == ["nll", "nll_error", "unconditional_nll", "certificate_high"]
    report = learner.report()
    assert learner.curve.index.tolist() == [1] and learner.curve["certificate_high"].tolist() == [
        report.certificate[0.9]
    ]
    assert "held-out NLL: needs two labels" in str(report)
    assert report.n == 1 and np.isnan(report.nll) and np.isfinite(list(report.certificate.values())).all()


@pytest.mark.parametrize("strategy", ["mi-lb-maxdist", "core-set", "bait", "mi-lb", "random"])
@pytest.mark.parametrize("n_told", [0, 7])
def test_more_is_asked_while_others_are_measured(strategy, n_told):
    learner = told(range(n_told), strategy=strategy) if n_told else new(strategy=strategy)
    first = learner.ask(3).tolist()
    second = learner.ask(2, more=True).tolist()
    assert len({*first, *second, *range(n_told)}) == 5 + n_told
    assert learner.pending.tolist() == learner.ask(1).tolist() == first + second
    learner.tell(first[:1], Y[first[:1]])
    assert learner.pending.tolist() == first[1:] + second
    left = learner.n_left - 4
    with pytest.raises(ValueError, match=f"k must be from 1 to the {left} rows that are left"):
        learner.ask(left + 1, more=True)
    assert len(learner.ask(left, more=True)) == left
    with pytest.raises(ValueError, match="nothing is left to ask"):
        learner.ask(1, more=True)


def test_more_keeps_a_distance_from_what_is_pending():
    learner = new()
    together = learner.ask(5).tolist()
    learner.withdraw()
    apart = learner.ask(3).tolist() + learner.ask(2, more=True).tolist()
    assert apart == together  # of a design, greedy: three and then two more are five


def test_outputs_of_one_or_two_axes_integers_and_frames():
    one, two, frame = new(), new(), new(pd.DataFrame(X, columns=["a", "b"]))
    y = np.arange(7)
    one.tell(range(7), y)
    two.tell(np.arange(7), y[:, None].astype(float))
    frame.tell(pd.Index(range(7)), pd.DataFrame({"strength": y}))
    batches = [learner.ask(3).tolist() for learner in (one, two, frame)]
    assert batches[0] == batches[1] == batches[2]
    assert frame.predict(pd.DataFrame(X, columns=["a", "b"])[["b", "a"]]).output_names == ("strength",)
    np.testing.assert_array_equal(frame.predict(pd.DataFrame(X[:, ::-1], columns=["b", "a"])).mean, one.predict(X).mean)


def test_integers_offsets_duplicates_and_constant_columns():
    whole = np.random.default_rng(0).integers(0, 9, size=(N, 2))
    plain = told(pool=whole.astype(float))
    moved = told(pool=whole * 7 + 2**40)
    assert plain.ask(3).tolist() == moved.ask(3).tolist()
    twice = whole[:, [0, 0]][np.r_[0:7, 0:7]]  # each row twice, and two columns alike
    assert len(set(told(pool=twice).ask(7).tolist())) == 7
    with pytest.warns(UserWarning, match="pool_x is constant in column 1: it can tell nothing"):
        learner = told(pool=np.stack([X[:, 0], np.full(N, 3.0)], axis=1))
    assert learner.ask(3).shape == (3,)


@pytest.mark.parametrize(("offset", "unit"), [(1e6, 1e-7), (0, 1e-170), (0, 1e90), (-1e-30, 1e-40)])
def test_scaling_leaves_the_same_numbers_in_any_unit(offset, unit):
    scaled = Scaling.of(offset + unit * X)
    assert not scaled.constant.any()
    np.testing.assert_allclose(scaled(offset + unit * X), Scaling.of(X)(X), atol=5e-3 if offset == 1e6 else 1e-5)


@pytest.mark.parametrize("value", [6.02214076e23, 1.7e60, -1e99, 0.1, 5e-324])
@pytest.mark.parametrize("rounding", [0, 3e-16])
def test_constant_columns_are_0_whatever_their_value(value, rounding):
    x = np.c_[X[:, 0], value * (1 + rounding * (np.arange(N) % 2))]
    scaled = Scaling.of(x)
    assert scaled.constant.tolist() == [False, True] and (scaled(x)[:, 1] == 0).all()
    with pytest.warns(UserWarning, match="pool_x is constant in column 1"):
        learner = told(pool=x)
    assert np.isfinite(learner.predict(x).mean).all()  # the pool's own rows are not far from it


def test_extras_teach_and_are_seen_by_strategies_that_look_at_labels():
    near = X[[8, 9, 10]] + 1e-3
    core_set = told(strategy="core-set")
    before = core_set.ask(3).tolist()
    core_set.withdraw()
    core_set.tell_extra(X[before], Y[[0, 1, 3]])
    assert core_set.n_labelled == 8 and max(core_set.ask(3)) < N
    learner = told()
    shift = learner.predict(X).shift
    learner.tell_extra(near, np.full((3, 2), 50.0))
    assert (learner.predict(X).shift > shift + 5).all()


@pytest.mark.parametrize(
    "name", [n if n in ("bait", "mi-lb-lcmd") else pytest.param(n, marks=pytest.mark.exhaustive) for n in STRATEGIES]
)
def test_every_strategy_asks(name):
    learner = told(strategy=name)
    learner.tell_extra(EXTRA_X[:2], EXTRA_Y[:2])
    assert len(set(learner.ask(3).tolist()) - set(range(7))) == 3


def widest(key, ensemble, pool, k, options):
    return jnp.argsort(jnp.where(pool.available, -pool.x[:, 0], jnp.inf))[:k]


def test_own_strategy_is_given_again_when_loading(tmp_path):
    learner = told(strategy=widest)
    assert learner.ask(2).tolist() == (7 + np.argsort(-X[7:, 0])[:2]).tolist()
    learner.save(tmp_path / "own.npz")
    with pytest.raises(ValueError, match=r"saved with the strategy .*widest': give it again"):
        Learner.load(tmp_path / "own.npz")
    assert Learner.load(tmp_path / "own.npz", widest).pending.tolist() == learner.pending.tolist()


def test_a_call_that_is_refused_changes_nothing():
    learner = told()
    batch = learner.ask(3)
    for call in (
        lambda: learner.tell([7, 0], [[1, 1], [9, 9]]),
        lambda: learner.tell([7, 7], [[1, 1], [1, 2]]),
        lambda: learner.tell([7, 99], [[1, 1], [1, 2]]),
        lambda: learner.tell([7], [[1, np.inf]]),
        lambda: learner.tell([7], [1]),
        lambda: learner.tell([7], pd.DataFrame({"a": ["x"], "b": [1]})),
        lambda: learner.tell_extra([[np.nan, 1]], [[1, 2]]),
        lambda: learner.ask(0) if not len(learner.pending) else learner.report(n_folds=1),
    ):
        with pytest.raises(ValueError):
            call()
    assert sorted(learner.labels) == list(range(7)) and learner.n_labelled == 5
    assert learner.pending.tolist() == batch.tolist()
    with pytest.raises(ValueError, match=r"row 0 was told as \[.*\], now \[9. 9.\]; replace=True takes the new label"):
        learner.tell([0], [[9, 9]])
    learner.tell([0], [[9, 9]], replace=True)
    with pytest.raises(ValueError, match=r"row 0 is given twice, as \[1. 2.\] and as \[3. 4.\]"):
        learner.tell([0, 0], [[1, 2], [3, 4]], replace=True)
    assert learner.labels[0].tolist() == [9, 9]


def test_nothing_told_changes_nothing():
    learner = new()
    learner.tell([], [])
    learner.tell_extra([], [])
    learner.tell_extra(np.zeros((0, 2)), pd.DataFrame({"a": []}))
    learner.tell([0], [[1, 2]])
    learner.tell([], [])
    learner.tell_extra([], [])
    assert learner.labels[0].tolist() == [1, 2] and learner.n_labelled == 1 and learner.output_names is None


def test_masked_labels_failed():
    learner = new()
    learner.tell([0, 1], np.ma.array([-999, 5], mask=[True, False]))
    learner.tell(2, np.ma.masked)
    assert (learner.n_labelled, learner.n_failed) == (1, 2)


def test_output_names_must_stay():
    learner = new()
    learner.tell([0], pd.DataFrame({"a": [1], "b": [2]}))
    learner.tell([1], [[1, 2]])
    with pytest.raises(ValueError, match=r"y has the columns \('b', 'a'\), what was told before \('a', 'b'\)"):
        learner.tell([2], pd.DataFrame({"b": [1], "a": [2]}))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"pool": np.zeros((0, 2))}, "pool_x has no rows"),
        ({"pool": pd.DataFrame({"s": ["water"]})}, "column 's' holds"),
        ({"strategy": "best"}, "unknown strategy 'best'"),
        ({"seed": -1}, "seed must be an integer"),
    ],
)
def test_refuses(arguments, message):
    with pytest.raises(ValueError, match=message):
        new(**arguments)


def test_nothing_labelled_yet():
    with pytest.raises(ValueError, match="nothing is labelled yet: ask, measure, tell"):
        new().predict(X)


def test_settings_are_printed_once_and_overridable(capsys):
    learner = told(quiet=False)
    assert learner.protocol.width == 4 and learner.protocol.n_pool == N
    learner.predict(X)
    learner.tell(7, Y[7])
    learner.predict(X)
    assert capsys.readouterr().out.count("\n") == 1
    protocol = Furnace().protocol("smoke")
    assert new(protocol=protocol).protocol is protocol


def test_constant_outputs_are_named():
    learner = new()
    learner.tell(range(4), pd.DataFrame({"a": np.arange(4), "b": np.ones(4)}))
    with pytest.warns(UserWarning, match=r"y is constant over the labels in column\(s\) 'b'"):
        learner.predict(X)


def test_one_compilation_serves_all_rounds():
    learner = told()
    learner.ask(2)
    before = fit_buffer._cache_size()
    for _ in range(2):
        rows = learner.pending
        learner.tell(rows, Y[rows])
        learner.ask(2)
    assert fit_buffer._cache_size() == before


MEMORY = """
import resource
import numpy as np
import milb
pool = np.random.default_rng(0).normal(size=(10**6, 4))
tiny = dict(n_members=2, n_components=2, width=4, min_steps=2, max_steps=2, n_initial=6)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
learner = milb.Learner(pool, "mi-lb", tiny, quiet=True)
for k in (6, 10):
    rows = learner.ask(k)
    learner.tell(rows, pool[rows, :2])
print(len(rows), (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024)
"""


@pytest.mark.exhaustive
def test_a_million_rows_in_the_memory_stated():
    finished = subprocess.run([sys.executable, "-c", MEMORY], capture_output=True, text=True, check=True, timeout=500)
    n, megabytes = map(float, finished.stdout.split())
    assert n == 10 and megabytes < 1_000

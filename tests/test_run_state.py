"""Nothing is lost: a run goes on after its last stored round, whatever ended it, and comes to the same result."""

import os
import signal
import subprocess
import sys
import time

import jax
import numpy as np
import pandas as pd
import pytest

from milb import learner, run_state, store
from milb.learner import run
from milb.problems import PROBLEMS

pytestmark = pytest.mark.slow


PROBLEM = PROBLEMS["double_well"]


PROTOCOL = PROBLEM.protocol("smoke").replace(n_components=2, width=8, n_rounds=4)


def timeless(history):
    return history[[name for name in history if not name.endswith("seconds")]]


def assert_same_run(a, b):
    pd.testing.assert_frame_equal(timeless(a.history), timeless(b.history))
    np.testing.assert_array_equal(a.picks, b.picks)
    np.testing.assert_array_equal(a.test_nll, b.test_nll)
    for x, y in zip(jax.tree.leaves(a.ensemble), jax.tree.leaves(b.ensemble), strict=True):
        np.testing.assert_array_equal(x, y)
    assert (a.problem, a.strategy, a.seed, a.training_seed, a.protocol) == (
        b.problem, b.strategy, b.seed, b.training_seed, b.protocol,
    )  # fmt: skip


@pytest.fixture(scope="module")
def uninterrupted():
    return run(PROBLEM, "mi-lb", 0, PROTOCOL, progress=False)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "run.npz"


class Killed(Exception):
    """Stands for the process ending."""


def run_until(path, round_index, monkeypatch):
    """A run that ends right after it has stored a round."""
    save = run_state.RunState.save

    def save_and_die(state, *arguments):
        save(state, *arguments)
        if len(state.records) == round_index + 1:
            raise Killed

    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(run_state.RunState, "save", save_and_die)
        run(PROBLEM, "mi-lb", 0, PROTOCOL, progress=False, store=path)


@pytest.mark.parametrize("round_index", [0, 2, 4])
def test_goes_on_after_the_last_stored_round(path, round_index, uninterrupted, monkeypatch):
    run_until(path, round_index, monkeypatch)
    assert_same_run(run(PROBLEM, "mi-lb", 0, PROTOCOL, progress=False, store=path), uninterrupted)


def test_finished_run_is_only_read(path, uninterrupted, monkeypatch):
    first = run(PROBLEM, "mi-lb", 0, PROTOCOL, progress=False, store=path)
    before = path.read_bytes()
    monkeypatch.setattr(learner, "_train_round", None)
    again = run(PROBLEM, "mi-lb", 0, PROTOCOL, progress=False, store=path)
    assert_same_run(again, first)
    assert_same_run(again, uninterrupted)
    pd.testing.assert_frame_equal(again.history, first.history)
    assert path.read_bytes() == before


CHILD = """
import sys
from milb.learner import run
from milb.problems import PROBLEMS
problem = PROBLEMS["double_well"]
protocol = problem.protocol("smoke").replace(n_components=2, width=8, n_rounds=4)
run(problem, "mi-lb", 0, protocol, progress=False, store=sys.argv[1])
"""


def rounds_in(path):
    return len(store.read(path)[0]["records"]) if path.exists() else 0


@pytest.mark.exhaustive
@pytest.mark.slow
def test_survives_sigkill_at_random_times(path, uninterrupted):
    """Killed while it starts, then again and again a random time after it has stored a round."""
    rng = np.random.default_rng()
    for kill in range(4):
        stored = rounds_in(path)
        process = subprocess.Popen([sys.executable, "-c", CHILD, str(path)])
        while kill and rounds_in(path) == stored and process.poll() is None:
            time.sleep(0.01)
        time.sleep(rng.uniform(0, 0.1 if kill else 3))
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert rounds_in(path) > 0
    assert_same_run(run(PROBLEM, "mi-lb", 0, PROTOCOL, progress=False, store=path), uninterrupted)


def truncated(path):
    run(PROBLEM, "mi-lb", 0, PROTOCOL.replace(n_rounds=0), progress=False, store=path)
    path.write_bytes(path.read_bytes()[:-100])


def foreign_text(path):
    path.write_text("strategy,n\n")


def foreign_npz(path):
    with path.open("wb") as file:
        np.savez(file, a=np.ones(3))


def empty(path):
    path.touch()


def pickled(path):
    with path.open("wb") as file:
        np.savez(file, header=np.array({"format": "milb run"}, dtype=object))


def spoiled_header(path, **changes):
    run(PROBLEM, "mi-lb", 0, PROTOCOL, progress=False, store=path)
    header, arrays = store.read(path)
    store.write(path, {name: value for name, value in (header | changes).items() if value is not None}, arrays)


def no_devices(path):
    spoiled_header(path, devices=None)


def too_many_records(path):
    spoiled_header(path, records=[{"n": n} for n in range(40, 100, 5)])


def rows_repeated(path):
    run(PROBLEM, "mi-lb", 0, PROTOCOL, progress=False, store=path)
    header, arrays = store.read(path)
    store.write(path, header, arrays | {"rows": 0 * arrays["rows"]})


def rows_missing(path):
    run(PROBLEM, "mi-lb", 0, PROTOCOL, progress=False, store=path)
    header, arrays = store.read(path)
    store.write(path, header, {"rows": arrays["rows"][:-1]})


@pytest.mark.sample(4)
@pytest.mark.parametrize(
    "spoil",
    [
        truncated,
        foreign_text,
        foreign_npz,
        empty,
        pickled,
        rows_missing,
        rows_repeated,
        no_devices,
        too_many_records,
    ],
)
def test_file_that_cannot_be_used_is_set_aside_and_the_run_starts_over(path, spoil, uninterrupted):
    spoil(path)
    content = path.read_bytes()
    with pytest.warns(UserWarning, match=r"run\.npz is no file of a milb run .*set aside as run\.npz\.unreadable"):
        result = run(PROBLEM, "mi-lb", 0, PROTOCOL, progress=False, store=path)
    assert_same_run(result, uninterrupted)
    assert path.with_name("run.npz.unreadable").read_bytes() == content
    assert store.read(path) is not None


@pytest.mark.parametrize(
    ("strategy", "seed", "changes", "message"),
    [
        ("random", 0, {}, "strategy: stored 'mi-lb', asked 'random'"),
        ("mi-lb", 1, {}, "seed: stored 0, asked 1"),
        ("mi-lb", 0, {"width": 9}, "protocol.width: stored 8, asked 9"),
        ("mi-lb", 0, {"variance": "trace"}, "protocol.variance: stored 'mean', asked 'trace'"),
    ],
)
def test_store_made_with_other_settings_is_refused(path, strategy, seed, changes, message, monkeypatch):
    run_until(path, 0, monkeypatch)
    before = path.read_bytes()
    with pytest.raises(ValueError, match=message):
        run(PROBLEM, strategy, seed, PROTOCOL.replace(**changes), progress=False, store=path)
    assert path.read_bytes() == before


def test_going_on_on_other_devices_warns(path, uninterrupted, monkeypatch):
    run_until(path, 1, monkeypatch)
    monkeypatch.setattr(run_state, "describe", lambda: "8 x another device")
    with pytest.warns(UserWarning, match="goes on with other rounding: devices: stored .*, asked '8 x another device'"):
        run(PROBLEM, "mi-lb", 0, PROTOCOL, progress=False, store=path)


def test_folder_that_cannot_take_the_file_is_found_before_the_training(tmp_path, monkeypatch):
    monkeypatch.setattr(learner, "_train_round", None)
    with pytest.raises(FileNotFoundError, match="missing does not exist"):
        run(PROBLEM, "mi-lb", 0, PROTOCOL, store=tmp_path / "missing" / "run.npz")
    with pytest.raises(IsADirectoryError):
        run(PROBLEM, "mi-lb", 0, PROTOCOL, store=tmp_path)


def test_temporaries_of_killed_processes_are_cleared(path, uninterrupted):
    leftover = path.with_name(f".{path.name}.123.tmp")
    leftover.write_text("half a file")
    run(PROBLEM, "mi-lb", 0, PROTOCOL.replace(n_rounds=0), progress=False, store=path)
    assert not leftover.exists()


def test_symlink_and_relative_path_lead_to_one_file(tmp_path, monkeypatch):
    real, link = tmp_path / "real" / "run.npz", tmp_path / "run.npz"
    real.parent.mkdir()
    link.symlink_to(real)
    monkeypatch.chdir(tmp_path)

    def elsewhere(key, ensemble, pool, k, options):
        os.chdir("/")
        return np.flatnonzero(pool.available)[:k]

    result = run(PROBLEM, elsewhere, 0, PROTOCOL, progress=False, store="run.npz")
    assert link.is_symlink() and rounds_in(real) == len(result.history) == 5


def test_block_size_is_free_to_change(path, uninterrupted, monkeypatch):
    run_until(path, 1, monkeypatch)
    result = run(PROBLEM, "mi-lb", 0, PROTOCOL.replace(block_size=64), progress=False, store=path)
    np.testing.assert_array_equal(result.picks, uninterrupted.picks)


def test_finished_run_is_read_from_a_folder_that_takes_no_files(path, uninterrupted, monkeypatch):
    run(PROBLEM, "mi-lb", 0, PROTOCOL, progress=False, store=path)
    monkeypatch.setattr(store.os, "access", lambda *_: False)
    assert_same_run(run(PROBLEM, "mi-lb", 0, PROTOCOL, progress=False, store=path), uninterrupted)
    with pytest.raises(PermissionError, match="cannot be written"):
        run(PROBLEM, "mi-lb", 0, PROTOCOL, progress=False, store=path.with_name("other.npz"))

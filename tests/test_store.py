"""Nothing is lost: runs go on where they were killed, and a file that cannot be used is set aside, not overwritten."""

import json
import os
import signal
import subprocess
import sys
import time
import warnings

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


@pytest.mark.slow
def test_a_reader_never_finds_half_a_file(path):
    """Killed while it does nothing but write."""
    code = f"""
import numpy as np, pathlib
from milb import store
for i in range(10_000):
    store.write(pathlib.Path({str(path)!r}), {{"i": i}}, {{"a": np.full(100_000, i)}})
"""
    for patience in (0.05, 0.2, 0.3):
        process = subprocess.Popen([sys.executable, "-c", code])
        while not path.exists() and process.poll() is None:
            time.sleep(0.05)
        time.sleep(patience)
        process.send_signal(signal.SIGKILL)
        process.wait()
        header, arrays = store.read(path)
        assert (arrays["a"] == header["i"]).all() and len(arrays["a"]) == 100_000


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


def test_files_set_aside_before_are_kept(path):
    for content in ("a", "b", "c"):
        path.write_text(content)
        with pytest.warns(UserWarning, match="set aside"):
            assert store.read(path) is None
    kept = {file.read_text() for file in path.parent.iterdir()}
    assert kept == {"a", "b", "c"}


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


def test_failed_write_keeps_the_old_file_and_no_temporary(path, monkeypatch):
    store.write(path, {"i": 1}, {})
    monkeypatch.setattr(store.np, "savez", lambda *_, **__: (_ for _ in ()).throw(OSError("no space left")))
    with pytest.raises(OSError, match="no space"):
        store.write(path, {"i": 2}, {})
    monkeypatch.undo()
    assert store.read(path)[0]["i"] == 1 and list(path.parent.iterdir()) == [path]


def test_newer_format_is_refused_and_kept(path):
    with path.open("wb") as file:
        np.savez(file, header=np.array(json.dumps({"format": "milb run", "version": 99})))
    before = path.read_bytes()
    with pytest.raises(ValueError, match="format version 99; this milb reads version 1"):
        store.read(path)
    assert path.read_bytes() == before


def test_file_that_cannot_be_read_now_is_left_alone(path, monkeypatch):
    path.write_text("precious")
    monkeypatch.setattr(store.Path, "read_bytes", lambda _: (_ for _ in ()).throw(OSError("too many open files")))
    with pytest.raises(OSError, match="too many open files"):
        store.read(path)
    assert path.read_text() == "precious"


def test_every_flipped_byte_is_set_aside_or_harmless(path):
    store.write(path, {"i": 1}, {"a": np.arange(50)})
    content = bytearray(path.read_bytes())
    rng = np.random.default_rng(0)
    for position in rng.integers(0, len(content), 150):
        damaged = content.copy()
        damaged[position] ^= 0xFF
        path.write_bytes(damaged)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            stored = store.read(path)
        assert stored is None or "a" not in stored[1] or (stored[1]["a"] == np.arange(50)).all()
        for aside in path.parent.glob("*.unreadable*"):
            aside.unlink()


def test_two_processes_never_work_on_one_store(path):
    with store.locked(path):
        code = f"""
from pathlib import Path
from milb import store

try:
    with store.locked(Path({str(path)!r})):
        print("both")
except BlockingIOError as error:
    print(error)
"""
        result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "another process is working on" in result.stdout
    with store.locked(path):
        pass


def test_temporaries_of_killed_processes_are_cleared(path, uninterrupted):
    leftover = path.with_name(f".{path.name}.123.tmp")
    leftover.write_text("half a file")
    run(PROBLEM, "mi-lb", 0, PROTOCOL.replace(n_rounds=0), progress=False, store=path)
    assert not leftover.exists()


@pytest.mark.parametrize("name", ["run.npz", "run[1].npz", "run*.npz"])
def test_temporaries_of_other_files_are_left_alone(name, tmp_path):
    mine = tmp_path / f".{name}.77.tmp"
    others = [tmp_path / f".{other}.88.tmp" for other in ("run1.npz", "runs.npz", f"{name}.bak", f"{name}.1")]
    for file in (mine, *others):
        file.write_text("half a file")
    with store.locked(tmp_path / name):
        assert not mine.exists() and all(other.exists() for other in others)


def test_a_link_has_the_lock_of_what_it_leads_to(tmp_path):
    (tmp_path / "there").mkdir()
    path, link = tmp_path / "there" / "run.npz", tmp_path / "link.npz"
    path.touch()
    link.symlink_to(path)
    with store.locked(path), pytest.raises(BlockingIOError), store.locked(link):
        pass


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


def test_a_link_stays_and_what_it_leads_to_is_replaced(tmp_path):
    target, link = tmp_path / "real" / "file", tmp_path / "link"
    target.parent.mkdir()
    target.write_bytes(b"before")
    link.symlink_to(target)
    with store.replacing(link) as file:
        file.write(b"after")
    assert link.is_symlink() and target.read_bytes() == b"after" and list(target.parent.iterdir()) == [target]

"""The file of a learner: complete, replaced at once, refused when damaged, and readable for ever."""

import json
from pathlib import Path

import numpy as np
import pytest

from milb.ask_tell import Learner
from milb.ask_tell.columns import Table
from milb.ask_tell.state import State
from milb.problems import PROBLEMS

TODAY = Path(__file__).resolve().parents[1] / "data" / "learner_v1.npz"


def some(**changes):
    state = State(Table(np.arange(12.0).reshape(6, 2), ("a", "b")), "mi-lb", 3, {"width": 5}, **changes)
    state.tell([4, 1], Table(np.array([[0.5, np.nan], [1e-300, 1e100]]), ("u", "v")), False)
    state.tell_extra(np.ones((2, 2)), Table(np.array([[1.0, 2], [np.nan, 3]]), None))
    state.pending, state.curve = [5, 0], {10: {"nll": float("nan"), "nll_error": 0.5}}
    return state


def assert_same(one, other):
    for name in ("strategy", "seed", "protocol", "pending", "n_outputs", "output_names"):
        assert getattr(one, name) == getattr(other, name), name
    for name in ("extra_x", "extra_y"):
        np.testing.assert_array_equal(getattr(one, name).ravel(), getattr(other, name).ravel())
    np.testing.assert_array_equal(one.pool.values, other.pool.values)
    assert one.pool.names == other.pool.names and sorted(one.labels) == sorted(other.labels)
    for row, y in one.labels.items():
        np.testing.assert_array_equal(y, other.labels[row])
    assert str(sorted(one.curve.items())) == str(sorted(other.curve.items()))


def test_comes_back_bit_for_bit(tmp_path):
    state = some()
    state.save(tmp_path / "state.npz")
    assert_same(State.load(tmp_path / "state.npz"), state)
    assert [path.name for path in tmp_path.iterdir()] == ["state.npz"]


def test_nothing_told_yet_and_a_whole_protocol(tmp_path):
    state = State(Table(np.zeros((3, 1)), None), "random", 0, PROBLEMS["ternary"].protocol("demo"))
    state.save(tmp_path / "state.npz")
    assert_same(State.load(tmp_path / "state.npz"), state)


def test_a_file_of_version_1_is_still_read():
    """Written by milb 0.1.0 and never again; with it the file of today is read whatever JAX is installed."""
    learner = Learner.load(TODAY, quiet=True)
    assert repr(learner) == "Learner('mi-lb': 5 labelled, 1 failed, 2 pending, 4 left)"
    assert (learner.pool.names, learner.seed) == (("temperature_C", "time_h"), 7)
    assert learner.pending.tolist() == [8, 3] and learner.protocol.width == 8
    np.testing.assert_array_equal(learner.labels[1], [2.5, 0.25])
    assert np.isnan(learner.labels[2]).all() and sorted(learner.labels) == [0, 1, 2, 5, 6]
    with np.load(TODAY, allow_pickle=False) as file:
        header = json.loads(str(file["header"]))
        assert {name: file[name].dtype.kind for name in file.files if name != "header"} == {
            "pool_x": "f", "rows": "i", "y": "f", "pending": "i", "extra_x": "f", "extra_y": "f",
        }  # fmt: skip
    assert header["version"] == 1 and "jax" in header["versions"]


def rewritten(path, header=None, **arrays):
    with np.load(TODAY, allow_pickle=False) as file:
        content = {name: file[name] for name in file.files} | arrays
    content["header"] = np.array(json.dumps(json.loads(str(content["header"])) | (header or {})))
    np.savez(path, **content)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda path: path.write_bytes(TODAY.read_bytes()[:-200]), "is no file of a learner, or damaged"),
        (lambda path: path.write_text("id,y\n"), "is no file of a learner, or damaged"),
        (lambda path: path.write_bytes(b""), "is no file of a learner, or damaged"),
        (lambda path: rewritten(path, {"format": "milb run"}), "it holds 'milb run'"),
        (lambda path: rewritten(path, {"version": 2}), "has format version 2; this milb reads version 1"),
        (lambda path: rewritten(path, rows=np.array([0, 0, 2, 5, 6])), "its rows repeat or are not in the pool"),
        (lambda path: rewritten(path, pending=np.array([99])), "its rows repeat or are not in the pool"),
        (lambda path: rewritten(path, y=np.zeros((4, 2))), "its arrays do not fit together"),
        (lambda path: rewritten(path, {"protocol": {"depht": 3}}), "is no file of a learner, or damaged.*depht"),
    ],
)
def test_refuses_and_leaves_the_file(damage, message, tmp_path):
    path = tmp_path / "state.npz"
    damage(path)
    before = path.read_bytes()
    with pytest.raises(ValueError, match=message):
        Learner.load(path)
    assert path.read_bytes() == before


def test_missing_files_and_folders(tmp_path):
    with pytest.raises(FileNotFoundError):
        Learner.load(tmp_path / "none.npz")
    with pytest.raises(FileNotFoundError, match=r"the folder .*none does not exist"):
        some().save(tmp_path / "none" / "state.npz")


def test_an_interrupted_save_leaves_the_old_file(tmp_path, monkeypatch):
    state = some()
    state.save(tmp_path / "state.npz")
    before = (tmp_path / "state.npz").read_bytes()
    monkeypatch.setattr(np, "savez", lambda file, **arrays: file.write(b"half") and 1 / 0)
    with pytest.raises(ZeroDivisionError):
        state.save(tmp_path / "state.npz")
    assert (tmp_path / "state.npz").read_bytes() == before and len(list(tmp_path.iterdir())) == 1

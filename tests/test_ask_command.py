"""`python -m milb ask`: from CSV files to the next batch; errors in one line, and then nothing is written."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from milb import __main__ as command
from milb.ask_tell import Learner, settings, state
from milb.store import locked

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:MI-LB is saturated")]

TINY = {
    "n_members": 2, "n_components": 2, "width": 4, "steps_per_label": 1, "min_steps": 2, "max_steps": 2, "n_initial": 3,
    "weight_decay": 0.1,
}  # fmt: skip
POOL = pd.DataFrame({"id": [f"p{i:02d}" for i in range(14)], "T": np.arange(14) * 10 + 650, "t": [0.5, 8.0] * 7})


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty folder with a pool and four labels in it; networks are tiny."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(command, "use_cpu_cores", lambda n: None)
    monkeypatch.setattr(state, "choose", lambda *sizes, **changes: settings.choose(*sizes, **{**TINY, **changes}))
    POOL.to_csv("pool.csv", index=False)
    add_labels(["p00", "p05", "p09"], failed=["p13"])
    return tmp_path


def add_labels(ids, failed=(), path="labels.csv"):
    """Appends measurements to labels.csv, as a person would."""
    rows = POOL.set_index("id").loc[list(ids)]
    measured = pd.DataFrame({"id": list(ids), "y1": rows["T"].to_numpy() / 7, "y2": rows["t"].to_numpy()})
    lost = pd.DataFrame({"id": list(failed), "y1": np.nan, "y2": np.nan})
    if Path(path).exists():
        measured = pd.concat([pd.read_csv(path), measured])
    pd.concat([measured, lost]).to_csv(path, index=False)


def ask(*more, k=3, pool="pool.csv", labels="labels.csv", output="next.csv"):
    return command.main(["ask", pool, labels, "--outputs", "y1", "y2", "--k", str(k), "-o", output, *more])


def asked():
    return pd.read_csv("next.csv")


def test_from_files_to_the_next_batch(folder, capsys):
    assert ask() == 0
    batch = asked()
    assert list(batch.columns) == list(POOL.columns) and len(batch) == 3
    assert not set(batch["id"]) & {"p00", "p05", "p09", "p13"} and set(batch["id"]) <= set(POOL["id"])
    pd.testing.assert_frame_equal(batch, POOL.set_index("id").loc[batch["id"]].reset_index())
    out = capsys.readouterr().out
    assert "3 labels, 1 failed, 10 rows left" in out
    assert "next.csv: 3 rows" in out and "held-out NLL" in out
    assert "2 inputs, 2 output(s)" in out  # the settings
    pd.read_csv("labels.csv").iloc[::-1].to_csv("labels.csv", index=False)
    assert ask("--no-report") == 0 and asked()["id"].tolist() == batch["id"].tolist()
    assert sorted(path.name for path in folder.iterdir()) == ["labels.csv", "next.csv", "pool.csv"]


def test_no_labels_yet(folder, capsys):
    (folder / "labels.csv").write_text("id,y1,y2\n")
    assert ask(k=4) == 0
    assert {"p00", "p13"} <= set(asked()["id"]) and len(asked()) == 4  # the two ends of the pool, and more
    assert "0 labels, 0 failed, 14 rows left" in capsys.readouterr().out


def test_state_keeps_the_batch_until_it_is_measured(folder, capsys):
    again = ("--state", "lab.npz", "--no-report")
    assert ask(*again) == 0
    batch = asked()["id"].tolist()
    (folder / "next.csv").unlink()
    assert ask(*again, k=5) == 0 and asked()["id"].tolist() == batch
    add_labels(batch[1:2], failed=batch[2:])
    assert ask(*again) == 0 and asked()["id"].tolist() == batch[:1]
    assert "1 rows, asked before and not in labels.csv yet" in capsys.readouterr().out
    add_labels(batch[:1])
    assert ask(*again) == 0 and not set(asked()["id"]) & set(batch)


def test_the_home_folder_is_found_where_the_shell_leaves_the_tilde(folder, capsys, monkeypatch):
    home = folder / "home"
    home.mkdir()
    (folder / "~").mkdir()
    monkeypatch.setenv("HOME", str(home))
    assert ask("--state=~/lab.npz", "--no-report") == 0
    batch = asked()["id"].tolist()
    assert (home / "lab.npz").exists() and not list((folder / "~").iterdir())
    assert ask("--state=~/lab.npz", "--no-report", k=5) == 0 and asked()["id"].tolist() == batch
    assert ask("--state=~nobody9/lab.npz") == 2 and "~nobody9/lab.npz: Could not" in capsys.readouterr().err


def test_one_call_at_a_time_works_on_a_state(folder, capsys):
    (folder / ".lab.npz.1.tmp").write_bytes(b"of a call that was killed while it wrote")
    with locked(folder / "lab.npz"):
        (folder / ".lab.npz.1.tmp").write_bytes(b"again")
        assert ask("--state", "lab.npz") == 2
        assert "another process is working on" in capsys.readouterr().err and not (folder / "next.csv").exists()
    assert ask("--state", "lab.npz", "--no-report") == 0
    assert not list(folder.glob(".*.tmp"))


def test_a_slip_in_a_label_may_be_mended_and_a_label_not_lost(folder, capsys):
    again = ("--state", "lab.npz", "--no-report")
    assert ask(*again) == 0
    labels = pd.read_csv("labels.csv")
    labels.assign(y2=[9.0, 8.0, 8.0, np.nan]).to_csv("labels.csv", index=False)
    assert ask(*again) == 0
    labels.iloc[1:].to_csv("labels.csv", index=False)
    capsys.readouterr()
    assert ask(*again) == 2
    assert "labels.csv lacks id 'p00', which lab.npz has a label of" in capsys.readouterr().err


def test_a_report_that_fails_is_a_warning_and_the_batch_stands(folder, capsys, monkeypatch):
    def fails(self):
        raise FloatingPointError("training has diverged")

    monkeypatch.setattr(Learner, "report", fails)
    assert ask("--state", "lab.npz") == 0
    assert "warning: no report: training has diverged" in capsys.readouterr().out
    assert len(pd.read_csv("next.csv")) == 3 and len(Learner.load("lab.npz").pending) == 3


def refused(capsys, before, *arguments, **options):
    """The one line on stderr, once it is known that no file has changed."""
    try:
        code = ask(*arguments, **options)
    except SystemExit as error:
        code = error.code
    assert code == 2
    captured = capsys.readouterr()
    assert {path: path.read_bytes() for path in before} == before
    return captured.err


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((), {"pool": "none.csv"}, "python -m milb ask: none.csv does not exist\n"),
        ((), {"output": "pool.csv"}, "-o pool.csv is the file of the pool"),
        ((), {"output": "./labels.csv"}, "-o labels.csv is the file of the labels"),
        (("--state", "next.csv"), {}, "--state next.csv is the file of -o"),
        ((), {"output": "none/next.csv"}, "-o none/next.csv: the folder "),
        ((), {"output": "."}, "-o . is a folder: give a file"),
        ((), {"k": 11}, "k must be from 1 to the 10 rows that are left, got 11"),
        ((), {"k": 0}, "k must be from 1"),
        (("--outputs", "y1", "y1"), {}, "--outputs must be different columns, and none of ids: got 'y1'"),
        (("--outputs", "y3"), {}, "labels.csv has no column 'y3'; its columns are 'id', 'y1', 'y2'"),
        (("--id", "key"), {}, "pool.csv has no column 'key'"),
        (("--outputs", ""), {}, "--id and --outputs must be names of columns, got an empty one"),
        (("--strategy", "best"), {}, "invalid choice: 'best'"),
        (("--state", "labels2.npz"), {}, "labels2.npz is no file of a learner, or damaged: it is no .npz"),
        (("--seed", "-1"), {}, "seed must be an integer from 0"),
        ((), {"labels": "bad.csv"}, "bad.csv, row 3, column 'y1': 'n.d.' is no number; leave it empty where"),
    ],
)
def test_refused_in_one_line_and_nothing_written(folder, capsys, arguments, options, message):
    (folder / "next.csv").write_text("old")
    (folder / "labels2.npz").write_text("no archive")
    (folder / "bad.csv").write_text("id,y1,y2\np00,1,2\np01,n.d.,3\n")
    before = {path: path.read_bytes() for path in folder.iterdir()}
    err = refused(capsys, before, *arguments, **options)
    assert message in err and {path for path in folder.iterdir() if path.suffix != ".lock"} == set(before)
    assert err.startswith("usage") or err.count("\n") == 1


def test_another_pool_or_seed_than_the_state_has(folder, capsys):
    again = ("--state", "lab.npz", "--no-report")
    assert ask(*again) == 0
    before = {path: path.read_bytes() for path in folder.iterdir()}
    capsys.readouterr()
    assert "lab.npz was begun with seed 0" in refused(capsys, before, *again, "--seed", "1")
    POOL.assign(T=POOL["T"] + 1).to_csv("pool.csv", index=False)
    before[folder / "pool.csv"] = (folder / "pool.csv").read_bytes()
    assert "pool.csv is not the pool that lab.npz was begun with" in refused(capsys, before, *again)


def test_other_outputs_than_the_state_has(folder, capsys):
    again = ("--state", "lab.npz", "--no-report")
    assert ask(*again) == 0
    before = {path: path.read_bytes() for path in folder.iterdir()}
    capsys.readouterr()
    for outputs in (["y2", "y1"], ["y2"]):
        err = refused(capsys, before, *again, "--outputs", *outputs)
        assert f"--outputs {' '.join(outputs)}: lab.npz was begun with y1 y2, in this order" in err
        assert err.count("\n") == 1


def test_links_are_followed_and_pipes_refused(folder, capsys):
    (folder / "results").mkdir()
    for name in ("next.csv", "lab.npz"):
        (folder / name).symlink_to(folder / "results" / name)
    assert ask("--state", "lab.npz", "--no-report") == 0
    assert all((folder / name).is_symlink() for name in ("next.csv", "lab.npz"))
    assert sorted(path.name for path in (folder / "results").iterdir()) == [".lab.npz.lock", "lab.npz", "next.csv"]
    os.mkfifo(folder / "pipe")
    (folder / "loop").symlink_to(folder / "loop")
    capsys.readouterr()
    for name in ("pipe", "loop", os.devnull):
        assert f"-o {name} is a pipe, a device or a link" in refused(capsys, {}, output=name)
        assert "--state" in refused(capsys, {}, "--state", name)


def test_a_pool_from_a_pipe(folder):
    read_end, write_end = os.pipe()
    os.write(write_end, (folder / "pool.csv").read_bytes())
    os.close(write_end)
    assert ask("--no-report", pool=f"/dev/fd/{read_end}") == 0 and len(asked()) == 3
    os.close(read_end)


def test_the_last_labels_are_kept_though_nothing_is_left_to_ask(folder, capsys):
    assert ask("--state", "lab.npz", "--no-report", k=10) == 0
    add_labels(asked()["id"])
    assert ask("--state", "lab.npz") == 2 and "nothing is left to ask" in capsys.readouterr().err
    assert repr(Learner.load("lab.npz")).endswith("13 labelled, 1 failed, 0 pending, 0 left)")


@pytest.mark.exhaustive
def test_in_a_process_of_its_own(folder):
    """As it is typed, with settings of its own choice."""
    words = "ask pool.csv labels.csv --outputs y1 y2 --k 2 --strategy mi-lb -o next.csv --state lab.npz"
    done = subprocess.run([sys.executable, "-m", "milb", *words.split()], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert len(asked()) == 2 and (folder / "lab.npz").exists()

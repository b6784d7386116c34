"""Studies: lockstep equals one by one, groups resume from any round, the grid refuses what it cannot mean."""

import concurrent.futures
import contextlib
import dataclasses
import os
import re
import signal
import subprocess
import sys
import tarfile
import threading
import time
import warnings

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

from milb import __main__ as command
from milb import study
from milb.devices import describe
from milb.history import COLUMNS
from milb.learner import run
from milb.problems import PROBLEMS
from milb.strategy import STRATEGIES, Scored, top_k
from milb.study import archive, cluster, lockstep, runner
from milb.study.grid import Arm, grid
from milb.study.progress import load, save

BENCHMARKS = tuple(PROBLEMS)
MEAN = COLUMNS.index("nll_mean")
NOTHING = contextlib.nullcontext()
QUOTED = ["benchmark", "strategy", "n", "mean", "std", "min", "max"]
ARMS = ("random", "variance-sbal:sbal_temperature=0.1", "core-set")


def small(benchmark="ternary", arms=ARMS, seeds=(0, 1), max_steps=20, **changes):
    """So few steps that runs in lockstep and one by one have not drifted apart by rounding."""
    (group,) = grid([benchmark], arms, seeds, "smoke", runs_per_group=60, max_steps=max_steps, **changes)
    return group


def stored(group, folder):
    return runner.load(folder / f"{group.name}.npz", group)[0]


def test_arms_are_read_from_text():
    arm = Arm.parse("variance-sbal:sbal_temperature=0.3,variance=trace")
    assert arm == Arm("variance-sbal", (("sbal_temperature", 0.3), ("variance", "trace")))
    assert Arm.parse(str(arm)) == arm and str(Arm.parse("random")) == "random"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("best", "unknown strategy 'best'"),
        ("random:steps=3", "'steps' is no option of random; it reads none"),
        ("mi-lb-maxdist:x=3", "'x' is no option of .*; those it reads are max_dist_features, max_dist_weight"),
        ("mi-lb:sbal_temperature=0.3", "'sbal_temperature' is no option of mi-lb; it reads none"),
        ("bait:gibbs_half=1", "'gibbs_half' is no option of bait"),
        ("bait:block_size=64", "'block_size' is no option of bait"),
        ("bait:bait_ridge=1,bait_ridge=2", "gives bait_ridge twice"),
        ("bait:bait_ridge=big", "bait_ridge = 'big' is no number"),
        ("bait:bait_ridge=-1", "bait_ridge must be a finite number"),
        ("variance:variance=sum", "variance must be one of 'mean', 'trace', got 'sum'"),
    ],
)
def test_refuses_arms(text, message):
    with pytest.raises(ValueError, match=message):
        Arm.parse(text)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"benchmarks": ["ternery"]}, "unknown benchmark 'ternery'; there are"),
        ({"seeds": []}, "seeds must be different ones, at least one"),
        ({"seeds": [1, 1]}, "seeds must be different ones"),
        ({"arms": ["random", "random"]}, "arms must be different ones"),
        ({"arms": ["mi-lb-sbal", "mi-lb-sbal:sbal_temperature=1"]}, "arms must be different runs; on "),
        ({"arms": [Arm("best")]}, "unknown strategy 'best'"),
        ({"arms": [Arm("mi-lb-sbal", (("sbal_temperature", -1),))]}, "sbal_temperature must be"),
        ({"scale": "huge"}, "scale must be one of"),
        ({"runs_per_group": 0}, "runs_per_group must be an integer >= 1 or None, got 0"),
    ],
)
def test_refuses_grids(arguments, message):
    with pytest.raises(ValueError, match=message):
        grid(**{"scale": "smoke", **arguments})


def test_one_name_is_a_list_of_one_too():
    (group,) = grid("ternary", "random", [0], "smoke")
    assert group == grid(["ternary"], [Arm("random")], [0], "smoke")[0]


@pytest.mark.parametrize("together", [1, 2, 3, 4, 5, 7, 20])
def test_groups_hold_every_run_once(together):
    groups = grid(BENCHMARKS, ARMS, range(5), "smoke", runs_per_group=together)
    runs = [(g.benchmark, arm, seed) for g in groups for arm in g.arms for seed in g.seeds]
    assert len(runs) == len(set(runs)) == 3 * 3 * 5
    assert all(len(group.arms) * len(group.seeds) <= together for group in groups)
    assert len({group.name for group in groups}) == len(groups)


def test_a_group_is_known_by_its_settings_but_not_by_its_block_size():
    assert small().name == small(block_size=7).name
    assert len({small().name, small(clip="member").name, small(seeds=(0, 2)).name, small(arms=ARMS[:2]).name}) == 4


def test_names_of_many_seeds_stay_short():
    many, others, few = (
        grid(["ternary"], ARMS, seeds, "smoke", runs_per_group=600)[0].name
        for seeds in (range(200), (*range(199), 200), range(50))
    )
    assert many != others and many.rsplit("_", 1)[0] == "ternary_smoke_3-strategies_seed-0-and-199-more"
    assert few.startswith("ternary_smoke_3-strategies_seed-0-1-2-3-")


def assert_equals_one_by_one(group, folder, seed=1):
    progress = stored(group, folder)
    recorded = [COLUMNS.index(name) for name in COLUMNS if not name.endswith("seconds")]
    for a, arm in enumerate(group.arms):
        protocol = group.protocol.replace(**dict(arm.options))
        alone = run(PROBLEMS[group.benchmark], arm.strategy, seed, protocol, progress=False)
        np.testing.assert_array_equal(progress.rows[seed, a, 40:], alone.picks.ravel())
        history = np.stack(progress.metrics)[:, seed, a]
        np.testing.assert_allclose(history[:, recorded], alone.history.iloc[:, recorded], rtol=1e-3, atol=1e-5)
        np.testing.assert_allclose(progress.test_nll[seed, a], alone.test_nll, rtol=1e-3)


@pytest.mark.slow
def test_lockstep_equals_one_by_one(store):
    assert_equals_one_by_one(small(), store)


@pytest.mark.exhaustive
@pytest.mark.slow
@pytest.mark.parametrize(
    ("benchmark", "arms"),
    [
        ("double_well", ["mi-lb-maxdist", "bait"]),
        ("multimodal", ["mi-lb", "variance"]),
        ("ternary", ["mi-lb-sbal"]),
    ],
)
def test_lockstep_equals_one_by_one_everywhere(benchmark, arms, tmp_path):
    group = small(benchmark, arms)
    assert study.run([group], tmp_path, progress=False)
    assert_equals_one_by_one(group, tmp_path)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    folder = tmp_path_factory.mktemp("store")
    assert study.run([small()], folder, progress=False)
    return folder


@pytest.fixture(scope="module")
def undisturbed(store):
    return stored(small(), store)


def assert_same(progress, other):
    np.testing.assert_array_equal(progress.rows, other.rows)
    np.testing.assert_array_equal(np.stack(progress.metrics)[..., :-2], np.stack(other.metrics)[..., :-2])
    np.testing.assert_array_equal(np.stack(progress.scores), np.stack(other.scores))
    np.testing.assert_array_equal(progress.test_nll, other.test_nll)


def test_arms_of_a_seed_share_their_start_and_then_part(undisturbed):
    first, last = undisturbed.metrics[0][..., MEAN], undisturbed.metrics[-1][..., MEAN]
    assert (first == first[:, :1]).all() and len(np.unique(last)) == last.size
    assert len(np.unique(first)) == 2


def test_a_first_round_is_not_begun_either_where_the_last_one_took_too_long(tmp_path, monkeypatch):
    begun, advance = [], lockstep.Lockstep.advance

    def slow(self, progress):
        begun.append(self.group.seeds)
        advance(self, progress)
        progress.seconds[-1][0] += 1_000

    monkeypatch.setattr(lockstep.Lockstep, "advance", slow)
    groups = [small(arms=("random",), seeds=(seed,), max_steps=5) for seed in (0, 1)]
    assert not study.run(groups, tmp_path, time_limit=600, progress=False)
    assert begun == [(0,)]


def test_what_other_devices_took_says_nothing_of_these(tmp_path):
    groups = [small(arms=("random",), seeds=(seed,), max_steps=5) for seed in (0, 1)]
    study.run(groups[:1], tmp_path, progress=False)
    path = tmp_path / f"{groups[0].name}.npz"
    progress, made = load(path, groups[0])
    progress.seconds[-1][0] = 10_000
    save(path, groups[0], progress, made)
    assert not study.run(groups, tmp_path, time_limit=600, progress=False)
    save(path, groups[0], progress, [{**made[-1], "devices": "1 x abacus"}])
    assert study.run(groups, tmp_path, time_limit=600, progress=False)


def test_what_an_older_version_took_on_these_devices_counts(tmp_path):
    (group,) = [small(arms=("random",), seeds=(0,), max_steps=5)]
    progress = lockstep.Progress.new(group)
    lockstep.Lockstep(group).advance(progress)
    progress.seconds[-1][0] = 10_000
    old = {"devices": describe(), "versions": {"milb": "0.0.9"}, "date": "2026-11-29", "first_round": 0}
    save(tmp_path / f"{group.name}.npz", group, progress, [old])
    assert not study.run([group], tmp_path, time_limit=600, elsewhere=True, progress=False)
    assert len(stored(group, tmp_path).metrics) == 1


def test_says_that_a_round_would_not_end_in_time(tmp_path, capsys, monkeypatch):
    (group,) = [small(arms=("random",), seeds=(0,), max_steps=5)]
    advance = lockstep.Lockstep.advance

    def slow(self, progress):
        advance(self, progress)
        progress.seconds[-1][0] += 1_000

    monkeypatch.setattr(lockstep.Lockstep, "advance", slow)
    assert not study.run([group], tmp_path, time_limit=600)
    assert re.search(r"its next round takes about 11\d\d s; [1-6]\d\d are left", capsys.readouterr().out)


def test_scores_of_a_fixed_subset_are_kept(undisturbed):
    scores = np.stack(undisturbed.scores)
    assert scores.shape == (2, 3, 400) and scores.dtype == np.float16
    assert np.isfinite(scores[:, :2]).all() and np.isnan(scores[:, 2]).all()
    kept = lockstep.clipped(np.float32([1e6, -1e6, 2, np.nan]))  # a log gap may lie beyond half precision
    np.testing.assert_array_equal(kept, np.float16([65_504, -65_504, 2, np.nan]))


def test_goes_on_after_a_stop_and_reads_what_is_finished(undisturbed, tmp_path, monkeypatch):
    group, advance = small(), lockstep.Lockstep.advance
    assert not study.run([group], tmp_path, time_limit=0, progress=False)
    assert not list(tmp_path.glob("*.npz"))

    def stop_after_one(self, progress):
        if progress.metrics:
            raise KeyboardInterrupt
        advance(self, progress)

    monkeypatch.setattr(lockstep.Lockstep, "advance", stop_after_one)
    with pytest.raises(KeyboardInterrupt):
        study.run([group], tmp_path, archive=tmp_path / "all.tar", progress=False)
    assert len(stored(group, tmp_path).metrics) == 1
    monkeypatch.setattr(lockstep.Lockstep, "advance", advance)
    elsewhere = tmp_path / "elsewhere"  # the archive alone is enough to go on from
    assert study.run([group], elsewhere, archive=tmp_path / "all.tar", progress=False)
    assert_same(stored(group, elsewhere), undisturbed)
    monkeypatch.setattr(lockstep.Lockstep, "advance", None)
    assert study.run([group], elsewhere, progress=False)


def test_other_devices_are_refused_or_recorded(tmp_path, monkeypatch):
    group = small()
    lock = lockstep.Lockstep(group)
    progress = lockstep.Progress.new(group)
    lock.advance(progress)
    made = [{"devices": "1 x abacus (cpu)", "versions": runner.versions(), "date": "2026-01-01"}]
    runner.save(tmp_path / f"{group.name}.npz", group, progress, made)
    with pytest.raises(ValueError, match=r"begun elsewhere.*elsewhere=True.*\n.*devices: stored '1 x abacus"):
        study.run([group], tmp_path, progress=False)
    assert study.run([group], tmp_path, elsewhere=True, progress=False)
    made = runner.load(tmp_path / f"{group.name}.npz", group)[1]
    assert [m["devices"] for m in made] == ["1 x abacus (cpu)", runner.describe()]
    devices = study.curves(tmp_path).groupby("n")["device"].unique().map(list).tolist()  # each round by what made it
    assert devices == [["1 x abacus (cpu)"], *[[runner.describe()]] * group.protocol.n_rounds]


@pytest.mark.parametrize("content", [b"", b"not a zip", None])
def test_a_file_that_cannot_be_used_is_set_aside(content, tmp_path):
    group = small()
    path = tmp_path / f"{group.name}.npz"
    if content is None:
        runner.files.write(path, {"settings": {}, "columns": []}, {"rows": np.zeros(3)})
    else:
        path.write_bytes(content)
    with pytest.warns(UserWarning, match="unreadable"):
        assert not runner.load(path, group)[0].metrics
    assert path.with_name(f"{path.name}.unreadable").exists() and not path.exists()


def test_a_group_that_another_process_holds_is_left_to_it(tmp_path):
    group = small()
    with runner.files.locked(tmp_path / f"{group.name}.npz"):
        assert not study.run([group], tmp_path, progress=False)


def test_a_store_that_is_a_file_is_refused(tmp_path):
    (tmp_path / "store").touch()
    with pytest.raises(NotADirectoryError, match="the store must be a folder"):
        study.run([small()], tmp_path / "store", progress=False)


@pytest.fixture
def tar(tmp_path):
    return tmp_path / "all.tar"


def put_rounds(store, folder, rounds):
    """The group's file as it was after some of its rounds."""
    group, name = small(), f"{small().name}.npz"
    progress, made = runner.load(store / name, group)
    progress.metrics, progress.seconds = progress.metrics[:rounds], progress.seconds[:rounds]
    progress.scores, progress.test_nll = progress.scores[:rounds], progress.test_nll if rounds == 3 else None
    folder.mkdir(exist_ok=True)
    runner.save(folder / name, group, progress, made)
    return folder / name


def contents(tar):
    with tarfile.open(tar) as archive:
        return {name: archive.extractfile(name).read() for name in archive.getnames()}


def names(folder):
    return sorted(path.name for path in folder.iterdir() if not path.name.endswith(".lock"))


@pytest.fixture
def two_groups(store, tmp_path):
    """A folder with a group and, before it, another file of it under a name of its own."""
    path = put_rounds(store, tmp_path / "packed", 2)
    path.with_name("a.npz").write_bytes((store / path.name).read_bytes())
    return path.parent


@pytest.mark.parametrize("content", [b"", b"n,y\n1,2\n", b"x" * 2000])
def test_an_archive_that_is_no_tar_is_refused_before_any_work(content, tmp_path, tar, capsys, monkeypatch):
    monkeypatch.setattr(command, "use_cpu_cores", lambda n: None)
    tar.write_bytes(content)
    folder = tmp_path / "store"
    assert command.main(["study", "--scale", "smoke", "--store", str(folder), "--archive", str(tar)]) == 2
    assert "all.tar is no tar file" in capsys.readouterr().err.splitlines()[-1]
    assert tar.read_bytes() == content and not folder.exists()


@pytest.mark.parametrize("damage", ["in the second member", "in the second header", "between them", "no end"])
def test_what_stands_before_the_damage_of_an_archive_is_saved(damage, two_groups, tmp_path, tar):
    archive.pack(two_groups, tar)
    content, folder = bytearray(tar.read_bytes()), tmp_path / "store"
    with tarfile.open(tar) as whole:
        second, end = whole.getmembers()[1].offset, whole.offset
    if damage == "in the second header":
        content[second + 3] ^= 0xFF
    else:
        del content[{"in the second member": second + 600, "between them": second, "no end": end}[damage] :]
    tar.write_bytes(content)
    with pytest.warns(UserWarning, match=r"all.tar is no whole tar file .*set aside as all.tar.unreadable"):
        assert not study.run([small()], folder, archive=tar, time_limit=0, progress=False)
    assert tar.with_name("all.tar.unreadable").read_bytes() == content
    saved = [path.name for path in sorted(two_groups.iterdir())][: 2 if damage == "no end" else 1]
    assert names(folder) == saved and contents(tar) == {name: (two_groups / name).read_bytes() for name in saved}


@pytest.mark.parametrize("rounds_here", [None, 1, 3])
def test_a_damaged_member_of_an_archive_is_set_aside(rounds_here, store, tmp_path, tar):
    path, folder = put_rounds(store, tmp_path / "packed", 2), tmp_path / "store"
    damaged = path.read_bytes()[:-100]
    path.write_bytes(damaged)
    archive.pack(path.parent, tar)
    if rounds_here is not None:
        put_rounds(store, folder, rounds_here)
    for attempt in range(2):
        with pytest.warns(UserWarning, match="is damaged or foreign; set aside as") if not attempt else NOTHING:
            study.run([small()], folder, archive=tar, time_limit=0, progress=False)
    assert (folder / f"{path.name}.unreadable").read_bytes() == damaged
    assert len(stored(small(), folder).metrics) == (rounds_here or 0)
    assert list(contents(tar)) == ([] if rounds_here is None else [path.name])
    assert len(names(folder)) == (1 if rounds_here is None else 2)


def test_an_archive_is_not_packed_into_itself(tmp_path):
    with pytest.raises(ValueError, match=r"all\.npz would be packed into itself"):
        study.run([small()], tmp_path, archive=tmp_path / "all.npz", progress=False)


def test_an_archive_holds_what_links_lead_to_and_files_only(store, tmp_path, tar):
    path, folder = put_rounds(store, tmp_path / "elsewhere", 2), tmp_path / "store"
    folder.mkdir()
    (folder / path.name).symlink_to(path)
    (folder / "a_folder.npz").mkdir()
    (folder / "nothing.npz").symlink_to(tmp_path / "not there")
    archive.pack(folder, tar)
    assert contents(tar) == {path.name: path.read_bytes()}
    packed = tar.stat().st_ino
    archive.synchronise(folder, tar)
    assert tar.stat().st_ino == packed, "nothing differs, nothing is written"


def test_a_file_that_is_replaced_meanwhile_is_packed_whole(store, tmp_path, tar, monkeypatch):
    path, read = put_rounds(store, tmp_path / "store", 1), type(tmp_path).read_bytes
    one_round, three_rounds = path.read_bytes(), put_rounds(store, tmp_path / "further", 3).read_bytes()

    def read_and_replace(path):
        content = read(path)
        path.write_bytes(three_rounds)
        return content

    monkeypatch.setattr(type(tmp_path), "read_bytes", read_and_replace)
    archive.pack(path.parent, tar)
    assert contents(tar) == {path.name: one_round}


@pytest.mark.parametrize(("here", "there"), [(1, 2), (2, 1), (3, 2), (2, 3), (2, 2)])
def test_store_and_archive_agree_on_more_rounds(here, there, store, tmp_path, tar):
    folder = tmp_path / "store"
    archive.pack(put_rounds(store, tmp_path / "packed", there).parent, tar)
    path = put_rounds(store, folder, here)
    study.run([small()], folder, archive=tar, time_limit=0, progress=False)
    assert len(stored(small(), folder).metrics) == max(here, there)
    assert contents(tar) == {path.name: path.read_bytes()} and names(folder) == [path.name]


@pytest.mark.parametrize("here", [2, 3])
def test_rounds_that_went_another_way_are_set_aside(here, store, tmp_path, tar):
    folder, group = tmp_path / "store", small()
    packed = put_rounds(store, tmp_path / "packed", 2)
    progress, made = runner.load(packed, group)
    progress.metrics[1] = progress.metrics[1] + 1  # as another device may have had it
    runner.save(packed, group, progress, made)
    theirs = packed.read_bytes()
    archive.pack(packed.parent, tar)
    path = put_rounds(store, folder, here)
    ours = path.read_bytes()
    with pytest.warns(UserWarning, match="has other rounds than .*; set aside as"):
        study.run([group], folder, archive=tar, time_limit=0, progress=False)
    assert path.read_bytes() == ours == contents(tar)[path.name]
    assert path.with_name(f"{path.name}.unreadable").read_bytes() == theirs
    with pytest.warns(UserWarning, match="has other rounds than.*replaced by that of"):  # and the other way round
        path = put_rounds(store, tmp_path / "late", 1)
        progress, made = runner.load(path, group)
        progress.metrics[0] = progress.metrics[0] + 1
        runner.save(path, group, progress, made)
        study.run([group], path.parent, archive=tar, time_limit=0, progress=False)
    assert path.read_bytes() == ours


def test_a_file_of_something_else_travels_in_the_archive(store, tmp_path, tar):
    put_rounds(store, tmp_path / "packed", 2)
    np.savez(tmp_path / "packed" / "other.npz", a=np.ones(3))
    archive.pack(tmp_path / "packed", tar)
    study.run([small()], tmp_path / "store", archive=tar, time_limit=0, progress=False)
    assert names(tmp_path / "store") == names(tmp_path / "packed")


def test_what_is_no_file_is_not_read(store, tmp_path):
    path = put_rounds(store, tmp_path / "store", 2)
    (path.parent / "folder.npz").mkdir()
    (path.parent / "dangling.npz").symlink_to(tmp_path / "nowhere")
    assert len(study.curves(path.parent)) == 12
    with pytest.raises(ValueError, match="store must be a path, got an empty one"):
        study.run([small()], "")


def test_makers_of_files_that_did_not_note_rounds():
    header = {"made": [{"devices": "A"}, {"devices": "B"}]}
    assert [study.maker(header, r)["devices"] for r in range(3)] == ["A", "B", "B"]


def test_a_damaged_file_of_the_store_is_replaced_from_the_archive_and_kept(store, tmp_path, tar):
    path = put_rounds(store, tmp_path / "store", 2)
    archive.pack(path.parent, tar)
    path.write_bytes(b"half")
    with pytest.warns(UserWarning, match="set aside as .* replaced by that of"):
        study.run([small()], path.parent, archive=tar, time_limit=0, progress=False)
    assert len(stored(small(), path.parent).metrics) == 2
    assert path.with_name(f"{path.name}.unreadable").read_bytes() == b"half"


def test_a_group_that_another_process_holds_is_not_replaced(store, tmp_path, tar):
    archive.pack(store, tar)
    path = put_rounds(store, tmp_path / "store", 1)
    before = path.read_bytes(), tar.read_bytes()
    with runner.files.locked(path), pytest.raises(BlockingIOError, match="another process"):
        study.run([small()], path.parent, archive=tar, progress=False)
    assert (path.read_bytes(), tar.read_bytes()) == before


def test_the_archive_of_finished_groups_is_written_once(store, tmp_path, tar, monkeypatch):
    path = put_rounds(store, tmp_path / "store", 3)
    assert study.run([small()], path.parent, archive=tar, progress=False)
    assert contents(tar) == {path.name: path.read_bytes()}
    monkeypatch.setattr(archive, "_write", None)
    assert study.run([small()], path.parent, archive=tar, progress=False)


def test_half_an_archive_of_a_killed_process_is_cleared(store, tmp_path, tar):
    code = f"""
import os, pathlib, signal
from milb.study import archive
archive.os.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
archive.pack(pathlib.Path({str(store)!r}), pathlib.Path({str(tar)!r}))
"""
    assert subprocess.run([sys.executable, "-c", code]).returncode == -signal.SIGKILL
    assert len(list(tmp_path.glob(".all.tar.*.tmp"))) == 1
    put_rounds(store, tmp_path / "store", 3)
    assert study.run([small()], tmp_path / "store", archive=tar, progress=False)
    assert names(tmp_path) == ["all.tar", "store"]


def test_reading_leaves_foreign_and_damaged_files_alone(store, tmp_path):
    path, paper = put_rounds(store, tmp_path / "store", 3), pd.DataFrame(columns=QUOTED)
    np.savez(path.with_name("a_foreign.npz"), a=np.ones(3))
    np.savez(path.with_name("b_pickled.npz"), header=np.array({"format": "milb run"}, dtype=object))
    runner.files.write(path.with_name("c_run.npz"), {"records": []}, {"rows": np.arange(3)})
    expected = study.curves(path.parent)  # silent: none of these is damaged
    path.with_name("d_damaged.npz").write_bytes(path.read_bytes()[:-100])
    before = {file: file.read_bytes() for file in path.parent.iterdir()}
    with pytest.warns(UserWarning, match=r"d_damaged.npz is damaged .* left out"):
        pd.testing.assert_frame_equal(study.curves(path.parent), expected)
    with pytest.warns(UserWarning, match="d_damaged.npz"):
        assert study.picks(path.parent, "ternary")["picks"].shape == (2, 3, 2, 5)
    with pytest.warns(UserWarning, match="d_damaged.npz"):
        assert len(list(study.results(path.parent))) == 1
    with pytest.warns(UserWarning, match="d_damaged.npz"):
        study.export(path.parent, tmp_path, paper)
    assert names(tmp_path / "study") == [path.name]
    assert {file: file.read_bytes() for file in path.parent.iterdir()} == before


def test_a_file_of_a_newer_milb_is_neither_set_aside_nor_overwritten(store, tmp_path):
    path = put_rounds(store, tmp_path / "store", 2)
    header, arrays = runner.files.unpacked(path.read_bytes(), runner.files.FORMAT)
    header["columns"].append("crps_mean")
    arrays["metrics"] = np.concatenate([arrays["metrics"], arrays["metrics"][..., :1]], -1)
    runner.files.write(path, header, arrays)
    before = path.read_bytes()
    with pytest.raises(ValueError, match=f"{path.name} was written by a newer milb: it records crps_mean"):
        study.run([small()], path.parent, progress=False)
    assert names(path.parent) == [path.name] and path.read_bytes() == before


def test_a_store_is_read_where_it_was_written(store, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    put_rounds(store, tmp_path / "store", 3)
    assert study.run(iter([small()]), "~/store", progress=False)
    assert len(study.curves("~/store")) == 2 * 3 * 3 == len(study.curves(tmp_path / "store"))
    for read in (
        study.curves,
        lambda folder: study.picks(folder, "ternary"),
        lambda folder: list(study.results(folder)),
    ):
        with pytest.raises(FileNotFoundError, match="no folder of a study"):
            read("~/stroe")


def test_runs_without_a_round_to_pick_in(tmp_path):
    group = small(arms=ARMS[:1], n_rounds=0)
    assert study.run([group], tmp_path, progress=False)
    assert study.picks(tmp_path, "ternary")["picks"].shape == (2, 1, 0, 5) and len(study.curves(tmp_path)) == 2


def test_diverged_runs_draw_at_random_and_the_study_goes_on(tmp_path):
    arms = ("random", "core-set", "bait", "mi-lb", "mi-lb-sbal")
    wild, sound = small(arms=arms, max_steps=5, learning_rate=1e30), small(arms=ARMS[:1], max_steps=5)
    with pytest.warns(UserWarning) as warned:
        assert study.run([wild, sound], tmp_path, progress=False)
    messages = {str(warning.message) for warning in warned}
    assert len(messages) == 2 * 5 * 3 and all("training has diverged" in message for message in messages)
    assert any("core-set seed 1, round 0" in m and m.endswith("labels are drawn at random") for m in messages)
    progress = stored(wild, tmp_path)
    assert np.isnan(np.stack(progress.metrics)[..., MEAN]).all()
    assert np.isnan(np.stack(progress.metrics)[..., COLUMNS.index("saturated_share")]).all()
    assert (progress.rows == progress.rows[:, :1]).all(), "one draw a seed, for every strategy"
    assert not set(progress.rows[0, 0, 40:]) & set(range(40)) and len(set(progress.rows[0, 0])) == 50
    assert np.isfinite(np.stack(stored(sound, tmp_path).metrics)[..., MEAN]).all()


def test_a_function_of_ones_own_is_called_for_trained_networks_only(monkeypatch):
    calls = []

    def own(key, ensemble, pool, k, options):
        calls.append(threading.get_ident())
        assert len(np.unique(np.asarray(ensemble.inputs.mean))) > 1, "made-up networks"
        return np.flatnonzero(pool.available)[:k]

    monkeypatch.setitem(STRATEGIES, "own", own)
    group = small(arms=("random", "own"))
    lockstep.Lockstep(group).advance(lockstep.Progress.new(group))
    assert len(calls) == 2 and len(set(calls)) == 1


def test_scores_that_are_not_finite_are_named_and_not_picked_by(monkeypatch):
    def wild(keys, ensemble, x, options):
        return jnp.where(x[:, 0] > 0.2, jnp.nan, x[:, 0])

    monkeypatch.setitem(STRATEGIES, "wild", Scored(wild, top_k))
    group = small(arms=("random", "wild"))
    progress = lockstep.Progress.new(group)
    with pytest.warns(UserWarning, match=r"round 0: scores are not finite; .* drawn at random") as caught:
        lockstep.Lockstep(group).advance(progress)
    assert [re.search(r"wild seed (\d)", str(warning.message))[1] for warning in caught] == ["0", "1"]
    assert (progress.rows[:, 0, :42] == progress.rows[:, 1, :42]).all()
    assert np.isfinite(progress.metrics[0][..., MEAN]).all() and np.isnan(progress.scores[0][1]).all()


@pytest.mark.parametrize("arm", ["core-set", "mi-lb"])
def test_a_study_whose_labels_use_up_the_pool_goes_on_with_its_last_round(tmp_path, arm):
    group = small(arms=(arm,), n_pool=50, max_steps=5)
    study.run([group], tmp_path, progress=False)
    expected = stored(group, tmp_path)
    path = tmp_path / f"{group.name}.npz"
    progress, made = load(path, group)
    before = dataclasses.replace(progress, metrics=progress.metrics[:-1], seconds=progress.seconds[:-1], test_nll=None)
    save(path, group, before, made)
    assert study.run([group], tmp_path, progress=False)
    assert_same(stored(group, tmp_path), expected)


def test_divergence_is_named_and_recorded(monkeypatch, tmp_path):
    train = lockstep.train

    def diverging(*arguments):
        ensembles, nll = train(*arguments)
        return ensembles, nll.at[1, 0, 0].set(jnp.nan)

    monkeypatch.setattr(lockstep, "train", diverging)
    lock, progress = lockstep.Lockstep(small()), lockstep.Progress.new(small())
    with pytest.warns(UserWarning) as warned:
        lock.advance(progress)
    assert "ternary random seed 1, round 0: training has diverged" in str(warned[0].message)
    assert np.isnan(progress.metrics[0][1, 0, MEAN]) and np.isfinite(progress.metrics[0][0, 0, MEAN])


@pytest.fixture(scope="module")
def from_the_command_line(tmp_path_factory):
    """A group, the command that runs it, what it comes to when nothing disturbs it, and how long that takes."""
    (group,) = grid(["ternary"], ARMS, range(2), "smoke", runs_per_group=60)
    command = [sys.executable, "-m", "milb", "study", "--scale", "smoke", "--benchmark", "ternary", "--seeds", "0-1",
               "--strategy", *ARMS, "--runs-per-group", "60", "--store"]  # fmt: skip
    for folder in (tmp_path_factory.mktemp("compiles"), tmp_path_factory.mktemp("undisturbed")):
        started = time.monotonic()  # of the second one, which finds its programs compiled, as those to be killed do
        finished = subprocess.run([*command, str(folder)], capture_output=True, text=True, check=True)
        assert finished.stdout.splitlines()[-1] == "finished"
    return group, command, stored(group, folder), time.monotonic() - started


@pytest.mark.exhaustive
@pytest.mark.slow
def test_survives_sigkill_at_ten_random_moments(from_the_command_line, tmp_path):
    """Every second kill comes at any moment of a call, the others once the call has put a round on disk.

    A store begins anew once it is finished, so that every kill meets a command at work.
    """
    group, command, undisturbed, seconds = from_the_command_line
    rng, killed_after, of_their_own = np.random.default_rng(0), [], []
    stores = (tmp_path / str(i) for i in range(50))
    store = next(stores)
    while len(killed_after) < 10:
        before = len(stored(group, store).metrics)
        process = subprocess.Popen([*command, str(store)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        if len(killed_after) % 2:
            while process.poll() is None and len(stored(group, store).metrics) == before:
                time.sleep(0.005)
            pause = rng.uniform(0, 0.3)
        else:
            pause = rng.uniform(0.3, 1) * seconds
        try:
            process.wait(pause)
        except subprocess.TimeoutExpired:
            os.kill(process.pid, signal.SIGKILL)
            killed_after.append(len(stored(group, store).metrics))
            of_their_own.append(killed_after[-1] - before)
        if process.wait() == 0:
            assert_same(stored(group, store), undisturbed)
            store = next(stores)
    assert sum(own > 0 for own in of_their_own) >= 3, (killed_after, of_their_own)
    assert sum(0 < rounds < len(undisturbed.metrics) for rounds in killed_after) >= 3, "some in mid-run"
    subprocess.run([*command, str(store)], capture_output=True, check=True)
    assert_same(stored(group, store), undisturbed)
    assert [path.name for path in store.glob("*.unreadable")] == []


@pytest.mark.exhaustive
@pytest.mark.slow
def test_a_cluster_goes_on_with_what_a_lost_worker_had_done(tmp_path):
    """Two workers, four groups; a worker is killed once it has a round on disk."""
    distributed = pytest.importorskip("distributed")
    groups = grid(["ternary"], ["random", "variance", "mi-lb"], [0, 1], "smoke", runs_per_group=2)
    alone, shared = tmp_path / "alone", tmp_path / "shared"
    assert len(groups) == 4 and study.run(groups, alone, progress=False)
    shared.mkdir()
    path = shared / f"{groups[0].name}.npz"
    killed = []

    def kill_a_worker(client):
        while not path.exists():
            time.sleep(0.005)
        (busy,) = [address for address, keys in client.processing().items() if any(groups[0].name in k for k in keys)]
        pids = client.run(os.getpid, workers=[busy])
        os.kill(pids[busy], signal.SIGKILL)
        killed.append(len(stored(groups[0], shared).metrics))

    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as local,
        distributed.Client(local) as client,
    ):
        killer = threading.Thread(target=kill_a_worker, args=(client,))
        killer.start()
        assert study.run(groups, shared, client=client, archive=tmp_path / "all.tar", progress=False)
        killer.join()
    assert killed and 1 <= killed[0] < 3
    for group in groups:
        assert_same(stored(group, shared), stored(group, alone))
    with tarfile.open(tmp_path / "all.tar") as tar:
        assert len(tar.getnames()) == 4


def test_rounds_on_a_cluster_are_counted_though_no_bar_is_shown(undisturbed, tmp_path, monkeypatch):
    group, packed, looks = small(), [], []

    def run_on(client, call, groups, look):
        looks.append(look())
        save(
            tmp_path / f"{group.name}.npz",
            group,
            undisturbed,
            [{"devices": "1 x abacus (cpu)", "versions": {}, "date": ""}],
        )
        looks.extend([look(), look()])
        return {group: True}

    monkeypatch.setattr(cluster, "run_on", run_on)
    monkeypatch.setattr(runner, "pack", lambda *arguments: packed.append(arguments))
    assert study.run([group], tmp_path, client=object(), archive=tmp_path / "all.tar", progress=False)
    assert looks == [0, 3, 3] and len(packed) == 1


class Lost:
    """A client whose every task loses its workers."""

    def __init__(self, distributed):
        self.error = distributed.KilledWorker("task", None, 3)
        self.handed_out = []

    def submit(self, call, group, **options):
        future = concurrent.futures.Future()
        future.set_exception(self.error)
        self.handed_out.append(options["key"])
        return future

    def cancel(self, futures):
        pass


@pytest.mark.parametrize("rounds", [[0, 0], [0, 1, 1], [0, 1, 2, 3, 3]])
def test_a_group_is_handed_out_again_while_it_gets_further(monkeypatch, rounds):
    distributed = pytest.importorskip("distributed")
    monkeypatch.setattr(distributed, "wait", concurrent.futures.wait)
    client, counts = Lost(distributed), iter(rounds)
    with warnings.catch_warnings(record=True) as warned, pytest.raises(OSError, match="workers are lost"):
        warnings.simplefilter("always")
        cluster.run_on(client, None, [small()], lambda: next(counts))
    assert len(client.handed_out) == len(rounds) - 1 == len(warned) + 1
    with pytest.raises(OSError, match="workers are lost"):
        cluster.run_on(client, None, [small()], lambda: 0)
    assert len(set(client.handed_out)) == len(rounds), "another call's task is another task"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--strategy", "best"], "unknown strategy 'best'"),
        (["--benchmark", "none"], "unknown benchmark 'none'"),
        (["--seeds", "x"], "argument --seeds: must be numbers and rising ranges, such as 0-4 or 0,2; got 'x'"),
        (["--seeds", "5-3"], "argument --seeds: must be numbers and rising ranges"),
        (["--seeds", "0-9999999999"], "argument --seeds: must be at most 10,000 seeds, got '0-9999999999'"),
        (["--store", ""], "store must be a path, got an empty one"),
        (["--time-limit", "nan"], "time_limit must be a number of seconds"),
        (["--archive", "/nowhere/all.tar"], "the archive's folder /nowhere does not exist"),
        (["--archive", ""], "archive must be a path, got an empty one"),
        (["--runs-per-group", "0"], "runs_per_group must be an integer >= 1"),
        (["--scheduler", "nowhere"], "'nowhere' is no address of a dask scheduler, such as tcp://"),
    ],
)
def test_command_refuses_in_one_line(arguments, message, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(command, "use_cpu_cores", lambda n: None)
    try:
        code = command.main(["study", "--scale", "smoke", "--store", str(tmp_path / "s"), *arguments])
    except SystemExit as stop:  # of argparse
        code = stop.code
    assert code == 2 and message in capsys.readouterr().err.splitlines()[-1]
    assert not (tmp_path / "s").exists()


def test_curves_have_a_row_for_every_model(store):
    table = study.curves(store, statistics=True)
    assert table.columns.tolist() == [*study.tables.CURVE_COLUMNS, *study.tables.STATISTICS]
    assert len(table) == 3 * 2 * 3 and not table.duplicated(["strategy", "seed", "n"]).any()
    assert set(table["options"]) == {"", "sbal_temperature=0.1"} and set(table["n"]) == {40, 45, 50}
    progress = stored(small(), store)
    one = table[(table["strategy"] == "random") & (table["seed"] == 1)].sort_values("n")
    np.testing.assert_array_equal(one["test_nll"], np.stack(progress.metrics)[:, 1, 0, MEAN])


def test_export_is_enough_to_draw_and_to_go_on(store, tmp_path):
    quoted = {"benchmark": "ternary", "strategy": "random", "n": 550, "mean": 2.2, "std": 0.1, "min": 2.1, "max": 2.3}
    written = study.export(store, tmp_path, pd.DataFrame([quoted]))
    assert [path.name for path in written] == ["learning_curves.csv", "picks_ternary.npz", f"{small().name}.npz"]
    table = pd.read_csv(written[0], keep_default_na=False)
    assert table[table["source"] == "paper"]["seed"].tolist() == ["mean", "std", "min", "max"]
    with np.load(written[1]) as arrays:
        assert arrays["picks"].shape == (2, 3, 2, 5) and arrays["strategies"].tolist() == list(ARMS)
        assert arrays["scores"].shape == (2, 0, 400)
    assert study.run([small()], tmp_path / "study", progress=False)


def test_picks_of_a_benchmark_that_is_not_there(store):
    with pytest.raises(ValueError, match="has no group of 'double_well'"):
        study.picks(store, "double_well")


@pytest.mark.exhaustive
@pytest.mark.slow
@pytest.mark.parametrize("benchmark", BENCHMARKS)
def test_every_strategy_on_every_problem(benchmark, tmp_path):
    group = small(benchmark, tuple(STRATEGIES), (0,))
    assert study.run([group], tmp_path, progress=False)
    progress = stored(group, tmp_path)
    rows, metrics = progress.rows[0], np.stack(progress.metrics)[:, 0]
    assert all(len(set(run.tolist())) == 50 for run in rows) and (rows[:, :40] == np.arange(40)).all()
    assert np.isfinite(metrics[..., MEAN]).all() and (metrics[0, :, MEAN] == metrics[0, 0, MEAN]).all()
    assert len({tuple(run) for run in rows.tolist()}) > len(STRATEGIES) // 2

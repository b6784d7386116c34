"""Runs train one after the other as they do together, and go on apart from their group."""

import subprocess
import sys
import tarfile

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from milb import __main__ as command
from milb import study
from milb.history import COLUMNS, TRAINING
from milb.study import runner, training
from milb.study.grid import grid
from milb.study.lockstep import Lockstep
from milb.study.progress import Progress, load

ARMS = ("random", "variance-sbal:sbal_temperature=0.1", "core-set")
RESULTS = slice(0, COLUMNS.index("train_seconds"))


def group_of(arms=ARMS, seeds=(0, 1), **changes):
    (group,) = grid(["ternary"], arms, seeds, "smoke", runs_per_group=60, max_steps=20, **changes)
    return group


def at_first(group):
    lock, progress = Lockstep(group), Progress.new(group)
    return lock._keys(TRAINING, 0), lock.data, jnp.asarray(progress.rows), jnp.asarray(40), group.protocol


def test_runs_one_after_the_other_train_as_they_do_together():
    arguments = at_first(group_of())
    (one, one_nll), (all_, all_nll) = training.run_by_run(*arguments), training.together(*arguments)
    assert one.inputs.mean.shape == (2, 3, 8)
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(all_), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(one_nll, all_nll, rtol=1e-3, atol=1e-4)


@pytest.mark.slow
def test_two_devices_share_the_runs_or_the_members_of_each(tmp_path):
    """The whole study, too: six runs that two devices share, three that they cannot."""
    arms = ("random", "mi-lb", "bait")
    code = f"""
import milb
milb.use_cpu_cores(2)
from pathlib import Path
from tests.test_study_split import at_first, group_of, study, training
for seeds, there in ((2, 2), (1, 2)):
    group = group_of({arms}, range(seeds))
    ensembles, nll = training.train(*at_first(group))
    assert len(nll.sharding.device_set) == there, nll.sharding
    study.run([group], "{tmp_path}/two", progress=False)
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    for seeds in (2, 1):
        group = group_of(arms, range(seeds))
        study.run([group], tmp_path / "one", progress=False)
        one, two = (load(tmp_path / devices / f"{group.name}.npz", group)[0] for devices in ("one", "two"))
        np.testing.assert_array_equal(one.rows, two.rows)
        np.testing.assert_allclose(one.test_nll, two.test_nll, rtol=1e-3)


@pytest.fixture(scope="module")
def begun(tmp_path_factory):
    """A store with a group that is finished, and one with the same group after its first round."""
    whole, begun = tmp_path_factory.mktemp("whole"), tmp_path_factory.mktemp("begun")
    group = group_of()
    assert study.run([group], whole, progress=False)
    lock, progress = Lockstep(group), Progress.new(group)
    lock.advance(progress)
    made = {"devices": "1 x abacus (cpu)", "versions": runner.versions(), "date": "2026-01-01", "first_round": 0}
    runner.save(begun / f"{group.name}.npz", group, progress, [made])
    return whole, begun


def copied(store, folder):
    (path,) = store.glob("*.npz")
    folder.mkdir()
    (folder / path.name).write_bytes(path.read_bytes())
    return folder


def test_some_runs_of_a_group_go_on_as_one_of_their_own(begun, tmp_path, monkeypatch):
    store = copied(begun[1], tmp_path / "store")
    part, whole = group_of(ARMS[1:], (1,)), group_of()
    trained = []
    advance = Lockstep.advance
    monkeypatch.setattr(Lockstep, "advance", lambda self, p: (trained.append(len(p.metrics)), advance(self, p)))
    with pytest.raises(ValueError, match="begun elsewhere"):
        study.run([part], store, progress=False, split=True)
    assert study.run([part], store, progress=False, split=True, elsewhere=True)
    assert trained == [1, 2], "the first round was there"
    progress, made = load(store / f"{part.name}.npz", part)
    expected, _ = load(begun[0] / f"{whole.name}.npz", whole)
    np.testing.assert_array_equal(progress.rows[0], expected.rows[1, 1:])
    for ours, theirs in zip(progress.metrics, expected.metrics, strict=True):
        np.testing.assert_allclose(ours[0, :, RESULTS], theirs[1, 1:, RESULTS], rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(progress.test_nll[0], expected.test_nll[1, 1:], rtol=1e-3)
    assert np.isnan(progress.scores[0]).all(), "those of seed 0 are not this group's"
    assert np.isfinite(progress.scores[1][0]).all()
    curves = study.curves(store)
    assert curves.groupby(["strategy", "seed"])["n"].max().value_counts().to_dict() == {40: 4, 50: 2}
    assert not curves.duplicated(["strategy", "seed", "n"]).any()
    assert [(m["devices"], m["first_round"], m.get("group")) for m in made] == [
        ("1 x abacus (cpu)", 0, whole.name),
        (runner.describe(), 1, None),
    ]


def test_a_run_in_two_groups_is_taken_from_the_one_further_on(begun, tmp_path):
    store = copied(begun[1], tmp_path / "store")
    part, whole = group_of(ARMS[1:], (1,)), group_of()
    assert study.run([part], store, progress=False, split=True, elsewhere=True)
    progress, made = load(store / f"{whole.name}.npz", whole)
    Lockstep(whole).advance(progress)
    progress.metrics[1][..., COLUMNS.index("nll_mean")] = 7.0
    runner.save(store / f"{whole.name}.npz", whole, progress, made)
    curves = study.curves(store)
    of_part = (curves["seed"] == 1) & (curves["strategy"] != "random")
    assert (curves.loc[~of_part & (curves["n"] == 45), "test_nll"] == 7).all()
    assert (curves.loc[of_part & (curves["n"] == 45), "test_nll"] != 7).all()
    assert list(dict.fromkeys(zip(curves["strategy"], curves["seed"], strict=True))) == [
        (arm.partition(":")[0], seed) for arm in ARMS for seed in (0, 1)
    ], "in the order in which they were first met"
    picks = study.picks(store, "ternary", ["variance-sbal:sbal_temperature=0.1"])
    ours, _ = load(store / f"{part.name}.npz", part)
    np.testing.assert_array_equal(picks["picks"][1, 1:].reshape(2, -1), ours.rows[0, :, 40:])
    np.testing.assert_array_equal(picks["picks"][0].reshape(3, -1), progress.rows[0, :, 40:])
    assert np.isfinite(picks["scores"]).all() and len(picks["scores"]) == 2


@pytest.mark.parametrize(
    ("arms", "seeds"), [(ARMS[::-1], (0, 1)), (ARMS[:2], (1, 0)), (ARMS, (1,)), (ARMS[2:], (1, 0))]
)
def test_order_does_not_matter(arms, seeds, begun, tmp_path):
    store = copied(begun[1], tmp_path / "store")
    part, whole = group_of(arms, seeds), group_of()
    assert not study.run([part], store, progress=False, split=True, elsewhere=True, time_limit=0)
    progress, _ = load(store / f"{part.name}.npz", part)  # kept at once, before a new round
    expected, _ = load(store / f"{whole.name}.npz", whole)
    for s, seed in enumerate(seeds):
        for a, arm in enumerate(arms):
            np.testing.assert_array_equal(progress.rows[s, a], expected.rows[seed, ARMS.index(arm)])
            np.testing.assert_array_equal(progress.metrics[0][s, a], expected.metrics[0][seed, ARMS.index(arm)])
    assert np.isnan(progress.scores[0]).all() == (seeds[0] != 0)


def test_a_run_by_two_protocols_is_named_and_shown_by_one(tmp_path):
    (in_one_batch,) = grid(
        ["ternary"], ARMS[:1], (0,), "smoke", runs_per_group=60, max_steps=20, n_query=10, n_rounds=1
    )
    assert study.run([in_one_batch, group_of(ARMS[:2], (0,))], tmp_path, progress=False)
    why = "differs from that of most models: n_rounds = 1, not 2, n_query = 10, not 5"
    with pytest.warns(UserWarning, match=f"{in_one_batch.name}.npz is left out, its protocol {why}"):
        curves = study.curves(tmp_path)
    assert curves["n"].tolist() == [40, 45, 50] * 2, "the one of the larger group"
    with pytest.warns(UserWarning, match="is left out"):
        assert study.picks(tmp_path, "ternary")["picks"].shape == (1, 2, 2, 5)


def test_one_stray_run_does_not_hide_the_others(tmp_path):
    groups = grid("ternary", ["random", "variance"], (0, 1), "smoke", runs_per_group=1, max_steps=5)
    stray = grid("ternary", ["bait"], (0,), "smoke", runs_per_group=1, max_steps=5, clip="member")
    assert study.run([*stray, *groups], tmp_path, progress=False)
    with pytest.warns(UserWarning, match="clip = 'member', not 'released'"):
        assert set(study.curves(tmp_path)["strategy"]) == {"random", "variance"}


def test_a_run_that_has_begun_by_itself_says_that_it_leaves_a_larger_group_aside(begun, tmp_path, capsys):
    store, part = copied(begun[1], tmp_path / "store"), group_of(ARMS[:1], (0,))
    larger = store / f"{group_of().name}.npz"
    progress, made = load(larger, group_of())
    Lockstep(part).advance(of_part := Progress.new(part))
    runner.save(store / f"{part.name}.npz", part, of_part, made)
    Lockstep(group_of()).advance(progress)
    runner.save(larger, group_of(), progress, made)
    assert not study.run([part], store, split=True, elsewhere=True, time_limit=0)
    assert f"round 1: goes its own way; 2 rounds of {larger.stem} are not taken" in capsys.readouterr().out
    assert len(load(store / f"{part.name}.npz", part)[0].metrics) == 1


def test_other_strategies_by_another_protocol_are_not_put_beside_these(tmp_path):
    (clipped_otherwise,) = grid(["ternary"], ARMS[1:2], (0,), "smoke", runs_per_group=60, max_steps=20, clip="member")
    assert study.run([clipped_otherwise, group_of(("random", "mi-lb"), (0,))], tmp_path, progress=False)
    with pytest.warns(UserWarning, match="clip = 'member', not 'released'"):
        assert set(study.curves(tmp_path)["strategy"]) == {"random", "mi-lb"}


def test_a_part_says_which_rounds_it_has_taken(begun, tmp_path):
    store, whole, part = tmp_path / "store", group_of(), group_of(ARMS[:1], (1,))
    copied(begun[1], store)
    progress, made = load(store / f"{whole.name}.npz", whole)
    made[0]["devices"] = runner.describe()
    runner.save(store / f"{whole.name}.npz", whole, progress, made)
    assert study.run([part], store, progress=False, split=True)
    made = load(store / f"{part.name}.npz", part)[1]
    assert [(m.get("group"), m["first_round"]) for m in made] == [(whole.name, 0), (None, 1)]
    assert len({m["devices"] for m in made}) == 1


def test_groups_of_one_run_are_picked_from_together(tmp_path):
    groups = grid(["ternary"], ARMS[1:], (0, 1), "smoke", runs_per_group=1, max_steps=20)
    assert study.run(groups, tmp_path, progress=False)
    picks = study.picks(tmp_path, "ternary", ARMS[1:2])
    assert picks["picks"].shape == (2, 2, 2, 5) and (picks["picks"] >= 40).all() and np.isfinite(picks["scores"]).all()


def test_parts_of_a_finished_group_are_finished(begun, tmp_path, monkeypatch):
    store = copied(begun[0], tmp_path / "store")
    part, whole = group_of(ARMS[:1], (0, 1)), group_of()
    monkeypatch.setattr(Lockstep, "advance", None)
    monkeypatch.setattr(runner, "describe", lambda: "1 x abacus (cpu)")  # nothing is left to round differently
    assert study.run([part], store, archive=tmp_path / "all.tar", progress=False, split=True)
    with tarfile.open(tmp_path / "all.tar") as tar:
        assert sorted(tar.getnames()) == sorted(path.name for path in store.glob("*.npz"))
    progress, made = load(store / f"{part.name}.npz", part)
    expected, _ = load(store / f"{whole.name}.npz", whole)
    np.testing.assert_array_equal(progress.rows, expected.rows[:, :1])
    np.testing.assert_array_equal(progress.test_nll, expected.test_nll[:, :1])
    np.testing.assert_array_equal(progress.scores, np.stack(expected.scores)[:, :1])
    assert [len(seconds) for seconds in progress.seconds] == [2, 2, 1]
    assert made[0]["group"] == whole.name and made[0]["devices"] != runner.describe()


@pytest.mark.parametrize(
    "other",
    [
        group_of(ARMS[:1], (0, 2)),
        group_of(("random", "mi-lb"), (0,)),
        group_of(ARMS[:1], (0,), learning_rate=1e-3),
    ],
    ids=["seed", "arm", "protocol"],
)
def test_what_no_larger_group_has_is_begun_anew(other, begun, tmp_path):
    store = copied(begun[0], tmp_path / "store")
    assert not study.run([other], store, progress=False, split=True, time_limit=0)
    assert not (store / f"{other.name}.npz").exists()
    assert not study.run([group_of(ARMS[:1], (0,))], store, progress=False, time_limit=0), "not unless asked"


def without(key):
    def change(header, arrays):
        (header if key in header else arrays).pop(key)

    return change


def repeated(header, arrays):
    arrays["rows"][0, 0, :2] = 0


def newer(header, arrays):
    header["version"] = 99


@pytest.mark.parametrize(
    "change",
    [without("seconds"), without("test_nll"), without("settings"), repeated, newer, None],
    ids=["seconds", "test_nll", "settings", "repeated", "newer", "truncated"],
)
def test_files_that_cannot_be_split_are_named_and_left_out(change, begun, tmp_path):
    store = copied(begun[0], tmp_path / "store")
    (path,) = store.glob("*.npz")
    if change is None:
        path.write_bytes(path.read_bytes()[:-100])
    else:
        header, arrays = runner.files.unpacked(path.read_bytes(), runner.files.FORMAT)
        change(header, arrays)
        runner.files.write(path, header, arrays)
    before = path.read_bytes()
    with pytest.warns(UserWarning, match=f"{path.name} is left out"):
        assert not study.run([group_of(ARMS[:1], (0,))], store, progress=False, split=True, time_limit=0)
    assert [file.name for file in store.glob("*.npz")] == [path.name] and path.read_bytes() == before


def test_a_file_that_may_not_be_read_is_left_out(begun, tmp_path, monkeypatch):
    store = copied(begun[0], tmp_path / "store")
    (path,), read = store.glob("*.npz"), type(store).read_bytes

    def forbidden(file):
        if file == path:
            raise PermissionError(13, "no", str(file))
        return read(file)

    monkeypatch.setattr(type(store), "read_bytes", forbidden)
    with pytest.warns(UserWarning, match=f"{path.name} is left out"):
        assert not study.run([group_of(ARMS[:1], (0,))], store, progress=False, split=True, time_limit=0)


@pytest.mark.parametrize("arms", [ARMS[:1], ("variance",)])
def test_says_what_a_part_begins_with(arms, begun, tmp_path, capsys):
    store, part = copied(begun[1], tmp_path / "store"), group_of(arms, (0,))
    study.run([part], store, split=True, time_limit=0, elsewhere=True)
    found = f"1: goes on from {group_of().name}" if arms == ARMS[:1] else "0: no larger group has rounds of it"
    assert f"{part.name}, round {found}\n" in capsys.readouterr().out


def test_the_command_splits_too(begun, tmp_path, monkeypatch, capsys):
    seen = {}
    monkeypatch.setattr(study, "run", lambda *_, **options: seen.update(options) or True)
    monkeypatch.setattr(command, "use_cpu_cores", lambda n: None)
    assert command.main(["study", "--scale", "smoke", "--split", "--store", str(tmp_path)]) == 0
    assert seen["split"]

"""What a study found, as tables: learning curves, picks, and the paper's own numbers beside them."""

from __future__ import annotations

import errno
import itertools
import json
import os
import shutil
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from milb.history import subset_of
from milb.paths import expanded
from milb.study.progress import Damaged, clipped, files_in, peek

CURVE_COLUMNS = [
    *("source", "benchmark", "strategy", "options", "seed", "scale", "n", "test_nll"),
    *("seconds", "device", "jax", "milb", "date"),
]
STATISTICS = ("nll_median", "nll_q10", "nll_q90", "saturated_share", "score_seconds")


def results(store: str | os.PathLike[str]) -> Iterator[tuple[dict, dict[str, np.ndarray]]]:
    """Header and arrays of every group in a store that has a round to show; see `milb.study.progress.save`.

    The store stays as it is: files of something else are left out, and so are damaged ones.

    Raises:
        ValueError: a group's file was written by a newer milb.
        FileNotFoundError: there is no such folder.

    Warns:
        UserWarning: a damaged file is left out.
    """
    for _, header, arrays in _groups(store):
        yield header, arrays


def _groups(store: str | os.PathLike[str]) -> Iterator[tuple[Path, dict, dict[str, np.ndarray]]]:
    folder = expanded(store)
    if not folder.is_dir():
        raise FileNotFoundError(errno.ENOENT, "no folder of a study", str(folder))
    for path in files_in(folder):
        try:
            stored = peek(path, path.read_bytes())
        except Damaged as error:
            warnings.warn(f"{error} and left out", stacklevel=4)
            continue
        if stored is not None:
            yield path, *stored


def maker(header: dict[str, Any], round: int) -> dict[str, Any]:
    """Devices, versions and date of what made a round of a group, from the header of its file.

    Files from before rounds were noted (`first_round`) tell it of the first and the last round only.
    """
    if round == 0:
        return header["made"][0]
    return [made for made in header["made"] if made.get("first_round", 0) <= round][-1]


def curves(store: str | os.PathLike[str], statistics: bool = False) -> pd.DataFrame:
    """One row for every model trained, of all groups in a store.

    Columns: source "milb"; benchmark; strategy; options, in which it differs from the protocol; seed; scale; n,
    labels it was trained on; test_nll, mean over test points (nats, raw units); seconds, the run's share of its
    group's wall time that round; device, jax and milb versions, and date, of what made that round. With `statistics`
    also median and 10/90 % quantiles of the test points' NLL, the saturated share and seconds of scoring. A run that is
    in several groups (see `split` of `milb.study.run`) is taken from the one that has come furthest. Runs of a
    benchmark and scale are compared by one protocol, that of most models.

    Errors as `results`.

    Warns:
        UserWarning: as `results`; a group is left out for its other protocol.
    """
    rows = []
    for (benchmark, scale, arm, seed), (header, arrays) in _runs(store).items():
        settings, (strategy, _, options) = header["settings"], arm.partition(":")
        of_run = arrays["metrics"][:, settings["seeds"].index(seed), settings["arms"].index(arm)]
        for r, record in enumerate(of_run):
            metrics, made = dict(zip(header["columns"], record, strict=True)), maker(header, r)
            run = ("milb", benchmark, strategy, options, seed, scale, int(metrics["n"]), metrics["nll_mean"])
            seconds = np.nansum([metrics["train_seconds"], metrics["score_seconds"]])
            about = (made["devices"], made["versions"]["jax"], made["versions"]["milb"], made["date"])
            rows.append((*run, seconds, *about, *(metrics[name] for name in STATISTICS if statistics)))
    return pd.DataFrame(rows, columns=[*CURVE_COLUMNS, *(STATISTICS if statistics else ())])


def _runs(store: str | os.PathLike[str]) -> dict[tuple[str, str, str, int], tuple[dict, dict[str, np.ndarray]]]:
    """By benchmark, scale, arm and seed: the group that a run has come furthest in, of groups as far the largest."""
    runs: dict[tuple[str, str, str, int], tuple[dict, dict[str, np.ndarray]]] = {}
    groups = sorted(_groups(store), key=lambda group: group[2]["rows"][..., 0].size, reverse=True)
    protocols = _protocols([group[1:] for group in groups])
    for path, header, arrays in groups:
        settings = header["settings"]
        protocol = protocols[settings["benchmark"], settings["scale"]]
        others = {key: value for key, value in settings["protocol"].items() if value != protocol.get(key)}
        if others:
            why = ", ".join(f"{key} = {value!r}, not {protocol.get(key)!r}" for key, value in others.items())
            warnings.warn(f"{path} is left out, its protocol differs from that of most models: {why}", stacklevel=3)
            continue
        for arm, seed in itertools.product(settings["arms"], settings["seeds"]):
            run = (settings["benchmark"], settings["scale"], arm, seed)
            if run not in runs or len(arrays["metrics"]) > len(runs[run][1]["metrics"]):
                runs[run] = header, arrays
    return runs


def _protocols(groups: Sequence[tuple[dict, dict[str, np.ndarray]]]) -> dict[tuple[str, str], dict[str, Any]]:
    """By benchmark and scale: the protocol of most models; of those with as many, the first."""
    rounds: dict[str, Counter[tuple[str, int]]] = {}  # of each run, which may be in several groups
    for header, arrays in groups:
        settings = header["settings"]
        text = json.dumps([settings[key] for key in ("benchmark", "scale", "protocol")], sort_keys=True)
        of_runs = rounds.setdefault(text, Counter())
        for run in itertools.product(settings["arms"], settings["seeds"]):
            of_runs[run] = max(of_runs[run], len(arrays["metrics"]))
    kept: dict[tuple[str, str], dict[str, Any]] = {}
    for text in sorted(rounds, key=lambda text: rounds[text].total(), reverse=True):
        benchmark, scale, protocol = json.loads(text)
        kept.setdefault((benchmark, scale), protocol)
    return kept


def picks(
    store: str | os.PathLike[str], benchmark: str, scored: Sequence[str] = ("mi-lb", "variance")
) -> dict[str, np.ndarray]:
    """Dataset rows that every run of a benchmark labelled, and some strategies' scores on its first seed.

    Returns:
        strategies (A,) and seeds (S,); picks (S, A, rounds, k), -1 where a run has not come; scored, names of the
        strategies whose scores (rounds, len(scored), subset), float16, of the dataset rows in subset, are there, NaN
        where none were kept. Runs are those of the largest group's scale, from the groups that `curves` takes them
        from; ValueError when there is none. Other errors and warnings as `curves`.
    """
    runs = {run: group for run, group in _runs(store).items() if run[0] == benchmark}
    if not runs:
        raise ValueError(f"{store} has no group of {benchmark!r}")
    settings = next(iter(runs.values()))[0]["settings"]
    alike = {run[2:]: group for run, group in runs.items() if run[1] == settings["scale"]}
    arms, seeds = (list(dict.fromkeys(run[i] for run in alike)) for i in (0, 1))
    protocol, subset = settings["protocol"], subset_of(settings["protocol"]["n_pool"])
    first, k, total = protocol["n_initial"], protocol["n_query"], protocol["n_rounds"]
    kept = [name for name in scored if name in arms]
    rows = np.full((len(seeds), len(arms), total, k), -1)
    scores = np.full((total, len(kept), len(subset)), np.nan)
    furthest = 0
    for (arm, seed), (header, arrays) in alike.items():
        theirs = header["settings"]["seeds"].index(seed), header["settings"]["arms"].index(arm)
        done = min(total, len(arrays["metrics"]))
        furthest = max(furthest, done)
        rows[seeds.index(seed), arms.index(arm), :done] = arrays["rows"][theirs][first:].reshape(total, k)[:done]
        if seed == seeds[0] and theirs[0] == 0 and arm in kept and "scores" in arrays:
            scores[: len(arrays["scores"]), kept.index(arm)] = arrays["scores"][:, theirs[1]]
    return {
        "strategies": np.array(arms),
        "seeds": np.array(seeds),
        "picks": rows,
        "subset": subset,
        "scored": np.array(kept),
        "scores": clipped(scores[:furthest]),
    }


def export(store: str | os.PathLike[str], folder: str | os.PathLike[str], paper: pd.DataFrame) -> list[Path]:
    """Write learning_curves.csv, picks_<benchmark>.npz, and the groups themselves into study/, for figures and resume.

    Args:
        store: of `milb.study.run`.
        folder: e.g. `milb.paths.figures_data()`.
        paper: the paper's final NLLs, columns benchmark, strategy, n, mean, std, min, max; added as rows of source
            "paper", whose seed says which of the four it is.
    """
    folder = expanded(folder)
    table = curves(store)
    quoted = paper.melt(["benchmark", "strategy", "n"], ["mean", "std", "min", "max"], "seed", "test_nll")
    quoted = quoted.assign(source="paper", scale="paper", options="", device="", jax="", milb="", date="")
    path = folder / "learning_curves.csv"
    pd.concat([table, quoted])[CURVE_COLUMNS].to_csv(path, index=False, float_format="%.6g")
    written = [path]
    for benchmark in table["benchmark"].unique():
        path = folder / f"picks_{benchmark}.npz"
        np.savez_compressed(path, **picks(store, benchmark))
        written.append(path)
    (folder / "study").mkdir(exist_ok=True)
    for source, *_ in _groups(store):
        target = folder / "study" / source.name
        if source.resolve() != target.resolve():
            shutil.copyfile(source, target)
        written.append(target)
    return written

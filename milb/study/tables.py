"""What a study found, as tables: learning curves, picks, and the paper's own numbers beside them."""

from __future__ import annotations

import os
import shutil
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from milb.history import subset_of
from milb.study.progress import Damaged, clipped, peek

CURVE_COLUMNS = [
    *("source", "benchmark", "strategy", "options", "seed", "scale", "n", "test_nll"),
    *("seconds", "device", "jax", "milb", "date"),
]
STATISTICS = ("nll_median", "nll_q10", "nll_q90", "saturated_share", "score_seconds")


def results(store: str | os.PathLike[str]) -> Iterator[tuple[dict, dict[str, np.ndarray]]]:
    """Header and arrays of every group in a store that has a round to show; see `milb.study.runner.save`.

    The store stays as it is: files of something else are left out, and so are damaged ones.

    Raises:
        ValueError: a group's file was written by a newer milb.

    Warns:
        UserWarning: a damaged file is left out.
    """
    for _, header, arrays in _groups(store):
        yield header, arrays


def _groups(store: str | os.PathLike[str]) -> Iterator[tuple[Path, dict, dict[str, np.ndarray]]]:
    for path in sorted(Path(store).glob("*.npz")):
        if not path.is_file():
            continue
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
    in several groups (see `split` of `milb.study.run`) is taken from the one that has come furthest.
    """
    rows = []
    for group, (header, arrays) in enumerate(sorted(results(store), key=_smallness)):
        settings = header["settings"]
        metrics = dict(zip(header["columns"], np.moveaxis(arrays["metrics"], -1, 0), strict=True))
        seconds = np.nansum([metrics["train_seconds"], metrics["score_seconds"]], axis=0)
        makers = [maker(header, r) for r in range(len(seconds))]
        about = [(made["devices"], made["versions"]["jax"], made["versions"]["milb"], made["date"]) for made in makers]
        for a, arm in enumerate(settings["arms"]):
            strategy, _, options = arm.partition(":")
            for s, seed in enumerate(settings["seeds"]):
                for r in range(len(seconds)):
                    n, nll = int(metrics["n"][r, s, a]), metrics["nll_mean"][r, s, a]
                    run = ("milb", settings["benchmark"], strategy, options, seed, settings["scale"])
                    more = [metrics[name][r, s, a] for name in STATISTICS] if statistics else []
                    rows.append((*run, n, nll, seconds[r, s, a], *about[r], *more, group))
    table = pd.DataFrame(rows, columns=[*CURVE_COLUMNS, *(STATISTICS if statistics else ()), "group"])
    return _furthest(table).drop(columns="group")


def _smallness(group: tuple[dict, dict[str, np.ndarray]]) -> int:
    n_seeds, n_arms, _ = group[1]["rows"].shape
    return -n_seeds * n_arms


def _furthest(table: pd.DataFrame) -> pd.DataFrame:
    """Each run's rows from one group, where the run was first met."""
    run = ["benchmark", "strategy", "options", "seed", "scale"]
    table = table.assign(place=table.index, end=table.groupby([*run, "group"])["n"].transform("max"))
    table["place"] = table.groupby(run)["place"].transform("min")
    taken = table.sort_values(["end", "group"], ascending=[False, True], kind="stable").groupby(run)["group"]
    table = table[table["group"] == taken.transform("first").sort_index()]
    return table.sort_values(["place", "n"], ignore_index=True).drop(columns=["place", "end"])


def picks(
    store: str | os.PathLike[str], benchmark: str, scored: Sequence[str] = ("mi-lb", "variance")
) -> dict[str, np.ndarray]:
    """Dataset rows that every run of a benchmark labelled, and some strategies' scores on its first seed.

    Returns:
        strategies (A,) and seeds (S,); picks (S, A, rounds, k), -1 where a run has not come; scored, names of the
        strategies whose scores (rounds, len(scored), subset), float16, of the dataset rows in subset, are there, NaN
        where a strategy has none. Runs are those of the benchmark's group of most runs in the store, each as far as
        it has come in any group; ValueError when there is no group.
    """
    groups = sorted(
        (group for group in results(store) if group[0]["settings"]["benchmark"] == benchmark), key=_smallness
    )
    if not groups:
        raise ValueError(f"{store} has no group of {benchmark!r}")
    settings = groups[0][0]["settings"]
    alike = [
        group for group in groups if all(group[0]["settings"][key] == settings[key] for key in ("scale", "protocol"))
    ]
    alike.sort(key=lambda group: -len(group[1]["metrics"]))  # stable: of groups as far, the one of most runs
    protocol, arms, seeds = settings["protocol"], settings["arms"], settings["seeds"]
    first, k, total = protocol["n_initial"], protocol["n_query"], protocol["n_rounds"]
    kept, subset = [name for name in scored if name in arms], subset_of(protocol["n_pool"])
    rows = np.full((len(seeds), len(arms), total, k), -1)
    scores = np.full((min(total, len(alike[0][1]["metrics"])), len(kept), len(subset)), np.nan)
    for s, seed in enumerate(seeds):
        for a, arm in enumerate(arms):
            header, arrays = next(group for group in alike if _holds(group[0], arm, seed))
            at = header["settings"]["seeds"].index(seed), header["settings"]["arms"].index(arm)
            rows[s, a] = arrays["rows"][at][first:].reshape(total, k)
            rows[s, a, len(arrays["metrics"]) :] = -1
            if s == at[0] == 0 and arm in kept:
                scores[: len(arrays["scores"]), kept.index(arm)] = arrays["scores"][:, at[1]]
    return {
        "strategies": np.array(arms),
        "seeds": np.array(seeds),
        "picks": rows,
        "subset": subset,
        "scored": np.array(kept),
        "scores": clipped(scores),
    }


def _holds(header: dict[str, Any], arm: str, seed: int) -> bool:
    return arm in header["settings"]["arms"] and seed in header["settings"]["seeds"]


def export(store: str | os.PathLike[str], folder: str | os.PathLike[str], paper: pd.DataFrame) -> list[Path]:
    """Write learning_curves.csv, picks_<benchmark>.npz, and the groups themselves into study/, for figures and resume.

    Args:
        store: of `milb.study.run`.
        folder: e.g. `milb.paths.figures_data()`.
        paper: the paper's final NLLs, columns benchmark, strategy, n, mean, std, min, max; added as rows of source
            "paper", whose seed says which of the four it is.
    """
    folder = Path(folder)
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

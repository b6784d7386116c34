"""Runs of a larger group that go on as a group of their own."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np

from milb.study.grid import Group
from milb.study.progress import Progress, checked, files_in, from_arrays, peek


def rounds_of_larger(store: Path, group: Group) -> tuple[Progress, list[dict[str, Any]]]:
    """What another group in the store has made of this one's runs, and what made it; nothing where there is none.

    The other has the same benchmark, scale and protocol, and at least this one's arms and seeds, in any order. Of
    several, the one that has come furthest. Scores are those of a group's first seed: NaN where the other's is another.

    Warns:
        UserWarning: a file in the store cannot be read, and is left out.
    """
    best = Progress.new(group), []
    for path in files_in(store, f"{group.benchmark}_{group.scale}_*.npz"):
        try:
            stored = peek(path, path.read_bytes())
            if stored is None or not _has_all(stored[0]["settings"], group.settings):
                continue
            header, arrays = stored
            if len(arrays["metrics"]) > len(best[0].metrics):
                part = _part(from_arrays(header, arrays), header["settings"], group)
                best = part, [{"group": path.stem} | made for made in header["made"]]
        except (OSError, KeyError, IndexError, TypeError, ValueError) as error:  # Damaged, a newer milb's: ValueErrors
            warnings.warn(f"{path} is left out, no rounds are taken from it: {error!r}", stacklevel=4)
    return best


def _has_all(theirs: dict[str, Any], ours: dict[str, Any]) -> bool:
    same = all(theirs[key] == ours[key] for key in ("benchmark", "scale", "protocol"))
    return same and all(set(ours[key]) <= set(theirs[key]) for key in ("arms", "seeds"))


def _part(whole: Progress, settings: dict[str, Any], group: Group) -> Progress:
    seeds = [settings["seeds"].index(seed) for seed in group.seeds]
    arms = [settings["arms"].index(str(arm)) for arm in group.arms]
    runs = np.ix_(seeds, arms)
    scored = [scores[arms] if seeds[0] == 0 else np.full_like(scores[arms], np.nan) for scores in whole.scores]
    shares = len(seeds) / len(settings["seeds"]), len(arms) / len(settings["arms"])
    seconds = [
        [training * shares[0] * shares[1], *(selection[a] * shares[0] for a in arms if selection)]
        for training, *selection in whole.seconds
    ]
    part = Progress(
        whole.rows[runs],
        [metrics[runs] for metrics in whole.metrics],
        scored,
        seconds,
        None if whole.test_nll is None else whole.test_nll[runs],
    )
    return checked(part, group)

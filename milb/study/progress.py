"""How far a group of runs has come, and the file that it is kept in."""

from __future__ import annotations

import io
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import ArrayLike, Float16

from milb import store as files
from milb.history import COLUMNS
from milb.study.grid import Group


@dataclass
class Progress:
    """How far a group has come; all its results once it is finished. Axes are seeds, arms.

    Attributes:
        rows: (seeds, arms, n_final), dataset rows labelled so far, in order; 0 behind them.
        metrics: per round, (seeds, arms, COLUMNS); seconds are a run's share of its group's.
        scores: per acquisition, (arms, subset) of the first seed, float16 (see `clipped`), NaN where a strategy has
            none.
        test_nll: (seeds, arms, n_test) of the last models.
        seconds: per round, of the wall: training, then scoring and selection of each arm.
    """

    rows: np.ndarray
    metrics: list[np.ndarray] = field(default_factory=list)
    scores: list[np.ndarray] = field(default_factory=list)
    seconds: list[list[float]] = field(default_factory=list)
    test_nll: np.ndarray | None = None

    @classmethod
    def new(cls, group: Group) -> Progress:
        """Nothing but the initial labels."""
        rows = np.zeros((len(group.seeds), len(group.arms), group.protocol.n_final), np.int32)
        rows[..., : group.protocol.n_initial] = np.arange(group.protocol.n_initial)
        return cls(rows)

    def finished(self, group: Group) -> bool:
        """Whether the last models have been trained."""
        return len(self.metrics) == group.protocol.n_rounds + 1


def files_in(store: Path, pattern: str = "*.npz") -> list[Path]:
    """The files in a store that may be groups', and what links there lead to, by name; folders are left out."""
    return [path for path in sorted(store.glob(pattern)) if path.is_file()]


def save(path: Path, group: Group, progress: Progress, made: list[dict[str, Any]]) -> None:
    """Replace a group's file by its present state; what made it stands in the header."""
    header = {"kind": "group", "settings": group.settings, "columns": COLUMNS, "made": made}
    arrays = {"rows": progress.rows, "metrics": np.stack(progress.metrics)}
    arrays["seconds"] = np.array(
        [(row + [np.nan] * len(group.arms))[: 1 + len(group.arms)] for row in progress.seconds]
    )
    if progress.scores:
        arrays["scores"] = np.stack(progress.scores)
    if progress.test_nll is not None:
        arrays["test_nll"] = progress.test_nll.astype(np.float32)
    files.write(path, header, arrays, compress=True)


def load(path: Path, group: Group) -> tuple[Progress, list[dict[str, Any]]]:
    """A group's state and what made it; the beginning where there is no file, or none of this group.

    Errors and warnings as `milb.store.read`; a file of another group is set aside, too.
    """
    stored = files.read(path)
    if stored is None:
        return Progress.new(group), []
    header, arrays = stored
    newer = set(header.get("columns", ())) - set(COLUMNS)
    if newer:
        raise ValueError(f"{path} was written by a newer milb: it records {', '.join(sorted(newer))}")
    try:
        if header["settings"] != group.settings:
            raise ValueError("it holds another group")
        return checked(from_arrays(header, arrays), group), list(header["made"])
    except (KeyError, ValueError, TypeError) as error:
        files.set_aside(path, error)
        return Progress.new(group), []


def from_arrays(header: dict[str, Any], arrays: dict[str, np.ndarray]) -> Progress:
    """A state from what `save` has written; KeyError, ValueError or TypeError where that is not whole."""
    return Progress(
        arrays["rows"].astype(np.int32),
        list(_as_columns(arrays["metrics"], header["columns"])),
        list(arrays.get("scores", ())),
        [row[np.isfinite(row)].tolist() for row in arrays["seconds"]],
        arrays.get("test_nll"),
    )


class Damaged(ValueError):
    """A file, perhaps of a group, that is not whole."""


def peek(path: Path, content: bytes) -> tuple[dict[str, Any], dict[str, np.ndarray]] | None:
    """Header and arrays of a group's file, for those who only read: nothing is set aside.

    Args:
        path: named in errors.
        content: of the file.

    Returns:
        None for a whole file of something else.

    Raises:
        Damaged: it is not whole.
        ValueError: it was written by a newer milb.
    """
    try:
        header, arrays = files.unpacked(content, files.FORMAT)
    except Exception as error:  # a damaged zip file raises whatever its parts raise
        if _is_whole(content):
            return None
        raise Damaged(f"{path} is damaged ({error})") from error
    if header.get("kind") != "group":
        return None
    if header["version"] != files.VERSION:
        raise files.wrong_version(path, header, files.VERSION)
    missing = {"settings", "columns", "made", "rows", "metrics"} - {*header, *arrays}
    if missing:
        raise Damaged(f"{path} is damaged (it lacks {', '.join(sorted(missing))})")
    return header, arrays


def _is_whole(content: bytes) -> bool:
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as file:
            return file.testzip() is None
    except Exception:  # as above
        return False


def clipped(scores: ArrayLike) -> Float16[np.ndarray, "*shape"]:
    """Scores as they are kept, to draw them: in half precision, and none beyond its largest number, 65,504."""
    largest = np.finfo(np.float16).max
    return np.clip(np.asarray(scores, float), -largest, largest).astype(np.float16)


def _as_columns(metrics: np.ndarray, columns: list[str]) -> np.ndarray:
    """The table in today's columns: NaN in those that an earlier milb did not record yet."""
    table = np.full((*metrics.shape[:-1], len(COLUMNS)), np.nan)
    table[..., [COLUMNS.index(name) for name in columns]] = metrics
    return table


def checked(progress: Progress, group: Group) -> Progress:
    """The same; ValueError unless it is a state that the group goes through."""
    protocol, done = group.protocol, len(progress.metrics)
    runs = (len(group.seeds), len(group.arms))
    if progress.rows.shape != (*runs, protocol.n_final) or not 1 <= done <= protocol.n_rounds + 1:
        raise ValueError(f"it has {done} rounds and rows of shape {progress.rows.shape}")
    if any(metrics.shape != (*runs, len(COLUMNS)) for metrics in progress.metrics):
        raise ValueError("its table has another shape")
    labelled = np.sort(progress.rows[..., : min(protocol.n_initial + done * protocol.n_query, protocol.n_final)])
    if labelled.min() < 0 or labelled.max() >= protocol.n_pool or (np.diff(labelled) == 0).any():
        raise ValueError("its rows repeat or are not in the pool")
    if progress.finished(group) and (progress.test_nll is None or progress.test_nll.shape != (*runs, protocol.n_test)):
        raise ValueError("it has no test NLL of the last models")
    return progress

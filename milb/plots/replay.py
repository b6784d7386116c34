"""A recorded run, round by round: what is labelled, where the score is high, how the error has fallen.

Everything comes from figures/data: picks_<benchmark>.npz, learning_curves.csv, and the study's own files, which have
the scores of all strategies. Scores are recorded for the first seed only, so it is the seed that is replayed.
"""

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Float, Int
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from scipy.stats import rankdata

from milb import study
from milb.plots.curves import log_axis
from milb.plots.layout import few_ticks, placed_by_hand
from milb.plots.study import in_common, read_curves
from milb.plots.style import figure, strategy_style
from milb.problems import PROBLEMS

# Which two inputs span a benchmark's map, and what they are called.
PLANES = {
    "multimodal": ((0, 1), ("$x_0$", "$x_1$")),
    "double_well": ((5, 6), (r"noise intensity $\sigma$", r"coupling $\kappa$")),
    "ternary": ((0, 1), ("share of A, $x_A$", "share of B, $x_B$")),
}
_CELLS = 14  # of the score map, along each axis


class Run(NamedTuple):
    """One strategy's run: R models, and what each of them had labelled next."""

    strategy: str
    n: Int[np.ndarray, "R"]  # labels of each model
    nll: Float[np.ndarray, "R"]  # of each model: mean test NLL, nats
    saturated: Float[np.ndarray, "R"]  # share of the pool within 0.01 nat of the largest MI-LB; NaN: not recorded
    picks: Int[np.ndarray, "R k"]  # dataset rows; -1 where nothing was picked
    scores: Float[np.ndarray, "R S"]  # of the rows in Recording.subset; NaN where the strategy has none


class Recording(NamedTuple):
    """The runs of a benchmark on one seed, and where its points lie in the plane of two inputs."""

    benchmark: str
    points: Float[np.ndarray, "N 2"]
    axes: tuple[str, str]
    subset: Int[np.ndarray, "S"]
    n_initial: int
    runs: dict[str, Run]

    @property
    def n_models(self) -> int:
        """R: rounds that can be shown."""
        return len(next(iter(self.runs.values())).n)


def read(data: Path, benchmark: str) -> Recording:
    """The recorded runs of a benchmark's first seed.

    Args:
        data: figures/data, see `milb.study.export`.
        benchmark: a key of `PLANES`, ValueError if not. FileNotFoundError when it is not recorded.
    """
    if benchmark not in PLANES:
        raise ValueError(f"benchmark must be one of {', '.join(PLANES)}, got {benchmark!r}")
    with np.load(data / f"picks_{benchmark}.npz") as file:
        names, seeds, picks, subset = (file[key] for key in ("strategies", "seeds", "picks", "subset"))
    seed, names = int(seeds[0]), [str(name) for name in names]
    scores = study.picks(data / "study", benchmark, names)["scores"]
    curves = _of_run(in_common(read_curves(data)), benchmark, seed, "test_nll")
    saturated = _of_run(study.curves(data / "study", statistics=True), benchmark, seed, "saturated_share")
    protocol, problem = PROBLEMS[benchmark].protocol("paper"), PROBLEMS[benchmark]
    columns, axes = PLANES[benchmark]
    x = problem.inputs(seed, protocol.n_pool, protocol.n_test, protocol.n_initial)
    runs = {}
    for a, name in enumerate(names):
        nll = curves[name].dropna()
        next_picks = np.full((len(nll), picks.shape[-1]), -1)
        recorded = min(len(nll), picks.shape[2])
        next_picks[:recorded] = picks[0, a, :recorded]
        share = saturated[name].reindex(nll.index).to_numpy(float)
        runs[name] = Run(name, nll.index.to_numpy(), nll.to_numpy(float), share, next_picks, scores[:, a].astype(float))
    return Recording(benchmark, x[:, columns], axes, subset, protocol.n_initial, runs)


def _of_run(table: pd.DataFrame, benchmark: str, seed: int, column: str) -> pd.DataFrame:
    """A column by n (the index) and strategy."""
    chosen = (table["benchmark"] == benchmark) & (table["seed"].astype(str) == str(seed)) & (table["options"] == "")
    return table[chosen].pivot(index="n", columns="strategy", values=column)


def labelled_before(recording: Recording, run: Run, model: int) -> Int[np.ndarray, "_"]:
    """Dataset rows that a run had picked before it trained this model; the first labels are not among them."""
    rows = run.picks[:model].ravel()
    return rows[rows >= 0]


def score_map(recording: Recording, run: Run, model: int) -> Float[np.ndarray, "14 14"]:
    """Mean rank of the score, 0 (lowest of the pool) to 1, in the cells of a grid over the plane; NaN where none is.

    Ranks, since scores of different strategies have different units; ties share a rank. Second axis: first input.
    """
    scores = run.scores[model] if model < len(run.scores) else np.full(len(recording.subset), np.nan)
    known = ~np.isnan(scores)
    points, edges = recording.points[recording.subset][known], _edges(recording)
    ranks = (rankdata(scores[known]) - 0.5) / max(1, known.sum())
    count, *_ = np.histogram2d(*points.T, bins=edges)
    total, *_ = np.histogram2d(*points.T, bins=edges, weights=ranks)
    with np.errstate(invalid="ignore"):
        return (total / count).T


@figure
def at_round(recording: Recording, left: str, right: str, model: int) -> Figure:
    """Two strategies at the same round: maps with labels over the score, learning curves, and how saturated MI-LB is.

    Args:
        recording: see `read`.
        left, right: strategies; ValueError for one that is not recorded.
        model: 0 for the model of the first labels, then one more a round; ValueError beyond the last.
    """
    for name in (left, right):
        if name not in recording.runs:
            raise ValueError(f"strategy must be one of {', '.join(recording.runs)}, got {name!r}")
    if not 0 <= model < recording.n_models:
        raise ValueError(f"model must be in 0 .. {recording.n_models - 1}, got {model}")
    pair = [recording.runs[name] for name in (left, right)]
    fig = placed_by_hand(7.8, 5.6)
    maps = [fig.add_axes((x, 0.46, 0.37, 0.44)) for x in (0.075, 0.51)]
    bar, curve, gauge = (fig.add_axes(place) for place in _PLACES)
    for ax, run in zip(maps, pair, strict=True):
        mesh = _draw_map(ax, recording, run, model)
    maps[0].set_ylabel(recording.axes[1])
    maps[1].tick_params(labelleft=False)
    fig.colorbar(mesh, cax=bar, label="mean rank of the score", ticks=(0, 0.5, 1))
    _draw_curves(curve, pair, model)
    _draw_gauge(gauge, pair, model)
    return fig


_PLACES = (0.9, 0.46, 0.015, 0.44), (0.105, 0.085, 0.46, 0.26), (0.72, 0.16, 0.22, 0.11)


def _edges(recording: Recording) -> tuple[np.ndarray, np.ndarray]:
    low, high = recording.points.min(axis=0), recording.points.max(axis=0)
    return np.linspace(low[0], high[0], _CELLS + 1), np.linspace(low[1], high[1], _CELLS + 1)


def _draw_map(ax: Axes, recording: Recording, run: Run, model: int) -> QuadMesh:
    style, points = strategy_style(run.strategy), recording.points
    values = score_map(recording, run, model)
    mesh = ax.pcolormesh(*_edges(recording), values, cmap=_LIGHT_GREYS, vmin=0, vmax=1, rasterized=True)
    ax.plot(*points[: recording.n_initial].T, "x", color="#777777", ms=3, mew=0.7, label="first labels")
    before, now = points[labelled_before(recording, run, model)], points[run.picks[model][run.picks[model] >= 0]]
    looks = {"marker": style["marker"], "ls": "none", "color": style["color"], "mec": "white"}
    ax.plot(*before.T, **looks, mew=0.3, ms=4.5, label="labelled")
    ax.plot(*now.T, **looks | {"mec": "black"}, mew=1, ms=6.5, label="next")
    batch = f"next {len(now)} with black edge" if len(now) else "the last model"
    unscored = "" if np.isfinite(values).any() else "; no scores" if len(now) else ""
    ax.set_title(f"{style['label']}: {run.n[model]:,} labels,\n{batch}{unscored}", fontsize=9)
    ax.set_xlabel(recording.axes[0])
    ax.grid(visible=False)
    few_ticks(ax)
    return mesh


_LIGHT_GREYS = LinearSegmentedColormap.from_list("light greys", ["#ffffff", "#8c8c8c"])


def _draw_curves(ax: Axes, pair: list[Run], model: int) -> None:
    for run in pair:
        style = strategy_style(run.strategy)
        ax.plot(run.n, run.nll, color=style["color"], lw=0.8, alpha=0.5)
        ax.plot(run.n[: model + 1], run.nll[: model + 1], **style | {"marker": "none"}, lw=2)
        ax.plot(
            run.n[model], run.nll[model], color=style["color"], marker=style["marker"], ms=7, ls="none", clip_on=False
        )
    ax.axvline(pair[0].n[model], color="#555555", lw=0.8)
    log_axis(ax, pd.Series(np.concatenate([run.nll for run in pair])))
    few_ticks(ax)
    ax.set(xlabel="labels n", ylabel="test NLL, mean (nats)")
    ax.legend(loc="upper right", handlelength=2)


def _draw_gauge(ax: Axes, pair: list[Run], model: int) -> None:
    for i, run in enumerate(pair):
        share = run.saturated[model]
        ax.barh(i, 100, height=0.6, color="#eeeeee")
        if np.isnan(share):
            ax.text(2, i, "not recorded", va="center", fontsize=8)
            continue
        ax.barh(i, 100 * share, height=0.6, color=strategy_style(run.strategy)["color"])
        ax.text(102, i, f"{100 * share:.1f} %", va="center", fontsize=8)
    ax.set_yticks(range(len(pair)), [strategy_style(run.strategy)["label"] for run in pair], fontsize=7.5)
    ax.set(xlim=(0, 100), ylim=(1.6, -0.6), xlabel="of the pool (%)", xticks=(0, 50, 100))
    ax.set_title("MI-LB saturated", fontsize=9)
    ax.grid(visible=False)

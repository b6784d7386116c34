"""One look for all figures: colours of strategies, the style sheet, saving."""

import functools
import re
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import ParamSpec, TypedDict

import matplotlib
import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from milb import paths

P = ParamSpec("P")
GUIDE = {"color": "#555555", "lw": 0.9, "ls": (0, (4, 3))}  # a line to compare with: an oracle, a limit, zero
STYLE_SHEET = Path(__file__).with_name("milb.mplstyle")
# Neither date nor library version: the same figure gives the same bytes.
_NO_METADATA = {
    "pdf": {"Creator": "milb", "Producer": None, "CreationDate": None, "ModDate": None},
    "png": {"Software": None},
}


class LineStyle(TypedDict):
    """How a strategy's line is drawn: keyword arguments of `Axes.plot`."""

    label: str
    color: str
    marker: str
    linestyle: str | tuple[int, tuple[int, ...]]


_DASHED, _DOTTED, _DASH_DOTTED = (0, (5, 2)), (0, (1, 1)), (0, (5, 1, 1, 1))
# Okabe and Ito's colours, and three dark ones for the batch variants. Markers and line styles differ as well, so that
# nothing hangs on colour alone.
STRATEGY_STYLES: dict[str, LineStyle] = {
    name: {"label": label, "color": color, "marker": marker, "linestyle": linestyle}
    for name, label, color, marker, linestyle in [
        ("random", "Random", "#000000", "o", _DOTTED),
        ("variance", "Variance", "#E69F00", "s", "solid"),
        ("variance-sbal", "Variance, SBAL", "#66331A", "P", _DASHED),
        ("mi-lb", "MI-LB", "#0072B2", "D", "solid"),
        ("mi-lb-released", "MI-LB, released", "#56B4E9", "^", _DASHED),
        ("mi-lb-ties", "MI-LB, random ties", "#CC79A7", "v", _DASH_DOTTED),
        ("mi-lb-sbal", "MI-LB, SBAL", "#1A1A80", "X", _DASHED),
        ("mi-lb-maxdist", "MI-LB, MaxDist", "#8000E6", "p", _DASH_DOTTED),
        ("bait", "BAIT", "#009E73", "<", "solid"),
        ("core-set", "Core-Set", "#D55E00", ">", "solid"),
        ("mi-pairwise", "MI, pairwise", "#882255", "h", "solid"),
        ("mi-matched", "MI, matched", "#999933", "8", _DASH_DOTTED),
    ]
}
# Modes and phases: other colours than the strategies', told apart by all kinds of colour vision (Tol's "muted").
CATEGORY_COLORS = ("#332288", "#DDAA33", "#44AA99", "#CC6677")
CATEGORY_MARKERS = ("o", "^", "s", "D")
_SPARE_LABELS = {
    "mi-members": "MI, member-level",
    "mi-certificate": "MI, certificate",
    "mi-monte-carlo": "MI, Monte Carlo",
    "mi-lb-lcmd": "MI-LB, LCMD",
    "mi-pairwise-maxdist": "MI, pairwise, MaxDist",
    "mi-pairwise-lcmd": "MI, pairwise, LCMD",
    "paide": "PaiDEs",
}
_SPARE_COLORS = ("#7F7F7F", "#B8860B", "#5F9EA0", "#8B4C6A", "#6B8E23")
_SPARE_MARKERS = ("h", "8", "*", "d", "H")


def strategy_style(name: str) -> LineStyle:
    """Label, colour, marker and line style of a strategy, ready for `ax.plot(x, y, **strategy_style(name))`.

    An unknown name gets a style of its own that depends on the name only, so a strategy of yours looks the same in
    every figure; two unknown names may share a colour.
    """
    if name in STRATEGY_STYLES:
        return STRATEGY_STYLES[name].copy()
    color, marker = divmod(zlib.crc32(name.encode()), len(_SPARE_MARKERS))
    return {
        "label": _SPARE_LABELS.get(name, name),
        "color": _SPARE_COLORS[color % len(_SPARE_COLORS)],
        "marker": _SPARE_MARKERS[marker],
        "linestyle": _DASH_DOTTED,
    }


def figure(draw: Callable[P, Figure]) -> Callable[P, Figure]:
    """Decorator of a function that returns a figure: milb's style inside, the caller's settings untouched outside.

    The figure is taken out of pyplot's list, so a notebook shows it once, where the cell asks for it.
    """

    @functools.wraps(draw)
    def styled(*args: P.args, **kwargs: P.kwargs) -> Figure:
        before = plt.get_fignums()
        try:
            with matplotlib.rc_context(fname=STYLE_SHEET):
                return draw(*args, **kwargs)
        finally:  # of a figure that was never finished, too
            for number in set(plt.get_fignums()).difference(before):
                plt.close(number)

    return styled


def save(fig: Figure, name: str, scale: str, folder: Path | None = None) -> None:
    """Write `fig` as `name`.pdf and `name`.png; the same figure gives the same bytes.

    Args:
        name: letters, digits, `_` and `-`; starts with the number of its notebook.
        scale: "smoke", "demo" or "paper"; the files go to `milb.paths.figures(scale)`.
        folder: write there instead.

    Raises:
        ValueError: `name` or `scale` is not one of these.
        PermissionError: the folder cannot be written to.
    """
    if not re.fullmatch(r"[A-Za-z0-9_-]+", name):
        raise ValueError(f"name must consist of letters, digits, _ and -; got {name!r}")
    folder = paths.writable(paths.figures(scale) if folder is None else folder)
    with matplotlib.rc_context(fname=STYLE_SHEET):
        for suffix, metadata in _NO_METADATA.items():
            fig.savefig(folder / f"{name}.{suffix}", metadata=metadata)

"""Sliders over a picture that is there without them, too."""

from collections.abc import Callable
from typing import Any

from IPython.display import display
from matplotlib.figure import Figure


def explore(draw: Callable[..., Figure], **controls: Any) -> None:
    """Show `controls` and, under them, `draw(**their values)`, drawn again whenever one moves.

    The picture is an ordinary output that is replaced, not a part of a widget: it stays in the saved notebook and is
    seen where no widget can render.

    Args:
        draw: returns a figure; takes the names of `controls` as keyword arguments.
        controls: ipywidgets by argument name, such as `m=ipywidgets.IntSlider(2, 2, 100)`.
    """
    from ipywidgets import VBox

    def current() -> Figure:
        return draw(**{name: control.value for name, control in controls.items()})

    display(VBox(list(controls.values())))
    picture = display(current(), display_id=True)
    for control in controls.values():
        control.observe(lambda change: picture.update(current()), names="value")

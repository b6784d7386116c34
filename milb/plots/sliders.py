"""Sliders over a picture that is there without them, too."""

import io
from collections.abc import Callable
from typing import Any

from IPython.display import Image, display
from matplotlib.figure import Figure


def explore(draw: Callable[..., Figure], **controls: Any) -> None:
    """Show `controls` and, under them, `draw(**their values)`, drawn again whenever one moves.

    The picture is an ordinary output that is replaced, not a part of a widget: it stays in the saved notebook and is
    seen where no widget can render. Nothing is kept of earlier pictures.

    Args:
        draw: returns a figure; takes the names of `controls` as keyword arguments. A reader waits for it: 200 ms are
            little enough to feel the connection, so compile or prepare what takes longer.
        controls: ipywidgets by argument name, such as `m=ipywidgets.IntSlider(2, 2, 100)`.
    """
    from ipywidgets import Box, Layout

    def current() -> Image:
        return _picture(draw(**{name: control.value for name, control in controls.items()}))

    first = current()  # an error in `draw` comes before anything is shown
    display(Box(list(controls.values()), layout=Layout(flex_flow="row wrap")))
    picture = display(first, display_id=True)
    for control in controls.values():
        control.observe(lambda change: picture.update(current()), names="value")


def _picture(fig: Figure) -> Image:
    """The figure as it stands: a notebook's own rendering would draw it twice, to find its margins."""
    file = io.BytesIO()
    fig.savefig(file, format="png", dpi=fig.dpi, facecolor=fig.get_facecolor())
    return Image(file.getvalue(), format="png")

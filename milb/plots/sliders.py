"""Sliders over a picture that is there without them, too."""

import io
from collections.abc import Callable
from typing import Any

import numpy as np
import PIL.Image
from IPython.display import Image, display
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.transforms import Bbox


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

    panels: list[Bbox] = []

    def current() -> Image:
        return _picture(draw(**{name: control.value for name, control in controls.items()}), panels)

    first = current()  # an error in `draw` comes before anything is shown
    display(Box(list(controls.values()), layout=Layout(flex_flow="row wrap")))
    picture = display(first, display_id=True)
    for control in controls.values():
        control.observe(lambda change: picture.update(current()), names="value")


def _picture(fig: Figure, panels: list[Bbox]) -> Image:
    """The figure, its panels where those of the picture before were, while there are as many; then in `panels`.

    Finding their places takes as long as drawing, and panels that stay where they are are easier to compare. Drawn
    by the canvas itself, since `Figure.savefig` and a notebook's own rendering draw everything twice.
    """
    if len(panels) == len(fig.axes):
        fig.set_layout_engine("none")
        for ax, place in zip(fig.axes, panels, strict=True):
            ax.set_position(place)
    canvas = FigureCanvasAgg(fig)
    canvas.draw()
    panels[:] = [ax.get_position(original=True) for ax in fig.axes]
    file = io.BytesIO()
    PIL.Image.fromarray(np.asarray(canvas.buffer_rgba())).save(file, "png", compress_level=1)
    return Image(file.getvalue(), format="png")

"""Sliders over a picture that is there without them, too."""

import io
from collections.abc import Callable
from typing import Any

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import PIL.Image
from IPython.display import Image, display
from jaxtyping import Float
from matplotlib.artist import Artist
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.layout_engine import PlaceHolderLayoutEngine
from matplotlib.transforms import Bbox

SLACK = 3  # pixels that a label may grow by into the space around it
LINE = 12  # pixels
TITLES = ("left", "center", "right")


def explore(draw: Callable[..., Figure], **controls: Any) -> None:
    """Show `controls` and, under them, `draw(**their values)`, drawn again whenever one moves.

    The picture is an ordinary output that is replaced, not a part of a widget: it stays in the saved notebook and is
    seen where no widget can render. Nothing is kept of earlier pictures.

    Args:
        draw: returns a figure; takes the names of `controls` as keyword arguments. A reader waits for it: 200 ms are
            little enough to feel the connection, so compile or prepare what takes longer.
        controls: ipywidgets by argument name, such as `m=ipywidgets.IntSlider(2, 2, 100)`.
    """
    from ipywidgets import Box
    from ipywidgets import Layout as BoxLayout

    layout = _Layout()

    def current() -> Image:
        values = {name: control.value for name, control in controls.items()}
        return _encoded(layout.drawn(lambda: draw(**values)))

    first = current()  # an error in `draw` comes before anything is shown
    display(Box(list(controls.values()), layout=BoxLayout(flex_flow="row wrap")))
    picture = display(first, display_id=True)
    for control in controls.values():
        control.observe(lambda change: picture.update(current()), names="value")


class _Layout:
    """Where panels are, from one picture to the next: finding it takes longer than drawing, and jumps distract."""

    def __init__(self) -> None:
        self.places: list[Bbox] = []
        self.shape: list[Any] = []
        self.needs = np.zeros(0)

    def drawn(self, make: Callable[[], Figure]) -> FigureCanvasAgg:
        """A figure on its canvas, with the panels where they were unless they need more space around them."""
        with matplotlib.rc_context({"axes.titley": 1.0}):  # else each title looks for ticks that it might meet
            fig = make()
        plt.close(fig)  # no second owner, and no second picture in a notebook
        canvas, engine = FigureCanvasAgg(fig), fig.get_layout_engine()
        if engine is None or isinstance(engine, PlaceHolderLayoutEngine):  # placed by hand: nothing to find
            canvas.draw()
            return canvas
        grids = [ax.get_subplotspec() for ax in fig.axes]
        shape = [*fig.get_size_inches(), *(grid and grid.get_geometry() for grid in grids)]
        known = shape == self.shape
        if known:
            fig.set_layout_engine("none")
            for ax, place in zip(fig.axes, self.places, strict=True):
                ax.set_position(place)
        canvas.draw()  # once, where `Figure.savefig` and a notebook's own rendering draw twice and more
        needs = _needs(fig)
        if known and len(needs) == len(self.needs) and (needs <= self.needs + SLACK).all():
            return canvas
        if known:
            fig.set_layout_engine(engine)
            for ax in fig.axes:
                ax.set_in_layout(True)
            canvas.draw()
        canvas.draw()  # the engine comes to rest at the second time
        self.places, self.shape, self.needs = [ax.get_position(original=True) for ax in fig.axes], shape, needs
        return canvas


def _needs(fig: Figure) -> Float[np.ndarray, "n"]:
    """Pixels that a layout depends on: of tick labels across their axis, of lines of titles and labels, of legends."""
    texts = [fig.get_suptitle(), fig.get_supxlabel(), fig.get_supylabel()]
    sizes = [side for legend in fig.legends for side in _sides(legend)]
    for ax in fig.axes:
        texts += [ax.get_title(place) for place in TITLES]
        sizes += _sides(ax.get_legend()) if ax.get_legend() else []
        for axis, side in ((ax.xaxis, 1), (ax.yaxis, 0)):
            texts += [axis.label.get_text(), axis.offsetText.get_text()]
            labels = [label for tick in axis.majorTicks for label in (tick.label1, tick.label2)]  # as drawn
            sizes.append(max((_sides(label)[side] for label in labels if label.get_visible()), default=0))
    return np.array([*sizes, *(LINE * (1 + text.count("\n")) if text else 0 for text in texts)], float)


def _sides(artist: Artist) -> list[float]:
    extent = artist.get_window_extent()
    return [extent.width, extent.height]


def _encoded(canvas: FigureCanvasAgg) -> Image:
    file = io.BytesIO()
    PIL.Image.fromarray(np.asarray(canvas.buffer_rgba())).save(file, "png", compress_level=1)
    return Image(file.getvalue(), format="png")

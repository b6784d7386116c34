"""Sliders redraw a picture that is an output of its own."""

import ipywidgets
import matplotlib.pyplot as plt
import pytest

from milb import plots
from milb.plots import sliders


class Picture:
    """Stands in for IPython's handle of a displayed output."""

    def __init__(self):
        self.updates = []

    def update(self, fig):
        self.updates.append(fig)


@pytest.fixture
def shown(monkeypatch):
    outputs = []

    def display(output, display_id=False):
        outputs.append(output)
        if display_id:
            outputs.append(Picture())
            return outputs[-1]

    monkeypatch.setattr(sliders, "display", display)
    return outputs


@plots.figure
def draw(m, delta):
    fig, ax = plt.subplots()
    ax.set_title(f"{m}, {delta}")
    return fig


def title(fig):
    return fig.axes[0].get_title(loc="center") or fig.axes[0].get_title(loc="left")


def test_picture_is_shown_at_once_and_redrawn_when_a_slider_moves(shown):
    m, delta = ipywidgets.IntSlider(3, 2, 10), ipywidgets.FloatSlider(0.3, min=0.1, max=1.5)
    plots.explore(draw, m=m, delta=delta)
    box, first, picture = shown
    assert box.children == (m, delta)
    assert title(first) == "3, 0.3"
    m.value = 7
    delta.value = 1.0
    assert [title(fig) for fig in picture.updates] == ["7, 0.3", "7, 1.0"]


def test_names_must_be_those_of_the_drawing_function(shown):
    with pytest.raises(TypeError, match="dimension"):
        plots.explore(draw, dimension=ipywidgets.IntSlider(3, 2, 10))

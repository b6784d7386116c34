"""Sliders redraw a picture that is an output of its own."""

import gc
import io
from collections import Counter

import ipywidgets
import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image

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
    fig, ax = plt.subplots(figsize=(1, 1), dpi=30, layout="none", facecolor=(m / 10, delta, 0))
    ax.set_axis_off()
    return fig


def color(picture):
    """Red and green of the picture's first pixel."""
    assert picture.format == "png"
    return [value / 255 for value in Image.open(io.BytesIO(picture.data)).convert("RGB").getpixel((0, 0))[:2]]


def test_picture_is_shown_at_once_and_redrawn_when_a_slider_moves(shown):
    m, delta = ipywidgets.IntSlider(3, 2, 10), ipywidgets.FloatSlider(0.3, min=0.1, max=1.5)
    plots.explore(draw, m=m, delta=delta)
    box, first, picture = shown
    assert box.children == (m, delta)
    assert color(first) == pytest.approx([0.3, 0.3], abs=0.01)
    m.value = 7
    delta.value = 1.0
    assert [color(update) for update in picture.updates] == [
        pytest.approx([0.7, 0.3], abs=0.01),
        pytest.approx([0.7, 1.0], abs=0.01),
    ]


def test_every_kind_of_control(shown):
    choice, tick = ipywidgets.Dropdown(options=[1, 5]), ipywidgets.Checkbox(False)
    plots.explore(lambda choice, tick: draw(choice, float(tick)), choice=choice, tick=tick)
    choice.value = 5
    tick.value = True
    assert [color(update) for update in shown[2].updates] == [
        pytest.approx([0.5, 0], abs=0.01),
        [pytest.approx(0.5, abs=0.01), 1],
    ]


def test_two_hundred_moves_leave_nothing_behind(shown):
    slider = ipywidgets.IntSlider(3, 0, 9)
    plots.explore(lambda m: draw(m, 0.5), m=slider)
    picture = shown[2]

    def objects_after(moves):
        for i in range(moves):
            slider.value = (slider.value + 1 + i % 3) % 10
        assert picture.updates
        picture.updates.clear()
        gc.collect()
        return Counter(type(thing) for thing in gc.get_objects())

    few = objects_after(10)
    many = objects_after(200)
    assert many[Figure] == few[Figure]
    assert plt.get_fignums() == []
    assert sum(many.values()) - sum(few.values()) < 200  # less than one object a move


def test_panels_stay_while_their_labels_fit(shown):
    figures = []

    @plots.figure
    def panel(top):
        fig, ax = plt.subplots(figsize=(2, 2))
        ax.set(ylim=(0, 1), yticks=[0, 1], yticklabels=["0", "9" * top], ylabel="nats")
        figures.append(fig)
        return fig

    slider = ipywidgets.IntSlider(3, 1, 9)
    plots.explore(panel, top=slider)
    for top in (1, 8, 2):
        slider.value = top
    left = [fig.axes[0].get_position().x0 for fig in figures]
    assert len(figures) == 4, "a reader waits for what makes them"
    assert left[1] == left[0] < left[2] == left[3]
    assert all(fig.axes[0].yaxis.label.get_window_extent().x0 >= 0 for fig in figures)
    assert len(shown[2].updates) == 3


@pytest.mark.parametrize(
    "grow",
    [
        lambda fig, ax, n: ax.set_title("\n".join("t" * n)),
        lambda fig, ax, n: ax.set_title("\n".join("t" * n), loc="right"),
        lambda fig, ax, n: ax.set_xlabel("\n".join("t" * n)),
        lambda fig, ax, n: ax.set_ylabel("\n".join("t" * n)),
        lambda fig, ax, n: fig.supylabel("\n".join("t" * n)),
        lambda fig, ax, n: ax.set_xticks([0, 1], ["t" * 5 * n] * 2, rotation=90),
        lambda fig, ax, n: ax.set_ylim(0, 1e9 if n else 1),
        lambda fig, ax, n: ax.legend(title="t" * 9 * n, loc="center left", bbox_to_anchor=(1.0, 0.5)),
        lambda fig, ax, n: fig.legend(title="t" * 9 * n, loc="outside right upper"),
        lambda fig, ax, n: fig.set_size_inches(5 - n, 3),
    ],
)
def test_no_text_grows_over_the_edge_or_a_neighbour(grow):
    @plots.figure
    def panels(n):
        fig, axes = plt.subplots(1, 2, figsize=(5, 3))
        axes[1].plot([0, 1], label="line")
        grow(fig, axes[1], n)
        return fig

    layout = sliders._Layout()
    for n in (0, 1, 3):
        canvas = layout.drawn(lambda n=n: panels(n))
    fresh = panels(3)
    FigureCanvasAgg(fresh)
    for _ in range(2):
        fresh.canvas.draw()
    for ax, expected in zip(canvas.figure.axes, fresh.axes, strict=True):
        assert np.abs(ax.get_position().extents - expected.get_position().extents).max() < 0.02


def test_a_label_that_has_grown_is_whole_under_any_engine():
    layout = sliders._Layout()
    for last in (1_000, 100_000, 100_000):
        fig, ax = plt.subplots(figsize=(4, 2), layout="tight")
        ax.plot([1, 2, 3])
        ax.twinx().plot([1, last])
        canvas = layout.drawn(lambda fig=fig: fig)
        assert fig.get_tightbbox().x1 * fig.dpi <= canvas.get_width_height()[0]
    assert plt.get_fignums() == []


def test_a_panel_does_not_take_the_place_of_another():
    layout = sliders._Layout()
    for removed, is_left in ((1, True), (0, False)):
        fig, axes = plt.subplots(1, 2, layout="constrained")
        axes[removed].remove()
        (ax,) = layout.drawn(lambda fig=fig: fig).figure.axes
        assert (ax.get_position().x0 < 0.4) == is_left


def test_a_title_stands_clear_of_a_power_of_ten():
    @plots.figure
    def panel():
        fig, ax = plt.subplots()
        ax.plot([0, 3e9])
        ax.set_title("a title")
        return fig

    (ax,) = sliders._Layout().drawn(panel).figure.axes
    (title,) = [text for text in ax.findobj(plt.Text) if text.get_text() == "a title"]
    assert not title.get_window_extent().overlaps(ax.yaxis.offsetText.get_window_extent())


def test_an_error_comes_before_anything_is_shown(shown):
    with pytest.raises(ZeroDivisionError):
        plots.explore(lambda m: draw(1 / m, 0), m=ipywidgets.IntSlider(0, 0, 9))
    assert shown == []


def test_names_must_be_those_of_the_drawing_function(shown):
    with pytest.raises(TypeError, match="dimension"):
        plots.explore(draw, dimension=ipywidgets.IntSlider(3, 2, 10))

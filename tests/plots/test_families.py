"""What the figures of trained families show is what they were given."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from milb.plots import families as figures
from milb.two_index import Decomposition

RNG = np.random.default_rng(0)
X = np.linspace(-2, 2, 6)


def terms(shift=0.0):
    aleatoric, epistemic = np.linspace(1, 2, 6) + shift, np.linspace(0.5, 0, 6)
    return Decomposition(aleatoric + epistemic, aleatoric, epistemic)


FAMILY = figures.Family(RNG.normal(size=(4, 50, 6)), terms(), terms(-3))


def test_along_x_has_a_row_each_on_shared_scales():
    truth = {"variance": np.full(6, 1.0), "entropy": np.full(6, -1.0)}
    labels = (RNG.uniform(-2, 2, 30), RNG.normal(size=30))
    fig = figures.along_x(X, {"one": FAMILY, "two": FAMILY._replace(variance=terms(5))}, labels, [(-1.0, 1.0)], truth)
    rows = np.array(fig.axes).reshape(2, 4)
    assert [row[0].get_ylabel() for row in rows] == ["one\n\ny", "two\n\ny"]
    assert rows[0, 2].get_ylim() == rows[1, 2].get_ylim() and rows[0, 2].get_ylim()[1] >= 7
    assert_allclose(rows[0, 3].lines[0].get_ydata(), -1)
    for line, values in zip(rows[0, 3].lines[1:4], terms(-3), strict=True):
        assert_allclose(line.get_ydata(), values)
    names = [text.get_text() for text in fig.legends[0].get_texts()]
    assert names == ["z = 0", "z = 1", "z = 2", "labels", "true total", "total", "aleatoric", "epistemic"]


@pytest.mark.parametrize("z", [0, 3])
def test_at_one_input_marks_x_and_z_and_says_the_numbers(z):
    where, here, numbers = figures.at_one_input(X, FAMILY, 2, z).axes
    assert_allclose(where.lines[0].get_xdata(), X[2])
    labels = [text.get_text() for text in here.get_legend().get_texts()]
    assert sorted(labels) == ["all: p(y | x)", "other z", f"z = {z}"]
    assert len(here.patches) == 5
    text = numbers.texts[0].get_text()
    assert f"total: {terms().total[2]:.2f}" in text and f"log E = {np.log(4):.2f}" in text
    assert f"epistemic share: {100 * terms().epistemic[2] / terms().total[2]:.0f} %" in text

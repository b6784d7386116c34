"""Settings follow from the numbers of labels, inputs and outputs, seldom change, and can be overridden."""

import json

import numpy as np
import pytest

from milb.ask_tell.settings import capacity, checked, choose, describe
from milb.problems import PROBLEMS


@pytest.mark.parametrize(("n", "rows"), [(0, 64), (1, 64), (64, 64), (65, 128), (1_000, 1_024)])
def test_capacity(n, rows):
    assert capacity(n) == rows


def test_settings_stay_until_labels_double():
    assert choose(33, 3, 2, 500) == choose(64, 3, 2, 500)
    decay = [choose(n, 3, 2, 5_000).weight_decay for n in (10, 100, 200, 1_000)]
    assert decay == sorted(decay, reverse=True) and len(set(decay)) == 4


def test_wider_for_more_numbers():
    assert choose(1_000, 10, 16, 5_000).width > choose(30, 3, 1, 500).width


@pytest.mark.parametrize("n_pool", [1, 5, 10**6])
def test_design_fits_the_pool(n_pool):
    assert choose(0, 3, 2, n_pool).n_initial == min(8, n_pool)


def test_overrides():
    assert choose(10, 3, 2, 50, width=7, n_initial=1).width == 7
    assert checked({"width": 7}, 50, 3) == {"width": 7} and checked(None, 50, 3) is None
    protocol = PROBLEMS["ternary"].protocol("demo")
    assert checked(protocol, 50, 3) is protocol


def test_numbers_of_numpy_become_those_of_python():
    changes = checked({"width": np.int64(7), "learning_rate": np.float32(0.5)}, 50, 3)
    assert json.dumps(changes) == '{"width": 7, "learning_rate": 0.5}'


@pytest.mark.parametrize(
    ("protocol", "error", "message"),
    [
        ("demo", TypeError, "must be a Protocol, a dict of its fields or None, got 'demo'"),
        ({"widht": 3}, ValueError, "widht"),
        ({"width": 0}, ValueError, "width must be an integer >= 1, got 0"),
    ],
)
def test_refuses(protocol, error, message):
    with pytest.raises(error, match=message):
        checked(protocol, 50, 3)


def test_one_line_for_people():
    line = describe(choose(30, 3, 2, 500), 30, 3, 2)
    assert "\n" not in line and line.startswith("30 labels, 3 inputs, 2 output(s): 8 networks")

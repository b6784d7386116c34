"""Settings: bad ones are refused by name."""

import pytest

from milb.problems import PROBLEMS
from milb.protocol import SCALES, Options

SMOKE = PROBLEMS["double_well"].protocol("smoke")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"variance": "std"}, "variance must be one of 'mean', 'trace'"),
        ({"clip": "global"}, "clip must be one of"),
        ({"n_members": 0}, "n_members must be an integer >= 1"),
        ({"n_rounds": -1}, "n_rounds must be an integer >= 0"),
        ({"n_query": 2.5}, "n_query must be an integer"),
        ({"n_query": True}, "n_query must be an integer"),
        ({"block_size": 0}, "block_size"),
        ({"sbal_temperature": 0.0}, "sbal_temperature must be positive"),
        ({"max_dist_weight": -1.0}, "max_dist_weight must be a finite number, not negative"),
        ({"sbal_temperature": 1e39}, "sbal_temperature must be within 1e-30 and 1e30"),
        ({"bait_ridge": 1e-40}, "bait_ridge must be within"),
        ({"bait_ridge": 1e15}, "bait_ridge must be within 1e-12 and 1e12"),
        ({"gibbs_half": "false"}, "gibbs_half must be True or False"),
        ({"max_dist_features": "hidden"}, "max_dist_features must be one of"),
        ({"learning_rate": 0.0}, "learning_rate must be positive"),
        ({"learning_rate": float("inf")}, "learning_rate must be a finite number"),
        ({"weight_decay": float("nan")}, "weight_decay must be a finite number"),
        ({"min_steps": 20_000}, "min_steps = 20000 is more than max_steps = 10000"),
        ({"n_rounds": 1_000}, "more than n_pool"),
    ],
)
def test_refuses(change, message):
    with pytest.raises(ValueError, match=message):
        SMOKE.replace(**change)


def test_unknown_setting_is_named():
    with pytest.raises(TypeError, match="temperatur"):
        SMOKE.replace(temperatur=1)


def test_options_have_the_released_defaults():
    assert Options() == Options(
        gibbs_half=False,
        variance="mean",
        sbal_temperature=1.0,
        max_dist_weight=1.0,
        max_dist_features="means",
        block_size=256,
    )


def test_n_final():
    assert SMOKE.n_final == SMOKE.n_initial + SMOKE.n_rounds * SMOKE.n_query


@pytest.mark.parametrize("problem", PROBLEMS.values(), ids=PROBLEMS)
@pytest.mark.parametrize("scale", SCALES)
def test_every_problem_has_every_scale(problem, scale):
    assert problem.protocol(scale).n_final <= problem.protocol(scale).n_pool


def test_unknown_scale():
    with pytest.raises(ValueError, match="scale must be one of 'smoke', 'demo', 'paper', got 'huge'"):
        PROBLEMS["double_well"].protocol("huge")


def test_paper_protocol_of_the_double_well():
    """Tables (exp_protocol) and (app_dw_model_hparams)."""
    paper = PROBLEMS["double_well"].protocol("paper")
    expected = {
        "n_pool": 50_000, "n_test": 2_000, "n_initial": 100, "n_rounds": 20, "n_query": 50, "n_members": 8,
        "n_components": 8, "width": 128, "depth": 3, "batch_size": 128, "steps_per_label": 10, "max_steps": 10_000,
        "learning_rate": 5e-4, "weight_decay": 1e-2, "clip_threshold": 0.1, "clip": "released", "n_final": 1_100,
    }  # fmt: skip
    assert {name: getattr(paper, name) for name in expected} == expected

"""The ablation of the mixture head, as an ordering at smoke scale, and the published settings."""

import jax
import numpy as np
import pytest

from milb.ablation import mixture_head
from milb.problems import PROBLEMS
from milb.training import minibatch_with_replacement


@pytest.mark.exhaustive  # the smoke copies of notebooks 04 to 06 assert the same
@pytest.mark.slow
@pytest.mark.parametrize("name", PROBLEMS)
def test_one_gaussian_is_worse_than_a_mixture(name):
    table = mixture_head(PROBLEMS[name], "smoke")
    assert table["n_components"].tolist() == [1, PROBLEMS[name].protocol("paper").n_components]
    single, mixture = table["nll_mean"]
    assert mixture < single
    if name != "double_well":
        assert table["oracle_nll"].notna().all() and mixture > table["oracle_nll"][0]
    else:
        assert table["oracle_nll"].isna().all()


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("multimodal", (80_000, 128, 1e-5, 2_000, 2_000, 5e-4, 50_000, 2_000, 5)),
        ("double_well", (150_000, 256, 1e-5, 3_000, 5_000, 5e-4, 200_000, 5_000, 8)),
        ("ternary", (80_000, 128, 5e-2, 1_000, 2_000, 2e-4, 100_000, 10_000, 4)),
    ],
)
def test_published_settings(name, expected):
    p = PROBLEMS[name].offline_protocol("paper")
    assert p.min_steps == p.max_steps
    assert expected == (
        p.max_steps, p.batch_size, p.weight_decay, p.warmup_steps, p.decay_steps, p.learning_rate, p.n_pool, p.n_test,
        p.n_components,
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.exhaustive
def test_ternary_oracle_of_the_offline_set():
    problem = PROBLEMS["ternary"]
    data = problem.offline_dataset("paper")
    assert data.x.shape == (100_000, 8) and data.test_x.shape == (10_000, 8)
    oracle = -np.asarray(problem.log_prob(data.test_y, data.test_x), np.float64).mean()
    assert oracle == pytest.approx(1.3301, abs=1e-3)


def test_minibatch_with_replacement():
    rows, weights = minibatch_with_replacement(jax.random.key(0), 1_000, 50, 64)
    assert rows.shape == (64,) and rows.min() >= 0 and rows.max() < 50
    np.testing.assert_allclose(weights.sum(), 1, rtol=1e-6)

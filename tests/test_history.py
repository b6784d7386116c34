"""What a round records: of a model, of a batch, of how saturated the score is."""

import numpy as np
import pytest

from milb import history
from milb.history import COLUMNS, in_standard_deviations, selection_record, subset_of, training_record


@pytest.mark.parametrize(("n_pool", "step"), [(1, 1), (2_000, 1), (2_001, 2), (50_000, 25)])
def test_the_subset_is_every_so_manyth_row(n_pool, step):
    subset = subset_of(n_pool)
    assert subset[0] == 0 and len(subset) <= history.SUBSET and subset.max() < n_pool
    assert (np.diff(subset) == step).all()


def test_a_model_is_recorded_by_its_test_points():
    record = training_record(3, 175, np.arange(11.0))
    assert record == {"round": 3, "n": 175, "nll_mean": 5, "nll_median": 5, "nll_q10": 1, "nll_q90": 9}
    assert set(record) < set(COLUMNS)


def test_a_batch_is_recorded_among_what_could_be_picked():
    """Column 1 of x is constant, column 0 has standard deviation 2."""
    x = np.stack([np.tile([0.0, 4.0], 4), np.full(8, 7.0)], axis=1)
    x[2, 0] = 1.0
    scores, available = np.arange(8.0), np.arange(8) != 7
    saturated = np.array([[0.001, 1.0], [0.5, 0.2], [0.009, 0.9], [0.02, 0.5]])
    record = selection_record(scores, saturated, in_standard_deviations(x), np.array([6, 2, 3]), available)
    assert set(record) < set(COLUMNS)
    assert (record["score_min"], record["score_median"], record["score_max"], record["score_picked"]) == (0, 3, 6, 2)
    assert record["saturated_share"] == 0.5 and record["certificate_mean"] == pytest.approx(0.65)
    assert record["certificate_median"] == pytest.approx(0.7)
    assert record["batch_distance"] == pytest.approx(1 / x[:, 0].std())


def test_a_batch_of_one_has_no_distance_and_a_rule_without_scores_none():
    record = selection_record(None, np.zeros((2, 2)), np.zeros((4, 1)), np.array([1]), np.ones(4, bool))
    assert np.isnan(record["batch_distance"]) and "score_min" not in record and record["saturated_share"] == 1
    record = selection_record(None, np.zeros((2, 2)), np.zeros((4, 1)), np.array([1, 2]), np.ones(4, bool))
    assert record["batch_distance"] == 0

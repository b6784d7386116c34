"""Selectors in feature space: the reference's picks, direct implementations, and what nothing labelled does."""

import numpy as np
import pytest

from milb.selection import k_center, lcmd, max_dist


@pytest.fixture(scope="module")
def inputs(reference):
    data = reference("acquisition")
    return data["max_dist/scores"], data["k_center/pool_features"], data["k_center/train_features"]


def test_k_center_of_reference(reference, inputs):
    _, features, labelled = inputs
    np.testing.assert_array_equal(k_center(features, labelled, 25), reference("acquisition")["k_center/selected_25"])


@pytest.mark.parametrize("weight", [0, 1, 10])
def test_max_dist_of_reference(reference, inputs, weight):
    expected = reference("acquisition")[f"max_dist/selected_25_weight_{weight}"]
    np.testing.assert_array_equal(max_dist(*inputs, 25, weight), expected)


def direct_k_center(features, labelled, k):
    picks = []
    for _ in range(k):
        centres = np.concatenate([labelled, features[picks]])
        distance = ((features[:, None] - centres) ** 2).sum(-1).min(1)
        distance[picks] = -1
        picks.append(int(distance.argmax()))
    return picks


def direct_lcmd(features, labelled, k, weights):
    picks = []
    for _ in range(k):
        centres = np.concatenate([labelled, features[picks]])
        distances = ((features[:, None] - centres) ** 2).sum(-1)
        nearest, weighted = distances.argmin(1), weights * distances.min(1)
        sizes = [weighted[nearest == centre].sum() for centre in range(len(centres))]
        members = np.flatnonzero(nearest == np.argmax(sizes))
        picks.append(int(members[weighted[members].argmax()]))
    return picks


@pytest.mark.parametrize("seed", range(5))
def test_equal_direct_implementations(seed):
    rng = np.random.default_rng(seed)
    features, labelled = rng.normal(size=(200, 4)), rng.normal(size=(10, 4))
    weights = rng.exponential(size=200)
    assert k_center(features, labelled, 20).tolist() == direct_k_center(features, labelled, 20)
    assert lcmd(features, labelled, 20).tolist() == direct_lcmd(features, labelled, 20, np.ones(200))
    assert lcmd(features, labelled, 20, weights).tolist() == direct_lcmd(features, labelled, 20, weights)


@pytest.mark.parametrize("n", [511, 512, 513])
def test_pools_about_the_size_of_a_block(n):
    rng = np.random.default_rng(n)
    features, labelled = rng.normal(size=(n, 3)), rng.normal(size=(7, 3))
    assert k_center(features, labelled, 5).tolist() == direct_k_center(features, labelled, 5)


def four_clusters():
    corners = 10.0 * np.array([[0, 0], [1, 0], [0, 1], [1, 1]])
    return np.repeat(corners, 5, axis=0) + np.random.default_rng(0).normal(size=(20, 2))


def test_four_clusters_and_nothing_labelled_get_one_pick_each():
    features, nothing = four_clusters(), np.zeros((0, 2))
    scores = np.random.default_rng(1).random(20)
    for picks in (
        k_center(features, nothing, 4),
        lcmd(features, nothing, 4),
        max_dist(scores, features, nothing, 4, 0.0),
    ):
        assert sorted((np.asarray(picks) // 5).tolist()) == [0, 1, 2, 3]


def test_first_picks_with_nothing_labelled():
    features, nothing = four_clusters(), np.zeros((0, 2))
    scores = np.random.default_rng(1).random(20)
    farthest = ((features - features.mean(0)) ** 2).sum(1).argmax()
    assert k_center(features, nothing, 1)[0] == lcmd(features, nothing, 1)[0] == farthest
    assert max_dist(scores, features, nothing, 1)[0] == scores.argmax()
    empty_buffer = np.zeros((3, 2)), np.zeros(3, bool)
    assert k_center(features, empty_buffer[0], 1, None, empty_buffer[1])[0] == farthest


def test_max_dist_does_not_depend_on_units():
    scores, features = np.random.default_rng(1).random(20), four_clusters()
    labelled, units = features[:2] + 0.1, np.array([1e-3, 1e3])
    plain = max_dist(scores, features, labelled, 6)
    np.testing.assert_array_equal(max_dist(7 * scores - 3, features * units, labelled * units, 6), plain)


def test_score_weight_pulls_towards_scores():
    scores, features = np.random.default_rng(1).random(200), np.random.default_rng(2).normal(size=(200, 3))
    means = [scores[np.asarray(max_dist(scores, features, features[:5], 20, weight))].mean() for weight in (0, 1, 100)]
    assert means[0] < means[1] < means[2]


@pytest.mark.parametrize("ratio", [1e10, 1e19, 1e30])
def test_max_dist_does_not_depend_on_the_unit_of_a_feature(ratio, inputs):
    scores, features, labelled = inputs
    unit = np.ones(features.shape[1], np.float32)
    unit[0] = ratio
    expected = max_dist(scores, features, labelled, 8)
    np.testing.assert_array_equal(max_dist(scores, features * unit, labelled * unit, 8), expected)


@pytest.mark.parametrize("ratio", [1e29, 1e35])
def test_max_dist_beside_a_feature_that_is_0_everywhere(ratio, inputs):
    scores, features, labelled = inputs
    none, labelled_none = np.zeros((len(features), 1), np.float32), np.zeros((len(labelled), 1), np.float32)
    unit = np.float32([ratio] + [1] * (features.shape[1] - 1))
    wide, labelled_wide = (
        np.hstack([rows * unit, zeros]) for rows, zeros in ((features, none), (labelled, labelled_none))
    )
    np.testing.assert_array_equal(max_dist(scores, wide, labelled_wide, 8), max_dist(scores, features, labelled, 8))


def test_weights_beyond_all_measure_overflow_nothing(inputs):
    scores, features, labelled = inputs
    np.testing.assert_array_equal(
        max_dist(scores, features, labelled, 8, 1e30), max_dist(scores, features, labelled, 8, 1e15)
    )
    weights = np.exp(scores)
    expected = lcmd(features, labelled, 8, weights)
    for unit in (1e-37, 1e30):
        np.testing.assert_array_equal(lcmd(features, labelled, 8, (weights * unit).astype(np.float32)), expected)


@pytest.mark.parametrize("weight", [-1.0, np.nan, np.inf, 1e31])
def test_max_dist_refuses_weight(weight, inputs):
    with pytest.raises(ValueError, match="score_weight must be 0 or more"):
        max_dist(*inputs, 5, weight)


def test_refuse_other_lengths(inputs):
    scores, features, labelled = inputs
    with pytest.raises(ValueError, match=r"one N|shape"):
        max_dist(scores[:-1], features, labelled, 5)
    with pytest.raises(ValueError, match=r"one N|shape"):
        lcmd(features, labelled, 5, scores[:-1])
    with pytest.raises(ValueError, match="weights must not be negative"):
        lcmd(features, labelled, 5, -np.ones(len(features)))


@pytest.mark.parametrize("unit", [1e-25, 1e-10, 1e10, 1e20, 1e30])
def test_picks_do_not_depend_on_the_unit_of_features(unit):
    features = np.random.default_rng(0).normal(size=(40, 3)).astype(np.float32)
    scaled = (features * np.float32(unit)).astype(np.float32)
    for select in (k_center, lcmd):
        np.testing.assert_array_equal(select(scaled, scaled[:2], 6), select(features, features[:2], 6))


@pytest.mark.parametrize("dtype", [int, np.uint8, np.float16, bool])
def test_features_of_any_real_type(dtype):
    features = np.random.default_rng(0).integers(0, 2 if dtype is bool else 100, (30, 4)).astype(dtype)
    scores = np.arange(30)
    for select in (k_center, lcmd, lambda *arguments: max_dist(scores, *arguments)):
        expected = select(features.astype(np.float32), features[:2].astype(np.float32), 5)
        np.testing.assert_array_equal(select(features, features[:2], 5), expected)


def test_refuse_features_without_columns():
    with pytest.raises(ValueError, match="at least one column"):
        k_center(np.zeros((4, 0)), np.zeros((1, 0)), 1)

"""BAIT by its algebra: equal to the reference and to the definition, worked out with its matrices in float64."""

import jax
import numpy as np
import pytest

from milb import acquisition
from milb.mixture import Mixture
from milb.selection import bait

pytestmark = pytest.mark.slow


def by_definition(c, z, labelled_c, labelled_z, k, ridge, available=None):
    """Picks, and the smallest relative difference between the best and the second best gain on the way."""
    dimension = c.shape[1] * z.shape[1]
    pool, labels = (
        np.einsum("nh,nc->nhc", z, c).reshape(len(c), dimension) for c, z in ((c, z), (labelled_c, labelled_z))
    )
    left = np.ones(len(c), bool) if available is None else available.copy()
    unlabelled = pool[left].T @ pool[left] / left.sum()
    scaled = pool * np.sqrt(k / (len(labels) + k))
    matrix = ridge * np.eye(dimension) + len(labels) / (len(labels) + k) * labels.T @ labels
    picks, margins = [], [np.inf]

    def best(gains):
        order = np.argsort(-gains)
        if len(order) > 1 and np.isfinite(gains[order[1]]):
            margins.append(abs((gains[order[0]] - gains[order[1]]) / gains[order[0]]))
        return order[0]

    def products(rows):
        inverse = np.linalg.inv(matrix)
        a, b = ((rows @ m * rows).sum(1) for m in (inverse, inverse @ unlabelled @ inverse))
        return a, b

    for _ in range(min(2 * k, left.sum())):
        a, b = products(scaled)
        row = best(np.where(left, b / (1 + a), -np.inf))
        picks.append(int(row))
        left[row] = False
        matrix = matrix + np.outer(scaled[row], scaled[row])
    while len(picks) > k:
        a, b = products(scaled[picks])
        row = picks.pop(best(b / (a - 1)))
        matrix = matrix - np.outer(scaled[row], scaled[row])
    return picks, min(margins)


@pytest.mark.parametrize("ridge", ["1", "0.001"])
def test_reference(reference, ridge):
    data = reference("acquisition")
    pool, labelled = data["bait/pool_embeddings"], data["bait/train_embeddings"]
    picks = bait(
        pool, np.ones((len(pool), 1)), labelled, np.ones((len(labelled), 1)), int(data["bait/k"]), float(ridge)
    )
    assert set(np.asarray(picks).tolist()) == set(data[f"bait/selected_lambda_{ridge}"].tolist())


# (N, KD, h, n_labelled, k): those of few dimensions go the direct way, the others by products between points.
SHAPES = [
    (100, 6, 5, 20, 10), (150, 10, 9, 6, 5), (30, 2, 2, 3, 20), (120, 16, 8, 0, 6), (80, 8, 4, 40, 8),
    (40, 3, 2, 5, 4), (60, 4, 1, 0, 7), (120, 12, 16, 30, 9), (20, 20, 20, 10, 12), (700, 8, 30, 10, 3),
]  # fmt: skip


@pytest.mark.sample(6)
@pytest.mark.parametrize("ridge", [1.0, 1e-3])
@pytest.mark.parametrize("shape", SHAPES)
def test_equals_the_definition(shape, ridge):
    n, kd, h, n_labelled, k = shape
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=size) for size in ((n, kd), (n, h), (n_labelled, kd), (n_labelled, h))]
    picks, margin = by_definition(*arrays, k, ridge)
    assert margin > 5e-5, "the case must have distinct gains"
    assert np.asarray(bait(*arrays, k, ridge)).tolist() == picks


@pytest.mark.parametrize("shape", [(60, 3, 2, 8, 5), (60, 12, 16, 8, 5)])
def test_masks_leave_rows_out(shape):
    n, kd, h, n_labelled, k = shape
    rng = np.random.default_rng(1)
    c, z, lc, lz = (rng.normal(size=size) for size in ((n, kd), (n, h), (n_labelled, kd), (n_labelled, h)))
    available = rng.random(n) < 0.5
    picks, _ = by_definition(c, z, lc, lz, k, 1.0, available)
    padded = [np.concatenate([a, np.full((6, a.shape[1]), np.nan)]) for a in (lc, lz)]
    c[~available] = np.nan
    masked = bait(c, z, *padded, k, available=available, labelled_mask=np.arange(n_labelled + 6) < n_labelled)
    assert np.asarray(masked).tolist() == picks


@pytest.mark.parametrize("shape", [(12, 3, 2, 2, 10), (12, 12, 16, 2, 10)])
def test_fewer_rows_available_than_the_forward_pass_adds(shape):
    n, kd, h, n_labelled, k = shape
    rng = np.random.default_rng(2)
    c, z, lc, lz = (rng.normal(size=size) for size in ((n, kd), (n, h), (n_labelled, kd), (n_labelled, h)))
    available = np.arange(n) != 4
    picks, _ = by_definition(c, z, lc, lz, k, 1.0, available)
    assert np.asarray(bait(c, z, lc, lz, k, available=available)).tolist() == picks


def test_embedding_of_reference(reference):
    data = {name: reference("acquisition")[f"bait_embedding/{name}"] for name in (
        "logits", "means", "variances", "features", "output_std", "sampled_y", "embedding")}  # fmt: skip
    mixture = Mixture.from_logits(data["logits"], data["means"], data["variances"])
    coefficients = acquisition.fisher_coefficients(
        mixture, jax.numpy.asarray(data["sampled_y"]), jax.numpy.asarray(data["output_std"])
    )
    embedding = np.einsum("nh,nc->nhc", data["features"], np.asarray(coefficients)).reshape(data["embedding"].shape)
    error = np.abs(embedding - data["embedding"]) / (1 + np.abs(data["embedding"]))
    assert error.max() < 2e-5


def test_no_array_of_the_embedding_by_the_pool():
    n, kd, h = 4_000, 40, 100
    arrays = [jax.ShapeDtypeStruct(shape, np.float32) for shape in ((n, kd), (n, h), (50, kd), (50, h))]
    compiled = jax.jit(lambda *arrays: bait(*arrays, 5)).lower(*arrays).compile()
    assert compiled.memory_analysis().temp_size_in_bytes < n * kd * h * 4 / 4


GOOD = tuple(np.ones(shape, np.float32) for shape in ((5, 3), (5, 2), (4, 3), (4, 2)))


@pytest.mark.parametrize(
    ("index", "array", "message"),
    [
        (0, np.ones((6, 3)), r"coefficients must be \(rows, KD\)"),
        (1, np.ones(5), r"features \(rows, h\)"),
        (2, np.ones((4, 2)), "same KD and h"),
        (3, np.ones((3, 2)), "labelled_coefficients"),
        (0, np.full((5, 3), np.nan), "pool row 0 is not"),
        (3, np.full((4, 2), np.inf), "labelled row 0 is not"),
    ],
)
def test_refuses_arrays(index, array, message):
    arrays = list(GOOD)
    arrays[index] = array
    with pytest.raises(ValueError, match=message):
        bait(*arrays, 2)


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"ridge": 0.0}, "ridge must be within 1e-12 and 1e12, got 0.0"),
        ({"ridge": "1"}, "ridge must be within 1e-12 and 1e12, got '1'"),
        ({"ridge": 10**400}, "ridge must be within 1e-12 and 1e12, got 1000"),
        ({"ridge": np.nan}, "ridge must be within"),
        ({"ridge": 1e20}, "ridge must be within"),
        ({"oversample": 0}, "oversample must be an integer >= 1"),
        ({"oversample": 1.5}, "oversample must be an integer >= 1"),
        ({"labelled_mask": np.ones(5, bool)}, "labelled_mask must be a boolean mask"),
    ],
)
def test_refuses_settings(keywords, message):
    with pytest.raises(ValueError, match=message):
        bait(*GOOD, 2, **keywords)


def test_float64_takes_the_branch_of_products_too():
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=shape) for shape in ((30, 8), (30, 9), (4, 8), (4, 9))]
    with jax.enable_x64(True):
        in_float64 = np.asarray(bait(*arrays, 2))
    np.testing.assert_array_equal(in_float64, bait(*arrays, 2))

"""The double-well: equal to the published instances, and to the physics it integrates."""

import jax
import numpy as np
import pytest

from milb.problems import PROBLEMS, double_well
from milb.problems.double_well import trajectories

PROBLEM = PROBLEMS["double_well"]


def splits_of(data):
    return {
        "initial_x": data.x[:100], "initial_y": data.y[:100], "pool_x": data.x[100:], "pool_y": data.y[100:],
        "test_x": data.test_x, "test_y": data.test_y,
    }  # fmt: skip


@pytest.mark.slow
def test_first_rows_equal_reference(reference, monkeypatch):
    """The whole pool's inputs and the test set, but of the pool's trajectories only those that are looked at."""
    order = jax.random.permutation(jax.random.split(jax.random.key(0), 4)[2], 50_000)[:108]
    simulate = double_well._labels

    def labels(keys, x):
        if len(x) < 50_000:
            return simulate(keys, x)
        y = np.full((50_000, 20), np.nan)
        y[order] = simulate(keys[order], x[order])
        return y

    monkeypatch.setattr(double_well, "_labels", labels)
    data = PROBLEM._make_dataset(0, 50_000, 2_000, 100)
    for name, values in splits_of(data).items():
        expected = reference("instances")[f"double_well/seed0/{name}_head"]
        np.testing.assert_allclose(values[:8], expected, atol=1e-4, err_msg=name)


@pytest.mark.exhaustive
@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_instance_equals_reference(reference, seed):
    instances = reference("instances")
    data = PROBLEM.dataset(seed)
    for name, values in splits_of(data).items():
        expected = {what: instances[f"double_well/seed{seed}/{name}_{what}"] for what in ("head", "mean", "std")}
        np.testing.assert_allclose(values[:8], expected["head"], atol=1e-4, err_msg=name)
        np.testing.assert_allclose(values.mean(0, dtype=np.float64), expected["mean"], atol=1e-4, err_msg=name)
        np.testing.assert_allclose(values.std(0, dtype=np.float64), expected["std"], atol=1e-4, err_msg=name)
    assert data.x.shape == (50_000, 7) and data.y.shape == (50_000, 20) and data.x.dtype == np.float32


def test_datasets_are_cached_and_cannot_be_written():
    data = PROBLEM.dataset(3, 60, 20, 10)
    assert PROBLEM.dataset(3, 60, 20, 10).x is data.x
    with pytest.raises(ValueError, match="read-only"):
        data.x[0] = 0


def test_labels_do_not_depend_on_blocks(monkeypatch):
    x = PROBLEM.sample(jax.random.key(0), 25)
    whole = PROBLEM.label(jax.random.key(1), x)
    monkeypatch.setattr(double_well, "_BLOCKS", (10,))
    np.testing.assert_allclose(PROBLEM.label(jax.random.key(1), x), whole, atol=1e-5)
    assert whole.shape == (25, 20)


def test_inputs_cover_their_ranges():
    x = np.asarray(PROBLEM.sample(jax.random.key(0), 20_000))
    for column, (low, high) in zip(x.T, [(-1.5, 1.5)] * 5 + [(0.3, 2.0), (0.0, 3.0)], strict=True):
        assert low <= column.min() < low + 0.01 and high - 0.01 < column.max() <= high


def test_without_noise_and_coupling_particles_roll_into_their_well():
    start = np.array([[-1.4, -0.5, 0.1, 0.7, 1.3]], np.float32)
    zero = np.zeros(1, np.float32)
    end = np.asarray(trajectories(jax.random.split(jax.random.key(0), 1), start, zero, zero))[0, -1]
    t = np.exp(-10.0)  # q(T)^-2 = 1 + (q0^-2 - 1) e^(-2T), the exact solution
    np.testing.assert_allclose(end, np.sign(start[0]) / np.sqrt(1 + (start[0] ** -2.0 - 1) * t), atol=2e-3)


def test_strong_coupling_binds_the_chain_and_conserves_its_mean_force():
    start = np.array([[-1.0, 1.0, -1.0, 1.0, 1.0]], np.float32)
    end = trajectories(
        jax.random.split(jax.random.key(0), 1), start, np.zeros(1, np.float32), np.full(1, 30, np.float32)
    )
    assert np.ptp(np.asarray(end)[0, -1]) < 1e-3 and np.asarray(end)[0, -1].mean() > 0.9


def test_records_are_every_so_many_steps():
    keys = jax.random.split(jax.random.key(0), 3)
    start, sigma, kappa = np.zeros((3, 2), np.float32), np.full(3, 0.7, np.float32), np.ones(3, np.float32)
    fine = trajectories(keys, start, sigma, kappa, record_every=50)
    assert fine.shape == (3, 20, 2)
    np.testing.assert_allclose(fine[:, 4::5], trajectories(keys, start, sigma, kappa), atol=1e-5)


def test_kramers_escape_fills_both_wells_with_noise():
    """Figure (dw_phase_transition): trapped at 0.3, both wells at 0.7, beyond the wells from 1 on."""
    share_right, share_beyond = [], []
    for sigma in (0.3, 0.7, 1.5):
        keys = jax.random.split(jax.random.key(0), 4_000)
        one = np.ones(4_000, np.float32)
        end = np.asarray(trajectories(keys, -0.5 * one[:, None], sigma * one, 0 * one))[:, -1, 0]
        share_right.append((end > 0).mean())
        share_beyond.append((np.abs(end) > 1.5).mean())
    assert share_right[0] < 0.05 < 0.2 < share_right[1] < share_right[2] < 0.55
    assert share_beyond[0] < 0.001 and share_beyond[2] > 0.1


def test_no_closed_form_density():
    assert PROBLEM.log_prob(np.zeros((1, 20), np.float32), np.zeros((1, 7), np.float32)) is None


def test_names():
    assert PROBLEM.n_inputs == 7 and PROBLEM.n_outputs == 20
    assert (
        PROBLEM.input_names[0] == "q1(0)"
        and PROBLEM.output_names[0] == "q1(1.25)"
        and PROBLEM.output_names[-1] == "q5(5)"
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((-1,), "seed must be an integer >= 0"),
        ((0.5,), "seed must be an integer"),
        ((2**32,), r"seed must be below 2\*\*32"),
        ((0, 0), "n_pool must be an integer >= 1"),
        ((0, 50, 10, 51), "n_initial = 51 rows do not fit"),
        ((0, 50, 10, 0), "n_initial must be an integer >= 1"),
    ],
)
def test_dataset_refuses(arguments, message):
    with pytest.raises(ValueError, match=message):
        PROBLEM.dataset(*arguments)


@pytest.mark.parametrize(
    ("x", "message"),
    [(np.zeros((3, 6)), r"shape \(n, 7\)"), (np.zeros(7), "shape"), (np.full((2, 7), np.nan), "row 0")],
)
def test_label_refuses(x, message):
    with pytest.raises(ValueError, match=message):
        PROBLEM.label(jax.random.key(0), x)


def test_no_inputs_no_labels():
    assert PROBLEM.label(jax.random.key(0), np.zeros((0, 7))).shape == (0, 20)

"""Multimodal and ternary: equal to the published instances, with oracles that are right."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from milb.problems import PROBLEMS
from milb.problems.ternary import Ternary, composition_grid

SEEDS = {"multimodal": [0, 1, 2, 3, 4, 42], "ternary": [0, 1, 2, 3, 4]}
ORACLES = {
    "multimodal": dict(zip(SEEDS["multimodal"], [23.10, 23.13, 23.01, 22.92, 23.07, 22.98], strict=True)),
    "ternary": dict(zip(SEEDS["ternary"], [1.324, 1.324, 1.302, 1.352, 1.339], strict=True)),
}
INSTANCES = sorted(((name, seed) for name, seeds in SEEDS.items() for seed in seeds), key=lambda instance: instance[1])
instances = pytest.mark.parametrize(("name", "seed"), INSTANCES)
problems = pytest.mark.parametrize("problem", [PROBLEMS[name] for name in SEEDS], ids=SEEDS)


@pytest.mark.slow
@pytest.mark.sample(2)
@instances
def test_instance_equals_reference(reference, name, seed):
    data = PROBLEMS[name].dataset(seed)
    splits = {
        "initial_x": data.x[:100], "initial_y": data.y[:100], "pool_x": data.x[100:], "pool_y": data.y[100:],
        "test_x": data.test_x, "test_y": data.test_y,
    }  # fmt: skip
    for split, values in splits.items():
        head, mean, std = (
            reference("instances")[f"{name}/seed{seed}/{split}_{what}"] for what in ("head", "mean", "std")
        )
        np.testing.assert_allclose(values[:8], head, atol=1e-4, err_msg=split)
        np.testing.assert_allclose(values.mean(0, dtype=np.float64), mean, atol=1e-4, err_msg=split)
        np.testing.assert_allclose(values.std(0, dtype=np.float64), std, atol=1e-4, err_msg=split)


@pytest.mark.slow
@pytest.mark.sample(2)
@instances
def test_oracle_equals_reference_and_the_paper(reference, name, seed):
    oracle = PROBLEMS[name].oracle_nll(seed)
    assert oracle == pytest.approx(float(reference("instances")[f"{name}/seed{seed}/oracle_nll"]), abs=1e-4)
    assert oracle == pytest.approx(ORACLES[name][seed], abs=0.006 if name == "multimodal" else 6e-4)


def test_multimodal_parameters_equal_reference(reference):
    names = {
        "distribution/Omega": "frequencies", "distribution/phi": "phases", "distribution/B": "means",
        "distribution/C": "log_variances", "distribution/c": "offsets", "distribution/V": "directions",
        "manifold/A": "manifold", "manifold/b": "manifold_shift",
    }  # fmt: skip
    for theirs, ours in names.items():
        expected = reference("instances")[f"multimodal/{theirs}"]
        np.testing.assert_allclose(getattr(PROBLEMS["multimodal"].parameters, ours), expected, atol=1e-4)


def test_multimodal_components_equal_reference(reference):
    problem, data = PROBLEMS["multimodal"], reference("instances")
    mixture = problem.components(problem.dataset(42).test_x[:8])
    np.testing.assert_allclose(np.exp(mixture.log_weights), data["multimodal/seed42/test_head_weights"], atol=1e-4)
    np.testing.assert_allclose(mixture.means, data["multimodal/seed42/test_head_means"], atol=1e-4)
    np.testing.assert_allclose(np.log(mixture.variances), data["multimodal/seed42/test_head_log_variances"], atol=1e-4)
    np.testing.assert_allclose(mixture.mean(), 0, atol=1e-4)


def test_multimodal_has_one_mode_inside_the_radius_and_several_outside():
    problem = PROBLEMS["multimodal"]
    x = np.zeros((2, 10), np.float32)
    x[1, :4] = 0.95
    weights = np.exp(problem.components(x).log_weights)
    assert weights[0, 0] > 0.9 and weights[1, 0] < 0.3
    np.testing.assert_allclose(problem.gate(jnp.asarray(x)), [0, 1], atol=1e-2)


def test_ternary_system_equals_reference(reference):
    names = {
        "H": "hessian", "b": "bias", "c_mu": "mean_slope", "d_mu": "mean_offset", "omega_mu": "mean_frequency",
        "e_sigma": "log_variance_slope", "f_sigma": "log_variance_offset", "W_proc": "process",
    }  # fmt: skip
    for theirs, ours in names.items():
        expected = reference("instances")[f"ternary/system/{theirs}"]
        np.testing.assert_allclose(getattr(PROBLEMS["ternary"].system, ours), expected, atol=1e-4)


def test_composition_grid():
    np.testing.assert_allclose(composition_grid(1), [[0, 0, 1], [0, 1, 0], [1, 0, 0]])
    grid = composition_grid(200)
    assert grid.shape == (20_301, 3) and grid.min() == 0
    np.testing.assert_allclose(grid.sum(axis=1), 1, rtol=1e-6)
    with pytest.raises(ValueError, match="n must be at least 1, got 0"):
        composition_grid(0)


def masses(problem):
    weights = np.exp(problem.phase_log_weights(jnp.asarray(composition_grid(200))))
    return weights.mean(0, dtype=np.float64), [(weights.max(1) < share).mean() for share in (0.5, 0.7, 0.8)]


def test_only_the_energy_without_one_half_gives_the_papers_phase_masses(reference):
    mass, boundary = masses(PROBLEMS["ternary"])
    np.testing.assert_allclose(mass, reference("instances")["ternary/simplex_grid_phase_mass"], atol=1e-4)
    np.testing.assert_allclose(boundary, reference("instances")["ternary/boundary_fraction_at_0.5_0.7_0.8"], atol=1e-4)
    np.testing.assert_allclose(sorted(mass), [0.0738, 0.1884, 0.2560, 0.4818], atol=2e-4)
    np.testing.assert_allclose(boundary, [0.0114, 0.1140, 0.1760], atol=4e-4)

    mass, boundary = masses(Ternary(gibbs_half=True))
    np.testing.assert_allclose(sorted(mass), [0.082, 0.211, 0.244, 0.463], atol=1e-3)
    assert boundary[1] == pytest.approx(0.128, abs=1e-3)


def test_gibbs_half_is_an_option_of_the_protocol():
    problem = PROBLEMS["ternary"]
    protocol = problem.protocol("smoke")
    assert problem.configured(protocol) is problem
    assert problem.configured(protocol.replace(gibbs_half=True)).gibbs_half
    with pytest.raises(ValueError, match="goes with"):
        Ternary(gibbs_half=True).configured(protocol)
    x = problem.sample(jax.random.key(0), 200)
    half = problem.configured(protocol.replace(gibbs_half=True)).components(x)
    assert np.abs(np.exp(half.log_weights) - np.exp(problem.components(x).log_weights)).max() > 0.1


@pytest.mark.sample(1)
@problems
def test_labels_follow_the_density(problem):
    x = np.asarray(problem.sample(jax.random.key(0), 1))
    y = np.asarray(problem.label(jax.random.key(1), np.repeat(x, 20_000, axis=0)))
    mixture = problem.components(x)
    error = np.sqrt(np.asarray(mixture.variance())[0] / len(y))
    assert (np.abs(y.mean(0) - np.asarray(mixture.mean())[0]) < 5 * error).all()
    np.testing.assert_allclose(y.var(0), np.asarray(mixture.variance())[0], rtol=0.1)


@problems
def test_log_prob_is_a_normalised_density(problem):
    """E over draws of one component's density over the mixture's is that component's share of the integral: 1."""
    x = np.asarray(problem.sample(jax.random.key(0), 1))
    mixture = problem.components(x)
    y = np.asarray(problem.label(jax.random.key(1), np.repeat(x, 20_000, axis=0)), np.float64)
    top = int(np.argmax(mixture.log_weights[0]))
    means, variances = np.asarray(mixture.means)[0, top], np.asarray(mixture.variances)[0, top]
    log_component = stats.norm.logpdf(y, means, np.sqrt(variances)).sum(1)
    ratio = np.exp(log_component - np.asarray(problem.log_prob(y, np.repeat(x, len(y), axis=0))))
    assert ratio.mean() == pytest.approx(1, abs=5 * ratio.std() / np.sqrt(len(y)) + 1e-3)


def test_inputs_lie_where_they_should():
    x = np.asarray(PROBLEMS["multimodal"].sample(jax.random.key(0), 1_000))
    assert np.abs(x).max() <= 1
    latents = np.linalg.lstsq(
        np.asarray(PROBLEMS["multimodal"].parameters.manifold),
        (np.arctanh(np.clip(x, -0.99999, 0.99999)) - np.asarray(PROBLEMS["multimodal"].parameters.manifold_shift)).T,
        rcond=None,
    )[0]
    assert latents.shape == (4, 1_000) and np.median(np.abs(latents)) == pytest.approx(0.674, abs=0.05)
    x = np.asarray(PROBLEMS["ternary"].sample(jax.random.key(0), 1_000))
    assert (x[:, :2] >= 0).all() and (x[:, :2].sum(1) <= 1).all() and np.abs(x[:, 2:]).max() <= 1


@problems
@pytest.mark.parametrize("shape", [(3,), (3, 2), (1, 3, 10)])
def test_wrong_shapes(problem, shape):
    for call in (lambda x: problem.label(jax.random.key(0), x), problem.components):
        with pytest.raises(ValueError, match="x must have shape"):
            call(np.zeros(shape))
    with pytest.raises(ValueError, match="y must have shape"):
        problem.log_prob(np.zeros(3), np.zeros((3, problem.n_inputs)))


def test_published_protocols():
    """Tables (app_multimodal_model_hparams) and (app_ternary_model_hparams)."""
    expected = {
        "multimodal": {
            "n_rounds": 20, "n_query": 50, "n_components": 5, "width": 128, "depth": 2, "batch_size": 128,
            "steps_per_label": 10, "min_steps": 0, "max_steps": 10_000, "learning_rate": 5e-4, "weight_decay": 1e-2,
            "n_final": 1_100,
        },
        "ternary": {
            "n_rounds": 30, "n_query": 15, "n_components": 4, "width": 64, "depth": 2, "batch_size": 64,
            "steps_per_label": 200, "min_steps": 2_000, "max_steps": 40_000, "learning_rate": 2e-4,
            "weight_decay": 5e-2, "n_final": 550,
        },
    }  # fmt: skip
    shared = {"n_pool": 50_000, "n_test": 2_000, "n_initial": 100, "n_members": 8, "clip_threshold": 0.1}
    for name, numbers in expected.items():
        paper = PROBLEMS[name].protocol("paper")
        assert {field: getattr(paper, field) for field in numbers | shared} == numbers | shared

"""Training: equal to optax where optax has the piece, blind to padding, one compilation, honest errors."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from milb import training
from milb.mdn import features, initialise, predict, softplus
from milb.problems import PROBLEMS
from milb.training import ensemble_nll, fit, fit_buffer, negative_log_likelihood

pytestmark = pytest.mark.slow

PROTOCOL = PROBLEMS["double_well"].protocol("smoke").replace(n_members=2, width=8, depth=2, steps_per_label=2)


def bimodal(n, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, (n, 2)).astype(np.float32)
    y = np.sign(rng.normal(size=(n, 1))) * (2 + x[:, :1]) + 0.1 * rng.normal(size=(n, 1))
    return x, np.concatenate([y, 100 + 10 * y], axis=1).astype(np.float32)


@pytest.fixture(scope="module")
def ensemble():
    return fit(jax.random.key(0), *bimodal(60), PROTOCOL)


def test_prediction_has_members_points_components(ensemble):
    members = predict(ensemble, bimodal(5)[0])
    assert members.log_weights.shape == (2, 5, 3) and members.means.shape == (2, 5, 3, 2)
    np.testing.assert_allclose(np.exp(members.log_weights).sum(-1), 1, rtol=1e-5)
    assert (members.variances > 0).all()
    assert features(ensemble, bimodal(5)[0]).shape == (2, 5, 8)


def test_features_are_linear_and_feed_the_heads(ensemble):
    x = bimodal(5)[0]
    heads = ensemble.parameters["params"]["logits"]
    logits = jnp.einsum("ebh,ehkl->ebkl", features(ensemble, x), heads["kernel"]) + heads["bias"][:, None]
    expected = jax.nn.log_softmax(logits[..., 0], axis=-1)
    np.testing.assert_allclose(predict(ensemble, x).log_weights, expected, rtol=1e-4, atol=1e-5)
    assert (features(ensemble, x) < -0.2).any()  # GELU never is


def test_initialisation_is_lecun_normal_with_zero_biases():
    members = initialise(jax.random.key(0), training.MixtureDensityNetwork(64, 3, 5, 4), n_members=16, n_inputs=32)[
        "params"
    ]
    for name, fan_in in (("layers_0", 32), ("layers_1", 64), ("means", 64), ("variances", 64), ("logits", 64)):
        assert np.std(members[name]["kernel"]) == pytest.approx(fan_in**-0.5, rel=0.05)
        assert not members[name]["bias"].any()
    assert not np.allclose(members["means"]["kernel"][0], members["means"]["kernel"][1])


def test_softplus_is_right_to_rounding_with_its_derivatives():
    x = jnp.concatenate([jnp.linspace(-87, 30, 20_001), jnp.array([0.0, -1e-30, 88.0])])
    u = np.exp(-np.abs(np.asarray(x, float)))
    exact = np.maximum(np.asarray(x, float), 0) + np.log1p(u)
    np.testing.assert_allclose(softplus(x), exact, rtol=3e-7)
    np.testing.assert_allclose(jax.jit(softplus)(x), exact, rtol=3e-7)
    np.testing.assert_allclose(jax.vmap(jax.grad(softplus))(x), np.where(x >= 0, 1, u) / (1 + u), rtol=1e-6)
    assert jax.grad(jax.grad(softplus))(jnp.zeros(())) == 0.25
    np.testing.assert_array_equal(softplus(jnp.array([-jnp.inf, jnp.inf, jnp.nan])), [0, np.inf, np.nan])


def test_training_learns():
    x, y = bimodal(300)
    test_x, test_y = bimodal(500, seed=1)
    long = PROTOCOL.replace(steps_per_label=10, max_steps=3_000, learning_rate=5e-3, width=16)
    start = fit(jax.random.key(0), x, y, long.replace(max_steps=1))
    assert ensemble_nll(fit(jax.random.key(0), x, y, long), test_x, test_y) < ensemble_nll(start, test_x, test_y) - 1


def test_nll_is_of_the_mixture_of_members(ensemble):
    x, y = bimodal(50, seed=2)
    member_density = np.exp(np.asarray(predict(ensemble, x).log_prob(y[None]), np.float64))
    expected = -np.log(member_density.mean(0))
    np.testing.assert_allclose(negative_log_likelihood(ensemble, x, y), expected, rtol=1e-4)
    assert ensemble_nll(ensemble, x, y) == pytest.approx(expected.mean(), rel=1e-4)


def test_rows_behind_the_labels_are_never_looked_at():
    x, y = bimodal(50)
    padded_x, padded_y = (np.concatenate([a, np.full((30, 2), np.nan, np.float32)]) for a in (x, y))
    plain, padded = fit(jax.random.key(0), x, y, PROTOCOL), fit(jax.random.key(0), padded_x, padded_y, PROTOCOL, 50)
    for a, b in zip(jax.tree.leaves(plain), jax.tree.leaves(padded), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4)


def test_same_key_same_model_other_key_other_model(ensemble):
    again, other = (fit(jax.random.key(k), *bimodal(60), PROTOCOL) for k in (0, 1))
    for a, b in zip(jax.tree.leaves(ensemble), jax.tree.leaves(again), strict=True):
        np.testing.assert_array_equal(a, b)
    assert not np.allclose(
        ensemble.parameters["params"]["means"]["kernel"], other.parameters["params"]["means"]["kernel"]
    )


def test_one_compilation_for_every_number_of_labels():
    x, y = bimodal(64)
    fit_buffer.clear_cache()
    for n in (5, 20, 64):
        fit(jax.random.key(n), x, y, PROTOCOL, n)
    assert fit_buffer._cache_size() == 1


@pytest.mark.parametrize("steps", [1, 4, 50, 1_000, 10_000])
def test_learning_rate_equals_optax(steps):
    protocol = PROTOCOL.replace(learning_rate=5e-4)
    warmup = min(500, steps // 5)
    schedule = optax.warmup_exponential_decay_schedule(0.0, 5e-4, warmup, 2_000, 0.9)
    for t in {0, 1, warmup - 1, warmup, warmup + 1, steps - 1}:
        if t >= 0:
            expected = schedule(t) if warmup else 5e-4 * 0.9 ** (t / 2_000)
            assert training.learning_rate(t, steps, protocol) == pytest.approx(float(expected), rel=1e-5, abs=1e-12)


@pytest.mark.parametrize(("n", "steps"), [(1, 40), (30, 60), (500, 800)])
def test_steps_follow_the_labels(n, steps):
    assert training.n_steps(n, PROTOCOL.replace(steps_per_label=2, min_steps=40, max_steps=800)) == steps


def test_one_training_step_equals_optax_adamw():
    """The whole update of one step against optax's own AdamW and clip, on a full batch."""
    x, y = bimodal(8)
    protocol = PROTOCOL.replace(clip="member", n_members=1, steps_per_label=1, max_steps=1, warmup_steps=0)
    trained = fit(jax.random.key(0), x, y, protocol)
    init_key, _ = jax.random.split(jax.random.key(0))
    start = jax.tree.map(lambda leaf: leaf[0], initialise(init_key, trained.network, 1, 2))

    def loss(parameters):
        heads = trained.network.apply(parameters, trained.inputs(jnp.asarray(x)))
        mixture = training.Mixture(jax.nn.log_softmax(heads.logits[..., 0], -1), heads.means, heads.variances + 1e-8)
        return -mixture.log_prob(trained.outputs(jnp.asarray(y))).mean()

    optimiser = optax.chain(optax.adaptive_grad_clip(0.1), optax.adamw(protocol.learning_rate, weight_decay=1e-2))

    @jax.jit
    def step(parameters):
        updates, _ = optimiser.update(jax.grad(loss)(parameters), optimiser.init(parameters), parameters)
        return optax.apply_updates(parameters, updates)

    expected = step(start)
    for a, b in zip(jax.tree.leaves(trained.parameters), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a[0], b, rtol=1e-4, atol=2e-6)


@pytest.mark.parametrize(("n_labelled", "in_batch"), [(3, 3), (16, 16), (40, 16), (64, 16)])
def test_minibatch(n_labelled, in_batch):
    rows, weights = training.minibatch(jax.random.key(0), 64, n_labelled, 16)
    counted = np.asarray(rows)[np.asarray(weights) > 0]
    assert len(counted) == len(set(counted.tolist())) == in_batch and counted.max() < n_labelled
    np.testing.assert_allclose(weights.sum(), 1, rtol=1e-6)


def test_minibatches_are_uniform():
    keys = jax.random.split(jax.random.key(0), 4_000)
    rows = jax.vmap(lambda key: training.minibatch(key, 30, 20, 5)[0])(keys)
    counts = np.bincount(np.asarray(rows).ravel(), minlength=30)
    assert counts[20:].sum() == 0 and np.abs(counts[:20] - 1_000).max() < 5 * np.sqrt(1_000)


def test_standardisation_is_of_the_labels():
    x, y = bimodal(40)
    ensemble = fit(jax.random.key(0), x, y, PROTOCOL, 25)
    np.testing.assert_allclose(ensemble.outputs.mean, y[:25].mean(0), rtol=1e-5)
    np.testing.assert_allclose(ensemble.outputs.scale, y[:25].std(0) + 1e-6, rtol=1e-5)


@pytest.mark.parametrize("value", [0.0, 1e6])
def test_constant_column_is_scaled_by_one_and_named(value):
    x, y = bimodal(20)
    x[:, 1] = value
    with pytest.warns(UserWarning, match=r"x is constant over the labels in column\(s\) \[1\]"):
        ensemble = fit(jax.random.key(0), x, y, PROTOCOL)
    assert ensemble.inputs.scale[1] == 1
    assert np.isfinite(negative_log_likelihood(ensemble, x, y)).all()


@pytest.mark.parametrize("dtype", [bool, np.int8, np.float16])
def test_columns_of_any_real_type(dtype, recwarn):
    x = np.array([[0, -100], [1, 100], [1, 50], [0, 0]]).astype(dtype)
    x[:, 1] = x[:, 1] & (x[:, 0] == 0) if dtype is bool else x[:, 1]
    ensemble = fit(jax.random.key(0), x, bimodal(4)[1], PROTOCOL)
    assert not [warning for warning in recwarn if "x " in str(warning.message)]
    np.testing.assert_allclose(ensemble.inputs.scale, x.astype(float).std(0) + 1e-6, rtol=1e-4)


@pytest.mark.parametrize("unit", [1e-12, 1e-6, 1e9])
def test_a_column_that_varies_in_any_unit_is_standardised(unit, recwarn):
    x, y = bimodal(20)
    ensemble = fit(jax.random.key(0), x * unit, y, PROTOCOL)
    assert not [warning for warning in recwarn if "constant" in str(warning.message)]
    np.testing.assert_allclose(ensemble.inputs.scale, (x * unit).std(0) + 1e-6, rtol=1e-4)


def test_inputs_in_a_unit_that_leaves_them_flat_are_named():
    x, y = bimodal(20)
    x[:, 1] *= 1e-9
    with pytest.warns(UserWarning, match=r"x has a standard deviation of .*e-10 in column\(s\) \[1\]: 1e-06 is added"):
        fit(jax.random.key(0), x, y, PROTOCOL)


@pytest.mark.parametrize(("value", "spread"), [(0.1, 0), (1e4 / 3, 0), (1712345678, 0), (3e12, 0), (1712345678, 1600)])
def test_a_column_constant_to_a_millionth_stays_small(value, spread):
    """Whatever a sum of it rounds to; a time in seconds, say."""
    column = jnp.asarray(value + np.linspace(0, spread, 549), jnp.float32)[:, None]
    standardised = training.standardise(column, jnp.ones(549, bool))(column)
    assert standardised.min() >= 0 and standardised.max() <= 1


def test_labels_in_a_unit_that_the_floor_of_variances_is_seen_in_are_named():
    x, y = bimodal(20)
    y[:, 0] *= 1e-4
    with pytest.warns(
        UserWarning, match=r"y has a standard deviation of 0.0002.* in column\(s\) \[0\].*choose a smaller"
    ):
        fit(jax.random.key(0), x, y, PROTOCOL)


def test_one_label_is_enough():
    x, y = bimodal(1)
    with pytest.warns(UserWarning, match="constant"):
        ensemble = fit(jax.random.key(0), x, y, PROTOCOL)
    assert np.isfinite(ensemble_nll(ensemble, x, y))


X, Y = bimodal(10)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((X[0], Y), r"x must be \(N, dx\)"),
        ((X, Y[:, 0]), r"y \(N, D\)"),
        ((X[:5], Y), "with one N"),
        ((X[:, :0], Y), "dx and D >= 1"),
        ((X, np.ma.masked_less(Y, 0)), "y has . masked entries: leave their rows out"),
        ((X[:0], Y[:0]), "n_labelled must be between 1"),
        ((X, Y, PROTOCOL, 0), "n_labelled must be between 1 and the buffer's 10 rows, got 0"),
        ((X, Y, PROTOCOL, 11), "got 11"),
        ((np.where(np.arange(10)[:, None] == 3, np.nan, X), Y), "x is nan in labelled row 3, column 0"),
        ((X, np.where(np.arange(10)[:, None] == 4, np.inf, Y)), "y is inf in labelled row 4, column 0"),
        (
            (X, np.where(np.arange(10)[:, None] == 5, 1e60, Y.astype(float))),
            r"y is 1e\+60 in labelled row 5, column 0: beyond 1e15",
        ),
    ],
)
def test_fit_refuses(arguments, message):
    x, y, *rest = arguments
    with pytest.raises(ValueError, match=message):
        fit(jax.random.key(0), x, y, *(rest or [PROTOCOL]))


@pytest.mark.parametrize("shape", [(2,), (4, 3), (1, 4, 2)])
def test_predict_refuses_other_inputs(ensemble, shape):
    for function in (predict, features):
        with pytest.raises(ValueError, match=r"x must have shape \(B, 2\)"):
            function(ensemble, np.zeros(shape, np.float32))


@pytest.mark.parametrize("shape", [(2,), (3, 2), (4, 1), (4, 2, 1)])
def test_nll_refuses_other_outputs(ensemble, shape):
    with pytest.raises(ValueError, match=r"y must have shape \(4, 2\)"):
        ensemble_nll(ensemble, np.zeros((4, 2), np.float32), np.zeros(shape, np.float32))

"""Bayesian neural network for classification: Z is a draw of all weights, epsilon picks the class.

    Z ~ N(m, diag(s^2)),  epsilon ~ Uniform(0, 1),  g(x; z, epsilon) = min{c : p_z(0 | x) + ... + p_z(c | x) >= epsilon}

Mean-field variational inference: m and s maximise the ELBO under a Gaussian prior of the weights. Everything about Y
is exact given z: H(Y | x, z) and I(Y; Z | x) (BALD) need draws of Z only. Classes count from 0.

Source: Blundell et al. 2015; Appendix B of the paper.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, ArrayLike, Float, Int

from milb.mdn import Standardisation
from milb.mixture import PRNGKey
from milb.two_index.decomposition import Decomposition, entropy_decomposition_categorical
from milb.two_index.fitting import Perceptron, Settings, checked_data, minimise, standardisation

INITIAL_STD = 0.02  # of a weight's posterior: small, so that training starts as that of an ordinary network
N_DRAWS = 4  # of the weights in a gradient step


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class BayesianClassifier:
    """A trained classifier; a `milb.two_index.TwoIndexModel` with class probabilities.

    Attributes:
        mean: of every weight's posterior, a pytree.
        std: likewise.
        inputs: standardisation of x.
        network: logits from standardised x (static).
    """

    mean: dict
    std: dict
    inputs: Standardisation
    network: Perceptron = field(metadata={"static": True})

    def draw_z(self, key: PRNGKey, n: int) -> Float[Array, "n n_weights"]:
        """n draws of all weights."""
        mean, std = ravel_pytree(self.mean)[0], ravel_pytree(self.std)[0]
        return mean[None] + std[None] * jax.random.normal(key, (n, len(mean)))

    def draw_epsilon(self, key: PRNGKey, n: int) -> Float[Array, "n"]:
        """Uniform on (0, 1)."""
        return jax.random.uniform(key, (n,))

    def g(self, x: Float[Array, "dx"], z: Float[Array, "n_weights"], epsilon: Float[Array, ""]) -> Int[Array, ""]:
        """The class at which the cumulated probabilities reach epsilon: the inverse distribution function."""
        below = jnp.cumsum(self.probabilities(x, z)) < epsilon
        return jnp.minimum(below.sum(), self.network.n_outputs - 1)  # a sum may fall short of 1 by rounding

    def log_prob(self, y: Int[Array, ""], x: Float[Array, "dx"], z: Float[Array, "n_weights"]) -> Float[Array, ""]:
        """log p(y | x, z) of a class."""
        return self._log_probabilities(x, z)[y]

    def probabilities(self, x: Float[Array, "dx"], z: Float[Array, "n_weights"]) -> Float[Array, "C"]:
        """p(c | x, z) of every class."""
        return jnp.exp(self._log_probabilities(x, z))

    def _log_probabilities(self, x: Array, z: Array) -> Array:
        weights = ravel_pytree(self.mean)[1](z)
        return jax.nn.log_softmax(self.network.apply(weights, self.inputs(x)))


@partial(jax.jit, static_argnames="n_z")
def class_probabilities(
    key: PRNGKey, model: BayesianClassifier, x: Float[Array, "B dx"], n_z: int = 100
) -> Float[Array, "n_z B C"]:
    """p(c | x, z) for n_z draws of Z; ValueError when x is not (B, dx) or n_z < 1."""
    if x.ndim != 2 or n_z < 1:
        raise ValueError(f"x must have shape (B, dx) and n_z be at least 1, got {x.shape} and {n_z}")
    over_x = jax.vmap(model.probabilities, in_axes=(0, None))
    return jax.vmap(over_x, in_axes=(None, 0))(x, model.draw_z(key, n_z))


def decompose_entropy(key: PRNGKey, model: BayesianClassifier, x: ArrayLike, n_z: int = 100) -> Decomposition:
    """Total, aleatoric and epistemic (BALD) entropy of the class at each row of x, (B,) each, in nats.

    Exact for the n_z draws of Z; of the continuous Z it is an estimate, whose epistemic term is at most log n_z.
    """
    return entropy_decomposition_categorical(class_probabilities(key, model, jnp.asarray(x), n_z))


def fit(
    key: PRNGKey, x: ArrayLike, labels: ArrayLike, settings: Settings, n_classes: int = 2, prior_std: float = 1.0
) -> BayesianClassifier:
    """Fit the mean-field posterior by the ELBO.

    Args:
        key: consumed here.
        x: (N, dx), raw units.
        labels: (N,), integers from 0 to n_classes - 1.
        settings: see `milb.two_index.fitting.Settings`; n_members has no meaning here.
        n_classes: C, at least 2.
        prior_std: of every weight and bias under the prior, positive.

    Raises:
        ValueError: one of these is not as said.
    """
    labels = np.asarray(labels)
    if n_classes < 2 or not prior_std > 0:
        raise ValueError(f"n_classes must be at least 2 and prior_std positive, got {n_classes} and {prior_std}")
    if labels.ndim != 1 or not np.issubdtype(labels.dtype, np.integer) or not len(labels):
        raise ValueError(f"labels must be integers of shape (N,), got {labels.dtype} of shape {labels.shape}")
    if labels.min() < 0 or labels.max() >= n_classes:
        raise ValueError(f"labels must be from 0 to {n_classes - 1}, got {labels.min()} .. {labels.max()}")
    x, _ = checked_data(x, np.stack([labels, 1 - labels], axis=1))
    return _fit(key, x, jnp.asarray(labels, jnp.int32), settings, n_classes, float(prior_std))


@partial(jax.jit, static_argnames=("settings", "n_classes", "prior_std"))
def _fit(
    key: PRNGKey, x: Array, labels: Array, settings: Settings, n_classes: int, prior_std: float
) -> BayesianClassifier:
    network = Perceptron(settings.width, settings.depth, n_classes)
    inputs = standardisation(x)
    init_key, key = jax.random.split(key)
    mean, unravel = ravel_pytree(network.init(init_key, x[:1]))
    x = inputs(x)

    def loss(parameters: tuple[Array, Array], key: PRNGKey, rows: Array, progress: Array) -> Array:
        del progress
        mean, std = parameters[0], jax.nn.softplus(parameters[1])

        def log_loss(noise: Array) -> Array:
            logits = network.apply(unravel(mean + std * noise), x[rows])
            return optax.softmax_cross_entropy_with_integer_labels(logits, labels[rows]).mean()

        ratio = std / prior_std
        divergence = (0.5 * (ratio**2 + (mean / prior_std) ** 2 - 1) - jnp.log(ratio)).sum()
        fit_term = jax.vmap(log_loss)(jax.random.normal(key, (N_DRAWS, len(mean)))).mean()
        return fit_term + divergence / len(x)

    start = (mean, jnp.full_like(mean, jnp.log(jnp.expm1(INITIAL_STD))))
    mean, std = minimise(key, loss, start, len(x), settings)
    return BayesianClassifier(unravel(mean), unravel(jax.nn.softplus(std)), inputs, network)

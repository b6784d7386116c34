"""Problems whose outputs follow a known Gaussian mixture at every input: with an oracle."""

from __future__ import annotations

from abc import abstractmethod

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float

from milb.mixture import Mixture, PRNGKey
from milb.problems.problem import Problem


class MixtureProblem(Problem):
    """A Problem that knows p(y | x): what a model can reach at best is computable."""

    @abstractmethod
    def _components(self, x: Float[Array, "n dx"]) -> Mixture:
        """p(y | x) at checked inputs."""

    def components(self, x: ArrayLike) -> Mixture:
        """p(y | x) as a Mixture with leading axis n; ValueError when x is not (n, dx) or not finite."""
        return self._components(jnp.asarray(self._checked_inputs(x)))

    def log_prob(self, y: ArrayLike, x: ArrayLike) -> Float[Array, "n"]:
        """log p(y | x) in nats at each of n points; ValueError when x or y has a wrong shape."""
        y = np.asarray(y, np.float32)
        if y.shape != (len(np.asarray(x)), self.n_outputs):
            raise ValueError(f"y must have shape ({len(np.asarray(x))}, {self.n_outputs}), got {y.shape}")
        return self.components(x).log_prob(y)

    def oracle_nll(self, seed: int, n_pool: int = 50_000, n_test: int = 2_000, n_initial: int = 100) -> float:
        """-mean of log p(y | x) over the test set of a dataset, in nats: what no model beats but by luck."""
        dataset = self.dataset(seed, n_pool, n_test, n_initial)
        return -float(np.asarray(self.log_prob(dataset.test_y, dataset.test_x), np.float64).mean())


def draw_component(key: PRNGKey, mixture: Mixture) -> Array:
    """The component of each draw, as the released experiments draw it."""
    return jax.random.categorical(key, jnp.log(jnp.exp(mixture.log_weights) + 1e-30))


def draw_within(mixture: Mixture, component: Array, noise: Float[Array, "n D"]) -> Float[Array, "n D"]:
    """y from the drawn components and standard normal noise."""
    rows = jnp.arange(len(component))
    return mixture.means[rows, component] + jnp.sqrt(mixture.variances[rows, component]) * noise

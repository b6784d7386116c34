"""Ensemble of mixture density networks, milb's own model, in the words of the framework.

    Z ~ Uniform{0 .. E - 1},  epsilon = (u, n) with u ~ Uniform(0, 1) and n ~ N(0, I_D),
    g(x; z, epsilon) = mu_i + sigma_i * n,  i = min{j : alpha_1 + ... + alpha_j >= u},

with weights alpha, means mu and standard deviations sigma of member z at x. Entropies of mixtures have no closed form
but closed-form bounds (`milb.bounds`), and nested Monte Carlo beside them.
"""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float, Int

from milb.mdn import Ensemble, predict
from milb.mixture import Mixture, PRNGKey
from milb.protocol import Protocol
from milb.training import fit_offline
from milb.two_index.fitting import Settings


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class MixtureEnsemble:
    """A trained `milb.mdn.Ensemble` as a `milb.two_index.TwoIndexModel` with a density."""

    ensemble: Ensemble

    @property
    def n_members(self) -> int:
        """E: Z is uniform on 0 .. E - 1."""
        return self.ensemble.n_members

    def draw_z(self, key: PRNGKey, n: int) -> Int[Array, "n"]:
        """n members, with replacement."""
        return jax.random.randint(key, (n,), 0, self.n_members)

    def draw_epsilon(self, key: PRNGKey, n: int) -> tuple[Float[Array, "n"], Float[Array, "n D"]]:
        """A uniform number, which picks the component, and standard normal noise."""
        component_key, noise_key = jax.random.split(key)
        noise = jax.random.normal(noise_key, (n, self.ensemble.n_outputs))
        return jax.random.uniform(component_key, (n,)), noise

    def g(self, x: Float[Array, "dx"], z: Int[Array, ""], epsilon: tuple[Array, Array]) -> Float[Array, "D"]:
        """A draw from the component that the first part of epsilon picks, raw units."""
        mixture, (uniform, noise) = self._member(x, z), epsilon
        below = jnp.cumsum(jnp.exp(mixture.log_weights)) < uniform
        component = jnp.minimum(below.sum(), mixture.n_components - 1)
        return mixture.means[component] + jnp.sqrt(mixture.variances[component]) * noise

    def log_prob(self, y: Float[Array, "D"], x: Float[Array, "dx"], z: Int[Array, ""]) -> Float[Array, ""]:
        """log p(y | x, z) in nats, raw units."""
        return self._member(x, z).log_prob(y)

    def _member(self, x: Float[Array, "dx"], z: Int[Array, ""]) -> Mixture:
        return jax.tree.map(lambda leaf: leaf[z, 0], predict(self.ensemble, x[None]))


def fit(key: PRNGKey, x: ArrayLike, y: ArrayLike, settings: Settings, n_components: int = 3) -> MixtureEnsemble:
    """`milb.training.fit_offline` with the settings of the other families.

    Args:
        key: consumed here.
        x, y: (N, dx) and (N, D), raw units.
        settings: see `milb.two_index.fitting.Settings`.
        n_components: K, of every member.

    Raises:
        ValueError: as `fit_offline`.
    """
    protocol = Protocol(
        n_pool=len(x), n_test=1, n_initial=len(x), n_rounds=0, n_query=1,
        n_members=settings.n_members, n_components=n_components, width=settings.width, depth=settings.depth + 1,
        batch_size=min(settings.batch_size, len(x)), learning_rate=settings.learning_rate, weight_decay=1e-5,
        steps_per_label=1, min_steps=settings.n_steps, max_steps=settings.n_steps, clip="member",
    )  # fmt: skip
    return MixtureEnsemble(fit_offline(key, x, y, protocol))

"""What a learner predicts: a mixture at every point, with quantiles, samples and modes in the user's units."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import ArrayLike, Float

from milb.ask_tell.modes import Modes, modes, quantiles
from milb.checks import checked_seed
from milb.mixture import Mixture
from milb.protocol import integer_at_least

FLOAT32 = np.finfo(np.float32)


@dataclass(frozen=True)
class Prediction:
    """Densities of y at B points, made by the E members of an ensemble.

    Attributes:
        standard: what each member predicts, (E, B, ...), of (y - shift) / scale.
        shift, scale: (D,), mean and standard deviation of the labels, float64.
        output_names: of the D outputs, where they have names.
    """

    standard: Mixture
    shift: Float[np.ndarray, "D"]
    scale: Float[np.ndarray, "D"]
    output_names: tuple[str, ...] | None = None

    @property
    def members(self) -> Mixture:
        """What each member predicts, in units of y: log_weights (E, B, K); float32, so offsets cost digits here.

        Raises:
            ValueError: in units of y variances or means are too large or too small for float32.
        """
        means, variances = (np.asarray(leaf, float) for leaf in (self.standard.means, self.standard.variances))
        largest = np.maximum(variances, 4 * means**2) * self.scale**2  # with what lies between components
        means, variances = self._raw(means), variances * self.scale**2
        bad = (variances < FLOAT32.tiny) | (largest > FLOAT32.max) | (np.abs(means) > FLOAT32.max)
        if bad.any():
            output = int(np.argwhere(bad)[0, -1])
            called = output if self.output_names is None else repr(self.output_names[output])
            raise ValueError(
                f"the mixture of output {called}, whose labels have mean {self.shift[output]:.3g} and standard "
                f"deviation {self.scale[output]:.3g}, does not fit into float32: use std, log_prob or quantiles, or "
                "change the units of y"
            )
        return Mixture(self.standard.log_weights, *(jnp.asarray(leaf, jnp.float32) for leaf in (means, variances)))

    @property
    def mixture(self) -> Mixture:
        """p(y | x) of the ensemble, in units of y: log_weights (B, E K); ValueError as `members`."""
        return self.members.marginal()

    @property
    def mean(self) -> Float[np.ndarray, "B D"]:
        """E[y | x]; of a density with several modes it may lie where y never is."""
        return self._raw(self._marginal.mean())

    @property
    def std(self) -> Float[np.ndarray, "B D"]:
        """Standard deviation of y at x: noise, competing modes and disagreement of the members together."""
        return np.sqrt(np.asarray(self._marginal.variance(), float)) * self.scale

    def quantiles(self, levels: Sequence[float] = (0.05, 0.5, 0.95)) -> Float[np.ndarray, "Q B D"]:
        """Quantiles of every output by itself; ValueError unless levels lie between 0 and 1."""
        levels = np.atleast_1d(np.asarray(levels, np.float32))
        if levels.ndim != 1 or not ((levels > 0) & (levels < 1)).all():
            raise ValueError(f"levels must lie between 0 and 1, got {levels}")
        return self._raw(quantiles(self._marginal, jnp.asarray(levels)))

    def samples(self, n: int, seed: int = 0) -> Float[np.ndarray, "n B D"]:
        """n independent draws at every point; ValueError unless n is an integer from 0 on, and seed one below 2**32."""
        n, key = integer_at_least(0, "n", n), jax.random.key(checked_seed("seed", seed))
        return self._raw(self._marginal.sample(key, (n,)))

    def modes(self) -> list[Modes]:
        """The peaks of the density at every point, all outputs together: where, and how much of y belongs to each.

        A peak may be small: of members that disagree, each brings its own.
        """
        return [Modes(self._raw(found.locations), found.shares) for found in modes(self._marginal)]

    def density(self, output: int, y: Float[ArrayLike, "G"]) -> Float[np.ndarray, "B G"]:
        """Density of one output by itself at G values of it, in units of 1 / y.

        Raises:
            ValueError: output is not one of 0 to D - 1, or y has another shape.
        """
        output = integer_at_least(0, "output", output)
        if output >= len(self.scale) or np.ndim(y) != 1:
            raise ValueError(
                f"output must be 0 to {len(self.scale) - 1} and y of shape (G,), got {output!r} and {np.shape(y)}"
            )
        part = jax.tree.map(lambda leaf: leaf[..., [output]], (self._marginal.means, self._marginal.variances))
        standard = (np.asarray(y, float)[None, :, None] - self.shift[output]) / self.scale[output]
        of_point = Mixture(self._marginal.log_weights[:, None], *(leaf[:, None] for leaf in part))
        return np.exp(np.asarray(of_point.log_prob(standard.astype(np.float32)), float)) / self.scale[output]

    def log_prob(self, y: ArrayLike) -> Float[np.ndarray, "B"]:
        """log p(y | x) in nats at one y a point.

        Args:
            y: (B, D), or (B,) for a single output, in units of the labels.

        Raises:
            ValueError: y has another shape.
        """
        y = np.asarray(y, float)
        y = y[:, None] if y.ndim == 1 and len(self.scale) == 1 else y
        expected = (self.standard.means.shape[1], len(self.scale))
        if y.shape != expected:
            raise ValueError(f"y must have shape {expected}, one row for each point predicted, got {y.shape}")
        standard = jnp.asarray((y - self.shift) / self.scale, jnp.float32)
        return np.asarray(self._marginal.log_prob(standard), float) - np.log(self.scale).sum()

    @property
    def _marginal(self) -> Mixture:
        return self.standard.marginal()

    def _raw(self, values: ArrayLike) -> np.ndarray:
        return np.asarray(values, float) * self.scale + self.shift

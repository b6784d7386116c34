"""What a benchmark problem is: inputs to draw, labels to ask for, a dataset of a seed, a protocol of a scale."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple

import jax
import numpy as np
from jaxtyping import Array, ArrayLike, Float

from milb.devices import cpu
from milb.mixture import PRNGKey
from milb.protocol import Options, Protocol, check_scale


class Dataset(NamedTuple):
    """Pool with the labels an oracle would give, initial labels in the first rows, and a test set; float32."""

    x: Float[np.ndarray, "N dx"]
    y: Float[np.ndarray, "N D"]
    test_x: Float[np.ndarray, "T dx"]
    test_y: Float[np.ndarray, "T D"]


class Problem(ABC):
    """A stochastic simulator y ~ p(y | x) with a distribution of inputs.

    Attributes:
        name: its key in `milb.problems.PROBLEMS`.
        input_names, output_names: one name a column.
        protocols: settings of a run for each of the scales "smoke", "demo" and "paper".
        offline_protocols, offline_seed: settings of plain supervised training on a large set, where the problem has
            some, and its dataset's seed.
    """

    name: str
    input_names: tuple[str, ...]
    output_names: tuple[str, ...]
    protocols: dict[str, Protocol]
    offline_protocols: ClassVar[dict[str, Protocol]] = {}
    offline_seed: int

    @property
    def n_inputs(self) -> int:
        """Columns of x."""
        return len(self.input_names)

    @property
    def n_outputs(self) -> int:
        """D, columns of y."""
        return len(self.output_names)

    def configured(self, options: Options) -> Problem:
        """The problem as the options of a run ask for it: itself, where none concern it."""
        return self

    @abstractmethod
    def sample(self, key: PRNGKey, n: int) -> Float[Array, "n dx"]:
        """n inputs of the pool's distribution."""

    @abstractmethod
    def label(self, key: PRNGKey, x: ArrayLike) -> Float[Array, "n D"]:
        """One draw of y at each row of x; ValueError when x is not (n, dx) or not finite."""

    def log_prob(self, y: ArrayLike, x: ArrayLike) -> Float[Array, "n"] | None:
        """log p(y | x) in nats where it is known, else None."""
        return None

    @abstractmethod
    def _make_dataset(self, seed: int, n_pool: int, n_test: int, n_initial: int) -> Dataset:
        """The dataset of a seed, from the exact random streams of the released experiments."""

    def dataset(self, seed: int, n_pool: int = 50_000, n_test: int = 2_000, n_initial: int = 100) -> Dataset:
        """The dataset of a seed, made on the CPU whatever the backend, and kept in memory.

        Another n_pool or n_test is another instance, not a part of this one.

        Args:
            seed: an integer from 0 to 2**32 - 1.
            n_pool: rows of the pool, its first n_initial included.
            n_test: rows of the test set.
            n_initial: rows labelled from the start.

        Raises:
            ValueError: a number that is not an integer in range, or n_initial > n_pool.
        """
        numbers = {"seed": (seed, 0), "n_pool": (n_pool, 1), "n_test": (n_test, 1), "n_initial": (n_initial, 1)}
        for name, (value, least) in numbers.items():
            if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
                raise ValueError(f"{name} must be an integer >= {least}, got {value!r}")
        if seed >= 2**32:
            raise ValueError(f"seed must be below 2**32, from where on streams repeat, got {seed}")
        if n_initial > n_pool:
            raise ValueError(f"n_initial = {n_initial} rows do not fit in n_pool = {n_pool}")
        return _cached_dataset(self, int(seed), int(n_pool), int(n_test), int(n_initial))

    def inputs(
        self, seed: int, n_pool: int = 50_000, n_test: int = 2_000, n_initial: int = 100
    ) -> Float[np.ndarray, "N dx"]:
        """`dataset(...).x`; without the labels where they take long and the inputs do not need them."""
        return self.dataset(seed, n_pool, n_test, n_initial).x

    def protocol(self, scale: str) -> Protocol:
        """The settings of a run; ValueError unless scale is "smoke", "demo" or "paper"."""
        check_scale(scale)
        return self.protocols[scale]

    def offline_protocol(self, scale: str) -> Protocol:
        """The settings of `milb.training.fit_offline` on this problem; ValueError as `protocol`, or for lack of any."""
        check_scale(scale)
        if scale not in self.offline_protocols:
            raise ValueError(f"{self.name} has no protocol for training offline")
        return self.offline_protocols[scale]

    def offline_dataset(self, scale: str) -> Dataset:
        """The large set that goes with `offline_protocol`, and its test set."""
        protocol = self.offline_protocol(scale)
        return self.dataset(self.offline_seed, protocol.n_pool, protocol.n_test, 1)

    def _checked_inputs(self, x: ArrayLike) -> Float[np.ndarray, "n dx"]:
        x = np.asarray(x, np.float32)
        if x.ndim != 2 or x.shape[1] != self.n_inputs:
            raise ValueError(f"x must have shape (n, {self.n_inputs}): {', '.join(self.input_names)}; got {x.shape}")
        if not np.isfinite(x).all():
            raise ValueError(f"x must be finite; row {np.argwhere(~np.isfinite(x))[0][0]} is not")
        return x


def offline_protocols(paper: Protocol, steps: int, **changes: Any) -> dict[str, Protocol]:
    """The three scales of offline training: a published one of so many steps, and two that are short."""
    offline = paper.replace(n_initial=1, n_rounds=0, steps_per_label=1, min_steps=steps, max_steps=steps, **changes)
    short = {"n_members": 2, "width": 32, "batch_size": 64}
    return {
        "smoke": offline.replace(n_pool=1_000, n_test=300, min_steps=600, max_steps=600, warmup_steps=50, **short),
        "demo": offline.replace(n_pool=5_000, n_test=1_000, min_steps=3_000, max_steps=3_000, **short),
        "paper": offline,
    }


@lru_cache(maxsize=4)
def _cached_dataset(problem: Problem, seed: int, n_pool: int, n_test: int, n_initial: int) -> Dataset:
    with jax.default_device(cpu()):
        dataset = problem._make_dataset(seed, n_pool, n_test, n_initial)
    arrays = [np.asarray(array) for array in dataset]
    for array in arrays:
        array.flags.writeable = False  # the cache hands the same arrays to everybody
    return Dataset(*arrays)

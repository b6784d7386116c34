"""The settings of an active-learning run, in one flat record."""

from __future__ import annotations

import dataclasses
import math
import numbers
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import numpy as np

Settings = TypeVar("Settings", bound="Options")
SCALES = ("smoke", "demo", "paper")
LARGEST_SETTING = 1e30  # of a setting that is a real number: far within float32, in which it is used
LARGEST_RIDGE = 1e12  # of BAIT, which squares it and what it divides by it


@dataclass(frozen=True, kw_only=True)
class Options:
    """What a strategy may be told beside its name; every default is what produced the paper's tables.

    Attributes:
        bait_ridge: of BAIT's information matrix; 1 in the released experiments, 1e-3 in the published text.
        sbal_temperature: of the SBAL strategies, in the units of their score; 0.3 was the released code's own default.
        max_dist_weight: how much scores count beside distances in MaxDist.
        max_dist_features: MaxDist's distances are between the members' "means" (released experiments) or between
            "inputs" (published text).
        gibbs_half: the ternary problem's Gibbs energy has a factor 1/2 before its quadratic term (published text).
        variance: the epistemic variance of an output vector is the "mean" over its dimensions (released
            experiments) or the "trace" of the covariance (published text). Both rank alike.
        block_size: pool points scored at once. Scores do not depend on it, memory does.
    """

    gibbs_half: bool = False
    variance: Literal["mean", "trace"] = "mean"
    bait_ridge: float = 1.0
    sbal_temperature: float = 1.0
    max_dist_weight: float = 1.0
    max_dist_features: Literal["means", "inputs"] = "means"
    block_size: int = 256

    def __post_init__(self) -> None:
        _one_of("variance", self.variance, ("mean", "trace"))
        _one_of("max_dist_features", self.max_dist_features, ("means", "inputs"))
        if not isinstance(self.gibbs_half, bool):
            raise ValueError(f"gibbs_half must be True or False, got {self.gibbs_half!r}")
        _at_least(self, ("block_size",), 1)
        _is_real(self, ("bait_ridge", "sbal_temperature"))
        _is_real(self, ("max_dist_weight",), zero=True)
        check_ridge("bait_ridge", self.bait_ridge)

    def replace(self: Settings, **changes: Any) -> Settings:
        """The same settings with some fields changed; TypeError names a field that does not exist."""
        return dataclasses.replace(self, **changes)


@dataclass(frozen=True, kw_only=True)
class Protocol(Options):
    """Everything that defines a run beside problem, strategy and seed: data sizes, network, training, options.

    Attributes:
        n_pool, n_test, n_initial: rows of the pool (initial labels included), of the test set, labelled at the start.
        n_rounds, n_query: acquisitions, and labels bought in each.
        n_members, n_components, width, depth: ensemble size E, mixture components K, units of a layer, dense
            layers before the heads (all but the last followed by GELU).
        batch_size: labels in a gradient step; the full set while it is smaller.
        steps_per_label, min_steps, max_steps: steps of a training = clip(steps_per_label * n, min, max).
        learning_rate, weight_decay: AdamW's peak rate and decoupled decay.
        warmup_steps: linear warm-up over min(warmup_steps, steps // 5) steps.
        decay_rate, decay_steps: then the rate is multiplied by decay_rate every decay_steps, continuously.
        clip_threshold: of adaptive gradient clipping.
        clip: unit norms run across the ensemble ("released") or within each member ("member"), SPEC 1.
    """

    n_pool: int
    n_test: int
    n_initial: int
    n_rounds: int
    n_query: int
    n_members: int
    n_components: int
    width: int
    depth: int
    batch_size: int
    steps_per_label: int
    min_steps: int = 0
    max_steps: int
    learning_rate: float
    weight_decay: float
    warmup_steps: int = 500
    decay_rate: float = 0.9
    decay_steps: int = 2_000
    clip_threshold: float = 0.1
    clip: Literal["released", "member"] = "released"

    def __post_init__(self) -> None:
        super().__post_init__()
        _one_of("clip", self.clip, ("released", "member"))
        positive = "n_pool n_test n_initial n_query n_members n_components width depth batch_size steps_per_label"
        _at_least(self, (*positive.split(), "max_steps", "decay_steps"), 1)
        _at_least(self, ("n_rounds", "min_steps", "warmup_steps"), 0)
        _is_real(self, ("learning_rate", "decay_rate", "clip_threshold"))
        _is_real(self, ("weight_decay",), zero=True)
        if self.min_steps > self.max_steps:
            raise ValueError(f"min_steps = {self.min_steps} is more than max_steps = {self.max_steps}")
        if self.n_final > self.n_pool:
            raise ValueError(
                f"n_initial + n_rounds * n_query = {self.n_final} labels are more than n_pool = {self.n_pool} points"
            )

    @property
    def n_final(self) -> int:
        """Labels when the run is over."""
        return self.n_initial + self.n_rounds * self.n_query


def check_ridge(name: str, ridge: Any) -> None:
    """ValueError unless BAIT's ridge is a number from 1e-12 to 1e12: float32 holds what is made of it there."""
    number = np.ndim(ridge) == 0 and np.issubdtype(np.asarray(ridge).dtype, np.number)
    if not number or not 1 / LARGEST_RIDGE <= ridge <= LARGEST_RIDGE:
        raise ValueError(f"{name} must be within 1e-12 and 1e12, got {ridge!r}")


def check_scale(scale: str) -> None:
    """ValueError unless scale is one of SCALES."""
    _one_of("scale", scale, SCALES)


def integer_at_least(least: int, name: str, value: object) -> int:
    """The value as Python's integer; ValueError unless it is one, NumPy's or Python's, and no less."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < least:
        raise ValueError(f"{name} must be an integer >= {least}, got {value!r}")
    return int(value)


def _one_of(name: str, value: object, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, allowed))}, got {value!r}")


def _is_real(settings: Options, names: tuple[str, ...], zero: bool = False) -> None:
    """Positive (or zero) and finite; kept as floats, so that settings print alike wherever they are from."""
    for name in names:
        value = getattr(settings, name)
        if isinstance(value, bool) or not isinstance(value, numbers.Real) or not 0 <= value < math.inf:
            raise ValueError(f"{name} must be a finite number, not negative, got {value!r}")
        if not zero and not value > 0:
            raise ValueError(f"{name} must be positive, got {value!r}")
        if value > LARGEST_SETTING or 0 < value < 1 / LARGEST_SETTING:
            raise ValueError(f"{name} must be within 1e-30 and 1e30, got {value!r}")
        object.__setattr__(settings, name, float(value))


def _at_least(settings: Options, names: tuple[str, ...], least: int) -> None:
    """Integers, NumPy's too; kept as Python's."""
    for name in names:
        object.__setattr__(settings, name, integer_at_least(least, name, getattr(settings, name)))

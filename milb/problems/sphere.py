"""Two predictions that no variance can tell apart: uniform on the unit sphere, and polar.

The sphere is S^{m-1} = {y in R^m : |y| = 1}. The *uniform* distribution spreads over all of it. The *polar* one picks
e_1 or -e_1 with probability 1/2 and is uniform on the cap of geodesic radius delta around it. Both have mean 0 and
variance 1 (trace of the covariance), for every m and delta; their entropies differ by as much as you like.

Entropies are in nats and taken with respect to the surface measure. Every formula takes numbers or arrays m and delta
that broadcast against each other, computes in float64 and in logarithms (at m = 700, delta = 0.3 a cap's share of the
sphere is e^-856, zero in float64), and raises TypeError unless m is an integer, ValueError unless m >= 2 and
0 < delta < pi/2. Source: the paper's appendix "Limitations of Variance for Multimodal Distributions".
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float, PRNGKeyArray
from scipy.special import gammaln

Values = np.float64 | Float[np.ndarray, "..."]

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(80)
# An integrand that has fallen by e^-46 = 1e-20 adds nothing more to a float64 sum.
_NEGLIGIBLE = 46.0


def log_sphere_area(m: ArrayLike) -> Values:
    """log A_m, the log surface area of S^{m-1}: 2 pi^(m/2) / Gamma(m/2)."""
    return _log_sphere_area(_dimension(m))


def log_cap_area(m: ArrayLike, delta: ArrayLike) -> Values:
    """log A_delta, the log area of one cap: A_{m-1} times the integral of sin^(m-2) from 0 to delta."""
    m, delta = _dimension(m), _radius(delta)
    return _log_sphere_area(m - 1) + _log_sine_integral(m - 2, 0.0, delta)


def uniform_entropy(m: ArrayLike) -> Values:
    """Entropy of the uniform distribution, log A_m."""
    return log_sphere_area(m)


def polar_entropy(m: ArrayLike, delta: ArrayLike) -> Values:
    """Entropy of the polar distribution, log 2 + log A_delta."""
    return np.log(2.0) + log_cap_area(m, delta)


def entropy_gap(m: ArrayLike, delta: ArrayLike) -> Values:
    """Entropy of the uniform minus that of the polar distribution, log(A_m / (2 A_delta)) > 0.

    Computed from the band between the two caps, so it keeps its relative accuracy as delta approaches pi/2.
    """
    m, delta = _dimension(m), _radius(delta)
    log_cap = _log_sine_integral(m - 2, 0.0, delta)
    log_half_band = _log_sine_integral(m - 2, delta, np.pi / 2)
    return np.logaddexp(0.0, log_half_band - log_cap)


def mutual_information(m: ArrayLike, delta: ArrayLike) -> Values:
    """I(Y; member) when two equally likely members predict the uniform and the polar distribution.

    With f = 2 A_delta / A_m, the share of the sphere that the caps cover, it is half of
    (1 + f) log(2 / (1 + f)) + f log f + (1 - f) log 2, which rises to log 2 as f goes to 0. Both members have mean 0,
    so the epistemic variance Var(E[Y | member]) is exactly 0 meanwhile.
    """
    gap = entropy_gap(m, delta)
    share, share_minus_1 = np.exp(-gap), np.expm1(-gap)
    return -0.5 * ((1.0 + share) * np.log1p(share_minus_1 / 2) + share * gap + share_minus_1 * np.log(2.0))


def polar_variances(m: int, delta: float) -> Float[np.ndarray, "m"]:
    """Variance of each coordinate under the polar distribution; they sum to 1, and the covariance is diagonal.

    E[cos^2] of the polar angle for the first coordinate, E[sin^2] / (m - 1) for every other. Under the uniform
    distribution each coordinate has variance 1 / m.
    """
    m, delta = int(_dimension(m)), float(_radius(delta))
    sine_squared = np.exp(_log_sine_integral(m, 0.0, delta) - _log_sine_integral(m - 2, 0.0, delta))
    return np.r_[1.0 - sine_squared, np.full(m - 1, sine_squared / (m - 1))]


def uniform_angle_log_density(angle: ArrayLike, m: ArrayLike) -> Values:
    """Log density of the angle between Y and e_1 under the uniform distribution. ValueError unless 0 < angle < pi."""
    angle, m = _inside("angle", angle, np.pi, "pi"), _dimension(m)
    return _log_sphere_area(m - 1) - _log_sphere_area(m) + (m - 2) * np.log(np.sin(angle))


def polar_angle_log_density(angle: ArrayLike, m: ArrayLike, delta: ArrayLike) -> Values:
    """The same under the polar distribution: -inf outside the caps."""
    density = uniform_angle_log_density(angle, m) + entropy_gap(m, delta)
    in_caps = np.minimum(angle, np.pi - np.asarray(angle)) <= delta
    return np.where(in_caps, density, -np.inf)


def sample_uniform(key: PRNGKeyArray, n: int, m: int) -> Float[Array, "n m"]:
    """n independent draws from the uniform distribution."""
    return _directions(key, _count(n), int(_dimension(m)))


def sample_polar(key: PRNGKeyArray, n: int, m: int, delta: float) -> Float[Array, "n m"]:
    """n independent draws from the polar distribution, exact at any m (inverse of the polar angle's CDF, in logs)."""
    n, m, delta = _count(n), int(_dimension(m)), float(_radius(delta))
    angle_key, pole_key, direction_key = jax.random.split(key, 3)
    uniforms = (np.asarray(jax.random.bits(angle_key, (n, 1), "uint32"), np.float64) + 0.5) / 2.0**32
    angle = _cap_angle_quantile(uniforms, m, delta)
    return _around_a_pole(pole_key, direction_key, jnp.asarray(np.cos(angle)), jnp.asarray(np.sin(angle)), m)


def _cap_angle_quantile(uniforms: np.ndarray, m: int, delta: float) -> np.ndarray:
    """Solve log F(angle) = log(uniform), F the CDF of the angle within a cap, by Newton's method in log angle.

    log F is increasing and concave in log angle, so the iteration, started at delta, steps below the root once and
    then climbs to it without ever passing it.
    """
    target = np.log(uniforms) + _log_sine_integral(m - 2, 0.0, delta)
    log_angle = np.full_like(uniforms, np.log(delta))
    for _ in range(100):
        angle = np.exp(log_angle)
        log_integral = _log_sine_integral(m - 2, 0.0, angle)
        slope = np.exp(log_angle + (m - 2) * np.log(np.sin(angle)) - log_integral)
        step = (target - log_integral) / slope
        log_angle = np.minimum(log_angle + step, np.log(delta))
        if np.max(np.abs(step)) < 1e-12:
            break
    return np.exp(log_angle)


def _log_sine_integral(power: ArrayLike, lower: ArrayLike, upper: ArrayLike) -> Values:
    """log of the integral of sin^power from lower to upper <= pi/2: Gauss-Legendre, relative to the value at upper.

    Where the integrand has become negligible it is cut off, so that the nodes sit where the mass is at every power.
    """
    power, lower, upper = (np.asarray(a, np.float64)[..., None] for a in np.broadcast_arrays(power, lower, upper))
    peak = np.sin(upper)
    fall = np.exp(-_NEGLIGIBLE / np.maximum(power, 1.0))
    lower = np.where(power == 0, lower, np.maximum(lower, np.arcsin(peak * fall)))
    half_width = (upper - lower) / 2
    angle = lower + half_width * (1.0 + _NODES)
    relative = np.exp(power * np.log(np.sin(angle) / peak))
    return (power * np.log(peak) + np.log(half_width * (relative @ _WEIGHTS)[..., None]))[..., 0]


def _log_sphere_area(m: ArrayLike) -> Values:
    return np.log(2.0) + m / 2 * np.log(np.pi) - gammaln(m / 2)


@partial(jax.jit, static_argnames="m")
def _around_a_pole(
    pole_key: PRNGKeyArray, direction_key: PRNGKeyArray, cosine: Float[Array, "n 1"], sine: Float[Array, "n 1"], m: int
) -> Float[Array, "n m"]:
    pole = jax.random.rademacher(pole_key, cosine.shape, cosine.dtype)
    return jnp.concatenate([pole * cosine, sine * _directions(direction_key, len(sine), m - 1)], axis=1)


@partial(jax.jit, static_argnames=("n", "m"))
def _directions(key: PRNGKeyArray, n: int, m: int) -> Float[Array, "n m"]:
    normal = jax.random.normal(key, (n, m))
    return normal / jnp.linalg.norm(normal, axis=1, keepdims=True)


def _dimension(m: ArrayLike) -> np.ndarray:
    values = np.asarray(m)
    if not np.issubdtype(values.dtype, np.integer):
        raise TypeError(f"m must be an integer >= 2, got {m!r}")
    if not np.all(values >= 2):
        raise ValueError(f"m must be an integer >= 2, got {m!r}")
    return values


def _radius(delta: ArrayLike) -> np.ndarray:
    return _inside("delta", delta, np.pi / 2, "pi/2")


def _inside(name: str, value: ArrayLike, upper: float, upper_name: str) -> np.ndarray:
    values = np.asarray(value, np.float64)
    if not np.all((values > 0) & (values < upper)):
        raise ValueError(f"{name} must lie strictly between 0 and {upper_name}, got {value!r}")
    return values


def _count(n: int) -> int:
    if isinstance(n, bool) or n < 1:
        raise ValueError(f"n must be a positive integer, got {n!r}")
    return n

"""The sphere example: formulas against closed forms and other ways to compute them, draws against formulas."""

import os
import subprocess
import sys

import jax
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.integrate import quad
from scipy.special import betainc
from scipy.stats import kstest

from milb.problems import sphere

KEY = jax.random.key(0)
DIMENSIONS = [2, 3, 10, 700]
RADII = [1e-3, 0.3, 1.0, 1.57]

# log A_delta and the gap log(A_m / (2 A_delta)) in 60 digits, from the hypergeometric form of the incomplete beta
# function, computed once with mpmath.
REFERENCE = [
    (2, 1.57, 1.144222799920162, 0.00050708592923813574),
    (5, 0.01, -16.824401486160732, 19.401543330311314),
    (17, 1.2, -1.7889400076358904, 1.9698767800547942),
    (100, 1.5, -88.058857978710959, 0.72960832483608165),
    (700, 0.3, -2153.1603994404563, 855.54904536739932),
    (700, 1.5, -1300.4045597356269, 2.7932056625699787),
    (3000, 0.05, -16739.676553743196, 8989.6784179866301),
    (10000, 0.001, -100934.45452351953, 69075.477637081176),
    (10000, 1.0, -33589.057297832035, 1730.0804113936855),
    (10000, 1.57, -31859.042455730228, 0.065569291878364077),
]


@pytest.mark.parametrize(("m", "area"), [(2, 2 * np.pi), (3, 4 * np.pi), (4, 2 * np.pi**2), (6, np.pi**3)])
def test_sphere_area_closed_forms(m, area):
    assert_allclose(np.exp(sphere.log_sphere_area(m)), area, rtol=1e-14)


@pytest.mark.parametrize("delta", [1e-9, *RADII, np.pi / 2 - 1e-9])
@pytest.mark.parametrize(
    ("m", "area"),
    [
        (2, lambda delta: 2 * delta),
        (3, lambda delta: 4 * np.pi * np.sin(delta / 2) ** 2),
        (5, lambda delta: 2 * np.pi**2 * (4 / 3) * np.sin(delta / 2) ** 4 * (2 + np.cos(delta))),
    ],
)
def test_cap_area_closed_forms(m, area, delta):
    assert_allclose(np.exp(sphere.log_cap_area(m, delta)), area(delta), rtol=1e-13)


@pytest.mark.parametrize(("m", "delta", "log_cap_area", "gap"), REFERENCE)
def test_cap_area_and_gap_in_high_precision(m, delta, log_cap_area, gap):
    assert_allclose(sphere.log_cap_area(m, delta), log_cap_area, rtol=0, atol=1e-10)
    assert_allclose(sphere.entropy_gap(m, delta), gap, rtol=1e-12)


@pytest.mark.parametrize("delta", RADII)
def test_cap_share_is_the_incomplete_beta_function(delta):
    m = np.array([*range(2, 60), 77, 100])
    share = 0.5 * betainc((m - 1) / 2, 0.5, np.sin(delta) ** 2)
    assert_allclose(sphere.log_cap_area(m, delta) - sphere.log_sphere_area(m), np.log(share), rtol=0, atol=2e-11)


def test_share_underflows_where_the_logarithm_does_not():
    assert betainc(699 / 2, 0.5, np.sin(0.3) ** 2) == 0
    assert 855 < sphere.entropy_gap(700, 0.3) < 856


@pytest.mark.parametrize("delta", RADII)
@pytest.mark.parametrize("m", DIMENSIONS)
def test_gap_is_the_difference_of_the_entropies(m, delta):
    difference = sphere.uniform_entropy(m) - sphere.polar_entropy(m, delta)
    assert_allclose(sphere.entropy_gap(m, delta), difference, rtol=1e-12, atol=1e-11)


def test_gap_grows_with_m_and_shrinks_with_delta_to_0():
    m, delta = np.arange(2, 400), np.linspace(0.01, np.pi / 2 - 0.01, 40)
    gap = sphere.entropy_gap(m[:, None], delta[None, :])
    assert gap.shape == (398, 40)
    assert (np.diff(gap, axis=0) > 0).all()
    assert (np.diff(gap, axis=1) < 0).all()
    assert_allclose(sphere.entropy_gap(2, np.pi / 2 - 1e-9), 2e-9 / np.pi, rtol=1e-6)


@pytest.mark.parametrize("delta", [0.3, 1.0, 1.3])
def test_each_dimension_adds_minus_log_sine_in_the_end(delta):
    added = sphere.entropy_gap(10_000, delta) - sphere.entropy_gap(9_000, delta)
    assert_allclose(added / 1_000, -np.log(np.sin(delta)), atol=1e-4)


@pytest.mark.parametrize("m", DIMENSIONS)
def test_arrays_give_what_numbers_give(m):
    together = sphere.entropy_gap(m, np.array(RADII))
    assert together.dtype == np.float64
    assert_allclose(together, [sphere.entropy_gap(m, delta) for delta in RADII], rtol=1e-15)


# Two members, uniform and polar


@pytest.mark.parametrize("delta", [0.3, 1.0, 1.4])
@pytest.mark.parametrize("m", [2, 3, 10])
def test_mutual_information_is_entropy_of_the_marginal_minus_mean_entropy(m, delta):
    uniform = np.exp(-sphere.uniform_entropy(m))
    in_caps = 0.5 * (uniform + np.exp(-sphere.polar_entropy(m, delta)))
    caps, all_of_it = 2 * np.exp(sphere.log_cap_area(m, delta)), np.exp(sphere.log_sphere_area(m))
    marginal = -caps * in_caps * np.log(in_caps) - (all_of_it - caps) * 0.5 * uniform * np.log(0.5 * uniform)
    mean = 0.5 * (sphere.uniform_entropy(m) + sphere.polar_entropy(m, delta))
    assert_allclose(sphere.mutual_information(m, delta), marginal - mean, rtol=1e-12)


def test_mutual_information_limits():
    assert sphere.mutual_information(700, 0.3) == np.log(2)
    # A share f = 1 - u near 1 gives u log(2) / 2.
    almost_all = np.pi / 2 - 1e-6
    expected = np.log(2) / 2 * sphere.entropy_gap(3, almost_all)
    assert_allclose(sphere.mutual_information(3, almost_all), expected, rtol=1e-5)


# Distribution of the angle


@pytest.mark.parametrize("m", [2, 3, 10, 50])
def test_angle_densities_integrate_to_1(m):
    delta = 0.7
    uniform = quad(lambda angle: np.exp(sphere.uniform_angle_log_density(angle, m)), 0, np.pi)[0]
    cap = quad(lambda angle: np.exp(sphere.polar_angle_log_density(angle, m, delta)), 0, delta)[0]
    assert_allclose([uniform, 2 * cap], 1, rtol=1e-9)


def test_polar_density_is_mirrored_and_nothing_lies_between_the_caps():
    angle = np.array([0.1, 0.29, 0.31, 1.5, 2.0])
    density = sphere.polar_angle_log_density(angle, 5, 0.3)
    assert_allclose(density, sphere.polar_angle_log_density(np.pi - angle, 5, 0.3), rtol=1e-12)
    assert np.isfinite(density).tolist() == [True, True, False, False, False]


# Draws


def cap_angle(samples):
    samples = np.asarray(samples, np.float64)
    return np.arctan2(np.linalg.norm(samples[:, 1:], axis=1), np.abs(samples[:, 0]))


@pytest.mark.parametrize("m", DIMENSIONS)
@pytest.mark.parametrize("delta", [None, *RADII])
def test_draws_lie_on_the_sphere_with_mean_0_and_variance_1(m, delta):
    n = 4_000
    draws = sphere.sample_uniform(KEY, n, m) if delta is None else sphere.sample_polar(KEY, n, m, delta)
    assert draws.shape == (n, m)
    draws = np.asarray(draws, np.float64)
    assert_allclose(np.linalg.norm(draws, axis=1), 1, rtol=1e-6)
    # n |mean|^2 has expectation 1; more than 20 of it comes once in 10^5 sets, and the key is fixed.
    assert 0 <= 1 - draws.var(axis=0).sum() < 20 / n
    if delta is not None:
        assert cap_angle(draws).max() <= delta + 2e-7
        assert abs((draws[:, 0] > 0).mean() - 0.5) < 4 * 0.5 / np.sqrt(n)


@pytest.mark.parametrize("delta", RADII)
@pytest.mark.parametrize("m", DIMENSIONS)
def test_polar_variances_are_those_of_the_draws(m, delta):
    exact = sphere.polar_variances(m, delta)
    assert exact.shape == (m,)
    assert_allclose(exact.sum(), 1, rtol=1e-12)
    squares = np.asarray(sphere.sample_polar(KEY, 4_000, m, delta), np.float64)[:, :2] ** 2
    error = squares.std(axis=0) / np.sqrt(len(squares))
    assert (np.abs(squares.mean(axis=0) - exact[:2]) < 5 * error + 1e-6).all()


def test_polar_variances_closed_forms():
    delta = 0.3
    cosine_squared_on_circle = 0.5 + np.sin(2 * delta) / (4 * delta)
    assert_allclose(sphere.polar_variances(2, delta)[0], cosine_squared_on_circle, rtol=1e-12)
    cosine_squared_on_sphere = (1 - np.cos(delta) ** 3) / (3 * (1 - np.cos(delta)))
    assert_allclose(sphere.polar_variances(3, delta)[0], cosine_squared_on_sphere, rtol=1e-12)


def angle_cdf(angle, m, delta):
    return betainc((m - 1) / 2, 0.5, np.sin(angle) ** 2) / betainc((m - 1) / 2, 0.5, np.sin(delta) ** 2)


@pytest.mark.parametrize(("m", "delta"), [(2, 0.3), (3, 1.57), (10, 1.0), (100, 1.5), (700, 1.0)])
def test_polar_angle_is_distributed_as_it_should(m, delta):
    angle = cap_angle(sphere.sample_polar(KEY, 5_000, m, delta))
    assert kstest(angle, lambda x: angle_cdf(np.minimum(x, delta), m, delta)).pvalue > 0.01


def test_polar_angle_where_the_share_underflows():
    # (sin / sin delta)^(m - 1) is uniform on (0, 1) up to tan(delta)^2 / m, here 1e-4.
    m, delta = 700, 0.3
    angle = np.minimum(cap_angle(sphere.sample_polar(KEY, 5_000, m, delta)), delta)
    assert kstest((np.sin(angle) / np.sin(delta)) ** (m - 1), "uniform").pvalue > 0.01


def test_quantile_inverts_the_cdf_at_the_ends():
    for m, delta in [(2, 0.3), (3, 1e-6), (50, 1.57), (10_000, 1.0), (10_000, 1.57)]:
        uniforms = np.array([[2.0**-33], [0.01], [0.5], [1 - 2.0**-33]])
        angle = sphere._cap_angle_quantile(uniforms, m, delta)
        log_share = sphere.log_cap_area(m, angle) - sphere.log_cap_area(m, delta)
        assert_allclose(log_share, np.log(uniforms), atol=1e-9)
        assert (angle > 0).all()
        assert (angle <= delta).all()


def test_direction_around_the_pole_is_uniform():
    draws = np.asarray(sphere.sample_polar(KEY, 5_000, 3, 0.3))
    around = np.arctan2(draws[:, 2], draws[:, 1])
    assert kstest((around + np.pi) / (2 * np.pi), "uniform").pvalue > 0.01


def test_same_key_same_draws_other_key_other_draws():
    first, again = (np.asarray(sphere.sample_polar(KEY, 5, 3, 0.3)) for _ in range(2))
    other = np.asarray(sphere.sample_polar(jax.random.key(1), 5, 3, 0.3))
    assert (first == again).all()
    assert (first != other).any()


# Errors


@pytest.mark.parametrize("m", [1, 0, -3, np.array([5, 1])])
def test_too_few_dimensions(m):
    for function in (sphere.log_sphere_area, lambda m: sphere.entropy_gap(m, 0.3)):
        with pytest.raises(ValueError, match="m must be an integer >= 2, got"):
            function(m)


@pytest.mark.parametrize("m", [2.0, 2.5, True, np.array([2.0, 3.0])])
def test_dimension_is_an_integer(m):
    for function in (sphere.uniform_entropy, lambda m: sphere.mutual_information(m, 0.3)):
        with pytest.raises(TypeError, match="m must be an integer >= 2, got"):
            function(m)


@pytest.mark.parametrize("delta", [0.0, -0.1, np.pi / 2, 2.0, np.nan, np.inf])
def test_radius_out_of_range(delta):
    for function in (
        lambda delta: sphere.log_cap_area(3, delta),
        lambda delta: sphere.entropy_gap(3, np.array([0.3, delta])),
        lambda delta: sphere.polar_variances(3, delta),
        lambda delta: sphere.sample_polar(KEY, 5, 3, delta),
    ):
        with pytest.raises(ValueError, match="delta must lie strictly between 0 and pi/2, got"):
            function(delta)


def test_other_arguments_out_of_range():
    with pytest.raises(ValueError, match="angle must lie strictly between 0 and pi, got"):
        sphere.uniform_angle_log_density(0.0, 3)
    for n in (0, -1, True):
        with pytest.raises(ValueError, match=f"n must be a positive integer, got {n}"):
            sphere.sample_uniform(KEY, n, 3)
    with pytest.raises(ValueError, match="m must be"):
        sphere.sample_polar(KEY, 5, 1, 0.3)


def test_import_and_formulas_touch_no_device():
    code = "from milb.problems import sphere; sphere.entropy_gap(700, 0.3); sphere.polar_variances(3, 0.3)"
    environment = os.environ | {"JAX_PLATFORMS": "nonsense"}
    result = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")

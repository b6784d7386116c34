"""The furnace: its physics by hand, an oracle that is a density, and tables as they are committed."""

import io
from pathlib import Path

import jax
import numpy as np
import pandas as pd
import pytest

from milb.problems.furnace import DIRECT, INTERMEDIATE, REFERENCE, TIMES, Furnace, tables

DATA = Path(__file__).resolve().parents[2] / "notebooks" / "data"
PROBLEM = Furnace()


def direct_share(temperature, dopant):
    mixture = PROBLEM.components([[temperature, 2.0, dopant]])
    return float(np.exp(mixture.log_weights[0, 0]))


def test_pathways_are_equal_at_the_reference_and_heat_and_dopant_favour_the_direct_one():
    at = REFERENCE - 273.15
    assert direct_share(at, 2.0) == pytest.approx(0.5, abs=1e-5)
    assert direct_share(at, 3.0) == pytest.approx(1 / (1 + np.exp(-1.4)), abs=1e-5)  # 0.7 for, 0.7 against
    assert direct_share(900, 2.0) > 0.7 > 0.3 > direct_share(700, 2.0)
    energies = DIRECT.nucleation_energy - INTERMEDIATE.nucleation_energy
    odds = np.exp(energies / 8.314e-3 * (1 / REFERENCE - 1 / 1173.15))
    assert direct_share(900, 2.0) == pytest.approx(odds / (1 + odds), abs=1e-4)


def test_conversion_and_grains_at_the_reference_by_hand():
    mixture = PROBLEM.components([[REFERENCE - 273.15, 2.0, 1.0]])
    hardness, grain = np.asarray(mixture.means[0, 0])
    conversion = 1 - np.exp(-((0.8 * 2) ** 1.5))
    assert hardness == pytest.approx(3 + conversion * (13 + 0.6 - 3), rel=1e-4)
    assert grain == pytest.approx(np.sqrt(0.4**2 + 0.10 * 2), rel=1e-4)
    assert float(mixture.variances[0, 0, 1]) == pytest.approx((0.02 + 0.05 * grain) ** 2, rel=1e-4)


def test_labels_follow_the_density():
    x = np.tile([[800, 4, 2]], (4_000, 1))
    y = np.asarray(PROBLEM.label(jax.random.key(0), x))
    mixture = PROBLEM.components(x[:1])
    np.testing.assert_allclose(y.mean(0), mixture.mean()[0], rtol=0.03)
    np.testing.assert_allclose(y.std(0), np.sqrt(mixture.variance()[0]), rtol=0.05)
    grid = np.stack(np.meshgrid(np.linspace(0, 20, 400), np.linspace(0, 8, 400)), axis=-1).reshape(-1, 2)
    density = np.exp(np.asarray(mixture.log_prob(grid)))
    assert density.sum() * (20 / 399) * (8 / 399) == pytest.approx(1, abs=0.01)


def test_settings_are_those_of_a_furnace():
    data = PROBLEM.dataset(0, 300, 300, 5)
    temperature, time, dopant = data.x.T
    assert set(temperature) <= set(range(650, 951, 5)) and set(time) <= set(TIMES)
    assert set(dopant) <= set(np.arange(17) / 4) and data.y.shape == (300, 2) and np.isfinite(data.y).all()
    again = Furnace().dataset(0, 300, 300, 5)
    np.testing.assert_array_equal(again.y, data.y)
    assert PROBLEM.protocol("smoke").n_final < PROBLEM.protocol("demo").n_final


def test_tables_are_those_that_are_committed():
    for name, table in zip(("pool", "labels"), tables(), strict=True):
        written = pd.read_csv(io.StringIO(table.to_csv(index=False)))
        committed = pd.read_csv(DATA / f"furnace_{name}.csv")
        pd.testing.assert_frame_equal(written, committed, atol=0.011)  # rounding of another machine's last digit


def test_tables():
    pool, labels = tables()
    assert pool["id"].is_unique and labels["id"].tolist() == pool["id"][:24].tolist()
    assert labels.iloc[-1, 1:].isna().all() and labels.iloc[:-1].notna().all(axis=None)
    with pytest.raises(ValueError, match="n_labelled must be from 1 to n_pool = 3, got 4"):
        tables(0, 3, 4)


def test_a_problem_without_offline_training_says_so():
    with pytest.raises(ValueError, match="furnace has no protocol for training offline"):
        Furnace().offline_protocol("demo")

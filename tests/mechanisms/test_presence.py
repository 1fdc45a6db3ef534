"""True structural zeros improve estimates where the presence of columns follows from another column."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

import pgmest as pg
from pgmest import transforms, zeros
from pgmest.mechanisms.known_zeros import HONORED, ZEROS
from tests.mechanisms.presence import Table, errors, households, questionnaire

HOUSEHOLDS, MIDDLE, LARGE = households(2000, 5), households(3000, 6), households(4000, 8)
QUESTIONNAIRE = questionnaire()

NOISE = 0.005
"""The differences of errors of sizes between two runs that are noise: means of two seeds."""


def error(name: str, table: Table, keys: list[str], seeds: int, **parameters: Any) -> np.ndarray:
    """Return the errors of `keys` and of all pairs, means over seeds; row 0 without structural zeros, row 1 with."""
    data, rules = table
    mechanism = getattr(pg.mechanisms, name)(delta=1e-6, backend="simulation", **parameters)
    found = np.zeros((2, 2))
    for place, known in enumerate((None, rules)):
        for seed in range(seeds):
            result = dataclasses.replace(mechanism, structural_zeros=known).fit(data, seed=seed)
            found[place] += errors(result.sample(data.records, seed=seed), data, keys)
            assert known is None or result.details[ZEROS] == HONORED
    return found / seeds


@pytest.mark.parametrize(
    ("table", "keys", "epsilon", "gain"),
    [
        (HOUSEHOLDS, ["size"], 1.0, 0.85),
        (HOUSEHOLDS, ["size", *(f"age{member}" for member in range(1, 6))], 0.3, 0.85),
        (QUESTIONNAIRE, ["status", "years", "job", "industry"], 1.0, 0.95),
    ],
    ids=["households", "little budget", "questionnaire"],
)
def test_lamp(table, keys, epsilon, gain):
    seeds = 8 if table is QUESTIONNAIRE else 2  # whose gain is smaller
    without, known = error("LAMP", table, keys, seeds, epsilon=epsilon, records=3000, max_megabytes=0.2)
    assert known[0] <= 1.05 * without[0]
    assert known[1] <= gain * without[1]


@pytest.mark.parametrize(
    ("name", "parameters", "seeds"),
    [
        ("MST", {"epsilon": 1.0}, 2),
        ("AIM", {"epsilon": 1.0}, 2),
        ("Independent", {"epsilon": 1.0}, 2),
        ("PrivBayes", {"epsilon": 1.0, "estimator": "pgm"}, 2),
        ("PrivMRF", {"epsilon": 1.0}, 1),
        ("PPSyn", {"epsilon": 1.0}, 1),
        ("MWEM", {"epsilon": 1.0}, 1),
        ("PrivSyn", {"epsilon": 1.0, "estimator": "pgm", "max_megabytes": 0.5}, 1),
    ],
    ids=str,
)
def test_large_households(name, parameters, seeds):
    table = MIDDLE if name in ("AIM", "PrivMRF", "PrivSyn") else LARGE  # whose fits take longest
    without, known = error(name, table, ["size"], seeds, **parameters)
    assert known[0] <= without[0] + NOISE * np.sqrt(2 / seeds)
    assert known[1] <= 0.85 * without[1]


def test_aim_measures_what_decides_about_presence():
    without, known = error("AIM", HOUSEHOLDS, ["size"], 3, epsilon=0.3)
    assert known[0] <= 1.2 * without[0]
    assert known[1] <= 0.85 * without[1]


def test_no_size_of_household_loses_its_records():
    data, rules = LARGE
    large = data.project(("size",)).values[5:].sum()
    for seed in range(4):
        result = pg.mechanisms.MST(epsilon=1.0, backend="simulation", structural_zeros=rules).fit(data, seed=seed)
        assert result.details[ZEROS] == HONORED
        assert result.sample(seed=0).project(("size",)).values[5:].sum() > 0.7 * large


@pytest.mark.parametrize("name", ["MST", "LAMP", "AIM"])
def test_rules_that_do_not_hold_are_reported(name):
    data, rules = HOUSEHOLDS
    wrong = [*rules, zeros.impossible("size", [1])]
    options = {"records": 2000, "max_megabytes": 0.2} if name == "LAMP" else {}
    mechanism = getattr(pg.mechanisms, name)(epsilon=3.0, backend="simulation", structural_zeros=wrong, **options)
    result = mechanism.fit(data, seed=0)
    assert result.details[ZEROS].startswith(HONORED + ", but ")
    assert result.project(("size",)).values[1] == 0


def test_a_transform_that_merges_sizes_keeps_them():
    data, rules = HOUSEHOLDS
    shares = data.project(("size",)).values

    def coarser(curator, spend):
        return transforms.bucketize(curator.domain, {"size": [0, 2]}, {"size": shares})

    inside = pg.mechanisms.MST(epsilon=3.0, backend="simulation")
    mechanism = pg.mechanisms.Transformed(mechanism=inside, steps=[coarser], share=0, structural_zeros=rules)
    result = mechanism.fit(data, seed=0)
    assert result.details[ZEROS] == HONORED
    size, pairs = errors(result.sample(data.records, seed=0), data, ["size"])
    assert size < 0.03
    assert pairs < 0.05

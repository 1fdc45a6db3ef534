"""What the figures of PGM say of their runs (experiments): memory, factors by seed, and times that are compared."""

from __future__ import annotations

import pandas as pd
import pytest

from experiments.pgm_icml2019 import direct, figure1, figure2
from experiments.pgm_icml2019.paths import PAPERS


@pytest.mark.parametrize(("method", "gigabytes", "expected"), [
    ("multiplicative weights", 16.0, 9), ("multiplicative weights", 15.9, 8), ("LSMR", 16.0, 8), ("LSMR", 6.3, 7),
    ("LSMR", 6.4, 8),
])  # fmt: skip
def test_vectors_end_where_all_of_a_methods_arrays_fill_the_memory(method, gigabytes, expected):
    most = figure2.last_that_fits(method, gigabytes * 1e9)
    assert most == expected
    taken = [8 * figure2.ARRAYS[method] * 10.0**attributes for attributes in (most, most + 1)]
    assert taken[0] <= gigabytes * 1e9 < taken[1]


def test_factors_are_those_of_each_seed_and_mwems_own_error_is_plain_mwems():
    table = pd.DataFrame(
        [
            ("HDMM", "ours", 0, 1.0, 6.0, 2.0), ("HDMM", "ours", 1, 1.0, 8.0, 2.0), ("HDMM", "ours", 0, 10.0, 9.0, 1.0),
            ("HDMM", "published", 1, 1.0, 8.0, 1.0),
            ("MWEM", "plain", 0, 1.0, 5.0, None), ("MWEM", "plain", 1, 1.0, 7.0, None),
            ("MWEM", "ours", 1, 1.0, None, 2.0),
        ],
        columns=["mechanism", "way", "seed", "epsilon", "error_original", "error_pgm"],
    ).assign(dataset="adult")  # fmt: skip
    assert figure1.factors(table, "HDMM", "adult", "ours") == [3.0, 4.0]
    assert figure1.factors(table, "HDMM", "adult", "published") == [8.0]
    assert figure1.factors(table, "MWEM", "adult", "ours") == [3.5]
    for mechanism, name, way in (("HDMM", "loans", "ours"), ("MWEM", "adult", "published")):
        with pytest.raises(KeyError):
            figure1.factors(table, mechanism, name, way)


def test_losses_are_compared_after_the_seconds_that_all_three_have():
    def path(method: str, seconds: list[float], losses: list[float]) -> dict[str, object]:
        return {"method": method, "dataset": "titanic", "seconds": seconds, "l2": losses, "error": losses}

    rows = [
        path(direct.DIRECT, [1.0, 2.0, 8.0], [9.0, 5.0, 0.5]),
        path(direct.PROXIMAL, [1.0, 3.0], [4.0, 2.0]),
        path(PAPERS, [1.0, 5.0], [10.0, 6.0]),
    ]
    line = direct.compared(rows).iloc[0]
    assert line.seconds == 3.0
    assert line[direct.DIRECT] == pytest.approx(5.0 - 4.5 / 6)
    assert line[direct.PROXIMAL] == 2.0
    assert line[PAPERS] == pytest.approx(8.0)
    assert line.least == 0.5
    assert direct.compared(rows[:2]).empty

"""PPSyn's experiments: the closed forms are private and pay, ranges are what they say."""

import numpy as np
import pandas as pd
import pytest

import pgmest as pg
from experiments.ppsyn import cells
from experiments.ppsyn.leak import LABEL, PPSynPublishedPartlyClosed
from experiments.ppsyn.problems import Range, random_box, weighted_combinations
from experiments.ppsyn.published import LABEL as PUBLISHED_LABEL
from tests.privacy.amounts import rho

CENSUS = pg.datasets.load("census").select(["age", "sex", "income>50K"]).take(slice(0, 3000))


@pytest.mark.parametrize("partitions", ["records", "model", "cells"])
@pytest.mark.parametrize("contributions", ["records", "noisy", "chosen"])
def test_what_reads_true_marginals_says_so_and_all_is_paid(partitions, contributions):
    mechanism = PPSynPublishedPartlyClosed(
        rho=0.02, rounds=3, partitions=partitions, contributions=contributions, backend="simulation"
    )
    result = mechanism.fit(CENSUS, seed=0, progress=False)
    assert rho(result.ledger.remaining) < 1e-12
    open_parts = any(entry.label in (LABEL, PUBLISHED_LABEL) for entry in result.ledger)
    assert open_parts == (contributions == "records")
    assert len(result.details["chosen"]) <= 9 * 3


def test_a_range_holds_the_share_of_records_inside():
    data = pg.Dataset.from_codes([[0, 1, 2, 3], [0, 0, 1, 1]], {"a": 4, "b": 2})
    assert Range(("a", "b"), (1, 0), (3, 2)).fraction(data) == 0.5
    assert Range(("a", "b"), (0, 1), (3, 2)).fraction(data) == 0.25


def test_combinations_are_different_and_boxes_not_empty():
    domain, rng = pg.Domain({name: 4 for name in "abcdefg"}), np.random.default_rng(0)
    found = weighted_combinations(domain, 3, 30, rng)
    assert len(set(found)) == len(found) == 30
    assert len(weighted_combinations(domain, 3, 99, rng)) == 35  # there are no more
    for clique in found:
        box = random_box(domain, clique, rng)
        assert all(0 <= low < high <= 4 for low, high in zip(box.low, box.high, strict=True))


def test_of_each_group_of_forms_the_best_is_shown_in_each_setting():
    first, second, *_ = cells.GROUPS["partitions closed"]
    runs = [
        (cells.PUBLISHED, 0.1, [0.2, 0.3]), (first, 0.1, [0.5, 0.7]), (second, 0.1, [0.4, 0.9]), (second, 2.0, [0.1]),
    ]  # fmt: skip
    table = pd.DataFrame(
        [("BR2000", name, epsilon, error) for name, epsilon, errors in runs for error in errors],
        columns=["table", "mechanism", "epsilon", "workload_error"],
    )
    best = cells.best_forms(table, "workload_error")
    found = {key: sorted(rows["workload_error"]) for key, rows in best.groupby(["mechanism", "epsilon"])}
    assert found == {
        (cells.PUBLISHED, 0.1): [0.2, 0.3],
        ("partitions closed", 0.1): [0.5, 0.7],  # a median of 0.6, against 0.65
        ("partitions closed", 2.0): [0.1],
    }
    assert sorted(name for names in cells.GROUPS.values() for name in names) == sorted(cells.LEAKS)

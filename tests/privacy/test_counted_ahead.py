"""Marginals counted ahead of their requests: the same answers, and none that was not paid for is handed out."""

from __future__ import annotations

import numpy as np
import pytest

import pgmest as pg
from pgmest.data.dataset import Dataset
from pgmest.privacy import counted_ahead
from pgmest.privacy.budgets import Rho
from pgmest.privacy.counted_ahead import CountedAhead
from pgmest.privacy.curator import Curator

DOMAIN = pg.Domain({"a": 3, "b": 2, "c": 4})
CLIQUES = [(), ("a",), ("b", "a"), ("a", "b"), ("c",), ("a", "b", "c")]


def records(seed=0, weights=None):
    codes = np.random.default_rng(seed).integers(0, DOMAIN.shape, (50, 3))
    return Dataset.from_codes(codes, DOMAIN, weights)


@pytest.mark.parametrize("cells", [1, 12, 10**6])
def test_all_measured_together_are_as_measured_one_by_one(cells, monkeypatch):
    monkeypatch.setattr(counted_ahead, "AHEAD_CELLS", cells)
    data = records()
    together = Curator(data, Rho(1.0), seed=0, backend="simulation").measure_all(CLIQUES, Rho(1.0))
    apart = Curator(data, Rho(1.0), seed=0, backend="simulation")
    for clique, measured, part in zip(CLIQUES, together, Rho(1.0).split(len(CLIQUES)), strict=True):
        np.testing.assert_array_equal(measured.values, apart.measure(clique, part).values)


@pytest.mark.parametrize(("cells", "readings"), [(10**6, [6]), (20, [5, 1]), (1, [1] * 6)])
def test_the_records_are_read_once_for_as_many_tables_as_are_held(cells, readings, monkeypatch):
    monkeypatch.setattr(counted_ahead, "AHEAD_CELLS", cells)
    read, plain = [], Dataset.project_many
    monkeypatch.setattr(Dataset, "project_many", lambda self, asked: read.append(len(asked)) or plain(self, asked))
    data, ahead = records(), CountedAhead(DOMAIN, CLIQUES)
    for place, clique in enumerate(CLIQUES):
        np.testing.assert_array_equal(ahead.table(place)(data).values, data.project(clique).values)
    assert read == readings


def test_a_table_is_handed_out_once_and_then_counted_anew_of_whichever_records():
    data, other = records(0), records(1)
    ahead = CountedAhead(DOMAIN, CLIQUES)
    first = ahead.table(1)
    for asked in (data, other, data):
        np.testing.assert_array_equal(first(asked).values, asked.project("a").values)
    np.testing.assert_array_equal(ahead.table(2)(other).values, other.project(("b", "a")).values)
    np.testing.assert_array_equal(ahead.table(4)(data).values, data.project("c").values)
    assert len(ahead._tables) == 1  # of the one request left
    ahead.table(5)(data)
    assert not ahead._tables
    assert ahead._data is None


def test_weighted_records_are_counted_one_by_one(monkeypatch):
    monkeypatch.setattr(Dataset, "project_many", lambda *_: pytest.fail("counted together"))
    data = records(weights=np.linspace(0.1, 3, 50))
    np.testing.assert_array_equal(CountedAhead(DOMAIN, CLIQUES).table(3)(data).values, data.project(("a", "b")).values)


def test_what_is_left_of_a_run_that_stops_is_neither_charged_nor_answered():
    def stop(curator):
        curator.stopped = len(curator.ledger) == 2
        if curator.stopped:
            raise KeyboardInterrupt

    curator = Curator(records(), Rho(1.0), seed=0, backend="simulation", on_charge=stop)
    with pytest.raises(KeyboardInterrupt):
        curator.measure_all(CLIQUES, Rho(1.0))
    assert len(curator.ledger) == 2
    assert len(curator.measurements) == 1


def test_nothing_that_was_not_charged_outlives_a_run_that_stops(monkeypatch):
    """Requests may be kept, and what they hold written somewhere."""
    made, plain = [], CountedAhead.__init__
    monkeypatch.setattr(CountedAhead, "__init__", lambda self, *given: made.append(self) or plain(self, *given))

    def stop(curator):
        if len(curator.ledger) == 3:
            assert made[0]._tables  # else this test could not fail
            raise KeyboardInterrupt

    curator = Curator(records(), Rho(1.0), seed=0, backend="simulation", on_charge=stop)
    with pytest.raises(KeyboardInterrupt):
        curator.measure_all(CLIQUES, Rho(1.0))
    assert (made[0]._tables, made[0]._data) == ({}, None)

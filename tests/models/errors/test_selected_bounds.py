"""Bounds on distances of marginals by the selections that they lost, computed when they are asked for."""

import itertools
import math
from collections.abc import Sequence
from typing import cast

import numpy as np
import pytest

import pgmest as pg
from pgmest.measurements.selection import PaidSelection, ScoredMarginal
from pgmest.models.errors.model_tables import ModelTables
from pgmest.models.errors.selected_bounds import SelectedBounds
from pgmest.models.protocol import EstimatedModel

DOMAIN = pg.Domain({"a": 2, "b": 3, "c": 2, "d": 4})
PAIRS = tuple(itertools.combinations(DOMAIN, 2))


class AskedRecords:
    """The tables of records, as those of a model, with a list of the marginals that were asked for."""

    def __init__(self, data: pg.Dataset) -> None:
        self.data, self.domain, self.total = data, data.domain, float(len(data))
        self.asked: list[tuple[str, ...]] = []

    def project(self, clique: tuple[str, ...]) -> pg.Factor:
        self.asked.append(clique)
        return self.data.project(clique)


@pytest.fixture
def model() -> AskedRecords:
    generator = np.random.default_rng(0)
    codes = np.stack([generator.integers(0, size, 500) for size in DOMAIN.shape], axis=1)
    return AskedRecords(pg.Dataset.from_codes(codes, DOMAIN))


def bounds_of(model: AskedRecords, rounds: Sequence[PaidSelection], **known) -> SelectedBounds:
    """Return the bounds that selections give, without errors of the chosen marginals."""
    return SelectedBounds(ModelTables(cast(EstimatedModel, model)), rounds, known.get("known", {}), lambda _: None)


def selections(model: AskedRecords) -> list[PaidSelection]:
    """Return three rounds, each with a winner of its own, and models that come nearer from round to round."""
    found = []
    for place, winner in enumerate(PAIRS[:3]):
        before = {pair: model.project(pair).values.reshape(-1) + 5.0 * (4 - place) for pair in PAIRS}
        scored = [ScoredMarginal(pair, before[pair], 0.5, 7.0) for pair in PAIRS if pair not in PAIRS[:place]]
        chosen = next(one for one in scored if one.clique == winner)
        found.append(PaidSelection(chosen, tuple(one for one in scored if one is not chosen), 0.3, len(scored)))
    return found


def test_the_bound_is_the_least_one_of_all_rounds(model: AskedRecords):
    """The bound of each round is the largest likely score of a loser, and what the model's table moved since."""
    rounds = selections(model)
    found = bounds_of(model, rounds)
    for pair in PAIRS[1:]:
        table, bounds = model.project(pair).values.reshape(1, -1), []
        for one in rounds:
            chosen = model.project(one.chosen.clique).values.reshape(1, -1)
            most = float(one.chosen.scores(chosen)[0]) + math.log(one.candidates) / one.rate
            for lost in (lost for lost in one.lost if lost.clique == pair):
                bounds.append(max(0.0, 7.0 + most / 0.5) + float(np.abs(table - lost.expected).sum()))
        assert found.of(pair) == pytest.approx(min(bounds))
    assert found.every() == {pair: found.of(pair) for pair in PAIRS[1:]}


def test_only_tables_that_contain_the_asked_one_are_computed(model: AskedRecords):
    """A hundred attributes have thousands of pairs that lost selections: an interval must not wait for all of them."""
    found = bounds_of(model, selections(model))
    model.asked.clear()
    found.of(PAIRS[-1])
    assert PAIRS[-1] in model.asked
    assert not {PAIRS[3], PAIRS[4]} & set(model.asked)


def test_a_bound_that_was_known_before_counts_too(model: AskedRecords):
    """Bounds in a file hold for parts of their marginals; what nobody bounds has none."""
    found = bounds_of(model, (), known={("a", "b", "d"): 3.0, ("a", "d"): 9.0})
    assert found.of(("a", "d")) == 3.0
    assert found.of(("b", "c")) == math.inf


def test_merged_codes_are_compared_over_their_groups(model: AskedRecords):
    """A candidate over merged codes has the distance of the merged table."""

    class Merging:
        def sources(self, clique):
            return clique

        def cells(self, clique):
            return clique, np.arange(DOMAIN.size(clique)) // 2

    table = model.project(("a", "d")).values.reshape(-1)
    merged = table.reshape(-1, 2).sum(axis=1)
    chosen = ScoredMarginal(("a", "b"), model.project(("a", "b")).values.reshape(-1, 2).sum(axis=1))
    selection = PaidSelection(chosen, (ScoredMarginal(("a", "d"), merged + 1.0),), 1.0, 2, (Merging(),))
    found = bounds_of(model, (selection,))
    assert found.of(("a", "d")) == pytest.approx(math.log(2) + len(merged))


def test_selections_that_compared_merged_codes_bound_tables_over_codes_less() -> None:
    """A half of the distance is seen, so the bound is twice as large; of a table of one cell, nothing is, and two
    tables of 500 records are at most 1,000 apart."""
    generator = np.random.default_rng(4)
    data = pg.Dataset.from_codes(generator.integers(0, 2, (500, 2)), {"a": 2, "b": 2})
    table = data.project(("a", "b")).values.reshape(-1)
    chosen = ScoredMarginal(("a",), data.project(("a",)).values)
    bounds = []
    for shown in (1.0, 0.5, 0.0):
        lost = ScoredMarginal(("a", "b"), table, groups=np.arange(4))
        selection = PaidSelection(chosen, (lost,), 1.0, 2)
        tables = ModelTables(cast(EstimatedModel, data))
        bounds.append(
            SelectedBounds(tables, [selection], {}, lambda _: None, lambda *_, share=shown: share).of(("a", "b"))
        )
    assert 0 < bounds[0] < 500
    assert bounds[1] == pytest.approx(2 * bounds[0])
    assert bounds[2] == 2 * 500

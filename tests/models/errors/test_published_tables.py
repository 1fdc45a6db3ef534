"""Intervals of tables of which answers lie between two ends: they hold, and use all ends at once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pgmest as pg
from pgmest.models.errors.drawn_intervals import error_model_of
from pgmest.models.errors.published_tables import PublishedTable

DOMAIN = pg.Domain({"a": 6, "b": 5, "c": 2})
SHARES = np.random.default_rng(0).dirichlet(np.full(60, 0.5)).reshape(DOMAIN.shape)
PAIRS = (("a", "b"), ("b", "c"))
Answer = pg.LinearMeasurement


def records(seed: int) -> pg.Factor:
    """Draw a table of 600 records."""
    return pg.Factor(DOMAIN, np.random.default_rng(seed).multinomial(600, SHARES.ravel()).reshape(DOMAIN.shape))


def nearest(table: np.ndarray, clique: Any, generator: np.random.Generator) -> Answer:
    return Answer.rounded(5 * np.floor(table / 5 + 0.5), clique, 5)


def at_random(table: np.ndarray, clique: Any, generator: np.random.Generator) -> Answer:
    below = 5 * np.floor(table / 5)
    return Answer.rounded(below + 5 * (generator.random(table.shape) < (table - below) / 5), clique, 5, random=True)


def hidden(table: np.ndarray, clique: Any, generator: np.random.Generator) -> Answer:
    if table.ndim == 1:
        return Answer.exact(table, clique)
    shown = np.where((table > 0) & (table < 8), np.nan, table)
    shown[1] = np.where(np.isnan(shown[1]) | (shown[1] == 0), shown[1], np.inf)
    return Answer.suppressed(shown, clique, 8, least=1)


def ranges(table: np.ndarray, clique: Any, generator: np.random.Generator) -> Answer:
    ends = np.array([0, 1, 5, 10, 20, 40, 80, 160, 601])
    place = np.searchsorted(ends, table, side="right")
    return Answer.between(ends[place - 1], ends[place] - 1, clique)


def noisy(table: np.ndarray, clique: Any, generator: np.random.Generator) -> Answer:
    if table.ndim == 1:
        return nearest(table, clique, generator)
    return Answer(table + generator.normal(0, 6, table.shape), clique, 6.0)


Publish = Callable[[np.ndarray, Any, np.random.Generator], Answer]
WAYS = (nearest, at_random, hidden, ranges, noisy)


def model_of(make: Publish, table: pg.Factor, seed: int = 0) -> pg.Model:
    """Estimate a model of published pairs and attributes, and of the number of records."""
    generator = np.random.default_rng(seed)
    cliques = [*PAIRS, *((name,) for name in DOMAIN)]
    total = Answer.exact([table.values.sum()], ())
    return pg.estimate([total, *(make(table.project(c).values, c, generator) for c in cliques)], DOMAIN)


def held(model: pg.Model, table: pg.Factor, query: Any, **options: Any) -> np.ndarray:
    """Return whether each true answer is inside, of an interval that holds the model's."""
    found, truth = model.interval(query, **options), answer(table, query)
    assert found.kind == "errors"
    assert found.basis == "measured"
    estimate = answer(model, query)
    assert ((found.low.values <= estimate + 1e-6) & (estimate <= found.high.values + 1e-6)).all()
    return ((found.low.values <= truth + 1e-3) & (truth <= found.high.values + 1e-3)).ravel()


def answer(source: Any, query: Any) -> np.ndarray:
    names = query.attributes if isinstance(query, pg.Kron) else query
    counts = source.project(names).values
    return query.apply(source.project(names)).reshape(counts.shape) if isinstance(query, pg.Kron) else counts


@pytest.mark.parametrize("make", WAYS)
def test_intervals_hold(make: Publish) -> None:
    prefix = pg.Kron({"a": pg.queries.prefix(6), "b": pg.queries.identity(5)})
    for query in (("a", "b"), ("b",), ("a",), prefix):
        found = []
        for seed in range(8):
            table = records(seed)
            found.append(held(model_of(make, table, seed), table, query))
        assert np.mean(np.concatenate(found)) >= 0.93


@pytest.mark.parametrize("make", [nearest, at_random, hidden, ranges])
def test_cells_are_no_wider_than_their_ends_and_sums_are_narrower(make: Publish) -> None:
    """A sum of many counts is known better than the sum of their ends, and no count less well than its ends."""
    model = model_of(make, records(1))
    halves = (np.random.default_rng(2).random((20, 30)) < 0.5).astype(float)
    cells = [model.interval(("a", "b"), kind=kind).width.values for kind in ("auto", "bounds")]
    sums = [np.mean(model.interval(halves, ("a", "b"), kind=kind).width.values) for kind in ("auto", "bounds")]
    published = next(one for one in model.measurements or () if one.clique == ("a", "b"))
    assert published.low is not None
    assert published.high is not None
    assert (cells[0].ravel() <= published.high - published.low + 0.5).all()
    assert sums[0] < (1.0 if make is hidden else 0.8) * sums[1]


def test_draws_keep_to_ends_and_to_exact_sums() -> None:
    model = model_of(hidden, records(1))
    errors, counts = error_model_of(model), model.project(("a", "b")).values
    drawn = counts + errors.draws(("a", "b"), 50)
    published = next(one for one in model.measurements or () if one.clique == ("a", "b"))
    assert published.low is not None
    assert published.high is not None
    assert (drawn.reshape(50, -1) >= published.low - 0.05).all()
    assert (drawn.reshape(50, -1) <= published.high + 0.05).all()
    assert np.abs(drawn.sum(axis=2) - records(1).project("a").values).max() < 1e-3


def test_tables_that_are_drawn_together_agree() -> None:
    errors = error_model_of(model_of(at_random, records(1)))
    draw = errors.together(40, np.random.default_rng(0))
    pair, other, single = draw(("a", "b")), draw(("b", "c")), draw(("b",))
    scale = np.abs(single).mean()
    assert np.abs(pair.sum(axis=1) - single).mean() < 0.1 * scale
    assert np.abs(other.sum(axis=2) - single).mean() < 0.1 * scale


def test_large_ranges_beside_small_ones_keep_their_own_widths() -> None:
    """One error for all answers of a table would make narrow ranges wide."""
    table = np.array([[500.0, 3], [2, 400]])
    known = Answer.between([[400, 3], [1, 300]], [[600, 4], [2, 500]], ("a", "b"))
    model = pg.estimate([known, Answer.exact([table.sum()], ())], {"a": 2, "b": 2})
    widths = model.interval(("a", "b")).width.values
    assert widths[0, 1] <= 1
    assert widths[1, 0] <= 1
    assert (widths[[0, 1], [0, 1]] > 50).all()


def test_ends_that_say_nothing_leave_counts_unknown() -> None:
    table = records(1).project(("a", "b")).values
    wide = Answer.between(np.zeros((6, 5)), np.full((6, 5), 1e6), ("a", "b"))
    model = pg.estimate([wide, Answer.exact([600], ())], DOMAIN)
    found = model.interval(("a", "b"))
    assert found.width.values.min() > 40
    assert np.mean((found.low.values <= table) & (table <= found.high.values)) >= 0.9


def test_the_number_of_records_may_be_published() -> None:
    table = records(1).project(("a", "b")).values
    total = Answer.rounded([600], (), 20)
    model = pg.estimate([total, nearest(table, ("a", "b"), np.random.default_rng(0))], DOMAIN)
    found = model.interval(())
    assert found.low.values <= 600 <= found.high.values
    assert 5 < found.width.values <= 20
    assert model.interval(lambda one: one.values[0] / one.values.sum(), clique="a").width.values > 0


def test_files_keep_the_intervals(tmp_path: Path) -> None:
    model = model_of(at_random, records(1))
    model.save(tmp_path / "model.npz")
    found, again = (one.interval(("a", "b")) for one in (model, pg.load(tmp_path / "model.npz")))
    np.testing.assert_allclose(again.low.values, found.low.values, atol=1e-6)
    np.testing.assert_allclose(again.high.values, found.high.values, atol=1e-6)


def test_functions_levels_and_conditions() -> None:
    table, tree = records(1), pg.Hierarchy("a", {"half": [0, 0, 0, 1, 1, 1]})
    domain = DOMAIN.with_hierarchies(tree)
    known = [nearest(table.project(pair).values, pair, np.random.default_rng(0)) for pair in PAIRS]
    model = pg.estimate(known, domain)
    found = model.interval(("a@half", "b"))
    truth = table.project(("a", "b")).values.reshape(2, 3, 5).sum(axis=1)
    assert found.kind == "errors"
    assert np.mean((found.low.values <= truth) & (truth <= found.high.values)) >= 0.9
    given = model.interval("b", given={"a": 2})
    np.testing.assert_allclose(given.low.values, model.interval(("a", "b")).low.values[2], atol=1.5)
    ratio = model.interval(lambda one: one.values[0] / one.values.sum(), clique="a")
    assert ratio.low.values <= table.project("a").values[0] / 600 <= ratio.high.values


def test_structural_zeros_stay_empty() -> None:
    table = records(1).values.copy()
    table[0, 1] = 0
    known = nearest(table.sum(axis=2), ("a", "b"), np.random.default_rng(0))
    model = pg.estimate([known], DOMAIN, structural_zeros={("a", "b"): [(0, 1)]})
    assert model.interval(("a", "b")).high.values[0, 1] == 0


def test_tables_that_are_too_large_have_intervals_of_the_usual_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pgmest.models.errors.measured_evidence.MOST_CELLS", 20)
    monkeypatch.setattr(PublishedTable, "of", None)
    found = pg.estimate([nearest(records(1).project(("a", "b")).values, ("a", "b"), np.random.default_rng(0))], DOMAIN)
    assert found.interval(("a", "b")).kind == "errors"


@pytest.mark.parametrize("make", [hidden, nearest, lambda table, clique, generator: Answer.exact(table, clique)])
def test_populations(make: Publish) -> None:
    """The expected counts of cells that are empty in the table may be positive."""
    expected, found, empty = pg.Factor(DOMAIN, 600 * SHARES), [], []
    for seed in range(12):
        table = records(seed)
        truth = expected.project(("a", "b")).values
        interval = model_of(make, table, seed).interval(("a", "b"), about="population")
        found.append((interval.low.values <= truth) & (truth <= interval.high.values))
        empty.append(interval.width.values[table.project(("a", "b")).values == 0])
    assert np.mean(found) >= 0.93
    assert (np.concatenate(empty) > 0).all()

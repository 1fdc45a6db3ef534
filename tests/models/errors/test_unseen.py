"""UnseenDependence: how much a pair that was not measured may depend beyond the model, and what bounds leave of it."""

from __future__ import annotations

import math
from typing import cast

import numpy as np
import pytest

import pgmest as pg
from pgmest.measurements.selection import PaidSelection, ScoredMarginal
from pgmest.models.errors.drawn_intervals import error_model_of
from pgmest.models.errors.error_model import MARGIN
from pgmest.models.errors.model_tables import ModelTables
from pgmest.models.errors.unseen import UnseenDependence
from pgmest.models.protocol import EstimatedModel

RECORDS = 8000


def unseen(data: pg.Dataset, measured: dict[tuple[str, str], float], **known) -> UnseenDependence:
    """Return the dependence that a model may lack whose tables are those of records."""
    tables = ModelTables(cast(EstimatedModel, data))
    off = {pair: tables.table(pair) - tables.independent(pair) for pair in measured}
    return UnseenDependence(tables, off, {pair: 2 * RECORDS * size for pair, size in measured.items()}, {}, **known)


def records(**copied: float) -> pg.Dataset:
    """Return records of attributes of two codes, each of which copies the first one with a probability."""
    generator = np.random.default_rng(0)
    first = generator.integers(0, 2, RECORDS)
    columns = [
        np.where(generator.random(RECORDS) < p, first, generator.integers(0, 2, RECORDS)) for p in copied.values()
    ]
    return pg.Dataset.from_codes(np.stack([first, *columns], axis=1), dict.fromkeys(["a", *copied], 2))


def test_pairs_lack_less_dependence_the_more_of_it_the_model_has():
    """Both pairs may depend as much as the weakest edge of their path, and the model implies most of it for one."""
    strengths = {("a", "b"): 0.4, ("a", "c"): 0.4, ("a", "d"): 0.4}
    found = unseen(records(b=0.9, c=0.8, d=0.05), strengths, bounds=dict.fromkeys([("b", "c"), ("b", "d")], 1e6))
    assert found.distance(("b", "c")) < 0.3 * found.distance(("b", "d"))
    assert found.distance(("b", "c")) > 0


def test_pairs_that_were_passed_over_lack_no_more_than_their_bounds():
    """A loose bound leaves the expected dependence as it is, a tight one half of the bound."""
    strengths, size = {("a", "b"): 0.4, ("a", "c"): 0.4}, 2 * RECORDS
    loose, tight, unbound = (
        unseen(records(b=0.9, c=0.1), strengths, bounds={("b", "c"): size * bound, ("a", "c"): 1.0})
        for bound in (100.0, 0.001, math.inf)
    )
    assert loose.distance(("b", "c")) == pytest.approx(unbound.distance(("b", "c")))
    assert tight.distance(("b", "c")) == pytest.approx(size * 0.001 / 2, rel=0.01)


@pytest.mark.parametrize("bound", [0.5, 2.0, 40.0])
def test_drawn_errors_of_pairs_that_were_passed_over_are_within_their_bounds(bound):
    """Sampling errors have an l1 norm of about 16, so that the first bounds leave no room for all of them."""
    generator = np.random.default_rng(2)
    sampling, dependence = generator.normal(0, 1, (400, 5, 4)), generator.normal(0, 10, (400, 5, 4))
    found = unseen(records(b=0.5, c=0.5), {("a", "b"): 0.1}, bounds={("b", "c"): bound})
    drawn = np.abs(found.passed_over(("b", "c"), sampling, dependence, generator)).sum(axis=(1, 2))
    own = np.abs(sampling).sum(axis=(1, 2))
    assert drawn.max() <= bound + np.where(own > bound, 0, own).max()
    if bound < own.min():
        assert drawn.max() <= bound
        assert drawn.mean() == pytest.approx(bound / 2, rel=0.1)
    else:
        assert drawn.mean() > own.mean()


def test_chosen_tables_are_scored_by_what_their_answers_leave_plausible():
    """The bound of a table that lost is looser where shrinkage left the chosen one near to the model before."""
    data = records(b=0.5, c=0.5)
    tables = ModelTables(cast(EstimatedModel, data))
    chosen, lost = (ScoredMarginal(pair, tables.table(pair).reshape(-1)) for pair in (("a", "b"), ("b", "c")))
    selection = PaidSelection(chosen, (lost,), 1.0, 2)
    errors = np.random.default_rng(3).normal(0, 50, (500, 2, 2))
    bounds = [
        unseen(data, {("a", "b"): 0.1}, selections=(selection,), errors=drawn).selected_bound(("b", "c"))
        for drawn in (lambda _: None, {("a", "b"): errors}.get)
    ]
    assert bounds[0] == pytest.approx(math.log(2))
    assert bounds[1] == pytest.approx(math.log(2) + np.abs(errors).sum() / len(errors))


def test_pairs_of_uneven_attributes_lack_less_dependence_where_nobody_chose():
    """The same correlation is less dependence between attributes that are nearly constant."""
    sizes, generator = {"a": 0.5, "b": 0.5, "c": 0.02, "d": 0.02}, np.random.default_rng(1)
    columns = [(generator.random(RECORDS) < share).astype(int) for share in sizes.values()]
    found = unseen(pg.Dataset.from_codes(np.stack(columns, axis=1), dict.fromkeys(sizes, 2)), {("a", "b"): 0.1})
    even, uneven = found._unevenness(("a", "b")), found._unevenness(("c", "d"))
    assert found.distance(("c", "d")) == pytest.approx(uneven / even * 2 * RECORDS * 0.1)


def test_constant_attributes_have_no_dependence():
    data = pg.Dataset.from_codes(np.tile([0, 0, 1], (50, 1)), {"a": 2, "b": 2, "c": 2})
    assert unseen(data, {("a", "b"): 0.1}).distance(("b", "c")) == 0.0


def test_bounds_leave_dependence_what_sampling_errors_do_not_need():
    generator = np.random.default_rng(2)
    sampling, dependence = generator.normal(0, 1, (400, 5, 4)), generator.normal(0, 10, (400, 5, 4))
    found = unseen(records(b=0.5), {("a", "b"): 0.1})
    size = np.abs(sampling).sum() / 400
    assert np.array_equal(found.within(np.inf, sampling, dependence), sampling + dependence)
    assert np.allclose(found.within(size, sampling, dependence), sampling)
    assert np.allclose(found.within(size / 2, sampling, dependence), sampling / 2)
    both = found.within(2 * size, sampling, dependence)
    assert np.abs(both).sum() / 400 == pytest.approx(2 * size, rel=0.02)


def test_answers_that_count_all_codes_of_an_attribute_together_are_not_about_pairs_of_it():
    together = pg.Kron({"a": np.ones((1, 3)), "b": pg.queries.identity(2)})
    answers = [
        pg.LinearMeasurement(np.array([30.0, 40.0, 50.0]), ("a",), 1.0),
        pg.LinearMeasurement(np.array([70.0, 50.0]), ("a", "b"), 1.0, together),
    ]
    model = pg.estimate(answers, pg.Domain({"a": 3, "b": 2}))
    errors = error_model_of(model)
    assert not errors.is_measured(("a", "b"))
    assert errors.is_measured(("b",))
    assert pg.interval(model, ("a", "b")).basis == "dependence"


def test_errors_of_both_attributes_together_are_errors_of_a_pair_that_was_not_measured():
    """With noise nearly as large as counts, the product of two errors is as large as each of them."""
    total, noise = 1000.0, 200.0
    answers = [pg.LinearMeasurement(np.full(2, total / 2), (name,), noise) for name in "ab"]
    errors = error_model_of(pg.estimate(answers, pg.Domain({"a": 2, "b": 2}), total=total))
    drawn = errors.draws(("a", "b"), 20_000) / MARGIN
    rows, columns = drawn.sum(axis=2)[:, 0], drawn.sum(axis=1)[:, 0]
    within = np.abs([rows, columns]).max(axis=0) < total / 2  # no plausible count is negative
    beyond, product = drawn[:, 0, 0] - (rows + columns) / 2, rows * columns / total
    assert beyond[within] @ product[within] / (product[within] @ product[within]) == pytest.approx(1.0, abs=0.15)


def test_codes_with_next_to_no_records_leave_the_draws_finite():
    """A product of such counts is below the smallest number that a count may be divided by."""
    answers = [pg.LinearMeasurement(np.full(3, 100.0), (name,), 80.0) for name in "ab"]
    errors = error_model_of(pg.estimate(answers, pg.Domain({"a": 3, "b": 3})))
    errors.tables._tables.update({(name,): np.array([1e-320, 200.0, 100.0]) for name in "ab"})
    with np.errstate(over="raise", invalid="raise"):
        assert np.isfinite(errors.draws(("a", "b"))).all()


def test_pairs_depend_as_much_as_one_of_the_measured_pairs_if_these_were_not_chosen():
    """Of two measured pairs one depends and one does not, so that an unmeasured pair does in half of the draws."""
    generator = np.random.default_rng(4)
    found = unseen(records(b=0.9, c=0.0, d=0.0), {("a", "b"): 0.4, ("a", "c"): 0.0})
    drawn = found.like_measured(("c", "d"), np.ones((2000, 2, 2)), generator)
    sizes = np.abs(drawn).sum(axis=(1, 2))
    depends = sizes > 0.1 * sizes.max()
    assert found.is_like_measured(("c", "d"))
    assert depends.mean() == pytest.approx(0.5, abs=0.05)
    assert sizes.mean() == pytest.approx(found.distance(("c", "d")), rel=0.1)
    assert not unseen(records(b=0.9, c=0.0), {("a", "b"): 0.4}, bounds={("b", "c"): 1.0}).is_like_measured(("b", "c"))


def test_tables_of_even_attributes_depend_no_more_than_copies():
    answer, domain = pg.LinearMeasurement, pg.Domain({"a": 2, "b": 2, "c": 2})
    pair = np.array([[30.0, 20.0], [20.0, 30.0]])
    even = [answer.exact([50, 50], (name,)) for name in domain]
    noisy = [answer(pair + 0.5, ("a", "b"), 2.0), answer(pair - 0.5, ("b", "c"), 2.0)]
    model = pg.estimate([answer.exact([100], ()), *even, *noisy], domain)
    for about in ("table", "population"):
        found = model.interval(("a", "b", "c"), about=about)
        assert (found.high.values < 80).all()
        assert (found.low.values < found.high.values).all()

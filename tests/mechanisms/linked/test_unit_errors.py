"""Errors of questions about whole units: what units add to answers, the posterior, and how often intervals hold."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from pgmest.data.dataset import Dataset
from pgmest.data.linked import LinkedDataset, LinkedTable
from pgmest.errors import ArgumentError, DataError, ShapeError
from pgmest.measurements.measurement import LinearMeasurement
from pgmest.mechanisms.linked import LinkedLAMP
from pgmest.mechanisms.linked import unit_errors as module
from pgmest.mechanisms.linked.families import Families
from pgmest.mechanisms.linked.family_model import FamilyModel
from pgmest.mechanisms.linked.lengths import MeasuredLengths
from pgmest.mechanisms.linked.numbers import MeasuredNumbers
from pgmest.mechanisms.linked.result import LinkedResult
from pgmest.mechanisms.linked.unit_answers import ratio_ends, unit_answers
from pgmest.mechanisms.linked.unit_errors import Errors, UnitErrors
from pgmest.mechanisms.linked.unit_rows import noisy_answers
from pgmest.queries import prefix
from tests.mechanisms.linked.examples import random_families


def linked_of(families: Families) -> LinkedDataset:
    layout = families.layout
    above = LinkedTable(Dataset.from_codes(list(families.parents[:, :-1].T), layout.parent))
    below = Dataset.from_codes(families.children, layout.child)
    return LinkedDataset(
        {"households": above, "persons": LinkedTable(below, "households", families.owners, layout.at_most)}
    )


def model_of(families: Families, answers: list[MeasuredLengths], stddev: float = 2.0) -> FamilyModel:
    name = families.layout.parents[0]
    table = families.above((name,)).ravel() * 1.0
    above = (LinearMeasurement(table, name, stddev), LinearMeasurement(np.cumsum(table), name, stddev, prefix(2)))
    numbers = (MeasuredNumbers(families.layout.members[0], families.numbers(families.layout.members[0])[0], 3.0, 0.0),)
    return FamilyModel(families, tuple(answers), above, float(len(families.sizes)), 2.0, numbers)


@pytest.mark.parametrize(
    ("ordered", "averaged", "cut"), [(False, False, 0.0), (False, False, 0.4), (False, True, 0.0), (True, False, 0.4)]
)
def test_the_rows_of_families_add_up_to_the_tables_of_the_kernels(ordered: bool, averaged: bool, cut: float) -> None:
    families = random_families(np.random.default_rng(3), 80, 14, ordered=ordered)  # beyond 12 not all pairs count
    layout = families.layout
    attributes = (*layout.parents[:1], *layout.members, *layout.others)
    cliques = [pair for pair in itertools.combinations(attributes, 2) if not layout.is_above(pair)]
    cliques = [c for c in cliques if not (layout.is_across(c) and c[0] not in layout.members)]
    for clique in [*cliques, layout.members[:1], layout.others[:1]]:
        groups = tuple(np.arange(layout.domain[name]) for name in clique)
        table = families.tables(clique, groups, cut)[int(averaged)]
        answer = MeasuredLengths(clique, groups, table, 1.0, averaged, cut)
        *_, found, _ = noisy_answers(model_of(families, [answer]))
        assert np.allclose(found.total(families), found.values), clique
        assert np.allclose(np.asarray(found.rows(families).sum(axis=0)).ravel(), found.values)
        if not averaged:
            assert np.square(found.rows(families).toarray()).sum(axis=1).max() <= 1 + 1e-9


def test_the_rows_of_parents_and_of_numbers_add_up_to_their_tables() -> None:
    families = random_families(np.random.default_rng(4), 50, 4)
    first, second, numbers = noisy_answers(model_of(families, []))
    for answer in (first, second, numbers):
        assert np.allclose(answer.total(families), answer.values)
        assert np.allclose(np.asarray(answer.rows(families).sum(axis=0)).ravel(), answer.values)
    assert second.rows(families).shape == (50, 2)


def test_errors_are_those_of_the_normal_posterior() -> None:
    families = random_families(np.random.default_rng(5), 40, 3)
    model = model_of(families, [])
    errors = UnitErrors.of(linked_of(families), {"persons": model})
    rows = np.hstack([answer.rows(families).toarray() / answer.stddev for answer in noisy_answers(model)])
    prior = module.model_error([model], 40.0) ** 2 * 40
    common = 1 + (2 / 40) ** 2  # of the number of all units, whose standard error is 2
    cov = np.linalg.inv(rows @ rows.T + np.linalg.inv(np.eye(40) * prior + common))
    share = np.diag(cov) / prior
    more = np.maximum(1 / share, np.square(module.LEFT_OUT / share)) - 1
    assert more.min() > 0
    cov = cov + cov @ np.diag(more / prior) @ cov
    values = np.random.default_rng(6).normal(size=(40, 3))
    found = errors.totals(values, np.zeros(3))
    assert np.allclose(np.square(found.stddev), np.diag(values.T @ cov @ values))
    other = values[:, ::-1]
    assert np.allclose(found.covariance(errors.totals(other, np.zeros(3))), np.sum(values * (cov @ other), axis=0))
    nothing = UnitErrors.of(linked_of(families), {"persons": FamilyModel(families, (), (), 40.0, 1.0)})
    centered = values - values.mean(axis=0)  # so that the number of all units does not matter
    mean = nothing.totals(centered / 40, np.zeros(3)).stddev
    unknown = module.model_error([], 40.0)
    assert np.allclose(mean, unknown * centered.std(axis=0))
    assert nothing.totals(np.ones((40, 1)), np.zeros(1)).stddev[0] > 40
    one = errors.totals(np.zeros((40, 1)), np.ones(1)).stddev  # units that do not occur
    assert one[0] == pytest.approx(unknown * 40**0.5, rel=1e-4)
    hidden = UnitErrors.of(linked_of(families), {"persons": FamilyModel(families, (), (), 40.0, 300.0)})
    assert hidden.totals(np.zeros((40, 1)), np.ones(1)).stddev[0] > 300  # the noise hides as many of any kind


def test_the_model_error_grows_with_the_dependence_that_noise_hides() -> None:
    families = random_families(np.random.default_rng(9), 50, 3)

    def run(stddev: float) -> FamilyModel:
        answer = MeasuredLengths(("a", "b"), (np.arange(8), np.arange(6)), np.zeros((8, 6)), stddev, False)
        return FamilyModel(families, (answer,), (), 500.0, 1.0)

    found = [module.model_error([run(stddev)], 500.0) for stddev in (0.0, 5.0, 50.0, 5e6)]
    assert found[0] == module.MODEL_ERROR
    assert found == sorted(found)
    assert found[-1] == pytest.approx(module.model_error([], 500.0))
    noise = 5.0 * np.random.default_rng(10).standard_normal(
        (4000, 8, 6)
    )  # correlations of two halves of the units each
    halves = np.multiply.outer(np.repeat([1, -1], 4), np.repeat([1, -1], 3))
    correlations = (noise * halves).sum(axis=(1, 2)) / 500
    assert found[1] == pytest.approx(np.hypot(module.MODEL_ERROR, correlations.std()), rel=0.01)


def test_noisy_answers_move_the_bias_and_the_errors_have_the_right_size() -> None:
    families = random_families(np.random.default_rng(7), 60, 3)
    linked, generator = linked_of(families), np.random.default_rng(8)
    model, values = model_of(families, []), generator.random((60, 5))
    answers, scores = list(noisy_answers(model)), []
    error = module.model_error([model], 60.0)
    for _ in range(60):
        more = generator.normal(0, error * 60**0.5, 60)
        drawn = [a.total(families) + more @ a.rows(families).toarray() for a in answers]
        drawn = [one + generator.normal(0, a.stddev, len(one)) for one, a in zip(drawn, answers, strict=True)]
        above = tuple(
            LinearMeasurement(one, m.clique, m.stddev, m.query) for one, m in zip(drawn, model.above, strict=False)
        )
        numbers = (MeasuredNumbers(model.numbers[0].name, drawn[-1].reshape(-1, 3), 3.0, 0.0),)
        seen = FamilyModel(families, (), above, 60.0, 2.0, numbers)
        found = UnitErrors.of(linked, {"persons": seen}).totals(values, np.zeros(5))
        spread = np.sqrt(np.square(found.half[:60]).sum(axis=0))  # without the correction of residuals
        scores.append((more @ values - found.bias) / spread)
    assert np.sqrt(np.mean(np.square(scores))) == pytest.approx(1.0, abs=0.12)


def test_a_ratio_to_a_total_that_may_be_0_has_no_ends() -> None:
    def of(*half: float) -> Errors:
        return Errors(np.array(half)[:, None], np.zeros(1), np.zeros(1))

    low, high = ratio_ends(np.array([5.0]), of(1.0), np.array([10.0]), of(6.0), 0.95)
    assert (low[0], high[0]) == (-np.inf, np.inf)
    low, high = ratio_ends(np.array([5.0]), of(0.0), np.array([10.0]), of(0.0), 0.95)
    assert (low[0], high[0]) == (0.5, 0.5)
    low, high = ratio_ends(np.array([50.0]), of(10.0, 0.0), np.array([100.0]), of(0.0, 10.0), 0.95)
    draws = np.random.default_rng(0).normal(size=(2, 100_000)) * 10
    drawn = (50 + draws[0]) / (100 + draws[1])
    assert np.allclose([low[0], high[0]], np.quantile(drawn, [0.025, 0.975]), atol=0.005)


def test_answers_have_the_shape_of_the_values_and_refuse_others() -> None:
    families = random_families(np.random.default_rng(9), 30, 3)
    errors = UnitErrors.of(linked_of(families), {"persons": model_of(families, [])})
    total = unit_answers(errors, families.sizes, None, 0.95)
    assert total.values.shape == ()
    assert total.low < families.sizes.sum() < total.high
    assert unit_answers(errors, np.ones((30, 2)) * 1e300, np.ones(30), 0.9).values.tolist() == [1e300, 1e300]
    assert np.isnan(unit_answers(errors, np.ones(30), np.zeros(30), 0.95).values)
    wider = unit_answers(errors, families.sizes, None, 0.99)
    assert wider.high > total.high
    with pytest.raises(ShapeError, match="one value for each"):
        unit_answers(errors, np.ones(29), None, 0.95)
    with pytest.raises(ShapeError, match="among"):
        unit_answers(errors, np.ones((30, 3)), np.ones((30, 2)), 0.95)
    with pytest.raises(DataError, match="finite; 30"):
        unit_answers(errors, np.full(30, np.nan), None, 0.95)
    with pytest.raises(DataError, match="numbers"):
        unit_answers(errors, ["a"] * 30, None, 0.95)
    with pytest.raises(ArgumentError, match="negative"):
        unit_answers(errors, np.ones(30), -np.ones(30), 0.95)
    with pytest.raises(ArgumentError, match="level"):
        unit_answers(errors, np.ones(30), None, 1.0)


def test_without_synthetic_units_there_are_no_errors() -> None:
    families = random_families(np.random.default_rng(1), 5, 3)
    none = Families(families.layout, families.parents[:0], families.children[:0])
    with pytest.raises(ArgumentError, match="Raise epsilon"):
        UnitErrors.of(linked_of(none), {"persons": model_of(families, [])})


def typed_households(count: int, generator: np.random.Generator) -> LinkedDataset:
    """Return households of three types, each with ages and work of its own, of which no table tells the type."""
    kind = generator.integers(3, size=count)
    sizes = np.choose(kind, [1, 2, 3]) + generator.integers(3, size=count)
    rows = np.repeat(np.arange(count), sizes)
    age = (generator.random(len(rows)) * 3 + kind[rows] * 1.5).astype(int)
    work = generator.random(len(rows)) < np.choose(kind[rows], [0.1, 0.8, 0.4])
    region = (kind + (generator.random(count) < 0.3)) % 3
    above = LinkedTable(Dataset.from_codes([region], {"region": 3}))
    persons = Dataset.from_codes([age, work.astype(int)], {"age": 6, "work": 2})
    return LinkedDataset({"households": above, "persons": LinkedTable(persons, "households", rows, 5)})


def questions(linked: LinkedDataset) -> np.ndarray:
    """Return indicators of units, shape (units, questions): how many have a kind, whether all do, and two kinds."""
    units, data = linked.units("persons"), linked.tables["persons"].dataset
    age, work = (np.asarray(data.column(name)) for name in ("age", "work"))
    kinds = [age >= 4, age < 2, work == 1, (age >= 2) & (work == 0), (age < 3) & (work == 1), age % 2 == 0]
    counts = [np.bincount(units, kind, len(linked)) for kind in kinds]
    found = [counts[a] >= most for a in range(6) for most in (1, 2, 3)]
    found += [counts[a] == linked.sizes("persons") for a in range(6)]
    found += [(counts[a] > 0) & (counts[b] > 0) for a, b in itertools.combinations(range(6), 2)]
    region = np.asarray(linked.tables["households"].dataset.column("region"))
    found += [(counts[a] > 0) & (region == 1) for a in range(6)]
    return np.stack(found, axis=1).astype(float)


@pytest.fixture(scope="module")
def worlds() -> list[tuple[LinkedDataset, LinkedResult]]:
    made = []
    for seed, epsilon in enumerate((0.5, 4.0)):
        linked = typed_households(600, np.random.default_rng(seed))
        mechanism = LinkedLAMP(epsilon=epsilon, backend="simulation")
        made.append((linked, mechanism.fit(linked, seed=seed, progress=False)))
    return made


@pytest.mark.parametrize(("model_error", "least", "most"), [(None, 0.9, 1.0), (0.005, 0.0, 0.8)])
def test_intervals_hold_unless_the_model_is_taken_to_be_right(
    worlds: list[tuple[LinkedDataset, LinkedResult]],
    monkeypatch: pytest.MonkeyPatch,
    model_error: float | None,
    least: float,
    most: float,
) -> None:
    if model_error is not None:
        monkeypatch.setattr(module, "model_error", lambda *_: model_error)
    held = []
    for linked, result in worlds:
        errors = UnitErrors.of(result.model, {name: run.model for name, run in result.results.items()})
        true, made = questions(linked), questions(result.model)
        shares = unit_answers(errors, made, np.ones(len(made)), 0.95)
        held.append((shares.low <= true.mean(axis=0)) & (true.mean(axis=0) <= shares.high))
    assert least <= np.mean(held) <= most


def test_intervals_of_a_table_smaller_than_its_noise_hold_its_number_of_units() -> None:
    linked = typed_households(4, np.random.default_rng(0))
    for seed in (3, 4):
        result = LinkedLAMP(epsilon=0.3, backend="simulation").fit(linked, seed=seed, progress=False)
        number = result.unit_interval(np.ones(len(result.model)))
        assert number.values > 4
        assert number.low <= 4 <= number.high

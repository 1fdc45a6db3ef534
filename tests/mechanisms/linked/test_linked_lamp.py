"""LinkedLAMP: budgets, degenerate tables, rules, trees, and the tables that it keeps."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from pgmest.data.dataset import Dataset
from pgmest.data.linked import LinkedDataset, LinkedTable
from pgmest.data.linked_rules import AtLeast, AtMost, Exactly, Impossible, Older, Rule
from pgmest.errors import ArgumentError, DataError, LedgerError
from pgmest.mechanisms import run_arguments
from pgmest.mechanisms.linked import LinkedLAMP
from pgmest.mechanisms.linked.assembly import counts_from_averages
from pgmest.mechanisms.linked.family_lamp import FamilyLAMP
from pgmest.mechanisms.linked.lengths import MeasuredLengths
from pgmest.mechanisms.linked.rounds import MOST_CHILDREN, LinkedEvidence
from pgmest.mechanisms.linked.trees import family_table
from pgmest.privacy import ApproxDP, Curator, Epsilon, Rho
from pgmest.privacy.budgets import DEFAULT_DELTA
from pgmest.privacy.dataset_ledger import DatasetLedger
from pgmest.privacy.ledger import Statement
from tests.mechanisms.linked.examples import households, random_table, small_tree

SIZES = np.random.default_rng(0).integers(5, size=200)


def fitted(linked: LinkedDataset, **budget: float):
    return LinkedLAMP(backend="simulation", **(budget or {"epsilon": 1.0})).fit(linked, seed=0, progress=False)  # type: ignore[arg-type]


@pytest.mark.parametrize("budget", [{"epsilon": 1.0}, {"epsilon": 1.0, "delta": 0.0}, {"rho": 0.1}])
def test_the_whole_budget_is_spent_and_no_more(budget: dict[str, float]) -> None:
    result = fitted(households(SIZES, {"r": 3}, {"a": 5, "b": 2}, 4), **budget)
    ledger = result.ledger
    assert isinstance(ledger, Statement)
    spent, budget_of = float(ledger.total.exact[0]), float(ledger.budget.exact[0])
    assert spent <= budget_of
    assert spent == pytest.approx(budget_of, rel=1e-6)
    sample = result.sample(seed=0)
    assert sample.sizes("persons").max() <= 4
    assert len(sample) == pytest.approx(200, abs=60)


@pytest.mark.parametrize(
    ("sizes", "parent", "child", "at_most"),
    [
        (SIZES, {}, {"a": 5}, 4),
        (SIZES, {"r": 3}, {}, 4),
        (SIZES, {}, {}, 4),
        (np.zeros(50, dtype=int), {"r": 3}, {"a": 5}, 4),
        ([3], {"r": 3}, {"a": 5, "b": 2}, 4),
        ([], {"r": 3}, {"a": 5, "b": 2}, 4),
        (SIZES % 2, {"r": 3}, {"a": 5}, 1),
        (SIZES, {"r": 1}, {"a": 1, "b": 2}, 4),
        (SIZES[:20] * 8, {"r": 2}, {"a": 3}, 40),
    ],
)
def test_degenerate_tables(sizes: np.ndarray, parent: dict[str, int], child: dict[str, int], at_most: int) -> None:
    sample = fitted(households(sizes, parent, child, at_most)).sample(seed=0)
    assert dict(sample.tables["households"].domain) == parent
    assert dict(sample.tables["persons"].domain) == child
    assert sample.sizes("persons").max() <= at_most


def test_no_households_without_much_noise_are_no_error() -> None:
    linked = households([], {"r": 2}, {"a": 2}, 17)
    result = LinkedLAMP(rho=1000.0, backend="simulation").fit(linked, seed=0, progress=False)
    assert len(result.sample(seed=0)) <= 1


@pytest.mark.parametrize("at_most", [1, 2])
@pytest.mark.parametrize("child", [{"a": 3}, {"a": 1}, {}])
def test_degenerate_tables_in_order(child: dict[str, int], at_most: int) -> None:
    linked = households(np.arange(30) % (at_most + 1), {}, child, at_most)
    persons = replace(linked.tables["persons"], ordered=True)  # by a number that is not kept
    linked = replace(linked, tables={**linked.tables, "persons": persons})
    sample = fitted(linked).sample(seed=0).tables["persons"]
    assert (sample.ordered, dict(sample.domain)) == (True, child)


def test_many_families_without_much_noise_are_close() -> None:
    generator = np.random.default_rng(1)
    linked = households(generator.integers(1, 4, size=3000), {"r": 3}, {"a": 4, "b": 2}, 3)
    data = linked.tables["persons"].dataset
    owners = linked.units("persons")
    region = np.asarray(linked.tables["households"].dataset.column("r"))
    codes = [(np.asarray(data.column("a")) + region[owners]) % 4, owners % 2]  # both depend on the household
    linked = LinkedDataset(
        {
            "households": linked.tables["households"],
            "persons": LinkedTable(Dataset.from_codes(codes, data.domain), "households", owners, 3),
        }
    )
    made = fitted(linked, epsilon=30.0).sample(seed=0)

    def joint(tables: LinkedDataset) -> np.ndarray:
        persons, rows = tables.tables["persons"].dataset, tables.units("persons")
        above = np.asarray(tables.tables["households"].dataset.column("r"))[rows]
        return np.bincount(above * 4 + np.asarray(persons.column("a")), minlength=12) / len(rows)

    def alike(tables: LinkedDataset) -> float:
        rows, b = tables.units("persons"), np.asarray(tables.tables["persons"].dataset.column("b"))
        same = rows[1:] == rows[:-1]
        return float((b[1:] == b[:-1])[same].mean())

    assert np.abs(joint(linked) - joint(made)).sum() / 2 < 0.03
    assert alike(linked) == 1
    assert alike(made) > 0.95


def test_rules_hold() -> None:
    rules = [Exactly("persons", "a", (0,), 1)]
    sample = fitted(households(SIZES, {"r": 3}, {"a": 5, "b": 2}, 4, rules)).sample(seed=0)
    assert sample.rules == tuple(rules)
    assert not rules[0].broken(sample).any()


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("count", [1, 3])
def test_rules_hold_although_no_household_has_persons(count: int) -> None:
    rules = [Exactly("persons", "a", (0,), count), Exactly("persons", "b", (1,), 1)]
    sample = fitted(households([0] * 300, {"r": 3}, {"a": 5, "b": 2}, 4, rules), epsilon=100.0).sample(seed=0)
    assert len(sample) == pytest.approx(300, abs=20)
    assert [int(rule.broken(sample).sum()) for rule in rules] == [0, 0]


def test_trees() -> None:
    generator = np.random.default_rng(0)
    patients = LinkedTable(random_table(150, {"sex": 2, "age": 4}, generator))
    rows = np.repeat(np.arange(150), generator.integers(4, size=150))
    visits = LinkedTable(random_table(len(rows), {"kind": 3}, generator), "patients", rows, 3)
    further = np.repeat(np.arange(len(rows)), generator.integers(3, size=len(rows)))
    diagnoses = LinkedTable(random_table(len(further), {"code": 6}, generator), "visits", further, 2)
    some = np.flatnonzero(generator.random(150) < 0.5)
    notes = LinkedTable(random_table(len(some), {"kind": 2}, generator), "patients", some, 1)
    tables = {"patients": patients, "visits": visits, "diagnoses": diagnoses, "notes": notes}
    result = fitted(LinkedDataset(tables), epsilon=20.0)
    sample = result.sample(seed=0)
    assert set(sample.tables) == set(tables)
    assert sorted(result.results) == ["diagnoses", "notes", "visits"]
    assert result.results["diagnoses"].mechanism.neighbors.records == 3
    for name in ("visits", "diagnoses", "notes"):
        assert sample.tables[name].at_most == tables[name].at_most
        assert sample.tables[name].rows == pytest.approx(tables[name].rows, rel=0.5)


def test_runs_of_a_tree_have_equal_parts_of_the_budget() -> None:
    generator = np.random.default_rng(0)
    rows = np.repeat(np.arange(150), generator.integers(4, size=150))
    tables = {
        "patients": LinkedTable(random_table(150, {"sex": 2}, generator)),
        "visits": LinkedTable(random_table(len(rows), {"kind": 3}, generator), "patients", rows, 3),
        "notes": LinkedTable(random_table(150, {"kind": 2}, generator), "patients", np.arange(150), 1),
    }
    runs = fitted(LinkedDataset(tables), epsilon=20.0).results
    assert len(runs) == 2
    assert runs["visits"].ledger.budget == runs["notes"].ledger.budget


@pytest.mark.parametrize(
    "budget", [{"epsilon": 1.0}, {"epsilon": 0.1, "delta": 1e-6}, {"epsilon": 1.0, "delta": 0.0}, {"rho": 0.1}]
)
def test_the_edges_of_a_tree_together_spend_what_is_promised(budget: dict[str, float]) -> None:
    result = fitted(small_tree(), **budget)
    parts = [run.ledger.budget for run in result.results.values()]
    kind, total = type(parts[0]), sum(part.exact[0] for part in parts)
    assert kind is (Epsilon if budget.get("delta") == 0 else Rho)  # each adds up by its first amount
    if result.promise is None:
        assert total <= Fraction(budget["rho"])
    elif kind is Epsilon:
        assert (total <= 1, result.promise.delta) == (True, 0)
    else:
        assert Rho(float(total)).to_approx(result.promise.delta).epsilon <= result.promise.epsilon * (1 + 1e-9)


def test_a_delta_that_is_not_given_is_the_default_of_a_single_table() -> None:
    assert LinkedLAMP(epsilon=1.0, delta=None).promise == ApproxDP(1.0, DEFAULT_DELTA)
    assert LinkedLAMP(epsilon=1.0, delta=0).promise == ApproxDP(1.0, 0.0)
    assert LinkedLAMP(rho=1.0).promise is None


def test_a_run_is_resumed_without_paying_again_and_ends_at_its_limit(tmp_path: Path) -> None:
    linked = households(SIZES, {"r": 3}, {"a": 5, "b": 2}, 4)
    mechanism = LinkedLAMP(epsilon=1.0, backend="simulation")
    paths = {"progress": False, "checkpoint": tmp_path / "run.journal"}
    one, other = (mechanism.fit(linked, seed=3, **paths) for _ in range(2))
    assert one.model == other.model
    assert str(one.ledger) == str(other.ledger)

    def stop(curator: Curator) -> None:
        curator.stopped = len(curator.ledger) > 8

    early = mechanism.fit(linked, seed=3, progress=stop)
    assert early.interrupted
    assert early.sample().sizes("persons").max() <= 4


def test_progress_has_the_name_that_statements_have(monkeypatch: pytest.MonkeyPatch) -> None:
    titles = []

    @contextlib.contextmanager
    def bar(title: str) -> Iterator[None]:
        titles.append(title)
        yield

    monkeypatch.setattr(run_arguments, "budget_bar", bar)
    LinkedLAMP(epsilon=1.0, backend="simulation").fit(households(SIZES, {"r": 3}, {"a": 5}, 4), seed=0)
    assert set(titles) == {"LinkedLAMP"}


def test_a_ledger_of_rows_refuses_runs_that_protect_households(tmp_path: Path) -> None:
    linked = households(SIZES[:50], {"r": 3}, {"a": 5}, 4)
    mechanism = LinkedLAMP(epsilon=1.0)
    for name, unit in (("rows", None), ("persons", "person"), ("homes", "households")):
        ledger = DatasetLedger.create(tmp_path / name, Rho(2.0), unit=unit)
        if name == "homes":
            mechanism.fit(linked, seed=0, progress=False, ledger=ledger)
            assert 1.9 < ledger.remaining.exact[0] < 2
        else:
            with pytest.raises(LedgerError, match="all rows of one 'households'"):
                mechanism.fit(linked, seed=0, progress=False, ledger=ledger)
            assert ledger.remaining.exact[0] == 2


def test_units_are_drawn_alike() -> None:
    result = fitted(households(SIZES, {"r": 3}, {"a": 5}, 4))
    have = len(result.sample())
    assert [len(result.sample(units, seed=0)) for units in (1, have - 1, have, 2 * have + 3)] == [
        1,
        have - 1,
        have,
        2 * have + 3,
    ]
    with pytest.raises(ArgumentError):
        result.sample(0)


def test_what_cannot_be_protected_is_refused() -> None:
    linked = households(SIZES, {"r": 3}, {"a": 5}, 4)
    with pytest.raises(ArgumentError):
        LinkedLAMP()
    with pytest.raises(ArgumentError, match=r"'persons\.a' with 1,000,001 values: make its bins wider"):
        fitted(households([1, 2], {"r": 3}, {"a": 1_000_000}, 4))
    with pytest.raises(ArgumentError, match="single table"):
        fitted(LinkedDataset({"households": linked.tables["households"]}))
    with pytest.raises(ArgumentError):
        fitted(linked.tables["persons"].dataset)  # type: ignore[arg-type]


def test_a_large_limit_does_not_make_a_first_model_of_millions() -> None:
    linked = households(SIZES[:30], {"r": 2}, {"a": 3}, 4)
    persons = replace(linked.tables["persons"], at_most=3000)
    layout = family_table(LinkedDataset({**linked.tables, "persons": persons}), "persons").layout
    curator: Any = SimpleNamespace(measurements=[])
    evidence = LinkedEvidence(layout, curator)
    for name in layout.domain:
        values = np.ones(layout.domain[name])
        evidence.lengths.append(MeasuredLengths((name,), (np.arange(len(values)),), values, 1.0, False))
    evidence.start(np.random.default_rng(0))
    assert evidence.families is not None
    assert 100_000 < len(evidence.families.children) <= MOST_CHILDREN
    assert evidence.families.sizes.sum() == len(evidence.families.children)


@pytest.mark.parametrize("average", [0.0, 1e-300, 1e-9])
def test_tables_without_children_have_a_noise_that_can_be_squared(average: float) -> None:
    families = family_table(households([1, 2, 3], {}, {"a": 2}, 3), "persons")
    clique = "number of persons", "persons.a"
    counts, ratio = counts_from_averages(np.full((4, 2), average), clique, families, families)
    assert np.isfinite(counts).all()
    assert float(ratio) ** 2 <= 6**2


HEAD = Exactly("persons", "a", (0,), 1)


@pytest.mark.parametrize(
    "rules",
    [
        (HEAD, Impossible("persons", "a", (0,), sizes=tuple(range(1, 31)))),  # more rows than a lower limit allows
        (
            HEAD,
            AtLeast("persons", "a", (1,), 20),
            Older("persons", "a", (0,), (1,), 3, "b", (0, 1, 2, 3), (0, 1, 2, 3)),
        ),
        (HEAD, AtLeast("persons", "a", (1, 2), 5), AtMost("persons", "a", (1,), 1), AtMost("persons", "b", (0,), 2)),
    ],
)
@pytest.mark.parametrize("epsilon", [0.001, 1.0])
def test_rules_that_few_families_keep_hold_in_all(rules: tuple[Rule, ...], epsilon: float) -> None:
    linked = households(SIZES[:60], {"r": 2}, {"a": 3, "b": 4}, 100, rules)
    sample = fitted(linked, epsilon=epsilon).sample(seed=0)
    assert len(sample)
    assert not any(rule.broken(sample).any() for rule in rules)


def test_mistakes_in_later_tables_are_errors_before_any_budget_is_spent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FamilyLAMP, "fit", lambda *_, **__: pytest.fail("a run began"))
    linked = households(SIZES, {"r": 2}, {"a": 3, "b": 4}, 4)
    others = LinkedTable(
        random_table(3, {"c": 6000, "d": 6000}, np.random.default_rng(0)), "households", np.arange(3), 2
    )
    wide = replace(linked, tables={**linked.tables, "pets": others})
    with pytest.raises(ArgumentError, match=r"mostly for 'pets\.c' with 6,001 values"):
        fitted(wide)
    pets = LinkedTable(random_table(3, {"c": 2}, np.random.default_rng(0)), "households", np.arange(3), 2)
    rules = Exactly("pets", "c", (0,), 1), AtMost("pets", "c", (0, 1), 0)
    with pytest.raises(DataError, match="no row of 'households' with at most 2 rows of 'pets' can keep all of these"):
        fitted(replace(linked, tables={**linked.tables, "pets": pets}, rules=rules))


def test_persons_of_few_households_with_much_noise_do_not_all_have_one_code() -> None:
    linked = households(np.random.default_rng(1).integers(1, 5, size=150), {"r": 3}, {"a": 6, "b": 3}, 6)

    def shares(tables: LinkedDataset) -> np.ndarray:
        counts = np.bincount(tables.tables["persons"].dataset.column("a"), minlength=6)
        return counts / counts.sum()

    mechanism = LinkedLAMP(epsilon=0.3, backend="simulation")
    for seed in range(3):
        made = mechanism.fit(linked, seed=seed, progress=False).sample(seed=0)
        assert np.abs(shares(made) - shares(linked)).sum() / 2 < 0.3

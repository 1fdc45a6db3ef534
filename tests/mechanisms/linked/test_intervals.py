"""Intervals of linked tables: counts of households and of persons, their names, and how often they hold the truth."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pgmest.data.dataset import Dataset
from pgmest.data.linked import LinkedDataset, LinkedTable
from pgmest.data.linked_rules import AtLeast, AtMost, Exactly
from pgmest.errors import ArgumentError, UnknownAttributeError
from pgmest.mechanisms.files import load
from pgmest.mechanisms.linked import LinkedLAMP
from pgmest.mechanisms.linked import family_model as module
from pgmest.mechanisms.linked.families import Families
from pgmest.mechanisms.linked.family_model import FamilyModel, pairs_of
from pgmest.mechanisms.linked.lengths import MeasuredLengths
from pgmest.mechanisms.linked.result import LinkedResult
from pgmest.mechanisms.linked.trees import family_table
from pgmest.queries import Kron, prefix
from tests.mechanisms.linked.examples import households, random_families, random_table

SIZES = np.random.default_rng(0).integers(5, size=600)


def fitted(linked: LinkedDataset, epsilon: float = 2.0, seed: int = 0) -> LinkedResult:
    return LinkedLAMP(epsilon=epsilon, backend="simulation").fit(linked, seed=seed, progress=False)


@pytest.fixture(scope="module")
def result() -> LinkedResult:
    return fitted(households(SIZES, {"r": 3, "code": 2}, {"age": 5, "code": 4}, 4))


def test_answers_are_counts_of_the_released_tables(result: LinkedResult) -> None:
    sample = result.sample()
    persons, above = sample.tables["persons"].dataset, sample.tables["households"].dataset
    region = np.asarray(above.column("r"))
    by_age = np.bincount(np.asarray(persons.column("age")), minlength=5)
    scale = result.model_of("households").total / len(sample)
    assert np.allclose(result.project("age").values, by_age * scale)
    assert np.allclose(result.project("r").values, np.bincount(region, minlength=3) * scale)
    assert np.allclose(
        result.project("r", table="persons").values,
        np.bincount(region[sample.units("persons")], minlength=3) * scale,
    )
    sizes = np.bincount(sample.sizes("persons"), minlength=5)
    assert np.allclose(result.project("number of persons").values, sizes * scale)
    assert np.allclose(result.project("number of persons", table="persons").values, sizes * np.arange(5) * scale)
    low, high = result.interval((), table="persons")
    assert low.values < persons.records * scale < high.values


def test_attributes_are_named_with_their_table_where_two_have_them(result: LinkedResult) -> None:
    with pytest.raises(ArgumentError, match=r"households\.code"):
        result.interval("code", table="persons")
    assert result.project("code").domain.attributes == ("households.code",)
    both = result.interval(("persons.code", "households.code"), level=0.9)
    assert both.low.values.shape == (4, 2)
    given = result.interval("age", given={"r": 1})
    assert np.all(given.low.values <= result.project(("age", "r")).values[:, 1] + 1e-9)
    query = Kron({"age": prefix(5)})
    assert np.array_equal(
        result.interval(query).low.values, result.interval(Kron({"persons.age": prefix(5)})).low.values
    )
    assert result.uncertainty("age").stddev.values.shape == (5,)
    with pytest.raises(UnknownAttributeError, match="age"):
        result.interval("agee")
    with pytest.raises(ArgumentError, match="table"):
        result.interval("age", table="visits")
    with pytest.raises(UnknownAttributeError):
        result.interval("age", table="households")
    with pytest.raises(ArgumentError, match="clique"):
        result.interval(lambda model: model)


def test_a_model_of_a_table_keeps_its_errors_in_a_file(result: LinkedResult, tmp_path: Path) -> None:
    model = result.model_of("persons")
    model.save(tmp_path / "persons.npz")
    loaded = load(tmp_path / "persons.npz")
    both = (one.interval("persons.age") for one in (model, loaded))
    assert len({tuple(np.round(ends.high.values, 6)) for ends in both}) == 1


@pytest.mark.parametrize("averaged", [False, True])
def test_lengths_without_noise_say_the_true_counts_of_children(averaged: bool) -> None:
    families = random_families(np.random.default_rng(1), 300, 4)
    layout, columns = families.layout, np.hstack([families.parents[families.owners], families.children])
    half = np.array([0, 0, 1, 2])
    for clique, groups in [
        (("persons.a",), [np.arange(4)]),
        (("persons.a",), [half]),
        (("households.d", "persons.a"), [np.arange(3), half]),
        (("number of persons", "persons.b"), [np.arange(5), np.arange(3)]),
        (("persons.a", "persons.b"), [np.arange(4), np.arange(3)]),
    ]:
        table = families.tables(clique, groups)[int(averaged)]
        answer = MeasuredLengths(clique, tuple(groups), table, 1e-6, averaged)
        names = (*layout.parents, *layout.members)
        chosen = [columns[:, names.index(name)] for name in clique]
        measurement = answer.counts(families, chosen, 1.0).measurement
        counts = np.zeros([labels[codes.max()] + 1 for labels, codes in zip(groups, chosen, strict=True)])
        np.add.at(counts, tuple(labels[codes] for labels, codes in zip(groups, chosen, strict=True)), 1)
        scale = np.ones(1) if measurement.query is None or len(clique) > 1 or groups[0] is half else None
        values = measurement.values.reshape(-1)
        if scale is None:  # of one attribute, counts are in units of their own standard error
            values = values / np.diag(measurement.query.matrices[0].matrix())
        shape = [int(labels[-1]) + (name not in layout.members) for name, labels in zip(clique, groups, strict=True)]
        whole = np.zeros(shape)
        whole[tuple(slice(size) for size in counts.shape)] = counts
        assert np.allclose(values, whole.ravel())


def test_lengths_of_children_who_are_alike_are_not_read_as_a_weaker_dependence() -> None:
    """Children of a family are all alike and follow its region; those of the model are independent."""
    generator = np.random.default_rng(0)
    sizes = generator.integers(1, 5, size=2000)
    made = households(sizes, {"r": 3}, {"age": 3}, 4, seed=1)
    region = np.asarray(made.tables["households"].dataset.column("r"))
    layout = family_table(made, "persons").layout
    parents, owners = np.column_stack([region, sizes]), np.repeat(np.arange(2000), sizes)
    alike = Families(layout, parents, region[owners][:, None])
    model = Families(layout, parents, generator.integers(3, size=len(owners))[:, None])
    clique, groups = ("households.r", "persons.age"), (np.arange(3), np.arange(4))
    answer = MeasuredLengths(clique, groups, alike.tables(clique, groups)[0], 1.0, False)
    found = answer.counts(model, [region[owners], model.children[:, 0]], 1.0).measurement.values.reshape(3, 3)
    true = np.diag(np.bincount(region[owners], minlength=3))
    apart = np.eye(3) / 3 - (1 - np.eye(3)) / 6  # what cells of like codes have more than others
    assert 0.85 < (found * apart).sum() / (true * apart).sum() < 1.05


def test_pairs_of_a_household_and_a_person_may_depend_far_more_than_others(result: LinkedResult) -> None:
    strong = set(result.model_of("persons").known_errors.strong)
    assert strong == set(itertools.product(["households.r", "households.code"], ["persons.age", "persons.code"]))


def test_a_table_that_the_fit_takes_for_empty_has_the_errors_of_its_noise() -> None:
    sizes = np.zeros(300, dtype=np.int64)
    sizes[:10] = 1
    linked, empty = households(sizes, {"r": 2}, {"age": 2}, 5), 0
    true = np.bincount(np.asarray(linked.tables["persons"].dataset.column("age")), minlength=2)
    for seed in range(8):
        answers = fitted(linked, 0.4, seed)
        low, high = answers.interval("age")
        empty += answers.model_of("persons").total == 0
        assert ((low.values <= true) & (true <= high.values)).all()
        assert high.values.min() > 50
    assert empty


@pytest.mark.parametrize("averaged", [False, True])
def test_lengths_without_noise_say_the_true_counts_of_pairs(averaged: bool) -> None:
    families = random_families(np.random.default_rng(1), 300, 4)
    one, other = pairs_of(families)
    layout, a, b = families.layout, families.children[:, 0], families.children[:, 1]
    assert sorted(zip(one, other, strict=True)) == [
        (i, j)
        for start, size in zip(families.first, families.sizes, strict=True)
        for i, j in itertools.permutations(range(start, start + size), 2)
    ]
    for clique, columns in [
        (("persons.a", "another of persons.a"), (a[one], a[other])),
        (("persons.a", "another of persons.b"), (a[one], b[other])),
        (("persons.b", "another of persons.a"), (b[one], a[other])),
    ]:
        groups = tuple(np.arange(layout.domain[name]) for name in clique)
        table = families.tables(clique, groups)[int(averaged)]
        answer = MeasuredLengths(clique, groups, table, 1e-6, averaged)
        shape = [size - 1 for size in table.shape]
        counts = np.zeros(shape)
        np.add.at(counts, columns, 1)
        assert np.allclose(answer.counts(families, columns, 1.0).measurement.values, counts.ravel())
        if clique[0][-1] != clique[1][-1]:
            turned = answer.mirrored(layout)
            assert turned.clique == (f"persons.{clique[1][-1]}", f"another of persons.{clique[0][-1]}")
            assert np.allclose(turned.counts(families, columns[::-1], 1.0).measurement.values, counts.T.ravel())


def test_pairs_of_children_in_order_are_those_of_a_child_and_the_next_one() -> None:
    made = random_families(np.random.default_rng(1), 300, 4)
    families = Families(replace(made.layout, ordered=True), made.parents, made.children)
    layout, (one, other) = families.layout, pairs_of(families)
    last = (made.first + made.sizes - 1)[made.sizes > 0]
    assert np.array_equal(np.sort(one), np.setdiff1d(np.arange(len(made.children)), last))
    assert np.array_equal(other, one + 1)
    for clique, columns in [
        ((layout.others[0],), (families.children[other, 0],)),
        ((layout.members[0], layout.others[1]), (families.children[one, 0], families.children[other, 1])),
    ]:
        groups = tuple(np.arange(layout.domain[name]) for name in clique)
        answer = MeasuredLengths(clique, groups, families.tables(clique, groups)[0], 1e-6, False)
        measurement = answer.counts(families, columns, 1.0).measurement
        counts = np.zeros([layout.domain[name] - 1 for name in clique])
        np.add.at(counts, columns, 1)
        values = measurement.values
        if len(clique) == 1:
            assert measurement.query is not None
            values = values / np.diag(measurement.query.matrices[0].matrix())
        assert np.allclose(values, counts.ravel())
    model = FamilyModel(families, (), (), 300.0, 1.0)
    assert model.pairs.total == len(one)
    assert "next of persons.a" in model.layout.pair_domain


def test_pairs_are_counted_in_both_orders_and_no_more_of_them_than_fit(
    result: LinkedResult, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = result.project(("persons.age", "another of persons.age"))
    assert np.allclose(table.values, table.values.T)
    sizes = result.sample().sizes("persons")
    scale = result.model_of("households").total / len(sizes)
    assert table.values.sum() == pytest.approx((sizes * (sizes - 1)).sum() * scale)
    low, high = result.interval(("persons.age", "another of persons.age"), given={"r": 1})
    assert low.values.shape == (5, 5)
    with pytest.raises(ArgumentError, match="at most 3 attributes"):
        result.interval(("persons.age", "another of persons.age"), given={"r": 1, "another of persons.code": 2})
    assert (low.values <= high.values).all()
    monkeypatch.setattr(module, "MOST_PAIRS", 100)
    families = result.results["persons"].model.families
    some = pairs_of(families)[0]
    assert 50 < len(some) < 250
    few = FamilyModel(families, (), (), result.model_of("households").total, 1.0)
    assert few.pairs.total == pytest.approx(table.values.sum())
    with pytest.raises(ArgumentError, match="name the table"):
        result.interval("age", table="pairs of persons")
    with pytest.raises(ArgumentError, match="pairs of persons"):
        result.interval("age", table="pairs")


def test_intervals_hold_for_all_levels() -> None:
    held: dict[str, list[float]] = {"households": [], "persons": [], "pairs of persons": []}
    for seed in range(3):
        linked = _dependent(seed)
        answers = fitted(linked, 2.0, seed + 10)
        for table in held:
            domain = answers.domain_of(table)
            for clique in itertools.combinations(domain, 2):
                low, high = answers.interval(clique, table=table)
                exact = _exact(linked, table).project(clique).values
                held[table].append(float(((low.values <= exact) & (exact <= high.values)).mean()))
    assert min(float(np.mean(shares)) for shares in held.values()) > 0.85


RULES = (
    Exactly("persons", "role", (0,), 1),
    AtMost("persons", "status", (1, 2), 1),  # with the next rule, exactly one person has one of the two
    AtLeast("persons", "status", (1, 2), 1),
)


def test_persons_whom_rules_tie_to_households_are_as_sure_as_these() -> None:
    sizes = 1 + SIZES
    linked = households(sizes, {"r": 3}, {"role": 3, "status": 4}, 5)
    first, data = np.flatnonzero(np.r_[True, np.diff(linked.units("persons")) > 0]), linked.tables["persons"].dataset
    role, status = (np.asarray(data.column(name)).copy() for name in ("role", "status"))
    role, status = np.where(role == 0, 2, role), np.where((status == 1) | (status == 2), 3, status)
    role[first], status[first] = 0, 1 + role[first] % 2
    persons = replace(linked.tables["persons"], dataset=Dataset.from_codes([role, status], {"role": 3, "status": 4}))
    answers = fitted(LinkedDataset({**linked.tables, "persons": persons}, RULES), 1.0)

    def width(query: object, table: str, **given: int) -> np.ndarray:
        low, high = answers.interval(query, table=table, given=given or None)
        return high.values - low.values

    of_homes, by_region = width((), "households"), width("r", "households")
    heads = width("role", "persons")
    assert heads[0] <= 1.1 * of_homes
    assert heads[1] > 1.5 * of_homes
    assert (width("r", "persons", role=0) <= 1.1 * by_region).all()
    assert (width(("r", "role"), "persons")[:, 0] <= 1.1 * by_region).all()
    assert width(Kron({"status": np.array([[0.0, 1, 1, 0]])}), "persons").item() <= 1.1 * of_homes
    assert width("status", "persons")[3] > 1.1 * of_homes
    by_size, persons_by_size = (width("number of persons", table) for table in ("households", "persons"))
    assert (persons_by_size <= 1.1 * np.arange(6) * by_size).all()
    no_rules = replace(answers, model=replace(answers.model, rules=()))
    low, high = no_rules.interval("role", table="persons")
    assert (high.values - low.values)[0] > 1.5 * of_homes  # not known without the rule


def test_scores_bound_the_dependence_of_tables_that_were_not_measured(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    sizes = generator.integers(1, 5, 2500)
    owners = np.repeat(np.arange(2500), sizes)
    age = generator.integers(20, size=len(owners))
    work = (generator.random(len(owners)) < (age + 1) / 24).astype(int)
    inside = {"age": age, "work": work, "wage": age // 2 + 10 * work, "role": (age + 2 * work) // 6, "sex": age % 2}
    codes = {"r": 9, "own": 2, "area": 20}
    outside = {name: generator.integers(size, size=2500) for name, size in codes.items()}
    above = LinkedTable(Dataset.from_codes(list(outside.values()), codes))
    below = Dataset.from_codes(list(inside.values()), {"age": 20, "work": 2, "wage": 20, "role": 4, "sex": 2})
    answers = fitted(LinkedDataset({"households": above, "persons": LinkedTable(below, "households", owners, 4)}), 1.0)
    run, columns = answers.runs["persons"], {**outside, "number of persons": sizes}
    columns = {**inside, **{name: values[owners] for name, values in columns.items()}}
    without, narrower = replace(answers, runs={"persons": replace(run, scored={})}), []
    for clique in (one for one in run.scored if set(one) <= set(run.layout.child_domain)):
        (low, high), (least, most) = (one.interval(clique, table="persons") for one in (answers, without))
        data = Dataset.from_codes([columns[n.split(".")[-1]] for n in clique], run.layout.child_domain.project(clique))
        exact = data.project(clique).values
        assert ((low.values <= exact) & (exact <= high.values)).mean() > 0.9
        narrower.append(float((high.values - low.values).mean() / (most.values - least.values).mean()))
    assert len(narrower) > 5
    assert np.mean(narrower) < 0.8
    assert max(narrower) < 1.15
    answers.save(tmp_path / "linked.npz")
    assert load(tmp_path / "linked.npz").runs["persons"].scored == run.scored


def _dependent(seed: int) -> LinkedDataset:
    """Return households in which the region sets the size and ages are alike."""
    generator = np.random.default_rng(seed)
    region = generator.integers(3, size=800)
    sizes = 1 + (generator.random(800) * (1 + region)).astype(int)
    owners = np.repeat(np.arange(800), sizes)
    base = generator.integers(4, size=800)
    age = np.where(generator.random(len(owners)) < 0.6, base[owners], generator.integers(4, size=len(owners)))
    work = (generator.random(len(owners)) < (age + 1) / 6).astype(int)
    above = LinkedTable(Dataset.from_codes(region[:, None], {"region": 3}))
    below = Dataset.from_codes([age, work], {"age": 4, "work": 2})
    return LinkedDataset({"households": above, "persons": LinkedTable(below, "households", owners, 4)})


def _exact(linked: LinkedDataset, table: str) -> Dataset:
    region, sizes = np.asarray(linked.tables["households"].dataset.column("region")), linked.sizes("persons")
    domain = {"households.region": 3, "number of persons": 5}
    if table == "households":
        return Dataset.from_codes([region, sizes], domain)
    owners, persons = linked.units("persons"), linked.tables["persons"].dataset
    columns = [region[owners], sizes[owners], persons.column("age"), persons.column("work")]
    domain |= {"persons.age": 4, "persons.work": 2}
    if table == "persons":
        return Dataset.from_codes(columns, domain)
    one, other = np.nonzero((owners[:, None] == owners) & ~np.eye(len(owners), dtype=bool))
    both = [*(np.asarray(column)[one] for column in columns), *(np.asarray(column)[other] for column in columns[2:])]
    return Dataset.from_codes(both, {**domain, "another of persons.age": 4, "another of persons.work": 2})


@pytest.mark.parametrize(
    ("sizes", "parent", "child", "at_most"),
    [
        (SIZES[:80], {}, {}, 4),
        (np.zeros(50, dtype=int), {"r": 3}, {"a": 5}, 4),
        ([], {"r": 3}, {"a": 5, "b": 2}, 4),
        (SIZES[:80] % 2, {"r": 1}, {"a": 1, "b": 2}, 1),
    ],
)
def test_intervals_of_degenerate_tables_are_finite(
    sizes: np.ndarray, parent: dict[str, int], child: dict[str, int], at_most: int
) -> None:
    answers = fitted(households(sizes, parent, child, at_most))
    for table in answers.counted:
        for name in answers.domain_of(table):
            low, high = answers.interval(name, table=table)
            assert np.all(low.values >= 0)
            assert np.all(np.isfinite(high.values))
            assert np.all(low.values <= high.values)


def test_trees_have_intervals_of_each_table_with_its_parent() -> None:
    generator = np.random.default_rng(0)
    patients = LinkedTable(random_table(150, {"sex": 2}, generator))
    rows = np.repeat(np.arange(150), generator.integers(4, size=150))
    visits = LinkedTable(random_table(len(rows), {"kind": 3}, generator), "patients", rows, 3)
    further = np.repeat(np.arange(len(rows)), generator.integers(3, size=len(rows)))
    codes = LinkedTable(random_table(len(further), {"code": 6}, generator), "visits", further, 2)
    answers = fitted(LinkedDataset({"patients": patients, "visits": visits, "diagnoses": codes}), epsilon=20.0)
    assert answers.interval(("sex", "kind")).low.values.shape == (2, 3)
    assert answers.interval(("kind", "code")).low.values.shape == (3, 6)
    assert answers.interval(("kind", "number of diagnoses")).high.values.shape == (3, 3)
    with pytest.raises(ArgumentError, match="one table and its parent"):
        answers.interval(("sex", "code"))
    with pytest.raises(ArgumentError, match="two rows of one parent"):
        answers.interval(("kind", "another of diagnoses.code", "number of visits"))


def test_a_model_of_no_families_has_a_total_of_zero() -> None:
    layout = random_families(np.random.default_rng(0), 3, 2).layout
    none = Families(layout, np.zeros((0, 3), dtype=np.int64), np.zeros((0, 2), dtype=np.int64))
    model = FamilyModel(none, (), (), 0.0, 1.0)
    assert model.children.total == 0.0
    assert model.parents.total == 0.0
    assert model.pairs.total == 0.0

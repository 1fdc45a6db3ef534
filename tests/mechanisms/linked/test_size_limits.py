"""Limits on numbers of rows that are found in the data: how they are chosen, what they change, and what they cost."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pgmest.data.dataset import Dataset
from pgmest.data.linked import LinkedDataset, LinkedTable
from pgmest.data.linked_rules import Exactly, Impossible
from pgmest.mechanisms.linked import LinkedLAMP
from pgmest.mechanisms.linked.families import Families
from pgmest.mechanisms.linked.family_dataset import FamilyDataset
from pgmest.mechanisms.linked.family_lamp import FamilyLAMP
from pgmest.mechanisms.linked.rules import FamilyRules
from pgmest.mechanisms.linked.size_limits import (
    LEAST_LIMIT,
    SizeLimits,
    _ends,
    _in_ranges,
    _limit,
    size_limits,
)
from pgmest.mechanisms.linked.trees import family_table, put_together
from pgmest.mechanisms.linked.zeros import family_zeros
from pgmest.privacy import AddRemove, Curator, Epsilon, Rho
from pgmest.privacy.neighbors import Change, Neighbors
from tests.mechanisms.linked.examples import households, random_table


def tree(numbers: list[list[int]], at_most: int = 90, sexes: int = 2) -> LinkedDataset:
    """Return patients with visits, and as many codes for each visit as the lists say; without sexes, patients have no
    attribute."""
    generator = np.random.default_rng(0)
    of_visits = np.repeat(np.arange(len(numbers)), [len(one) for one in numbers])
    flat = np.array([number for one in numbers for number in one], dtype=int)
    root = LinkedTable(random_table(len(numbers), {"sex": sexes} if sexes else {}, generator))
    visits = LinkedTable(random_table(len(flat), {"ward": 3}, generator), "patients", of_visits, at_most)
    of_codes = np.repeat(np.arange(len(flat)), flat)
    codes = LinkedTable(random_table(len(of_codes), {"code": 4}, generator), "visits", of_codes, at_most)
    return LinkedDataset({"patients": root, "visits": visits, "codes": codes})


NUMBERS = st.lists(st.lists(st.sampled_from([0, 1, 12, 13, 24, 25, 48, 60, 90]), max_size=40), min_size=1, max_size=6)


def limit_of(numbers: np.ndarray) -> int:
    """Return the end of the range of the largest number."""
    ends = [12, 24, 48, 90]
    return ends[int(np.searchsorted(ends, numbers.max(initial=0)))]


@settings(max_examples=40, deadline=None)
@given(NUMBERS, st.booleans())
def test_without_noise_limits_are_the_ends_of_the_last_ranges_that_occur(numbers: list[list[int]], pure: bool) -> None:
    families = family_table(tree(numbers), "visits")
    assert families.layout.counts == ("number of visits", "visits.number of codes")
    curator = Curator(FamilyDataset(families), Epsilon(1e9) if pure else Rho(1e9), backend="simulation", seed=0)
    wanted = {
        "number of visits": limit_of(families.sizes),
        "visits.number of codes": limit_of(families.children[:, families.layout.place("visits.number of codes")]),
    }
    found = size_limits(curator, families.layout, 0)
    assert found == {name: limit for name, limit in wanted.items() if limit < 90}
    assert size_limits(curator, families.layout, 40).get("number of visits", 90) == max(wanted["number of visits"], 40)


@settings(max_examples=40, deadline=None)
@given(NUMBERS, st.sampled_from([0, 2]))
def test_a_family_is_in_the_range_of_its_largest_number(numbers: list[list[int]], sexes: int) -> None:
    ends = np.array([12, 24, 48, 90])
    for name in ("number of visits", "visits.number of codes"):
        every, without = (
            _in_ranges(name, ends, FamilyDataset(family_table(tree(part, 90, sexes), "visits")))
            for part in (numbers, numbers[1:])
        )
        number = len(numbers[0]) if name == "number of visits" else max(numbers[0], default=0)
        wanted = np.zeros(4)
        if number:
            wanted[int(np.searchsorted(ends, number))] = 1
        assert (every - without).tolist() == wanted.tolist()


def test_ranges_end_at_the_public_limit_and_begin_above_it_only_where_there_is_more() -> None:
    wanted = {12: [12], 16: [12], 17: [12, 17], 32: [12, 32], 33: [12, 24, 33], 100: [12, 24, 48, 100]}
    for at_most, ends in wanted.items():
        layout = family_table(tree([[0]], at_most), "visits").layout
        assert _ends(layout, "number of visits").tolist() == _ends(layout, "visits.number of codes").tolist() == ends


@pytest.mark.parametrize(
    ("counts", "limit"),
    [
        ([300, 20, -40, 70], 12),  # noise of 25 in each
        ([300, 20, -40, 76], 90),
        ([300, 76, -40, 30], 24),
        ([300, 60, 60, 30], 48),
        ([40, 10, 20, 60], 90),  # most families are large
        ([90, 10, 20, 60], 12),
        ([-90, -20, 5, 45], 12),
    ],
)
def test_limits_are_where_noise_does_not_explain_the_families(counts: list[float], limit: int) -> None:
    assert _limit(np.array(counts, dtype=float), 25.0, np.array([12, 24, 48, 90])) == limit


@settings(max_examples=40, deadline=None)
@given(NUMBERS, st.integers(2, 60), st.integers(1, 60))
def test_families_are_cut_to_limits_one_by_one(numbers: list[list[int]], visits: int, codes: int) -> None:
    families = family_table(tree(numbers), "visits")
    limits = SizeLimits(families.layout, {"number of visits": visits, "visits.number of codes": codes})
    made = limits.families(families)
    assert limits.after == limits.limited.domain == made.layout.domain
    assert made.sizes.tolist() == np.minimum(families.sizes, visits).tolist()
    for number, before, first, kept in zip(families.sizes, families.first, made.first, made.sizes, strict=True):
        rows = [before + place * number // kept for place in range(kept)]
        assert len(set(rows)) == kept
        wanted = families.children[rows].copy()
        wanted[:, 1] = np.minimum(wanted[:, 1], codes)
        assert made.children[first : first + kept].tolist() == wanted.tolist()
        assert kept < number or rows == list(range(before, before + number))
        assert not rows or rows[0] == before
    assert made.layout.domain["another of visits.number of codes"] == codes + 2


def test_rules_and_impossible_sizes_stay_as_they_are_up_to_the_limit() -> None:
    head = Exactly("persons", "a", (0,), 1)
    alone = Impossible("persons", "a", (2,), (), (), (1, 20, 30), text="")
    linked = households([1, 2, 30], {"r": 2}, {"a": 3}, 90, [head, alone])
    layout = family_table(linked, "persons").layout
    rules = FamilyRules.of(linked.rules, layout, family_zeros(linked, layout))
    limits = SizeLimits(layout, {"number of persons": 20})
    limited = limits.rules(rules)
    (clique,) = limited.zeros
    assert limited.zeros[clique].tolist() == rules.zeros[clique][:21].tolist()
    children = np.array([[2], [0], [2], [0], [2]])
    for sizes, broken in (([1, 2, 2], [True, False, False]), ([2, 2, 1], [False, False, True])):
        parents = np.column_stack([[0, 0, 0], sizes])
        for one, of in ((rules, layout), (limited, limits.limited)):
            made = Families(of, parents, children)
            assert one.broken(made).tolist() == broken


@pytest.mark.parametrize("at_most", [500, 5000])
def test_the_number_of_persons_does_not_depend_on_a_limit_that_is_far_too_high(at_most: int) -> None:
    sizes = np.random.default_rng(1).integers(1, 7, 300)
    result = LinkedLAMP(epsilon=3.0, backend="simulation").fit(
        households(sizes, {"r": 3}, {"a": 4}, at_most), seed=0, progress=False
    )
    noise = min(float(np.mean(m.stddev)) for m in result.results["persons"].measurements if "number" in str(m.clique))
    persons = noise * np.sqrt(np.square(np.arange(LEAST_LIMIT + 1)).sum())  # from the noise in each size
    made = result.sample(seed=0).sizes("persons")
    assert abs(made.sum() - sizes.sum()) < 3 * persons < 0.5 * sizes.sum()
    assert made.max() <= LEAST_LIMIT
    assert result.sample(seed=0).tables["persons"].at_most == at_most
    assert result.domain_of("persons")["number of persons"] == LEAST_LIMIT + 1
    ends = result.interval("households.r", table="persons")
    assert (np.asarray(ends.high.values) < sizes.sum()).all()  # not those of 500 persons a household


def test_large_households_are_kept_where_there_are_many() -> None:
    sizes = np.append(np.random.default_rng(1).integers(1, 7, 200), np.full(50, 60))
    result = LinkedLAMP(epsilon=8.0, backend="simulation").fit(
        households(sizes, {"r": 2}, {"a": 2}, 200), seed=0, progress=False
    )
    assert 24 < result.sample(seed=0).sizes("persons").max() <= 96
    assert result.sample(seed=0).sizes("persons").sum() == pytest.approx(sizes.sum(), rel=0.2)


def test_small_limits_cost_nothing_and_others_are_paid_once(tmp_path: Path) -> None:
    linked = households(np.arange(40) % 5, {}, {"a": 2}, LEAST_LIMIT)
    result = LinkedLAMP(epsilon=1.0, backend="simulation").fit(linked, seed=0, progress=False)
    assert "ranges" not in str(result.ledger)
    persons = replace(linked.tables["persons"], at_most=200)
    linked = replace(linked, tables={**linked.tables, "persons": persons})
    options = {"seed": 0, "progress": False, "checkpoint": tmp_path / "run.journal"}
    one, other = (LinkedLAMP(epsilon=1.0, backend="simulation").fit(linked, **options) for _ in range(2))
    assert str(one.ledger).count("number of persons over 5 ranges") == 1
    assert one.model == other.model
    assert str(one.ledger) == str(other.ledger)


@pytest.mark.parametrize("unit", ["patients", "codes"])
def test_tables_further_down_use_the_limits_found_above(unit: str) -> None:
    linked = replace(tree([[1, 2, 0] * 10, [2] * 5, [], [40]]), unit=unit)
    seen: dict[str, tuple[Neighbors, Families]] = {}

    def fit(mechanism: FamilyLAMP, data: FamilyDataset, **_: object) -> SimpleNamespace:
        seen[data.layout.names[1]] = mechanism.neighbors, data.families
        made = SizeLimits(data.layout, {data.layout.number: LEAST_LIMIT}).families(data.families)
        return SimpleNamespace(model=SimpleNamespace(families=made, layout=made.layout), details={})

    with mock.patch.object(FamilyLAMP, "fit", fit):
        sample = LinkedLAMP(epsilon=1.0, backend="simulation").fit(linked, seed=0, progress=False).sample()
    neighbors, families = seen["codes"]
    if unit == "patients":
        assert neighbors == AddRemove(LEAST_LIMIT)
        assert families.sizes.tolist() == [([1, 2, 0] * 10)[place * 30 // 12] for place in range(12)] + [2] * 5 + [40]
    else:  # a visit that changes may move others in their order
        assert neighbors == Change()
        assert families.sizes.tolist() == [1, 2, 0] * 10 + [2] * 5 + [40]
    assert sample.sizes("visits").tolist() == [12, 5, 0, 1]
    assert sample.sizes("codes")[12:].tolist() == [2] * 5 + [40]  # as the table of visits says


@settings(max_examples=40, deadline=None)
@given(NUMBERS, st.booleans(), st.integers(0, 99))
def test_rows_get_as_many_children_as_their_own_table_says(numbers: list[list[int]], rule: bool, seed: int) -> None:
    """The families of codes have at most 3 children, but the rows of visits say other numbers."""
    linked = tree(numbers)
    generator = np.random.default_rng(seed)
    few = tree([generator.integers(4, size=5).tolist()])
    rules = [Exactly("codes", "code", (0,), 1)] if rule else []
    if rule:  # one code 0 each
        codes = few.tables["codes"]
        first = np.unique(few.link("codes")[1], return_index=True)[1]
        values = np.ones((codes.rows, 1), dtype=int)
        values[first] = 0
        table = replace(codes, dataset=Dataset.from_codes(values, codes.domain))
        few = replace(few, tables={**few.tables, "codes": table})
    visits, made = family_table(linked, "visits"), family_table(few, "codes")
    final = put_together({"visits": visits, "codes": made}, replace(linked, rules=rules), generator)
    wanted, sizes = linked.sizes("codes")[np.argsort(linked.link("visits")[1], kind="stable")], final.sizes("codes")
    if not made.sizes.any():
        assert not sizes.any()
    elif rule:
        assert not rules[0].broken(final)[wanted > 0].any()
        assert (sizes[wanted > 0] == wanted[wanted > 0]).all()
    else:
        assert sizes.tolist() == wanted.tolist()

"""Public constraints: mechanisms estimate without what cannot occur, and say so where they cannot."""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pgmest as pg
from pgmest import transforms, zeros
from pgmest.errors import ArgumentError, ImpossibleModelError, UnknownAttributeError
from pgmest.mechanisms.known_zeros import HONORED, ZEROS, with_possible_codes
from pgmest.mechanisms.mechanism import Mechanism
from tests.mechanisms.every import GRAPHICAL

DOMAIN = pg.Domain({"age": 8, "stage": 3, "work": 3, "home": 4})
STAGE = np.array([0, 0, 1, 1, 1, 1, 2, 2])
RULES = [
    zeros.impossible(("age", "work"), [(0, 1), (0, 2), (1, 1), (7, 2)]),
    zeros.function("stage", of="age", codes=STAGE),
]


def some_records(count: int = 600) -> pg.Dataset:
    """Records that keep the rules."""
    rng = np.random.default_rng(0)
    age = np.minimum(rng.geometric(0.3, count) - 1, 7)
    work = np.where(age < 2, 0, rng.integers(0, 3, count))
    work[(age == 7) & (work == 2)] = 0
    return pg.Dataset.from_codes([age, STAGE[age], work, rng.integers(0, 4, count) * (age > 3)], DOMAIN)


DATA = some_records()


def broken(records: pg.Dataset) -> int:
    """Return the number of records that break the rules."""
    age, stage, work = (records.column(name) for name in ("age", "stage", "work"))
    return int(((STAGE[age] != stage) | RULES[0].mask(DOMAIN)[age, work]).sum())


def made(name: str, **parameters: Any) -> Mechanism:
    kind = getattr(pg.mechanisms, name)
    budget = {"epsilon": 0.5} if kind.definition == "pure" else {"rho": 0.05}
    return kind(**budget, backend="simulation", structural_zeros=RULES, **parameters)


HONEST = [
    ("LAMP", {"records": 5000}),
    *GRAPHICAL,
    ("MST", {"threshold": -np.inf}),
    ("PMWPub", {"estimator": "pgm", "rounds": 2, "public": DATA}),
    ("PrivSyn", {}),
]
UNABLE = [
    ("MWEM", {"estimator": "original", "rounds": 2}),
    ("PrivBayes", {"estimator": "original"}),
    ("HDMM", {"estimator": "original"}),
    ("PriView", {}),
]


@pytest.mark.parametrize(("name", "parameters"), HONEST, ids=str)
def test_no_impossible_record_is_ever_drawn(name, parameters):
    result = made(name, **parameters).fit(DATA, seed=0)
    assert result.details[ZEROS] == HONORED
    assert broken(result.sample(3000, seed=1)) == 0
    assert result.project(("age", "work")).values[0, 1] == 0
    without = dataclasses.replace(result.mechanism, structural_zeros=None).fit(DATA, seed=0)
    assert ZEROS not in without.details
    if name != "PMWPub":  # its records are possible ones
        assert broken(without.sample(3000, seed=1)) > 0


@pytest.mark.parametrize(("name", "parameters"), UNABLE, ids=str)
def test_models_that_cannot_exclude_the_impossible_say_so(name, parameters):
    result = made(name, **parameters).fit(DATA, seed=0)
    assert result.details[ZEROS].startswith("not honored: ")
    assert np.abs(result.project(("age", "work")).values[RULES[0].mask(DOMAIN)]).sum() > 0


@pytest.mark.parametrize("estimator", ["original", "pgm"])
def test_impossible_public_records_are_left_out(estimator):
    age, stage, work, home = (DATA.column(name) for name in DOMAIN)
    mixed = pg.Dataset.from_codes([age, np.roll(stage, 1), work, home], DOMAIN)
    assert 0 < broken(mixed) < mixed.records
    result = made("PMWPub", estimator=estimator, rounds=2, public=mixed).fit(DATA, seed=0)
    assert result.details[ZEROS].startswith(HONORED)
    assert broken(result.sample(1000, seed=1)) == 0


def test_ctrl_c_keeps_the_rules():
    @dataclasses.dataclass(frozen=True, kw_only=True)
    class Interrupted(pg.mechanisms.Independent):
        def run(self, curator, workload, rng):
            super().run(curator, workload, rng)
            raise KeyboardInterrupt

    result = Interrupted(rho=0.1, backend="simulation", structural_zeros=RULES).fit(DATA, seed=0)
    assert result.interrupted
    assert result.details[ZEROS] == HONORED
    assert broken(result.sample(2000, seed=0)) == 0


def test_rules_hold_through_a_transform():
    def merged(curator, spend):
        return transforms.merge(curator.domain, ("work", "home"), "place")

    inside = pg.mechanisms.MST(rho=0.05, backend="simulation")
    steps = [transforms.compress_rare, merged]
    mechanism = pg.mechanisms.Transformed(mechanism=inside, steps=steps, structural_zeros=RULES)
    result = mechanism.fit(DATA, seed=0)
    assert result.details[ZEROS] == HONORED
    assert broken(result.sample(3000, seed=0)) == 0
    stated = dataclasses.replace(inside, structural_zeros=RULES)
    with pytest.raises(ArgumentError, match="give structural_zeros to Transformed"):
        pg.mechanisms.Transformed(mechanism=stated)


def test_rules_that_cannot_be_are_refused_before_anything_is_spent():
    asked = []
    for rules, error in (
        ({("age",): [(code,) for code in range(8)]}, ImpossibleModelError),
        ({("agee",): [(0,)]}, UnknownAttributeError),
    ):
        mechanism = pg.mechanisms.MST(rho=1.0, backend="simulation", structural_zeros=rules)
        with pytest.raises(error):
            mechanism.fit(DATA, progress=asked.append)
    assert asked == []
    with pytest.raises(ArgumentError, match="structural_zeros"):
        pg.mechanisms.MST(rho=1.0, structural_zeros=["age"])  # pyright: ignore[reportArgumentType]


def test_what_was_paid_for_is_kept_where_the_rules_make_the_model_too_large(monkeypatch):
    from pgmest.errors import ModelTooLarge
    from pgmest.mechanisms import estimation

    known = estimation.estimate

    def too_large(measurements, domain, *, structural_zeros=None, **options):
        if structural_zeros:
            raise ModelTooLarge("too large")
        return known(measurements, domain, **options)

    monkeypatch.setattr(estimation, "estimate", too_large)
    result = made("AIM", rounds=2).fit(DATA, seed=0)
    assert result.details[ZEROS] == (
        "not honored: together with what was measured the rules would make the model too large"
    )
    assert result.sample(10, seed=0).records == 10


def test_a_mapping_of_combinations_will_do():
    rules = {("age", "work"): [(0, 1)]}
    result = pg.mechanisms.AIM(rho=0.05, rounds=3, backend="simulation", structural_zeros=rules).fit(DATA, seed=0)
    assert result.project(("age", "work")).values[0, 1] == 0
    assert hash(result.mechanism) is not None


@st.composite
def records_and_rules(draw):
    """Records of up to three attributes, and rules that leave a possible record."""
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
    domain = pg.Domain({f"x{place}": size for place, size in enumerate(sizes)})
    cells = list(itertools.product(*map(range, sizes)))
    kept = draw(st.sampled_from(cells))
    rules = []
    for names in draw(st.lists(st.sampled_from(subsets(domain)), max_size=3)):
        own = list(itertools.product(*(range(domain[name]) for name in names)))
        fine = tuple(kept[domain.axes((name,))[0]] for name in names)
        some = draw(st.lists(st.sampled_from(own), max_size=6))
        rules.append(zeros.impossible(names, [one for one in some if one != fine]))
    codes = draw(st.lists(st.sampled_from(cells), min_size=1, max_size=30))
    return pg.Dataset.from_codes(np.array(codes), domain), rules


def subsets(domain):
    return [names for size in range(1, len(domain) + 1) for names in itertools.combinations(domain, size)]


@settings(max_examples=60)
@given(records_and_rules(), st.integers(0, 5))
def test_records_get_possible_codes_and_others_stay(made_up, seed):
    data, rules = made_up
    found = with_possible_codes(data, rules, np.random.default_rng(seed))
    before, after = (np.stack(one.columns, axis=1) for one in (data, found))
    wrong = [np.zeros(data.records, dtype=bool), np.zeros(data.records, dtype=bool)]
    for rule in rules:
        axes = list(data.domain.axes(rule.attributes))
        for place, codes in enumerate((before, after)):
            wrong[place] |= np.asarray(rule.mask(data.domain))[tuple(codes[:, axes].T)]
    assert not wrong[1].any()
    assert np.array_equal(before[~wrong[0]], after[~wrong[0]])
    assert found.records == data.records


def test_privsyn_keeps_margins_and_invariants_beside_rules():
    """The margins are as near to the records' as without the rules, and an invariant holds exactly."""
    off = {}
    for rules in (RULES, None):
        mechanism = dataclasses.replace(made("PrivSyn"), structural_zeros=rules, invariants=["home"])
        records = mechanism.fit(DATA, seed=0).sample(seed=1)
        off[rules is None] = max(
            float(np.abs(records.project(name).values - DATA.project(name).values).max()) for name in DOMAIN
        )
        assert np.array_equal(records.project("home").values, DATA.project("home").values)
        assert (broken(records) == 0) == (rules is not None)
    assert off[False] < 1.5 * off[True]

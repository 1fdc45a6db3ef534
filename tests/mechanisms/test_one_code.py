"""Attributes of one code cost nothing: with them a run asks for the same and makes the same model as without them."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pgmest as pg
from pgmest import queries, transforms, zeros
from pgmest.measurements.measured_tables import MEASURED, MeasuredCliques
from pgmest.mechanisms.kept_pairs import KeptPairs
from pgmest.mechanisms.known_zeros import ZEROS
from pgmest.mechanisms.mechanism import Mechanism
from pgmest.mechanisms.one_code import without_names
from pgmest.mechanisms.rehearsal import rehearse
from pgmest.models.base import ModelBase
from pgmest.transforms.public import without_constants
from pgmest.workloads import Item, Workload, all_kway, emphasized
from tests.mechanisms.test_never_raises_after_spending import KINDS

DOMAIN = pg.Domain({"a": 5, "b": 2, "c": 3, "d": 4})
WIDE = pg.Domain({"year": 1, "a": 5, "b": 2, "version": 1, "c": 3, "d": 4, "rate": 1})


def some_records(count: int = 900) -> pg.Dataset:
    rng = np.random.default_rng(0)
    a = rng.integers(0, 5, count)
    return pg.Dataset.from_codes([a, rng.integers(0, 2, count), np.minimum(a // 2, 2), (a + 1) % 4], DOMAIN)


DATA = some_records()
WITH = pg.Dataset.from_codes(
    [DATA.column(name) if name in DOMAIN else np.zeros(DATA.records, dtype=int) for name in WIDE], WIDE
)


def made(kind: str, data: pg.Dataset, **parameters: Any) -> Mechanism:
    name = kind.split()[0]
    given = {"AIM as published": {"rounds": None}}.get(kind, {})
    given = {**KINDS[kind], **given}
    if kind == "LAMP of public records":
        given["prior"] = data
    if name == "PMWPub":
        given["public"] = data
    if name == "TopDown":
        given["spine"] = "a"
    if name == "Transformed":
        inside = pg.mechanisms.MST(epsilon=1.0, backend="simulation")
        return pg.mechanisms.Transformed(mechanism=inside, steps=[transforms.compress_rare], **parameters)
    return getattr(pg.mechanisms, name)(epsilon=1.0, backend="simulation", **given, **parameters)


def check_same(with_constants: Any, without: Any) -> None:
    """Check that two results have the same answers, and models that agree about the attributes of several codes."""
    assert [m.clique for m in with_constants.measurements] == [m.clique for m in without.measurements]
    for one, other in zip(with_constants.measurements, without.measurements, strict=True):
        assert np.array_equal(one.values, other.values)
        assert np.array_equal(one.stddev, other.stddev)
    assert with_constants.ledger.total == without.ledger.total
    assert [entry.label for entry in with_constants.ledger] == [entry.label for entry in without.ledger]
    assert with_constants.domain.attributes == WIDE.attributes
    for clique in (("a",), ("a", "c"), ("d", "b"), DOMAIN.attributes, ()):
        expected = without.project(clique).values
        assert with_constants.project(clique).values == pytest.approx(expected, rel=1e-9, abs=1e-9)
    wide = with_constants.project(("year", "a", "rate", "c")).values
    assert wide == pytest.approx(without.project(("a", "c")).values.reshape(1, 5, 1, 3), rel=1e-9, abs=1e-9)


def reloaded(model: Any, folder: Path) -> Any:
    model.save(folder / "model.npz")
    return pg.load(folder / "model.npz")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", KINDS)
def test_a_run_is_the_same_as_without_them(kind, tmp_path):
    results = [made(kind, data).fit(data, seed=3, progress=False) for data in (WITH, DATA)]
    check_same(*results)
    with_constants, without = (result.model for result in results)
    if not isinstance(with_constants, ModelBase):
        return
    if kind not in ("HDMM original", "HDMM local"):
        records = with_constants.sample(50, seed=0)
        assert records.domain == WIDE
        assert records.records == 50
    loaded, other = reloaded(with_constants, tmp_path), reloaded(without, tmp_path)
    assert loaded.domain == WIDE
    assert loaded.project(("version", "c")).values.ravel() == pytest.approx(without.project("c").values)
    if kind.startswith("DualQuery"):  # without noisy answers it has no intervals
        return
    for model, same in ((with_constants, without), (loaded, other)):
        for clique in (("a",), ("a", "c"), ("b", "d")):
            expected = same.interval(clique)
            assert model.interval(clique).low.values == pytest.approx(expected.low.values, rel=1e-6, abs=1e-6)
            more = model.interval(("rate", *clique, "year"))
            assert more.high.values.ravel() == pytest.approx(expected.high.values.ravel(), rel=1e-6, abs=1e-6)
            assert more.basis == expected.basis


WORKLOADS: list[tuple[Any, Any]] = [
    (all_kway(WIDE, 2), all_kway(DOMAIN, 2)),
    (all_kway(WIDE, 3), all_kway(DOMAIN, 3)),
    ([("a", "year"), ("b", "c"), ("rate",)], [("a",), ("b", "c")]),
    ([("year",), ("year", "version")], [(name,) for name in DOMAIN]),
    (
        [
            Item(("rate", "a"), pg.Kron({"a": queries.prefix(5), "rate": queries.identity(1)}), 2.0),
            Item(("b", "version"), pg.Kron({"version": [[1.0], [1.0]], "b": queries.identity(2)})),
        ],
        [
            Item(("a",), pg.Kron({"a": queries.prefix(5)}), 2.0),
            Item(("b",), np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [0.0, 1.0]])),
        ],
    ),
    (emphasized(WIDE, None, [("a", "rate", "d")]), emphasized(DOMAIN, None, [("a", "d")])),
]
"""Workloads that name attributes of one code, and what they ask for."""


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("workload", range(len(WORKLOADS)))
@pytest.mark.parametrize("kind", ["LAMP", "AIM", "MST", "HDMM", "DualQuery", "PrivMRF", "PriView"])
def test_a_workload_that_names_them_asks_for_the_rest(kind, workload):
    wide, narrow = (Workload([w if isinstance(w, Item) else Item(w) for w in given]) for given in WORKLOADS[workload])
    check_same(made(kind, WITH).fit(WITH, wide, seed=3), made(kind, DATA).fit(DATA, narrow, seed=3))


def test_topdown_asks_no_question_about_them():
    shares = {("b", "year"): 2.0, "rate": 1.0, ("c", "d"): 1.0}
    results = [
        pg.mechanisms.TopDown(epsilon=1.0, backend="simulation", spine="a", query_shares=given).fit(data, seed=3)
        for data, given in ((WITH, shares), (DATA, {("b",): 2.0, (): 1.0, ("c", "d"): 1.0}))
    ]
    check_same(*results)
    spine = pg.Hierarchy("year", {"decade": [0]})
    result = pg.mechanisms.TopDown(epsilon=1.0, backend="simulation", spine=spine).fit(WITH, seed=3)
    assert result.details["levels"] == {"year": 1}


HOLDING: list[tuple[str, dict[str, Any]]] = [
    ("LAMP", {"records": 200}),
    ("MST", {}),
    ("Independent", {}),
    ("TopDown", {"spine": "a"}),
]
"""Mechanisms that hold structural zeros and invariants, each in its own way."""

MASK = np.zeros((1, 5, 4), dtype=bool)
MASK[0, 1, 3] = True
RULES: list[tuple[Any, Any]] = [
    (zeros.impossible(("rate", "a", "d"), MASK), zeros.impossible(("a", "d"), MASK[0])),
    (zeros.function("year", of="a", codes=[0] * 5), zeros.impossible(("a",), np.zeros(5, dtype=bool))),
    (zeros.only("version", [0]), zeros.impossible(("a",), np.zeros(5, dtype=bool))),
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("rule", range(len(RULES)))
@pytest.mark.parametrize(("name", "parameters"), HOLDING)
def test_structural_zeros_may_name_them(name, parameters, rule):
    kind = getattr(pg.mechanisms, name)
    results = [
        kind(epsilon=1.0, backend="simulation", structural_zeros=[given], **parameters).fit(data, seed=3)
        for data, given in zip((WITH, DATA), RULES[rule], strict=True)
    ]
    check_same(*results)
    assert results[0].details[ZEROS].startswith("honored")


COUNTS = DATA.project(("a",)).values
INVARIANTS: list[tuple[Any, Any]] = [
    (("year",), ()),
    (("rate", "a"), ("a",)),
    (pg.LinearMeasurement.exact(COUNTS, ("a", "year")), pg.LinearMeasurement.exact(COUNTS, ("a",))),
    (pg.LinearMeasurement.exact([900.0], ("year",)), pg.LinearMeasurement.exact([900.0], ())),
    (
        pg.LinearMeasurement.at_most([700.0], ("a", "rate"), [[1.0, 0.0, 0.0, 0.0, 0.0]]),
        pg.LinearMeasurement.at_most([700.0], ("a",), [[1.0, 0.0, 0.0, 0.0, 0.0]]),
    ),
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("fact", range(len(INVARIANTS)))
@pytest.mark.parametrize(("name", "parameters"), HOLDING)
def test_invariants_may_name_them(name, parameters, fact):
    kind = getattr(pg.mechanisms, name)
    results = [
        kind(epsilon=1.0, backend="simulation", invariants=[given], **parameters).fit(data, seed=3)
        for data, given in zip((WITH, DATA), INVARIANTS[fact], strict=True)
    ]
    check_same(*results)
    for result, data in zip(results, (WITH, DATA), strict=True):
        assert result.details["invariants"] == "held"
        assert result.sample(seed=0).domain == data.domain


def test_a_matrix_keeps_its_cells():
    item = Item(("c", "year", "b"), np.eye(6)[:4])
    (found,) = without_names(WIDE, Workload([item]), DOMAIN)
    assert found.clique == ("c", "b")
    assert np.array_equal(found.query.matrix(), np.eye(6)[:4])


def test_levels_of_an_attribute_of_one_code():
    tree = pg.Hierarchy("year", {"decade": [0]})
    wide = pg.Dataset.from_codes(list(WITH.columns), WIDE.with_hierarchies(tree))
    mechanism = pg.mechanisms.LAMP(epsilon=1.0, backend="simulation", records=200)
    result = mechanism.fit(wide, [("year@decade", "a", "d"), ("b", "c")], seed=3)
    check_same(result, mechanism.fit(DATA, [("a", "d"), ("b", "c")], seed=3))
    expected = result.interval(("a", "d"))
    found = result.interval(("year@decade", "a", "d"))
    assert found.low.values.ravel() == pytest.approx(expected.low.values.ravel(), rel=1e-6, abs=1e-6)


def test_tables_for_analyses_have_them_and_are_else_the_same():
    results = [made("LAMP", data).fit(data, seed=3) for data in (WITH, DATA)]
    wide, narrow = (result.sample_tables(2, seed=1) for result in results)
    for one, other in zip(wide, narrow, strict=True):
        assert one.domain == WIDE
        assert np.array_equal(one.project(("a", "c")).values, other.project(("a", "c")).values)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "TopDown"])
def test_a_table_of_such_attributes_only_has_its_number_of_records(kind):
    data = WITH.select(("year", "version", "rate"))
    result = made(kind, data).fit(data, seed=0)
    assert result.domain == data.domain
    assert result.project(("version", "rate")).values.shape == (1, 1)
    assert result.project(()).values == pytest.approx(result.project(("year", "version", "rate")).values.sum())


def test_a_plan_does_not_change():
    mechanism = pg.mechanisms.LAMP(epsilon=0.3)
    wide, narrow = emphasized(WIDE, None, [("a", "rate", "d")]), emphasized(DOMAIN, None, [("a", "d")])
    for first, second in ((None, None), (wide, narrow)):
        plan, other = (
            mechanism.plan(*asked, quick=True) for asked in ((WIDE, 10_000, first), (DOMAIN, 10_000, second))
        )
        assert plan.tables == other.tables
        assert plan.pairs == other.pairs
        assert plan.matters == other.matters
        assert [table for table in plan.columns if table.cells > 1] == list(other.columns)


@pytest.mark.parametrize("kind", ["AIM", "MST"])
def test_a_rehearsal_finds_their_tables_measured(kind):
    plan = rehearse(made(kind, WITH), WIDE, 1000, quick=True)
    assert {table.clique: table.measured for table in plan.columns}["year",]
    assert not any("year" in table.clique for table in plan.tables)


def test_ctrl_c_keeps_them():
    @dataclasses.dataclass(frozen=True, kw_only=True)
    class Interrupted(pg.mechanisms.Independent):
        def run(self, curator, workload, rng):
            super().run(curator, workload, rng)
            raise KeyboardInterrupt

    result = Interrupted(rho=0.1, backend="simulation").fit(WITH, seed=0)
    assert result.interrupted
    assert result.sample(10, seed=0).domain == WIDE


def test_a_step_may_name_them():
    def placed(curator, spend):
        return transforms.merge(curator.domain, ("year", "b"), "place")

    inside = pg.mechanisms.MST(epsilon=1.0, backend="simulation")
    result = pg.mechanisms.Transformed(mechanism=inside, steps=[placed], share=0).fit(WITH, seed=0)
    assert result.project(("year", "b")).values.shape == (1, 2)
    assert not {"version", "rate"} & {name for m in result.measurements for name in m.clique}


def test_decoding_fills_them_in():
    transform = without_constants(WIDE, DOMAIN)
    assert transform.decode(transform.encode(WITH)) == WITH


def test_reports_do_not_call_them_unmeasured():
    result = made("LAMP", WITH).fit(WITH, [("a", "d"), ("b", "c")], seed=3)
    kept = KeptPairs.of(result)
    assert kept is not None
    assert kept.verdict(("a", "year", "d")) == "measured"
    assert kept.verdict(("a", "year")) == "a column with one value cannot depend on others"
    assert not kept.unmeasured
    known = MeasuredCliques.of(result)
    assert known is not None
    assert known.evidence(("year", "a", "d")) == known.evidence(("a", "d"))
    assert known.evidence(("rate",)) == MEASURED

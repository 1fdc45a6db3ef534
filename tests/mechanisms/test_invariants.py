"""Invariants: tables that all mechanisms hold exactly, in models and records, without spending a budget on them."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import json
import math
from typing import Any, cast

import numpy as np
import pandas as pd
import polars as pl
import pytest

import pgmest as pg
from pgmest import transforms, zeros
from pgmest.errors import (
    ArgumentError,
    BudgetExceeded,
    DuplicateAttributeError,
    JournalError,
    LedgerError,
    ShapeError,
    UnknownAttributeError,
)
from pgmest.mechanisms.invariants import HELD, INVARIANTS
from pgmest.mechanisms.kept_pairs import KeptPairs
from pgmest.mechanisms.mechanism import Mechanism
from pgmest.mechanisms.registry import mechanism_names
from pgmest.privacy import AddRemove, Curator, DatasetLedger, Epsilon, Replace, Rho, unprotected
from pgmest.privacy.statement import PrivacyStatement
from tests.mechanisms.every import GRAPHICAL

DOMAIN = pg.Domain({"region": 6, "sex": 2, "age": 5, "work": 3})


def some_records(count: int = 700) -> pg.Dataset:
    """Records of dependent attributes; one region is empty, and one has a single record."""
    rng = np.random.default_rng(0)
    region = rng.choice(4, count, p=[0.5, 0.3, 0.15, 0.05])
    region[0] = 4
    age = rng.integers(0, 5, count)
    work = np.where(age == 0, 0, (age + region) % 3)
    return pg.Dataset.from_codes([region, rng.integers(0, 2, count), age, work], DOMAIN)


DATA = some_records()
READ = [("region",), ("sex", "age")]
GIVEN = [pg.LinearMeasurement.exact(DATA.project(clique).values, clique) for clique in READ]


def made(name: str, invariants: Any, **parameters: Any) -> Mechanism:
    kind = getattr(pg.mechanisms, name)
    budget = {"epsilon": 0.5} if kind.definition == "pure" else {"rho": 0.05}
    return kind(**budget, backend="simulation", invariants=invariants, **parameters)


HOLDING = [
    ("LAMP", {"records": 5000}),
    ("PrivSyn", {}),
    *GRAPHICAL,
    ("TopDown", {"spine": "region"}),
]


def missed(table: Any, clique: tuple[str, ...]) -> float:
    """Return by how much a table misses that of the records."""
    return float(np.abs(table.project(clique).values - DATA.project(clique).values).max())


@pytest.mark.parametrize("invariants", [READ, GIVEN], ids=["read", "given"])
@pytest.mark.parametrize(("name", "parameters"), HOLDING, ids=str)
def test_models_and_records_hold_invariants(name, parameters, invariants):
    result = made(name, invariants, **parameters).fit(DATA, seed=0)
    assert result.details[INVARIANTS] == HELD
    records = result.sample(seed=1)
    assert records.records == DATA.records
    for clique in READ:
        assert missed(result, clique) < 1e-4
        assert missed(records, clique) == 0
    told = {frozenset(entry.clique) for entry in result.ledger if entry.kind == "measure"}
    assert not any(asked and asked <= set(clique) for asked in told for clique in READ)


@pytest.mark.parametrize("name", ["LAMP", "AIM", "MST", "PrivSyn"])
def test_bounds_hold_in_models_and_in_whole_numbers_in_records(tmp_path, name):
    """At least 40 records in each region but one, at most 30 of one age, and no fewer of one sex than of the other."""
    cells = DOMAIN.project(("sex", "work")).shape
    difference = np.stack([np.ones(cells[1]), -np.ones(cells[1])]).reshape(1, -1)
    bounds = [
        pg.LinearMeasurement.at_least([40, 40, 40, 40, 40, 0], "region"),
        pg.LinearMeasurement.at_most([30], "age", [[1, 0, 0, 0, 0]]),
        pg.LinearMeasurement.at_least([0], ("sex", "work"), difference),
    ]
    result = made(name, [*bounds, ()]).fit(DATA, seed=0)
    assert result.details[INVARIANTS] == HELD
    result.model.save(tmp_path / "model.npz")
    for records in (result.sample(seed=1), pg.load(tmp_path / "model.npz").sample(seed=2)):
        assert records.records == DATA.records
        assert records.project("region").values[:5].min() >= 40
        assert records.project("age").values[0] <= 30
        assert np.diff(records.project("sex").values)[0] <= 0


@pytest.mark.parametrize("name", [*dict.fromkeys(name for name, _ in HOLDING)])
def test_tables_of_all_attributes_or_of_a_part_of_the_records(name):
    """Nothing is left to measure, or the invariant does not say how many records there are."""
    if name != "DualQuery":  # its queries are drawn, whether or not their answers are known
        result = made(name, [DOMAIN.attributes], **dict(HOLDING)[name]).fit(DATA, seed=0)
        assert missed(result.sample(seed=0), DOMAIN.attributes) == 0
    part = pg.LinearMeasurement.exact([37], "age", [[0, 1, 0, 0, 0]])
    result = made(name, [part], **dict(HOLDING)[name]).fit(DATA, seed=0)
    assert result.details[INVARIANTS] == HELD
    assert result.sample(seed=0).project("age").values[1] == 37


@pytest.mark.parametrize("name", ["LAMP", "PrivSyn", "AIM", "MWEM", "DualQuery", "TopDown"])
def test_bounds_say_how_many_records_there_may_be(name):
    """The noisy number of records is far below or above what bounds allow."""
    counts = DATA.project("age").values
    for bound in (pg.LinearMeasurement.at_least(3 * counts, "age"), pg.LinearMeasurement.at_most(counts // 3, "age")):
        kind = getattr(pg.mechanisms, name)
        budget = {"epsilon": 0.5} if kind.definition == "pure" else {"rho": 0.05}
        mechanism = kind(**budget, backend="simulation", invariants=[bound], **dict(HOLDING)[name])
        result = mechanism.fit(DATA, seed=0)
        sums = result.sample(seed=0).project("age").values
        assert np.all(bound.low <= (sums if bound.query is None else bound.query.apply(sums)))
        assert result.details[INVARIANTS] == HELD


def test_topdown_holds_a_bound_of_the_number_of_records():
    result = made("TopDown", [pg.LinearMeasurement.at_most([600], ())], spine="region").fit(DATA, seed=0)
    assert result.sample(seed=0).records == 600


UNABLE = [
    ("MWEM", {"estimator": "original", "rounds": 2}),
    ("PrivBayes", {"estimator": "original"}),
    ("HDMM", {"estimator": "original"}),
    ("PriView", {}),
    ("DualQuery", {"estimator": "original"}),
]


@pytest.mark.parametrize(("name", "parameters"), UNABLE, ids=str)
def test_mechanisms_without_a_graphical_model_refuse_and_name_others(name, parameters):
    with pytest.raises(ArgumentError, match="cannot hold invariants: take LAMP, AIM, MST or Independent"):
        made(name, READ, **parameters)


def test_what_is_given_leaves_the_promise_as_it_is_and_what_is_read_does_not():
    read, given = (made("Independent", one).fit(DATA, seed=0) for one in (READ, GIVEN))
    assert isinstance(read.mechanism.neighbors, Replace)
    assert isinstance(given.mechanism.neighbors, AddRemove)
    assert "sex x age: read exactly from the records" in str(read.ledger)
    assert "region: given as public; 6 cells, 1 with no record and 1 with a single one" in str(given.ledger)
    statement = str(PrivacyStatement.of(read.mechanism, read.ledger))
    assert "such that the tables that are not protected stay as they are" in statement
    assert "Nothing is promised about the tables that are not protected" in statement
    assert read.ledger.to_json()["unprotected"][0] == {"table": ["region"], "given": False, "empty": 1, "single": 1}
    assert "NOT PROTECTED" not in str(made("Independent", None).fit(DATA, seed=0).ledger)


@pytest.mark.parametrize(
    ("invariants", "error"),
    [
        ([("regoin",)], UnknownAttributeError),
        ([("region", "region")], DuplicateAttributeError),
        ([pg.LinearMeasurement.exact([1, 2, 3], "region")], ShapeError),
        (
            [pg.LinearMeasurement.exact([300, 400], "sex"), pg.LinearMeasurement.exact([700, 1, 0], "work")],
            ArgumentError,
        ),
        ([GIVEN[0], pg.LinearMeasurement.exact(np.ones((6, 2)), ("region", "sex"))], ArgumentError),
        ([pg.LinearMeasurement.exact([0, 0], "sex")], ArgumentError),
    ],
    ids=["unknown", "twice", "shape", "sums", "shared", "nobody"],
)
def test_invariants_that_do_not_fit_are_refused_before_anything_is_paid(tmp_path, invariants, error):
    mechanism = pg.mechanisms.Independent(rho=0.1, invariants=invariants)
    ledger = DatasetLedger.create(tmp_path / "ledger", Rho(1.0))
    with pytest.raises(error):
        mechanism.fit(DATA, seed=0, ledger=ledger)
    assert ledger.remaining == Rho(1.0)


@pytest.mark.parametrize(
    ("one", "text"),
    [
        (pg.LinearMeasurement.exact([1.5, 2.5], "sex"), "whole numbers only"),
        (pg.LinearMeasurement.between([-1.0, 2.0], [-1.0, 2.0], "sex"), "negative count, -1"),
        (pg.LinearMeasurement([1.0, 2.0], "sex"), "has noise"),
        (pg.LinearMeasurement.rounded([5, 10], "sex", 5), "between two ends"),
        (3, "a list of tuples of attributes"),
        ({"region": 1}, None),
    ],
    ids=["fractions", "negative", "noisy", "rounded", "number", "names of a mapping"],
)
def test_what_is_no_invariant_is_refused_at_once(one, text):
    if text is None:
        assert pg.mechanisms.AIM(epsilon=1.0, invariants=one).invariants == (("region",),)
        return
    with pytest.raises(ArgumentError, match=text):
        pg.mechanisms.AIM(epsilon=1.0, invariants=[one])


@pytest.mark.parametrize("name", ["LAMP", "PrivSyn", "MST", "TopDown"])
@pytest.mark.parametrize(
    "stated",
    [
        pg.LinearMeasurement.exact([1e9, 3e9], "sex"),
        pg.LinearMeasurement.at_least([2e8], ()),
        pg.LinearMeasurement.exact([4e9], (), None),
    ],
    ids=["sexes", "at least", "records"],
)
def test_more_records_than_a_list_can_have_are_refused_before_anything_is_paid(name, stated):
    """Models that are no lists of records hold such totals, and draw as many records as are asked for."""
    charged = []
    mechanism = made(name, [stated], **({"spine": "region"} if name == "TopDown" else {}))
    if name in ("LAMP", "PrivSyn"):
        with pytest.raises(ArgumentError, match=r"is a list of all of them.*Take AIM or MST"):
            mechanism.fit(DATA, seed=0, progress=charged.append)
        assert not charged
    else:
        result = mechanism.fit(DATA, seed=0)
        assert result.model.total == pytest.approx(max(2e8, float(stated.values.sum())), rel=1e-3)
        assert result.sample(50, seed=0).records == 50


def test_zeros_that_contradict_what_is_read_are_refused():
    rule = zeros.impossible(("sex", "age"), [(0, 0)])
    mechanism = pg.mechanisms.MST(rho=0.1, backend="simulation", invariants=READ, structural_zeros=[rule])
    with pytest.raises(ArgumentError, match="no table has the invariants of region, sex x age"):
        mechanism.fit(DATA, seed=0)


@pytest.mark.parametrize("name", ["AIM", "LAMP", "MST", "TopDown"])
def test_levels_of_a_hierarchy_are_invariants(name):
    """The values of a province are not neighbors in the order of codes."""
    groups = np.array([0, 1, 2, 0, 1, 2])
    domain = DOMAIN.with_hierarchies(pg.Hierarchy("region", {"province": groups}))
    data = pg.Dataset.from_codes(list(DATA.columns), domain)
    result = made(name, [("region@province", "sex")]).fit(data, seed=0)
    drawn = result.sample(seed=0).project(("region", "sex")).values
    true = DATA.project(("region", "sex")).values
    assert result.details[INVARIANTS] == HELD
    assert all((drawn[groups == one].sum(axis=0) == true[groups == one].sum(axis=0)).all() for one in range(3))
    assert "region@province x sex: read exactly" in str(result.ledger)


def test_every_mechanism_of_the_registry_holds_invariants_or_refuses_them():
    tested = {name.lower() for name, _ in (*HOLDING, *UNABLE)} | {"topdown"}
    assert tested == set(mechanism_names())


def test_a_curator_answers_for_nothing_what_invariants_determine():
    curator = Curator(DATA, Rho(1.0), neighbors=Replace(), backend="simulation", seed=0, invariants=READ)
    found = curator.measure_all([("age",), ("work",), ("age", "sex")], Rho(0.4), weights=[5, 1, 3])
    assert [measurement.noisy for measurement in found] == [False, True, False]
    assert (found[2].values == DATA.project(("age", "sex")).datavector()).all()
    assert curator.remaining == Rho(0.6)
    assert found[1].stddev == pytest.approx(math.sqrt(1 / 0.4))
    with pytest.raises(ArgumentError, match="neighbors agree"):
        Curator(DATA, Rho(1.0), backend="simulation", invariants=READ)


def test_a_ledger_of_a_dataset_charges_only_runs_whose_tables_it_does_not_protect(tmp_path):
    ledgers = {
        "protects": DatasetLedger.create(tmp_path / "all", Rho(1.0), neighbors=Replace()),
        "excepts": DatasetLedger.create(tmp_path / "some", Rho(1.0), invariants=[("region", "sex")]),
    }
    curators = {"neighbors": Replace(), "backend": "opendp"}
    with pytest.raises(LedgerError, match="publishes tables exactly that the ledger protects"):
        Curator(DATA, Rho(0.1), ledger=ledgers["protects"], invariants=[("region",)], **cast(Any, curators))
    curator = Curator(DATA, Rho(0.1), ledger=ledgers["excepts"], invariants=[("region",)], **cast(Any, curators))
    curator.close()
    with pytest.raises(LedgerError, match="publishes tables exactly"):
        Curator(DATA, Rho(0.1), ledger=ledgers["excepts"], invariants=[("age",)], **cast(Any, curators))
    with pytest.raises(ArgumentError, match="as many records"):
        DatasetLedger.create(tmp_path / "no", Rho(1.0), invariants=[("region",)], neighbors=AddRemove())
    for ledger in ledgers.values():
        ledger.close()


def test_no_record_is_read_for_a_run_that_a_ledger_refuses(tmp_path, monkeypatch):
    """Neither is anything of what is read in the first line of a journal, which is written before."""
    ledgers = (
        DatasetLedger.create(tmp_path / "other", Rho(1.0)),
        DatasetLedger.create(tmp_path / "poor", Rho(0.01), invariants=[("region",)]),
    )
    first = []
    for data in (DATA, DATA.take(range(1, 700))):  # one has a region with a single record
        path = tmp_path / f"journal {data.records}"
        Curator(data, Rho(0.1), neighbors=Replace(), invariants=[("region",)], journal=path).close()
        first.append(json.loads(path.read_text().splitlines()[0])["invariants"])
    assert first[0] == first[1] == [{"table": ["region"], "given": False}]
    monkeypatch.setattr(unprotected, "read_exactly", lambda *_: pytest.fail("records were read"))
    for ledger in ledgers:
        with pytest.raises((LedgerError, BudgetExceeded)):
            Curator(DATA, Rho(0.1), neighbors=Replace(), invariants=[("region",)], ledger=ledger)
        ledger.close()


def test_names_of_a_ledger_mean_the_same_in_all_runs(tmp_path):
    """Otherwise three runs with other provinces of four regions publish the table of all regions."""
    path, codes = tmp_path / "ledger", [DATA.columns[0]]
    DatasetLedger.create(path, Rho(1.0), invariants=[("region@province",), ("region",)]).close()

    def run(groups, clique=("region@province",)):
        domain = pg.Domain({"region": len(groups)}).with_hierarchies(pg.Hierarchy("region", {"province": groups}))
        data = pg.Dataset.from_codes(codes, domain)
        Curator(data, Rho(0.01), neighbors=Replace(), invariants=[clique], ledger=path).close()

    run([0, 0, 0, 1, 1, 1])
    run(["b", "b", "b", "a", "a", "a"])  # the same groups
    run([0, 0, 0, 1, 1, 1], ("region",))
    for wrong, clique in (
        ([0, 1, 0, 1, 1, 1], "region@province"),
        ([0, 0, 0, 1, 1, 1, 1], "region@province"),
        ([0, 0, 0, 1, 1, 1, 1], "region"),
    ):
        with pytest.raises(LedgerError, match=f"an earlier run published '{clique}' with other values or groups"):
            run(wrong, (clique,))


def test_a_ledger_that_excepts_areas_takes_runs_that_publish_provinces(tmp_path):
    """But not with areas of other numbers of values, of which a run has published provinces."""
    path = tmp_path / "ledger"
    DatasetLedger.create(path, Rho(1.0), invariants=[("region", "sex")]).close()

    def run(groups, clique):
        domain = pg.Domain({"region": len(groups), "sex": 2}).with_hierarchies(
            pg.Hierarchy("region", {"province": groups})
        )
        data = pg.Dataset.from_codes(list(DATA.columns[:2]), domain)
        curator = Curator(data, Rho(0.01), neighbors=Replace(), invariants=[clique], ledger=path)
        assert not curator.measure(clique, Rho(0.01)).noisy
        assert curator.measure("region", Rho(0.001)).noisy
        curator.close()

    run([0, 0, 0, 1, 1, 1], ("region@province", "sex"))
    run([0, 0, 0, 1, 1, 1], ("region@province",))
    with pytest.raises(LedgerError, match="an earlier run published 'region' with other values"):
        run([0, 0, 0, 1, 1, 1, 1], ("region",))
    assert [float(one.spent.exact[0]) for one in DatasetLedger(path).runs] == pytest.approx([0.001, 0.001])


def test_plans_are_for_the_neighbors_of_the_run():
    lamp = pg.mechanisms.LAMP(rho=0.1, invariants=READ)
    replaced = dataclasses.replace(lamp, neighbors=Replace(), invariants=None)
    found, known = lamp.plan(DOMAIN, 700, quick=True), replaced.plan(DOMAIN, 700, quick=True)
    held = [{"region"}, {"sex", "age"}, {"sex"}, {"age"}]
    for table in (*found.columns, *found.pairs):
        assert (table.half_width == pytest.approx(0, abs=1e-6)) is (set(table.clique) in held)
    assert all(table.half_width > 0 for table in (*known.columns, *known.pairs))


def test_the_promise_holds_among_neighbors_that_agree_on_the_invariants():
    """All tables of three records over two binary attributes; the exact probabilities of the released counts.

    Any two tables that agree on the invariant and differ in one record have likelihood ratios of at most e^epsilon at
    every output, and some pair reaches more than half of it; tables that disagree have disjoint outputs.
    """
    domain, epsilon = pg.Domain({"a": 2, "b": 2}), 0.8
    codes = list(itertools.product(range(2), repeat=2))
    outputs = np.arange(-60, 61)
    seen, worst = {}, 0.0
    for records in itertools.combinations_with_replacement(codes, 3):
        data = pg.Dataset.from_codes(np.array(records), domain)
        curator = Curator(data, Epsilon(epsilon), neighbors=Replace(), backend="simulation", invariants=[("a",)])
        asked = curator.measure(("a", "b"), Epsilon(epsilon))
        scale = 1 / math.log(1 / _decay(float(cast(Any, asked.stddev))))
        log = [-np.abs(outputs - count) / scale for count in data.project(("a", "b")).datavector()]
        seen[records] = curator.invariants[0].values.tolist(), log
    for one, other in itertools.combinations(seen, 2):
        differing = sum((np.array([one.count(c) for c in codes]) - [other.count(c) for c in codes]).clip(0))
        (fixed, logs), (agreed, others) = seen[one], seen[other]
        if fixed == agreed:
            ratio = sum(float(np.abs(first - second).max()) for first, second in zip(logs, others, strict=True))
            assert ratio <= differing * epsilon * (1 + 1e-6)
            worst = max(worst, ratio if differing == 1 else 0.0)
    assert worst > 0.5 * epsilon


def _decay(stddev: float) -> float:
    """Return the ratio of neighboring probabilities of a discrete Laplace distribution with a standard deviation."""
    square = stddev**2  # 2 p / (1 - p)^2
    return 1 + 1 / square - math.sqrt((1 + 1 / square) ** 2 - 1)


def test_a_resumed_run_has_the_same_invariants(tmp_path):
    mechanism = made("Independent", READ)
    first = mechanism.fit(DATA, seed=3, checkpoint=tmp_path / "run")
    again = mechanism.fit(DATA, seed=3, checkpoint=tmp_path / "run")
    assert first.ledger.total == again.ledger.total
    with pytest.raises(pg.errors.JournalError):
        dataclasses.replace(mechanism, invariants=[("work",)]).fit(DATA, seed=3, checkpoint=tmp_path / "run")


def test_pairs_of_invariants_are_kept_and_transformed_mechanisms_hold_them():
    result = made("Independent", READ).fit(DATA, seed=0)
    assert KeptPairs.of(result).state(("age", "sex")) == "measured"
    assert KeptPairs.of(result).state(("age", "work")) == "independent"
    assert [one.clique for one in result.invariants] == READ
    inside = pg.mechanisms.MST(rho=0.1, backend="simulation")
    with pytest.raises(ArgumentError, match="give invariants to Transformed"):
        pg.mechanisms.Transformed(mechanism=dataclasses.replace(inside, invariants=READ))
    for steps, recoded in (([lambda curator, _: transforms.bucketize(DOMAIN, {"work": [0, 2]})], "work"), ([], None)):
        mechanism = pg.mechanisms.Transformed(mechanism=inside, steps=steps, share=0, invariants=READ)
        found = mechanism.fit(DATA, seed=0)
        assert found.details[INVARIANTS] == HELD
        assert missed(found.sample(seed=0), ("sex", "age")) == 0
        if recoded is not None:
            with pytest.raises(ArgumentError, match="recodes no attribute of invariants"):
                dataclasses.replace(mechanism, invariants=[("work",)]).fit(DATA, seed=0)


def test_a_table_is_the_same_one_only_under_the_same_coding(tmp_path):
    """Two tables with the same numbers of codes, cut at other ages, tell the counts between the cuts together."""
    path, ages = tmp_path / "ledger", pd.DataFrame({"age": np.arange(300) % 90, "sex": ["F", "M"] * 150})
    DatasetLedger.create(path, Rho(1.0), invariants=[("age",)]).close()
    sex = {"type": "categorical", "values": ["F", "M"], "other": "X"}

    def run(age, sex=sex, table=ages, **more):
        schema = pg.Schema.from_dict({"columns": {"age": age, "sex": sex}, **more})
        data = schema.encode(table)
        Curator(data, Rho(0.01), neighbors=Replace(), invariants=[("age",)], ledger=path).close()
        return data

    edges = {"type": "integer", "edges": [0, 30, 60, 90]}
    data = run(edges)
    run(edges)
    run(edges, sex | {"values": ["M", "F"]})  # whose codes are in no invariant
    run(edges, table=pl.from_pandas(ages).lazy())  # pyright: ignore[reportArgumentType]
    ages.to_csv(tmp_path / "t.csv", index=False)
    run(edges, table=tmp_path / "t.csv")
    run(edges | {"hierarchy": {"old": {"no": [{"min": 0, "max": 59}], "yes": [{"min": 60, "max": 89}]}}})
    for age, more in (
        (edges | {"edges": [0, 31, 60, 90]}, {}),
        (edges | {"edges": [0, 30, 60, 91]}, {}),
        ({"type": "categorical", "values": [0, 1], "other": 2}, {}),
        (edges, {"file": {"skip_rows": ["7"]}}),
    ):
        with pytest.raises(LedgerError, match="an earlier run published 'age' with other values or groups"):
            run(age, table=tmp_path / "t.csv", **more)
    bare = pg.Dataset.from_codes(data.columns, data.domain)  # codes of which nobody knows what they mean
    with pytest.raises(LedgerError, match="the same description of the column in the schema"):
        Curator(bare, Rho(0.01), neighbors=Replace(), invariants=[("age",)], ledger=path)
    assert len(DatasetLedger(path).runs) == 6


def test_answers_about_other_codes_are_not_resumed(tmp_path):
    frame = pd.DataFrame({"age": np.arange(300) % 90})

    def ask(edges):
        data = pg.Schema.from_dict({"columns": {"age": {"type": "integer", "edges": edges}}}).encode(frame)
        with contextlib.closing(Curator(data, Rho(1.0), backend="simulation", journal=tmp_path / "j")) as curator:
            return curator.measure(("age",), Rho(0.1)).values.tolist()

    assert ask([0, 30, 60, 90]) == ask([0, 30, 60, 90])
    with pytest.raises(JournalError, match="is the journal of another run: its coding is"):
        ask([0, 31, 60, 90])

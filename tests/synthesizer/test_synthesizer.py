"""Synthesizer: a raw table in, a synthetic table of the same kind out."""

from __future__ import annotations

import importlib

import numpy as np
import pytest

import pgmest as pg
from pgmest.errors import ArgumentError, DomainError, ImpossibleModelError, SchemaError
from pgmest.mechanisms.registry import mechanism_names, named_mechanism
from tests.privacy.amounts import rho

SCHEMA = {
    "columns": {
        "age": {"type": "integer", "min": 0, "max": 99, "width": 10, "missing": True},
        "sex": {"type": "categorical", "values": ["F", "M"], "other": "X"},
        "married": {"type": "boolean"},
        "born": {"type": "date", "min": "1920-01-01", "max": "2019-12-31", "unit": "year", "width": 20},
    },
    "constraints": [{"impossible": {"age": {"max": 19}, "married": True}}],
}


def people(rows: int = 3000):
    """Ages with gaps; nobody under 20 is married; a column that the schema does not name."""
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    age = rng.integers(0, 100, rows)
    return pd.DataFrame(
        {
            "note": "private",
            "age": pd.array(age, dtype="Int64"),
            "sex": rng.choice(["F", "M"], rows),
            "married": (age >= 20) & (rng.random(rows) < 0.7),
            "born": np.datetime64("2019-06-01") - age * np.timedelta64(365, "D"),
        }
    ).mask(lambda frame: frame == 7)


def synthesizer(mechanism: str = "mst", **parameters) -> pg.Synthesizer:
    return pg.Synthesizer(mechanism, rho=0.5, backend="simulation", **parameters)


@pytest.fixture(scope="module")
def fitted() -> pg.Synthesizer:
    return synthesizer().fit(people(), SCHEMA, seed=0)


def test_the_same_kind_of_table_comes_out(fitted):
    table = fitted.sample(2000, seed=1)
    assert list(table) == ["age", "sex", "married", "born"]
    assert len(table) == 2000
    assert str(table["age"].dtype) == "Int64"
    assert 0 < table["age"].isna().sum() < 200
    assert set(table["sex"]) <= {"F", "M", "X"}
    assert table["married"].dtype == bool
    assert table["born"].dt.year.between(1920, 2019).all()
    assert abs(table["married"].mean() - people()["married"].mean()) < 0.05
    assert table.equals(fitted.sample(2000, seed=1))


def test_tables_for_analyses_have_labels_and_types(fitted):
    tables = fitted.sample_tables(3, 400, seed=0)
    assert all(list(table) == ["age", "sex", "married", "born"] and len(table) == 400 for table in tables)
    assert all(str(table["age"].dtype) == "Int64" and table["married"].dtype == bool for table in tables)
    assert not tables[0].equals(tables[1])
    part = fitted.sample_tables(2, attributes=("married", "sex"), seed=0)[0]
    assert set(part) == {"married", "sex"}
    assert set(part["sex"]) <= {"F", "M", "X"}
    data = fitted.model_.sample_tables(2, attributes=("married", "sex"), seed=0)[0]
    assert set(fitted.schema_.select(data.domain).decode(data, seed=0)) == {"married", "sex"}
    with pytest.raises(SchemaError, match=r"schema\.select\(data\.domain\)"):
        fitted.schema_.decode(data)


def test_nothing_impossible_comes_out(fitted):
    table = fitted.sample(5000, seed=2)
    assert not ((table["age"] < 20) & table["married"]).any()
    assert fitted.result_.details["structural_zeros"] == "honored"


def test_about_as_many_rows_as_there_are_by_default(fitted):
    assert len(fitted.sample(seed=0)) == pytest.approx(3000, abs=60)


def test_intervals_have_labels(fitted, tmp_path):
    fitted.save(tmp_path / "s.npz")
    name, other = fitted.schema_.domain.attributes[:2]
    for one in (fitted, pg.Synthesizer.load(tmp_path / "s.npz")):
        table, (low, high) = one.interval([name, other], level=0.9), one.model_.interval((name, other), level=0.9)
        assert list(table.columns) == [name, other, "count", "low", "high"]
        assert list(table[name].unique()) == one.schema_.labels(name)
        np.testing.assert_allclose(table["count"], one.model_.project((name, other)).datavector())
        np.testing.assert_allclose(table["low"], low.datavector())
        np.testing.assert_allclose(table["high"], high.datavector())
        total = one.interval(())
        assert total["low"][0] < total["count"][0] < total["high"][0]
        assert total["count"][0] == pytest.approx(one.model_.total)
        women, whole = one.interval(name, given={"sex": "F"}), one.interval([name, "sex"])
        for column in ("count", "low", "high"):
            np.testing.assert_allclose(women[column], whole[column][whole["sex"] == "F"], rtol=1e-6, atol=1e-6)
    with pytest.raises(pg.errors.UnknownAttributeError):
        fitted.interval("nobody")
    with pytest.raises(ArgumentError, match="not seen a table"):
        pg.Synthesizer().interval("age")


@pytest.mark.parametrize("library", ["polars", "pyarrow"])
def test_other_libraries_get_their_own(library):
    module = importlib.import_module(library) if pytest.importorskip(library) else None
    frame = people(500)[["age", "sex", "married", "born"]]
    table = module.from_pandas(frame) if library == "polars" else module.Table.from_pandas(frame)
    for given in (table, table.lazy()) if library == "polars" else (table,):
        made = synthesizer("mst").fit(given, SCHEMA, seed=0).sample(50, seed=0)
        assert type(made).__module__.startswith(library)
        assert len(made) == 50


def test_paths_and_encoded_records(tmp_path):
    frame = people(500)
    frame.to_csv(tmp_path / "people.csv", index=False)
    schema = pg.Schema.from_dict(SCHEMA)
    encoded = synthesizer("independent").fit(schema.encode(frame), schema, seed=0)
    from_path = synthesizer("independent").fit(str(tmp_path / "people.csv"), schema, seed=0)
    assert encoded.sample(100, seed=0).equals(from_path.sample(100, seed=0))
    with pytest.raises(DomainError, match="but the schema describes"):
        synthesizer().fit(encoded.result_.sample(10).select(["age"]), schema)


def test_ledger_and_model(fitted):
    assert fitted.ledger_.remaining / fitted.ledger_.budget < 1e-9
    assert fitted.ledger_.insecure
    assert fitted.model_ is fitted.result_.model
    assert repr(fitted).endswith(", fitted)")


def test_the_workload_is_in_terms_of_the_columns():
    result = synthesizer("hdmm").fit(people(500), SCHEMA, [("age", "sex")], seed=0).result_
    measured = {measurement.clique for measurement in result.measurements}
    assert ("age", "sex") in measured
    assert {clique for clique in measured if len(clique) == 2} == {("age", "sex")}


def test_a_draft_is_refused_before_anything_is_spent():
    with pytest.raises(SchemaError, match="schema still says drafted_from_private_data: true"):
        synthesizer().fit(people(100), {**SCHEMA, "drafted_from_private_data": True})
    synthesizer("independent").fit(people(100), {**SCHEMA, "drafted_from_private_data": True}, allow_draft=True)


def test_constraints_that_leave_nothing_are_refused_before_anything_is_spent():
    schema = {**SCHEMA, "constraints": [{"impossible": {"sex": value}} for value in ("F", "M", "X")]}
    charged = []
    with pytest.raises(ImpossibleModelError):
        synthesizer("independent").fit(people(100), schema, seed=0, progress=charged.append)
    assert charged == []


def test_models_that_cannot_exclude_the_impossible_say_so():
    made = synthesizer("privbayes", estimator="original").fit(people(200), SCHEMA, seed=0)
    assert made.result_.details["structural_zeros"].startswith("not honored: ")
    assert len(made.sample(10)) == 10


def test_mechanisms_that_measure_queries_exclude_the_impossible_too():
    made = synthesizer("ppsyn").fit(people(1000), SCHEMA, [("age", "married")], seed=0)
    assert made.result_.details["structural_zeros"] == "honored"
    table = made.sample(500, seed=0)
    assert not ((table["age"] < 20) & table["married"]).any()


@pytest.mark.usefixtures("blank_pictures")
def test_pages(tmp_path):
    pytest.importorskip("matplotlib")
    made = synthesizer("independent").fit(people(100), SCHEMA, seed=0)
    public = made.report(tmp_path / "report.html").read_text()
    owner = made.owner_report(people(100), tmp_path / "owner.html").read_text()
    assert "do not publish them" in owner
    assert "do not publish them" not in public
    assert "without access to the private data" in public
    for page in (public, owner):
        assert "0..9, 10..19" in page
        assert "Impossible records" in page


def test_wrong_use():
    with pytest.raises(ArgumentError, match="has not seen a table yet"):
        synthesizer().sample(3)
    with pytest.raises(ArgumentError, match="has not seen a table yet"):
        synthesizer().report()
    with pytest.raises(ArgumentError, match="schema=3 is not valid"):
        synthesizer().fit(people(10), 3)  # type: ignore[arg-type]
    for mechanism, more in ((3, {}), (named_mechanism("mst", rho=1.0), {"rho": 1.0})):
        with pytest.raises(ArgumentError, match="a name, or a mechanism that has all parameters"):
            pg.Synthesizer(mechanism, **more).fit(people(10), SCHEMA)  # type: ignore[arg-type]


def test_a_mechanism_can_be_given():
    mechanism = named_mechanism("Independent", epsilon=1.0, backend="simulation")
    assert pg.Synthesizer(mechanism).mechanism is mechanism


@pytest.mark.parametrize("name", mechanism_names())
def test_every_name_is_a_mechanism_that_needs_only_a_budget(name):
    mechanism = named_mechanism(name.upper(), epsilon=1.0)
    assert isinstance(mechanism, pg.mechanisms.Mechanism)
    assert mechanism.backend == "opendp"
    assert mechanism.delta == 1e-9


def test_wrong_names_and_parameters():
    with pytest.raises(ArgumentError, match="mechanism='magic' is not valid: it must be one of 'aim'"):
        named_mechanism("magic", epsilon=1.0)
    with pytest.raises(ArgumentError, match=r"'thresold' is not a parameter of MST .* Did you mean 'threshold'"):
        named_mechanism("mst", epsilon=1.0, thresold=2)
    assert "notprivate" not in "".join(mechanism_names())


VISITS = {"columns": {"x": {"type": "integer", "min": 0, "max": 9}}, "unit": {"column": "id", "at_most": 3}}


def visits():
    pd = pytest.importorskip("pandas")
    return pd.DataFrame({"id": [f"p{i // 5}" for i in range(500)], "x": [i % 10 for i in range(500)]})


def test_the_neighboring_relation_follows_the_unit():
    from pgmest.privacy import AddRemove

    made = synthesizer("independent").fit(visits(), VISITS, seed=0)
    assert made.result_.mechanism.neighbors == AddRemove(3)
    row_by_row = {"columns": VISITS["columns"]}
    alone = synthesizer("independent").fit(visits(), row_by_row, seed=0)
    assert alone.result_.mechanism.neighbors == AddRemove(1)
    stddev = [float(np.max(fitted.result_.measurements[0].stddev)) for fitted in (made, alone)]
    assert stddev[0] == pytest.approx(3 * stddev[1], rel=0.01)
    assert abs(made.model_.total - 300) < 100
    assert set(made.sample(5, seed=0).columns) == {"x"}


def test_a_relation_that_protects_more_stays_and_replace_is_refused():
    from pgmest.privacy import AddRemove, Replace

    wide = pg.mechanisms.Independent(rho=1.0, backend="simulation", neighbors=AddRemove(7))
    assert pg.Synthesizer(wide).fit(visits(), VISITS).result_.mechanism.neighbors == AddRemove(7)
    with pytest.raises(ArgumentError, match="AddRemove where the schema has a unit"):
        pg.Synthesizer(pg.mechanisms.Independent(rho=1.0, neighbors=Replace())).fit(visits(), VISITS)


def test_records_that_were_not_bounded_are_refused():
    from pgmest.schema import Schema

    unbounded = Schema.from_dict({"columns": VISITS["columns"]}).encode(visits())
    with pytest.raises(ArgumentError, match="the data were not bounded to 3 records of a person"):
        synthesizer("independent").fit(unbounded, VISITS)
    bounded = Schema.from_dict(VISITS).encode(visits())
    assert synthesizer("independent").fit(bounded, VISITS).result_.mechanism.neighbors.records == 3


def test_a_mechanism_around_another_follows_the_unit_too():
    from pgmest.schema import Schema

    data = Schema.from_dict(VISITS).encode(visits())
    inside = pg.mechanisms.Independent(rho=1.0, backend="simulation")
    result = pg.mechanisms.Transformed(mechanism=inside, share=0.0).fit(data, seed=0)
    assert result.mechanism.neighbors.records == 3
    assert isinstance(result.mechanism, pg.mechanisms.Transformed)
    assert result.mechanism.mechanism.neighbors.records == 3


def test_a_mark_that_is_left_is_refused():
    from pgmest.schema import Schema, draft

    text = draft(people(100)).replace("drafted_from_private_data: true\n", "")
    with pytest.raises(SchemaError, match=r"still says READ FROM THE PRIVATE DATA \(line 2, "):
        synthesizer().fit(people(100), Schema.parse(text))


def test_records_that_another_unit_bounds_are_refused():
    from pgmest.schema import Schema

    houses = visits().assign(house=range(500))  # a person has five houses, each with one row
    by_house = Schema.from_dict({**VISITS, "unit": {"column": "house", "at_most": 3}}).encode(houses)
    with pytest.raises(ArgumentError, match="has the unit 'id', but the data were bounded by 'house'"):
        synthesizer("independent").fit(by_house, VISITS)


def test_a_fit_replaces_the_model_of_a_file(tmp_path):
    pg.Synthesizer("independent", rho=50.0, backend="simulation").fit(visits(), VISITS, seed=0).save(tmp_path / "m.npz")
    again = pg.Synthesizer.load(tmp_path / "m.npz").set_params(mechanism="independent", rho=0.1, backend="simulation")
    again.fit(visits(), VISITS, seed=0)
    assert again.model_ is again.result_.model
    assert rho(again.ledger_.budget) == again.privacy_["rho"] == 0.1
    assert "fitted" in repr(again)


def test_questions_of_wrong_kinds_name_what_would_be_right(fitted):
    for method in (fitted.interval, fitted.project):
        for query in (pg.Kron({"sex": np.eye(2)}), None, 3):
            with pytest.raises(ArgumentError, match=r"attributes=.*names of columns; model_\.interval"):
                method(query)
        for given in (["sex"], "sex", 0.9):
            with pytest.raises(ArgumentError, match=r"given=.*a mapping of columns to values"):
                method("sex", given)

"""Parts of a schema: their columns, the constraints among them, and data over a part of the attributes."""

import numpy as np
import pytest

import pgmest as pg
from pgmest.errors import ArgumentError, DuplicateAttributeError, SchemaError, UnknownAttributeError

SCHEMA = pg.Schema.parse(
    """
columns:
  sex: {type: categorical, values: [F, M], other: X}
  age: {type: integer, min: 0, max: 99, width: 10}
  job: {type: boolean}
  start: {type: date, min: 2020-01-01, max: 2020-12-31, unit: month}
  middle: {type: date, min: 2020-01-01, max: 2020-12-31, unit: month}
  end: {type: date, min: 2020-01-01, max: 2020-12-31, unit: month, missing: true}
  labor: {type: integer, min: 0, max: 99, width: 50}
  parts: {type: integer, min: 0, max: 99, width: 50}
  cost: {type: integer, min: 0, max: 198, width: 50}
constraints:
  - impossible: {age: {max: 9}, job: true}
  - possible: {columns: [sex, job], rows: [[F, true], [M, false]]}
  - ordered: [start, middle, end]
  - sum: {cost: [labor, parts]}
unit: {column: id, at_most: 2}
file: {delimiter: ";"}
"""
)


@pytest.mark.parametrize(
    ("names", "zeros"),
    [
        (("age", "job"), {("age", "job")}),
        (("job", "age", "sex"), {("age", "job"), ("sex", "job")}),
        (("sex", "age"), set()),
        (("start", "end"), {("start", "end")}),
        (("end",), set()),
        (("labor", "parts", "cost"), set()),
        (("labor",), set()),
    ],
)
def test_a_part_has_its_columns_and_their_constraints(names, zeros):
    part = SCHEMA.select(names)
    assert list(part.domain) == [name for name in names if name != "cost"]
    assert {name: part.labels(name) for name in part.domain} == {name: SCHEMA.labels(name) for name in part.domain}
    assert set(part.structural_zeros) == zeros
    for clique in zeros & set(SCHEMA.structural_zeros):
        np.testing.assert_array_equal(part.structural_zeros[clique], SCHEMA.structural_zeros[clique])
    assert part.unit == SCHEMA.unit
    assert part.file == SCHEMA.file
    assert pg.Schema.from_dict(part.description).domain == part.domain


@pytest.mark.parametrize("name", list(SCHEMA.domain))
def test_decoded_parts_encode_to_themselves(name):
    names = ("start", "end") if name == "end" else (name,)
    part = SCHEMA.select(names)
    model = pg.estimate([], part.domain, total=200, structural_zeros=part.structural_zeros)
    data = model.sample(200, seed=0)
    table = part.decode(data, seed=0)
    assert list(table) == list(names)
    again = pg.Schema.from_dict({**part.description, "unit": {"column": "id", "at_most": 200}}).encode(
        table.assign(id=1), key=bytes(16)
    )
    assert again == data


@pytest.mark.parametrize(
    ("names", "error", "said"),
    [
        (("cost", "labor"), SchemaError, "'cost' is computed from labor, parts and has no codes: select these, too"),
        (("agee",), UnknownAttributeError, "Did you mean 'age'"),
        (("age", "age"), DuplicateAttributeError, "age"),
        ((), SchemaError, "at least one"),
    ],
)
def test_what_is_no_part_is_refused(names, error, said):
    with pytest.raises(error, match=said):
        SCHEMA.select(names)


def test_a_computed_total_needs_its_parts():
    columns = {name: {"type": "integer", "min": 0, "max": 9999} for name in "ab"}
    columns["t"] = {"type": "integer", "min": 0, "max": 19998}
    schema = pg.Schema.from_dict({"columns": columns, "constraints": [{"sum": {"t": ["a", "b"]}}]})
    with pytest.raises(SchemaError, match="'t' is computed from a, b and has no codes: select these, too"):
        schema.select(("a", "t"))
    part = schema.select(("b", "a", "t"))
    table = part.decode(pg.Dataset.from_codes(np.array([[1, 2]]), {"a": 10**4, "b": 10**4}), seed=0)
    assert table.to_dict("list") == {"b": [2], "a": [1], "t": [3]}


def test_data_over_a_part_are_not_decoded_as_the_whole():
    data = pg.Dataset.from_codes(np.array([[0, 1]]), {"sex": 3, "age": 10})
    with pytest.raises(SchemaError, match=r"no attribute job, .*schema\.select\(data\.domain\)"):
        SCHEMA.decode(data)
    with pytest.raises(SchemaError, match="Decode what was estimated"):
        SCHEMA.decode(pg.Dataset.from_codes(np.array([[0]]), {"other": 2}))
    with pytest.raises(SchemaError, match="Decode what was estimated"):
        SCHEMA.decode(pg.Dataset.from_codes(np.array([[0]]), {"sex": 2}))


def test_the_order_of_attributes_does_not_matter():
    part = SCHEMA.select(("sex", "age"))
    data = pg.Dataset.from_codes(np.array([[3, 1]]), {"age": 10, "sex": 3})
    table = part.decode(data, seed=0)
    assert list(table) == ["sex", "age"]
    assert table["sex"].tolist() == ["M"]
    assert 30 <= table["age"][0] < 40


def test_a_part_of_conditioned_data_is_decoded():
    part = SCHEMA.select(("sex", "age", "labor"))
    model = pg.Model(pg.CliqueVector.zeros(part.domain, []), 50.0).condition({"sex": 1})
    data = model.sample(seed=0).select(("labor", "age"))
    assert list(SCHEMA.select(("age", "labor")).decode(data, seed=0)) == ["age", "labor"]
    assert set(part.decode(data, seed=0)["sex"]) == {"M"}


@pytest.mark.parametrize("hostile", [{"sex": 3}, {"sex": -1}, {"job": 5}])
def test_evidence_must_be_codes_of_the_schema(hostile):
    import dataclasses

    part = SCHEMA.select(("sex", "age"))
    data = dataclasses.replace(pg.Dataset.from_codes(np.array([[3]]), {"age": 10}), evidence=hostile)
    with pytest.raises(SchemaError):
        part.decode(data)


def test_a_schema_with_parts_to_be_bought_has_parts():
    columns = {"age": {"type": "integer", "bounds": "bought"}, "sex": {"type": "boolean"}}
    schema = pg.Schema.from_dict({"columns": columns})
    assert list(schema.select("age").bought) == ["age"]
    assert list(schema.select("sex").domain) == ["sex"]


@pytest.mark.parametrize("columns", [None, 3])
def test_a_part_is_asked_for_by_names(columns):
    with pytest.raises(ArgumentError, match="columns"):
        SCHEMA.select(columns)

"""Numbers and dates that are bins of their own, and numbers that count as the nearest listed one."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

from pgmest.errors import SchemaError
from pgmest.schema import Schema, draft


def test_a_point_is_drawn_exactly():
    schema = Schema.parse("""
columns:
  any: {type: real, min: 0, max: 100, bins: 4, points: [0, 40]}
  price: {type: real, min: 0, max: 100, bins: 4, points: [0, 100], decimals: 2}
  whole: {type: integer, min: -500, max: 499, bins: 2, points: [0]}
  day: {type: date, min: 1900-01-01, max: 2019-12-31, unit: year, width: 60, points: [1900-01-01]}
""")
    assert schema.labels("any") == ["0", "(0, 25)", "[25, 40)", "40", "(40, 50)", "[50, 75)", "[75, 100]"]
    assert schema.labels("price") == ["0", "[0.01, 25)", "[25, 50)", "[50, 75)", "[75, 100)", "100"]
    assert schema.labels("whole") == ["-500..-1", "0", "1..499"]
    assert schema.labels("day") == ["1900-01-01", "1900-01-02..1959-12-31", "1960..2019"]
    rng = np.random.default_rng(0)
    many = {"any": 40.0, "price": 0.0, "whole": 0, "day": np.datetime64("1900-01-01")}
    table = pd.DataFrame(
        {
            "any": rng.uniform(0, 100, 1000),
            "price": rng.uniform(0.01, 100, 1000).round(2),
            "whole": rng.integers(1, 500, 1000),
            "day": np.datetime64("1950-01-01") + rng.integers(0, 9999, 1000),
        }
    )
    for name, value in many.items():
        table[name] = table[name].where(rng.random(1000) < 0.3, value)
    data = schema.encode(table)
    drawn = schema.decode(data, seed=0)
    for name, value in many.items():
        assert (drawn[name] == value).sum() == (table[name] == value).sum() > 600
    lazy = schema.encode(pl.from_pandas(table).lazy())
    assert (lazy.project(("any", "price")).values == data.project(("any", "price")).values).all()


def test_a_constraint_can_name_a_point():
    schema = Schema.parse("""
columns:
  wage: {type: real, min: 0, max: 100, bins: 4, points: [0]}
  works: {type: boolean}
constraints:
  - impossible: {wage: {max: 0}, works: true}
""")
    assert schema.structural_zeros[("wage", "works")].sum() == 1


def test_points_too_close_for_bins_of_their_own_are_refused_and_not_drafted():
    """Numbers that differ by less than the least normal number have one bin, and neither would be drawn exactly."""
    for points in ("[0, 1e-310]", "[1e-310, 0]"):
        with pytest.raises(SchemaError, match="points must not be so close to another"):
            Schema.parse(f"columns: {{a: {{type: real, min: 0, max: 9, bins: 3, points: {points}}}}}")
    Schema.parse("columns: {a: {type: real, min: 0, max: 9, bins: 3, points: [0, 0, 1e-300]}}")
    amounts = np.random.default_rng(0).random(40)
    assert "points: [0]" in draft(pd.DataFrame({"a": [1e-310] * 20 + [0.0] * 26 + amounts.tolist()}))


@pytest.mark.parametrize("points", ["[200]", "[0.005]", "3", "[x]", "[.nan]"])
def test_points_that_cannot_be(points):
    with pytest.raises(SchemaError, match="column 'a': points must"):
        Schema.parse(f"columns: {{a: {{type: real, min: 0, max: 9, bins: 3, decimals: 2, points: {points}}}}}")


def test_what_is_not_listed_counts_as_the_nearest_number_or_the_first_text():
    schema = Schema.parse("""
columns:
  answer: {type: categorical, values: [9, 1, 2, 7], outside: clip}
  sex: {type: categorical, values: [F, M], outside: clip}
""")
    table = pd.DataFrame(
        {"answer": ["1", "3", "6.5", "-5", "100", "x", "4.6", None], "sex": ["M", "f", "?", "F", "", "M", None, "M"]}
    )
    expected = [1, 2, 7, 1, 9, 9, 7, 9]
    for frame in (table, pl.from_pandas(table).lazy()):
        data = schema.encode(frame)
        assert data.domain.shape == (4, 2)
        codes = [schema.labels("answer").index(str(one)) for one in expected]
        assert data.project("answer").values.tolist() == np.bincount(codes, minlength=4).tolist()
        assert data.project("sex").values.tolist() == [5, 3]
    drawn = schema.decode(schema.encode(table), seed=0)
    assert drawn["answer"].tolist() == expected
    assert schema.check(table).columns[0].other == 6

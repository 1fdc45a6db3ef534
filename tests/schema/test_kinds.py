"""The table of kinds: a new kind of column is a notation and a row, as CONTRIBUTING.md shows."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from pgmest import Schema
from pgmest.errors import SchemaError
from pgmest.schema.kinds import KINDS
from pgmest.schema.type_check import check_types

EXAMPLE = re.findall(
    r"```python\n(.*?)```", (Path(__file__).parents[2] / "CONTRIBUTING.md").read_text(encoding="utf-8"), re.DOTALL
)
QUARTERS = {"type": "quarter", "min": "2019-Q1", "max": "2024-Q4", "width": 4, "missing": True, "points": ["2020-Q2"]}


@pytest.fixture
def quarters():
    """Add the kind of the example to the table for one test."""
    block = EXAMPLE[-1]
    assert len(block.splitlines()) < 60
    exec(compile(block, "CONTRIBUTING.md", "exec"), {"__name__": __name__})
    yield
    del KINDS["quarter"]


def schema_of(**columns):
    return Schema.from_dict({"columns": columns})


@pytest.mark.usefixtures("quarters")
def test_a_kind_that_is_a_row_has_what_all_kinds_have(tmp_path):
    """Bins, points, gaps, clipping, labels, hierarchies, constraints, round trips as values and as texts, types."""
    levels = {"crisis": {"before": {"max": "2019-Q4"}, "after": {"min": "2020-Q1"}}}
    schema = Schema.from_dict(
        {
            "columns": {
                "q": {**QUARTERS, "hierarchy": levels},
                "r": {**QUARTERS, "outside": "error"},
                "sex": {"type": "boolean"},
            },
            "constraints": [{"ordered": ["q", "r"]}, {"impossible": {"q": {"min": "2023-Q1"}, "sex": True}}],
        }
    )
    table = pd.DataFrame({"q": ["2019-Q3", "1890-Q1", "2020-Q2", "2020-Q3", None, "2024-Q5"]})
    table["r"], table["sex"] = ["2024-Q4"] * 6, [False] * 6
    data = schema.encode(table)
    labels = ["2019-Q1..2019-Q4", "2020-Q1", "2020-Q2", "2020-Q3..2020-Q4", "2021-Q1..2021-Q4"]
    assert schema.column("q").labels()[:5] == labels
    assert data.column("q").tolist() == [0, 0, 2, 3, 8, 8]
    assert schema.domain.level("q@crisis").size == 3
    for like in ("pandas", "polars", "pyarrow"):
        assert schema.encode(schema.decode(data, seed=0, like=like)) == data
    made = schema.typed(table.astype({"q": "category"})).decode(data, seed=0)
    assert schema.encode(made) == data
    schema.decode(data, seed=0, written=True).to_csv(tmp_path / "made.csv", index=False)
    assert schema.encode(tmp_path / "made.csv") == data
    assert schema.structural_zeros["q", "sex"].sum() == 2


@pytest.mark.usefixtures("quarters")
def test_errors_of_a_kind_that_is_a_row_name_its_values():
    with pytest.raises(SchemaError, match="must be a quarter such as 2024-Q3, not 'Q3'"):
        schema_of(q={**QUARTERS, "min": "Q3"})
    with pytest.raises(SchemaError, match=r"quarters within 2019-Q1\.\.2024-Q4"):
        check_types(schema_of(q=QUARTERS), pd.DataFrame({"q": np.arange(3, dtype="int8")}))
    with pytest.raises(SchemaError, match="unknown key 'format'"):
        schema_of(q={**QUARTERS, "format": "%Y"})


def test_a_kind_without_a_row_is_refused():
    with pytest.raises(SchemaError, match=r"must be one of .*integer, real, date, time, duration"):
        schema_of(q=QUARTERS)

"""Groups that a constraint leaves with many missing values are named, with `null` as the remedy."""

from __future__ import annotations

import numpy as np
import pytest

import pgmest as pg
from pgmest.evaluation.reports.missing_values import gaps_in_groups, missing_section

COLUMNS = {
    "ward": {"type": "categorical", "values": ["surgery", "geriatrics", "pediatrics"], "outside": "error"},
    "age": {"type": "integer", "min": 0, "max": 99, "width": 20, "missing": True, "outside": "missing"},
}
CONSTRAINTS = [
    {"impossible": {"ward": "geriatrics", "age": {"max": 59}}},
    {"impossible": {"ward": "pediatrics", "age": {"min": 20}}},
]


def schema_of(*constraints):
    return pg.Schema.from_dict({"columns": COLUMNS, "constraints": list(constraints)})


def table(surgery, geriatrics, pediatrics):
    return pg.Factor({"ward": 3, "age": 6}, np.array([surgery, geriatrics, pediatrics], dtype=np.float64))


class Released:
    """Marginals of one table."""

    def __init__(self, counts):
        self.counts, self.domain = counts, counts.domain

    def project(self, attributes=()):
        return self.counts.project(attributes)


ORIGINAL = Released(table([200, 200, 200, 200, 180, 20], [0, 0, 0, 50, 48, 2], [99, 0, 0, 0, 0, 1]))
RELEASED = Released(table([200, 200, 200, 200, 190, 10], [0, 0, 0, 25, 20, 55], [98, 0, 0, 0, 0, 2]))


def test_the_group_with_many_missing_values_is_named():
    (found,) = gaps_in_groups(RELEASED, schema_of(*CONSTRAINTS), ORIGINAL)
    assert (found.column, found.group) == ("age", "ward = geriatrics")
    assert found.share == pytest.approx(0.55)
    assert found.original == pytest.approx(0.02)
    assert "list null in the constraint" in str(found)
    assert gaps_in_groups(ORIGINAL, schema_of(*CONSTRAINTS)) == []


def test_the_section_shows_the_original_only_to_its_owner():
    schema = schema_of(*CONSTRAINTS)
    assert "2.0%" in missing_section(RELEASED, schema, ORIGINAL)
    assert "missing in the original" not in missing_section(RELEASED, schema)
    assert missing_section(ORIGINAL, schema) == ""
    assert missing_section(RELEASED, schema_of()) == ""


def test_groups_that_have_only_missing_values_or_none_are_not_named():
    only_gap = {"impossible": {"ward": "geriatrics", "age": {"min": 0}}}
    no_gap = {"impossible": {"ward": "geriatrics", "age": [{"max": 59}, None]}}
    for constraint in (only_gap, no_gap):
        assert gaps_in_groups(RELEASED, schema_of(constraint)) == []

"""A small survey of households with persons."""

import pandas as pd
import pytest

from pgmest.schema import LinkedSchema

SURVEY = """
tables:
  households:
    key: hid
    columns:
      region: {type: categorical, values: [N, S], outside: clip}
      size: {type: count, of: persons}
  persons:
    parent: households
    key: hid
    at_most: 4
    columns:
      region: {type: categorical, values: [born here, elsewhere], outside: clip}
      role: {type: categorical, values: [head, spouse, child, lodger], outside: clip}
      age: {type: integer, min: 0, max: 99, width: 5, missing: true}
    within:
      - exactly: {role: head, count: 1}
      - at_most: {role: [spouse, lodger], count: 2}
      - older: {role: head, than: {role: child}, by: 12, column: age}
"""


@pytest.fixture
def survey():
    return LinkedSchema.parse(SURVEY)


@pytest.fixture
def frames():
    households = pd.DataFrame({"hid": [11, 12, 13], "region": ["N", "S", "N"], "size": [2, 1, 3]})
    persons = pd.DataFrame(
        {
            "age": [44, 12, 70, 31, None, 2],
            "hid": [11, 11, 12, 13, 13, 13],
            "region": ["born here", "elsewhere"] * 3,
            "role": ["head", "child", "head", "head", "child", "child"],
        }
    )
    return {"households": households, "persons": persons}

"""Schemas of every kind of column, and data over them."""

from __future__ import annotations

import datetime

import numpy as np
from hypothesis import strategies as st

from pgmest.data.dataset import Dataset
from pgmest.schema import Schema

WORDS = st.text(st.sampled_from("abcXYZ äß.,'\"#:-_0123"), min_size=1, max_size=5).filter(
    lambda text: text.strip() == text
)
LABELS = WORDS.filter(lambda word: word not in ("true", "false"))
DAYS = st.dates(datetime.date(1895, 1, 1), datetime.date(2025, 1, 1))


@st.composite
def categorical(draw):
    labels = draw(st.lists(LABELS, min_size=2, max_size=6, unique=True))
    column = {"type": "categorical", "values": labels[1:]}
    other = draw(st.booleans())
    return column | ({"other": labels[0]} if other else {"outside": "error"})


@st.composite
def codebook(draw):
    numbers = draw(st.lists(st.integers(-99, 99), min_size=2, max_size=6, unique=True))
    rest = draw(st.sampled_from(({"other": numbers[0]}, {"outside": "clip"})))
    return {"type": "categorical", "values": numbers[1:], **rest}


@st.composite
def integer(draw):
    low = draw(st.integers(-(10**6), 10**6))
    high = low + draw(st.integers(0, 300))
    bins = (
        {"width": draw(st.integers(1, 50))} if draw(st.booleans()) else {"bins": draw(st.integers(1, high - low + 1))}
    )
    points = draw(st.lists(st.integers(low, high), max_size=2))
    return {"type": "integer", "min": low, "max": high, **bins, "points": points}


@st.composite
def real(draw):
    low = draw(st.floats(-1e6, 1e6))
    span = draw(st.floats(1e-3, 1e6))
    high = low + span
    kind = draw(st.sampled_from(("bins", "width", "edges")))
    if kind == "bins":
        points = draw(st.lists(st.sampled_from((low, high, low + span / 7, low + span / 2)), max_size=3))
        return {"type": "real", "min": low, "max": high, "bins": draw(st.integers(1, 30)), "points": points}
    if kind == "width":
        return {"type": "real", "min": low, "max": high, "width": span / draw(st.floats(0.5, 30))}
    return {"type": "real", "edges": [low, low + span / 3, high]}


@st.composite
def price(draw):
    low = draw(st.integers(-1000, 1000)) / 10
    bins = draw(st.sampled_from((1, 3, 11, 33)))  # edges are multiples of the last decimal
    points = [low + draw(st.integers(0, 99)) / 10 for _ in range(draw(st.integers(0, 2)))]
    points = [round(point, 1) for point in points if low <= round(point, 1) <= low + 9.9]
    return {"type": "real", "min": low, "max": low + 9.9, "bins": bins, "decimals": 1, "points": points}


@st.composite
def date(draw):
    low, high = sorted((draw(DAYS), draw(DAYS)))
    return {
        "type": "date",
        "min": str(low),
        "max": str(high),
        "unit": draw(st.sampled_from(("day", "month", "year"))),
        "width": draw(st.integers(5, 40)),
        "points": [str(draw(st.dates(low, high)))],
    }


@st.composite
def column(draw):
    kinds = (categorical(), codebook(), integer(), real(), price(), date(), st.just({"type": "boolean"}))
    described = draw(st.one_of(*kinds))
    missing = draw(st.sampled_from((False, True, ["N/A", "?"])))
    return described if missing is False else described | {"missing": missing}


@st.composite
def schemas(draw):
    columns = draw(st.lists(column(), min_size=1, max_size=4))
    return Schema.from_dict({"columns": {f"c {i}": described for i, described in enumerate(columns)}})


@st.composite
def schemas_with_data(draw):
    schema = draw(schemas())
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    codes = [rng.integers(0, size, 60) for size in schema.domain.shape]
    return schema, Dataset.from_codes(codes, schema.domain)

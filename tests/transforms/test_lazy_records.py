"""Recoding records that an engine holds: it computes the codes, and counts what the recoded records count."""

from __future__ import annotations

import numpy as np
import pytest

import pgmest as pg
from pgmest.data.lazy_dataset import LazyDataset

pl = pytest.importorskip("polars")
DOMAIN = pg.Domain({"a": 4, "b": 3, "c": 2})
DATA = pg.Dataset.from_codes(np.random.default_rng(0).integers(0, DOMAIN.shape, size=(200, 3)), DOMAIN)


def lazy_frame(engine: str):
    frame = DATA.to_frame("polars")
    return frame.lazy() if engine == "polars" else pytest.importorskip("duckdb").from_arrow(frame.to_arrow())


@pytest.mark.parametrize("engine", ["polars", "duckdb"])
@pytest.mark.parametrize(
    "transform",
    [
        pg.transforms.bucketize(DOMAIN, {"a": [0, 1]}),
        pg.transforms.merge(DOMAIN, ("c", "a"), "both"),
        pg.transforms.fill(DOMAIN, "c", ("b",), [0, 1, 1]),
    ],
    ids=["bucketize", "merge", "fill"],
)
def test_the_engine_counts_what_the_recoded_records_count(engine, transform):
    expected = transform.encode(DATA)
    found = transform.encode(pg.Dataset.from_frame(lazy_frame(engine), DOMAIN))
    assert isinstance(found, LazyDataset)
    assert found.domain == expected.domain
    for clique in (found.domain.attributes, found.domain.attributes[:1], ()):
        assert np.array_equal(found.project(clique).values, expected.project(clique).values)


def test_weights_are_kept():
    frame = DATA.to_frame("polars").with_columns(weight=pl.Series(np.arange(200.0)))
    found = pg.transforms.bucketize(DOMAIN, {"a": 2}).encode(pg.Dataset.from_frame(frame.lazy(), DOMAIN, "weight"))
    assert float(found.project(())) == 19900.0


def test_levels_are_kept():
    domain = DOMAIN.with_hierarchies(pg.Hierarchy("a", {"half": [0, 0, 1, 1]}))
    transform = pg.transforms.bucketize(domain, {"a": [0, 2]})
    found = transform.encode(pg.Dataset.from_frame(lazy_frame("polars"), domain))
    assert np.array_equal(found.project("a@half").values, DATA.project("a").values.reshape(2, 2).sum(1))

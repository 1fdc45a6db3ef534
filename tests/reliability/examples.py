"""One small file of every kind that pgmest reads, and its reader."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import pgmest as pg
from pgmest import queries
from pgmest.data.linked import LinkedTable
from pgmest.inference.support.support import Support
from pgmest.measurements.files import load_measurements, save_measurements
from pgmest.mechanisms.linked.family_model import FamilyModel
from pgmest.mechanisms.linked.lengths import MeasuredLengths
from pgmest.mechanisms.linked.linked_model import LinkedModel
from pgmest.mechanisms.linked.numbers import MeasuredNumbers
from pgmest.models.support import SupportModel
from pgmest.privacy import Curator, Rho
from pgmest.schema import Schema
from tests.mechanisms.linked.examples import random_families

DOMAIN = pg.Domain({"age": 5, "sex": 2, "city, state": 3})
DATA = pg.Dataset.from_codes(np.random.default_rng(0).integers(0, DOMAIN.shape, (40, 3)), DOMAIN)
SCHEMA: dict[str, Any] = {
    "columns": {
        "sex": {"type": "categorical", "values": ["F", "M"], "other": "X"},
        "age": {"type": "integer", "min": 0, "max": 99, "width": 10, "missing": True},
        "income": {"type": "real", "min": 0, "max": 1e6, "bins": 7, "outside": "clip"},
        "weight": {"type": "real", "edges": [0, 1, 2.5]},
        "born": {"type": "date", "min": "1900-01-01", "max": "2020-12-31", "unit": "year"},
        "member": {"type": "boolean"},
    },
    "constraints": [{"impossible": {"sex": "F", "member": True}}],
}
TOML = """
[columns.sex]
type = "categorical"
values = ["F", "M"]
other = "X"
[columns.born]
type = "date"
min = 1900-01-01
max = 2020-12-31
"""


def measurements() -> list[pg.LinearMeasurement]:
    """One of each form of query."""
    age = DATA.project("age").values
    return [
        pg.LinearMeasurement(age, "age", 2.0),
        pg.LinearMeasurement(DATA.project(("age", "sex")).values, ("age", "sex"), np.full(10, 2.0), noise="laplace"),
        pg.LinearMeasurement(np.cumsum(age), "age", 2.0, queries.prefix(5)),
        pg.LinearMeasurement(np.ones(2), "age", 2.0, queries.moments(5, 2)),
        pg.LinearMeasurement(np.ones(2), "age", 2.0, queries.compress(5, [0, 0, 1, 1, 1])),
        pg.LinearMeasurement(np.ones(1), "age", 2.0, queries.subset(5, [0, 2])),
        pg.LinearMeasurement(np.ones(4), ("age", "sex"), 2.0, pg.Kron({"sex": np.eye(2), "age": np.ones((2, 5))})),
        pg.LinearMeasurement([40.3], (), 1.0),
    ]


def potentials() -> pg.CliqueVector:
    return pg.CliqueVector.zeros(DOMAIN, [("age",), ("age", "sex")])


def use_model(path: Path) -> None:
    """Read a model, and do with it what people do."""
    model = pg.load(path)
    repr(model)
    model.project(model.domain.attributes[:1])
    model.sample(3, seed=0)


def linked_model() -> LinkedModel:
    """Two tables with noisy answers of each kind."""
    families = random_families(np.random.default_rng(0), 30, 3)
    layout, codes = families.layout, np.arange(4)
    lengths = [
        (("persons.a",), (codes,)),
        (("households.d", "persons.a"), (np.arange(3), np.array([0, 0, 1, 2]))),
        (("persons.a", "another of persons.a"), (codes, codes)),
    ]
    measured = tuple(
        MeasuredLengths(clique, groups, families.tables(clique, groups, 1.5)[0], 3.0, False, 1.5)
        for clique, groups in lengths
    )
    above = (
        pg.LinearMeasurement(families.above(("households.r",)), "households.r", 2.0),
        pg.LinearMeasurement(np.ones(1), layout.number, 2.0, queries.subset(4, [0, 2])),
    )
    numbers = (MeasuredNumbers("persons.b", families.numbers("persons.b", 1.0)[0], 2.0, 1.0),)
    tables = {
        "households": LinkedTable(pg.Dataset.from_codes(families.parents[:, :-1], layout.parent)),
        "persons": LinkedTable(
            pg.Dataset.from_codes(families.children, layout.child), "households", families.owners, 3
        ),
    }
    run = FamilyModel(families, measured, above, 31.0, 4.0, numbers)
    return LinkedModel(pg.LinkedDataset(tables), {"persons": run}, about={"source": "made"})


def use_linked(path: Path) -> None:
    """Read linked tables, and ask what people ask."""
    linked = pg.load(path)
    repr(linked)
    for name in linked.counted:
        linked.project(linked.domain_of(name).attributes[:1], table=name)
    linked.sample(3, seed=0)
    linked.interval((), table="persons")
    linked.unit_interval(np.ones(len(linked.model)))


def run_with_journal(path: Path) -> list[Any]:
    """Return a curator's answers to each form of question, with a journal."""
    curator = Curator(DATA, Rho(1.0), backend="simulation", seed=1, journal=path)
    try:
        return [
            curator.measure("age", Rho(0.2)).values.tolist(),
            curator.select(["x", "y"], lambda data: [1, 2], 1.0, Rho(0.1)),
            curator.measure("sex", Rho(0.2), [[0.3, 1]]).values.tolist(),
            curator.release(lambda data, generator: [1.5], Rho(0.1), label="own"),
        ]
    finally:
        curator.close()


READERS: dict[str, Callable[[Path], Any]] = {
    "domain.json": pg.Domain.load,
    "measurements.json": lambda path: load_measurements(path, DOMAIN),
    "measurements.npz": lambda path: load_measurements(path, DOMAIN),
    "model.npz": use_model,
    "support.npz": use_model,
    "linked.npz": use_linked,
    "schema.yaml": Schema.load,
    "schema.json": Schema.load,
    "schema.toml": Schema.load,
    "table.csv": lambda path: pg.Dataset.load(path, DOMAIN),
    "table.csv.gz": lambda path: pg.Dataset.load(path, DOMAIN),
    "table.parquet": lambda path: pg.Dataset.load(path, DOMAIN),
    "run.journal": run_with_journal,
}


def write_examples(folder: Path) -> None:
    """A file for each of `READERS`."""
    import yaml

    DOMAIN.save(folder / "domain.json")
    save_measurements(folder / "measurements.json", measurements())
    save_measurements(folder / "measurements.npz", measurements())
    pg.Model(potentials(), 40.0).save(folder / "model.npz")
    SupportModel(Support(DATA), potentials(), 40.0).save(folder / "support.npz")
    linked_model().save(folder / "linked.npz")
    (folder / "schema.yaml").write_text(yaml.safe_dump(SCHEMA))
    (folder / "schema.json").write_text(json.dumps(SCHEMA))
    (folder / "schema.toml").write_text(TOML)
    for ending in ("csv", "csv.gz", "parquet"):
        DATA.save(folder / f"table.{ending}")
    run_with_journal(folder / "run.journal")

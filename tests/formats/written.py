"""The files of one release: every kind that it writes, and what each of them says.

`python -m tests.formats.written tests/formats/v1_1_0` makes the folder of a release, once, when a format's version or
members change. A folder is never changed afterwards.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import pgmest as pg
from pgmest.data.linked import LinkedTable
from pgmest.mechanisms.linked import LinkedLAMP, LinkedModel, LinkedResult
from pgmest.mechanisms.privbayes.bayesian_network import BayesianNetwork
from pgmest.mechanisms.priview.view import ViewModel
from pgmest.privacy.dataset_ledger import DatasetLedger

DOMAIN = pg.Domain({"age": 4, "sex": 2, "job": 3})
AGE_AND_SEX = DOMAIN.project(("age", "sex"))
PAIRS = (("age", "sex"), ("job",), ("age", "job"))
SCHEMA_YAML = """columns:
  age: {type: integer, min: 0, max: 79, bins: 4}
  sex: {type: categorical, values: [F, M], outside: error}
  day: {type: date, min: 2020-01-01, max: 2020-12-31, unit: month, missing: true}
"""
SCHEMA_TOML = """[columns.age]
type = "integer"
min = 0
max = 79
bins = 4

[columns.sex]
type = "categorical"
values = ["F", "M"]
outside = "error"
"""


def records() -> pg.Dataset:
    rng = np.random.default_rng(0)
    age = rng.integers(4, size=90)
    return pg.Dataset.from_codes([age, rng.integers(2, size=90), (age + rng.integers(2, size=90)) % 3], DOMAIN)


def measurements() -> list[pg.LinearMeasurement]:
    """Marginals, a matrix, a product; Gaussian and Laplace noise; what version 1 of their file holds."""
    prefixes = pg.Kron({"age": pg.queries.prefix(4), "sex": pg.queries.identity(2)})
    rows = np.array([[1.0, 0, 0, 0], [0, 1, 1, 0]])
    data = records()
    return [
        pg.LinearMeasurement(data.project(("age", "sex")).values + 0.25, ("age", "sex"), 2.0),
        pg.LinearMeasurement([30.0, 35.5, 24.0], "job", [1.0, 2.0, 3.0], noise="laplace"),
        pg.LinearMeasurement([10.0, 40.0], "age", 1.5, rows),
        pg.LinearMeasurement(prefixes.apply(data.project(("sex", "age"))) - 0.5, ("sex", "age"), 2.0, prefixes),
    ]


def published() -> list[pg.LinearMeasurement]:
    """Return the measurements that only version 2 holds: answers that are known to lie between two ends."""
    rounded = pg.LinearMeasurement.rounded([30, 35, 25], "job", base=5)
    return [pg.LinearMeasurement.exact([45.0, 45.0], "sex"), rounded]


def network() -> BayesianNetwork:
    tables = {"age": ("age",), "sex": ("age", "sex"), "job": ("age", "job")}
    marginals = {name: records().project(clique) for name, clique in tables.items()}
    return BayesianNetwork.of(DOMAIN, {"age": (), "sex": ("age",), "job": ("age",)}, marginals, 90.0)


def described() -> Any:
    """A model with its schema and the promise of privacy, as `synthesize` writes it."""
    import pandas as pd

    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.integers(0, 80, 90), "sex": rng.choice(["F", "M"], 90), "day": "2020-05-01"})
    return pg.Synthesizer("independent", epsilon=1.0, delta=1e-6).fit(frame, pg.Schema.parse(SCHEMA_YAML)).model_


def fit_of(method: str, **options: Any) -> Any:
    kind = getattr(pg.mechanisms, method)
    return (
        kind(epsilon=50.0, delta=0, backend="simulation", **options).fit(records(), PAIRS, seed=0, progress=False).model
    )


MODELS: dict[str, Callable[[], Any]] = {
    "model": lambda: pg.Model(pg.estimate(measurements(), DOMAIN).potentials, 90.0),
    "measured": lambda: pg.estimate(measurements(), DOMAIN, total=90.0),
    "described": described,
    "support": lambda: pg.estimate(measurements(), DOMAIN, prior=pg.priors.Support(records())),
    "approximate": lambda: pg.estimate(measurements(), DOMAIN, total=90.0, oracle="convex"),
    "network": network,
    "views": lambda: ViewModel(DOMAIN, tuple(records().project(clique) for clique in PAIRS), 90.0),
    "least_squares": lambda: fit_of("HDMM", estimator="original"),
    "weighted_records": lambda: fit_of("LAMP"),
}


def linked() -> LinkedResult:
    """Households and persons with the noisy answers about them, as `synthesize` writes linked tables."""
    rng = np.random.default_rng(0)
    owners = np.repeat(np.arange(30), rng.integers(0, 4, 30))
    households = LinkedTable(pg.Dataset.from_codes([rng.integers(3, size=30)], {"region": 3}))
    persons = pg.Dataset.from_codes([rng.integers(4, size=len(owners)), rng.integers(2, size=len(owners))], AGE_AND_SEX)
    tables = {"households": households, "persons": LinkedTable(persons, "households", owners, 3)}
    mechanism = LinkedLAMP(epsilon=50.0, backend="simulation")
    return mechanism.fit(pg.LinkedDataset(tables), seed=0, progress=False)


def answers_of(model: Any) -> dict[str, Any]:
    """The total and two marginals: of the first attribute, and of the first and the last."""
    first, last = model.domain.attributes[0], model.domain.attributes[-1]
    tables = {",".join(clique): model.project(clique).values.tolist() for clique in ((first,), (first, last))}
    return {"total": model.total, **tables}


def linked_answers(model: LinkedModel) -> dict[str, Any]:
    """The total and two marginals of what the model counts: rows of each table, and pairs of persons."""
    return {name: answers_of(model.model_of(name)) for name in model.counted}


def write(folder: Path) -> None:
    """Every file, and `answers.json` with what they must say when they are read."""
    folder.mkdir(parents=True)
    said: dict[str, Any] = {"models": {}}
    for name, make in MODELS.items():
        model = make()
        model.save(folder / f"{name}.npz")
        said["models"][name] = {"kind": type(model).__name__, **answers_of(model)}
    families = linked()
    families.save(folder / "linked.npz")
    said["linked"] = linked_answers(families)
    for ending in ("json", "npz"):
        pg.save_measurements(folder / f"measurements.{ending}", measurements())
        pg.save_measurements(folder / f"published.{ending}", published())
    said["measurements"] = [measurement.values.tolist() for measurement in measurements()]
    said["published"] = [np.asarray(m.values).tolist() for m in published()]
    (folder / "schema.yaml").write_text(SCHEMA_YAML, encoding="utf-8")
    (folder / "schema.toml").write_text(SCHEMA_TOML, encoding="utf-8")
    said["schema"] = dict(pg.Schema.load(folder / "schema.yaml").domain)
    DOMAIN.save(folder / "domain.json")
    said["paid"] = write_paid(folder)
    (folder / "answers.json").write_text(json.dumps(said, indent=1) + "\n", encoding="utf-8")


def write_paid(folder: Path) -> dict[str, Any]:
    """A ledger of a dataset with one run in it, and the journal of that run; what the run answered."""
    ledger = DatasetLedger.create(folder / "people.ledger", pg.privacy.Rho(1.0), table="people")
    try:
        return answers_of(paid_run(folder / "run.journal", ledger).model)
    finally:
        ledger.close()


def paid_run(journal: Path, ledger: Any) -> Any:
    mechanism = pg.mechanisms.Independent(rho=0.25)
    return mechanism.fit(records(), seed=0, progress=False, checkpoint=journal, ledger=ledger)


if __name__ == "__main__":
    write(Path(sys.argv[1]))

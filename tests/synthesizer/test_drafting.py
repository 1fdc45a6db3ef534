"""A schema with columns to be bought: bought with a share of the run's budget, kept with the model."""

import numpy as np
import pandas as pd
import pytest

import pgmest as pg
from pgmest.errors import ArgumentError, SchemaError
from pgmest.privacy import DatasetLedger, Rho
from tests.privacy.amounts import rho

RNG = np.random.default_rng(0)
TABLE = pd.DataFrame(
    {
        "age": RNG.integers(18, 95, 3000),
        "sex": RNG.choice(["F", "M"], 3000),
        "job": RNG.choice(["cook", "nurse", "smith"], 3000),
    }
)
BOUNDS = {
    "columns": {
        "age": {"type": "integer", "bounds": "bought", "width": 5},
        "sex": {"type": "categorical", "values": ["F", "M"], "other": "x"},
    }
}
LABELS = {"columns": {**BOUNDS["columns"], "job": {"type": "categorical", "values": "bought"}}}


def test_the_schema_is_bought_first_and_kept(tmp_path):
    synthesizer = pg.Synthesizer("mst", epsilon=2.0, delta=1e-9, backend="simulation")
    synthesizer.fit(TABLE, LABELS, [("age", "job")], seed=0, buy_share=0.2)
    ages = synthesizer.schema_.description["columns"]["age"]
    assert ages["min"] <= 30
    assert ages["max"] >= 80
    assert synthesizer.schema_.labels("job") == ["cook", "nurse", "smith", "other"]
    ledger = synthesizer.ledger_
    bought = [entry for entry in ledger if entry.label.startswith(("age: ", "job: "))]
    assert bought == list(ledger)[: len(bought)]
    assert sum(rho(entry.cost) for entry in bought) <= 0.2 * rho(ledger.budget) * (1 + 1e-9)
    assert ledger.remaining / ledger.budget < 1e-6
    assert ledger.threshold_delta == pytest.approx(0.5e-9)
    assert pg.privacy.Rho.of(2.0, 0.5e-9) == ledger.budget
    assert "and a delta of 5e-10 on thresholds" in synthesizer.privacy_["promise"]
    assert synthesizer.privacy_["delta"] == 1e-9
    assert set(synthesizer.result_.details["bought"]) == {"age", "job"}
    synthesizer.save(tmp_path / "model.npz")
    assert pg.Synthesizer.load(tmp_path / "model.npz").schema_.domain == synthesizer.schema_.domain
    assert set(synthesizer.sample(50, seed=0)["job"]) <= {"cook", "nurse", "smith", "other"}


def test_what_cannot_be_bought_is_refused_unpaid(tmp_path):
    ledger = DatasetLedger.create(tmp_path / "t.ledger", Rho(1.0))
    by_rho = pg.Synthesizer("mst", rho=0.1)
    for attempt, error, words in (
        (lambda: by_rho.fit(TABLE, LABELS, ledger=ledger), SchemaError, "takes a delta"),
        (lambda: by_rho.fit(TABLE, BOUNDS, buy_share=1.5, ledger=ledger), ArgumentError, "buy_share"),
        (lambda: by_rho.fit(TABLE, pg.Schema.from_dict(BOUNDS).stand_in(), buy_share=0.1), ArgumentError, "buy_share"),
        (
            lambda: by_rho.fit(
                TABLE, BOUNDS, pg.workloads.Workload([pg.workloads.Item("age", pg.queries.prefix(20))]), ledger=ledger
            ),
            (ArgumentError, pg.errors.QueryError),
            "age",
        ),
        (lambda: by_rho.fit(TABLE.drop(columns="age"), BOUNDS, ledger=ledger), pg.errors.DataError, "age"),
        (
            lambda: pg.Synthesizer("mst", epsilon=1.0, delta=1e-9).fit(TABLE, LABELS, ledger=ledger),
            pg.errors.BudgetExceeded,
            "a delta of 5e-10 for values that nobody listed",
        ),
    ):
        with pytest.raises(error, match=words):
            attempt()
    assert not ledger.committed
    ledger.close()


def test_bounds_are_charged_to_the_ledger_of_the_dataset_and_a_checkpoint_pays_once(tmp_path):
    ledger = DatasetLedger.create(tmp_path / "t.ledger", Rho(1.0))

    def run():
        synthesizer = pg.Synthesizer("independent", rho=0.1)
        return synthesizer.fit(TABLE, BOUNDS, seed=0, checkpoint=tmp_path / "run", ledger=ledger)

    one, two = run(), run()
    assert one.schema_.description == two.schema_.description
    assert [m.values.tolist() for m in one.result_.measurements] == [
        m.values.tolist() for m in two.result_.measurements
    ]
    assert ledger.committed <= Rho(0.1)
    assert ledger.runs[0].charges[0].label == "age: middle"
    ledger.close()

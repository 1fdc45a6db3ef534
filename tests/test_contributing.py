"""CONTRIBUTING.md: its examples of a mechanism, a query and a loss work; tests/schema/test_kinds.py has the kind."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import pgmest as pg
from pgmest.measurements.files import query_format
from pgmest.privacy import Rho, audit
from pgmest.privacy.audit import likelihood_ratio
from pgmest.simulation import simulate_measurements

TEXT = (Path(__file__).resolve().parent.parent / "CONTRIBUTING.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^```python\n(.*?)^```$", TEXT, re.DOTALL | re.MULTILINE)


@pytest.fixture
def names(monkeypatch):
    """Return what the examples define; the rows that they add to tables are gone after the test."""
    monkeypatch.setattr(query_format, "KINDS", dict(query_format.KINDS))
    defined: dict = {"__name__": __name__}
    for example in EXAMPLES[:3]:
        exec(compile(example, "an example of CONTRIBUTING.md", "exec"), defined)
    return defined


@pytest.fixture(scope="module")
def data():
    return pg.datasets.load("census").select(["age", "sex", "income>50K"])


def test_each_example_is_short():
    assert len(EXAMPLES) == 4
    assert max(len(example.splitlines()) for example in EXAMPLES) < 60


def test_the_mechanism_spends_its_budget_and_measures_the_dependent_pair(names, data):
    result = names["OnePair"](epsilon=1.0, backend="simulation").fit(data, seed=0, progress=False)
    assert result.ledger.remaining / result.ledger.budget < 1e-9
    assert result.measurements[-1].clique == ("age", "income>50K")


def test_the_mechanism_costs_no_more_than_it_claims(names):
    domain = pg.Domain({"a": 2, "b": 3, "c": 2})
    records = np.array([[0, 0, 0]] * 6 + [[1, 1, 0]] * 5 + [[0, 2, 1]] * 4)
    tables = [pg.Dataset.from_codes(codes, domain) for codes in (records, np.vstack([records, [1, 0, 1]]))]
    mechanism = names["OnePair"](rho=0.5, backend="simulation")
    statistic = likelihood_ratio(*tables)

    def run(table, seed):
        return mechanism.fit(table, seed=seed, progress=False)

    report = audit(run, *tables, statistic=statistic, trials=40, threshold=0.0, seed=1)
    assert not report.contradicts(Rho(0.5))


def test_the_query_answers_and_its_measurements_can_be_saved(names, tmp_path):
    query = names["window"](5, 3)
    assert query.apply([1.0, 2.0, 4.0, 8.0, 16.0]).tolist() == [7.0, 14.0, 28.0]
    path = tmp_path / "windows.json"
    pg.save_measurements(path, [pg.LinearMeasurement([7.0, 14.0, 28.0], "age", 1.0, query)])
    (loaded,) = pg.load_measurements(path, pg.Domain({"age": 5}))
    assert (loaded.query.matrix() == query.matrix()).all()


def test_the_loss_is_minimized_and_its_gradient_is_that_of_its_value(names, data):
    noisy = simulate_measurements(data, [("age", "income>50K"), ("age", "sex")], stddev=20.0, seed=0)
    model = pg.estimate(noisy, data.domain, total=data.records, loss=names["LogCosh"])
    assert model.report is not None
    assert model.report.converged
    loss = names["LogCosh"](noisy, data.domain)
    marginals = {clique: model.project(clique) for clique in loss.cliques}
    value, gradient = loss.value_and_gradient(marginals)
    step = 1e-4
    clique = loss.cliques[0]
    moved = marginals[clique].values.copy()
    moved[3, 1] += step
    larger, _ = loss.value_and_gradient({**marginals, clique: pg.Factor(data.domain.project(clique), moved)})
    assert np.isclose((larger - value) / step, gradient[clique][3, 1], rtol=1e-3, atol=1e-6)

"""PMW-Pub: multiplicative weights and estimation on public records."""

from typing import cast

import numpy as np
import pytest

import pgmest as pg
from pgmest.errors import ArgumentError, DataError, DomainError
from pgmest.evaluation import workload_error
from pgmest.mechanisms import Independent, PMWPub
from pgmest.mechanisms.pmw_pub.estimators import ReplayedPublicWeights
from pgmest.priors import Support
from pgmest.privacy import Curator, Replace
from tests.mechanisms.auditing import DATA, DOMAIN, NEIGHBOUR, audit_mechanism
from tests.privacy.interrupted import interrupted_after

CENSUS = pg.datasets.load("census").select(["age", "sex", "race", "relationship", "income>50K"])
PAIRS = pg.workloads.all_kway(CENSUS.domain, 2)
PUBLIC, PRIVATE = CENSUS.take(slice(0, 2000)), CENSUS.take(slice(2000, None))
SKEWED = PUBLIC.take((PUBLIC.column("age") > 20) | (np.arange(2000) % 4 == 0))


def fitted(seed=0, workload=None, **parameters):
    given = {"public": SKEWED, "epsilon": 0.5, "delta": 0, "backend": "simulation", **parameters}
    return PMWPub(**given).fit(PRIVATE, workload, seed=seed, progress=False)


@pytest.mark.parametrize("budget", [{"epsilon": 0.5}, {"epsilon": 0.5, "delta": 1e-9}], ids=str)
@pytest.mark.parametrize("estimator", ["original", "pgm"])
def test_it_spends_its_budget_and_beats_the_public_data_and_independence(estimator, budget):
    result = fitted(estimator=estimator, **budget)
    assert result.ledger.remaining / result.ledger.budget < 1e-9
    mine = workload_error(PRIVATE, result, PAIRS)
    baseline = Independent(backend="simulation", **budget).fit(PRIVATE, seed=0)
    assert mine < workload_error(PRIVATE, baseline, PAIRS)
    scaled = pg.Dataset.from_codes(SKEWED.codes, SKEWED.domain, np.full(len(SKEWED), len(PRIVATE) / len(SKEWED)))
    assert mine < 0.9 * workload_error(PRIVATE, scaled, PAIRS)


def test_the_model_has_public_records_only():
    result = fitted()
    public = {tuple(row) for row in SKEWED.codes}
    assert all(tuple(row) in public for row in result.sample(500, seed=0).codes)
    unseen = SKEWED.project("age").values == 0
    assert unseen.any()
    assert result.project("age").values[unseen].sum() == 0


def test_multiplicative_weights_reach_a_measured_marginal():
    class Answers:
        """A curator's measurements."""

        measurements = (
            pg.LinearMeasurement([100.0], (), 0.1),
            pg.LinearMeasurement([[70.0, 10.0], [15.0, 5.0]], ("a", "c"), 0.1),
            pg.LinearMeasurement([20.0, 60.0], ("b",), 0.1, query=[[1.0, 0.0, 0.0], [1.0, 1.0, 0.0]]),
        )
        fixed_total = None

    everything = pg.Dataset.from_codes(np.argwhere(np.ones(DOMAIN.shape)), DOMAIN)
    estimator = ReplayedPublicWeights(Support(everything), cast(Curator, Answers()), replays=300)
    assert estimator.model.project(("a", "c")).values == pytest.approx(np.array([[70, 10], [15, 5]]), abs=0.1)
    assert estimator.model.project(("b",)).values == pytest.approx([20, 40, 40], abs=0.1)


def test_the_weights_of_public_records_count():
    weighted = pg.Dataset.from_codes(PUBLIC.codes, PUBLIC.domain, np.where(PUBLIC.column("sex") == 0, 1.0, 0.0))
    assert fitted(public=weighted).project("sex").values[1] == 0


def test_ranges_and_other_queries_can_be_asked():
    workload = pg.workloads.prefixes(CENSUS.domain, [("age", "sex")], numeric=["age"])
    for estimator in ("original", "pgm"):
        result = fitted(workload=workload, rounds=2, estimator=estimator)
        assert result.details["chosen"] == [("age", "sex")] * 2


def test_where_the_number_of_records_is_public_it_is_used():
    assert fitted(neighbors=Replace()).model.total == PRIVATE.records


def test_the_same_seed_gives_the_same_run_and_a_checkpoint_pays_once(tmp_path):
    path, first = tmp_path / "run", fitted(seed=2)
    mechanism = PMWPub(public=SKEWED, epsilon=0.5, delta=0, backend="simulation")
    mechanism.fit(PRIVATE, seed=2, progress=False, checkpoint=path)
    lines = path.read_text().splitlines(keepends=True)
    interrupted_after(path, 5)
    resumed = mechanism.fit(PRIVATE, seed=2, progress=False, checkpoint=path)
    assert path.read_text().splitlines(keepends=True)[:-1] == lines[:-1]  # the last line says when the run ended
    assert resumed.details == first.details
    assert np.array_equal(resumed.model.weights, first.model.weights)


@pytest.mark.parametrize("estimator", ["original", "pgm"])
def test_the_audit_does_not_contradict_the_claim(estimator):
    mechanism = PMWPub(public=NEIGHBOUR, rho=0.5, backend="simulation", estimator=estimator)
    assert not audit_mechanism(mechanism).contradicts(mechanism.budget())


def test_an_interrupted_run_keeps_what_was_paid():
    def stop(curator):
        if len(curator.ledger) == 5:
            raise KeyboardInterrupt

    mechanism = PMWPub(public=SKEWED, epsilon=0.5, delta=0, backend="simulation")
    result = mechanism.fit(PRIVATE, seed=0, progress=stop)
    assert result.interrupted
    assert 0 < len(result.measurements) < 5
    assert type(result.model).__name__ == "SupportModel"


def test_errors_come_before_anything_is_spent():
    charged = []
    with pytest.raises(DomainError, match="select"):
        PMWPub(public=DATA, epsilon=1.0, delta=0).fit(PRIVATE, progress=charged.append)
    assert not charged
    empty = pg.Dataset.from_codes(DATA.codes, DOMAIN, np.zeros(DATA.records))
    with pytest.raises(DataError, match="support is empty"):
        PMWPub(public=empty, epsilon=1.0, delta=0)
    for parameters in ({"estimator": "mw"}, {"replays": 0}, {"rounds": 0}, {"measuring_share": 1.0}, {"public": None}):
        with pytest.raises(ArgumentError, match=next(iter(parameters)) if "public" not in parameters else "Dataset"):
            PMWPub(**{"public": DATA, "epsilon": 1.0, "delta": 0, **parameters})


def test_answers_with_noise_far_larger_than_the_counts_leave_public_records_their_weights():
    """The largest factors may be those of cells without public records, beside which all others are 0."""
    few = pg.Dataset.from_codes(PUBLIC.codes[:40], PUBLIC.domain)
    for seed in range(4):
        mechanism = PMWPub(public=few, epsilon=1e-3, delta=1e-9, backend="simulation")
        model = mechanism.fit(PUBLIC.take(slice(0, 50)), seed=seed, progress=False).model
        assert np.isfinite(model.project("age").values).all()
        assert model.project("age").values.sum() == pytest.approx(model.total)

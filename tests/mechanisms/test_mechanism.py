"""The common part of all mechanisms: budgets, results, interruptions, checkpoints, and the baseline."""

import contextlib
import pickle
import signal
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest

import pgmest as pg
from pgmest.errors import ArgumentError, JournalError, QueryError, UnknownAttributeError
from pgmest.mechanisms import Independent
from pgmest.mechanisms.mechanism import Mechanism, cliques_of
from pgmest.mechanisms.result import Outcome
from pgmest.privacy import GDP, Epsilon, Replace, Rho
from pgmest.privacy.noise import Simulation
from tests.mechanisms.auditing import DATA, DOMAIN, audit_mechanism, audit_statistics


@dataclass(frozen=True, kw_only=True)
class Rounds(Mechanism):
    """Measures what it selects, round by round; stops or is interrupted where it is told."""

    rounds: int = 3
    interrupt: int | None = None
    definition: ClassVar[str] = "zcdp"

    def run(self, curator, workload, rng):
        chosen = []
        for number, part in enumerate(curator.budget.split(self.rounds)):
            if number == self.interrupt:
                raise KeyboardInterrupt
            select, measure = part.split(2)
            candidates = [cliques_of(workload, curator.domain)[i] for i in rng.permutation(3)]
            chosen.append(curator.select(candidates, lambda data: [1, 2, 3], 1.0, select))
            curator.measure(chosen[-1], measure)
        model = pg.estimate(curator.measurements, curator.domain, total=curator.public_total)
        return Outcome(model, {"chosen": chosen})


@dataclass(frozen=True, kw_only=True)
class Pure(Independent):
    """Takes epsilon alone."""

    definition: ClassVar[str] = "pure"


@pytest.mark.parametrize(
    ("kind", "stated", "budget"),
    [
        (Pure, {"epsilon": 0.5}, Epsilon(0.5)),
        (Rounds, {"rho": 0.5}, Rho(0.5)),
        (Rounds, {"epsilon": 1.0, "delta": 1e-6}, Rho.of(1.0, 1e-6)),
        (Rounds, {"epsilon": 1.0}, Rho.of(1.0, 1e-9)),
        (Independent, {"epsilon": 0.5, "delta": 0}, Epsilon(0.5)),
        (Independent, {"epsilon": 1}, GDP.of(1.0, 1e-9)),
        (Independent, {"rho": 1}, Rho(1.0)),
    ],
)
def test_how_a_budget_is_stated(kind, stated, budget):
    assert kind(**stated).budget() == budget


@pytest.mark.parametrize(
    ("kind", "stated", "message"),
    [
        (Pure, {}, "needs a privacy budget: give epsilon="),
        (Pure, {"rho": 1.0}, "give epsilon= instead of rho="),
        (Pure, {"epsilon": 1.0, "delta": 1e-6}, "leave delta= out"),
        (Rounds, {}, "give epsilon= or rho="),
        (Rounds, {"epsilon": 1.0, "delta": 0}, "got delta=0, but spends its budget under zCDP"),
        (Rounds, {"delta": 1e-9}, "needs a privacy budget"),
        (Rounds, {"rho": 1.0, "epsilon": 1.0}, "state the budget once"),
        (Rounds, {"rho": 1.0, "delta": 1e-6}, "state the budget once"),
        (Independent, {"rho": 0.0}, "rho=0.0 is not valid"),
        (Independent, {"epsilon": 0.0}, "epsilon=0.0 is not valid"),
        (Independent, {"epsilon": 1.0, "delta": 1.5}, "delta=1.5 is not valid"),
        (Independent, {"epsilon": float("nan")}, "epsilon=nan is not valid"),
    ],
)
def test_budgets_that_cannot_be_are_refused_at_once(kind, stated, message):
    with pytest.raises(ArgumentError, match=message):
        kind(**stated)


def test_a_result_answers_like_its_model():
    result = Rounds(rho=2.0, backend="simulation").fit(DATA, seed=0)
    assert np.array_equal(result.project("a").values, result.model.project(("a",)).values)
    query = pg.Kron({"b": pg.queries.prefix(3)})
    assert np.array_equal(result.answer(query).values, result.model.answer(query).values)
    assert result.sample(7, seed=0).records == 7
    assert result.sample(seed=0) == result.sample(seed=0)
    assert (len(result.measurements), len(result.details["chosen"]), len(result.ledger)) == (3, 3, 6)
    assert str(result).startswith("Rounds: 3 measurements\n")
    assert "Rho(2) of Rho(2) spent on 6 requests" in str(result)
    assert result.domain == DOMAIN
    kept = pickle.loads(pickle.dumps(result))
    assert str(kept.ledger) == str(result.ledger)
    assert (kept.owner_only.seconds, result.owner_only.seconds > 0) == (None, True)
    with pytest.raises(UnknownAttributeError):
        result.project("z")


def test_a_model_that_only_projects_and_samples_will_do():
    class Records:
        """A mechanism's own kind of model."""

        def project(self, attributes):
            return DATA.project(attributes)

        def sample(self, n=None, *, seed=None):
            return DATA.take(range(n or 3))

    result = replace(Rounds(rho=1.0, backend="simulation").fit(DATA, seed=0), model=Records())
    assert result.answer(pg.Kron({"b": pg.queries.prefix(3)})).values.tolist() == [6, 11, 15]
    assert result.sample(2).records == 2
    with pytest.raises(QueryError, match=r"answers a pg\.Kron only"):
        result.answer(np.eye(3))  # pyright: ignore[reportArgumentType]


def test_seeds_repeat_simulations():
    mechanism = Rounds(rho=0.5, backend="simulation")
    one, two, other = (mechanism.fit(DATA, seed=seed) for seed in (1, 1, 2))
    assert np.array_equal(one.project("a").values, two.project("a").values)
    assert not np.array_equal(one.project("a").values, other.project("a").values)


def test_an_interrupted_run_gives_the_estimate_of_what_was_paid():
    result = Rounds(rho=2.0, interrupt=2, backend="simulation").fit(DATA, seed=0)
    assert result.interrupted
    assert "interrupted" in str(result)
    assert len(result.measurements) == 2
    assert result.ledger.remaining / result.ledger.budget == pytest.approx(1 / 3)
    with pytest.raises(KeyboardInterrupt):
        Rounds(rho=2.0, interrupt=0, backend="simulation").fit(DATA, seed=0)


def test_ctrl_c_during_an_estimate_stops_the_next_round():
    class Swallows(Rounds):
        """Stands for an estimate between rounds, which returns early at Ctrl-C."""

        def run(self, curator, workload, rng):
            for _ in range(3):
                curator.measure("a", curator.budget / 3)
                with contextlib.suppress(KeyboardInterrupt):
                    signal.raise_signal(signal.SIGINT)

    result = Swallows(rho=1.0, backend="simulation").fit(DATA, seed=0)
    assert result.interrupted
    assert len(result.ledger) == 1
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize("backend", ["opendp", "simulation"])
def test_a_checkpoint_goes_on_where_a_run_stopped(tmp_path, backend):
    path = tmp_path / "run"
    first = Rounds(rho=2.0, interrupt=2, backend=backend).fit(DATA, seed=3, checkpoint=path)
    whole = Rounds(rho=2.0, backend=backend).fit(DATA, seed=3, checkpoint=path)
    again = Rounds(rho=2.0, backend=backend).fit(DATA, seed=3, checkpoint=path)
    for one, two in zip(first.measurements, whole.measurements, strict=False):
        assert np.array_equal(one.values, two.values)
    assert (len(whole.measurements), whole.interrupted) == (3, False)
    assert whole.ledger.total <= Rho(2.0)
    assert np.array_equal(again.project("b").values, whole.project("b").values)
    if backend == "simulation":
        assert np.array_equal(
            Rounds(rho=2.0, backend=backend).fit(DATA, seed=3).project("b").values, whole.project("b").values
        )


def test_a_checkpoint_belongs_to_one_run(tmp_path):
    Rounds(rho=2.0, backend="simulation").fit(DATA, seed=3, checkpoint=tmp_path / "run")
    with pytest.raises(JournalError, match="another run: its budget"):
        Rounds(rho=1.0, backend="simulation").fit(DATA, seed=3, checkpoint=tmp_path / "run")
    with pytest.raises(JournalError, match="but this run asks"):
        Rounds(rho=2.0, rounds=2, backend="simulation").fit(DATA, seed=3, checkpoint=tmp_path / "run")
    with pytest.raises(ArgumentError, match="seed=None"):
        Rounds(rho=2.0).fit(DATA, checkpoint=tmp_path / "run")


def test_progress_is_a_function_of_the_curator():
    shares = []
    mechanism = Rounds(rho=2.0, backend="simulation")
    mechanism.fit(DATA, seed=0, progress=lambda curator: shares.append(curator.spent / curator.budget))
    assert shares == pytest.approx([i / 6 for i in range(1, 7)])
    assert mechanism.fit(DATA, seed=0, progress=True).owner_only.seconds > 0


def test_the_cliques_of_a_workload():
    assert cliques_of(None, DOMAIN) == [("a", "b"), ("a", "c"), ("b", "c")]
    assert cliques_of(None, pg.Domain({"a": 2})) == [("a",)]
    assert cliques_of(["a", ("b", "a"), ("a",)], DOMAIN) == [("a",), ("b", "a")]
    with pytest.raises(ArgumentError, match="workload"):
        cliques_of([], DOMAIN)
    with pytest.raises(UnknownAttributeError):
        cliques_of([("z",)], DOMAIN)


# -- the baseline ---------------------------------------------------------------------------------------------------


def test_independent_models_each_attribute_alone():
    result = Independent(rho=1e6, neighbors=Replace(), backend="simulation").fit(DATA, seed=0)
    for name in DOMAIN:
        assert result.project(name).values == pytest.approx(DATA.project(name).values, abs=1e-2)
    independent = np.outer(DATA.project("a").values, DATA.project("b").values) / 15
    assert result.project(("a", "b")).values == pytest.approx(independent, abs=1e-2)
    measured = Independent(rho=1.0).fit(DATA, [("a", "c")], seed=0).measurements
    assert [one.clique for one in measured] == [("a",), ("b",), ("c",)]  # b, too, which the workload does not name


@pytest.mark.parametrize("budget", [{"epsilon": 1.0, "delta": 0}, {"rho": 0.5}], ids=str)
def test_independent_costs_no_more_than_it_claims(budget):
    mechanism = Independent(**budget, backend="simulation")
    for report in audit_statistics(mechanism):
        assert not report.contradicts(mechanism.budget())


class MeasuresOnly(Independent):
    """The baseline without its estimate, which takes most of the time."""

    def run(self, curator, workload, rng):
        return curator.measure_all(["a", "b"], curator.budget)


def test_a_mechanism_with_half_the_noise_is_caught(monkeypatch):
    add_noise = Simulation.add_noise

    def halved(self, answers, noise, request):
        return add_noise(self, answers, replace(noise, scale=noise.scale / 2), request)

    monkeypatch.setattr(Simulation, "add_noise", halved)
    mechanism = MeasuresOnly(rho=0.5, backend="simulation")
    assert audit_mechanism(mechanism, trials=300).contradicts(mechanism.budget())

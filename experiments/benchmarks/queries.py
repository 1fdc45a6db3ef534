"""Queries of a calibrated model: factored queries and unmeasured marginals, against mbi and against materializing.

Each case runs in a process of its own, in which its subjects take turns. pgmest's model is calibrated before; what a
subject keeps between calls (contraction paths, tables) it may use, and its first call is reported apart.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

import pgmest as pg
from experiments import problems
from experiments.benchmarks.timing import alternate, timed
from experiments.benchmarks.worker import WorkerFailed, apart
from pgmest.models.exact import Model
from pgmest.tables.clique_vector import CliqueVector
from pgmest.tables.domain import Domain

TOTAL = 10_000.0
OWN, ALONE, MATERIALIZED = "pgmest", "pgmest, one at a time", "pgmest, marginal first"
Subject = Callable[[], list[np.ndarray]]


@dataclass(frozen=True)
class Case:
    """A model, what is asked of it, how else pgmest can find it out, and which functions of mbi can."""

    title: str
    potentials: Callable[[], CliqueVector]
    own: Callable[[Model], dict[str, Subject]]
    peers: tuple[str, ...]
    queries: Callable[[Domain], list[Any]]


# -- the joint CDF of four attributes of 100 values --------------------------------------------------------------------


def ring() -> CliqueVector:
    """Eight attributes of 100 values; neighbors share a table, so that the four asked about are not adjacent."""
    names = [f"x{i}" for i in range(8)]
    return CliqueVector.random(dict.fromkeys(names, 100), itertools.pairwise(names), seed=0)


def joint_cdf(domain: Domain) -> list[dict[str, np.ndarray]]:
    """Prefix sums of four of the attributes at every tenth value: 10 x 10 x 10 x 10 answers about 10^8 cells."""
    deciles = (np.arange(100) < 10 * np.arange(1, 11)[:, None]).astype(float)
    return [dict.fromkeys(("x0", "x2", "x5", "x7"), deciles)]


def _cdf(model: Model) -> dict[str, Subject]:
    kron = [pg.Kron(factors) for factors in joint_cdf(model.domain)]

    def materialized() -> list[np.ndarray]:
        (query,) = kron
        return [query.apply(model.project(query.attributes).values)]

    return {OWN: lambda: [answer.values for answer in model.answer(kron)], MATERIALIZED: materialized}


# -- a workload of thousands -------------------------------------------------------------------------------------------


def workload(domain: Domain, queries: int = 3_000) -> list[dict[str, np.ndarray]]:
    """Random ranges, with random signs, on random triples out of thirty: one answer each."""
    rng = np.random.default_rng(0)
    triples = list(itertools.combinations(domain, 3))
    chosen = [triples[position] for position in rng.choice(len(triples), 30, replace=False)]
    found = []
    for number in range(queries):
        factors = {}
        for name in chosen[number % len(chosen)]:
            low, high = np.sort(rng.integers(0, domain[name], 2))
            row = np.zeros((1, domain[name]))
            row[0, low : high + 1] = rng.choice([-1.0, 1.0])
            factors[name] = row
        found.append(factors)
    return found


def _workload(model: Model) -> dict[str, Subject]:
    krons = [pg.Kron(factors) for factors in workload(model.domain)]
    return {
        OWN: lambda: [answer.values for answer in model.answer(krons)],
        ALONE: lambda: [model.answer(kron).values for kron in krons],
        MATERIALIZED: lambda: [kron.apply(model.project(kron.attributes).values) for kron in krons],
    }


# -- unmeasured marginals ----------------------------------------------------------------------------------------------


def far_pair(domain: Domain) -> list[tuple[str, ...]]:
    """Two attributes that are far apart in the tree of pairs."""
    return [("fnlwgt", "workclass")]


def far_pairs(domain: Domain) -> list[tuple[str, ...]]:
    """All pairs."""
    return list(itertools.combinations(domain, 2))


def _marginals(queries: Callable[[Domain], list[tuple[str, ...]]]) -> Callable[[Model], dict[str, Subject]]:
    def subjects(model: Model) -> dict[str, Subject]:
        cliques = queries(model.domain)
        alone: Subject = lambda: [model.project(clique).values for clique in cliques]  # noqa: E731
        if len(cliques) == 1:
            return {OWN: alone}
        return {OWN: lambda: [table.values for table in model.project_many(cliques)], ALONE: alone}

    return subjects


def _adult(make: Callable[[], problems.NamedProblem]) -> Callable[[], CliqueVector]:
    return lambda: make().potentials()


CASES = {
    "joint-cdf": Case(
        "joint CDF of 4 of 8 attributes of 100 values in a chain, at deciles",
        ring,
        _cdf,
        ("variable_elimination of the query",),
        joint_cdf,
    ),
    "workload": Case(
        "3,000 products of ranges on 30 triples of Adult",
        _adult(problems.adult14_pairs),
        _workload,
        (),
        workload,
    ),
    "one-marginal": Case(
        "an unmeasured pair of Adult",
        _adult(problems.adult14_pairs),
        _marginals(far_pair),
        ("variable_elimination",),
        far_pair,
    ),
    "all-pairs": Case(
        "all 91 pairs of Adult",
        _adult(problems.adult14_pairs),
        _marginals(far_pairs),
        ("bulk_variable_elimination",),
        far_pairs,
    ),
}


def run_case(name: str, quick: bool) -> dict[str, Any]:
    """pgmest alone, and against each of mbi's functions."""
    seconds = 0.5 if quick else 5.0
    result = {"problem": name, **apart(measure, name, None, seconds), "errors": {}}
    for function in CASES[name].peers:
        try:
            result["subjects"] |= apart(measure, name, function, seconds)["subjects"]
        except WorkerFailed as error:
            result["errors"][function] = str(error)
    return result


def measure(name: str, function: str | None, seconds: float) -> dict[str, Any]:
    """In a process of its own: pgmest's ways, or its first one and a function of mbi."""
    case = CASES[name]
    model = Model(case.potentials(), TOTAL)
    _ = model.calibrated
    subjects = case.own(model)
    if function is not None:
        from experiments.benchmarks import peers

        queries = case.queries(model.domain)
        subjects = {OWN: subjects[OWN], f"mbi {function}": peers.QUERIES[function](model.potentials, queries, TOTAL)}
    firsts, expected = {}, None
    differences: dict[str, float | None] = {}
    for label, call in subjects.items():
        firsts[label], answers = timed(call)
        expected = answers if expected is None else expected
        differences[label] = _difference(expected, answers)
    timings = alternate(subjects, seconds, least_rounds=2)
    kept = {
        label: {
            "first_seconds": firsts[label],
            "median_seconds": timings[label].median,
            "ratio": timings[label].ratio(timings[OWN]),
            "difference": differences[label],
        }
        for label in subjects
        if function is None or label != OWN
    }
    return {"title": case.title, "subjects": kept}


def _difference(expected: list[np.ndarray], answers: list[np.ndarray]) -> float | None:
    """The largest difference of two lists of answers, as a fraction of the total; None where one is NaN."""
    pairs = zip(expected, answers, strict=True)
    largest = max(float(np.abs(left - right).max()) for left, right in pairs) / TOTAL
    return None if np.isnan(largest) else largest


def rows(result: Mapping[str, Any]) -> list[dict[str, Any]]:
    """One row per subject of a case."""
    return [{"problem": result["problem"], "subject": label, **kept} for label, kept in result["subjects"].items()]

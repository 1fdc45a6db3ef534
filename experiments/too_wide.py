"""Estimate where no junction tree fits: 60 random three-way marginals of loans, estimated over the local polytope.

`python -m experiments.too_wide` measures triples of at most 100,000 cells each with noise, asks for the exact model,
which is refused, and estimates with `oracle="convex"`. Errors are total-variation distances to the truth: of the
measured triples, and of random pairs that no triple holds. It writes experiments/results/too_wide.md.

mbi 2.0.0 estimates the same triples, at one noise level, by mirror descent with its convex message passing and a few
fixed step sizes: it has no line search. Its compilation, minutes for each step size, is not counted.
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np

import pgmest as pg
from experiments.benchmarks.machine import describe, in_words, load_average
from experiments.benchmarks.report import markdown, number
from experiments.data import load
from pgmest._base.files import write_atomically
from pgmest.errors import ModelTooLarge
from pgmest.models.region import ApproximateModel
from pgmest.simulation import simulate_measurements
from pgmest.tables.distances import total_variation
from pgmest.tables.domain import Clique, Domain

MARGINALS, LARGEST, PAIRS, SEED = 60, 100_000, 40, 0
STDDEVS = (2.0, 10.0, 50.0)
PEER_NOISE, PEER_STEPS, PEER_ITERATIONS = 10.0, (3.0, 10.0, 30.0), 200
OUT = Path(__file__).parent / "results" / "too_wide.md"


def random_triples(domain: Domain) -> list[Clique]:
    """Triples of attributes with at most LARGEST cells, drawn without replacement."""
    triples = [triple for triple in itertools.combinations(domain, 3) if domain.size(triple) <= LARGEST]
    drawn = np.random.default_rng(SEED).choice(len(triples), MARGINALS, replace=False)
    return [triples[position] for position in drawn]


def unmeasured_pairs(triples: Sequence[Clique]) -> list[Clique]:
    """Random pairs of measured attributes that are in no triple together."""
    together = {pair for triple in triples for pair in itertools.combinations(sorted(triple), 2)}
    pairs = [pair for pair in itertools.combinations(sorted(set(itertools.chain(*triples))), 2) if pair not in together]
    return [pairs[position] for position in np.random.default_rng(SEED).choice(len(pairs), PAIRS, replace=False)]


def mean_error(data: pg.Dataset, cliques: Iterable[Clique], estimate: Callable[[Clique], pg.Factor]) -> float:
    """The mean total-variation distance of estimated marginals to the true ones."""
    return float(np.mean([total_variation(data.project(clique), estimate(clique)) for clique in cliques]))


def independent(model: ApproximateModel) -> Callable[[Clique], pg.Factor]:
    """The marginals of independent attributes, each with the shares the model gives it."""

    def product(clique: Clique) -> pg.Factor:
        tables = [model.project((name,)).normalize().values for name in clique]
        values = np.array(1.0)
        for table in tables:
            values = np.multiply.outer(values, table)
        return pg.Factor(model.domain.project(clique), values * model.total)

    return product


def as_factor(measurement: pg.LinearMeasurement, domain: Domain) -> pg.Factor:
    """The noisy table of a whole marginal."""
    own = domain.project(measurement.clique)
    return pg.Factor(own, measurement.values.reshape(own.shape))


def compare(data: pg.Dataset, triples: list[Clique], pairs: list[Clique], stddev: float, peer: bool) -> list[list[str]]:
    """The rows of one noise level: estimator, seconds, disagreement, and the two errors."""
    measurements = simulate_measurements(data, triples, stddev, SEED)
    noisy = {m.clique: as_factor(m, data.domain) for m in measurements}
    model = pg.estimate(measurements, data.domain, oracle="convex")
    start = time.perf_counter()
    tree = model.tree_model()
    tree_seconds = time.perf_counter() - start
    start = time.perf_counter()
    local = mean_error(data, pairs, model.project)
    pair_seconds = (time.perf_counter() - start) / len(pairs)
    product = independent(model)

    def row(name: str, seconds: float | None, apart: float | None, measured: float, others: float | None) -> list[str]:
        return [f"{stddev:g}", name, number(seconds), number(apart, 2), number(measured), number(others)]

    rows = [
        row("noisy answers themselves", None, None, mean_error(data, triples, noisy.__getitem__), None),
        row("independent attributes", None, None, mean_error(data, triples, product), mean_error(data, pairs, product)),
        row(
            f"convex; a pair {pair_seconds:.2g} s",
            model.report.seconds,
            model.inconsistency,
            mean_error(data, triples, model.project),
            local,
        ),
        row(
            "its tree model",
            tree_seconds,
            0.0,
            mean_error(data, triples, tree.project),
            mean_error(data, pairs, tree.project),
        ),
    ]
    if peer and stddev == PEER_NOISE:
        from experiments.benchmarks.peers import approximate_marginals

        for step in PEER_STEPS:
            seconds, tables = approximate_marginals(measurements, data.domain, model.total, step, PEER_ITERATIONS)
            rows.append(row(f"mbi, step {step:g}", seconds, None, mean_error(data, triples, tables.__getitem__), None))
    return rows


def refusal(measurements: Sequence[pg.LinearMeasurement], domain: Domain) -> str:
    """Return the error message of exact estimation."""
    try:
        pg.estimate(measurements, domain)
    except ModelTooLarge as error:
        return str(error)
    raise AssertionError("exact estimation did not refuse")


def main() -> None:
    """Measure at each noise level and write the table."""
    parser = argparse.ArgumentParser(prog="python -m experiments.too_wide")
    parser.add_argument("--no-peer", action="store_true", help="without mbi")
    options = parser.parse_args()
    data, busy = load("loans"), load_average()
    triples = random_triples(data.domain)
    pairs = unmeasured_pairs(triples)
    said = refusal(simulate_measurements(data, triples, 10.0, SEED), data.domain)
    rows = [row for stddev in STDDEVS for row in compare(data, triples, pairs, stddev, not options.no_peer)]
    columns = ["noise", "estimate", "seconds", "disagreement", "error, measured", "error, other pairs"]
    cells = sum(map(data.domain.size, triples))
    text = "\n\n".join(
        [
            "# Too wide for a junction tree: 60 random three-way marginals of loans",
            "Made by `python -m experiments.too_wide`; not edited. "
            f"{data.records:,} records, {len(data.domain)} attributes, {MARGINALS} triples of at most {LARGEST:,} "
            f"cells ({cells:,} in all), {PAIRS} pairs in no triple. Errors: mean total variation from the truth. "
            f"Measured on {in_words(describe())}; load before it {busy:g} processes.",
            "mbi: mirror descent with its convex message passing, "
            f"{PEER_ITERATIONS} iterations at fixed steps, in units of noise variance over total; its compilation, "
            "minutes for each, is not counted. Disagreement: the largest L1 distance of two tables on what they share.",
            "Exact estimation says:",
            f"```\n{said}\n```",
            markdown(columns, rows),
        ]
    )
    write_atomically(OUT, text + "\n")
    print(text)


if __name__ == "__main__":
    main()

"""`python -m experiments.make_census`: make the table that comes with pgmest, pgmest/data/census.csv.gz.

The real table adult14 (see `experiments.data`) is measured with noise, a model is estimated from the measurements, and
as many records as the real table has are drawn from it. A note of all that is written beside the records.
"""

from __future__ import annotations

import itertools
import math
import statistics
from importlib.metadata import version
from pathlib import Path

import pgmest as pg
from experiments.data import load
from pgmest._base.files import write_atomically
from pgmest.simulation import simulate_measurements
from pgmest.solvers.progress import progress_bar
from pgmest.solvers.report import EstimationReport
from pgmest.tables.distances import total_variation
from pgmest.tables.domain import Clique

FOLDER = Path(__file__).resolve().parents[1] / "pgmest" / "data"
STDDEV = 5.0
SEED = 20240
MAX_ITERATIONS = 20_000
CLIQUES: tuple[Clique, ...] = (
    ("marital-status", "relationship", "sex"),
    ("marital-status", "relationship", "income>50K"),
    ("age", "marital-status", "relationship"),
    ("age", "relationship", "income>50K"),
    ("age", "education-num", "income>50K"),
    ("age", "occupation", "income>50K"),
    ("education-num", "occupation", "income>50K"),
    ("occupation", "sex", "income>50K"),
    ("workclass", "education-num", "occupation"),
    ("workclass", "occupation", "income>50K"),
    ("age", "workclass"),
    ("occupation", "sex", "hours-per-week"),
    ("age", "sex", "hours-per-week"),
    ("hours-per-week", "income>50K"),
    ("relationship", "capital-gain", "income>50K"),
    ("education-num", "capital-gain", "income>50K"),
    ("relationship", "capital-loss", "income>50K"),
    ("education-num", "capital-loss"),
    ("race", "native-country"),
    ("education-num", "native-country"),
    ("occupation", "native-country"),
    ("relationship", "race", "income>50K"),
    ("education-num", "race"),
    ("occupation", "race"),
    ("fnlwgt", "race"),
    ("fnlwgt", "native-country"),
)
NOTE = """\
# The census table

`census.csv.gz` holds {records:,} records with {attributes} attributes; `census-domain.json` says how many values each
attribute has. All values are codes 0..n-1. The records are **synthetic**: no row describes a person.
`pgmest.datasets.load("census")` reads them.

## How it was made

By pgmest {version} itself, with one command:

    python -m experiments.make_census

1. The source, which is not part of pgmest, is the Adult census extract (UCI Machine Learning Repository, there under
   CC BY 4.0; from the 1994 Current Population Survey), with numeric attributes in up to 100 bins.
2. {count} marginals of it were measured: the {attributes} one-way marginals and the {larger} larger ones listed below.
   Every cell got independent Gaussian noise of standard deviation {stddev:g}, drawn clique after clique from
   `numpy.random.default_rng({seed})`.
3. `pgmest.estimate(measurements, domain, total={records}, max_iterations={iterations})` gave a model whose loss of
   {loss:,.1f} is at most {gap:.1f} above the optimum.
4. `model.sample({records}, method="round", seed={seed})` drew the records. Their average total variation distance from
   the source is {one_way:.3f} on the one-way marginals and {two_way:.3f} on all {pairs} two-way marginals.

The larger marginals:

{cliques}

## What it is good for, and what not

- Good for trying pgmest, for examples, and for tests that need a table of realistic size, skew and dependence.
- Not for statements about the population behind the source: dependence beyond the marginals above is not in it.
- Not a private release. The noise is a floating-point simulation, the marginals were chosen by people who know the
  source, and the exact number of records was used. The source is public, so nothing is lost by this.
"""


def main() -> None:
    """Measure, estimate, sample; write the records, their domain and the note."""
    source = load("adult14")
    cliques = [(name,) for name in source.domain] + list(CLIQUES)
    measurements = simulate_measurements(source, cliques, STDDEV, SEED)
    with progress_bar() as callback:
        model = pg.estimate(
            measurements, source.domain, total=source.records, max_iterations=MAX_ITERATIONS, callback=callback
        )
    assert model.report is not None
    print(model.report)
    records = model.sample(source.records, method="round", seed=SEED)
    FOLDER.mkdir(exist_ok=True)
    records.save(FOLDER / "census.csv.gz")
    source.domain.save(FOLDER / "census-domain.json")
    write_atomically(FOLDER / "CENSUS.md", note(source, records, model.report))


def note(source: pg.Dataset, records: pg.Dataset, report: EstimationReport) -> str:
    """The text of CENSUS.md."""
    return NOTE.format(
        version=version("pgmest"),
        records=records.records,
        attributes=len(source.domain),
        count=len(source.domain) + len(CLIQUES),
        larger=len(CLIQUES),
        stddev=STDDEV,
        seed=SEED,
        iterations=MAX_ITERATIONS,
        loss=report.loss,
        gap=report.gap,
        one_way=average_error(source, records, 1),
        two_way=average_error(source, records, 2),
        pairs=math.comb(len(source.domain), 2),
        cliques="\n".join(f"- {', '.join(clique)}" for clique in CLIQUES),
    )


def average_error(source: pg.Dataset, records: pg.Dataset, size: int) -> float:
    """The mean total variation distance over all marginals of `size` attributes."""
    cliques = list(itertools.combinations(source.domain, size))
    return statistics.mean(map(total_variation, source.project_many(cliques), records.project_many(cliques)))


if __name__ == "__main__":
    main()

"""`python -m pgmest.cli.demo`: an embedded table is measured with noise, and synthetic records are made of the answers.

The demo writes `demo-output/synthetic.csv` and `demo-output/marginals.png` into the current folder.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import pgmest as pg
from pgmest.datasets import load
from pgmest.errors import PgmestError
from pgmest.plots import compare_marginals
from pgmest.simulation import simulate_measurements
from pgmest.solvers.progress import progress_bar
from pgmest.tables.distances import total_variation
from pgmest.tables.domain import Clique

STDDEV = 10.0
SEED = 0
OUTPUT = Path("demo-output")
MEASURED_PAIRS: tuple[Clique, ...] = (
    ("marital-status", "relationship"),
    ("workclass", "occupation"),
    ("relationship", "sex"),
    ("age", "marital-status"),
    ("education-num", "occupation"),
    ("age", "relationship"),
    ("occupation", "hours-per-week"),
    ("relationship", "income>50K"),
    ("age", "education-num"),
    ("marital-status", "sex"),
    ("marital-status", "income>50K"),
    ("race", "native-country"),
    ("capital-gain", "income>50K"),
    ("education-num", "native-country"),
    ("fnlwgt", "native-country"),
    ("relationship", "capital-gain"),
    ("workclass", "education-num"),
    ("capital-loss", "income>50K"),
    ("sex", "income>50K"),
    ("relationship", "capital-loss"),
    ("occupation", "race"),
    ("education-num", "race"),
    ("sex", "capital-gain"),
    ("sex", "capital-loss"),
)
UNMEASURED: tuple[Clique, ...] = (
    ("age", "income>50K"),
    ("education-num", "income>50K"),
    ("occupation", "income>50K"),
    ("occupation", "sex"),
    ("age", "occupation"),
    ("age", "hours-per-week"),
    ("race", "income>50K"),
    ("workclass", "sex", "income>50K"),
)
DRAWN: tuple[Clique, ...] = (
    ("age",),
    ("education-num",),
    ("hours-per-week",),
    ("occupation",),
    ("age", "marital-status"),
    ("education-num", "occupation"),
    ("age", "income>50K"),
    ("education-num", "income>50K"),
    ("age", "hours-per-week"),
    ("occupation", "sex"),
)


def main() -> int:
    """Run the demo; the exit code is 0 when done, 1 after an error."""
    started = time.perf_counter()
    try:
        run()
    except PgmestError as error:
        print(f"pgmest: error: {error}", file=sys.stderr)
        return 1
    print(f"\nDone in {time.perf_counter() - started:.1f} s.")
    return 0


def run() -> None:
    """Load the table, measure, estimate, sample, compare, and draw."""
    data = load("census")
    measured = [(name,) for name in data.domain] + list(MEASURED_PAIRS)
    heading("An embedded table of synthetic records")
    print(f"{data}: " + ", ".join(f"{name} {size}" for name, size in data.domain.items()))

    heading(f"{len(measured)} marginals measured, each cell with Gaussian noise of standard deviation {STDDEV:g}")
    measurements = simulate_measurements(data, measured, STDDEV, SEED)
    print(f"{sum(measurement.rows for measurement in measurements):,} noisy counts; the estimate uses nothing else.")

    heading("Their junction tree")
    print(pg.JunctionTree.from_cliques(data.domain, measured))

    heading("The estimate")
    with progress_bar() as callback:
        model = pg.estimate(measurements, data.domain, max_iterations=20_000, callback=callback)
    print(model.report)
    print(f"records: {model.total:,.1f} estimated, {data.records:,} true")

    synthetic = model.sample(seed=SEED)
    heading("Total variation error of each marginal (0 is perfect, 1 is all wrong)")
    for line in error_table(data, measurements, model, synthetic):
        print(line)

    OUTPUT.mkdir(exist_ok=True)
    synthetic.save(OUTPUT / "synthetic.csv")
    title = f"{len(measured)} noisy marginals of {data.records:,} records, and their estimates"
    compare_marginals(data, model, DRAWN, measured, title).savefig(OUTPUT / "marginals.png", dpi=130)
    print(f"\nWrote {OUTPUT / 'synthetic.csv'} ({synthetic.records:,} records) and {OUTPUT / 'marginals.png'}.")


def error_table(
    data: pg.Dataset, measurements: Iterable[pg.LinearMeasurement], model: pg.Model, synthetic: pg.Dataset
) -> Iterator[str]:
    """Yield a line per marginal: its cells, and the errors of its measurement, the model, and the synthetic records."""
    yield f"{'':44}{'cells':>8}{'noisy':>11}{'estimated':>11}{'synthetic':>11}"
    for measurement in measurements:
        true = data.project(measurement.clique)
        noisy = pg.Factor(true.domain, measurement.values.reshape(true.domain.shape))
        yield _errors(true, noisy, model.project(measurement.clique), synthetic.project(measurement.clique))
    yield "never measured:"
    for clique in UNMEASURED:
        yield _errors(data.project(clique), None, model.project(clique), synthetic.project(clique))


def _errors(true: pg.Factor, *estimates: pg.Factor | None) -> str:
    errors = ("-" if table is None else f"{total_variation(true, table):.4f}" for table in estimates)
    return f"{', '.join(true.domain):44}{true.values.size:>8,}" + "".join(f"{error:>11}" for error in errors)


def heading(text: str) -> None:
    """Print an underlined heading."""
    print(f"\n{text}\n{'-' * len(text)}")


if __name__ == "__main__":
    sys.exit(main())

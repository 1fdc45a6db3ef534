"""Does every solver converge, or say why not? Noise from 1 to 1000, 100 to 1e8 records, and data made to be difficult.

`python -m experiments.robustness` draws records of Adult's shape (no data needed: sizes alone), scales their marginals
to N records, adds noise, and runs every solver on each of the problems for a limited number of iterations. It writes
experiments/results/robustness.md, in about a minute, and fails where a model holds a NaN, where a loss is above that
of the uniform distribution, or where a solver that did not converge does not say so.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import pgmest as pg
from experiments.benchmarks.report import markdown
from pgmest._base.files import write_atomically
from pgmest.errors import ArgumentError
from pgmest.tables.domain import Clique

SIZES = {
    "age": 85, "workclass": 9, "fnlwgt": 100, "education-num": 16, "marital-status": 7, "occupation": 15,
    "relationship": 6, "race": 5, "sex": 2, "capital-gain": 100, "capital-loss": 100, "hours-per-week": 99,
    "native-country": 42, "income>50K": 2,
}  # fmt: skip
DOMAIN = pg.Domain(SIZES)
PAIRS: tuple[Clique, ...] = (
    ("marital-status", "relationship"), ("workclass", "occupation"), ("relationship", "sex"), ("age", "marital-status"),
    ("education-num", "occupation"), ("age", "relationship"), ("relationship", "income>50K"), ("marital-status", "sex"),
    ("race", "native-country"), ("capital-gain", "income>50K"), ("occupation", "race"), ("sex", "capital-loss"),
)  # fmt: skip
CLIQUES: tuple[Clique, ...] = (*((name,) for name in SIZES), *PAIRS)
SOLVERS = {
    "accelerated": "l2",
    "mirror_descent": "l2",
    "dual_averaging": "l2",
    "universal": "l2",
    "lbfgs": "l2",
    "ipf": "l2",
    "smoothing": "l1",
}
ITERATIONS = 5000
ROUNDS_OF_IPF = 50
OUT = Path(__file__).parent / "results" / "robustness.md"

NOTES = f"""\
Records of Adult's shape (14 attributes, 14 one-way and {len(PAIRS)} two-way marginals), scaled to N. In the table:
oracle calls until a relative gap of 1e-3 is proven, those for certificates included; or "gap" and how large it is after
{ITERATIONS:,} iterations ({ROUNDS_OF_IPF} rounds of ipf), as the report says. smoothing minimizes the L1 loss, the
others L2. ipf is for exact marginals and refuses negative answers. mirror_flow is not here, for it does not look for
the optimum. No model held a number that is not finite, no loss was above that of the uniform distribution."""


@dataclass(frozen=True)
class Setting:
    """One problem: what makes it difficult, the measurements, and the number of records."""

    name: str
    measurements: list[pg.LinearMeasurement]
    total: float


def fractions() -> dict[Clique, np.ndarray]:
    """The marginals of skewed records whose attributes depend on one hidden score."""
    generator = np.random.default_rng(0)
    score = generator.random(50_000)
    columns = [
        np.minimum((size * (0.6 * score + 0.4 * generator.random(len(score))) ** 2).astype(np.int64), size - 1)
        for size in SIZES.values()
    ]
    data = pg.Dataset.from_codes(np.stack(columns, axis=1), SIZES)
    return {clique: data.project(clique).datavector() / data.records for clique in CLIQUES}


def measured(
    marginals: dict[Clique, np.ndarray], total: float, stddev: Callable[[int], np.ndarray | float], noise: bool = True
) -> list[pg.LinearMeasurement]:
    """The marginals of `total` records with noise of the deviations that `stddev` gives for a number of cells."""
    generator = np.random.default_rng(1)
    made = []
    for clique, table in marginals.items():
        scale = stddev(len(table))
        values = table * total + noise * generator.normal(0.0, scale, len(table))
        made.append(pg.LinearMeasurement(values, clique, scale))
    return made


def settings() -> Iterator[Setting]:
    """All problems."""
    marginals = fractions()
    for total, sigma in itertools.product((1e2, 1e4, 1e6, 1e8), (1.0, 10.0, 100.0, 1000.0)):
        yield Setting(f"N {total:.0e}, sigma {sigma:g}", measured(marginals, total, lambda _, s=sigma: s), total)
    spread = np.random.default_rng(2)
    yield Setting(
        "sigma from 0.1 to 1000 between marginals",
        measured(marginals, 48842.0, lambda _: 10.0 ** spread.uniform(-1, 3)),
        48842.0,
    )
    yield Setting(
        "sigma from 0.1 to 1000 between cells",
        measured(marginals, 48842.0, lambda cells: 10.0 ** spread.uniform(-1, 3, cells)),
        48842.0,
    )
    reversed_ = {clique: table[::-1].copy() for clique, table in marginals.items()}
    both = [*measured(marginals, 1e4, lambda _: 1.0), *measured(reversed_, 1e4, lambda _: 1.0)]
    yield Setting("two answers each, the second reversed", both, 1e4)
    shuffled = {clique: spread.permutation(table) for clique, table in marginals.items()}
    yield Setting("marginals of different tables", measured(shuffled, 1e4, lambda _: 1.0), 1e4)
    zeros = {clique: np.zeros_like(table) for clique, table in marginals.items()}
    yield Setting("all answers exactly zero", measured(zeros, 1e4, lambda _: 1.0, noise=False), 1e4)
    yield Setting("all marginals zero, noise 1", measured(zeros, 1e4, lambda _: 1.0), 1e4)
    yield Setting("exact marginals", measured(marginals, 48842.0, lambda _: 1.0, noise=False), 48842.0)


def outcome(setting: Setting, method: str, loss: str) -> str:
    """The table's entry; raises AssertionError where a solver diverges or does not say what happened."""
    rounds = ROUNDS_OF_IPF if method == "ipf" else ITERATIONS
    try:
        model = pg.estimate(
            setting.measurements, DOMAIN, total=setting.total, method=method, loss=loss, max_iterations=rounds
        )
    except ArgumentError:
        return "refused"
    report = model.report
    assert report is not None, "estimate always reports"
    uniform = pg.estimate(setting.measurements, DOMAIN, total=setting.total, loss=loss, max_iterations=0).report
    assert uniform is not None, "estimate always reports"
    where = f"{method} on {setting.name}"
    assert np.isfinite(model.marginals.flat).all(), f"{where}: marginals that are not numbers"
    assert np.isfinite(report.loss), f"{where}: a loss that is not a number"
    assert report.loss <= uniform.loss * (1 + 1e-9), f"{where}: above the uniform distribution"
    assert report.converged == (not report.message), f"{where}: {report.message!r}"
    return f"{report.oracle_calls:,}" if report.converged else f"gap {report.relative_gap:.2g}"


def main() -> None:
    """Run all problems and write the table."""
    rows = []
    for setting in settings():
        rows.append([setting.name, *(outcome(setting, method, loss) for method, loss in SOLVERS.items())])
        print(*rows[-1], sep="  ", flush=True)
    text = "# Robustness of the solvers\n\nMade by `python -m experiments.robustness`; not edited.\n\n"
    text += f"{NOTES}\n\n{markdown(['problem', *SOLVERS], rows)}\n"
    OUT.parent.mkdir(exist_ok=True)
    write_atomically(OUT, text)


if __name__ == "__main__":
    main()

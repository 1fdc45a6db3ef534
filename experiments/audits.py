"""Audits of all mechanisms by the likelihood ratio of everything they ask: `python -m experiments.audits`.

Each mechanism runs many times on two neighbors made for it, without the last estimate, which is post-processing. How
well the answers tell the two apart bounds mu of Gaussian differential privacy from below; the claim is sqrt(2 rho), or
mu itself. A plot for each goes to docs/mechanisms, the table to experiments/results/audits.md.
"""

from __future__ import annotations

import argparse
import math
import time
from pathlib import Path
from typing import Any

import numpy as np

import pgmest as pg
from pgmest.mechanisms.mechanism import Mechanism
from pgmest.mechanisms.registry import named_mechanism
from pgmest.privacy import GDP, AddRemove, Epsilon, Rho, audit
from pgmest.privacy.transcript import Witness, privacy_loss

HERE = Path(__file__).resolve().parent
DOCS = HERE.parent / "docs" / "mechanisms"
DOMAIN = pg.Domain({"a": 2, "b": 2, "c": 2})
ALIKE = np.array([[0, 0, 0]] * 30 + [[1, 1, 1]] * 30)
"""All pairs depend alike, so that a choice between them is a fair coin, which one record moves as far as it can."""
ODD = (1, 1, 0)
CLAIMED = 2.0
"""mu: where an audit sees most of it."""
QUICK = {"tolerance": 0.1, "max_iterations": 20}
PARAMETERS: dict[str, dict[str, Any]] = {
    "mst": {"threshold": float("-inf"), "method": "auto"},
    "aim": {"rounds": 4, "max_iterations": 30, "method": "auto"},
    "ppsyn": {},
    "privmrf": {"method": "auto"},
    "privsyn": {"threshold": float("-inf"), "estimator": "pgm"},
    "dualquery": {"estimator": "original", "samples": 20},
    "mwem": {},
}
PURE = ("dualquery", "mwem", "privbayes")
"""Stated as epsilon where they take no rho, or to show the audit of an epsilon."""


def datasets() -> tuple[pg.Dataset, pg.Dataset]:
    """The two neighbors: one has a record more."""
    return pg.Dataset.from_codes(ALIKE, DOMAIN), pg.Dataset.from_codes(np.vstack([ALIKE, ODD]), DOMAIN)


def made(name: str, backend: str) -> Mechanism:
    """The mechanism with the budget that is claimed."""
    parameters = {**PARAMETERS.get(name, {}), "backend": backend}
    try:
        return named_mechanism(name, rho=CLAIMED**2 / 2, **parameters)
    except pg.errors.ArgumentError:
        return named_mechanism(
            name, epsilon=2 * math.log(0.5 * math.erfc(-CLAIMED / 2 / math.sqrt(2)) / 0.16), **parameters
        )


def audited(name: str, trials: int, backend: str = "simulation") -> dict[str, Any]:
    """The audit of one mechanism, and the log likelihood ratios that it is made of."""
    mechanism, (data, neighbor) = made(name, backend), datasets()
    budget = mechanism.budget()

    def run(curator: Any) -> None:
        mechanism.run(curator, None, np.random.default_rng(0))

    ratio = privacy_loss(run, data, neighbor, budget, backend=backend, neighbors=AddRemove())
    seen: dict[int, list[float]] = {id(data): [], id(neighbor): []}

    def private(records: pg.Dataset, seed: int) -> float:
        seen[id(records)].append(ratio(records, seed))
        return seen[id(records)][-1]

    start = time.perf_counter()
    report = audit(private, data, neighbor, trials=trials, confidence=0.98, threshold=0.0)
    witness = Witness(data, neighbor, budget, backend="simulation", seed=0)
    run(witness)
    return {
        "name": type(mechanism).__name__,
        "budget": budget,
        "report": report,
        "claimed": claimed_mu(budget),
        "spent": witness.loss / float(budget.exact[0]),
        "ratios": list(seen.values()),
        "seconds": time.perf_counter() - start,
    }


def claimed_mu(budget: Any) -> float | None:
    """mu of a claim: of Rho that of a Gaussian of this rho. Of an epsilon there is none."""
    if isinstance(budget, GDP):
        return budget.mu
    return math.sqrt(2 * budget.rho) if isinstance(budget, Rho) else None


def plot(found: dict[str, Any], path: Path) -> None:
    """False negatives against false positives of the best test, and the curve that the claim allows."""
    from matplotlib.figure import Figure
    from scipy.stats import norm

    here, there = (np.sort(ratios) for ratios in found["ratios"])
    thresholds = np.unique(np.concatenate([here, there]))
    positives = 1 - np.searchsorted(there, thresholds, "left") / len(there)
    negatives = np.searchsorted(here, thresholds, "left") / len(here)
    levels = np.linspace(0, 1, 400)
    figure = Figure(figsize=(4.2, 3.6), layout="constrained")
    axes = figure.add_subplot()
    if isinstance(found["budget"], Epsilon):
        factor = math.exp(found["budget"].epsilon)
        allowed = np.maximum(0, np.maximum(1 - factor * levels, (1 - levels) / factor))
        label = f"epsilon {found['budget'].epsilon:.3g} allows"
    else:
        allowed, label = norm.cdf(norm.ppf(1 - levels) - found["claimed"]), f"mu {found['claimed']:.3g} allows"
    axes.fill_between(levels, 0, allowed, alpha=0.25, color="tab:red", label="would be a breach")
    axes.plot(levels, allowed, color="tab:red", label=label)
    axes.plot(positives, negatives, color="tab:blue", label=f"seen in {len(here):,} runs each")
    axes.set(xlabel="false positives", ylabel="false negatives", title=found["name"], xlim=(0, 1), ylim=(0, 1))
    axes.legend(loc="upper right", fontsize=8)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)


def row(found: dict[str, Any]) -> str:
    """A line of the table."""
    report, claimed = found["report"], found["claimed"]
    share = "" if claimed is None else f"{report.mu / claimed:.2f}"
    stated = f"epsilon {found['budget'].epsilon:.3g}" if claimed is None else f"mu {claimed:.3g}"
    return (
        f"| {found['name']} | {stated} | {found['spent']:.2f} | {report.epsilon:.2f} of {report.most_epsilon:.1f} "
        f"| {report.mu:.2f} of {report.most_mu:.1f} | {share} | {report.trials:,} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mechanisms", nargs="*", default=None)
    parser.add_argument("--trials", type=int, default=1000)
    parser.add_argument("--backend", default="simulation", choices=("simulation", "opendp"))
    options = parser.parse_args()
    from pgmest.mechanisms.registry import mechanism_names

    table = HERE / "results" / "audits.md"
    for name in options.mechanisms or mechanism_names():
        found = audited(name, options.trials, options.backend)
        plot(found, DOCS / f"{name}.png")
        print(row(found), f"{found['seconds']:.0f} s", flush=True)
        lines = rows_of(table) | {found["name"]: row(found)}
        table.write_text("\n".join([HEAD, *(lines[key] for key in sorted(lines))]) + "\n")


def rows_of(table: Path) -> dict[str, str]:
    """The rows that are there, by mechanism."""
    texts = table.read_text().splitlines() if table.exists() else []
    rows = {text.split("|")[1].strip(): text for text in texts if text.startswith("| ")}
    return {name: text for name, text in rows.items() if name != "mechanism"}


HEAD = """\
# Audits

Made by `python -m experiments.audits`. Two tables of 60 and 61 records, three attributes of two values. "Spent" is the
share of the budget that the answers of a run cost between these two, computed (`pgmest.privacy.transcript`). The bounds
hold with confidence 0.98 (0.99 each way), from the likelihood ratio of all answers with the threshold 0; "of" is the
most that so many runs can show. The claim is rho; mu is that of a Gaussian with this rho, for comparison. Noise here
has a standard deviation of half a count, where the discrete Gaussian, which keeps the claim in rho, is told apart
better near its center than the continuous one: with one measurement of everything (PriView) up to mu 2.49. A share
above 1 is a breach for budgets in mu alone.

| mechanism | claim | spent | epsilon at least | mu at least | share of mu | runs each |
|---|---|---:|---:|---:|---:|---:|"""

if __name__ == "__main__":
    main()

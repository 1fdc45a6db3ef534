"""Audits of all mechanisms by the likelihood ratio of everything they ask: `python -m experiments.audits`.

Each mechanism runs many times on two neighbors made for it, without the last estimate, which is post-processing. How
well the answers tell the two apart bounds from below what was claimed, rho: a bound above it contradicts the claim. How
much of what there is to see the audit saw is said by mu of Gaussian differential privacy, beside that of a Gaussian of
the rho claimed. A plot for each goes to docs/mechanisms, the table to experiments/results/audits.md.
"""

from __future__ import annotations

import argparse
import math
import time
from pathlib import Path
from typing import Any

import numpy as np

import pgmest as pg
from pgmest import transforms
from pgmest.mechanisms.mechanism import Mechanism
from pgmest.mechanisms.registry import named_mechanism
from pgmest.privacy import GDP, AddRemove, Rho, audit
from pgmest.privacy.audit import _rho as rho_of_event
from pgmest.privacy.transcript import Witness, privacy_loss

HERE = Path(__file__).resolve().parent
DOCS = HERE.parent / "docs" / "mechanisms"
NAMES = {"mst": "abcde"}
"""Attributes, of two values each; "abc" by default. MST's last choices are forced: among more there are others."""
PERSON = 16
"""Records of the person that one of the two has more. The noise is then that of several counts: a discrete Gaussian of
half a count, which one record would need at this budget, is told apart better than the continuous one of its rho."""
PAIRS = 1500
"""Of records that have one value in all attributes. All pairs depend alike then, and the odd person, with one value in
half of the attributes, moves the choice between them as far as it can."""
CLAIMED = 2.0
"""mu of a Gaussian of the rho claimed: where an audit sees most of it."""
PARAMETERS: dict[str, dict[str, Any]] = {
    "mst": {"threshold": float("-inf"), "method": "auto"},
    "aim": {"rounds": 4, "max_iterations": 30, "method": "auto"},
    "ppsyn": {},
    "privmrf": {"method": "auto"},
    "privsyn": {"threshold": float("-inf"), "estimator": "pgm"},
    "dualquery": {"estimator": "original", "samples": 20},
    "mwem": {},
    "topdown": {"spine": "a"},
}
UNNAMED = ("pmwpub", "transformed")
"""Mechanisms that are made of more than numbers and texts."""


def datasets(name: str) -> tuple[pg.Dataset, pg.Dataset]:
    """The two neighbors for a mechanism: one has a person more."""
    domain = domain_of(name)
    alike = np.repeat([[0], [1]], PAIRS, axis=0).repeat(len(domain), axis=1)
    odd = [[int(2 * position <= len(domain)) for position in range(len(domain))]] * PERSON
    return pg.Dataset.from_codes(alike, domain), pg.Dataset.from_codes(np.vstack([alike, odd]), domain)


def domain_of(name: str) -> pg.Domain:
    """The attributes for a mechanism."""
    return pg.Domain(dict.fromkeys(NAMES.get(name, "abc"), 2))


def made(name: str, backend: str) -> Mechanism:
    """The mechanism with the budget that is claimed."""
    stated: dict[str, Any] = {"rho": CLAIMED**2 / 2, "backend": backend, "neighbors": AddRemove(PERSON)}
    if name == "pmwpub":
        domain = domain_of(name)
        public = pg.Dataset.from_codes(np.array(list(np.ndindex(*domain.shape))), domain)
        return pg.mechanisms.PMWPub(public=public, **stated)
    if name == "transformed":
        steps = [transforms.compress_rare]
        return pg.mechanisms.Transformed(mechanism=named_mechanism("independent", **stated), steps=steps, share=0.3)
    return named_mechanism(name, **PARAMETERS.get(name, {}), **stated)


def audited(name: str, trials: int, backend: str = "simulation") -> dict[str, Any]:
    """The audit of one mechanism, and the log likelihood ratios that it is made of."""
    mechanism, (data, neighbor) = made(name, backend), datasets(name)
    budget = mechanism.budget()

    def run(curator: Any) -> None:
        mechanism.run(curator, None, np.random.default_rng(0))

    ratio = privacy_loss(run, data, neighbor, budget, backend=backend, neighbors=mechanism.neighbors)
    seen: dict[int, list[float]] = {id(data): [], id(neighbor): []}

    def private(records: pg.Dataset, seed: int) -> float:
        seen[id(records)].append(ratio(records, seed))
        return seen[id(records)][-1]

    start = time.perf_counter()
    report = audit(private, data, neighbor, trials=trials, confidence=0.98, threshold=0.0)
    witness = Witness(data, neighbor, budget, backend="simulation", seed=0, neighbors=mechanism.neighbors)
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


def claimed_mu(budget: Rho | GDP) -> float:
    """mu of a claim: of Rho that of a Gaussian of this rho."""
    return budget.mu if isinstance(budget, GDP) else math.sqrt(2 * budget.rho)


def allowed_errors(budget: Rho | GDP, levels: np.ndarray) -> np.ndarray:
    """The fewest false negatives that a claim allows at these rates of false positives.

    Of rho those of which no event, nor its complement, has a Renyi divergence of any order above rho times the order.
    """
    from scipy.stats import norm

    if isinstance(budget, GDP):
        return norm.cdf(norm.ppf(1 - levels) - budget.mu)
    low, high = np.zeros_like(levels), 1 - levels
    for _ in range(40):
        middle = (low + high) / 2
        kept = (rho_of_event(1 - middle, levels) <= budget.rho) & (rho_of_event(1 - levels, middle) <= budget.rho)
        low, high = np.where(kept, low, middle), np.where(kept, middle, high)
    return high


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
    allowed = allowed_errors(found["budget"], levels)
    axes.fill_between(levels, 0, allowed, alpha=0.25, color="tab:red", label="would be a breach")
    axes.plot(levels, allowed, color="tab:red", label=f"{found['budget']!r} allows")
    gaussian = norm.cdf(norm.ppf(1 - levels) - found["claimed"])
    axes.plot(levels, gaussian, ":", color="gray", label="a Gaussian of it")
    axes.plot(positives, negatives, color="tab:blue", label=f"seen in {len(here):,} runs each")
    axes.set(xlabel="false positives", ylabel="false negatives", title=found["name"], xlim=(0, 1), ylim=(0, 1))
    axes.legend(loc="upper right", fontsize=8)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)


def row(found: dict[str, Any]) -> str:
    """A line of the table."""
    report, budget, claimed = found["report"], found["budget"], found["claimed"]
    return (
        f"| {found['name']} | {budget!r} | {found['spent']:.2f} "
        f"| {report.rho:.2f} of {report.most_rho:.1f} | {'YES' if report.contradicts(budget) else 'no'} "
        f"| {report.epsilon:.2f} of {report.most_epsilon:.1f} | {report.mu:.2f} of {report.most_mu:.1f} "
        f"| {report.mu / claimed:.2f} | {report.trials:,} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mechanisms", nargs="*", default=None)
    parser.add_argument("--trials", type=int, default=1000)
    parser.add_argument("--backend", default="simulation", choices=("simulation", "opendp"))
    options = parser.parse_args()
    from pgmest.mechanisms.registry import mechanism_names

    table = HERE / "results" / "audits.md"
    for name in options.mechanisms or [*mechanism_names(), *UNNAMED]:
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

Made by `python -m experiments.audits`. Two tables of 3,000 records and of one person's 16 more, three attributes of two
values, for MST five. "Spent" is the share of the budget that the answers of a run cost between these two, computed
(`pgmest.privacy.transcript`). The bounds hold with confidence 0.98 (0.99 each way), from the likelihood ratio of all
answers with the threshold 0; "of" is the most that so many runs can show.

The claim is rho, and a bound on rho above it contradicts it. One threshold shows no more than 1.14 of the rho 2 of a
Gaussian; so how well the audit sees is better told by mu: its share is of that of a Gaussian with the rho claimed, 2.
A choice of the same rho may be told apart better than a Gaussian, by up to a factor of 1.25 in mu, and still keep rho.
Of DualQuery's draws the account takes the range by which log probabilities move; only a few cells move here, which
tells little. PrivBayes' scores move less between these two than between others.

| mechanism | claim | spent | rho at least | contradicted | epsilon at least | mu at least | share of mu | runs each |
|---|---|---:|---:|---|---:|---:|---:|---:|"""

if __name__ == "__main__":
    main()

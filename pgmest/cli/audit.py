"""`pgmest audit`: a lower bound of the privacy loss of a mechanism, compared with its claim."""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from pgmest.cli.budget import mechanism_of, mechanism_options
from pgmest.cli.command import Add, Command, count, show
from pgmest.errors import ArgumentError, PgmestError
from pgmest.tables.domain import Domain

if TYPE_CHECKING:
    from pgmest.data.dataset import Dataset
    from pgmest.mechanisms.mechanism import Mechanism
    from pgmest.privacy import AuditReport, Budget

DETAILS = """\
examples:
  pgmest audit --mechanism mst
  pgmest audit --mechanism mwem --epsilon 4 --trials 2000 --json
  pgmest audit --mechanism independent --rho 2 --trials 1000 --exact-noise

The mechanism runs many times on a small table, and on the same table with one more record, which no other resembles.
The likelihood ratio of all its answers shows how well they distinguish the two tables. This gives a lower bound of the
privacy loss, with the confidence given. A bound above the claim proves that the claim is false; the exit code is then
1. A bound below the claim proves nothing, but shows which part of the claim can be observed. More trials can show more:
the audit prints the largest bound that this number of trials can show, and refuses a number that could not contradict
the claim. The default budget is epsilon 8; with --delta 0 it is epsilon 1, which takes more trials to contradict.

The audit first computes the privacy loss of each answer of one run between the two tables; it must not exceed the
charge. The noise is simulated; --exact-noise audits the secure noise itself, which no seed repeats.
"""

DOMAIN = Domain({"a": 2, "b": 3, "c": 2})
RECORDS = [(0, 0, 0)] * 6 + [(1, 1, 0)] * 5 + [(0, 2, 1)] * 4
OUTLIER = (1, 0, 1)
EPSILON, PURE_EPSILON = 8.0, 1.0
ROUNDING = 1e-9


def _options(add: Add) -> None:
    mechanism_options(add)
    add("--trials", type=count, default=100, metavar="N", help="runs on each of the two tables (default: %(default)s)")
    add("--confidence", type=float, default=0.99, metavar="X", help="confidence of the bound (default: %(default)s)")
    add("--seed", type=count, default=0, metavar="N", help="the same seed gives the same bound (default: 0)")
    add("--exact-noise", action="store_true", help="audit the secure noise, not its simulation; no seed repeats it")
    add("--json", action="store_true", help="print JSON")


def _run(options: argparse.Namespace) -> None:
    from tqdm import tqdm

    from pgmest.privacy import Epsilon, audit
    from pgmest.privacy.audit import least_trials

    mechanism = _mechanism(options)
    data, neighbor = _tables(mechanism)
    claim = mechanism.budget()
    threshold = None if isinstance(claim, Epsilon) else 0.0  # for rho and mu, a fixed threshold of the likelihood ratio
    needed = least_trials(claim, options.confidence, threshold=threshold is not None)
    if options.trials < needed:
        raise ArgumentError.of("--trials", options.trials, f"at least {needed}, since fewer cannot contradict {claim}")
    computed = _computed(mechanism, data, neighbor)
    audited = {"trials": options.trials, "confidence": options.confidence, "seed": options.seed, "claim": claim}
    with tqdm(total=2 * options.trials, desc="auditing", unit=" runs", disable=None) as bar:
        private = _private(mechanism, data, neighbor, bar)
        report = audit(private, data, neighbor, threshold=threshold, **audited)
    _show(options, claim, report, computed)
    if computed > 1 + ROUNDING or report.contradicts(claim):
        raise PgmestError(f"the audit contradicts the claim of {options.mechanism}.")


def _mechanism(options: argparse.Namespace) -> Mechanism:
    """Return the mechanism asked for, by default with a budget that can be audited."""
    if options.epsilon is None and options.rho is None:
        options.epsilon = EPSILON if options.delta else PURE_EPSILON
    return mechanism_of(options, simulation=not options.exact_noise)


def _tables(mechanism: Mechanism) -> tuple[Dataset, Dataset]:
    import pgmest as pg

    extra = [OUTLIER] * mechanism.neighbors.records
    data, neighbor = (pg.Dataset.from_codes(np.array(rows), DOMAIN) for rows in (RECORDS, [*RECORDS, *extra]))
    return data, neighbor


def _computed(mechanism: Mechanism, data: Dataset, neighbor: Dataset) -> float:
    """Return the largest privacy loss of an answer between the tables, as a share of its charge."""
    from pgmest.privacy.transcript import Witness

    options = {"neighbors": mechanism.neighbors, "backend": mechanism.backend, "seed": 0}
    witness = Witness(data, neighbor, mechanism.budget(), **options)
    mechanism.run(witness, None, np.random.default_rng(0))
    shares = [answer.loss / float(answer.cost.exact[0]) if answer.cost else math.inf for answer in witness.answers]
    return max((share for share in shares if not math.isnan(share)), default=0.0)


def _private(mechanism: Mechanism, data: Dataset, neighbor: Dataset, bar: Any) -> Callable[[Dataset, int], float]:
    """Return a function that runs the mechanism and returns the log likelihood ratio of its answers."""
    from pgmest.privacy.transcript import privacy_loss

    def run(curator: Any) -> None:
        bar.update()
        mechanism.run(curator, None, np.random.default_rng(bar.n))

    options = {"neighbors": mechanism.neighbors, "backend": mechanism.backend}
    return privacy_loss(run, data, neighbor, mechanism.budget(), **options)


def _show(options: argparse.Namespace, claim: Budget, report: AuditReport, computed: float) -> None:
    from pgmest.privacy.ledger import amounts

    name = {"Rho": "rho", "GDP": "mu"}.get(type(claim).__name__, "epsilon")
    bound, most = getattr(report, name), getattr(report, f"most_{name}")
    false = computed > 1 + ROUNDING or report.contradicts(claim)
    if options.json:
        facts = {"claim": amounts(claim), "lower_bound": bound, "most_that_can_be_shown": most, "contradicted": false}
        facts |= {"epsilon": report.epsilon, "rho": report.rho, "mu": report.mu, "largest_share_charged": computed}
        show(json.dumps({**facts, "trials": options.trials, "confidence": options.confidence}))
        return
    show(f"claim:        {claim}")
    show(f"computed:     in one run, the loss of an answer was at most {computed:.4g} of its charge")
    show(f"lower bound:  {name} {bound:.4g}, with confidence {options.confidence:g}, {options.trials} trials each")
    show(f"              {name} {most:.4g} is the most that these trials can show; mu is at least {report.mu:.4g}")
    show("The claim is FALSE." if false else "The claim is not contradicted.")


AUDIT = Command(
    "audit",
    "Bound the privacy loss of a mechanism from below, by experiment.",
    DETAILS,
    _options,
    _run,
    "pgmest audit [--mechanism NAME] [--epsilon X] [options]",
)

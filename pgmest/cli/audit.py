"""`pgmest audit`: how much privacy a mechanism loses at least, against what it claims."""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from pgmest._base.errors import ArgumentError, PgmestError
from pgmest.cli.budget import mechanism_of, mechanism_options
from pgmest.cli.command import Add, Command, count
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

The mechanism runs many times on a small table, and on the same table with one record more that nothing else resembles.
How well its answers tell the two apart, by the likelihood ratio of everything that it asked, bounds its privacy loss
from below, with the confidence given. A bound above the claim proves that the claim is false: the exit code is 1. A
bound below it proves nothing, but shows how much of the claim can be seen. The audit says how much so many trials
can show at most, and refuses a number that could not contradict the claim. More trials see more. Without a budget it is
epsilon 8, or 1 of pure differential privacy, which takes more trials to contradict.

Before that one run is computed instead of tried: what each answer cost between the two tables must not be more than was
charged for it. The noise is simulated; --exact-noise audits the secure noise itself, which cannot be repeated.
"""

DOMAIN = Domain({"a": 2, "b": 3, "c": 2})
RECORDS = [(0, 0, 0)] * 6 + [(1, 1, 0)] * 5 + [(0, 2, 1)] * 4
OUTLIER = (1, 0, 1)
EPSILON, PURE_EPSILON = 8.0, 1.0
ROUNDING = 1e-9


def _options(add: Add) -> None:
    mechanism_options(add)
    add("--trials", type=count, default=100, metavar="N", help="runs on each of the two tables (default: %(default)s)")
    add("--confidence", type=float, default=0.99, metavar="X", help="of the bound (default: %(default)s)")
    add("--seed", type=count, default=0, metavar="N", help="the same seed gives the same bound (default: 0)")
    add("--exact-noise", action="store_true", help="audit the secure noise, not its simulation; no seed repeats it")
    add("--json", action="store_true", help="print JSON")


def _run(options: argparse.Namespace) -> None:
    from pgmest.privacy import Epsilon, audit
    from pgmest.privacy.audit import least_trials

    mechanism = _mechanism(options)
    data, neighbor = _tables(mechanism)
    claim, _ = mechanism.planned(data.domain)
    threshold = None if isinstance(claim, Epsilon) else 0.0  # of a likelihood ratio, for rho and mu
    needed = least_trials(claim, options.confidence, threshold=threshold is not None)
    if options.trials < needed:
        raise ArgumentError.of("--trials", options.trials, f"at least {needed}, to be able to contradict {claim}")
    computed = _computed(mechanism, data, neighbor)
    audited = {"trials": options.trials, "confidence": options.confidence, "seed": options.seed, "claim": claim}
    with tqdm_bar(2 * options.trials) as bar:
        private = _private(mechanism, data, neighbor, bar)
        report = audit(private, data, neighbor, threshold=threshold, **audited)
    _tell(options, claim, report, computed)
    if computed > 1 + ROUNDING or report.contradicts(claim):
        raise PgmestError(f"the audit contradicts the claim of {options.mechanism}.")


def _mechanism(options: argparse.Namespace) -> Mechanism:
    """The mechanism, with a budget that can be audited."""
    stated = options.epsilon is not None or options.rho is not None
    if not stated:
        options.epsilon = EPSILON
    mechanism = mechanism_of(options, simulation=not options.exact_noise)
    if not stated and mechanism.delta is None and mechanism.epsilon is not None:
        options.epsilon = PURE_EPSILON
        mechanism = mechanism_of(options, simulation=not options.exact_noise)
    return mechanism


def _tables(mechanism: Mechanism) -> tuple[Dataset, Dataset]:
    import pgmest as pg

    extra = [OUTLIER] * mechanism.neighbors.records
    data, neighbor = (pg.Dataset.from_codes(np.array(rows), DOMAIN) for rows in (RECORDS, [*RECORDS, *extra]))
    return data, neighbor


def _computed(mechanism: Mechanism, data: Dataset, neighbor: Dataset) -> float:
    """The largest cost of an answer between the tables, as a share of what was charged for it."""
    from pgmest.privacy.transcript import Witness

    options = {"neighbors": mechanism.neighbors, "backend": mechanism.backend, "seed": 0}
    budget, plan = mechanism.planned(data.domain)
    witness = Witness(data, neighbor, budget, plan=plan, **options)
    mechanism.run(witness, None, np.random.default_rng(0))
    shares = [answer.loss / float(answer.cost.exact[0]) if answer.cost else math.inf for answer in witness.answers]
    return max((share for share in shares if not math.isnan(share)), default=0.0)


def _private(mechanism: Mechanism, data: Dataset, neighbor: Dataset, bar: Any) -> Callable[[Dataset, int], float]:
    """A run, as the log likelihood ratio of its answers."""
    from pgmest.privacy.transcript import privacy_loss

    def run(curator: Any) -> None:
        bar.update()
        mechanism.run(curator, None, np.random.default_rng(bar.n))

    budget, plan = mechanism.planned(data.domain)
    options = {"plan": plan, "neighbors": mechanism.neighbors, "backend": mechanism.backend}
    return privacy_loss(run, data, neighbor, budget, **options)


def _tell(options: argparse.Namespace, claim: Budget, report: AuditReport, computed: float) -> None:
    from pgmest.privacy.ledger import amounts

    name = {"Rho": "rho", "PlannedRho": "rho", "GDP": "mu"}.get(type(claim).__name__, "epsilon")
    bound, most = getattr(report, name), getattr(report, f"most_{name}")
    false = computed > 1 + ROUNDING or report.contradicts(claim)
    if options.json:
        facts = {"claim": amounts(claim), "lower_bound": bound, "most_that_can_be_shown": most, "contradicted": false}
        facts |= {"epsilon": report.epsilon, "rho": report.rho, "mu": report.mu, "largest_share_charged": computed}
        print(json.dumps({**facts, "trials": options.trials, "confidence": options.confidence}))
        return
    print(f"claim:        {claim}")
    print(f"computed:     an answer cost {computed:.4g} of what was charged for it at most, in one run")
    print(f"lower bound:  {name} {bound:.4g}, with confidence {options.confidence:g}, {options.trials} trials each")
    print(f"              {name} {most:.4g} is the most that they can show; mu is at least {report.mu:.4g}")
    print("The claim is FALSE." if false else "The claim is not contradicted.")


def tqdm_bar(total: int) -> Any:
    """How far the trials are, on a terminal."""
    from tqdm import tqdm

    return tqdm(total=total, desc="auditing", unit=" runs", disable=None)


AUDIT = Command(
    "audit",
    "Bound the privacy loss of a mechanism from below, by experiment.",
    DETAILS,
    _options,
    _run,
    "pgmest audit [--mechanism NAME] [--epsilon X] [options]",
)

"""`pgmest audit`: how much privacy a mechanism loses at least, against what it claims."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from pgmest._base.errors import PgmestError
from pgmest.cli.budget import mechanism_of, mechanism_options
from pgmest.cli.command import Add, Command, count
from pgmest.tables.domain import Domain

if TYPE_CHECKING:
    from pgmest.data.dataset import Dataset
    from pgmest.mechanisms.mechanism import Mechanism, Result

DETAILS = """\
examples:
  pgmest audit --mechanism mst
  pgmest audit --mechanism mwem --epsilon 4 --trials 2000 --json

The mechanism runs many times on a small table, and on the same table with one record more that nothing else resembles.
How well its answers tell the two apart bounds its privacy loss from below, with the confidence given. A bound above
the claim proves that the claim is false: the exit code is 1. A bound below it proves nothing, but shows how much of
the claim can be seen. More trials see more, and a large budget is seen more easily: without one it is epsilon 8.
The noise is simulated, so the generator of the secure noise is not audited.
"""

DOMAIN = Domain({"a": 2, "b": 3, "c": 2})
RECORDS = [(0, 0, 0)] * 6 + [(1, 1, 0)] * 5 + [(0, 2, 1)] * 4
OUTLIER = (1, 0, 1)
EPSILON = 8.0


def _options(add: Add) -> None:
    mechanism_options(add)
    add("--trials", type=count, default=100, metavar="N", help="runs on each of the two tables (default: %(default)s)")
    add("--confidence", type=float, default=0.99, metavar="X", help="of the bound (default: %(default)s)")
    add("--seed", type=count, default=0, metavar="N", help="the same seed gives the same bound (default: 0)")
    add("--json", action="store_true", help="print JSON")


def _run(options: argparse.Namespace) -> None:
    from tqdm import tqdm

    import pgmest as pg
    from pgmest.privacy import Rho, audit
    from pgmest.privacy.ledger import amounts

    if options.epsilon is None and options.rho is None:
        options.epsilon = EPSILON
    mechanism = mechanism_of(options, simulation=True)
    data = pg.Dataset.from_codes(np.array(RECORDS), DOMAIN)
    extra = [OUTLIER] * mechanism.neighbors.records
    neighbor = pg.Dataset.from_codes(np.array([*RECORDS, *extra]), DOMAIN)
    with tqdm(total=2 * options.trials, desc="auditing", unit=" runs", disable=None) as bar:

        def run(records: Dataset, seed: int) -> Result:
            bar.update()
            return mechanism.fit(records, seed=seed, progress=False)

        report = audit(
            run,
            data,
            neighbor,
            statistic=_statistic(mechanism, data, neighbor),
            trials=options.trials,
            confidence=options.confidence,
            seed=options.seed,
        )
    claim = mechanism.budget()
    bound = report.rho if isinstance(claim, Rho) else report.epsilon
    false = report.contradicts(claim)
    if options.json:
        facts = {"claim": amounts(claim), "lower_bound": bound, "contradicted": false}
        print(json.dumps({**facts, "trials": options.trials, "confidence": options.confidence}))
    else:
        name = "rho" if isinstance(claim, Rho) else "epsilon"
        print(f"claim:        {claim}")
        print(f"lower bound:  {name} {bound:.4g}, with confidence {options.confidence:g}, {options.trials} trials each")
        print("The claim is FALSE." if false else "The claim is not contradicted.")
    if false:
        raise PgmestError(f"the audit contradicts the claim of {options.mechanism}.")


def _statistic(mechanism: Mechanism, data: Dataset, neighbor: Dataset) -> Callable[[Any], float]:
    """What tells the tables apart: the noisy answers where there are some, else the model's count of the record."""
    from pgmest.privacy.audit import likelihood_ratio

    if mechanism.fit(neighbor, seed=0, progress=False).measurements:
        return likelihood_ratio(data, neighbor)

    def outliers(result: Result) -> float:
        return float(result.project(DOMAIN.attributes).values[OUTLIER])

    return outliers


AUDIT = Command(
    "audit",
    "Bound the privacy loss of a mechanism from below, by experiment.",
    DETAILS,
    _options,
    _run,
    "pgmest audit [--mechanism NAME] [--epsilon X] [options]",
)

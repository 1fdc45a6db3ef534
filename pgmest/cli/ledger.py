"""`pgmest ledger`: create, show and adopt the ledger of a dataset."""

from __future__ import annotations

import argparse
import json
import os
from typing import TYPE_CHECKING

from pgmest.cli.budget import DELTA_HELP
from pgmest.cli.cliques import invariants_of
from pgmest.cli.command import Add, Command, say, show
from pgmest.cli.paths import OutputExists, continued
from pgmest.errors import ArgumentError
from pgmest.privacy.budgets import DEFAULT_DELTA

if TYPE_CHECKING:
    from pgmest.privacy import Epsilon, Rho

DETAILS = """\
examples:
  pgmest ledger create people.ledger --epsilon 3 --delta 1e-9 --table "people, 2026"
  pgmest synthesize people.csv --schema people.yaml --epsilon 1 --out synthetic.csv --ledger people.ledger
  pgmest ledger show people.ledger --expect 9c1f60d2a41be87f

The ledger of a dataset is one file that all runs on the same private table charge. It has a total budget and refuses
runs that would exceed it. Each line has a digest of all lines before it, and people.ledger.head has the last digest, so
that edited, shortened, exchanged and copied files are recognized. If both files are replaced by older ones, this is not
recognized: write down the head that `show` prints, and give it as --expect later. Runs without --ledger are not
counted.

The total budget is --rho, or --epsilon with --delta, which is converted to the rho that implies it. With --delta 0 it
is the epsilon of pure differential privacy.

The ledger protects one row, up to --records-per-person rows, or, with --unit COLUMN, all rows of one person: name the
column of the `unit` in the schemas of the runs. A run that protects fewer rows or another unit is refused: give it the
--records-per-person of the ledger. Runs with --invariant need a ledger that was created with the same --invariant.

show reads any copy of a ledger, such as one that was handed out, says if it is one, and changes nothing. It prints each
epsilon with the rho or mu that it comes from. The rhos that runs take add up, their epsilons do not; a run in mu takes
mu squared / 2. --json writes all of it, with the label and the cost of each request. A ledger has no answers.

adopt accepts a file that was moved or restored, a ledger or a --checkpoint, as the newest and only one. A
checkpoint needs FILE.key beside it, too.
"""


def _options(add: Add) -> None:
    add("action", choices=("create", "show", "adopt"), help="what to do")
    add("file", metavar="FILE", type=continued, help="the ledger, such as people.ledger")
    add("--epsilon", type=float, metavar="X", help="create: the total budget")
    text = f"create: the delta of the total budget, with --epsilon; show: the delta of each epsilon; {DELTA_HELP}"
    add("--delta", type=float, default=DEFAULT_DELTA, metavar="X", help=text)
    add("--rho", type=float, metavar="X", help="create: the total budget as rho-zCDP, instead of --epsilon and --delta")
    add(
        "--threshold-delta",
        type=float,
        default=0.0,
        metavar="X",
        help="create: the additional delta that runs may spend to buy unlisted values",
    )
    add("--records-per-person", type=int, metavar="K", help="create: the most records of one person (default: 1)")
    add("--unit", metavar="COLUMN", help="create: the column of the schemas' unit, if a person has several rows")
    text = "create: a table that the ledger does not protect, for runs with the same --invariant; may be repeated"
    add("--invariant", action="append", default=[], metavar="CLIQUE", help=text)
    add("--table", default="", metavar="TEXT", help="create: a description of the dataset")
    add("--expect", metavar="HEAD", help="show: a head printed earlier, from which the file must have grown")
    add("--all", action="store_true", help="show: every run, not only the last ones")
    add("--json", action="store_true", help="print JSON")


def _run(options: argparse.Namespace) -> None:
    from pgmest.privacy import AddRemove, DatasetLedger, Replace
    from pgmest.privacy.dataset_ledger import MOST_RUNS
    from pgmest.privacy.store import adopt_file

    if options.action == "adopt":
        say(f"{options.file} is accepted as the newest and only one, head {adopt_file(options.file)}.")
        return
    if options.action == "create":
        if any(os.path.lexists(name) for name in (options.file, f"{options.file}.head")):
            raise OutputExists(f"{options.file} or its head file exists already; a budget is given once.")
        fixed = invariants_of(options)
        relation = Replace if fixed else AddRemove
        neighbors = None if options.records_per_person is None else relation(options.records_per_person)
        more = {"table": options.table, "threshold_delta": options.threshold_delta, "unit": options.unit}
        more["invariants"] = fixed
        ledger = DatasetLedger.create(options.file, _total(options), neighbors=neighbors, **more)
    else:
        ledger = DatasetLedger(options.file, expect=options.expect, read_only=True)
    text = ledger.details(None if options.all else MOST_RUNS, options.delta or DEFAULT_DELTA)
    show(json.dumps(ledger.to_json()) if options.json else text)


def _total(options: argparse.Namespace) -> Rho | Epsilon:
    """Return the total budget asked for."""
    from pgmest.privacy import Epsilon, Rho

    if (options.rho is None) == (options.epsilon is None):
        raise ArgumentError("a ledger needs a total budget: give either --rho, or --epsilon with --delta.")
    if options.rho is not None:
        return Rho(options.rho)
    return Rho.of(options.epsilon, options.delta) if options.delta else Epsilon(options.epsilon)


LEDGER = Command(
    "ledger",
    "Create or show the ledger of a dataset, which all runs on it charge.",
    DETAILS,
    _options,
    _run,
    "pgmest ledger create|show|adopt FILE [options]",
)

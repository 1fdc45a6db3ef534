"""`pgmest ledger`: make, show and adopt the ledger of a dataset."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

from pgmest._base.errors import ArgumentError
from pgmest.cli.command import Add, Command, say
from pgmest.cli.paths import continued

if TYPE_CHECKING:
    from pgmest.privacy import Epsilon, Rho

DETAILS = """\
examples:
  pgmest ledger create people.ledger --epsilon 3 --delta 1e-9 --table "people, 2026"
  pgmest synthesize people.csv --schema people.yaml --epsilon 1 --out synthetic.csv --ledger people.ledger
  pgmest ledger show people.ledger --expect 9c1f60d2a41be87f

The ledger of a dataset is one file that all runs on the same private table charge. It has a total budget, and refuses
a run that would exceed it. Each line has a digest of all lines before it, and people.ledger.head knows the last one, so
that edited, shortened, exchanged and copied files are recognized. Both files replaced by older ones are not: write
down the head that `show` prints, and `--expect` it later. Nothing sees runs without --ledger.

The total is --epsilon (of pure differential privacy), --rho, or --epsilon with --delta, which becomes the rho that
implies it. All runs have the same --records-per-person.

adopt takes a file, a ledger or a --checkpoint, for the newest and only one after it was moved or restored.
"""


def _options(add: Add) -> None:
    add("action", choices=("create", "show", "adopt"), help="what to do")
    add("file", metavar="FILE", type=continued, help="the ledger, such as people.ledger")
    add("--epsilon", type=float, metavar="X", help="create: the total budget")
    add("--delta", type=float, metavar="X", help="create: with --epsilon")
    add("--rho", type=float, metavar="X", help="create: the total as rho-zCDP, instead of these")
    add(
        "--threshold-delta",
        type=float,
        default=0.0,
        metavar="X",
        help="create: what runs may spend of delta besides, on values to be bought that nobody listed",
    )
    add("--records-per-person", type=int, default=1, metavar="K", help="create: the most records of one person")
    add("--table", default="", metavar="TEXT", help="create: what it is of")
    add("--expect", metavar="HEAD", help="show: a head printed earlier, from which the file must have grown")
    add("--json", action="store_true", help="print JSON")


def _run(options: argparse.Namespace) -> None:
    from pgmest.privacy import AddRemove, DatasetLedger
    from pgmest.privacy.dataset_ledger import adopt_file

    if options.action == "adopt":
        say(f"{options.file} is taken for the newest and only one, head {adopt_file(options.file)}.")
        return
    if options.action == "create":
        neighbors = AddRemove(options.records_per_person)
        more = {"neighbors": neighbors, "table": options.table, "threshold_delta": options.threshold_delta}
        ledger = DatasetLedger.create(options.file, _total(options), **more)
    else:
        ledger = DatasetLedger(options.file, expect=options.expect)
    print(json.dumps(ledger.to_json()) if options.json else ledger)


def _total(options: argparse.Namespace) -> Rho | Epsilon:
    """The budget stated."""
    from pgmest.privacy import Epsilon, Rho

    if (options.rho is None) == (options.epsilon is None):
        raise ArgumentError("a ledger needs a total budget: give --rho, or --epsilon with or without --delta.")
    if options.rho is not None:
        return Rho(options.rho)
    return Epsilon(options.epsilon) if options.delta is None else Rho.of(options.epsilon, options.delta)


LEDGER = Command(
    "ledger",
    "Make or show the ledger of a dataset, which all runs on it charge.",
    DETAILS,
    _options,
    _run,
    "pgmest ledger create|show|adopt FILE [options]",
)

"""Which mechanism, with which budget: the options of every command that runs one."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any

from pgmest._base.errors import ArgumentError
from pgmest.cli.command import Add, say

if TYPE_CHECKING:
    from pgmest.mechanisms.mechanism import Mechanism

MECHANISM_HELP = """\
Which mechanism: pgm, the default, is the most accurate on most tables, and its model is records; aim and mst make a
graphical model (aim is slower and more accurate, mst takes seconds); mwem for a workload of its own; independent is the
baseline, which loses all dependence. A budget is --epsilon with --delta (well below 1 / records, and
1e-9 where it is needed and not given), or --rho of zCDP. Smaller is more private: epsilon 1 is common, above 10
promises little. `pgmest audit` tries a mechanism out.
"""


def mechanism_options(add: Add) -> None:
    """The options; `mechanism_of` reads them."""
    from pgmest.mechanisms.registry import mechanism_names

    add("--mechanism", default="pgm", metavar="NAME", help=f"{', '.join(mechanism_names())} (default: pgm)")
    add("--epsilon", type=float, metavar="X", help="the budget as (epsilon, delta)-DP")
    add("--delta", type=float, metavar="X", help="default: 1e-9 where the mechanism needs one")
    add("--rho", type=float, metavar="X", help="the budget as rho-zCDP, instead of epsilon and delta")
    help_text = "the most records of one person (default: as the unit of the schema says, else 1)"
    add("--records-per-person", type=int, metavar="K", help=help_text)
    text = "a parameter of the mechanism, such as max_megabytes=200; may be repeated"
    add("--parameter", action="append", default=[], metavar="NAME=VALUE", help=text)


def question_delta(options: argparse.Namespace) -> None:
    """Say so where the delta asked for promises little; N itself is private, so it is compared with public numbers."""
    from pgmest.mechanisms.rehearsal import delta_warnings

    for warning in delta_warnings(options.delta, getattr(options, "records_expected", None)):
        say(f"WARNING: {warning}")


def mechanism_of(options: argparse.Namespace, simulation: bool = False) -> Mechanism:
    """The mechanism asked for, with secure noise unless it is a simulation.

    Raises:
        ArgumentError: no such mechanism or parameter, no budget, or one that it cannot spend.
    """
    from pgmest.mechanisms.registry import named_mechanism
    from pgmest.privacy import AddRemove

    if options.epsilon is None and options.rho is None:
        raise ArgumentError("no privacy budget: give --epsilon, such as --epsilon 1, or --rho.")
    parameters: dict[str, Any] = dict(map(_parameter, options.parameter))
    parameters |= {"epsilon": options.epsilon, "delta": options.delta, "rho": options.rho}
    parameters |= {
        "backend": "simulation" if simulation else "opendp",
        "neighbors": AddRemove(1 if options.records_per_person is None else options.records_per_person),
    }
    return named_mechanism(options.mechanism, **parameters)


def _parameter(text: str) -> tuple[str, Any]:
    """NAME=VALUE, where the value is JSON, or else text."""
    name, equals, value = text.partition("=")
    if not equals:
        raise ArgumentError.of("--parameter", text, "NAME=VALUE, such as rounds=20")
    try:
        return name.strip(), json.loads(value)
    except ValueError:
        return name.strip(), value

"""The options for a mechanism and its budget, shared by all commands that run a mechanism."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any

from pgmest.cli.command import Add, say
from pgmest.errors import ArgumentError
from pgmest.privacy.budgets import DEFAULT_DELTA

if TYPE_CHECKING:
    from pgmest.mechanisms.mechanism import Mechanism

MECHANISM_HELP = """\
Mechanisms: lamp, the default, is the most accurate on most tables, and its model is records; aim and mst make a
graphical model (aim is slower and more accurate, mst takes seconds); mwem is for small workloads; independent is the
baseline, which loses all dependence. A budget is --epsilon with --delta (well below 1 / records; 0 asks for pure
differential privacy), or --rho of zCDP. Smaller budgets are more private: epsilon 1 is common, an epsilon above 10 is a
weak promise. `pgmest audit` tests the promise of a mechanism.
"""

DELTA_HELP = "0 asks for pure differential privacy (default: %(default)s)"
"""The help of --delta, for every command that has this option."""


def mechanism_options(add: Add) -> None:
    """Add the options for a mechanism and its budget, which `mechanism_of` reads."""
    from pgmest.mechanisms.registry import mechanism_names

    add("--epsilon", type=float, metavar="X", help="the budget as (epsilon, delta)-DP")
    add("--mechanism", default="lamp", metavar="NAME", help=f"{', '.join(mechanism_names())} (default: lamp)")
    privacy = add.to("privacy")
    privacy("--delta", type=float, default=DEFAULT_DELTA, metavar="X", help=DELTA_HELP)
    privacy("--rho", type=float, metavar="X", help="the budget as rho-zCDP, instead of epsilon and delta")
    help_text = "the most records of one person (default: as the unit of the schema says, else 1)"
    privacy("--records-per-person", type=int, metavar="K", help=help_text)
    text = "a parameter of the mechanism, such as max_megabytes=200; may be repeated"
    add.to("advanced")("--parameter", action="append", default=[], metavar="NAME=VALUE", help=text)


def question_delta(options: argparse.Namespace) -> None:
    """Warn if delta is too large for the expected number of records; a run warns of one that is too large for any."""
    from pgmest.mechanisms.notices import delta_warnings

    if options.records_expected is not None and not delta_warnings(options.delta):
        for warning in delta_warnings(options.delta, options.records_expected):
            say(f"WARNING: {warning}")


def mechanism_of(options: argparse.Namespace, simulation: bool = False) -> Mechanism:
    """Return the mechanism of the options, with secure noise unless `simulation` is true.

    Raises:
        ArgumentError: if there is no such mechanism or parameter, or no budget that the mechanism can spend.
    """
    from pgmest.mechanisms.registry import named_mechanism
    from pgmest.privacy import AddRemove

    if options.epsilon is None and options.rho is None:
        raise ArgumentError("no privacy budget: give --epsilon, such as --epsilon 1, or --rho.")
    parameters = parameters_of(options)
    parameters |= {"epsilon": options.epsilon, "delta": options.delta, "rho": options.rho}
    parameters |= {
        "backend": "simulation" if simulation else "opendp",
        "neighbors": AddRemove(1 if options.records_per_person is None else options.records_per_person),
    }
    return named_mechanism(options.mechanism, **parameters)


def parameters_of(options: argparse.Namespace) -> dict[str, Any]:
    """Return the parameters of the mechanism that were given one by one.

    Raises:
        ArgumentError: one is not NAME=VALUE.
    """
    return dict(map(_parameter, options.parameter))


def _parameter(text: str) -> tuple[str, Any]:
    """Return the name and the value of NAME=VALUE; a value that is not JSON is a text."""
    name, equals, value = text.partition("=")
    if not equals:
        raise ArgumentError.of("--parameter", text, "NAME=VALUE, such as rounds=20")
    try:
        return name.strip(), json.loads(value)
    except ValueError:
        return name.strip(), value

"""Mechanisms by name, for configurations and the command line."""

from __future__ import annotations

import dataclasses
import difflib
from typing import Any

from pgmest import mechanisms
from pgmest.errors import ArgumentError, listed
from pgmest.mechanisms.mechanism import Mechanism

NOT_NAMED = ("Mechanism", "Result", "Transformed", "PMWPub")
"""Names in `pgmest.mechanisms` that are no mechanisms, or need more than numbers and texts."""


def mechanism_names() -> list[str]:
    """Return the names of all mechanisms, in lower case."""
    return sorted(name.lower() for name in mechanisms.MECHANISMS if name not in NOT_NAMED)


def check_weighing(mechanism: Mechanism) -> None:
    """Raise ArgumentError if a mechanism treats all marginals of a workload alike, whatever their weights."""
    if mechanism.used != "items":
        raise ArgumentError(
            f"{mechanism.title} treats all marginals alike, so it cannot spend more on those that matter: take lamp, "
            "aim, mwem or hdmm, or leave matters= (--matters) out."
        )


def named_mechanism(name: str, **parameters: Any) -> Mechanism:
    """Return the mechanism of that name, upper or lower case, with a budget and parameters as for its class.

    >>> named_mechanism("aim", epsilon=1.0).delta
    1e-09

    Raises:
        ArgumentError: if there is no such mechanism or parameter; or as for the class.
    """
    known = {known.lower(): known for known in mechanisms.MECHANISMS if known not in NOT_NAMED}
    key = name.lower().replace("-", "").replace("_", "")
    if key not in known:
        raise ArgumentError.of("mechanism", name, mechanism_names())
    kind: type[Mechanism] = getattr(mechanisms, known[key])
    fields = [field.name for field in dataclasses.fields(kind)]
    for given in parameters:
        if given not in fields:
            near = difflib.get_close_matches(given, fields, n=1)
            hint = f" Did you mean '{near[0]}'?" if near else ""
            raise ArgumentError(f"'{given}' is not a parameter of {kind.__name__} ({listed(fields, 30)}).{hint}")
    return kind(**parameters)

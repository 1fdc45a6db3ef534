"""Mechanisms by name, for configurations and the command line."""

from __future__ import annotations

import dataclasses
import difflib
from typing import Any

from pgmest import mechanisms
from pgmest._base.errors import ArgumentError, listed
from pgmest.mechanisms.mechanism import Mechanism

NOT_NAMED = ("Mechanism", "Result", "Transformed", "PMWPub", "PPSynAsPublishedNotPrivate")
"""In `pgmest.mechanisms`, but no mechanisms, or ones that need more than numbers and texts, or not private."""

DEFAULT_DELTA = 1e-9
"""Where a mechanism that spends zCDP is given epsilon alone."""


def mechanism_names() -> list[str]:
    """The names, lower case."""
    return sorted(name.lower() for name in mechanisms.MECHANISMS if name not in NOT_NAMED)


def named_mechanism(name: str, **parameters: Any) -> Mechanism:
    """The mechanism of that name, upper or lower case, with a budget and parameters as for its class.

    A mechanism that spends zCDP and gets epsilon alone has delta = 1e-9; so has PGM, which as a class can also spend
    epsilon alone, with much more noise.

    >>> named_mechanism("aim", epsilon=1.0).delta
    1e-09

    Raises:
        ArgumentError: there is no such mechanism, or it has no such parameter; otherwise as the class.
    """
    known = {known.lower(): known for known in mechanisms.MECHANISMS if known not in NOT_NAMED}
    key = name.lower().replace("-", "").replace("_", "")
    if key not in known:
        raise ArgumentError.of("mechanism", name, mechanism_names())
    kind: type[Mechanism] = getattr(mechanisms, known[key])
    fields = [field.name for field in dataclasses.fields(kind)]
    for given in parameters:
        if given not in fields and given not in kind.renamed():
            near = difflib.get_close_matches(given, fields, n=1)
            hint = f" Did you mean '{near[0]}'?" if near else ""
            raise ArgumentError(f"'{given}' is not a parameter of {kind.__name__} ({listed(fields, 30)}).{hint}")
    alone = parameters.get("epsilon") is not None and parameters.get("rho") is None and parameters.get("delta") is None
    if (kind.definition == "zcdp" or kind.delta_by_name) and alone:
        parameters["delta"] = DEFAULT_DELTA
    return kind(**parameters)

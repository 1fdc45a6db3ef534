"""Conversion of mbi's constraints to structural zeros of pgmest."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from pgmest.adapters.mbi.names import Names
from pgmest.adapters.mbi.tables import added_up, from_mbi_factor
from pgmest.tables.clique_vector import CliqueVector
from pgmest.zeros import Function, impossible, only


def zero_rule(constraint: Any, names: Names) -> Any:
    """Return a constraint as a rule of `pgmest.zeros`."""
    attributes = names.clique(constraint.domain.attributes)
    if constraint.mapping is not None:
        fine, coarse = attributes
        return Function(coarse, fine, np.asarray(constraint.mapping).tolist())
    rows = constraint.valid if constraint.invalid is None else constraint.invalid
    combinations = [tuple(map(int, row)) for row in np.asarray(rows)]
    return (only if constraint.invalid is None else impossible)(attributes, combinations)


def constraint_tables(constraints: Iterable[Any], names: Names) -> CliqueVector:
    """Return the log-potentials of all constraints: 0 for allowed combinations, -inf for the others."""
    return added_up(names, (from_mbi_factor(constraint.potential, names) for constraint in constraints))

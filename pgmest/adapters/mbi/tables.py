"""Conversion of factors and clique vectors between mbi and pgmest."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from pgmest.adapters.mbi.names import Names
from pgmest.adapters.mbi.peer import mbi
from pgmest.tables.clique_vector import CliqueVector
from pgmest.tables.factor import Factor

LOWEST = -1e6
"""The log-potential of impossible cells in mbi, whose faster oracles turn -inf into NaN."""


def from_mbi_factor(factor: Any, names: Names | None = None) -> Factor:
    """Return an `mbi.Factor` as a `pgmest.Factor`."""
    names = Names(factor.domain) if names is None else names
    sizes = dict(zip(names.clique(factor.domain.attributes), factor.domain.shape, strict=True))
    return Factor(sizes, np.asarray(factor.values, dtype=np.float64).reshape(factor.domain.shape))


def to_mbi_factor(factor: Factor, names: Names | None = None) -> Any:
    """Return a `pgmest.Factor` as an `mbi.Factor` of float64, whatever precision JAX uses."""
    names = Names.plain(factor.domain) if names is None else names
    return mbi.Factor(names.theirs.project(names.back(factor.domain)), np.asarray(factor.values))


def from_mbi_potentials(potentials: Any, names: Names | None = None) -> CliqueVector:
    """Return an `mbi.CliqueVector` as a `pgmest.CliqueVector`; tables over the same attributes are added up."""
    names = Names(potentials.domain) if names is None else names
    return added_up(names, (from_mbi_factor(potentials[clique], names) for clique in potentials.cliques))


def added_up(names: Names, factors: Iterable[Factor]) -> CliqueVector:
    """Return the factors as a clique vector, in which those over the same attributes are added up."""
    tables: dict[frozenset[str], Factor] = {}
    for factor in factors:
        first = tables.get(frozenset(factor.domain))
        tables[frozenset(factor.domain)] = factor if first is None else first + factor.transpose(first.domain)
    return CliqueVector(names.domain, {tuple(factor.domain): factor for factor in tables.values()})


def to_mbi_tables(tables: CliqueVector, names: Names | None = None) -> Any:
    """Return a `pgmest.CliqueVector` as an `mbi.CliqueVector`; -inf becomes `LOWEST`."""
    names = Names.plain(tables.domain) if names is None else names
    return clique_vector(names, ((clique, np.maximum(factor.values, LOWEST)) for clique, factor in tables.items()))


def clique_vector(names: Names, tables: Iterable[tuple[tuple[str, ...], np.ndarray]]) -> Any:
    """Return an `mbi.CliqueVector` of arrays by pgmest's cliques."""
    factors = {}
    for clique, values in tables:
        theirs = names.back(clique)
        factors[theirs] = mbi.Factor(names.theirs.project(theirs), values)
    return mbi.CliqueVector(names.theirs, list(factors), factors)

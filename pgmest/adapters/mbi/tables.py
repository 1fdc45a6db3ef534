"""Factors and clique vectors, mbi's to ours and back."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from pgmest.adapters.mbi.names import Names
from pgmest.adapters.mbi.peer import mbi
from pgmest.tables.clique_vector import CliqueVector
from pgmest.tables.factor import Factor

LOWEST = -1e6
"""The log-potential that stands for impossible: mbi's faster oracles make NaN of -inf."""


def from_mbi_factor(factor: Any, names: Names | None = None) -> Factor:
    """An `mbi.Factor` as ours."""
    known = Names(factor.domain) if names is None else names
    sizes = dict(zip(known.clique(factor.domain.attributes), factor.domain.shape, strict=True))
    return Factor(sizes, np.asarray(factor.values, dtype=np.float64).reshape(factor.domain.shape))


def to_mbi_factor(factor: Factor, names: Names | None = None) -> Any:
    """Our Factor as an `mbi.Factor` of float64, whatever precision JAX is in."""
    known = Names.plain(factor.domain) if names is None else names
    return mbi.Factor(known.theirs.project(known.back(factor.domain)), np.asarray(factor.values))


def from_mbi_potentials(potentials: Any, names: Names | None = None) -> CliqueVector:
    """An `mbi.CliqueVector` as ours; tables over the same attributes in another order are added up."""
    known = Names(potentials.domain) if names is None else names
    tables: dict[frozenset[str], Factor] = {}
    for clique in potentials.cliques:
        factor = from_mbi_factor(potentials[clique], known)
        first = tables.get(frozenset(factor.domain))
        tables[frozenset(factor.domain)] = factor if first is None else first + factor.transpose(first.domain)
    return CliqueVector(known.domain, {tuple(factor.domain): factor for factor in tables.values()})


def to_mbi_tables(tables: CliqueVector, names: Names | None = None) -> Any:
    """Our CliqueVector as an `mbi.CliqueVector`; -inf, which some of its oracles make NaN of, becomes -1e6."""
    known = Names.plain(tables.domain) if names is None else names
    return clique_vector(known, ((clique, np.maximum(factor.values, LOWEST)) for clique, factor in tables.items()))


def clique_vector(names: Names, tables: Iterable[tuple[tuple[str, ...], np.ndarray]]) -> Any:
    """An `mbi.CliqueVector` of arrays by our cliques."""
    factors = {}
    for clique, values in tables:
        theirs = names.back(clique)
        factors[theirs] = mbi.Factor(names.theirs.project(theirs), values)
    return mbi.CliqueVector(names.theirs, list(factors), factors)

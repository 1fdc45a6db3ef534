"""Evidence: what a model says about the records with given codes of some attributes."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from pgmest._base.errors import CodeRangeError, ImpossibleModelError, QueryError
from pgmest.tables.clique_vector import CliqueVector
from pgmest.tables.domain import Clique, Domain


def checked_evidence(domain: Domain, evidence: Mapping[str, Any] | None, asked: Iterable[str] = ()) -> dict[str, int]:
    """Attribute -> code, as ints.

    Raises:
        UnknownAttributeError: an attribute that the domain does not have.
        CodeRangeError: a code that is no integer, or outside its attribute's range.
        QueryError: evidence on an attribute that is asked about.
    """
    given = dict(evidence or {})
    domain.clique(given)
    both = sorted(given.keys() & set(asked))
    if both:
        raise QueryError(f"'{both[0]}' is both asked about and given; leave it out of one of the two.")
    for name, code in given.items():
        if not hasattr(code, "__index__") or not 0 <= operator.index(code) < domain[name]:
            raise CodeRangeError.in_evidence(name, code, domain[name])
    return {name: operator.index(code) for name, code in given.items()}


def restrict(potentials: CliqueVector, evidence: Mapping[str, int]) -> CliqueVector:
    """The potentials at the given codes, on the other attributes; tables that come to be on the same clique are added.

    Raises:
        ImpossibleModelError: a potential that only the evidence decides is -inf.
    """
    tables: dict[Clique, np.ndarray] = {}
    for factor in potentials.values():
        known = {name: code for name, code in evidence.items() if name in factor.domain}
        sliced = factor.condition(known)
        if not sliced.domain and np.isneginf(sliced.values):
            raise impossible(evidence)
        clique = sliced.domain.attributes
        tables[clique] = tables[clique] + sliced.values if clique in tables else sliced.values
    tables.pop((), None)  # a constant
    return CliqueVector(potentials.domain.without(evidence), tables)


def impossible(evidence: Mapping[str, int]) -> ImpossibleModelError:
    """The error that evidence of probability 0 is."""
    codes = ", ".join(f"{name}={code}" for name, code in evidence.items())
    return ImpossibleModelError(f"the evidence {codes} has probability 0 under the model, so nothing can be given it.")

"""Evidence: codes of some attributes, to which a model is restricted."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from pgmest.errors import ArgumentError, CodeRangeError, ImpossibleModelError, QueryError, ShapeError
from pgmest.tables.clique_vector import CliqueVector
from pgmest.tables.domain import Clique, Domain


def checked_evidence(domain: Domain, evidence: Mapping[str, Any] | None, asked: Iterable[str] = ()) -> dict[str, int]:
    """Return the evidence as a mapping of attribute to int, after checking it.

    Args:
        domain: the attributes.
        evidence: attribute -> code; None for no evidence.
        asked: the attributes of the query, which must not occur in the evidence.

    Raises:
        UnknownAttributeError: the domain lacks an attribute of the evidence.
        CodeRangeError: a code is not an integer, or lies outside its attribute's range.
        QueryError: an attribute is in both the evidence and the query.
        ArgumentError: the evidence is no mapping.
    """
    check_given(evidence)
    given = dict(evidence or {})
    domain.clique(given)
    both = sorted(given.keys() & set(asked))
    if both:
        raise QueryError(f"'{both[0]}' is in both the query and the evidence; leave it out of one of the two.")
    for name, code in given.items():
        if not hasattr(code, "__index__") or not 0 <= operator.index(code) < domain[name]:
            raise CodeRangeError.in_evidence(name, code, domain[name])
    return {name: operator.index(code) for name, code in given.items()}


def check_given(given: Any) -> None:
    """Check that conditions are a mapping, or None.

    Raises:
        ArgumentError: they are something else, such as an attribute without its code.
    """
    if given is not None and not isinstance(given, Mapping):
        raise ArgumentError.of("given", given, "a mapping of attributes to codes, such as {'sex': 0}")


def restrict(potentials: CliqueVector, evidence: Mapping[str, int]) -> CliqueVector:
    """Return the potentials at the given codes, as functions of the other attributes.

    Tables that end up on the same clique are added. Constants are dropped.

    Raises:
        ImpossibleModelError: a potential over attributes of the evidence alone is -inf at the given codes.
    """
    tables: dict[Clique, np.ndarray] = {}
    for factor in potentials.values():
        sliced = factor.condition({name: code for name, code in evidence.items() if name in factor.domain})
        if not sliced.domain and np.isneginf(sliced.values):
            raise impossible_evidence(evidence)
        clique = sliced.domain.attributes
        tables[clique] = tables[clique] + sliced.values if clique in tables else sliced.values
    tables.pop((), None)  # a constant does not change the distribution
    return CliqueVector(potentials.domain.without(evidence), tables)


def impossible_evidence(evidence: Mapping[str, int]) -> ImpossibleModelError:
    """Return the error for evidence that has probability 0."""
    codes = ", ".join(f"{name}={code}" for name, code in evidence.items())
    return ImpossibleModelError(
        f"the evidence {codes} has probability 0 under the model, so conditional probabilities given it are undefined."
    )


def checked_likelihoods(domain: Domain, likelihoods: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Return the likelihood of each code of some attributes as floats, shape (values,), after checking them.

    Raises:
        UnknownAttributeError: the domain lacks an attribute.
        ShapeError: there is not one number for each code.
        ArgumentError: they are no mapping, or hold something else than numbers from 0 to 1.
    """
    if not isinstance(likelihoods, Mapping):
        raise ArgumentError.of("likelihoods", likelihoods, "a mapping of attributes to probabilities")
    domain.clique(likelihoods)
    try:
        known = {name: np.asarray(values, dtype=np.float64) for name, values in likelihoods.items()}
    except (TypeError, ValueError):  # texts, objects, or rows of different lengths
        raise ArgumentError.of("likelihoods", likelihoods, "probabilities from 0 to 1") from None
    for name, values in known.items():
        if values.shape != (domain[name],):
            raise ShapeError.of(f"likelihoods of '{name}'", (domain[name],), values.shape, "Give one for each code.")
        if not ((values >= 0) & (values <= 1)).all():
            raise ArgumentError.of("likelihoods", values, "probabilities from 0 to 1")
    return known


def unlikely(likelihoods: Iterable[str]) -> ImpossibleModelError:
    """Return the error for likelihoods under which no record is kept."""
    names = ", ".join(likelihoods)
    return ImpossibleModelError(f"no record has the given values of {names} under the model: allow more values.")

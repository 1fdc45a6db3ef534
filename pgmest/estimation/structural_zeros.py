"""Combinations of values that cannot occur, as potentials of -inf."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from pgmest.clique_vector import CliqueVector
from pgmest.domain import Clique, Domain
from pgmest.errors import ArgumentError, CodeRangeError, ShapeError

StructuralZeros = Mapping[Clique, Any]
"""Attributes -> impossible combinations: an iterable of tuples of codes, or a boolean table (True: impossible)."""


def zero_potentials(zeros: StructuralZeros, domain: Domain) -> CliqueVector:
    """Potentials of -inf at the impossible combinations and 0 elsewhere, one table per set of attributes.

    >>> zero_potentials({("sex", "pregnant"): [(0, 1)]}, Domain({"sex": 2, "pregnant": 2}))[("sex", "pregnant")].values
    array([[  0., -inf],
           [  0.,   0.]])

    Raises:
        UnknownAttributeError: an attribute is not in the domain.
        CodeRangeError, ShapeError, ArgumentError: combinations that do not fit the attributes.
    """
    tables = {}
    for attributes, impossible in zeros.items():
        clique = domain.clique(attributes)
        mask = _mask(clique, impossible, domain.project(clique))
        tables[clique] = np.where(mask, -np.inf, 0.0)
    return CliqueVector(domain, tables)


def _mask(clique: Clique, impossible: Any, domain: Domain) -> np.ndarray:
    if isinstance(impossible, np.ndarray) and impossible.dtype == bool:
        if impossible.shape != domain.shape:
            raise ShapeError.of(
                f"structural_zeros[{clique}]", domain.shape, impossible.shape, "Give one flag per cell."
            )
        return impossible
    mask = np.zeros(domain.shape, dtype=bool)
    for row, codes in enumerate(_combinations(clique, impossible)):
        for name, code in zip(clique, codes, strict=True):
            if not 0 <= code < domain[name]:
                raise CodeRangeError.of(name, row, code, domain[name])
        mask[codes] = True
    return mask


def _combinations(clique: Clique, impossible: Iterable[Any]) -> Iterable[tuple[int, ...]]:
    for combination in impossible:
        codes = (combination,) if np.ndim(combination) == 0 else tuple(combination)
        if len(codes) != len(clique) or not all(isinstance(code, int | np.integer) for code in codes):
            raise ArgumentError.of(
                f"structural_zeros[{clique}]", combination, f"a tuple of {len(clique)} integer codes"
            )
        yield tuple(int(code) for code in codes)

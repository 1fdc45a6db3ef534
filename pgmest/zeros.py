"""Structural zeros: rules for `pgmest.estimate(structural_zeros=[...])` about combinations that cannot occur.

>>> from pgmest import zeros
>>> rules = [
...     zeros.impossible(("sex", "pregnant"), [(0, 1)]),
...     zeros.only(("model", "maker"), [(0, 0), (1, 0), (2, 1)]),
...     zeros.function("state", of="district", codes=[0, 0, 1]),
... ]
>>> rules[2]
Function(state of district)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from pgmest.errors import ArgumentError, CodeRangeError, ShapeError
from pgmest.tables.domain import Clique, Domain


@dataclass(frozen=True, eq=False, repr=False)
class Combinations:
    """Combinations of values of some attributes that cannot occur, or the only ones that can.

    Attributes:
        attributes: the attributes of the values.
        cells: tuples of codes, or a boolean table with an axis for each attribute.
        possible: whether the combinations are the only possible ones (True), or are impossible (False).
    """

    attributes: Clique
    cells: Any
    possible: bool

    def mask(self, domain: Domain) -> np.ndarray:
        """Return a table over the attributes, which is True for impossible combinations.

        Raises:
            UnknownAttributeError: an attribute is not in the domain.
            CodeRangeError, ShapeError, ArgumentError: the combinations do not fit the attributes.
        """
        clique = domain.clique(self.attributes)
        named = _marked(clique, self.cells, domain.project(clique))
        return ~named if self.possible else named

    def __repr__(self) -> str:
        return f"{'Only' if self.possible else 'Impossible'}({', '.join(self.attributes)})"


@dataclass(frozen=True, eq=False, repr=False)
class Function:
    """One attribute is a function of another.

    Attributes:
        attribute: the attribute that is determined.
        of: the attribute that determines it.
        codes: the code of `attribute` for each code of `of`: a sequence, a mapping, or a function of the code.
    """

    attribute: str
    of: str
    codes: Any

    @property
    def attributes(self) -> Clique:
        """Both attributes, the determining one first."""
        return self.of, self.attribute

    def table(self, domain: Domain) -> np.ndarray:
        """Return the code of `attribute` for each code of `of`, as integers.

        Raises:
            UnknownAttributeError: an attribute is not in the domain.
            CodeRangeError, ArgumentError: a code of `of` has no valid code of `attribute`.
        """
        size, count = domain[self.of], domain[self.attribute]
        where = f"the codes of zeros.function({self.attribute!r}, of={self.of!r})"
        if isinstance(self.codes, Mapping) and set(self.codes) != set(range(size)):
            raise ArgumentError(f"{where} must have the keys 0..{size - 1}, the codes of '{self.of}'.")
        if callable(self.codes):
            codes = [self.codes(code) for code in range(size)]
        else:
            codes = [self.codes[code] for code in range(size)] if isinstance(self.codes, Mapping) else list(self.codes)
        if len(codes) != size:
            raise ArgumentError(f"{where}: expected one for each of {size} codes of '{self.of}', got {len(codes)}.")
        for row, code in enumerate(codes):
            if isinstance(code, bool | np.bool_) or not isinstance(code, int | np.integer):
                raise ArgumentError.of(where, code, f"integers from 0 to {count - 1}")
            if not 0 <= code < count:
                raise CodeRangeError.of(self.attribute, row, code, count)
        return np.array(codes, dtype=np.int64)

    def mask(self, domain: Domain) -> np.ndarray:
        """Return a table over (of, attribute), which is True for impossible combinations; errors as for `table`."""
        mask = np.ones((domain[self.of], domain[self.attribute]), dtype=bool)
        mask[np.arange(domain[self.of]), self.table(domain)] = False
        return mask

    def __repr__(self) -> str:
        return f"Function({self.attribute} of {self.of})"


def impossible(attributes: Iterable[str] | str, combinations: Any) -> Combinations:
    """Return the rule that combinations of values cannot occur.

    Args:
        attributes: the attributes of the values, one name or several.
        combinations: tuples of codes (for one attribute also plain codes), or a boolean table (True: impossible).
    """
    return Combinations(_names(attributes), combinations, possible=False)


def only(attributes: Iterable[str] | str, combinations: Any) -> Combinations:
    """Return the rule that only these combinations can occur; arguments as for `impossible` (True: possible)."""
    return Combinations(_names(attributes), combinations, possible=True)


def function(attribute: str, *, of: str, codes: Mapping[int, int] | Iterable[int] | Callable[[int], int]) -> Function:
    """Return the rule that `attribute` is a function of the attribute `of`, such as the state of a district.

    The rule costs one small table over the two attributes. If it makes the model cheaper, marginals of `attribute` are
    computed from tables over `of`, so that the model is not wider than one without `attribute`.

    Args:
        attribute: the attribute that is determined.
        of: the attribute that determines it.
        codes: the code of `attribute` for each code of `of`: one after the other, a mapping, or a function.
    """
    if attribute == of:
        raise ArgumentError(f"zeros.function({attribute!r}, of={of!r}): an attribute cannot be a function of itself.")
    listed = codes if callable(codes) or isinstance(codes, Mapping) else tuple(codes)
    return Function(attribute, of, listed)


def _names(attributes: Iterable[str] | str) -> Clique:
    return (attributes,) if isinstance(attributes, str) else tuple(attributes)


def _marked(clique: Clique, cells: Any, domain: Domain) -> np.ndarray:
    """Return a boolean table, which is True at the combinations."""
    if isinstance(cells, np.ndarray) and cells.dtype == bool:
        if cells.shape != domain.shape:
            raise ShapeError.of(f"structural_zeros[{clique}]", domain.shape, cells.shape, "Give one flag per cell.")
        return cells
    mask = np.zeros(domain.shape, dtype=bool)
    for row, codes in enumerate(_combinations(clique, cells)):
        for name, code in zip(clique, codes, strict=True):
            if not 0 <= code < domain[name]:
                raise CodeRangeError.of(name, row, code, domain[name])
        mask[codes] = True
    return mask


def _combinations(clique: Clique, combinations: Iterable[Any]) -> Iterable[tuple[int, ...]]:
    for combination in combinations:
        codes = (combination,) if np.ndim(combination) == 0 else tuple(combination)
        if len(codes) != len(clique) or not all(isinstance(code, int | np.integer) for code in codes):
            raise ArgumentError.of(
                f"structural_zeros[{clique}]", combination, f"a tuple of {len(clique)} integer codes"
            )
        yield tuple(int(code) for code in codes)

r"""The margins that tables of children are scaled to: counts and averages of codes that all answers imply together.

A table of one child is scaled to the counts of the codes (`child_sums`). One factor for each code would change children
of small families and of large ones alike, and with them the averages over families, which other answers say more about.
So the table of the number of children x a code is scaled to three sums for each code, those of `ChildSums`: it becomes
the table of least relative entropy to what it was that has these sums and the numbers of families of each size, with a
factor $r_k e^{a_c + b_c / k}$ for code c in families of k > 1 children (`sized`). Tables of two children are scaled to
the last of the three sums.

The sums have noise, too. Once a table has the counts, its other two sums differ from those of the answers by $D_c$. The
part of D that is the error of the answers' sums is noise, and there are draws of it. The mean square of D over the
codes, less that of the noise, is the signal, and D counts by the signal's share (`signal_share`): that is the linear
combination of both sums with the least expected squared error if their errors are independent. Without noise all of D
counts; where all of it may be noise, one factor for each code is left, and tables of two children stay as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from pgmest.mechanisms.lamp.shrinkage import ipf_two_way
from pgmest.mechanisms.linked.families import NUMBER, Families
from pgmest.mechanisms.linked.reweighting import ChildSums
from pgmest.tables.domain import Clique

LEAST = 1e-3
"""The smallest number of children with a code, relative to the mean of all codes, and in children."""
MOST_CHANGE, STEPS = 30.0, 200
"""The largest logarithm of a factor of a code, where sums contradict each other, and the largest number of steps."""


@dataclass(frozen=True, eq=False)
class Sides:
    """The margins of tables of the children of some families.

    Attributes:
        counts: how many children have each code of each attribute, and each code of their parent.
        averages: for each attribute of children in any order, the sum of the shares of children with each code over
            families of several, and the share of the signal in it; none of children in order.
        by_number: the tables of the number of children x the codes of each attribute.
    """

    counts: Mapping[str, np.ndarray]
    averages: Mapping[str, tuple[np.ndarray, float]]
    by_number: Mapping[str, np.ndarray]

    @classmethod
    def of(cls, families: Families, sums: Mapping[str, ChildSums], tables: Mapping[str, np.ndarray]) -> Sides:
        """Return the margins of tables of families, whose parents stay as they are.

        Args:
            families: the families.
            sums: for each attribute of a child, the sums that the answers imply.
            tables: for each of these, the table of the number of children x its codes before it is scaled.
        """
        layout = families.layout
        counts = {
            name: np.bincount(families.parents[:, place], families.sizes, layout.domain[name]) * 1.0
            for place, name in enumerate(layout.parents)
        }
        rows, averages, by_number = counts[layout.number], {}, {}
        for name, found in sums.items():
            counts[name] = _positive(found.values[:, 0], rows.sum())
            by_number[name] = sized(tables[name], rows, counts[name], found)
            before = uniform(tables[name], rows, counts[name])
            averages[name] = found.values[:, 2], signal_share(_shares(before).sum(axis=0), found, 2)
        return cls(counts, {} if layout.ordered else averages, by_number)

    def scaled(self, table: np.ndarray, clique: Clique, families: Families) -> np.ndarray:
        """Return a table of children, or of averages over two of them, scaled to its margins."""
        layout = families.layout
        if layout.is_across(clique):
            names = [layout.members[layout.place(name)] for name in clique]
            if not all(name in self.averages for name in names):
                return table
            margins = table.sum(axis=1), table.sum(axis=0)
            rows, columns = (_toward(m, *self.averages[name]) for m, name in zip(margins, names, strict=True))
            return ipf_two_way(table, rows, columns)
        if layout.kind(clique[0]) == NUMBER:
            return self.by_number[clique[1]]
        rows, columns = (self.counts[name] for name in clique)
        return ipf_two_way(table, rows, columns)


def uniform(table: np.ndarray, rows: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Return a table of the number of children x codes with one factor for each size and one for each code."""
    return _with_rows(ipf_two_way(_with_rows(table, rows, counts), rows, counts), rows, counts)


def sized(table: np.ndarray, rows: np.ndarray, counts: np.ndarray, sums: ChildSums) -> np.ndarray:
    """Return a table of the number of children x codes, scaled to sums of the codes.

    It has the sums of its rows, whatever the other sums are.

    Args:
        table: the table, shape (numbers of children, codes).
        rows: the number of children in families of each size.
        counts: the number of children with each code, as many in all.
        sums: the sums, of which those after the first are used.
    """
    scaled = uniform(table, rows, counts)
    single, averages = shrunk_sums(scaled, sums)
    found, left, sizes = scaled.copy(), counts, np.arange(len(rows))
    if len(rows) > 1 and rows[1] > 0:
        found[1] = _at_most(np.where(scaled[1] > 0, single, 0.0), (1 - LEAST) * counts, float(rows[1]))
        left = counts - found[1]
    several = (sizes > 1) & (rows > 0)
    if several.any():
        found[several] = _tilted(scaled[several], 1 / sizes[several], left, averages)
    return found


def shrunk_sums(scaled: np.ndarray, sums: ChildSums) -> tuple[np.ndarray, np.ndarray]:
    """Return the sums over families of one child and over those of several, without what may be noise.

    Args:
        scaled: a table of the number of children x codes, with the counts of the codes.
        sums: the sums that the answers imply, and draws of their errors.
    """
    parts = scaled[1] if len(scaled) > 1 else np.zeros(scaled.shape[1]), _shares(scaled).sum(axis=0)
    single, several = (
        _toward(part, sums.values[:, place], signal_share(part, sums, place)) for place, part in enumerate(parts, 1)
    )
    return single, several


def signal_share(part: np.ndarray, sums: ChildSums, place: int) -> float:
    """Return the share of the signal in the differences between a sum of a table and that of the answers.

    Args:
        part: the sum of the table for each code.
        sums: the sums that the answers imply, and draws of their errors.
        place: the place of the sum among these.
    """
    wanted = np.maximum(sums.values[:, place], 0.0)
    if not wanted.any():
        return 0.0
    factor = float(part.sum()) / float(wanted.sum())
    apart, error = wanted * factor - part, sums.errors[..., place] * factor
    whole, noise = float(np.square(apart).mean()), float(np.square(error).mean())
    return 1 - noise / whole if whole > noise else 0.0


def _toward(part: np.ndarray, wanted: np.ndarray, share: float) -> np.ndarray:
    """Return a sum moved by a share of the way to what is wanted, times a factor, with its total."""
    total, wanted = float(part.sum()), np.maximum(wanted, 0.0)
    if share <= 0 or total <= 0 or not wanted.any():
        return part
    return _positive(part + share * (wanted * (total / float(wanted.sum())) - part), total)


def _shares(table: np.ndarray) -> np.ndarray:
    """Return the sums of shares of children, for families of several, of a table of the number of children x codes."""
    sizes = np.arange(len(table))
    return table * (np.where(sizes > 1, 1.0, 0.0) / np.maximum(sizes, 1))[:, None]


def _tilted(table: np.ndarray, covariate: np.ndarray, counts: np.ndarray, averages: np.ndarray) -> np.ndarray:
    r"""Return the table of least relative entropy that has the sums of its rows, and two sums of each column.

    The dual is the likelihood of a multinomial logistic regression, which is concave. Sums that no table has would send
    coefficients to infinity; they are limited (`MOST_CHANGE`).

    Args:
        table: the table, with positive sums of its rows.
        covariate: x, a positive number for each row.
        counts: the sums of the columns.
        averages: the sums of the columns of table times x.
    """
    from scipy.optimize import minimize

    rows, codes = table.sum(axis=1), table.shape[1]
    weights = rows / rows.sum()
    center = float(weights @ covariate)
    spread = float(np.sqrt(weights @ np.square(covariate - center)))
    x = (covariate - center) / spread if spread > 1e-9 else np.zeros(len(rows))
    with np.errstate(divide="ignore"):
        logs = np.log(table / rows[:, None])
    wanted = np.stack([counts / max(float(counts.sum()), 1e-300), np.zeros(codes)])
    if spread > 1e-9:
        wanted[1] = (averages / max(float(averages.sum()), 1e-300) - wanted[0]) * (center / spread)

    def shares(point: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        a, b = point.reshape(2, codes)
        scores = logs + a + np.outer(x, b)
        largest = scores.max(axis=1, keepdims=True)
        parts = np.exp(scores - largest)
        sums = parts.sum(axis=1, keepdims=True)
        return parts / sums, (np.log(sums) + largest)[:, 0]

    def objective(point: np.ndarray) -> tuple[float, np.ndarray]:
        found, normalizers = shares(point)
        off = np.stack([weights @ found, (weights * x) @ found]) - wanted
        return float(weights @ normalizers - wanted.ravel() @ point), off.ravel()

    limits = [(-MOST_CHANGE, MOST_CHANGE)] * (2 * codes)
    options = {"maxiter": STEPS, "ftol": 1e-13, "gtol": 1e-9}
    point = minimize(objective, np.zeros(2 * codes), jac=True, method="L-BFGS-B", bounds=limits, options=options).x
    return shares(point)[0] * rows[:, None]


def _with_rows(table: np.ndarray, rows: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Return a table with sums of its rows; a row without anything gets the shares of the counts."""
    sums = table.sum(axis=1)
    filled = np.where((sums > 0)[:, None], table, counts if counts.any() else 1.0)
    return filled * (rows / filled.sum(axis=1))[:, None]


def _positive(values: np.ndarray, total: float) -> np.ndarray:
    """Return numbers that are not too small, and sum to a total."""
    positive = np.maximum(values, max(LEAST * float(values.mean()), LEAST)) if len(values) else values
    return positive * (total / max(float(positive.sum()), 1e-300))


def _at_most(values: np.ndarray, largest: np.ndarray, total: float) -> np.ndarray:
    """Return numbers times one factor, none above the largest ones, that sum to a total."""
    found = np.minimum(values, largest)
    found = found if found.any() else values
    for _ in range(STEPS):
        missing = total - float(found.sum())
        if abs(missing) <= 1e-9 * total:
            break
        found = np.minimum(found * (total / max(float(found.sum()), 1e-300)), largest)
    return found * (total / max(float(found.sum()), 1e-300))

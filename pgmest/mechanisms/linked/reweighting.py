r"""The number of children with each code that all noisy answers of a run imply together.

A noisy answer about lengths says something about counts only by way of a ratio, which a model's families have. Long
cuts say how many children of large families have a code, unit lengths do not, and where both disagree, so do their
ratios. But every answer is a sum over families of what each adds, so it is linear in how many families there are of
each kind, and needs no ratio (`noisy_answers`).

Let the data have $b (1 + e_u)$ families like each family u of the model, with independent $e_u$ of variance v before
the answers, as for errors of whole units (`UnitErrors`). Relative to their noise, the answers differ from the model's
by $d = Z^T e + \varepsilon$, where row u of Z is what the family adds, times b, and $\varepsilon$ has variance 1. Given
the answers, e has the mean $(Z Z^T + I / v)^{-1} Z d$ and the covariance $(Z Z^T + I / v)^{-1}$. So each answer counts
as much as it says about the families that have a code: long cuts take over where lengths leave the number of children
open, and little moves where all answers agree within their noise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from pgmest.mechanisms.linked.families import Families
from pgmest.mechanisms.linked.family_model import FamilyModel
from pgmest.mechanisms.linked.pairing import MOST_ALL
from pgmest.mechanisms.linked.unit_errors import MODEL_ERROR
from pgmest.mechanisms.linked.unit_rows import noisy_answers

MOST_FAMILIES, MOST_ENTRIES = 5_000, 5_000_000
"""The largest number of families that get weights, and of children and pairs of them in all answers."""
TOLERANCE, STEPS = 1e-3, 200
"""The relative residual at which the weights are solved for, and the largest number of steps of conjugate gradients."""
DRAWS = 2
"""The number of draws of errors. Each has an error for every code, so the size of errors needs few draws."""


@dataclass(frozen=True, eq=False)
class ChildSums:
    """Three sums over the children with each code of an attribute, shape (codes, sums), and draws of their errors.

    The sums are the number of children, the number of those in families of one child, and, over families of several,
    the sum of the shares of their children.

    Attributes:
        values: the sums, shape (codes, 3).
        errors: draws of errors of the sums, shape (draws, codes, 3).
    """

    values: np.ndarray
    errors: np.ndarray


def child_sums(model: FamilyModel) -> dict[str, ChildSums]:
    """Return sums over the children of the data with each code of each attribute, given all noisy answers about them.

    Of those about parents, only answers about the number of children are used.

    Args:
        model: the families of a model with the answers; they need not fit these.
    """
    families, layout = model.families, model.layout
    model = replace(model, above=tuple(answer for answer in model.above if answer.clique == (layout.number,)))
    some = _every_nth(families, len(model.lengths) + len(model.numbers))
    each = model.total / max(len(some.sizes), 1)
    scale = model.total / max(len(families.sizes), 1)
    changes = each * _changes(model, some, each)
    whole = np.full(len(families.sizes), scale)
    found = {}
    for place, name in enumerate(layout.members):
        values = _sums(families, place, whole) + _sums(some, place, changes[0])
        found[name] = ChildSums(values, np.stack([_sums(some, place, draw) for draw in changes[1:]]))
    return found


def _sums(families: Families, place: int, weights: np.ndarray) -> np.ndarray:
    """Return the sums of `ChildSums` over families with weights, shape (codes, 3)."""
    codes, number = families.children[:, place], families.layout.child.shape[place]
    sizes, each = families.sizes[families.owners], weights[families.owners]
    parts = each, each * (sizes == 1), each * (sizes > 1) / np.maximum(sizes, 1)
    return np.stack([np.bincount(codes, part, number) for part in parts], axis=1)


def _changes(model: FamilyModel, some: Families, each: float) -> np.ndarray:
    """Return the mean of e given all answers, and draws of its error: relative differences in the numbers of families.

    Args:
        model: the families of a model with the answers.
        some: the families that get weights.
        each: b, the number of families of the data for each of them.

    Returns:
        the mean and the draws, shape (1 + draws, families).
    """
    from scipy import sparse
    from scipy.sparse.linalg import aslinearoperator, cg

    units, scale = len(some.sizes), model.total / max(len(model.families.sizes), 1)
    rows, apart = [], []
    for answer in noisy_answers(model):
        weight = np.broadcast_to(1 / np.ravel(np.asarray(answer.stddev, dtype=np.float64)), answer.values.shape)
        rows.append(answer.rows(some) @ sparse.diags(each * weight))
        apart.append(weight * (answer.values - scale * answer.total(model.families)))
    if not rows or not units:
        return np.zeros((1 + DRAWS, units))
    generator, precision = np.random.default_rng(0), 1 / (units * MODEL_ERROR**2)
    added = sparse.csr_matrix(sparse.hstack(rows))
    prior = aslinearoperator(sparse.identity(units, format="csr") * precision)
    after = prior + aslinearoperator(added) @ aslinearoperator(added.T)
    differences = np.concatenate(apart)
    wanted = [added @ differences]
    for _ in range(DRAWS):  # their covariance is that of `after`, so the covariance of the solutions is its inverse
        own, noise = (generator.standard_normal(size) for size in (units, len(differences)))
        wanted.append(math.sqrt(precision) * own + added @ noise)
    return np.stack([cg(after, side, rtol=TOLERANCE, maxiter=STEPS)[0] for side in wanted])


def _every_nth(families: Families, answers: int) -> Families:
    """Return families, evenly spaced among all, that are few enough for a number of answers."""
    sizes = families.sizes
    entries = float((sizes * np.minimum(np.maximum(sizes - 1, 1), MOST_ALL - 1)).sum()) * answers
    step = max(-(-len(sizes) // MOST_FAMILIES), int(np.ceil(entries / MOST_ENTRIES)), 1)
    return families.take(np.arange(0, len(sizes), step))

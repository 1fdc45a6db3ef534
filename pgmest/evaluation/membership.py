"""A membership inference attack by the distances of records to their nearest synthetic record.

This is a check and not a proof: it finds copies, and may find nothing where a stronger attack would. The guarantee of
privacy is the ledger's.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from pgmest.data.dataset import Dataset
from pgmest.errors import ArgumentError, DataError, DomainError

PAIRS_AT_ONCE = 1 << 22
"""The most distances between two records that are computed in one block (16 MB in float32)."""


@dataclass(frozen=True, eq=False)
class MembershipCheck:
    """Distances of training and held-out records to their nearest synthetic record, alike if nothing leaks.

    Attributes:
        train: the distances of a sample of the training records, in 0..1.
        holdout: the distances of equally many held-out records.
    """

    train: np.ndarray
    holdout: np.ndarray

    @property
    def copies(self) -> tuple[float, float]:
        """The shares of training and of held-out records that are among the synthetic ones."""
        return float(np.mean(self.train == 0)), float(np.mean(self.holdout == 0))

    @property
    def medians(self) -> tuple[float, float]:
        """The median distances."""
        return float(np.median(self.train)), float(np.median(self.holdout))

    @property
    def auc(self) -> float:
        """The attack's area under the ROC curve: P(a member is nearer than a non-member), where ties count half.

        0.5 is guessing; 1 is an attack without errors.
        """
        from scipy.stats import rankdata

        ranks = rankdata(np.concatenate([self.train, self.holdout]))
        n, m = len(self.train), len(self.holdout)
        return float(1.0 - (ranks[:n].sum() - n * (n + 1) / 2) / (n * m))

    @property
    def auc_stddev(self) -> float:
        """The standard deviation of `auc` if nothing leaks and there are no ties; ties make it smaller."""
        n, m = len(self.train), len(self.holdout)
        return math.sqrt((n + m + 1) / (12.0 * n * m))

    def __str__(self) -> str:
        return (
            f"nearest synthetic record of {len(self.train):,} members and {len(self.holdout):,} others: "
            f"median distance {self.medians[0]:.3f} and {self.medians[1]:.3f}, "
            f"identical {self.copies[0]:.1%} and {self.copies[1]:.1%}, "
            f"attack AUC {self.auc:.3f} (0.5 is guessing, ± {2 * self.auc_stddev:.3f} by chance)"
        )


def membership_check(
    train: Dataset,
    holdout: Dataset,
    synthetic: Dataset,
    *,
    numeric: Iterable[str] = (),
    sample: int = 1000,
    seed: int | np.random.Generator | None = None,
) -> MembershipCheck:
    """Compare the distances of training records and of held-out records to their nearest synthetic record.

    The attack guesses "member" if the nearest synthetic record is near. Training and held-out records must come from
    the same population; otherwise the attack distinguishes populations, not members.

    Args:
        train: the records from which the synthetic ones were made.
        holdout: other records of the same population.
        synthetic: the synthetic records.
        numeric: attributes whose codes have an order, as for `nearest_distances`.
        sample: the most records of each kind to compare.
        seed: the seed of their choice.

    Raises:
        DomainError: the domains differ.
        DataError: one of the three has no records.
        ArgumentError: `sample` is not a positive integer.
    """
    if not isinstance(sample, int) or sample < 1:
        raise ArgumentError.of("sample", sample, "a positive integer")
    rng, ordered = np.random.default_rng(seed), tuple(numeric)
    if not train.records or not holdout.records:
        raise DataError("the check needs at least one training and one held-out record.")
    size = min(sample, train.records, holdout.records)
    chosen = [data.take(rng.choice(data.records, size, replace=False)) for data in (train, holdout)]
    return MembershipCheck(*(nearest_distances(records, synthetic, numeric=ordered) for records in chosen))


def nearest_distances(records: Dataset, synthetic: Dataset, *, numeric: Iterable[str] = ()) -> np.ndarray:
    """Return the distance (Gower) of each record to its nearest synthetic record, in 0..1, shape (records,).

    The distance is a mean over the attributes: of 0 for equal and 1 for different codes, and of |a - b| / (n - 1) for
    numeric attributes.

    >>> from pgmest import Dataset
    >>> one = Dataset.from_codes(np.array([[0, 2]]), {"sex": 2, "age": 5})
    >>> two = Dataset.from_codes(np.array([[1, 2], [0, 4]]), {"sex": 2, "age": 5})
    >>> nearest_distances(one, two), nearest_distances(one, two, numeric=["age"])
    (array([0.5]), array([0.25]))

    Raises:
        DomainError: the domains differ.
        DataError: there are no synthetic records.
        UnknownAttributeError: a name in `numeric` is not an attribute.
    """
    domain = records.domain
    if domain != synthetic.domain:
        raise DomainError("the records and the synthetic ones must have the same domain.")
    if not synthetic.records or not domain:
        raise DataError("there are no synthetic records (or no attributes) to measure distances to.")
    ordered = set(domain.clique(dict.fromkeys(numeric)))
    distinct = np.unique(synthetic.codes, axis=0).T
    nearest = np.empty(records.records)
    step = max(1, PAIRS_AT_ONCE // distinct.shape[1])
    for start in range(0, records.records, step):
        rows = slice(start, start + step)
        total = np.zeros((len(nearest[rows]), distinct.shape[1]), dtype=np.float32)
        for (name, size), theirs in zip(domain.items(), distinct, strict=True):
            mine = records.column(name)[rows, None]
            if name in ordered and size > 1:
                total += np.abs(mine.astype(np.float32) - theirs.astype(np.float32)) / (size - 1)
            else:
                total += mine != theirs
        nearest[rows] = total.min(axis=1)
    return nearest / len(domain)

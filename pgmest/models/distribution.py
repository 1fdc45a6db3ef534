"""Distribution: a model that is a probability distribution over records, and the methods that follow from that."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np

from pgmest._base.memory import default_records
from pgmest.data.dataset import Dataset
from pgmest.errors import at_least
from pgmest.models.base import ModelBase
from pgmest.sampling.sampler import BATCH
from pgmest.tables.domain import Clique
from pgmest.tables.factor import Factor
from pgmest.tables.information import mutual_information


class Distribution(ModelBase):
    """A distribution over all attributes, and a number of records, in any representation.

    `Model` keeps potentials on a junction tree, `SupportModel` weighted public records, `ApproximateModel` and
    `ViewModel` tables, `BayesianNetwork` conditional tables.
    """

    @abstractmethod
    def _drawn(self, n: int, method: str, seed: int | np.random.Generator | None) -> Dataset:
        """Draw n >= 0 records; see `sample`."""

    def _drawn_in_batches(
        self, n: int, batch: int, method: str, seed: int | np.random.Generator | None
    ) -> Iterator[Dataset]:
        """Draw n records, `batch` >= 1 at a time; see `sample_batches`.

        By default all records are drawn together and then split.
        """
        records = self._drawn(n, method, seed)
        return (records.take(slice(start, start + batch)) for start in range(0, n, batch))

    def conditional(self, attributes: Iterable[str] | str, given: Iterable[str] | str) -> Factor:
        """Return P(attributes | given): probabilities, with the axes of `attributes` first, then those of `given`.

        Each slice at codes of the given attributes sums to 1, or is all 0 if these codes are impossible.

        Raises:
            UnknownAttributeError, DuplicateAttributeError: an attribute is not in the domain, or is named twice.
            ModelTooLarge: the joint table of all these attributes is too large.
        """
        known = self.domain.clique(given)
        joint = self._shares((*self.domain.clique(attributes), *known))
        return joint / joint.project(known)

    def mutual_information(self, a: Iterable[str] | str, b: Iterable[str] | str) -> float:
        """Return I(a; b) = KL(p(a, b) || p(a) p(b)), in nats, of single attributes or sets of attributes.

        Raises:
            UnknownAttributeError, DuplicateAttributeError: an attribute is not in the domain, or is in both sets.
            ModelTooLarge: the joint table of all these attributes is too large.
        """
        one, other = self.domain.clique(a), self.domain.clique(b)
        return mutual_information(self._shares((*one, *other)), one, other)

    def _shares(self, names: Clique) -> Factor:
        """Return a table that is proportional to the distribution, also if there are no records."""
        return self.project(names) if self.total > 0 else replace(self, total=1.0).project(names)  # type: ignore[type-var]

    # -- records ----------------------------------------------------------------------------------------------------

    def sample(
        self, n: int | None = None, method: str = "round", seed: int | np.random.Generator | None = None
    ) -> Dataset:
        """Draw synthetic records, in random order.

        With "round" the records of a `Model` or `SupportModel` hold exact answers as whole numbers. For another n than
        the total, these are scaled by n / total, and hold up to rounding. An `UnmetFactsWarning` says how many answers
        cannot hold, because they are fractions, contradict each other, or need impossible records.

        Args:
            n: the number of records; by default `total`, rounded.
            method: "round" (counts as close to the model as integers can be) or "multinomial" (independent records).
            seed: the same seed gives the same records.

        Raises:
            ArgumentError: `n` is not an integer of at least 0, or there is no such method.
        """
        return self._noting_evidence(self._drawn(self._size(n), method, seed))

    def _noting_evidence(self, records: Dataset) -> Dataset:
        """Return drawn records with the codes that all of them share, if the model was conditioned on some."""
        return replace(records, evidence=self.evidence) if self.evidence else records

    def sample_batches(
        self,
        n: int | None = None,
        batch: int | None = None,
        method: str = "round",
        seed: int | np.random.Generator | None = None,
    ) -> Iterator[Dataset]:
        """Draw synthetic records a batch at a time; the last batch may be smaller. Arguments as for `sample`.

        With "round" all batches together are as close to the model as one draw of n records.

        Raises:
            ArgumentError: `n` or `batch` is not a valid number, or there is no such method.
        """
        size = at_least("batch", BATCH if batch is None else batch, 1)
        return map(self._noting_evidence, self._drawn_in_batches(self._size(n), size, method, seed))

    def _size(self, n: int | None) -> int:
        return default_records(self.total) if n is None else at_least("n", n, 0)

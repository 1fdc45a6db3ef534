"""Records of a model written to a file, at constant memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import numpy as np

from pgmest._base.errors import at_least
from pgmest.data.dataset import Dataset
from pgmest.sampling.sampler import BATCH
from pgmest.sampling.writing import write_batches
from pgmest.tables.domain import Domain


class Samplable(Protocol):
    """Whatever draws records: every model."""

    @property
    def total(self) -> float: ...

    @property
    def domain(self) -> Domain: ...

    def sample_batches(
        self, n: int | None, batch: int | None, method: str, seed: int | np.random.Generator | None, /
    ) -> Iterator[Dataset]: ...


def write_samples(
    model: Samplable,
    n: int | None,
    path: str | Path,
    *,
    batch: int = BATCH,
    method: str = "round",
    seed: int | np.random.Generator | None = None,
) -> None:
    """Write n records of a model as `.csv`, `.tsv` (either `.gz`, too) or `.parquet`, at constant memory.

    Progress shows on a terminal. The file appears when it is complete. The other arguments and errors are those of
    `Model.sample_batches`.

    Raises:
        FileFormatError: another ending, or the file cannot be written.
        OptionalDependencyError: a Parquet file, and no pyarrow.
    """
    size = round(model.total) if n is None else at_least("n", n, 0)
    write_batches(model.sample_batches(size, batch, method, seed), model.domain, size, path)

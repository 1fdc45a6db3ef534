"""Records from a model: all at once, in batches, or streamed to a file.

    model -> Sampler (sampler.py): its clique tables (clique_tables.py)
          -> rounded to integers (rounding.py) -> records (records.py) -> a Dataset, or a file (writing.py)

Two methods:

- "round": for each clique of the junction tree the numbers of records in its cells are fixed first, by unbiased
  rounding of the model's expectations, then dealt out to records in random order. Each cell of a root clique is less
  than one record from n times its probability; further down each cell is its expectation, given the records'
  separator values, rounded up or down. The margins on the separators and on most measured cliques are
  kept as close (`rounding.nested_margins`), so errors do not grow with n.
- "multinomial": independent records; the error of a cell grows as the square root of its count.

With both, each single record has exactly the model's distribution, over all attributes, and cells of probability 0
never occur. The order of the records is random; it tells nothing about them.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from pgmest.dataset import Dataset
from pgmest.sampling.sampler import BATCH as BATCH
from pgmest.sampling.sampler import Sampler as Sampler
from pgmest.sampling.sampler import at_least
from pgmest.sampling.writing import write_batches

if TYPE_CHECKING:
    from pgmest.model import Model
    from pgmest.prior.support_model import SupportModel


def sample(
    model: Model, n: int | None = None, method: str = "round", seed: int | np.random.Generator | None = None
) -> Dataset:
    """n records of a model, in random order.

    Args:
        model: a calibrated model.
        n: the number of records; by default the model's total, rounded.
        method: "round" (counts as close to the model as integers can be) or "multinomial" (independent records).
        seed: the same seed gives the same records.

    Raises:
        ArgumentError: n is not an integer of at least 0, or there is no such method.
    """
    return Sampler(model.oracle).draw(default_size(model, n), method, seed)


def sample_batches(
    model: Model,
    n: int | None = None,
    batch: int = BATCH,
    method: str = "round",
    seed: int | np.random.Generator | None = None,
) -> Iterator[Dataset]:
    """n records of a model in datasets of `batch` records (the last one may be smaller), at constant memory.

    With "round" all batches together are as close to the model as one draw of n records, and each is nearly as
    close as a draw of its own size. The other arguments and errors are those of `sample`.
    """
    return Sampler(model.oracle).batches(default_size(model, n), batch, method, seed)


def write_samples(
    model: Model | SupportModel,
    n: int | None,
    path: str | Path,
    *,
    batch: int = BATCH,
    method: str = "round",
    seed: int | np.random.Generator | None = None,
) -> None:
    """Write n records of a model as `.csv`, `.csv.gz` or `.parquet`, at constant memory.

    Progress shows on a terminal. The file appears when it is complete. The other arguments and errors are those of
    `sample_batches`.

    Raises:
        FileFormatError: another ending, or the file cannot be written.
        OptionalDependencyError: a Parquet file, and no pyarrow.
    """
    size = default_size(model, n)
    write_batches(model.sample_batches(size, batch, method, seed), model.domain, size, path)


def default_size(model: Model | SupportModel, n: int | None) -> int:
    """n, checked, or the model's total rounded to an integer."""
    return round(model.total) if n is None else at_least("n", n, 0)

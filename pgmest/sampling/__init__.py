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

from pathlib import Path

import numpy as np

from pgmest.distribution import BATCH as BATCH
from pgmest.distribution import Distribution
from pgmest.errors import at_least
from pgmest.sampling.sampler import Sampler as Sampler
from pgmest.sampling.writing import write_batches


def write_samples(
    model: Distribution,
    n: int | None,
    path: str | Path,
    *,
    batch: int = BATCH,
    method: str = "round",
    seed: int | np.random.Generator | None = None,
) -> None:
    """Write n records of a model as `.csv`, `.csv.gz` or `.parquet`, at constant memory.

    Progress shows on a terminal. The file appears when it is complete. The other arguments and errors are those of
    `Distribution.sample_batches`.

    Raises:
        FileFormatError: another ending, or the file cannot be written.
        OptionalDependencyError: a Parquet file, and no pyarrow.
    """
    size = round(model.total) if n is None else at_least("n", n, 0)
    write_batches(model.sample_batches(size, batch, method, seed), model.domain, size, path)

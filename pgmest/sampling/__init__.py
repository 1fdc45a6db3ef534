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

from pgmest.sampling.sampler import BATCH, Sampler
from pgmest.sampling.streams import write_samples

__all__ = ["BATCH", "Sampler", "write_samples"]

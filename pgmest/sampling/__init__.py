"""Sampling of records from a model: all at once, in batches, or streamed to a file.

    model -> Sampler (sampler.py): its clique tables (clique_tables.py)
          -> rounded to integers (rounding.py) -> records (records.py) -> a Dataset, or a file (writing.py)

Two methods:

- "round": the number of records in each cell of each clique of the junction tree is fixed first, by unbiased rounding
  of the model's expectation; then records get their values in random order. The count of a cell of a root clique
  differs from n times its probability by less than one record. The count of a cell of another clique is its
  expectation, given the records' separator values, rounded up or down. The same holds for the margins on the separators
  and on most measured cliques (`rounding.nested_margins`), so errors do not grow with n.
- "multinomial": records are independent; the error of a cell grows as the square root of its count.

With "round", exact answers hold as whole numbers (controlled.py, repair.py), wherever whole numbers can.

Without exact answers each single record has exactly the model's distribution over all attributes. Cells of probability
0 never occur. The order of the records is random and carries no information.
"""

from pgmest.sampling.facts import UnmetFactsWarning
from pgmest.sampling.sampler import BATCH, Sampler
from pgmest.sampling.writing import write_samples

__all__ = ["BATCH", "Sampler", "UnmetFactsWarning", "write_samples"]

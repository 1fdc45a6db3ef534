"""Raw tables in, synthetic tables out: a schema says publicly what each column may hold.

The flow: schema.py reads it (notation.py: YAML with lines for errors; categorical.py, grid.py and date.py: the kinds of
columns; constraints.py: what cannot occur, with orders.py and sums.py) -> encoding.py: rows to codes -> ... ->
decoding.py: codes to rows (joint_draws.py: columns in an order). `draft` writes a schema to start from (proposals.py:
orders and sums in it). linked/ has the same for tables that hang on one another.
docs/guides/tables.md and docs/guides/households.md show it all.
"""

from pgmest.schema.draft import draft
from pgmest.schema.linked import draft as _draft  # noqa: F401  it drafts linked tables
from pgmest.schema.linked import reading as _reading  # noqa: F401  it reads them
from pgmest.schema.linked.schema import LinkedSchema
from pgmest.schema.schema import Schema

__all__ = ["LinkedSchema", "Schema", "draft"]

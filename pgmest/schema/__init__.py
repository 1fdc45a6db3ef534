"""Raw tables in, synthetic tables out: a schema says publicly what each column may hold.

The flow: schema.py reads it (notation.py: YAML with lines for errors; categorical.py, grid.py and date.py: the kinds of
columns; constraints.py: what cannot occur) -> encoding.py: rows to codes -> ... -> decoding.py: codes to rows.
`draft` writes a schema to start from. docs/guides/tables.md shows it all.
"""

from pgmest.schema.draft import draft
from pgmest.schema.schema import Schema

__all__ = ["Schema", "draft"]

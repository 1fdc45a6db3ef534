"""Bounds: what any table compatible with the measurements can have, without a model.

`Model.bounds` and `table_bounds` give them. polytope.py has the constraints, program.py the certified linear programs,
ends.py how far noisy answers may be from the truth, contradiction.py which answers no table can have together.
"""

from pgmest.models.bounds.bounds import TableBounds
from pgmest.models.bounds.ends import answer_ends

__all__ = ["TableBounds", "answer_ends"]

"""Bounds: the least and the largest answer of any table compatible with the measurements, without a model.

polytope.py has the constraints, presolve.py what follows from single equations, program.py the certified linear
programs, ends.py the confidence boxes of noisy answers, contradiction.py the search for answers that no table can have
together, implied.py the totals that facts allow and the cells that they leave empty.
"""

from pgmest.models.bounds.bounds import TableBounds, bounds_of
from pgmest.models.bounds.contradiction import check_facts
from pgmest.models.bounds.ends import answer_ends

__all__ = ["TableBounds", "answer_ends", "bounds_of", "check_facts"]

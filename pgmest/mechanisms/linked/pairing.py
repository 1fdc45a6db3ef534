"""The limits on pairs of children of a family, and on the numbers of children with a code."""

NEAR, MOST_ALL = 4, 12
"""Children of a family of more than MOST_ALL are paired with those at most NEAR places before and after, in a circle;
all children of a smaller family are paired with each other."""

MOST_COUNTED = 3
"""Families are counted by whether 1, 2, or at least this many children have a code."""

"""The protected unit of linked tables: what neighboring tables differ in, from which noise and promises follow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pgmest.errors import ArgumentError, listed
from pgmest.privacy.neighbors import AddRemove, Change, Neighbors


@dataclass(frozen=True)
class LinkedUnit:
    """The unit of linked tables. It states what neighbors differ in; noise and promises follow from this statement.

    A family is a row of a table with its rows of one child table.

    - If the unit is a row of the root, one neighbor has a row of the root, and rows that name its key, which the other
      one lacks. The families of one unit come, or they go; all other families stay. Every row names its unit by its own
      columns, and which rows of a unit count follows from its rows alone (`pgmest.schema.linked.linking`).
    - If the unit is a row of a table on which nothing hangs, such as a person, one neighbor has a row of this table
      which the other one lacks, or which has other values there but hangs on the same row. At most one family of each
      child table comes, goes or changes.

    A row that moves to another parent row is not covered: it changes two families, like one row that is removed and
    another one that is added. A unit below the root on which something hangs is refused: a row that hangs on it could
    hang on another row with the same key instead.

    >>> households = LinkedUnit("households", {"households": None, "persons": "households"})
    >>> households.neighbors(1), LinkedUnit("persons", households.parents).neighbors(1)
    (AddRemove(records=1), Change(records=1))

    Args:
        table: the table whose rows are the units.
        parents: table -> its parent; None for the root.

    Raises:
        ArgumentError: something hangs on the unit, which is not the root.
    """

    table: str
    parents: Mapping[str, str | None]

    def __post_init__(self) -> None:
        hanging = [name for name, parent in self.parents.items() if parent == self.table]
        if not self.is_root and hanging:
            root = next(name for name, parent in self.parents.items() if parent is None)
            raise ArgumentError(
                f"{listed(hanging)} hang on '{self.table}'. What is protected is a row of the root ('{root}') with all "
                f"that hangs on it, or a row on which nothing hangs: leave `unit:` out to protect rows of '{root}'."
            )

    @property
    def is_root(self) -> bool:
        """Whether whole rows of the root are protected."""
        return self.parents[self.table] is None

    def neighbors(self, families: int) -> Neighbors:
        """Return the relation between the families of one child table.

        Args:
            families: the largest number of these families that belong to one row of the root.
        """
        return AddRemove(families) if self.is_root else Change()

    def __str__(self) -> str:
        if self.is_root:
            return f"one row of '{self.table}' and all that hangs on it"
        above = f"row of '{self.parents[self.table]}'"
        changed = f"one row of '{self.table}', added, removed or changed, but not moved to another {above}"
        return f"{changed}, with what that changes in the {above} to which it belongs"

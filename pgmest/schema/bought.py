"""Bought columns: properties of a column that are not public and are bought from the records before they are coded.

    age: {type: integer, bounds: bought}                     # min and max
    city: {type: categorical, values: bought, among: [Rome, Oslo]}    # of a public list those that occur
    job: {type: categorical, values: bought, other: other}   # the frequent ones, which nobody has listed

How that is done privately is in `pgmest.synthesizer.purchase`. What was bought is public, and makes an ordinary column.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pgmest.errors import SchemaError
from pgmest.schema.column import SchemaColumn
from pgmest.schema.notation import SchemaNode, node_of

BOUGHT = "bought"
NUMERIC = ("integer", "real", "date")
RANGE_KEYS = ("min", "max", "edges")
MOST_CODES = 10_000
"""The largest number of codes of a column with bought bounds; if the stated width makes more, bins are counted."""
DEFAULT_BINS, MANY_BINS = 20, 50
NOTHING = "(none was frequent enough)"
"""The value that is listed if no value was frequent enough."""

Read = Callable[[str, SchemaNode], SchemaColumn]


@dataclass(frozen=True)
class BoughtColumn:
    """A column of which something is to be bought. It has no codes before that.

    Attributes:
        name: of the column.
        kind: its type.
        labels: whether `values` are bought; else the bounds are.
        among: the public list of values to choose from; empty without a list.
        said: the rest of its description, which is public.
        node: where the schema describes it.
        read: makes a column of a description.
    """

    name: str
    kind: str
    labels: bool
    among: tuple[Any, ...]
    said: Mapping[str, SchemaNode]
    node: SchemaNode
    read: Read = field(repr=False, compare=False)

    @property
    def wanted(self) -> str:
        """The properties that are bought, in words."""
        return "bounds" if not self.labels else "values among a public list" if self.among else "values"

    def plain(self, key: str, default: Any = None) -> Any:
        """Return the value of a key of the description."""
        return self.said[key].plain() if key in self.said else default

    def described(self, **settled: Any) -> dict[str, Any]:
        """Return the description with these keys, without those that are None."""
        said = {key: node.plain() for key, node in self.said.items()}
        return {key: value for key, value in {**said, **settled}.items() if value is not None}

    def column(self, **settled: Any) -> SchemaColumn:
        """Return the column of that description.

        Raises:
            SchemaError: if the description is not valid.
        """
        source = self.node.source
        nodes = {key: self.said.get(key, node_of(value, source)) for key, value in self.described(**settled).items()}
        nodes |= {key: node_of(value, source) for key, value in settled.items() if value is not None}
        return self.read(self.name, SchemaNode(nodes, source, self.node.line, self.node.name))

    def settled(self, low: Any, high: Any, whole: int) -> dict[str, Any]:
        """Return the description with these bounds: as it is stated if such a column is possible, else with other bins.

        Whatever the bounds are, there is one.

        Args:
            low, high: as the schema writes them.
            whole: how many whole numbers there are between them, or days.
        """
        bounds = {"min": low, "max": high}
        tries = [{"bins": count} for count in (MANY_BINS, DEFAULT_BINS)]
        tries += [{"bins": min(whole, MANY_BINS)}, {"bins": 1}]
        if {"bins", "width"} & self.said.keys() or (self.kind != "real" and whole <= 2 * MANY_BINS):
            tries = [{}, *tries]
        else:
            tries = [{"bins": DEFAULT_BINS if self.kind == "real" else MANY_BINS}, *tries]
        for one in tries:
            if not one and self._stated_bins(low, high, whole) > MOST_CODES:
                continue
            for less in ({}, {"decimals": None}):
                options = {**({"width": None} if one else {}), **one, **bounds, **less}
                try:
                    if self.column(**options).size <= MOST_CODES:
                        return self.described(**options)
                except SchemaError:
                    continue
        raise AssertionError(f"no column from {low} to {high}")  # one bin of two different numbers can always be

    def _stated_bins(self, low: Any, high: Any, whole: int) -> float:
        """About how many bins the description makes of a range, before they are made."""
        if "bins" in self.said:
            return float(self.said["bins"].number())
        width = float(self.said["width"].number()) if "width" in self.said else 1.0
        days = {"month": 28, "year": 365}.get(str(self.plain("unit")), 1)
        return whole / (width * days) if self.kind == "date" else (float(high) - float(low)) / width

    def stand_in(self) -> dict[str, Any]:
        """Return the description with made-up bounds or values, for plans and for checks of the rest of it."""
        if self.labels:
            return self.described(values=list(self.among) or [NOTHING])
        return self.settled(*self._made_up(), 10**6)

    def check(self) -> None:
        """Raise SchemaError if the rest of the description cannot be used.

        Raises:
            SchemaError: if it cannot.
        """
        if self.labels:
            self.column(values=list(self.among) or [NOTHING])
            return
        low, high = self._made_up()
        default = {} if {"bins", "width"} & self.said.keys() or self.kind != "real" else {"bins": DEFAULT_BINS}
        fine = {"decimals": None} if self.plain("decimals", 0) in range(7, 301) else {}
        self.column(min=low, max=high, **default, **fine)

    def _made_up(self) -> tuple[Any, Any]:
        """Return bounds that the stated bins fit into."""
        if self.kind == "date":
            return "2000-01-01", "2999-12-31"
        stated = [self.plain(key, 1) for key in ("bins", "width")]
        return 0, 100 * max([1, *(one for one in stated if isinstance(one, int | float) and 0 < one < 10**6)])


def bought_column(name: str, node: SchemaNode, read: Read) -> BoughtColumn | None:
    """Return the column with what is to be bought of it, or None if nothing is.

    Raises:
        SchemaError: that cannot be bought of such a column, or the rest of its description cannot be used.
    """
    fields = node.value if isinstance(node.value, dict) else {}
    fields = {key: inner.called(f"{node.name}: {key}") for key, inner in fields.items()}
    for key in RANGE_KEYS:
        if key in fields and fields[key].value == BOUGHT:
            fields[key].fail("cannot be bought by itself. Write bounds: bought, which buys min: and max:.")
    keys = [key for key in ("bounds", "values") if key in fields and fields[key].value == BOUGHT]
    if "bounds" in fields and "bounds" not in keys:
        fields["bounds"].fail("must be 'bought'; bounds that are public are min: and max:.")
    if "among" in fields and "values" not in keys:
        fields["among"].fail("goes with values: bought.")
    kind = fields["type"].value if "type" in fields else None
    if not keys or kind not in (*NUMERIC, "categorical"):  # `read` says what is wrong with the type
        return None
    for key in keys:
        if (kind == "categorical") != (key == "values"):
            fields[key].fail(f"cannot be bought of a column of type {kind}.")
    if "outside" in fields and fields["outside"].value == "error":
        fields["outside"].fail("must not be error where something is bought: values would stop a run that is paid for.")
    for key in RANGE_KEYS if kind != "categorical" else ():
        if key in fields:
            fields[key].fail("does not go with bounds: bought.")
    return _checked(name, str(kind), node, fields, read)


def _checked(name: str, kind: str, node: SchemaNode, fields: dict[str, SchemaNode], read: Read) -> BoughtColumn:
    said = {key: inner for key, inner in fields.items() if key not in ("bounds", "values", "among")}
    among = tuple(item.scalar() for item in fields["among"].items()) if "among" in fields else ()
    labels = kind == "categorical"
    if labels and "other" not in said:
        taken = {str(value).lower() for value in among}
        said["other"] = node_of(next(one for one in ("other", "not listed", "any other") if one not in taken))
    if kind == "date" and "unit" in fields and fields["unit"].value in ("hour", "minute", "second"):
        fields["unit"].fail("does not go with bounds that are bought: they are days. Say unit: day, or min: and max:.")
    made = BoughtColumn(name, kind, labels, among, said, node, read)
    made.check()
    return made

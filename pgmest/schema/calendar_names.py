"""Names of months and weekdays in dates: those that a schema lists, and how texts with them are read and written."""

from __future__ import annotations

import datetime
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Self

from pgmest.schema.notation import SchemaNode, quoted

SPELLED = str.maketrans({"ä": "ae", "Ä": "Ae", "ö": "oe", "ü": "ue"})
"""The spelling of umlauts in plain letters."""
PLAIN = str.maketrans({"ı": "i", "ł": "l"})
"""The plain letters of letters that are no letter with an accent."""


@dataclass(frozen=True)
class CalendarNames:
    """The names that stand for a directive in the dates of a column, capital and small letters alike.

    Attributes:
        names: all names, in the order of the calendar.
    """

    names: tuple[str, ...]

    KEY: ClassVar[str]
    """The key of a schema that lists the names."""
    ENGLISH: ClassVar[Mapping[str, tuple[str, ...]]]
    """The names that formats read, by directive, the full ones first."""
    EXAMPLE: ClassVar[tuple[str, str, str]]
    """The number of names in words, the first one, and a format that has them."""

    @classmethod
    def from_node(cls, node: SchemaNode, form: str | None) -> Self:
        """Return the names that a schema lists.

        Raises:
            SchemaError: their number is not that of the calendar, two are equal, or the format does not have them.
        """
        number, first, example = cls.EXAMPLE
        if form is None or not any(field in form for field in cls.ENGLISH):
            node.fail(f'names {cls.KEY}, so dates need a format that has them, such as format: "{example}".')
        names = tuple(unicodedata.normalize("NFC", item.text().strip()) for item in node.items())
        wanted = len(next(iter(cls.ENGLISH.values())))
        if len(names) != wanted or len(set(map(str.casefold, names))) != wanted:
            node.fail(f"must be {number} different names, {first} first, not {node.shown}.")
        if not all(re.fullmatch(r"[^\W\d_][^\d%]*", name) for name in names):
            node.fail(f"must be names without digits that begin with a letter, not {node.shown}.")
        return cls(names)

    def read(self, value: object, form: str) -> object:
        """Return a text with the English name of its month or weekday, as formats read it; any other value as it is.

        A text without one of the names is returned as the empty text, which is no date.
        """
        if not isinstance(value, str):
            return value
        value = value if value.isascii() else unicodedata.normalize("NFC", value)
        found = self._pattern.search(value)
        place = None if found is None else self.folded.get(found[0].casefold())
        if found is None or place is None:
            return ""
        full, short = self.ENGLISH
        return value[: found.start()] + self.ENGLISH[full if full in form else short][place] + value[found.end() :]

    def place_of(self, date: datetime.date) -> int:
        """Return the place of a date's name among the names."""
        raise NotImplementedError

    def format(self, form: str, date: datetime.date) -> str:
        """Return a format in which the name of a date stands."""
        for directive in self.ENGLISH:
            form = form.replace(directive, self.names[self.place_of(date)])
        return form

    @property
    def line(self) -> str:
        """The line of a schema that lists the names."""
        return f"{self.KEY}: [{', '.join(map(quoted, self.names))}]"

    @cached_property
    def folded(self) -> Mapping[str, int]:
        """The place of each name, in small letters."""
        return {name.casefold(): place for place, name in enumerate(self.names)}

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        longest = sorted(map(re.escape, self.names), key=len, reverse=True)
        return re.compile(rf"(?<![^\W\d_])(?:{'|'.join(longest)})(?![^\W\d_])", re.IGNORECASE)


def spellings(languages: Sequence[tuple[str, ...]]) -> Iterator[tuple[str, ...]]:
    """Yield the names of each language, and those in plain letters where they have others of the Latin alphabet."""
    for names in languages:
        yield names
        bare = (unicodedata.normalize("NFKD", name.translate(PLAIN)).encode("ascii", "ignore") for name in names)
        plain = tuple(name.decode() for name in bare)
        for others in dict.fromkeys((plain, tuple(name.translate(SPELLED) for name in names))):
            if others != names and len({name for name in others if name[:1].isalpha()}) == len(names):
                yield others

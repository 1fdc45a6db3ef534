"""Names of months in dates: those that a schema lists, and those of several languages, which drafts recognize."""

from __future__ import annotations

import calendar
import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from pgmest.schema.notation import SchemaNode, quoted

ENGLISH = {"%B": tuple(calendar.month_name[1:]), "%b": tuple(calendar.month_abbr[1:])}
"""The names that formats read, by directive, January first."""

LANGUAGES = tuple(
    tuple(names.split())
    for names in (
        "Januar Februar März April Mai Juni Juli August September Oktober November Dezember",
        "Jänner Februar März April Mai Juni Juli August September Oktober November Dezember",
        "Jan Feb Mär Apr Mai Jun Jul Aug Sep Okt Nov Dez",
        "Jan Feb Mrz Apr Mai Jun Jul Aug Sep Okt Nov Dez",
        "Jan. Feb. März Apr. Mai Juni Juli Aug. Sept. Okt. Nov. Dez.",
        "janvier février mars avril mai juin juillet août septembre octobre novembre décembre",
        "janv. févr. mars avr. mai juin juil. août sept. oct. nov. déc.",
        "janv févr mars avr mai juin juil août sept oct nov déc",
        "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre",
        "ene feb mar abr may jun jul ago sep oct nov dic",
        "gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre novembre dicembre",
        "gen feb mar apr mag giu lug ago set ott nov dic",
        "janeiro fevereiro março abril maio junho julho agosto setembro outubro novembro dezembro",
        "jan fev mar abr mai jun jul ago set out nov dez",
        "januari februari maart april mei juni juli augustus september oktober november december",
        "jan feb mrt apr mei jun jul aug sep okt nov dec",
        "stycznia lutego marca kwietnia maja czerwca lipca sierpnia września października listopada grudnia",
        "januari februari mars april maj juni juli augusti september oktober november december",
        "januar februar marts april maj juni juli august september oktober november december",
        "januar februar mars april mai juni juli august september oktober november desember",
        "Jan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec",
        "Jan. Feb. Mar. Apr. May Jun. Jul. Aug. Sep. Oct. Nov. Dec.",
        "Jan. Feb. Mar. Apr. May. Jun. Jul. Aug. Sep. Oct. Nov. Dec.",
        "Jan. Feb. March April May June July Aug. Sept. Oct. Nov. Dec.",
    )
)
"""The names of months, January first, in German, French, Spanish, Italian, Portuguese, Dutch, Polish, Swedish, Danish
and Norwegian, in full or short, and English ones that formats do not read."""
FIRST = re.compile(r"(?<!\d)1(?:er|\.?[º°])(?![^\W_])")
"""The first day of a month where it is an ordinal number, as in 1er janvier and 1º gennaio."""
DOTTED = re.compile(rf"(?:{'|'.join(ENGLISH['%B'])})\.(?!\d)")
EXPANDED = str.maketrans({"ä": "ae", "Ä": "Ae", "ö": "oe", "ü": "ue"})
"""The spelling of umlauts in plain letters."""


@dataclass(frozen=True)
class Months:
    """The names of months in the dates of a column, capital and small letters alike.

    Attributes:
        names: twelve names, January first.
    """

    names: tuple[str, ...]

    @classmethod
    def from_node(cls, node: SchemaNode, form: str | None) -> Months:
        """Return the names that a schema lists.

        Raises:
            SchemaError: these are no twelve different names, or the format of the dates has no names of months.
        """
        if form is None or not any(field in form for field in ENGLISH):
            node.fail('names months, so dates need a format that has them, such as format: "%d. %B %Y".')
        names = tuple(unicodedata.normalize("NFC", item.text().strip()) for item in node.items())
        if len(names) != 12 or len(set(map(str.casefold, names))) != 12:
            node.fail(f"must be twelve different names, January first, not {node.shown}.")
        if not all(re.fullmatch(r"[^\W\d_][^\d%]*", name) for name in names):
            node.fail(f"must be names without digits that begin with a letter, not {node.shown}.")
        return cls(names)

    def read(self, value: object, form: str) -> object:
        """Return a text with the English name of its month, as formats read it; any other value as it is.

        A text without one of the names is returned as the empty text, which is no date.

        >>> Months(LANGUAGES[0]).read("3. märz 2024", "%d. %B %Y")
        '3. March 2024'
        """
        if not isinstance(value, str):
            return value
        value = FIRST.sub("1", value if value.isascii() else unicodedata.normalize("NFC", value))
        found = self._pattern.search(value)
        place = None if found is None else self._places.get(found[0].casefold())
        if found is None or place is None:
            return ""
        return value[: found.start()] + ENGLISH["%B" if "%B" in form else "%b"][place] + value[found.end() :]

    def format(self, form: str, month: int) -> str:
        """Return a format in which the name of one month stands, 1 for January."""
        name = self.names[month - 1]
        return form.replace("%B", name).replace("%b", name)

    @property
    def line(self) -> str:
        """The line of a schema that lists the names."""
        return f"months: [{', '.join(map(quoted, self.names))}]"

    @cached_property
    def _places(self) -> dict[str, int]:
        return {name.casefold(): place for place, name in enumerate(self.names)}

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        longest = sorted(map(re.escape, self.names), key=len, reverse=True)
        return re.compile(rf"(?<![^\W\d_])(?:{'|'.join(longest)})(?![^\W\d_])", re.IGNORECASE)


def months_in(texts: Sequence[str]) -> Months | None:
    """Return the names of months that most texts have; None where English ones explain as many.

    Args:
        texts: some distinct texts of a column.
    """
    if not texts:
        return None
    english = max(_share(Months(names), texts) for names in ENGLISH.values())
    known = [Months(names) for names in _spelled()]
    shares = [_share(months, texts) for months in known]
    best = max(shares)
    return known[shares.index(best)] if best > max(english, 0.5) else None


def _spelled() -> Iterator[tuple[str, ...]]:
    """Yield the names of each language, and those without accents where they have some."""
    for names in LANGUAGES:
        yield names
        plain = tuple(unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode() for name in names)
        yield from dict.fromkeys((plain, tuple(name.translate(EXPANDED) for name in names)))


def _share(months: Months, texts: Sequence[str]) -> float:
    """Return the share of texts with a name, the point of a short one included."""
    read = [str(months.read(text, "%B")) for text in texts]
    return sum(text != "" and DOTTED.search(text) is None for text in read) / len(texts)

"""Codes of public classifications in drafts: the levels that their first characters say, as a comment to uncomment."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from pgmest.schema.categorical import Boolean, Categorical, written
from pgmest.schema.column import SchemaColumn
from pgmest.schema.identifiers import words_of


@dataclass(frozen=True)
class Classification:
    """A public classification whose codes begin with the codes of wider groups.

    Attributes:
        name: its name.
        pattern: how all of its codes are written.
        prefixes: the numbers of characters of the wider groups, ascending.
        words: words in the name of a column, one of which there must be; none for a pattern that nothing else has.
    """

    name: str
    pattern: str
    prefixes: tuple[int, ...]
    words: frozenset[str] = frozenset()


INDUSTRY = frozenset({"naics", "naicsp", "industry", "ind"})
POSTAL = frozenset({"zip", "zipcode", "postal", "postcode", "postleitzahl", "plz", "cap"})
CLASSIFICATIONS = (
    Classification("ATC", r"[A-Z][0-9]{2}[A-Z]{2}[0-9]{2}", (1, 3, 4, 5)),
    Classification("ICD-10", r"[A-Z][0-9][0-9A-Z](?:\.?[0-9A-Z]{1,4})?", (1, 3)),
    Classification("NACE", r"[0-9]{2}\.[0-9]{1,2}", (2, 4)),
    Classification("ISCO", r"[0-9]{4}", (1, 2, 3), frozenset({"isco", "occupation", "occ", "job", "beruf"})),
    Classification("SOC", r"[0-9]{2}-[0-9]{4}(?:\.[0-9]{2})?", (2, 4, 6)),
    Classification("SOC", r"[1-9][0-9][0-9A-Z]{4}", (2, 3, 5), frozenset({"soc", "socp", "occupation", "occ", "job"})),
    Classification("NAICS", r"[1-9][0-9][0-9A-Z]{0,4}", (2, 3, 4, 5), INDUSTRY),
    Classification("NUTS", r"[A-Z]{2}[0-9A-Z]{1,3}", (2, 3, 4), frozenset({"nuts", "region"})),
    Classification("FIPS", r"[0-9]{5}(?:[0-9]{6})?", (2, 5), frozenset({"fips", "county", "geoid", "tract"})),
    Classification("postal areas", r"[0-9]{4,5}", (1, 2, 3), POSTAL),
)
"""The classifications that drafts know; the first one that fits is proposed."""


def classification_of(name: str, codes: Sequence[str]) -> tuple[Classification, tuple[int, ...]] | None:
    """Return the classification that all codes of a column are written like, and its prefixes that are no whole codes.

    The prefixes are those of the classification. Of the codes only their notation counts, and that some level has
    several groups, one of them with several codes.

    >>> found, prefixes = classification_of("dx", ["A00.1", "A01", "B20"])
    >>> found.name, prefixes
    ('ICD-10', (1, 3))
    """
    words, longest = set(words_of(name)), max(map(len, codes))
    for one in CLASSIFICATIONS:
        if (one.words and not words & one.words) or not all(re.fullmatch(one.pattern, code) for code in codes):
            continue
        if any(1 < len({code[:length] for code in codes}) < len(codes) for length in one.prefixes):
            return one, tuple(length for length in one.prefixes if length < longest)
    return None


def prefix_lines(column: SchemaColumn, mark: str) -> Iterator[str]:
    """Yield lines of a draft that propose a hierarchy of a column whose values are written like public codes."""
    if not isinstance(column, Categorical) or isinstance(column, Boolean):
        return
    codes = [written(value) for value in column.values]
    found = classification_of(column.name, codes)
    if found is None:
        return
    one, prefixes = found
    yield f"{mark}: ITS FREQUENT VALUES ARE WRITTEN LIKE CODES OF {one.name.upper()}. IF THEY ARE, UNCOMMENT:"
    yield f"# hierarchy: {{prefixes: [{', '.join(map(str, prefixes))}]}}"


def chains_of(dependencies: Collection[tuple[str, str]]) -> dict[str, list[str]]:
    """Return for each column that determines others a chain of them, the coarsest first.

    >>> chains_of([("town", "district"), ("district", "state")])
    {'town': ['state', 'district'], 'district': ['state']}
    """
    targets: dict[str, list[str]] = {}
    for source, target in dependencies:
        targets.setdefault(source, []).append(target)

    def longest(name: str, before: tuple[str, ...]) -> list[str]:
        rest = [[*longest(t, (*before, t)), t] for t in targets.get(name, ()) if t not in before]
        return max(rest, key=len, default=[])

    return {source: longest(source, (source,)) for source in targets}

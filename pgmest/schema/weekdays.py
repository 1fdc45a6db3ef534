"""Names of weekdays in dates, and those of several languages, which drafts recognize."""

from __future__ import annotations

import calendar
import datetime
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from pgmest.schema.calendar_names import CalendarNames, spellings

ENGLISH = {"%A": tuple(calendar.day_name), "%a": tuple(calendar.day_abbr)}
"""The names that formats read, by directive, Monday first."""
LANGUAGES = tuple(
    tuple(names.split())
    for names in (
        "Montag Dienstag Mittwoch Donnerstag Freitag Samstag Sonntag",
        "Montag Dienstag Mittwoch Donnerstag Freitag Sonnabend Sonntag",
        "Mo Di Mi Do Fr Sa So",
        "Mon Die Mit Don Fre Sam Son",
        "lundi mardi mercredi jeudi vendredi samedi dimanche",
        "lun mar mer jeu ven sam dim",
        "lunes martes miércoles jueves viernes sábado domingo",
        "lun mar mié jue vie sáb dom",
        "lunedì martedì mercoledì giovedì venerdì sabato domenica",
        "lun mar mer gio ven sab dom",
        "segunda-feira terça-feira quarta-feira quinta-feira sexta-feira sábado domingo",
        "segunda terça quarta quinta sexta sábado domingo",
        "seg ter qua qui sex sáb dom",
        "maandag dinsdag woensdag donderdag vrijdag zaterdag zondag",
        "ma di wo do vr za zo",
        "poniedziałek wtorek środa czwartek piątek sobota niedziela",
        "pon wt śr czw pt sob niedz",
        "pondělí úterý středa čtvrtek pátek sobota neděle",
        "po út st čt pá so ne",
        "понедельник вторник среда четверг пятница суббота воскресенье",
        "пн вт ср чт пт сб вс",
        "maanantai tiistai keskiviikko torstai perjantai lauantai sunnuntai",
        "ma ti ke to pe la su",
        "måndag tisdag onsdag torsdag fredag lördag söndag",
        "mån tis ons tors fre lör sön",
        "mandag tirsdag onsdag torsdag fredag lørdag søndag",
        "man tir ons tor fre lør søn",
    )
)
"""The names of weekdays, Monday first, in German, French, Spanish, Italian, Portuguese, Dutch, Polish, Czech, Russian,
Finnish, Swedish, and Danish or Norwegian, in full or short."""
BEHIND = re.compile(r"([^\W\d_][^\d,.\s]*)(\.?,? +)(?=\S)")
"""A word at the start of a date, and what stands between it and the rest."""


@dataclass(frozen=True)
class Weekdays(CalendarNames):
    """The names of weekdays in the dates of a column, capital and small letters alike.

    >>> Weekdays(LANGUAGES[0]).read("dienstag, 5.3.2024", "%A, %d.%m.%Y")
    'Tuesday, 5.3.2024'

    Attributes:
        names: seven names, Monday first.
    """

    KEY = "weekdays"
    ENGLISH = ENGLISH
    EXAMPLE = ("seven", "Monday", "%A, %d.%m.%Y")

    def place_of(self, date: datetime.date) -> int:
        return date.weekday()


def weekday_format(texts: Sequence[str]) -> tuple[str, Weekdays | None] | None:
    """Return the beginning of a format for the weekday that most texts begin with, and its names; None without one.

    At least two different weekdays must occur. Names that formats read are not listed.

    >>> weekday_format(["Di., 5.3.2024", "Mi., 6.3.2024"])[0], weekday_format(["Tue, 5 Mar", "Wed, 6 Mar"])
    ('%A., ', ('%a, ', None))

    Args:
        texts: some distinct texts of a column.
    """
    begun = [found for found in map(BEHIND.match, texts) if found is not None]
    if 2 * len(begun) <= len(texts):
        return None
    behind = Counter(found[2] for found in begun).most_common(1)[0][0]
    words = Counter(found[1].casefold() for found in begun if found[2] == behind)
    best = max(_known(), key=lambda names: sum(words[name] for name in names.folded))
    known = words.keys() & best.folded
    if len(known) < 2 or 2 * sum(words[word] for word in known) <= len(texts):
        return None
    english = next((directive for directive, names in ENGLISH.items() if best.names == names), None)
    return (english or "%A") + behind, None if english else best


@cache
def _known() -> tuple[Weekdays, ...]:
    return tuple(map(Weekdays, (*ENGLISH.values(), *spellings(LANGUAGES))))

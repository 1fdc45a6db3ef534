"""Names of months in dates, and those of several languages, which drafts recognize."""

from __future__ import annotations

import calendar
import datetime
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from pgmest.schema.calendar_names import CalendarNames, spellings

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
        "styczeń luty marzec kwiecień maj czerwiec lipiec sierpień wrzesień październik listopad grudzień",
        "ledna února března dubna května června července srpna září října listopadu prosince",
        "leden únor březen duben květen červen červenec srpen září říjen listopad prosinec",
        "января февраля марта апреля мая июня июля августа сентября октября ноября декабря",
        "январь февраль март апрель май июнь июль август сентябрь октябрь ноябрь декабрь",
        "янв фев мар апр май июн июл авг сен окт ноя дек",
        "янв. февр. мар. апр. мая июн. июл. авг. сент. окт. нояб. дек.",
        "січня лютого березня квітня травня червня липня серпня вересня жовтня листопада грудня",
        "tammikuuta helmikuuta maaliskuuta huhtikuuta toukokuuta kesäkuuta heinäkuuta elokuuta syyskuuta lokakuuta "
        "marraskuuta joulukuuta",
        "tammikuu helmikuu maaliskuu huhtikuu toukokuu kesäkuu heinäkuu elokuu syyskuu lokakuu marraskuu joulukuu",
        "tammi helmi maalis huhti touko kesä heinä elo syys loka marras joulu",
        "január február március április május június július augusztus szeptember október november december",
        "ianuarie februarie martie aprilie mai iunie iulie august septembrie octombrie noiembrie decembrie",
        "Ocak Şubat Mart Nisan Mayıs Haziran Temmuz Ağustos Eylül Ekim Kasım Aralık",
        "Ιανουαρίου Φεβρουαρίου Μαρτίου Απριλίου Μαΐου Ιουνίου Ιουλίου Αυγούστου Σεπτεμβρίου Οκτωβρίου Νοεμβρίου "
        "Δεκεμβρίου",
        "januari februari mars april maj juni juli augusti september oktober november december",
        "januar februar marts april maj juni juli august september oktober november december",
        "januar februar mars april mai juni juli august september oktober november desember",
        "Jan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec",
        "Jan. Feb. Mar. Apr. May Jun. Jul. Aug. Sep. Oct. Nov. Dec.",
        "Jan. Feb. Mar. Apr. May. Jun. Jul. Aug. Sep. Oct. Nov. Dec.",
        "Jan. Feb. March April May June July Aug. Sept. Oct. Nov. Dec.",
    )
)
"""The names of months, January first, in German, French, Spanish, Italian, Portuguese, Dutch, Polish, Czech, Russian,
Ukrainian, Finnish, Hungarian, Romanian, Turkish, Greek, Swedish, Danish and Norwegian, in full or short, and English
ones that formats do not read."""
FIRST = re.compile(r"(?<!\d)1(?:er|\.?[º°])(?![^\W_])")
"""The first day of a month where it is an ordinal number, as in 1er janvier and 1º gennaio."""
DOTTED = re.compile(rf"(?:{'|'.join(ENGLISH['%B'])})\.(?!\d)")


@dataclass(frozen=True)
class Months(CalendarNames):
    """The names of months in the dates of a column, capital and small letters alike.

    >>> Months(LANGUAGES[0]).read("3. märz 2024", "%d. %B %Y")
    '3. March 2024'

    Attributes:
        names: twelve names, January first.
    """

    KEY = "months"
    ENGLISH = ENGLISH
    EXAMPLE = ("twelve", "January", "%d. %B %Y")

    def read(self, value: object, form: str) -> object:
        return super().read(FIRST.sub("1", value) if isinstance(value, str) else value, form)

    def place_of(self, date: datetime.date) -> int:
        return date.month - 1


def months_in(texts: Sequence[str]) -> Months | None:
    """Return the names of months that most texts have; None where English ones explain as many.

    Args:
        texts: some distinct texts of a column.
    """
    if not texts:
        return None
    english = max(_share(Months(names), texts) for names in ENGLISH.values())
    joined = unicodedata.normalize("NFC", " ".join(texts)).casefold()
    known = [Months(names) for names in spellings(LANGUAGES) if any(name.casefold() in joined for name in names)]
    shares = [_share(months, texts) for months in known]
    best = max(shares, default=0.0)
    return known[shares.index(best)] if best > max(english, 0.5) else None


def _share(months: Months, texts: Sequence[str]) -> float:
    """Return the share of texts with a name, the point of a short one included."""
    read = [str(months.read(text, "%B")) for text in texts]
    return sum(text != "" and DOTTED.search(text) is None for text in read) / len(texts)

"""The rows below a table in a file that are no records: totals, notes and rows without a value, guessed.

Only drafts and checks guess. A row counts as a total or a note on strong evidence: it is among the last rows, its first
value is a word that such rows begin with, and no other row looks so.
"""

from __future__ import annotations

import io
import re
from collections import deque
from collections.abc import Sequence

from pgmest.data.csv_header import first_rows, with_stated_delimiter
from pgmest.data.skipped_rows import ANY_END, first_value, skipping
from pgmest.data.table_file import TableFile
from pgmest.data.workbook import last_sheet_rows

LAST_BYTES = 1 << 16
"""At most this many bytes at the end of a text are looked at."""
MOST_FOOTERS = 30
"""The largest number of rows below a table."""
FEWEST_ABOVE = 5
"""The least number of records directly above them that are looked at."""
LONGEST_TEXT = 30
"""The characters of a note from which on its rule has its first words only."""

TOTALS = (
    "total|totals|grand total|sub ?total|sum|all|overall|mean|average|gesamt|insgesamt|gesamtsumme|gesamtergebnis|summe"
    "|zusammen|alle|durchschnitt|mittelwert|ensemble|total général|total general|somme|moyenne|suma|totale|somma|soma"
    "|promedio|totaal|totaux|totales|totali|razem|ogółem|celkem|spolu|összesen|yhteensä|totalt|summa|i alt|ialt|toplam"
    "|ukupno|σύνολο|итого|всего|разом|усього|合計|总计|總計|合计|합계|계"
)
TOTAL = re.compile(rf"(?:{TOTALS})\s*(?:[:*(\d].*)?", re.IGNORECASE)
"""The first value of a row of totals."""
NOTE_WORDS = (
    "sources?|notes?|remarks?|footnotes?|legend|copyright|created|generated|exported|printed|last updated?|end of"
    "|quellen?|hinweise?|anmerkung(?:en)?|fußnoten?|legende|stand|erstellt|abgerufen|fuentes?|notas?|elaboración|fonti?"
    "|fontes?|note[s]?|remarques?|lecture|champ|mise à jour|bron|bronnen|noot|źródło|uwagi?|zdroj|poznámka|forrás"
    "|megjegyzés|kilde|kilder|källa|anm|lähde|kaynak|not|πηγή|источник|примечание|джерело|примітка"
)
NOTE = re.compile(
    rf"(?:{NOTE_WORDS})\b\s*(?:[:.]|\s\S).*|[*†‡§©#¹²³].*|\(?(?:\d|[a-z])\)\s.*|(?:出典|注|資料|来源|资料来源).*",
    re.IGNORECASE | re.DOTALL,
)
"""The first value of a note below a table."""


def skip_rows_of(file: TableFile, first: Sequence[Sequence[str]]) -> tuple[tuple[str, ...], str]:
    """Return the texts that leave the rows below a table out, and a sentence about them; nothing without such rows.

    Args:
        file: the file, with the place of its header.
        first: its first rows, from the header on.
    """
    width = max(map(len, first[: max(file.header_rows, 1)]), default=0)
    records = [_stripped(row) for row in first[file.header_rows :]]
    if width < 2 or not records:
        return (), ""
    rows = [_stripped(row) for row in _last_rows(file, width)]
    below = _rows_below(rows, records, width)
    above = rows[: len(rows) - len(below)]
    if not below or len(above) < FEWEST_ABOVE or any(len(row) < width for row in above[-FEWEST_ABOVE:]):
        return (), ""
    kept = [first_value(row) for row in (*above, *(row for row in records if row not in below))]
    texts = tuple(dict.fromkeys(_text_of(first_value(row), kept) for row in below))
    if any(skipping([text for text in texts if text], value) is not None for value in kept):
        return (), ""
    named = ", ".join(f"'{first_value(row)}'" if first_value(row) else "no value" for row in below)
    which = "the last row is no record" if len(below) == 1 else f"the last {len(below)} rows are no records"
    return texts, f"{which}, it seems (first value: {named}); each row that begins so is left out by skip_rows"


def _stripped(row: Sequence[str]) -> list[str]:
    return [field.strip() for field in row]


def _rows_below(rows: Sequence[list[str]], records: Sequence[list[str]], width: int) -> list[list[str]]:
    """Return the last rows that are no records."""
    whole = [row for row in (*rows, *records) if sum(map(bool, row)) > 1]
    noted = any(NOTE.fullmatch(first_value(row)) for row in whole)  # as records may begin, with # for example
    found: list[list[str]] = []
    for row in reversed(rows[-MOST_FOOTERS:]):
        first = first_value(row)
        if first and any(first in other for other in (*rows, *records) if other != row):
            break
        short = len(row) < width or (not noted and NOTE.fullmatch(first) is not None)
        if first and not _is_total(row) and (sum(map(bool, row)) > 1 or not short):
            break
        found.insert(0, row)
    return found


def _is_total(row: Sequence[str]) -> bool:
    """Return whether a row begins with a word for totals, or means, and has numbers alone behind it."""
    first = first_value(row)
    rest = [field for field in row if field and field != first]
    return TOTAL.fullmatch(first) is not None and all(re.search(r"\d|^[-–—.]$", field) for field in rest)


def _text_of(first: str, kept: Sequence[str]) -> str:
    """Return the text of `skip_rows` for a row below the table: its first value, or the start of a longer note."""
    start = ""
    if not TOTAL.fullmatch(first):
        start = first[: first.find(":") + 1]
        if not start and len(first) > LONGEST_TEXT:
            start = first[:LONGEST_TEXT].rpartition(" ")[0]
    return start + ANY_END if start and not any(value.startswith(start) for value in kept) else first


def _last_rows(file: TableFile, width: int) -> Sequence[Sequence[str]]:
    """Return the last rows of a file, without titles and header where these are among them."""
    if file.format == ".xlsx":
        return [[*row, *[""] * (width - len(row))] for row in last_sheet_rows(file, 2 * MOST_FOOTERS)]
    content, cut = _last_content(file)
    if cut:
        return [row for _, row in first_rows(file, content, LAST_BYTES)][1:][-2 * MOST_FOOTERS :]
    skip = with_stated_delimiter(file, content).skip or 0
    rows = [row for number, row in first_rows(file, content, LAST_BYTES) if number >= skip]
    return rows[file.header_rows :][-2 * MOST_FOOTERS :]


def _last_content(file: TableFile) -> tuple[bytes, bool]:
    """Return the last bytes of a text, and whether they begin within it."""
    with file.opened() as handle:
        start = handle.read(LAST_BYTES)
        if isinstance(handle, io.BufferedReader):
            place = handle.seek(max(handle.seek(0, io.SEEK_END) - LAST_BYTES, len(start)))
            tail = handle.read()
        else:
            pieces, place = deque([b""], maxlen=2), len(start)
            while piece := handle.read(LAST_BYTES):
                place += len(pieces[0]) if len(pieces) == 2 else 0
                pieces.append(piece)
            tail = b"".join(pieces)
    if not tail:
        return start, False
    mark = {"utf-16": 2, "utf-32": 4}.get(file.codec, 0)  # these need the mark at the beginning, and whole characters
    return start[:mark] + tail[-place % 4 :], True

"""The rows of a file that are no records: totals, notes and rows without a value below a table or within, guessed.

Only drafts and checks guess. A row counts as a total or a note on strong evidence: its first value is a word that such
rows begin with, no record looks so, and it is among the last rows, or lacks what each record has.
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
from pgmest.errors import listed

LAST_BYTES = 1 << 16
"""At most this many bytes at the end of a text are looked at."""
MOST_FOOTERS = 30
"""The largest number of rows below a table."""
FEWEST_ABOVE = 5
"""The least number of records directly above them that are looked at."""
NAMED = 8
"""The most first values that a sentence about such rows names."""
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
    within = _rows_within([*(row for row in records if row not in below), *above], width)
    ends = [row for row in above if row not in within][-FEWEST_ABOVE:]
    if below and (len(ends) < FEWEST_ABOVE or any(len(row) < width for row in ends)):
        below, within = [], [*within, *below] if within else []
    left = [*within, *below]
    kept = [first_value(row) for row in (*above, *records) if row not in left]
    texts = tuple(dict.fromkeys(_text_of(first_value(row), kept) for row in left))
    if not left or any(skipping([text for text in texts if text], value) is not None for value in kept):
        return (), ""
    return texts, f"{_said(below, within)}; each row that begins so is left out by skip_rows"


def _said(below: Sequence[Sequence[str]], within: Sequence[Sequence[str]]) -> str:
    """Return which rows are no records, in words."""
    found = []
    for rows, one, several in (
        (within, "a row within the table is no record", "rows within the table are no records"),
        (below, "the last row is no record", f"the last {len(below)} rows are no records"),
    ):
        firsts = dict.fromkeys(f"'{first_value(row)}'" if first_value(row) else "no value" for row in rows)
        if rows:
            which = one if len(rows) == 1 else several
            found.append(f"{which}, it seems (first value: {listed(list(firsts), NAMED)})")
    return ", and ".join(found)


def _stripped(row: Sequence[str]) -> list[str]:
    return [field.strip() for field in row]


def _rows_below(rows: Sequence[list[str]], records: Sequence[list[str]], width: int) -> list[list[str]]:
    """Return the last rows that are no records."""
    whole = [row for row in (*rows, *records) if sum(map(bool, row)) > 1 and not _is_ragged(row, width)]
    noted = any(NOTE.fullmatch(first_value(row)) for row in whole)  # as records may begin, with # for example
    found: list[list[str]] = []
    for row in reversed(rows[-MOST_FOOTERS:]):
        first = first_value(row)
        if first and any(first in other for other in (*rows, *records) if other != row):
            break
        note = not noted and NOTE.fullmatch(first) is not None
        single = sum(map(bool, row)) <= 1 and (len(row) < width or note)
        if first and not _is_total(row) and not single and not (note and _is_ragged(row, width)):
            break
        found.insert(0, row)
    return found


def _rows_within(rows: Sequence[list[str]], width: int) -> list[list[str]]:
    """Return the rows among records that are no records.

    A note begins like one and has another number of fields than the header. A row of totals is empty where all rows
    but those of totals have a value; a single one may be a record that lacks nearly all.
    """
    whole = [row for row in rows if not _is_total(row) and not _is_ragged(row, width)]
    full = [place for place in range(width) if all(row[place] for row in whole)]
    noted = any(NOTE.fullmatch(first_value(row)) for row in whole)
    if len(whole) < FEWEST_ABOVE:
        return []
    totals = [row for row in rows if _is_total(row) and any(not row[place] for place in full if place < len(row))]
    ragged = [] if noted else [row for row in rows if _is_ragged(row, width)]
    notes = [row for row in ragged if NOTE.fullmatch(first_value(row))]
    found = [*(totals if len(set(map(tuple, totals))) > 1 else []), *notes]
    return [row for place, row in enumerate(found) if row not in found[:place]]


def _is_ragged(row: Sequence[str], width: int) -> bool:
    """Return whether a row has too few fields for a record, or values in too many."""
    return len(row) < width or any(row[width:])


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

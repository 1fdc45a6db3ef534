"""Texts that mean a missing value, in several languages, for drafts."""

from __future__ import annotations

import numpy as np

GAP_TEXTS = (
    *("", "?", "-", "--", ".", "..", "...", "\N{HORIZONTAL ELLIPSIS}", ":", "/", "\N{EN DASH}", "\N{EM DASH}"),
    *("NaN", "nan", "-NaN", "-nan", "null", "NULL", "Null", "<NA>", "NaT", "1.#IND", "1.#QNAN", "-1.#IND", "-1.#QNAN"),
    *("#N/A", "#N/A N/A", "#NULL!", "#DIV/0!", "#VALUE!", "#REF!", "#NAME?", "#NUM!", "#SPILL!", "#CALC!", "#NA"),
    *("#NV", "#WERT!", "#BEZUG!", "#ZAHL!", "#VALEUR!", "#NOM?", "#NOMBRE!", "#NUL!", "#N/D", "#¡VALOR!", "#¡REF!"),
    *("#¡NUM!", "#¡DIV/0!", "#¿NOMBRE?", "#VALORE!", "#RIF!", "#NOME?", "#VALOR!", "#NÚM!", "#WAARDE!", "#N/B"),
)
"""Texts that are never an answer."""

WORDS = frozenset(
    text.strip()
    for line in (
        "na, n/a, n.a., none, missing, unknown, not known, not available, not applicable, not stated, not specified",
        "unspecified, not reported, not recorded, no answer, no response, no data, refused, withheld, undisclosed",
        "don't know, dont know, do not know, prefer not to say, dk/na, n/k, n.d., n/d, n.r., n/r",
        "k.a., keine angabe, keine angaben, ohne angabe, o.a., unbekannt, nicht bekannt, fehlt, fehlend, weiß nicht",
        "weiss nicht, verweigert, keine antwort, nicht zutreffend, trifft nicht zu, entfällt, nicht angegeben",
        "nicht erhoben, nicht verfügbar, n.v., unbestimmt",
        "inconnu, inconnue, non connu, non renseigné, non renseignée, non réponse, non-réponse, sans réponse, refus",
        "ne sait pas, ne sais pas, n.s.p., non disponible, non communiqué, non précisé, manquant, sans objet, s.o.",
        "s/d, sin dato, sin datos, desconocido, desconocida, no sabe, no contesta, no responde, ns/nc, n/s, n/c",
        "no disponible, no aplica, no especificado, sin especificar, sin información, no consta, ignorado, ignorada",
        "não informado, nao informado, desconhecido, desconhecida, sem informação, sem dados, não se aplica, s/i, n/i",
        "não sabe, não respondeu, sconosciuto, sconosciuta, ignoto, non noto, non so, non risponde, non disponibile",
        "non indicato, non specificato, mancante, dato mancante, onbekend, niet bekend, geen antwoord, geen opgave",
        "weet niet, n.v.t., niet van toepassing, niet beschikbaar, ontbreekt, b.d., brak danych, brak odpowiedzi",
        "nieznany, nieznana, nieznane, nie wiem, nie dotyczy, odmowa, neznámý, neznámá, neznámé, neuvedeno, neuvedené",
        "nezjištěno, bez údajů, nezistené, okänd, okänt, uppgift saknas, saknas, vet ej, ej svar, ukendt, uoplyst",
        "ved ikke, ukjent, uoppgitt, vet ikke, mangler, tuntematon, ei tietoa, ei tiedossa, ismeretlen, nincs adat",
        "necunoscut, necunoscută, bilinmiyor, bilinmeyen, belirtilmemiş, nepoznato, άγνωστο, неизвестно, нет данных",
        "не указано, не указан, нет ответа, н/д, невідомо, немає даних, 不详, 不詳, 不明, 未知, 无数据, 無回答, 未回答",
        "모름, 무응답",
    )
    for text in line.split(",")
)
"""Texts in small letters that mean a missing value among numbers and dates, but may be an answer among other texts."""
SHORT = frozenset(("nr", "nd", "sd", "nk", "ka", "bd", "dk", "ns", "nc", "nsp", "nvt"))
"""Such texts without their points and strokes; among other texts they may as well be codes, such as those of states."""
AMONG_NUMBERS = WORDS | SHORT
LONGEST = max(map(len, WORDS)) + 2


def may_be_gaps(texts: np.ndarray) -> np.ndarray:
    """Return which texts mean a missing value among numbers and dates, in capital or small letters.

    >>> may_be_gaps(np.array(["k. A.", "Unbekannt", "NR", "7"], dtype=object)).tolist()
    [True, True, True, False]
    """
    return np.fromiter((_short(text) in AMONG_NUMBERS for text in texts), dtype=bool, count=len(texts))


def may_be_gap(text: str) -> bool:
    """Return whether a text may mean a missing value among other texts."""
    return _short(text) in WORDS


def _short(text: str) -> str:
    """Return a text in small letters, without blanks behind points and strokes; "" for one that is too long."""
    if len(text) > LONGEST or text[:1].isdigit():
        return ""
    return text.lower().replace(". ", ".").replace("\N{RIGHT SINGLE QUOTATION MARK}", "'").strip()

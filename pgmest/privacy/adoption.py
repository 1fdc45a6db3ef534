"""Ledgers and journals that were moved or restored on purpose, which would else be taken for copies."""

from __future__ import annotations

from pathlib import Path

from pgmest.errors import LedgerError
from pgmest.privacy import dataset_ledger, journal
from pgmest.privacy.chain import adopt


def adopt_file(path: str | Path) -> str:
    """Accept a ledger or a journal that was moved or restored as the newest and only one, and return its head.

    Raises:
        LedgerError: if the file is neither, was edited, or is in use.
        FileFormatError: if the file cannot be opened.
    """
    errors: list[LedgerError] = []
    for kind in (dataset_ledger, journal):
        try:
            return adopt(path, kind.FORMAT, kind.VERSION, kind.NAME, LedgerError)
        except LedgerError as error:
            errors.append(error)
    raise max(errors, key=lambda error: "is not a" not in str(error))

"""`load`: a model of any kind, or linked tables with their noisy answers, from the file that its `save` wrote."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

from pgmest.models import files
from pgmest.models.archive import LINKED_MODEL


def load(path: str | Path) -> Any:
    """Read a model of any kind from the file that its `save` wrote; it comes back as the same kind.

    Returns:
        a `Model`, `SupportModel`, `ApproximateModel`, `BayesianNetwork`, `ViewModel` or `LeastSquaresModel`; of linked
        tables a `pgmest.mechanisms.linked.LinkedModel`.

    Raises:
        FileFormatError: the file is missing, truncated, damaged, of a newer version, or not a model.
    """
    if not _has_linked_tables(path):
        return files.load(path)
    from pgmest.mechanisms.linked.file_reading import load as load_linked

    return load_linked(path)


def _has_linked_tables(path: str | Path) -> bool:
    """Return whether a file has the members of a file of linked tables; False also if it cannot be read."""
    try:
        with zipfile.ZipFile(path) as archive:
            return sorted(archive.namelist()) == sorted(LINKED_MODEL.members)
    except Exception:  # `files.load` says what is wrong
        return False

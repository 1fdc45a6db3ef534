"""Support models on disk: the npz file of a model, with the records of the support and their prior weights besides.

header.npy, potentials.npy    as pgmest/model_file.py says, with another format and the number of records
codes.npy                     the codes, attribute after attribute, in the smallest unsigned type for all of them
weights.npy                   the prior weight of each record, float64
"""

from __future__ import annotations

import dataclasses
import json
import operator
import zipfile
from pathlib import Path

import numpy as np

from pgmest.clique_vector import CliqueVector
from pgmest.codes import code_type
from pgmest.dataset import Dataset
from pgmest.errors import PgmestError
from pgmest.files import atomic_path
from pgmest.model_file import Unreadable, layout_of, number, parsed, read_array, report_of
from pgmest.prior.support import Support
from pgmest.prior.support_model import SupportModel

FORMAT = "pgmest-support-model"
VERSION = 1
MEMBERS = ("header.npy", "potentials.npy", "codes.npy", "weights.npy")


def save(model: SupportModel, path: str | Path) -> None:
    """Write a support model; a reader sees the old file or the whole new one.

    Raises:
        FileFormatError: the file cannot be written; what was there before is untouched.
    """
    header = {
        "format": FORMAT,
        "version": VERSION,
        "domain": list(model.domain.items()),
        "cliques": model.cliques,
        "records": len(model.support),
        "total": model.total,
        "total_stddev": model.total_stddev,
        "report": None if model.report is None else dataclasses.asdict(model.report),
    }
    encoded = np.frombuffer(json.dumps(header, default=operator.methodcaller("item")).encode(), dtype=np.uint8)
    arrays = {
        "potentials": model.potentials.flat,
        "codes": model.support.codes.ravel(),
        "weights": model.support.weights,
    }
    with atomic_path(path) as temporary, temporary.open("wb") as file:
        np.savez(file, header=encoded, **arrays)


def read(archive: zipfile.ZipFile) -> SupportModel:
    """The support model in an open archive, whose members are MEMBERS."""
    header = parsed(read_array(archive, MEMBERS[0], np.uint8, None).tobytes(), FORMAT, VERSION)
    layout = layout_of(header)
    records = header.get("records")
    if not isinstance(records, int) or records < 1:
        raise Unreadable(f"its number of records is {records!r}")
    kind = code_type(max(layout.domain.shape, default=1))
    potentials = read_array(archive, MEMBERS[1], np.float64, layout.cells)
    codes = read_array(archive, MEMBERS[2], kind, records * len(layout.domain))
    weights = read_array(archive, MEMBERS[3], np.float64, records)
    report, spread = header["report"], header["total_stddev"]
    try:
        columns = list(codes.reshape(len(layout.domain), records))
        return SupportModel(
            Support(Dataset.from_codes(columns, layout.domain, weights)),
            CliqueVector.of(layout, potentials),
            number(header, "total"),
            None if report is None else report_of(report),
            None if spread is None else number(header, "total_stddev"),
        )
    except PgmestError as error:
        raise Unreadable(str(error).rstrip(".")) from None

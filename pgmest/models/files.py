"""`load`: a model from the file that its `save` wrote. How such files look is in model_archive.py."""

from __future__ import annotations

import struct
import zipfile
from pathlib import Path

import numpy as np

from pgmest._base.errors import FileFormatError, PgmestError
from pgmest.data.codes import code_type
from pgmest.data.dataset import Dataset
from pgmest.inference.support.support import Support
from pgmest.models.archive import MODEL, SUPPORT_MODEL, Header, Unreadable, check_sizes, read_array
from pgmest.models.exact import Model
from pgmest.models.support import SupportModel
from pgmest.tables.clique_vector import CliqueVector

_REMEDY = "Only files written by model.save(...) can be read; write it again."


def load(path: str | Path) -> Model | SupportModel:
    """Read a model that `Model.save` wrote, or a support model that `SupportModel.save` wrote.

    Raises:
        FileFormatError: the file is missing, truncated, damaged, of a newer version, or not a model.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            check_sizes(archive, Path(path).stat().st_size)
            return _read(archive)
    except Unreadable as problem:
        raise FileFormatError.of(path, f"not a model file: {problem}.", _REMEDY) from None
    except (zipfile.BadZipFile, struct.error, ValueError, EOFError, RuntimeError) as error:
        raise FileFormatError.of(path, f"not a model file, or a damaged one ({error}).", _REMEDY) from None
    except OSError as error:
        raise FileFormatError.of(path, f"cannot be read: {error.strerror or error}.", "Check the path.") from None


def _read(archive: zipfile.ZipFile) -> Model | SupportModel:
    members = sorted(archive.namelist())
    try:
        if members == sorted(SUPPORT_MODEL.members):
            return _support_model(archive)
        if members == sorted(MODEL.members):
            return _model(archive)
    except PgmestError as error:
        raise Unreadable(str(error).rstrip(".")) from None
    raise Unreadable(f"its members are not {' and '.join(MODEL.members)}")


def _model(archive: zipfile.ZipFile) -> Model:
    header = Header.read(archive, MODEL)
    potentials = read_array(archive, "potentials.npy", np.float64, header.layout.cells)
    return Model(CliqueVector.of(header.layout, potentials), header.total, header.report, header.total_stddev)


def _support_model(archive: zipfile.ZipFile) -> SupportModel:
    header = Header.read(archive, SUPPORT_MODEL)
    layout, records = header.layout, header.fields.get("records")
    if not isinstance(records, int) or records < 1:
        raise Unreadable(f"its number of records is {records!r}")
    kind = code_type(max(layout.domain.shape, default=1))
    potentials = read_array(archive, "potentials.npy", np.float64, layout.cells)
    codes = read_array(archive, "codes.npy", kind, records * len(layout.domain))
    weights = read_array(archive, "weights.npy", np.float64, records)
    support = Support(Dataset.from_codes(list(codes.reshape(len(layout.domain), records)), layout.domain, weights))
    return SupportModel(support, CliqueVector.of(layout, potentials), header.total, header.report, header.total_stddev)

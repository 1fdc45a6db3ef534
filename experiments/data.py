"""Find and load the real tables of the experiments and of some tests.

They lie in the folder that the environment variable PGMEST_DATA names, else in `../shared/data` beside the repository:
`NAME/data.csv.gz` with `NAME/domain.json`. Those that a command of the experiments makes lie in `build/data`.
"""

from __future__ import annotations

import functools
import os
from pathlib import Path

from pgmest.data.dataset import Dataset
from pgmest.tables.domain import Domain

MADE = Path(__file__).resolve().parents[1] / "build" / "data"
"""The folder of tables that commands make."""


def data_folder() -> Path:
    """The folder that holds the tables; it need not exist."""
    named = os.environ.get("PGMEST_DATA")
    return Path(named) if named else Path(__file__).resolve().parents[2] / "shared" / "data"


def find(name: str) -> Path:
    """The folder of one table, such as "adult14" or "acs/IL_OH".

    Raises:
        FileNotFoundError: it is not there.
    """
    for folder in (data_folder() / name, MADE / name):
        if (folder / "domain.json").is_file():
            return folder
    raise FileNotFoundError(f"no data '{name}' in {data_folder()}; set PGMEST_DATA to the folder that holds it.")


def load_domain(name: str) -> Domain:
    """The domain of one table."""
    return Domain.load(find(name) / "domain.json")


@functools.cache
def load(name: str, part: str = "data") -> Dataset:
    """One table, read once a process; `part` names the file, "public" for the public part of adult_pub025_01."""
    return Dataset.load(find(name) / f"{part}.csv.gz", load_domain(name))

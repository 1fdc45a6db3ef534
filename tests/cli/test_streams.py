"""Tables on standard output are the same text as in CSV files."""

from __future__ import annotations

import pandas as pd
import polars as pl
import pytest

from pgmest.cli.streams import write_table

ROWS = {
    "=name": ["=1+2", "+SUM(A1)", "-5", "@x", "'=1"],
    "text, quoted": ['a "b"', "a,b", "a\nb", "性別", ""],
    "number": [0.1, 1e-300, 3.0, None, 1e16],
}


@pytest.mark.parametrize("library", [pd.DataFrame, pl.DataFrame, lambda rows: pl.DataFrame(rows).lazy()])
def test_standard_output_has_the_text_of_the_file(library, tmp_path, capfd):
    path = tmp_path / "table.csv"
    write_table(library(ROWS), str(path))
    write_table(library(ROWS), "-")
    assert capfd.readouterr().out.encode() == path.read_bytes()

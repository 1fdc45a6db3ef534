"""Files as people have them, taken from the draft of a schema to a synthetic table, by what the commands print."""

from __future__ import annotations

import csv
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from pgmest.cli.main import main

ROWS = 300
HOUSEHOLD = "How many people, including yourself, live in your household at the moment?"
DEVICES = "Which of these do you have at home? (Select all that apply)"
HOURS = "How satisfied are you, all in all, with the opening hours of the library in your district?"
TRIAL = ["--epsilon", "100000", "--mechanism", "independent", "--insecure-simulation", "--allow-draft", "--seed", "0"]


class Told:
    """The three commands run on a table, and what they print."""

    def __init__(self, table: Path, capsys: pytest.CaptureFixture[str]):
        self.table, self.schema, self._capsys = table, table.with_suffix(".yaml"), capsys

    def run(self, *arguments: str) -> str:
        capsys = self._capsys
        capsys.readouterr()
        assert main(arguments) == 0, capsys.readouterr().err
        printed = capsys.readouterr()
        return printed.out + printed.err

    def draft(self, *options: str) -> str:
        return self.run("schema", str(self.table), "--out", str(self.schema), "--overwrite", *options)

    def check(self, *options: str) -> str:
        return self.run("check", str(self.table), str(self.schema), *options)

    def synthesize(self, rows: int = 200) -> Any:
        out = self.table.with_name(f"{self.table.stem}-synthetic.csv")
        files = [str(self.table), "--schema", str(self.schema), "--out", str(out), "--rows", str(rows), "--overwrite"]
        assert f"{rows} synthetic records" in self.run("synthesize", *files, *TRIAL)
        assert f"{rows} rows" in self.run("check", str(out), str(self.schema))
        assert self.run("compare", str(self.table), str(out), "--schema", str(self.schema))
        return pd.read_csv(out, skiprows=list(range(1, self.header_rows)))

    @property
    def header_rows(self) -> int:
        """The number of rows that the schema says to be the header."""
        said = re.search(r"header: (\d)", self.schema.read_text(encoding="utf-8"))
        return int(said[1]) if said else 1

    def change(self, pattern: str, replacement: str) -> None:
        """Edit the schema as its owner would."""
        text, count = re.subn(pattern, replacement, self.schema.read_text(encoding="utf-8"), flags=re.MULTILINE)
        assert count == 1
        self.schema.write_text(text, encoding="utf-8")


def test_a_survey_tools_export_with_questions_as_names(tmp_path, capsys):
    rng = np.random.default_rng(0)
    names = ["Respondent ID", "Start Date", HOURS, HOUSEHOLD, DEVICES, "", "Anything else?"]
    below = ["", "", "Response", "Response", "Computer", "Printer", "Open-Ended Response"]
    rows = [
        [
            118000000000 + i,
            f"03/{1 + i % 28:02}/2024 {1 + i % 12:02}:{i % 60:02}:22 {'PM' if i % 3 else 'AM'}",
            rng.choice(["Very satisfied", "Satisfied", "Unsatisfied"]),
            rng.integers(1, 7),
            rng.choice(["Computer", ""]),
            rng.choice(["Printer", ""]),
            f"comment {i} goes on about many things",
        ]
        for i in range(ROWS)
    ]
    path = tmp_path / "survey.csv"
    with path.open("w", encoding="utf-8-sig", newline="") as file:
        csv.writer(file).writerows([names, below, *rows])
    told = Told(path, capsys)
    assert "pgmest: WARNING: " in (said := told.draft())
    assert "the header has 2 rows: the second has texts where all rows below have numbers or dates" in said
    text = told.schema.read_text(encoding="utf-8")
    assert "\nfile: {header: 2}\n" in text
    assert "unit: hour" in text
    checked = told.check()
    assert f"{ROWS} rows" in checked
    assert "100 % of the values as foreseen" in checked
    assert "WARNING" not in checked
    made = told.synthesize()
    assert {HOURS, HOUSEHOLD, f"{DEVICES} Computer", f"{DEVICES} Printer"} <= set(made.columns)
    assert "Response" not in made.to_string()
    assert made["Start Date"].str.fullmatch(r"03/\d\d/2024 \d\d:\d\d:\d\d [AP]M").all()
    assert set(made[f"{DEVICES} Printer"].dropna()) == {"Printer"}


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_taxi_trips_keep_hours_durations_and_zeros(tmp_path, capsys, ending):
    rng = np.random.default_rng(0)
    hours = rng.choice([8, 9, 18, 19], ROWS)
    minutes = rng.integers(0, 28 * 24 * 60, ROWS)
    days = pd.Timestamp("2024-03-01") + pd.to_timedelta(minutes // 1440, unit="D")
    trips = pd.DataFrame({"pickup": days + pd.to_timedelta(hours * 3600 + minutes % 3600, unit="s")})
    trips["called"] = [f"{hour:02}:{minute:02}" for hour, minute in zip(hours, minutes % 60, strict=True)]
    trips["ride"] = pd.to_timedelta(rng.integers(300, 2400, ROWS), unit="s")
    trips["dropoff"] = trips["pickup"] + trips["ride"]
    trips["tip"] = np.where(rng.random(ROWS) < 0.6, 0.0, rng.uniform(1, 20, ROWS).round(2))
    path = tmp_path / f"trips{ending}"
    trips.to_csv(path, index=False) if ending == ".csv" else trips.to_parquet(path)
    told = Told(path, capsys)
    told.draft()
    text = told.schema.read_text(encoding="utf-8")
    described = re.sub(r" *# READ.*", "", text)
    assert "  pickup:\n    type: date\n    min: 2024-03-01\n    max: 2024-03-28\n    unit: hour\n" in described
    assert "  called:\n    type: time\n    unit: hour\n" in described
    assert "  ride:\n    type: duration\n    min: 0\n    max: 2399\n    unit: second\n    width: 60\n" in described
    assert "points: [0]" in described  # most tips are nothing
    assert "ordered: [pickup, dropoff]" in described
    checked = told.check()
    assert "time of day" not in checked
    made = told.synthesize()
    times = pd.to_datetime(made["pickup"])
    assert times.dt.hour.isin([8, 9, 18, 19]).mean() > 0.97
    assert made["called"].str[:2].isin(["08", "09", "18", "19"]).mean() > 0.97
    rides = pd.to_timedelta(made["ride"])
    assert rides.between(pd.Timedelta("5min"), pd.Timedelta("40min")).all()
    assert 0.5 < (made["tip"] == 0).mean() < 0.7
    told.change(r"(  pickup:\n(?:    .*\n)*?)    unit: hour", r"\1    unit: day")
    assert "pickup: 100 % have a time of day, which is lost: say unit: hour" in told.check()


def test_a_workbook_with_a_title_and_a_file_without_a_header(tmp_path, capsys):
    openpyxl = pytest.importorskip("openpyxl")
    rng = np.random.default_rng(0)
    book = openpyxl.Workbook()
    born = [pd.Timestamp("1980-01-01") + pd.Timedelta(days=int(day)) for day in rng.integers(0, 9000, ROWS)]
    fees = rng.integers(10, 100, ROWS)
    members = [[day, float(fee), str(place)] for day, fee, place in zip(born, fees, "NS" * ROWS, strict=False)]
    for row in [["Register of members"], ["as of 2024"], [], ["born", "fee", "district"], *members]:
        book.active.append(row)
    path = tmp_path / "members.xlsx"
    book.save(path)
    told = Told(path, capsys)
    assert "title rows skipped: 3; the columns are named by row 4" in told.draft()
    assert "\nfile: {skip: 3}\n" in told.schema.read_text(encoding="utf-8")
    assert "WARNING" not in told.check()
    assert list(told.synthesize().columns) == ["born", "fee", "district"]

    path = tmp_path / "census.data"
    rows = [
        f"{rng.integers(17, 90)}, {rng.choice(['Private', 'State-gov'])}, {rng.integers(9, 99)}, {'<>'[i % 2]}50K"
        for i in range(ROWS)
    ]
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    told = Told(path, capsys)
    said = told.draft()
    assert "census.data: there is no header row, it seems" in said
    assert rows[0].split(", ")[1] not in said  # the message shows no value of the record
    assert "\nfile: {header: false}\n" in told.schema.read_text(encoding="utf-8")
    assert f"{ROWS} rows" in told.check()
    assert list(told.synthesize().columns) == [f"column {place}" for place in range(1, 5)]
    assert "WARNING" not in told.draft("--no-header")
    assert "WARNING" not in told.draft("--header", "1")
    assert "column 1" not in told.schema.read_text(encoding="utf-8")

"""Every reader either reads a file, whatever it contains, or says with an error of pgmest what is wrong."""

from __future__ import annotations

import contextlib
import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import pgmest as pg
from pgmest.errors import PgmestError
from pgmest.measurements.files import load_measurements
from pgmest.privacy.store import adopt_file, chained
from pgmest.schema import Schema
from tests.reliability.damage import altered, damaged, header_of, members, with_header, write_members
from tests.reliability.examples import DOMAIN, READERS, SCHEMA, run_with_journal

fuzzed = settings(
    deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
ARCHIVES = ["measurements.npz", "model.npz", "support.npz", "linked.npz"]


@pytest.mark.parametrize("name", READERS)
def test_the_examples_can_be_read(examples: Path, name: str) -> None:
    READERS[name](examples / name)


@pytest.mark.parametrize("name", READERS)
@fuzzed
@given(data=st.data())
def test_damaged_files(examples: Path, name: str, data: st.DataObject) -> None:
    path = examples / f"damaged-{name}"
    path.write_bytes(data.draw(damaged((examples / name).read_bytes())))
    with contextlib.suppress(PgmestError):
        READERS[name](path)


@pytest.mark.parametrize("name", ARCHIVES)
@fuzzed
@given(data=st.data())
def test_archives_with_a_damaged_member(examples: Path, name: str, data: st.DataObject) -> None:
    path, contents = examples / f"damaged-{name}", members(examples / name)
    member = data.draw(st.sampled_from(sorted(contents)))
    write_members(path, contents | {member: data.draw(damaged(contents[member]))})
    with contextlib.suppress(PgmestError):
        READERS[name](path)


@pytest.mark.parametrize("name", ARCHIVES)
@fuzzed
@given(data=st.data())
def test_archives_with_another_header(examples: Path, name: str, data: st.DataObject) -> None:
    path, contents = examples / f"damaged-{name}", members(examples / name)
    write_members(path, with_header(contents, data.draw(altered(header_of(contents)))))
    with contextlib.suppress(PgmestError):
        READERS[name](path)


KEPT = sorted((Path(__file__).parents[1] / "formats" / "v1_0_0").glob("*.npz"))
MODELS = [path for path in KEPT if "kind" in header_of(members(path))]


@pytest.mark.parametrize("kept", MODELS, ids=lambda path: path.stem)
@settings(fuzzed, max_examples=20)
@given(data=st.data())
def test_models_of_every_kind_with_another_header(examples: Path, kept: Path, data: st.DataObject) -> None:
    path, contents = examples / f"altered-{kept.name}", members(kept)
    write_members(path, with_header(contents, data.draw(altered(header_of(contents)))))
    with contextlib.suppress(PgmestError):
        repr(pg.load(path))


@fuzzed
@given(data=st.data())
def test_compressed_tables_with_damaged_text(examples: Path, data: st.DataObject) -> None:
    text = (examples / "table.csv").read_bytes()
    path = examples / "damaged.csv.gz"
    path.write_bytes(gzip.compress(data.draw(damaged(text))))
    with contextlib.suppress(PgmestError):
        pg.Dataset.load(path, DOMAIN)


@settings(fuzzed, max_examples=100)
@given(data=st.data())
def test_measurements_with_other_values(examples: Path, data: st.DataObject) -> None:
    path = examples / "altered.json"
    path.write_text(json.dumps(data.draw(altered(json.loads((examples / "measurements.json").read_text())))))
    with contextlib.suppress(PgmestError):
        pg.estimate(load_measurements(path, DOMAIN), DOMAIN, max_iterations=3)


@settings(fuzzed, max_examples=100)
@given(description=altered(SCHEMA))
def test_schemas_with_other_values(description: Any) -> None:
    table = pd.DataFrame(
        {
            "sex": ["F", "?", None],
            "age": [3, None, 1e9],
            "income": ["a", "1e400", 3],
            "weight": [1, 2, 3],
            "born": ["1950-01-01", "x", "3000-01-01"],
            "member": ["true", None, "7"],
        }
    )
    with contextlib.suppress(PgmestError):
        schema = Schema.from_dict(description)
        schema.decode(schema.encode(table), seed=0)


@fuzzed
@given(data=st.data())
def test_journals_with_other_values_and_right_check_sums(examples: Path, data: st.DataObject) -> None:
    first, *answers = map(json.loads, (examples / "run.journal").read_text().splitlines())
    path = examples / "altered.journal"
    write_chained(path, [first, *data.draw(altered(answers))])
    with contextlib.suppress(PgmestError):
        adopt_file(path)
        run_with_journal(path)


def write_chained(path: Path, records: list[Any]) -> None:
    """Write the lines of a journal, each with the right check sum."""
    lines, before = [], ""
    for record in records:
        if isinstance(record, dict):
            plain = {name: value for name, value in record.items() if name != "check"}
            before = chained(before, plain)
            record = plain | {"check": before}
        lines.append(json.dumps(record) + "\n")
    path.write_text("".join(lines))


def test_fuzzing_reaches_what_it_should(examples: Path) -> None:
    """Not every change is refused at once: these are read."""
    contents = members(examples / "model.npz")
    header = header_of(contents)
    write_members(examples / "other.npz", with_header(contents, header | {"total": 7}))
    assert pg.load(examples / "other.npz").total == 7
    header, first, *rest = map(json.loads, (examples / "run.journal").read_text().splitlines())
    path = examples / "other.journal"
    write_chained(path, [header, first | {"answer": [7.0] * len(first["answer"])}, *rest])
    path.with_name("other.journal.key").write_bytes((examples / "run.journal.key").read_bytes())
    adopt_file(path)
    assert run_with_journal(path)[0] == [7.0] * len(first["answer"])
    assert np.isfinite(pg.load(examples / "other.npz").project("age").values).all()

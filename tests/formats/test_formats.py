"""Files of every earlier version load, and say what they said; those of a later version are refused by its number.

A folder holds the files that a release wrote. It is made once, when a format's version changes, and never changed.
"""

from __future__ import annotations

import io
import json
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pytest

import pgmest as pg
from pgmest.errors import FileFormatError
from pgmest.mechanisms.files import KINDS
from pgmest.privacy.dataset_ledger import DatasetLedger
from pgmest.privacy.store import adopt_file
from tests.formats.written import MODELS, answers_of, linked_answers, paid_run

FOLDERS = sorted(path for path in Path(__file__).parent.iterdir() if (path / "answers.json").is_file())
NEWEST = FOLDERS[-1]
DOMAIN = pg.Domain({"age": 4, "sex": 2, "job": 3})


def answers(folder: Path) -> dict:
    return json.loads((folder / "answers.json").read_text(encoding="utf-8"))


def versions_with(name: str) -> pytest.MarkDecorator:
    folders = [folder for folder in FOLDERS if (folder / name).is_file()]
    assert folders
    return pytest.mark.parametrize("folder", folders, ids=lambda folder: folder.name)


@versions_with("model.npz")
@pytest.mark.parametrize("kind", ["model", "support"])
def test_models_of_every_version(folder, kind):
    model = pg.load(folder / f"{kind}.npz")
    said = answers(folder)
    expected = said["models"][kind] if "models" in said else said[kind]
    assert model.total == pytest.approx(expected["total"], rel=1e-12)
    np.testing.assert_allclose(model.project(("age", "job")).values, expected["age,job"], rtol=1e-9, atol=1e-9)


@versions_with("measured.npz")
@pytest.mark.parametrize("name", MODELS)
def test_every_kind_of_model_of_every_version(folder, name):
    model = pg.load(folder / f"{name}.npz")
    expected = answers(folder)["models"][name]
    assert type(model).__name__ == expected.pop("kind")
    assert model.total == pytest.approx(expected.pop("total"), rel=1e-12)
    for clique, values in expected.items():
        np.testing.assert_allclose(model.project(tuple(clique.split(","))).values, values, rtol=1e-6, atol=1e-6)


@versions_with("linked.npz")
def test_linked_tables_of_every_version(folder):
    model, expected = pg.load(folder / "linked.npz"), answers(folder)["linked"]
    found = linked_answers(model)
    assert found.keys() == expected.keys()
    for name, parts in expected.items():
        for part, values in parts.items():
            np.testing.assert_allclose(found[name][part], values, rtol=1e-6, atol=1e-6)


@versions_with("measured.npz")
def test_error_bars_schemas_and_promises_in_models_of_every_version(folder):
    assert pg.load(folder / "measured.npz").measurements
    assert len(pg.load(folder / "measured.npz").uncertainty("age", replicates=3, seed=0).stddev.values) == 4
    synthesizer = pg.Synthesizer.load(folder / "described.npz")
    assert list(synthesizer.sample(5, seed=0).columns) == ["age", "sex", "day"]
    assert synthesizer.privacy_["mechanism"] == "Independent"


@versions_with("measurements.json")
@pytest.mark.parametrize("ending", ["json", "npz"])
def test_measurements_of_every_version(folder, ending):
    loaded = pg.load_measurements(folder / f"measurements.{ending}", DOMAIN)
    assert [measurement.values.tolist() for measurement in loaded] == answers(folder)["measurements"]
    assert [measurement.clique for measurement in loaded] == [("age", "sex"), ("job",), ("age",), ("sex", "age")]
    assert loaded[1].noise == "laplace"


@versions_with("published.json")
@pytest.mark.parametrize("ending", ["json", "npz"])
def test_published_tables_of_every_version(folder, ending):
    exact, rounded = pg.load_measurements(folder / f"published.{ending}", DOMAIN)
    assert [np.asarray(one.values).tolist() for one in (exact, rounded)] == answers(folder)["published"]
    assert json.loads((folder / "published.json").read_text(encoding="utf-8"))["version"] >= 2


@versions_with("schema.yaml")
def test_schemas_of_every_version(folder):
    assert dict(pg.Schema.load(folder / "schema.yaml").domain) == answers(folder)["schema"]


@versions_with("schema.toml")
def test_toml_schemas_and_domains_of_every_version(folder):
    assert dict(pg.Schema.load(folder / "schema.toml").domain) == {"age": 4, "sex": 2}
    assert pg.Domain.load(folder / "domain.json") == DOMAIN


@versions_with("people.ledger")
def test_ledgers_and_journals_of_every_version(folder, tmp_path):
    """Restored from a copy, as from a backup: what was paid for is answered again, and nothing is charged twice."""
    for path in (*folder.glob("people.ledger*"), *folder.glob("run.journal*")):
        shutil.copy(path, tmp_path / path.name)
    for name in ("people.ledger", "run.journal"):
        adopt_file(tmp_path / name)
    ledger = DatasetLedger(tmp_path / "people.ledger")
    try:
        (run,) = ledger.runs
        assert (ledger.table, str(ledger.budget), str(run.spent)) == ("people", "Rho(1)", "Rho(0.25)")
        before = ledger.committed
        found = answers_of(paid_run(tmp_path / "run.journal", ledger).model)
        for name, expected in answers(folder)["paid"].items():
            np.testing.assert_allclose(found[name], expected, rtol=1e-6)
        ledger.refresh()
        assert ledger.committed == before
    finally:
        ledger.close()


def header_of(path: Path) -> dict:
    with zipfile.ZipFile(path) as archive:
        return json.loads(bytes(np.load(io.BytesIO(archive.read("header.npy")))))


def with_header(path: Path, target: Path, **changes: object) -> Path:
    header = header_of(path) | changes
    with zipfile.ZipFile(path) as archive, zipfile.ZipFile(target, "w") as written:
        for name in archive.namelist():
            content = archive.read(name)
            if name == "header.npy":
                buffer = io.BytesIO()
                np.save(buffer, np.frombuffer(json.dumps(header).encode(), dtype=np.uint8))
                content = buffer.getvalue()
            written.writestr(name, content)
    return target


@pytest.mark.parametrize("kind", [*MODELS, "linked"])
def test_a_later_version_is_refused_by_its_number(kind, tmp_path):
    later = header_of(NEWEST / f"{kind}.npz")["version"] + 1
    with pytest.raises(FileFormatError, match=f"version is {later}, and this release reads version {later - 1}"):
        pg.load(with_header(NEWEST / f"{kind}.npz", tmp_path / "later.npz", version=later))


def test_a_later_version_of_measurements_is_refused_by_its_number(tmp_path):
    document = json.loads((NEWEST / "measurements.json").read_text(encoding="utf-8"))
    document["version"] = 99
    (tmp_path / "later.json").write_text(json.dumps(document), encoding="utf-8")
    with pytest.raises(FileFormatError, match=f"version {document['version']}"):
        pg.load_measurements(tmp_path / "later.json", DOMAIN)


def test_what_is_written_today_is_of_a_version_that_has_a_folder(tmp_path):
    for kind in (*MODELS, "linked"):
        model = pg.load(NEWEST / f"{kind}.npz")
        model.save(tmp_path / "now.npz")
        written, kept = header_of(tmp_path / "now.npz"), header_of(NEWEST / f"{kind}.npz")
        assert (written["format"], written["version"]) == (kept["format"], kept["version"])
        assert kept.keys() <= written.keys()
    for name in ("measurements.json", "published.json"):
        pg.save_measurements(tmp_path / name, pg.load_measurements(NEWEST / name, DOMAIN))
        assert (tmp_path / name).read_bytes() == (NEWEST / name).read_bytes()


def test_every_kind_of_model_file_is_here():
    """A kind that is added to the registry has a file that is kept."""
    kept = {header_of(NEWEST / f"{kind}.npz")["kind"] for kind in (*MODELS, "linked")}
    assert kept == set(KINDS)

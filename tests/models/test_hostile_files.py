"""Small model files from strangers allocate nothing large and send no control characters to a terminal.

Each is smaller than 3 kB. The header decides what is loaded, before anything of a declared size is made.
"""

import tracemalloc

import numpy as np
import pytest

import pgmest as pg
from pgmest._base.npz import write_archive
from pgmest.cli.main import main
from pgmest.errors import ArgumentError, FileFormatError, PgmestError
from pgmest.privacy import DatasetLedger, Rho
from tests.reliability.damage import header_of, members, with_header, write_members

NONE = np.empty(0)
REPORT = {
    **{"method": "lbfgs", "loss": 0.0, "gap": 0.0, "relative_gap": 0.0, "iterations": 1, "oracle_calls": 1},
    **{"seconds": None, "status": "converged", "message": "", "converged": True},
}
TABLES = {"cliques": [], "cells": NONE}
KINDS = {
    "Model": {**TABLES, "facts": []},
    "SupportModel": {**TABLES, "facts": [], "codes": np.zeros((1, 1), np.uint64), "weights": np.ones(1)},
    "ApproximateModel": {**TABLES, "noise": 1.0, "report": {**REPORT, "oracle": "convex", "inconsistency": 0.0}},
    "LeastSquaresModel": {
        "groups": [{"measured": [["a"]], "parts": {"cliques": [[]], "cells": np.array([5.0])}, "directions": TABLES}]
    },
    "BayesianNetwork": TABLES,
    "ViewModel": {**TABLES, "reconstruction": "maxent"},
}
ESCAPE = "\x1b[2J"


def written(path, kind="Model", **changes):
    tree = {"format": "pgmest-model", "version": 1, "kind": kind, "about": {}, "domain": [["a", 2]], "total": 10.0}
    write_archive(path, tree | {"total_stddev": None, "report": None, **KINDS[kind], **changes})
    assert path.stat().st_size < 3000
    return path


def peak(work):
    """The most memory that was allocated meanwhile, in bytes."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("domain", [[["a", 10**12]], [[f"a{i}", 2**23] for i in range(20)]], ids=["one", "many"])
def test_values_that_no_table_is_about_are_limited(tmp_path, kind, domain, capsys):
    path = str(written(tmp_path / "m.npz", kind, domain=domain))

    def attempts():
        with pytest.raises(FileFormatError):
            pg.load(path)
        for arguments in (["info", path], ["sample", path, "--rows", "3", "--out", str(tmp_path / "o.csv")]):
            assert main(arguments) == 1

    assert peak(attempts) < 50e6


@pytest.mark.parametrize("kind", ["Model", "SupportModel", "ApproximateModel"])
def test_a_total_of_any_size_draws_no_records_that_nobody_asked_for(tmp_path, kind, capsys):
    tables = (
        TABLES if kind == "SupportModel" else {"cliques": [[]], "cells": np.array([{"Model": 0.0}.get(kind, 1e14)])}
    )
    path = written(tmp_path / "m.npz", kind, domain=[["a", 1]], total=1e14, **tables)

    def attempts():
        model = pg.load(path)
        for call in (model.sample, lambda: next(model.sample_batches())):
            with pytest.raises(ArgumentError, match=r"total is 100,000,000,000,000 records"):
                call()
        assert main(["sample", str(path), "--out", str(tmp_path / "o.csv")]) == 1
        assert model.sample(3, seed=0).records == 3

    assert peak(attempts) < 50e6


HOSTILE = {
    "attribute": {"domain": [[f"a{ESCAPE}", 2]]},
    "report": {"report": {**REPORT, "method": ESCAPE}},
    "message": {"report": {**REPORT, "message": "\x1b]0;owned\x07"}},
    "label": {"about": {"schema": {"columns": {"a": {"type": "categorical", "values": [ESCAPE, "b"]}}}}},
    "column": {"about": {"schema": {"columns": {f"a{ESCAPE}": {"type": "integer"}}}}},
    "promise": {"about": {"privacy": {"promise": "\x9b2J"}}},
    "surrogate": {"domain": [["a\ud800", 2]]},
    "order of letters": {"domain": [["a\u202egnp", 2]]},
}


@pytest.mark.parametrize("name", HOSTILE)
def test_texts_with_control_characters_are_refused_and_not_repeated(tmp_path, name, capsys):
    path = str(written(tmp_path / "m.npz", **HOSTILE[name]))
    for load in (pg.load, pg.Synthesizer.load):
        with pytest.raises(FileFormatError, match="a text with control characters") as caught:
            load(path)
        assert str(caught.value).isprintable()
    for arguments in (["info", path], ["info", path, "--json"], ["sample", path, "--rows", "3", "--out", "-"]):
        assert main(arguments) == 1
    shown = "".join(capsys.readouterr())
    assert all(one.isprintable() or one == "\n" for one in shown)


def test_schemas_and_ledgers_are_printed_without_control_characters(tmp_path, capsys):
    (tmp_path / "s.yaml").write_text(
        'columns:\n  "a\\e[2J": {type: categorical, values: ["\\e]0;x\\a", b], other: o}\n'
    )
    assert main(["info", str(tmp_path / "s.yaml")]) == 0
    (tmp_path / "bad.yaml").write_text('columns:\n  "a\\e[2J": {type: "\\e[2J"}\n')
    assert main(["info", str(tmp_path / "bad.yaml")]) == 1
    DatasetLedger.create(tmp_path / "l", Rho(1.0), table=ESCAPE).close()
    assert main(["ledger", "show", str(tmp_path / "l")]) == 0
    shown = "".join(capsys.readouterr())
    assert "a\\x1b[2J" in shown
    assert all(one.isprintable() or one == "\n" for one in shown)


def test_line_ends_in_names_and_messages_are_no_control_characters(tmp_path):
    path = written(tmp_path / "m.npz", domain=[["income\n(EUR)", 2]], report={**REPORT, "message": "raise\tit\n"})
    assert pg.load(path).domain == pg.Domain({"income\n(EUR)": 2})


def test_the_time_of_an_estimate_is_in_no_file(tmp_path):
    data = pg.Dataset.from_codes(np.array([[0, 1], [1, 1]]), {"a": 2, "b": 2})
    model = pg.estimate([pg.LinearMeasurement(data.project("a").values, "a", 1.0)], data.domain)
    assert model.report.seconds > 0
    assert " s\n" in str(model.report)
    model.save(tmp_path / "m.npz")
    again = pg.load(tmp_path / "m.npz")
    assert again.report == model.report.published()
    assert again.report.seconds is None
    assert " s\n" not in str(again.report)


def test_models_that_have_no_records_say_so(tmp_path, capsys):
    path = written(tmp_path / "m.npz", "LeastSquaresModel")
    with pytest.raises(PgmestError, match="no distribution to draw records"):
        pg.load(path).sample(3)
    assert main(["sample", str(path), "--out", str(tmp_path / "o.csv")]) == 1
    assert "no distribution to draw records" in capsys.readouterr().err


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "LeastSquaresModel"])
@pytest.mark.parametrize("cells", [[np.nan, 1.0], [np.inf, 1.0], [1.0], [1.0, 1.0, 1.0], [[1.0], [1.0]]])
def test_tables_with_wrong_numbers_are_refused(tmp_path, kind, cells):
    path = written(tmp_path / "m.npz", kind, cliques=[["a"]], cells=np.array(cells))
    with pytest.raises(FileFormatError):
        pg.load(path)


@pytest.mark.parametrize(
    "array", [np.array([1, 2]), np.array([1, 2], dtype=np.float32), np.array([True, False]), np.float64(1)]
)
def test_tables_of_another_type_are_refused(tmp_path, array):
    path = written(tmp_path / "m.npz", cliques=[["a"]], cells=np.asarray(array))
    with pytest.raises(FileFormatError, match="one-dimensional array of float64"):
        pg.load(path)


@pytest.mark.parametrize("kind", ["ModelBase", "os", "", None, ["Model"], "LinkedModel"])
def test_only_known_kinds_are_read(tmp_path, kind):
    path = written(tmp_path / "m.npz")
    contents = members(path)
    write_members(path, with_header(contents, header_of(contents) | {"kind": kind}))
    with pytest.raises(FileFormatError, match=r"its kind is|lacks 'tables'|lacks 'runs'|does not name"):
        pg.load(path)


@pytest.mark.parametrize("kind", KINDS)
def test_a_negative_standard_error_of_the_total_is_refused(tmp_path, kind):
    with pytest.raises(FileFormatError, match="total_stddev"):
        pg.load(written(tmp_path / "m.npz", kind, total_stddev=-1.0))

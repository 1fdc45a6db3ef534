"""The command line: what it writes, what it says when something is wrong, and its exit codes."""

import contextlib
import csv
import inspect
import io
import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pgmest as pg
from pgmest.cli.answers import number_texts
from pgmest.cli.command import make_parser
from pgmest.cli.commands import COMMANDS
from pgmest.cli.main import main

DOMAIN = {"age": 5, "sex": 2, "city, state": 3}
CLIQUES = ["age,sex", '["sex", "city, state"]']


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A folder with a table, its domain, measurements of it and a model, all but the table made by commands."""
    folder = tmp_path_factory.mktemp("cli")
    rng = np.random.default_rng(0)
    age = rng.integers(0, 5, 2000)
    sex = (rng.random(2000) < 0.2 + 0.15 * age).astype(int)
    city = np.where(rng.random(2000) < 0.5, sex, 2)
    domain = pg.Domain(DOMAIN)
    domain.save(folder / "domain.json")
    pg.Dataset.from_codes(np.stack([age, sex, city], axis=1), domain).save(folder / "data.csv.gz")
    assert main(["measure", str(folder / "data.csv.gz"), *measure_options(folder)]) == 0
    assert main(["estimate", *estimate_options(folder)]) == 0
    return folder


def measure_options(folder: Path, out: str = "measurements.json") -> list[str]:
    files = ["--domain", str(folder / "domain.json"), "--out", str(folder / out), "--overwrite"]
    return [*files, "--cliques", *CLIQUES, "--stddev", "3", "--seed", "1"]


def estimate_options(folder: Path, out: str = "model.npz") -> list[str]:
    files = ["--domain", "domain.json", "--measurements", "measurements.json", "--out", out, "--overwrite"]
    return [text if text.startswith("--") else str(folder / text) for text in files]


def data(folder: Path) -> pg.Dataset:
    return pg.Dataset.load(folder / "data.csv.gz", DOMAIN)


# -- what the commands do -------------------------------------------------------------------------------------------


def test_measurements_are_near_the_truth_and_say_they_are_not_private(folder, capsys):
    assert main(["measure", str(folder / "data.csv.gz"), *measure_options(folder, "again.json")]) == 0
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == "pgmest: these measurements are simulated; they are NOT private.\n"
    assert (folder / "again.json").read_text() == (folder / "measurements.json").read_text()
    from pgmest.measurements.files import load_measurements

    for measurement, clique in zip(
        load_measurements(folder / "again.json", pg.Domain(DOMAIN)),
        [("age", "sex"), ("sex", "city, state")],
        strict=True,
    ):
        assert measurement.clique == clique
        assert measurement.stddev == 3.0
        np.testing.assert_allclose(measurement.values, data(folder).project(clique).datavector(), atol=12)


def test_cliques_from_a_file_equal_cliques_on_the_line(folder):
    (folder / "cliques.json").write_text('[["age", "sex"], ["sex", "city, state"]]')
    options = measure_options(folder, "from-file.json")
    place = options.index("--cliques")
    options[place : place + 3] = ["--cliques-file", str(folder / "cliques.json")]
    assert main(["measure", str(folder / "data.csv.gz"), *options]) == 0
    assert (folder / "from-file.json").read_text() == (folder / "measurements.json").read_text()


def test_estimate_writes_the_model_and_prints_the_report(folder, capsys):
    assert main(["estimate", *estimate_options(folder, "total.npz"), "--total", "1990"]) == 0
    model = pg.load(folder / "total.npz")
    captured = capsys.readouterr()
    assert model.total == pytest.approx(1990)
    shown = f"{model.report}\n".splitlines()
    assert captured.out.startswith(f"{shown[0]}, ")  # and the time, which is not in the file
    assert captured.out.splitlines()[1:] == shown[1:]
    assert captured.err == ""


def test_query_writes_the_models_marginal_as_csv(folder, capsys):
    assert main(["query", str(folder / "model.npz"), "sex,age", "--out", str(folder / "sex-age.csv")]) == 0
    rows = list(csv.reader((folder / "sex-age.csv").open()))
    expected = pg.load(folder / "model.npz").project(("sex", "age"))
    assert rows[0] == ["sex", "age", "count", "+-", "low", "high"]
    low, high = pg.load(folder / "model.npz").interval(("sex", "age"))
    assert all(0 < float(row[3]) < 50 for row in rows[1:])
    for column, values in ((3, high - expected), (4, low), (5, high)):
        np.testing.assert_allclose([float(row[column]) for row in rows[1:]], values.datavector(), rtol=1e-4)
    assert [(int(sex), int(age)) for sex, age, *_ in rows[1:]] == list(np.ndindex(2, 5))
    np.testing.assert_allclose([float(row[2]) for row in rows[1:]], expected.datavector(), rtol=1e-9)
    np.testing.assert_allclose(expected.values, data(folder).project(("sex", "age")).values, atol=15)
    assert main(["query", str(folder / "model.npz"), "sex,age"]) == 0
    shown = list(csv.reader(io.StringIO(capsys.readouterr().out)))
    assert [row[:2] for row in shown] == [row[:2] for row in rows]
    for row, exact in zip(shown[1:], rows[1:], strict=True):
        decimals = {len(number.partition(".")[2]) for number in row[2:]}
        assert len(decimals) == 1  # a margin of three digits, and the other numbers to the same decimal
        assert len(row[3].replace(".", "").lstrip("0")) == 3
        np.testing.assert_allclose([*map(float, row[2:])], [*map(float, exact[2:])], atol=0.51 * 10.0 ** -max(decimals))


@pytest.mark.parametrize(
    ("numbers", "texts"),
    [
        ([1745.013789, 16.712, 1728.301, 1761.725], ["1745.0", "16.7", "1728.3", "1761.7"]),
        ([1_234_567.8, 12_345.6, 0.0, 1_246_913.4], ["1234600", "12300", "0", "1246900"]),
        ([0.31415926, 0.00271828, 0.31144, 0.31688], ["0.31416", "0.00272", "0.31144", "0.31688"]),
        ([-1e-9, 9.996, 0.0, 9.996], ["0.00", "10.00", "0.00", "10.00"]),
        ([1745.013789, 0.0, 1745.0138, 1745.0138], ["1745.013789", "0", "1745", "1745"]),
        ([1745.013789, 1e-11, 1745.0138, 1745.0138], ["1745.013789", "1e-11", "1745", "1745"]),
        ([math.nan, math.nan, 0.0, 1.0], ["", "", "0", "1"]),
        ([3.0, math.inf, 0.0, math.inf], ["3", "inf", "0", "inf"]),
        ([1745.013789], ["1745.013789"]),
    ],
)
def test_a_margin_of_error_says_how_many_digits_are_shown(numbers, texts):
    assert number_texts(numbers, rounded=True) == texts


def test_files_keep_more_digits():
    assert number_texts([1745.013789, 16.7123, 1728.3, 1761.73], False) == ["1745.013789", "16.712", "1728.3", "1761.7"]


def test_query_of_an_unmeasured_clique_and_of_several(folder, capsys):
    assert main(["query", str(folder / "model.npz"), '["age", "city, state"]', "sex", "--interval", "none"]) == 0
    first, second = capsys.readouterr().out.split("\n\n")
    assert first.splitlines()[0] == 'age,"city, state",count'
    assert len(first.splitlines()) == 16
    assert [line.split(",")[0] for line in second.splitlines()] == ["sex", "0", "1"]


def test_query_of_no_attributes_is_the_total(folder, capsys):
    assert main(["query", str(folder / "model.npz"), "[]", "--interval", "none"]) == 0
    header, count = capsys.readouterr().out.split()
    assert header == "count"
    assert float(count) == pytest.approx(2000, abs=20)


def test_query_as_json_into_a_file(folder, capsys):
    assert main(["query", str(folder / "model.npz"), "age, sex", "sex", "--json", "--out", str(folder / "q.json")]) == 0
    assert capsys.readouterr().out == ""
    pair, one = json.loads((folder / "q.json").read_text())
    assert (pair["attributes"], one["attributes"]) == (["age", "sex"], ["sex"])
    np.testing.assert_allclose(pair["counts"], pg.load(folder / "model.npz").project(("age", "sex")).values)


def test_query_has_intervals_of_selected_records_at_any_level(folder, capsys):
    model, path = pg.load(folder / "model.npz"), str(folder / "model.npz")
    assert main(["query", path, "sex", "--given", "age=1..2", "sex=1", "--level", "0.9", "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    inside = np.array([[0, 1, 1, 0, 0]])
    low, high = model.interval(pg.Kron({"sex": np.diag([0, 1]), "age": inside}), level=0.9)
    assert found["counts"][0] == found["margin"][0] == 0.0
    np.testing.assert_allclose(found["low"], low.values[:, 0])
    np.testing.assert_allclose(found["high"], high.values[:, 0])
    assert (found["level"], found["interval"]) == (0.9, "errors")
    np.testing.assert_allclose(np.multiply(found["stddev"], 1.6449), found["margin"], rtol=1e-4)
    assert main(["query", path, "sex", "--interval", "noise", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["interval"] == "noise"


def test_query_of_a_model_without_answers_says_why_it_has_no_intervals(folder, tmp_path, capsys):
    from pgmest.models.exact import Model

    model = pg.load(folder / "model.npz")
    Model(model.potentials, model.total).save(tmp_path / "bare.npz")
    assert main(["query", str(tmp_path / "bare.npz"), "sex"]) == 0
    out, err = capsys.readouterr()
    assert out.splitlines()[0] == "sex,count"
    assert "sex has no interval: " in err
    for wrong in (["--level", "1"], ["--level", "nan"], ["--interval", "errors"]):
        assert main(["query", str(tmp_path / "bare.npz"), "sex", *wrong]) == 1


@pytest.mark.parametrize("method", ["round", "multinomial"])
def test_sample_writes_records_of_the_domain(folder, method):
    options = ["--rows", "500", "--seed", "3", "--method", method]
    for name in ("synthetic.csv", "synthetic.csv.gz", "synthetic.parquet"):
        if name.endswith("parquet"):
            pytest.importorskip("pyarrow")
        assert main(["sample", str(folder / "model.npz"), "--out", str(folder / name), "--overwrite", *options]) == 0
    plain, zipped, parquet = (
        pg.Dataset.load(folder / name, DOMAIN) for name in ("synthetic.csv", "synthetic.csv.gz", "synthetic.parquet")
    )
    assert plain.records == 500
    assert plain == zipped == parquet


def test_sample_writes_tables_for_analyses_into_one_file(folder, capsys):
    arguments = ["sample", str(folder / "model.npz"), "--tables", "3", "--seed", "0"]
    assert main([*arguments, "--out", str(folder / "tables.csv")]) == 0
    with (folder / "tables.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["table", "age", "sex", "city, state"]
    assert sorted({row["table"] for row in rows}) == ["1", "2", "3"]
    assert len(rows) == pytest.approx(3 * 2000, rel=0.05)
    part = [*arguments, "--attributes", "sex,age", "--rows", "10", "--out", "-"]
    assert main(part) == 0
    lines = capsys.readouterr().out.splitlines()
    assert (lines[0], len(lines)) == ("table,age,sex", 31)
    for wrong in (["--given", "sex=1"], ["--method", "multinomial"], ["--tables", "0"], ["--attributes", "agee"]):
        assert main([*arguments, *wrong, "--out", str(folder / "never.csv")]) in (1, 2)
    assert main(["sample", str(folder / "model.npz"), "--attributes", "age", "--out", str(folder / "never.csv")]) != 0
    assert not (folder / "never.csv").exists()


def test_sample_takes_the_estimated_total_by_default(folder):
    assert main(["sample", str(folder / "model.npz"), "--out", str(folder / "all.csv")]) == 0
    total = pg.load(folder / "model.npz").total
    assert pg.Dataset.load(folder / "all.csv", DOMAIN).records == round(total)


def test_info_shows_domain_tree_and_report(folder, capsys):
    assert main(["info", str(folder / "model.npz")]) == 0
    model = pg.load(folder / "model.npz")
    text = capsys.readouterr().out
    assert text.startswith(f"{model.total:,.1f} records, 3 attributes: age (5), sex (2), city, state (3)\n")
    assert str(model.junction_tree) in text
    assert text.endswith(f"{model.report}\n")


def test_info_as_json(folder, capsys):
    assert main(["info", str(folder / "model.npz"), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["domain"] == DOMAIN
    assert facts["measured_cliques"] == [["age", "sex"], ["sex", "city, state"]]
    assert facts["junction_tree"]["total_cells"] == 16
    assert facts["report"]["converged"] is True


# -- what they say when something is wrong --------------------------------------------------------------------------


def failure(arguments: list[str], capsys) -> str:
    """The message of a command that must fail with exit code 1, print nothing else and leave no traceback."""
    capsys.readouterr()
    assert main(arguments) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("pgmest: error: ")
    assert "Traceback" not in captured.err
    return captured.err.removeprefix("pgmest: error: ").rstrip("\n")


def test_unknown_attribute_names_the_nearest(folder, capsys):
    message = failure(["query", str(folder / "model.npz"), "agee"], capsys)
    assert message == "'agee' is not an attribute of the domain (age, sex, city, state). Did you mean 'age'?"


@pytest.mark.parametrize("clique", ["[1, 2]", '["age"', '[["age"]]'])
def test_clique_that_is_no_list_of_names(folder, capsys, clique):
    message = failure(["query", str(folder / "model.npz"), clique], capsys)
    assert message == f'clique={clique!r} is not valid: it must be a JSON list of names such as ["age", "income"].'


def test_model_that_is_missing(folder, capsys):
    assert "missing.npz: cannot be read" in failure(["info", str(folder / "missing.npz")], capsys)


def test_model_that_is_another_file(folder, capsys):
    assert "domain.json: " in failure(["info", str(folder / "domain.json")], capsys)


def test_truncated_measurements(folder, capsys):
    (folder / "short.json").write_text((folder / "measurements.json").read_text()[:100])
    options = estimate_options(folder)
    options[options.index("--measurements") + 1] = str(folder / "short.json")
    assert "short.json: " in failure(["estimate", *options], capsys)


@pytest.mark.parametrize(
    ("option", "value", "text"),
    [("--loss", "l3", "loss='l3' is not valid"), ("--method", "magic", "method='magic' is not valid")],
)
def test_unknown_choices_list_the_known_ones(folder, capsys, option, value, text):
    assert text in failure(["estimate", *estimate_options(folder), option, value], capsys)


@pytest.mark.parametrize("content", ["{", '{"age": 1}', '[["age", 3]]', "[3]"])
def test_file_of_cliques_that_is_none(folder, capsys, content):
    (folder / "bad.json").write_text(content)
    options = [*measure_options(folder), "--cliques-file", str(folder / "bad.json")]
    assert "bad.json: not a list of cliques." in failure(["measure", str(folder / "data.csv.gz"), *options], capsys)


def test_no_clique_to_measure(folder, capsys):
    options = ["--domain", str(folder / "domain.json"), "--stddev", "3", "--out", str(folder / "none.json")]
    message = failure(["measure", str(folder / "data.csv.gz"), *options], capsys)
    assert message == "no clique to measure: name some with --cliques age,income sex, or with --cliques-file."
    assert not (folder / "none.json").exists()


def test_records_outside_the_domain(folder, capsys):
    (folder / "wide.csv").write_text('age,sex,"city, state"\n1,1,1\n7,0,2\n')
    message = failure(["measure", str(folder / "wide.csv"), *measure_options(folder, "x.json")], capsys)
    assert "column 'age', row 1: value 7 is not a code in 0..4." in message


@pytest.mark.parametrize("arguments", [[], ["estimate"], ["query", "model.npz"], ["dance"], ["info", "m", "--jsn"]])
def test_wrong_usage_exits_with_2(capsys, arguments):
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 2
    assert "usage: pgmest" in capsys.readouterr().err


@pytest.mark.parametrize("rows", ["-1", "1.5", "many"])
def test_rows_must_be_a_count(folder, capsys, rows):
    with pytest.raises(SystemExit) as stopped:
        main(["sample", str(folder / "model.npz"), "--rows", rows, "--out", str(folder / "x.csv")])
    assert stopped.value.code == 2
    assert f"argument --rows: '{rows}' is not a whole number of at least 0" in capsys.readouterr().err


def test_an_output_makes_its_folder_but_no_folders_above_it(folder, capsys):
    assert main(["sample", str(folder / "model.npz"), "--rows", "5", "--out", str(folder / "new" / "x.csv")]) == 0
    assert (folder / "new" / "x.csv").is_file()
    (folder / "file").write_text("")
    with pytest.raises(SystemExit) as stopped:
        main(["sample", str(folder / "model.npz"), "--out", str(folder / "file" / "deep" / "x.csv")])
    assert stopped.value.code == 2
    assert main(["sample", str(folder / "model.npz"), "--out", str(folder / "file" / "x.csv")]) == 1
    assert "cannot be made: File exists" in capsys.readouterr().err
    with pytest.raises(SystemExit) as stopped:
        main(["sample", str(folder / "model.npz"), "--out", str(folder / "deep" / "nowhere" / "x.csv")])
    assert stopped.value.code == 2
    assert "x.csv' does not exist; create it first" in capsys.readouterr().err


def test_help_of_estimate_names_every_solver(capsys):
    from pgmest.estimation.estimate import SOLVERS

    with pytest.raises(SystemExit):
        main(["estimate", "--help"])
    text = capsys.readouterr().out
    assert [name for name in SOLVERS if name not in text] == []


def test_defaults_of_estimate_are_the_librarys():
    files = ["--domain", "d.json", "--measurements", "m.json", "--out", "model.npz"]
    options = vars(make_parser(COMMANDS.values()).parse_args(["estimate", *files]))
    parameters = inspect.signature(pg.estimate).parameters
    shared = {
        name: value for name, value in options.items() if name in parameters and name not in ("domain", "measurements")
    }
    assert set(shared) == {"total", "loss", "method", "tolerance", "max_iterations", "max_megabytes"}
    assert shared == {name: parameters[name].default for name in shared}


def test_errors_have_exit_codes_and_are_json_too(tmp_path, capsys):
    table, schema, ledger = tmp_path / "t.csv", tmp_path / "s.yaml", str(tmp_path / "t.ledger")
    table.write_text("sex\n" + "F\nM\n" * 50)
    schema.write_text("columns: {sex: {type: categorical, values: [F, M], missing: true}}")
    assert main(["ledger", "create", ledger, "--epsilon", "1", "--table", "t"]) == 0
    run = ["synthesize", str(table), "--schema", str(schema), "--mechanism", "independent", "--json", "--out"]
    new, night = str(tmp_path / "new.csv"), ["--checkpoint", str(tmp_path / "night")]
    capsys.readouterr()
    for code, kind, arguments in (
        (4, "budget", [*run, new, "--epsilon", "2", "--ledger", ledger]),
        (5, "exists", [*run, str(tmp_path / "s2.csv"), "--epsilon", "1"]),
        (1, "input", [*run, new, "--epsilon", "-1"]),
    ):
        (tmp_path / "s2.csv").write_text("")
        assert main(arguments) == code
        out, err = capsys.readouterr()
        assert json.loads(out)["error"]["kind"] == kind
        assert json.loads(out)["error"]["message"] in err
    assert main([*run, "-", "--epsilon", "-1"]) == 1  # the reader of the table gets none, and no JSON instead of it
    out, err = capsys.readouterr()
    assert out == ""
    assert json.loads(err.splitlines()[-1])["error"]["kind"] == "input"
    for again in (False, True):
        assert main([*run, new, "--epsilon", "1", *night, *(["--overwrite"] * again)]) == 0
        assert json.loads(capsys.readouterr().out)["repeated"] is again


MOST_LINES = 50
"""A screen: what the help of a command takes at most."""


def test_help_fits_a_screen_and_lists_what_help_all_describes(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "110")
    for command in COMMANDS:
        shown = []
        for option in ("--help", "--help-all"):
            with pytest.raises(SystemExit):
                main([command, option])
            shown.append(capsys.readouterr().out)
        brief, whole = shown
        assert len(brief.splitlines()) <= MOST_LINES, command
        parser = make_parser([COMMANDS[command]])
        subparsers: Any = parser._subparsers
        added = subparsers._group_actions[0].choices[command]._actions
        for name in (option for action in added for option in action.option_strings):
            assert name in brief, (command, name)
            assert name in whole, (command, name)
            assert len(whole) >= len(brief)


@pytest.mark.parametrize("command", COMMANDS)
def test_help_teaches_with_examples(capsys, command):
    with pytest.raises(SystemExit) as stopped:
        main([command, "--help"])
    assert stopped.value.code == 0
    text = capsys.readouterr().out
    assert f"  pgmest {command} " in text.partition("example")[2]
    assert max(map(len, text.splitlines())) <= 120


# -- as a process ---------------------------------------------------------------------------------------------------


def test_interrupt_exits_with_130_and_leaves_no_file(folder, capsys, monkeypatch):
    def interrupted(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(pg, "load", interrupted)
    before = sorted(path.name for path in folder.iterdir())
    assert main(["sample", str(folder / "model.npz"), "--out", str(folder / "never.csv")]) == 130
    assert capsys.readouterr().err == "pgmest: interrupted.\n"
    assert sorted(path.name for path in folder.iterdir()) == before


def test_interrupted_estimate_saves_the_model_so_far(folder, capsys, monkeypatch):
    @contextlib.contextmanager
    def interrupting_bar():
        def callback(progress):
            if progress.iteration == 3:
                raise KeyboardInterrupt

        yield callback

    monkeypatch.setattr("pgmest.solvers.progress.progress_bar", interrupting_bar)
    assert main(["estimate", *estimate_options(folder, "early.npz"), "--tolerance", "0"]) == 130
    assert capsys.readouterr().err == "pgmest: interrupted.\n"
    assert pg.load(folder / "early.npz").report.iterations == 3


def without_notice(text: str) -> str:
    """Without what a slow start or a slow machine says."""
    notices = ("pgmest: compiling", "pgmest: estimating replicates takes about")
    return "".join(line for line in text.splitlines(True) if not line.startswith(notices))


def test_reader_that_stops_early_is_no_error(folder):
    command = [sys.executable, "-m", "pgmest", "query", str(folder / "model.npz"), "age,sex"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert without_notice(process.stderr.read()) == ""
    assert process.returncode == 0


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_full_disk_is_an_error(folder):
    command = [sys.executable, "-m", "pgmest", "query", str(folder / "model.npz"), "age,sex"]
    with open("/dev/full", "w") as full:
        run = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True)
    assert without_notice(run.stderr) == "pgmest: error: [Errno 28] No space left on device\n"
    assert run.returncode == 1


# -- real tables ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "cliques", "query"),
    [
        ("adult14", ["age,sex", "sex,income>50K", "education-num,income>50K"], "age,income>50K"),
        ("fire", ["Call Type,City", "City,Station Area", "ALS Unit,Call Type"], "ALS Unit,City"),
    ],
)
def test_whole_chain_on_real_tables(shared_data, tmp_path, capsys, name, cliques, query):
    from experiments.data import find

    table = shared_data(name)
    source, model = find(name), str(tmp_path / "model.npz")
    files = ["--domain", str(source / "domain.json"), "--out", str(tmp_path / "measurements.json")]
    options = ["--cliques", *cliques, "--stddev", "10", "--seed", "0"]
    assert main(["measure", str(source / "data.csv.gz"), *files, *options]) == 0
    files = ["--domain", str(source / "domain.json"), "--measurements", str(tmp_path / "measurements.json")]
    assert main(["estimate", *files, "--out", model]) == 0
    assert main(["info", model]) == 0
    assert main(["sample", model, "--rows", "1000", "--out", str(tmp_path / "synthetic.csv")]) == 0
    assert pg.Dataset.load(tmp_path / "synthetic.csv", table.domain).records == 1000

    capsys.readouterr()
    assert main(["query", model, *cliques, query, "--interval", "none"]) == 0
    tables = capsys.readouterr().out.split("\n\n")
    for clique, text in zip([*cliques, query], tables, strict=True):
        counts = [float(row[-1]) for row in list(csv.reader(io.StringIO(text.strip())))[1:]]
        true = table.project(clique.split(",")).datavector()
        limit = 0.02 if clique in cliques else 0.2
        assert 0.5 * np.abs(true - counts).sum() < limit * table.records

"""No output of any command can replace an input, another output, or a file that was there before."""

import argparse
import os
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from pgmest.cli.command import make_parser
from pgmest.cli.commands import COMMANDS
from pgmest.cli.main import main
from pgmest.cli.paths import ContinuedFile, InputFile, OutputFile, OutputFolder, check_files, output
from pgmest.errors import ArgumentError

PARSER = make_parser(COMMANDS.values())
REQUIRED = {
    "synthesize": "TABLE --schema SCHEMA --epsilon 1 --out OUT.csv",
    "schema": "TABLE",
    "estimate": "--measurements MEASUREMENTS --out OUT.npz",
    "query": "MODEL age",
    "sample": "MODEL --out OUT.csv",
    "compare": "TABLE OTHER",
    "measure": "TABLE --domain DOMAIN --stddev 1 --out OUT.json",
}
FILES = {  # every option and argument that names a file, with an ending that it accepts
    "synthesize": {
        "table": ".csv",
        "--schema": ".csv",
        "--out": ".csv",
        "--workload-file": ".csv",
        "--report": ".csv",
        "--owner-report": ".csv",
        "--model": ".csv",
        "--ledger": ".csv",
        "--spent": ".csv",
        "--bought": ".csv",
        "--checkpoint": ".csv",
    },
    "schema": {"table": ".csv", "--out": ".csv"},
    "estimate": {"--domain": ".csv", "--schema": ".csv", "--measurements": ".csv", "--out": ".csv"},
    "query": {"model": ".csv", "--schema": ".csv", "--out": ".csv"},
    "sample": {"model": ".csv", "--schema": ".csv", "--out": ".csv"},
    "compare": {
        "true": ".csv",
        "estimated": ".csv",
        "--schema": ".csv",
        "--domain": ".csv",
        "--workload-file": ".csv",
        "--report": ".csv",
    },
    "measure": {"data": ".csv", "--domain": ".csv", "--cliques-file": ".csv", "--out": ".csv"},
}
READ = {"table", "true", "estimated", "model", "data", "--schema", "--domain", "--workload-file", "--measurements"}
READ |= {"--cliques-file"}


def parsed(command: str, files: dict[str, str]) -> argparse.Namespace:
    """The options of a command with these files; whatever else it needs is a name of its own."""
    words = [command]
    for name in FILES[command]:
        path = files.get(name, f"other-{name.strip('-')}.csv")
        if name == "--owner-report" and name not in files:
            path = "private.html"
        words += [path] if not name.startswith("-") else [name, path]
    words += {"synthesize": ["--epsilon", "1"], "query": ["age"], "measure": ["--stddev", "1"]}.get(command, [])
    return PARSER.parse_args(words)


def test_every_argument_that_names_a_file_is_known_here():
    for command in REQUIRED:
        actions: list[Any] = PARSER._subparsers._group_actions
        subparser = actions[0].choices[command]
        named = {
            (action.option_strings or [action.dest])[0]
            for action in subparser._actions
            if action.metavar in ("FILE", "TABLE", "MODEL", "TABLE-OR-MODEL")
        }
        assert named == set(FILES[command])


@pytest.mark.parametrize(
    ("command", "first", "second"),
    [(command, *pair) for command, files in FILES.items() for pair in permutations(files, 2)],
)
def test_no_output_is_another_file_of_the_command(command, first, second, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("private.csv").write_text("age\n1\n")
    os.link("private.csv", "private-link.csv")
    options = parsed(command, {first: "private.csv", second: str(tmp_path / "." / "private-link.csv")})
    if first in READ and second in READ:
        check_files(options)
    else:
        with pytest.raises(ArgumentError, match="are the same file"):
            check_files(options)
    assert Path("private.csv").read_text() == "age\n1\n"


@pytest.mark.parametrize(
    ("command", "name"), [(command, name) for command, files in FILES.items() for name in files if name not in READ]
)
def test_an_existing_output_is_kept_unless_given_up(command, name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("private.csv").write_text("precious")
    options = parsed(command, {name: "private.csv"})
    if name in ("--checkpoint", "--ledger"):
        check_files(options)
        return
    with pytest.raises(ArgumentError, match=rf"^{name}: private\.csv exists already: name another file, or add --over"):
        check_files(options)
    options.overwrite = True
    check_files(options)


@pytest.mark.parametrize("kind", ["symbolic", "hard", "relative", "dangling"])
def test_links_count_as_what_they_lead_to(kind, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table = Path("table.csv")
    if kind != "dangling":
        table.write_text("age\n1\n")
    link = Path("link.csv")
    if kind == "hard":
        os.link(table, link)
    elif kind == "relative":
        Path("folder").mkdir()
        link = Path("folder") / ".." / "table.csv"
    else:
        link.symlink_to(table)
    options = argparse.Namespace(positional=("table",), table=InputFile(table), out=OutputFile(link), overwrite=True)
    with pytest.raises(ArgumentError, match=r"^TABLE and --out are the same file, table\.csv: name another output\.$"):
        check_files(options)


def test_pipes_devices_and_standard_output_are_no_files(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in ("/dev/null", str(pipe), "-"):
        options = argparse.Namespace(
            positional=(), table=InputFile(path), out=OutputFile(path), report=OutputFile(path), overwrite=False
        )
        check_files(options)


def test_a_checkpoint_may_exist_but_is_no_other_file(tmp_path):
    path = tmp_path / "run.journal"
    path.write_text("")
    check_files(argparse.Namespace(positional=(), checkpoint=ContinuedFile(path), overwrite=False))
    both = argparse.Namespace(positional=(), checkpoint=ContinuedFile(path), out=OutputFile(path), overwrite=True)
    with pytest.raises(ArgumentError, match="--checkpoint and --out are the same file"):
        check_files(both)


@pytest.mark.parametrize("report", ["there.html", "new", "new/", "deeper/.."])
def test_an_output_that_is_a_folder_is_refused_before_anything_is_spent(report, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("there.html").mkdir()
    Path("deeper").mkdir()
    outputs = {"out": OutputFile("new/x.csv"), "report": OutputFile(report)}
    with pytest.raises(ArgumentError, match=rf"^--report: {report} is a folder: name a file\.$"):
        check_files(argparse.Namespace(positional=(), **outputs, overwrite=True))
    assert not Path("new").exists()
    folder = argparse.Namespace(positional=(), out=OutputFolder("new"), report=OutputFile("new"), overwrite=False)
    with pytest.raises(ArgumentError, match=r"^--report: new is a folder"):
        check_files(folder)
    check_files(argparse.Namespace(positional=(), out=OutputFile("new/x.csv"), report=OutputFile("new/r.html")))
    assert Path("new").is_dir()


def test_a_folder_that_cannot_be_written_to_is_refused_before_anything_is_spent(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("link.csv").symlink_to("missing/table.csv")
    options = argparse.Namespace(positional=(), out=OutputFile("link.csv"), overwrite=True)
    with pytest.raises(ArgumentError, match=r"^--out: link\.csv cannot be written: its folder is missing"):
        check_files(options)
    Path("missing").mkdir()
    check_files(options)
    monkeypatch.setattr(os, "access", lambda folder, mode: folder != os.path.realpath("missing"))
    with pytest.raises(ArgumentError, match=r"^--out: link\.csv cannot be written"):
        check_files(options)


def test_no_folder_is_made_for_a_ledger_or_for_a_home_that_the_shell_did_not_read(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["ledger", "show", "typing-error/people.ledger"]) == 1
    assert "cannot be opened" in capsys.readouterr().err
    with pytest.raises(argparse.ArgumentTypeError, match=r"the folder of '~/x\.csv' does not exist"):
        output("~/x.csv")
    assert not list(tmp_path.iterdir())


def test_the_command_says_so_and_touches_nothing(tmp_path, capsys):
    table = tmp_path / "people.csv"
    table.write_text("age\n1\n")
    schema = tmp_path / "people.yaml"
    schema.write_text("columns: {age: {type: integer, min: 0, max: 9}}\n")
    words = ["synthesize", str(table), "--schema", str(schema), "--epsilon", "1", "--out", str(table), "--overwrite"]
    assert main(words) == 1
    assert "TABLE and --out are the same file" in capsys.readouterr().err
    assert table.read_text() == "age\n1\n"

"""What a member of a review board sees of a released folder: report, model and ledger tell of one run, in one way."""

import json

import pytest

from pgmest.cli.main import main

from ..synthesizer.test_linked import SURVEY, survey_of

pytest.importorskip("matplotlib")

SCHEMA = (
    "columns:\n  age: {type: integer, min: 0, max: 99}\n  sex: {type: categorical, values: [f, m], outside: clip}\n"
)


@pytest.fixture
def flat(tmp_path):
    rows = [f"{17 * i % 90},{'fm'[i % 2]}" for i in range(200)]
    (tmp_path / "people.csv").write_text("\n".join(["age,sex", *rows]) + "\n")
    (tmp_path / "schema.yaml").write_text(SCHEMA)
    return [tmp_path / "people.csv"]


@pytest.fixture
def linked(tmp_path):
    for name, frame in survey_of(60).items():
        frame.to_csv(tmp_path / f"{name}.csv", index=False)
    (tmp_path / "schema.yaml").write_text(SURVEY)
    return [f"{name}={tmp_path / name}.csv" for name in ("households", "persons")]


def printed_by(capsys, *arguments):
    assert main([str(one) for one in arguments]) == 0
    return capsys.readouterr().out


@pytest.mark.usefixtures("blank_pictures")
@pytest.mark.parametrize("kind", ["flat", "linked"])
def test_report_model_and_ledger_tell_of_one_run_and_of_all_runs(kind, request, tmp_path, capsys):
    tables, ledger, schema = request.getfixturevalue(kind), tmp_path / "all.ledger", tmp_path / "schema.yaml"
    printed_by(
        capsys, "ledger", "create", ledger, "--epsilon", 3, *(["--unit", "households"] if kind == "linked" else [])
    )
    for number in (1, 2):
        out = tmp_path / f"out{number}"
        place = out / "synthetic.csv" if kind == "flat" else out
        model, page = out / "model.npz", out / "report.html"
        files = ["--out", place, "--model", model, "--report", page]
        printed_by(capsys, "synthesize", *tables, "--schema", schema, "--epsilon", 1, *files, "--ledger", ledger)
    (_, run) = json.loads(printed_by(capsys, "ledger", "show", ledger, "--json"))["runs"]
    taken = next(line for line in printed_by(capsys, "ledger", "show", ledger).splitlines() if line.startswith("taken"))
    facts, text = printed_by(capsys, "info", model), page.read_text()
    for line in (
        run["run"],
        run["label"],
        taken.removeprefix("taken:").strip(),
        "by 2 runs",
        "(1, 1e-09)-differential",
    ):
        assert line in facts
        assert line in text
    assert json.loads(printed_by(capsys, "info", model, "--json"))["privacy"]["run"] == run["run"]
    head = text[: text.index("</table>")]
    named = ["promise", "all runs so far", "who is protected", "measured", "typically off by", "mechanism"]
    assert sorted(named, key=head.index) == named
    assert "columns:" in text[text.index("<h2>The schema</h2>") :]

"""`pgmest disclose`: certain cells are listed, the rest is not, and inconsistent tables are refused."""

from __future__ import annotations

import json

import pytest

from pgmest.cli.main import main

PUBLISHED = {
    "format": "pgmest-measurements",
    "version": 2,
    "measurements": [
        {"clique": ["age"], "values": [12, 30, 4], "exact": True},
        {"clique": ["age", "sex"], "values": [[12, None], [15, 15], [None, None]], "suppressed": 5},
    ],
}


@pytest.fixture
def files(tmp_path):
    (tmp_path / "domain.json").write_text('{"age": 3, "sex": 2}')
    (tmp_path / "published.json").write_text(json.dumps(PUBLISHED))
    return [str(tmp_path / "published.json"), "--domain", str(tmp_path / "domain.json")]


def test_lists_the_cells_that_are_certain(files, capsys) -> None:
    assert main(["disclose", *files, "--cells", "age,sex", "sex"]) == 3
    out, err = capsys.readouterr()
    assert out.split("\n\n")[0].splitlines() == [
        "age,sex,low,high,disclosed",
        "0,0,12,12,yes",
        "0,1,0,0,yes",  # a complement gives the suppressed cell away
        "1,0,15,15,yes",
        "1,1,15,15,yes",
    ]
    assert "4 of 8 cells" in err


def test_json_and_widths(files, capsys, tmp_path) -> None:
    out = tmp_path / "found.json"
    assert main(["disclose", *files, "--cells", "age,sex", "--width", "4", "--json", "--out", str(out)]) == 3
    found = json.loads(out.read_text())
    assert (found["disclosed"], found["cells"]) == (6, 6)
    assert found["tables"][0]["cells"][4] == {"codes": [2, 0], "low": 0.0, "high": 4.0, "disclosed": True}
    assert main(["disclose", *files, "--cells", "sex", "--all"]) == 0
    assert capsys.readouterr().out.splitlines() == ["sex,low,high,disclosed", "0,27,31,no", "1,15,19,no"]


def test_refuses_tables_that_contradict_each_other(files, capsys, tmp_path) -> None:
    wrong = json.loads(json.dumps(PUBLISHED))
    wrong["measurements"][0]["values"][1] = 29
    (tmp_path / "published.json").write_text(json.dumps(wrong))
    assert main(["disclose", *files, "--cells", "age"]) == 1
    err = capsys.readouterr().err
    assert "contradict each other" in err
    assert "measurements[0] (age): cell 1 is 29" in err


def test_needs_a_domain(files, capsys) -> None:
    assert main(["disclose", files[0], "--cells", "age"]) == 1
    assert "--domain or --schema" in capsys.readouterr().err

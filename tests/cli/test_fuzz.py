"""The command line on files of any content: an exit code and a message, never a traceback, never half a file."""

from __future__ import annotations

from pathlib import Path

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from pgmest.cli.main import main
from pgmest.schema import Schema

TRAPS = ["", "NA", "7", "-3.5", "1e400", "nan", "2020-02-30", "2020-02-29", "true", "007", '"', "a,b", " x "]
FIELD = st.sampled_from(TRAPS) | st.text(max_size=6)
TABLE = st.lists(st.lists(FIELD, min_size=1, max_size=4).map(",".join), max_size=6).map("\n".join)
FUZZ = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


def exit_code(arguments: list[str], capsys) -> int:
    """The exit code of a command that may fail with one message, and in no other way."""
    capsys.readouterr()
    code = main(arguments)
    captured = capsys.readouterr()
    assert code in (0, 1)
    assert "Traceback" not in captured.err
    if code:
        told = [line for line in captured.err.split("\n") if not line.startswith("pgmest: WARNING: ")]
        assert told[0].startswith("pgmest: error: ")
        assert captured.out == ""
    return code


@FUZZ
@given(TABLE.map(str.encode) | st.binary(max_size=60))
@example(b"a,b\r\n1,\r\n,2\r\n")
@example(b"\xef\xbb\xbfa\n1\n")
@example(b"a,a\n1,2\n")
@example(b"yes\nno\n")
@example(b"\nNA")
@example(b",NA,7\n,,1e400")
@example(b",NA,7,0\n7,,,")
def test_any_table_is_drafted_or_refused_and_a_draft_is_a_schema(tmp_path, capsys, content):
    table, draft = tmp_path / "table.csv", tmp_path / "draft.yaml"
    table.write_bytes(content)
    draft.unlink(missing_ok=True)
    if exit_code(["schema", str(table), "--out", str(draft), "--overwrite"], capsys) == 0:
        text = draft.read_text(encoding="utf-8")
        if "\n    type: " in text:  # else every column was left out
            assert Schema.parse(text).drafted
            files = [str(table), "--schema", str(draft), "--out", str(tmp_path / "made.csv"), "--overwrite"]
            options = ["--allow-draft", "--rho", "1", "--insecure-simulation", "--mechanism", "independent"]
            assert exit_code(["synthesize", *files, *options], capsys) == 0
    else:
        assert not draft.exists()


@FUZZ
@given(st.text(max_size=80) | st.binary(max_size=40))
@example("columns: {a: {type: boolean}}")
@example("columns: *a")
@example("{" * 60)
def test_any_schema_is_shown_or_refused(tmp_path, capsys, content):
    for ending in (".yaml", ".toml"):
        file: Path = tmp_path / f"schema{ending}"
        file.write_bytes(content.encode() if isinstance(content, str) else content)
        exit_code(["info", str(file)], capsys)


@FUZZ
@given(st.text(max_size=60) | st.binary(max_size=60))
def test_any_model_domain_and_measurements_are_refused(tmp_path, capsys, content):
    data = content.encode() if isinstance(content, str) else content
    for name in ("m.npz", "d.json", "q.json"):
        (tmp_path / name).write_bytes(data)
    assert exit_code(["info", str(tmp_path / "m.npz")], capsys) == 1
    files = ["--domain", str(tmp_path / "d.json"), "--measurements", str(tmp_path / "q.json")]
    assert exit_code(["estimate", *files, "--out", str(tmp_path / "out.npz")], capsys) == 1
    assert not (tmp_path / "out.npz").exists()

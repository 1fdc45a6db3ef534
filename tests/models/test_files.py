"""Models on disk: they come back bit for bit, and no other file is taken for one."""

from __future__ import annotations

import contextlib
import io
import json
import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pgmest as pg
from pgmest.errors import FileFormatError
from pgmest.solvers.report import EstimationReport
from pgmest.solvers.status import Status
from tests.inference.problems import Problem, problems

REPORT = EstimationReport("x", 1.25, np.float64(0.1), np.inf, 3, 4, 0.1, Status.CONVERGED, "why\n")  # type: ignore[arg-type]
REMEDY = "Only files written by model.save(...) can be read; write it again."


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "model.npz"


@pytest.fixture
def saved(path: Path) -> Path:
    values = {("a", "b"): np.array([[0.1, -np.inf], [1e4, -0.0]]), ("b",): np.array([np.pi, 5e-324]), (): np.array(2.0)}
    pg.Model(pg.CliqueVector({"a": 2, "b": 2, "é": 3}, values), 10.1, REPORT, 0.3).save(path)
    return path


def members(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def write(path: Path, contents: dict[str, bytes], **options: Any) -> None:
    with zipfile.ZipFile(path, "w", **options) as archive:
        for name, content in contents.items():
            archive.writestr(name, content)


def npy(array: Any, allow_pickle: bool = False) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=allow_pickle)
    return buffer.getvalue()


def edit(path: Path, **changes: Any) -> None:
    """Write the file again with another header."""
    contents = members(path)
    header = json.loads(np.load(io.BytesIO(contents["header.npy"])).tobytes()) | changes
    header = {name: value for name, value in header.items() if value is not ...}
    contents["header.npy"] = npy(np.frombuffer(json.dumps(header).encode(), dtype=np.uint8))
    write(path, contents)


def problem_of(path: Path) -> str:
    with pytest.raises(FileFormatError) as caught:
        pg.load(path)
    text = str(caught.value)
    assert text.startswith(f"{path}: not a model file")
    assert text.endswith(REMEDY)
    return text


class TestRoundTrip:
    def test_everything_comes_back(self, saved: Path) -> None:
        model = pg.load(saved)
        assert model.domain == pg.Domain({"a": 2, "b": 2, "é": 3})
        assert model.cliques == (("a", "b"), ("b",), ())
        assert model.potentials.flat.tobytes() == np.array([0.1, -np.inf, 1e4, -0.0, np.pi, 5e-324, 2.0]).tobytes()
        assert (model.total, model.total_stddev, model.report) == (10.1, 0.3, REPORT.published())

    def test_without_a_report(self, path: Path) -> None:
        pg.Model(pg.CliqueVector.zeros({}, []), 3.0).save(path)
        model = pg.load(path)
        assert (model.report, model.total_stddev, model.total, model.cliques) == (None, None, 3.0, ())

    @given(problems())
    @settings(max_examples=25, deadline=None)
    def test_of_any_potentials(self, tmp_path_factory: pytest.TempPathFactory, problem: Problem) -> None:
        path = tmp_path_factory.mktemp("models") / "model.npz"
        pg.Model(problem.vector, 1.5).save(path)
        assert pg.load(path).potentials == problem.vector

    def test_an_old_file_survives_a_failed_save(self, saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        before = saved.read_bytes()
        monkeypatch.setattr(np, "savez", lambda *_, **__: (_ for _ in ()).throw(OSError(28, "No space left on device")))
        with pytest.raises(FileFormatError, match="cannot be written: No space left on device"):
            pg.load(saved).save(saved)
        assert saved.read_bytes() == before
        assert list(saved.parent.iterdir()) == [saved]


class TestOtherFiles:
    def test_one_that_is_missing(self, path: Path) -> None:
        with pytest.raises(FileFormatError) as caught:
            pg.load(path)
        assert str(caught.value) == f"{path}: cannot be read: No such file or directory. Check the path."

    def test_one_that_is_no_archive(self, path: Path) -> None:
        path.write_bytes(pickle.dumps({"total": 1}))
        problem_of(path)

    @given(st.data())
    @settings(max_examples=200, deadline=None)
    def test_a_damaged_one(self, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
        path = tmp_path_factory.mktemp("damaged") / "model.npz"
        model = pg.Model(pg.CliqueVector.zeros({"a": 2, "b": 3}, [("a", "b")]), 3.0, REPORT)
        model.save(path)
        content = bytearray(path.read_bytes())
        where = data.draw(st.integers(0, len(content) - 1))
        if data.draw(st.booleans()):
            content = content[:where]
        else:
            content[where] = data.draw(st.integers(0, 255))
        path.write_bytes(content)
        with contextlib.suppress(FileFormatError):  # unless the byte means nothing, as those of the time of writing
            assert pg.load(path).potentials == model.potentials

    @pytest.mark.parametrize(
        ("changes", "problem"),
        [
            ({"format": "other"}, "its header does not say so"),
            ({"version": 2}, "its version is 2, and this release reads version 1"),
            ({"version": ...}, "its version is None, and this release reads version 1"),
            ({"total": ...}, "its header lacks 'total'"),
            ({"domain": [["a", 0]]}, "its domain or cliques are wrong"),
            ({"domain": {"a": 2}}, "its domain or cliques are wrong"),
            ({"domain": 5}, "its domain or cliques are wrong"),
            ({"cliques": [["a", "x"]]}, "'x' is not an attribute"),
            ({"cliques": [["a", "b"], ["a", "b"]]}, "it has a clique twice"),
            ({"cliques": None}, "its domain or cliques are wrong"),
            ({"cliques": [["a", 3]]}, "its domain or cliques are wrong"),
            ({"kind": "Other"}, "its kind is 'Other', and this release reads ApproximateModel, BayesianNetwork"),
            ({"about": 3}, "what it says about itself is wrong"),
            ({"cells": {"array": "header"}}, "names the array 'header', which is missing or used twice"),
            ({"cells": [1.0] * 7}, "it has members that its header does not name: cells"),
            (
                {"cells": {"array": "cells"}, "facts": {"array": "cells"}},
                "names the array 'cells', which is missing or used twice",
            ),
            ({"facts": 3}, "its facts is no list of objects"),
            ({"cliques": [["a", "b"]]}, "the values of a clique vector: expected shape (4,), got (7,)"),
            ({"domain": [["a", 10**9], ["b", 10**9], ["é", 1]]}, "its attributes have 2,000,000,001 values, more than"),
            ({"total": "many"}, "its total is 'many', not a number"),
            ({"total": np.nan}, "its total is nan, not a number"),
            ({"total": -1}, "total=-1.0 is not valid"),
            ({"total_stddev": []}, "its total_stddev is [], not a number"),
            ({"report": {"method": "x"}}, "its report has other fields than a report"),
            ({"report": 3}, "its report has other fields than a report"),
        ],
    )
    def test_a_header_that_is_wrong(self, saved: Path, changes: dict[str, Any], problem: str) -> None:
        edit(saved, **changes)
        assert problem in problem_of(saved)

    def test_a_report_with_a_value_of_another_type(self, saved: Path) -> None:
        contents = members(saved)
        report = json.loads(np.load(io.BytesIO(contents["header.npy"])).tobytes())["report"]
        edit(saved, report=report | {"iterations": "three"})
        assert "its report has iterations='three'" in problem_of(saved)

    @pytest.mark.parametrize(
        ("member", "content", "problem"),
        [
            ("header.npy", npy(np.frombuffer(b"{", dtype=np.uint8)), "or a damaged one (Expecting property name"),
            ("header.npy", npy(np.frombuffer(b"[" * 100_000, dtype=np.uint8)), "its header is nested too deeply"),
            ("header.npy", npy(np.frombuffer(b"\xff\xfe", dtype=np.uint8)), "or a damaged one ('utf-8' codec"),
            ("header.npy", npy(np.frombuffer(b"[1]", dtype=np.uint8)), "its header does not say so"),
            ("header.npy", npy(np.array("text")), "holds <U4, not numbers"),
            ("header.npy", npy(np.array([{}]), allow_pickle=True), "holds object, not numbers"),
            ("header.npy", b"", "names the array 'header', which cannot be read"),
            ("cells.npy", npy(np.zeros(7, dtype=np.float32)), "one-dimensional array of float64 is something else"),
            ("cells.npy", npy(np.zeros((7, 1))), "one-dimensional array of float64 is something else"),
            ("cells.npy", npy(np.zeros(7))[:-3], "its shape (7,) does not fit its 181 bytes"),
            ("cells.npy", npy(np.full(7, np.nan)), "the potentials hold NaN or +inf"),
            ("cells.npy", npy(np.zeros(5000)), "expected shape (7,), got (5000,)"),
            ("cells.npy", npy(np.array([print] * 7), allow_pickle=True), "holds object, not numbers"),
        ],
    )
    def test_a_member_that_is_wrong(self, saved: Path, member: str, content: bytes, problem: str) -> None:
        write(saved, members(saved) | {member: content})
        assert problem in problem_of(saved)

    def test_a_shape_that_the_member_does_not_have_is_not_allocated(self, saved: Path) -> None:
        content = npy(np.zeros(7)).replace(b"(7,), }          ", b"(70000000000,), }")
        write(saved, members(saved) | {"cells.npy": content})
        assert "its shape (70000000000,) does not fit its 184 bytes" in problem_of(saved)

    def test_other_members(self, saved: Path) -> None:
        write(saved, members(saved) | {"more.npy": npy(np.zeros(1))})
        assert "it has members that its header does not name: more" in problem_of(saved)

    def test_a_compressed_one_which_could_unpack_to_any_size(self, saved: Path) -> None:
        write(saved, members(saved), compression=zipfile.ZIP_DEFLATED)
        assert "its member header.npy is compressed" in problem_of(saved)

    def test_a_header_of_absurd_size(self, saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("pgmest._base.npz.LARGEST_HEADER", 100)
        assert "where at most 100 make sense" in problem_of(saved)

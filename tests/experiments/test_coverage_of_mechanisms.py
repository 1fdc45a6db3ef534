"""The classes of questions, the scores and the sums of the coverage experiment, by hand on small tables."""

import json
import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

import pgmest as pg
from experiments.coverage_of_mechanisms import command, fits, records, scores
from experiments.coverage_of_mechanisms.questions import (
    CLASSES,
    COMBINED,
    Question,
    conditional_means,
    judged,
    questions,
    slopes,
)
from experiments.coverage_of_mechanisms.report import write
from experiments.coverage_of_mechanisms.summaries import summary
from experiments.coverage_of_mechanisms.tables import HOSTILE, data_of
from pgmest.models.intervals import Interval

SIZES = {"a": 4, "b": 3, "c": 5, "d": 2}


@pytest.fixture
def data() -> pg.Dataset:
    codes = np.random.default_rng(0).integers(0, list(SIZES.values()), (500, 4))
    return pg.Dataset.from_codes(codes, pg.Domain(SIZES))


def test_pairs_inside_a_measured_clique_are_measured_and_no_others(data):
    asked = list(questions(data.domain, [("a", "b", "c"), ("d",)], seed=0))
    assert {q.query for q in asked if q.kind == "cells"} == {("a", "b"), ("a", "c"), ("b", "c")}
    assert {q.query for q in asked if q.kind == "cells, unmeasured"} == {("a", "d"), ("b", "d"), ("c", "d")}
    assert {q.kind for q in asked} <= set(CLASSES)
    measured = {frozenset(q.query.attributes) for q in asked if q.kind == "boxes"}
    assert measured == {frozenset(q.query) for q in asked if q.kind == "cells"}


def test_the_same_seed_asks_the_same_questions(data):
    one, other = (list(questions(data.domain, [("a", "b")], seed=3)) for _ in range(2))
    boxes = [[q.exact(data) for q in asked if q.kind.startswith("boxes")] for asked in (one, other)]
    assert all(np.array_equal(mine, theirs) for mine, theirs in zip(*boxes, strict=True))


def test_boxes_and_prefixes_are_sums_of_cells(data):
    for question in questions(data.domain, [("a", "b")], seed=1):
        if question.kind == "prefixes of pairs":
            table = data.project(question.query.attributes).values
            assert np.array_equal(question.exact(data).reshape(table.shape), table.cumsum(axis=0).cumsum(axis=1))
        if question.kind == "boxes":
            rows, columns = (matrix.matrix() for matrix in question.query.matrices)
            assert set(np.unique(rows)) <= {0.0, 1.0}
            assert (np.abs(np.diff(np.pad(rows, ((0, 0), (1, 1))), axis=1)).sum(axis=1) == 2).all()
            table = data.project(question.query.attributes).values
            assert np.allclose(question.exact(data).reshape(5, 5), rows @ table @ columns.T)


def test_conditional_means_and_slopes_are_those_of_the_records(data):
    frame = pd.DataFrame(data.codes, columns=list(SIZES))
    means: Any = frame.groupby("a")["c"].mean()
    assert np.allclose(conditional_means(data.project(("a", "c"))), means.to_numpy())
    design = frame[["a", "c"]].assign(constant=1.0)
    wanted, residuals, *_ = np.linalg.lstsq(design, frame["b"], rcond=None)
    estimate, variance = records.regression(data.project(("a", "c", "b")))
    assert np.allclose(estimate, wanted[:2])
    covariance = float(residuals[0]) / (len(frame) - 3) * np.linalg.inv(design.T @ design)
    assert np.allclose(variance, np.diag(covariance)[:2])
    spread = np.std(frame[["a", "c", "b"]].to_numpy(), axis=0)
    assert np.allclose(slopes(data.project(("a", "c", "b"))), wanted[:2] * spread[:2] / spread[2], atol=1e-5)


def test_means_of_few_records_are_not_judged(data):
    question, few = Question("means", conditional_means, ("a", "b")), data.project("a").values < 100
    assert not few.all()
    chosen = judged(question, data, 1, np.random.default_rng(0))
    assert np.array_equal(chosen, np.flatnonzero(data.project("a").values >= 100))
    assert len(judged(Question("cells", ("a", "c")), data, 300, np.random.default_rng(0))) == 7


class Known:
    """A model whose answers are those of the records plus one, and its intervals three wide from the answer on."""

    def __init__(self, data: pg.Dataset):
        self.data = data

    def project(self, names: Any) -> pg.Factor:
        table = self.data.project(names)
        return pg.Factor(table.domain, table.values + 1.0)


def test_shares_widths_and_errors_are_counted(data, monkeypatch, tmp_path):
    def interval(model, query, clique, *, level):
        assert clique is None
        if isinstance(query, pg.Kron):
            raise pg.errors.QueryError("no sums")
        low = model.project(query).values - (0.5 if level == 0.5 else 1.0)
        low[0] += 10.0
        domain = model.project(query).domain
        return Interval(pg.Factor(domain, low), pg.Factor(domain, low + 3.0), level, "noise", basis="replicates")

    def asked(domain, cliques, seed):
        return iter(
            [Question("cells", ("a", "b")), Question("cells", ("a", "c")), Question("boxes", pg.Kron({"a": np.eye(4)}))]
        )

    monkeypatch.setattr(scores, "saved", lambda run: SimpleNamespace(model=Known(data), measurements=()))
    monkeypatch.setattr(scores, "data_of", lambda table: data)
    monkeypatch.setattr(scores, "questions", asked)
    monkeypatch.setattr(scores.pg, "interval", interval)
    cells, boxes = scores.rows(fits.Run("t", "m", 1.0, 0))
    assert cells["answers"] == 12 + 20
    assert cells["held"] == cells["held 99%"] == pytest.approx(24 / 32)
    assert cells["held 50%"] == 0.0
    assert cells["below"] == pytest.approx(8 / 32)
    assert (cells["width"], cells["error"], cells["rms"]) == pytest.approx((3.0, 1.0, 1.0))
    assert boxes["refused"] == 1
    assert boxes["answers"] == 0
    assert boxes["note"] == "QueryError: no sums"


def _row(table: str, held: float, answers: int, width: float, **more: Any) -> dict[str, Any]:
    row = scores.Class().row() | {"table": table, "mechanism": "MST", "epsilon": 1.0, "seed": 0, "class": "cells"}
    return row | {"answers": answers, "held": held, "width": width, "rms": 1.0, "first": 0.1, "held 50%": 0.5} | more


def test_tables_count_alike_whatever_their_answers(tmp_path):
    oracle = 2 * scores.REACH
    table = summary(pd.DataFrame([_row("titanic", 1.0, 1000, oracle), _row("fire", 0.8, 100, 4 * oracle)]))
    assert table["held"].tolist() == pytest.approx([0.9])
    assert table["ratio"].tolist() == pytest.approx([2.0])
    assert table["worst table"].tolist() == ["fire"]
    both = [_row("titanic", 1.0, 9, oracle), _row("titanic", 0.0, 9, oracle, seed=1), _row("fire", 1.0, 9, oracle)]
    assert summary(pd.DataFrame(both))["held"].tolist() == pytest.approx([0.75])


def test_the_oracle_knows_the_errors_of_all_seeds():
    oracle = 2 * scores.REACH
    seeds = [_row("titanic", 1.0, 9, oracle * width, seed=seed, rms=rms) for seed, width, rms in ((0, 4, 1), (1, 6, 7))]
    assert summary(pd.DataFrame(seeds))["ratio"].tolist() == pytest.approx([1.0])


def test_rows_of_earlier_intervals_are_left_out(tmp_path):
    rows = [_row("titanic", 0.95, 100, 1.0), _row("fire", 0.123, 100, 1.0, version=scores.VERSION - 1)]
    rows.append(_row("adult (all)", 0.789, 100, 1.0, version=math.nan))
    write(pd.DataFrame(rows), tmp_path)
    text = (tmp_path / "coverage_mechanisms.md").read_text()
    assert "12.3" not in text
    assert "78.9" not in text
    assert "all their attributes" not in text
    assert pd.read_csv(tmp_path / "coverage_mechanisms.csv")["table"].tolist() == ["titanic"]


def test_whole_tables_are_reported_apart_with_their_names(tmp_path):
    rows = [_row("titanic", 0.95, 100, 1.0), _row("fire (all)", 0.789, 100, 1.0, mechanism="LAMP")]
    rows += [_row("adult (all)", 0.968, 100, 1.0, mechanism=name) for name in ("LAMP", "MST")]
    write(pd.DataFrame(rows), tmp_path)
    few, whole = (tmp_path / "coverage_mechanisms.md").read_text().split("## Tables with all their attributes\n")
    assert "Tables: adult, fire. Runs on each table and budget, with noise of their own: LAMP 1, MST 1." in whole
    assert "96.8" in whole
    assert "**79%** fire (all) at 1" in whole
    assert "96.8" not in few


def test_runs_of_earlier_intervals_are_judged_again(monkeypatch):
    run = next(fits.runs(1))
    for version, made in ((scores.VERSION, True), (scores.VERSION - 1, False)):
        monkeypatch.setattr(command, "made", lambda run, version=version: [{"class": "cells", "version": version}])
        assert command._is_made(run) == made


@pytest.mark.parametrize("option", ["--intervals", "--records", "--fresh"])
def test_a_part_is_judged_again_and_the_other_stays_as_it_was(tmp_path, monkeypatch, option):
    run, old = fits.Run("titanic", "MST", 1.0, 0), {"version": scores.VERSION - 1}
    asked = {"cells": option != "--records", COMBINED: option != "--intervals"}
    monkeypatch.setattr(command, "ROWS", tmp_path)
    monkeypatch.setattr(command, "_committed", dict)
    monkeypatch.setattr(command, "runs", lambda seeds: iter([run]))
    monkeypatch.setattr(command, "make", lambda step, runs, measure, workers: [measure(run) for run in runs])
    monkeypatch.setattr(command, "fit", lambda run: None)
    monkeypatch.setattr(command, "write", lambda rows, folder: None)
    monkeypatch.setattr(scores, "rows", lambda run, levels: [_row("titanic", 0.7, 9, 1.0)])
    monkeypatch.setattr(records, "rows", lambda run: [_row("titanic", 0.7, 9, 1.0, **{"class": COMBINED})])
    monkeypatch.setattr("sys.argv", ["coverage", "mechanisms", option])
    path = tmp_path / f"{run.name}.json"
    path.write_text(json.dumps([_row("titanic", 0.2, 9, 1.0, **{"class": name}, **old) for name in asked]))
    command.main()
    found = {row["class"]: row["held"] for row in command.made(run)}
    assert found == {name: 0.7 if again else 0.2 for name, again in asked.items()}
    path.unlink()
    command.main()
    assert {row["class"] for row in command.made(run)} == set(asked)


def test_the_report_marks_what_misses(tmp_path):
    refused = _row("fire", 0.95, 0, 1.0, **{"class": "boxes", "refused": 3, "note": "TypeError: a | b"})
    wide = _row("titanic", 0.953, 100, 9.0, mechanism="AIM")
    write(pd.DataFrame([_row("titanic", 0.8, 100, 1.0), refused, wide]), tmp_path)
    text = (tmp_path / "coverage_mechanisms.md").read_text()
    assert "| cells | MST | 100 | **80.0** | **80%** titanic at 1 |" in text
    assert "| cells | AIM | 100 | 95.3 | 95% titanic at 1 |" in text
    assert "**2.30**" in text
    assert "| MST | boxes | 3 | TypeError: a / b |" in text


def test_names_of_runs_differ():
    every = list(fits.runs(2))
    assert len({run.name for run in every}) == len(every) == len(set(every))


@pytest.mark.parametrize("table", [*HOSTILE, "network, 800", "factor, 900"])
def test_hostile_tables_are_the_same_each_time(table):
    one, other = data_of(table), data_of(table)
    assert np.array_equal(one.codes, other.codes)
    assert one.records > 1


def test_a_fit_is_saved_with_its_measurements_and_judged_again_by_fresh_only(tmp_path, monkeypatch, capsys):
    run = fits.Run("two records", "LAMP", 1.0, 0)
    monkeypatch.setattr(fits, "FITS", tmp_path / "fits")
    monkeypatch.setattr(command, "ROWS", tmp_path / "rows")
    monkeypatch.setattr(command, "RESULTS", tmp_path)
    monkeypatch.setattr(command, "runs", lambda seeds: iter([run]))
    monkeypatch.setattr(command, "judge", lambda run, **parts: _judged(run))
    monkeypatch.setattr(command, "make", lambda step, runs, measure, workers: [measure(run) for run in runs])
    seen: list[fits.Run] = []

    def _judged(run):
        seen.append(run)
        command.ROWS.mkdir(exist_ok=True)
        row = _row("two records", 1.0, 4, 1.0, mechanism="LAMP")
        (command.ROWS / f"{run.name}.json").write_text(json.dumps([row]))

    for options, judgments in (([], 1), ([], 1), (["--fresh"], 2), (["--report"], 2), (["--fits"], 2)):
        monkeypatch.setattr("sys.argv", ["coverage", "mechanisms", *options])
        written = run.saved.stat().st_mtime_ns if run.saved.exists() else None
        command.main()
        assert len(seen) == judgments
        assert written in (None, run.saved.stat().st_mtime_ns)
    result = fits.saved(run)
    assert len(result.measurements) > 0
    assert result.model.domain == data_of("two records").domain

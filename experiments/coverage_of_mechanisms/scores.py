"""Stage 2: the intervals of a saved fit against the truth, a row for each class of answers."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import pgmest as pg
from experiments.coverage_of_mechanisms.fits import Run, saved
from experiments.coverage_of_mechanisms.questions import Question, judged, questions
from experiments.coverage_of_mechanisms.tables import data_of
from pgmest.models.errors.drawn_intervals import drawn_answers

LEVEL, OTHER_LEVELS = 0.95, (0.5, 0.8, 0.9, 0.99)
REACH = 1.959964
CLOSE = 1e-6
"""An interval holds the truth if it is at most this far outside, in counts."""
VERSION = 8
"""Of the intervals: a row of an earlier version is about intervals as they were. It is made again, and not reported."""
PRESENT = 0.5
"""Cells with a true count above this are judged apart, too."""


@dataclass
class Class:
    """The answers of one class after one fit.

    Attributes:
        seconds: of each question, but for the first one after the fit was loaded.
        parts: arrays of one entry an answer: truth, low, high, answer, and held at each of the other levels.
        refused: what was said by the questions that got no interval.
        kinds: the kinds and bases of the intervals.
    """

    seconds: list[float] = field(default_factory=list)
    parts: list[np.ndarray] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    kinds: Counter[str] = field(default_factory=Counter)

    def row(self) -> dict[str, Any]:
        """Return the columns of its row."""
        found = np.concatenate(self.parts, axis=1) if self.parts else np.zeros((4 + len(OTHER_LEVELS), 0))
        truth, low, high, answer, *others = found
        held, present = holds(truth, low, high), truth > PRESENT
        error, width = np.abs(answer - truth), high - low
        return {
            "answers": len(truth),
            "refused": len(self.refused),
            "held": _mean(held),
            **{f"held {level:.0%}": _mean(other) for level, other in zip(OTHER_LEVELS, others, strict=True)},
            "below": _mean(truth < low - CLOSE),
            "above": _mean(truth > high + CLOSE),
            "width": _mean(width),
            "error": _mean(error),
            "rms": float(np.sqrt(_mean(error**2))),
            "present": int(present.sum()),
            "held present": _mean(held[present]),
            "width present": _mean(width[present]),
            "rms present": float(np.sqrt(_mean(error[present] ** 2))),
            "next": float(np.median(self.seconds)) if self.seconds else 0.0,
            "kind": "; ".join(sorted(self.kinds)),
            "note": self.refused[0][:120] if self.refused else "",
            "version": VERSION,
        }


def _mean(values: np.ndarray) -> float:
    return float(values.mean()) if len(values) else float("nan")


def holds(truth: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Return which intervals hold the truth."""
    return (truth >= low - CLOSE) & (truth <= high + CLOSE)


def rows(run: Run, levels: bool = True) -> list[dict[str, Any]]:
    """Return the rows of a fit, one for each class of answers; the options are those of `rows_of`."""
    result = saved(run)
    cliques = [m.clique for m in result.measurements]
    return rows_of(result.model, data_of(run.table), cliques, run.seed, levels)


def rows_of(
    model: Any,
    data: pg.Dataset,
    cliques: Iterable[Iterable[str]],
    seed: int,
    levels: bool = True,
) -> list[dict[str, Any]]:
    """Return the rows of a model, one for each class of answers.

    Args:
        model: the model.
        data: the records.
        cliques: those of the measurements.
        seed: of the choice of questions.
        levels: whether to ask for intervals of the other levels, too.
    """
    asked, first = list(questions(data.domain, cliques, seed)), None
    of_class, found = Counter(question.kind for question in asked), defaultdict[str, Class](Class)
    generator = np.random.default_rng(seed)
    for question in asked:
        chosen, one = judged(question, data, of_class[question.kind], generator), found[question.kind]
        if not len(chosen):
            continue
        try:
            seconds = _judge(one, question, chosen, data, model, levels)
        except Exception as error:  # any error is a question without an interval, and is reported
            one.refused.append(f"{type(error).__name__}: {error}")
            continue
        if first is None:
            first = seconds
        else:
            one.seconds.append(seconds)
    return [{"class": name, **one.row(), "first": first} for name, one in found.items()]


def _judge(found: Class, question: Question, chosen: np.ndarray, data: pg.Dataset, model: Any, levels: bool) -> float:
    """Ask one question, add its answers to those of its class, and return the seconds of its interval."""
    start = time.process_time()
    interval = pg.interval(model, question.query, question.clique, level=LEVEL)
    seconds = time.process_time() - start
    truth = question.exact(data).reshape(-1)[chosen]
    low, high = (end.values.reshape(-1)[chosen] for end in interval)
    others = np.full((len(OTHER_LEVELS), len(truth)), np.nan)
    drawn = drawn_answers(model, question.query, question.clique) if levels and interval.kind == "errors" else None
    for place, level in enumerate(OTHER_LEVELS if levels else ()):
        if drawn is None:
            other = pg.interval(model, question.query, question.clique, level=level)
        else:
            other = drawn.interval(level, "table")
        others[place] = holds(truth, *(end.values.reshape(-1)[chosen] for end in other))
    found.parts.append(np.vstack([truth, low, high, question.exact(model).reshape(-1)[chosen], others]))
    found.kinds[f"{interval.kind}, {interval.basis}"] += 1
    return seconds

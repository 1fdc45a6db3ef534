"""A program that is killed: `python -m tests.reliability.crash_program SCENE KIND FOLDER ROUNDS`.

A child process writes one file over and over; after a moment it is killed with SIGKILL, and what is there is looked at.
Only Linux and macOS have `fork`.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import pgmest as pg
from pgmest.errors import JournalError
from pgmest.measurements.files import load_measurements, save_measurements
from pgmest.privacy import Curator, Rho

SIZES = {"a": 50, "b": 40}
CLIQUES = [("a", "b")]


def models(path: Path, number: int) -> None:
    pg.Model(pg.CliqueVector.zeros(SIZES, CLIQUES), 1.0 + number % 2).save(path)


def check_model(path: Path) -> None:
    assert pg.load(path).total in (1.0, 2.0)


def tables(path: Path, number: int) -> None:
    pg.Dataset.from_codes(np.full((3000, 2), number % 2), SIZES).save(path)


def check_table(path: Path) -> None:
    codes = pg.Dataset.load(path, SIZES).codes
    assert codes.shape == (3000, 2)
    assert len(np.unique(codes)) == 1


def measurements(path: Path, number: int) -> None:
    save_measurements(path, [pg.LinearMeasurement(np.full(2000, number % 2), ("a", "b"))])


def check_measurements(path: Path) -> None:
    assert len(np.unique(load_measurements(path, SIZES)[0].values)) == 1


KINDS: dict[str, tuple[str, Callable[[Path, int], None], Callable[[Path], None]]] = {
    "model": ("model.npz", models, check_model),
    "table": ("table.csv.gz", tables, check_table),
    "measurements": ("measurements.json", measurements, check_measurements),
}


def forked(work: Callable[[], object]) -> int:
    """The number of a child process that does this work until it is killed."""
    child = os.fork()
    if child:
        return child
    try:
        work()
    finally:
        os._exit(1)


def kill(child: int) -> None:
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status), "the child ended before it was killed"


def overwritten(kind: str, folder: Path, rounds: int) -> None:
    """Killed while it writes over a file: the file is the old one or the new one."""
    name, write, check = KINDS[kind]
    path = folder / name
    write(path, 0)

    def write_forever() -> None:
        number = 0
        while True:
            write(path, number := number + 1)

    for number in range(rounds):
        child = forked(write_forever)
        time.sleep(0.01 + 0.003 * number)
        kill(child)
        check(path)


def two_writers(kind: str, folder: Path, rounds: int) -> None:
    """Two processes write to one file: whoever reads sees the whole of what one of them wrote."""
    name, write, check = KINDS[kind]
    path = folder / name
    write(path, 0)

    def write_forever(number: int) -> None:
        while True:
            write(path, number)

    children = [forked(lambda number=number: write_forever(number)) for number in (0, 1)]
    try:
        for _ in range(rounds):
            check(path)
    finally:
        for child in children:
            kill(child)
    check(path)


def journal(kind: str, folder: Path, rounds: int) -> None:
    """Killed while it pays: the next run has all answers that were handed out, and pays for the others."""
    path, told = folder / "run.journal", folder / "told"
    data = pg.Dataset.from_codes(np.zeros((100, 2), dtype=int), SIZES)

    def ask(requests: int, tell: bool) -> list[list[float]]:
        curator = Curator(data, Rho(1.0), backend="simulation", seed=1, journal=path)
        answers = []
        for _ in range(requests):
            answers.append(curator.measure("a", Rho(1e-4)).values.tolist())
            if tell:
                with told.open("a") as file:
                    file.write(json.dumps(answers[-1]) + "\n")
        curator.close()
        return answers

    for number in range(rounds):
        told.write_text("")
        child = forked(lambda: ask(10_000, tell=True))
        time.sleep(0.05 + 0.005 * number)
        kill(child)
        lines = told.read_text().splitlines(keepends=True)
        handed_out = [json.loads(line) for line in lines if line.endswith("\n")]
        assert ask(len(handed_out), tell=False) == handed_out
        assert path.read_bytes().endswith(b"\n")


def shared_journal(kind: str, folder: Path, rounds: int) -> None:
    """Two processes with one journal: the second is refused, and so neither pays for what the other has."""
    path, ready = folder / "run.journal", folder / "ready"
    data = pg.Dataset.from_codes(np.zeros((100, 2), dtype=int), SIZES)

    def hold() -> None:
        held = Curator(data, Rho(1.0), backend="simulation", seed=1, journal=path)
        ready.write_text(repr(held.measure("a", Rho(0.1))))
        time.sleep(60)

    child = forked(hold)
    while not ready.exists():
        time.sleep(0.005)
    before = path.read_bytes()
    with pytest.raises(JournalError, match="is in use by another run"):
        Curator(data, Rho(1.0), backend="simulation", seed=1, journal=path)
    assert path.read_bytes() == before
    kill(child)
    Curator(data, Rho(1.0), backend="simulation", seed=1, journal=path).close()


SCENES = {
    "overwritten": overwritten,
    "two_writers": two_writers,
    "journal": journal,
    "shared_journal": shared_journal,
}

if __name__ == "__main__":
    scene, kind, folder, rounds = sys.argv[1:]
    SCENES[scene](kind, Path(folder), int(rounds))
    print("done")

"""Keep benchmark results in one JSON file per problem, so that an interrupted run resumes where it was.

A result is current as long as the code that was measured and the machine are the same; a table may hold older ones,
and says so.
"""

from __future__ import annotations

import datetime
import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.benchmarks.machine import describe
from experiments.benchmarks.worker import ROOT
from pgmest._base.files import write_atomically

RESULTS = Path(__file__).parent / "results"
QUICK_RESULTS = ROOT / "build" / "benchmarks"


@dataclass(frozen=True)
class Store:
    """The results of one benchmark.

    Attributes:
        folder: where its tables and plots go; the JSON files go into a folder of its own there.
        benchmark: its name.
        code: a fingerprint of the code that it measures.
    """

    folder: Path
    benchmark: str
    code: str

    @classmethod
    def of(cls, benchmark: str, quick: bool, code: Iterable[str]) -> Store:
        """The store of a benchmark; `code` names the measured files, as patterns from the root of the repository."""
        return cls(QUICK_RESULTS if quick else RESULTS, benchmark, fingerprint(code))

    def path(self, name: str) -> Path:
        return self.folder / self.benchmark / f"{name}.json"

    def get(self, name: str) -> dict[str, Any] | None:
        """Return the record under this name: `result`, and `code`, `machine`, `measured` (the date) and `load`."""
        path = self.path(name)
        return json.loads(path.read_text()) if path.exists() else None

    def put(self, name: str, result: Any, load: float) -> dict[str, Any]:
        """Keep a result, and the load of the machine just before it was measured."""
        record = {
            "measured": datetime.datetime.now().astimezone().isoformat(timespec="minutes"),
            "load": load,
            "code": self.code,
            "machine": describe(),
            "result": result,
        }
        self.path(name).parent.mkdir(parents=True, exist_ok=True)
        write_atomically(self.path(name), json.dumps(record, indent=1) + "\n")
        return record

    def is_current(self, record: dict[str, Any] | None) -> bool:
        """Return whether a record was measured with the current code and on this machine."""
        return record is not None and record["code"] == self.code and record["machine"] == describe()


def fingerprint(patterns: Iterable[str]) -> str:
    """A short hash of the files that the patterns name."""
    digest = hashlib.sha256()
    for path in sorted(path for pattern in patterns for path in ROOT.glob(pattern)):
        digest.update(path.relative_to(ROOT).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:12]

"""The tables that libraries are compared on, as codes: a messy one that is invented here, and public ones.

Each library gets the same codes and the same declared sizes, so that nobody reads them from the records. Errors are
between marginals of these codes, or of the messy table's fine codes, for which each library makes or buys bins of its
own, between marginals of the bins that are declared otherwise.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import pandas as pd

import pgmest as pg
from experiments.data import load

MESSY_ROWS = 6366
FINE = {"age": 5, "salary": 10, "hired": 12, "commute_km": 10, "absences": 4}
"""The number of fine codes in a declared bin, for the numbers of the messy table."""


def schema(fine: bool) -> pg.Schema:
    """What is declared of the messy table: bins, or with `fine` years, hundreds of dollars and months as they are."""
    return pg.Schema.from_dict(
        {
            "columns": {
                "age": {"type": "integer", "min": 15, "max": 89, "width": 1 if fine else 5, "missing": ["unknown"]},
                "salary": {
                    **{"type": "real", "min": 0, "max": 250_000, "bins": 250 if fine else 25},
                    **{"ignore": ["$", ","], "missing": True},
                },
                "hired": {
                    **{"type": "date", "min": "1990-01-01", "max": "2025-12-31"},
                    **{"unit": "month" if fine else "year", "missing": True},
                },
                "department": {
                    **{"type": "categorical", "values": [f"D{n:02}" for n in range(40)]},
                    **{"ignore_case": True, "other": "other"},
                },
                "grade": {"type": "integer", "min": 1, "max": 12, "width": 1},
                "region": {"type": "categorical", "values": ["north", "south", "east", "west"], "missing": True},
                "union": {"type": "boolean", "missing": True},
                "commute_km": {"type": "real", "min": 0, "max": 200, "bins": 200 if fine else 20, "missing": True},
                "absences": {"type": "integer", "min": 0, "max": 59, "width": 1 if fine else 4, "missing": True},
                "rating": {"type": "categorical", "values": ["A", "B", "C", "D", "E"], "missing": True},
            }
        }
    )


@dataclasses.dataclass(frozen=True)
class Table:
    """A table as codes.

    Attributes:
        name: what it is called in the results.
        codes: shape (records, attributes).
        sizes: how many codes each attribute has.
        per_bin: of attributes that are numbers with fine codes, how many of these are one bin of the comparison; the
            last code of such an attribute stands for a gap.
    """

    name: str
    codes: np.ndarray
    sizes: dict[str, int]
    per_bin: dict[str, int] = dataclasses.field(default_factory=dict)

    @classmethod
    def of(cls, name: str, data: pg.Dataset, per_bin: dict[str, int] | None = None) -> Table:
        codes = np.column_stack([np.asarray(column, dtype=np.int64) for column in data.columns])
        return cls(name, codes, dict(data.domain), per_bin or {})

    def binned(self, codes: np.ndarray) -> tuple[np.ndarray, list[int]]:
        """Codes in the bins of the comparison, and how many bins each attribute has."""
        columns, sizes = [], []
        for column, (name, size) in zip(codes.T, self.sizes.items(), strict=True):
            width = self.per_bin.get(name, 1)
            bins = -(-(size - 1) // width)  # and one for gaps
            columns.append(column if width == 1 else np.where(column == size - 1, bins, column // width))
            sizes.append(size if width == 1 else bins + 1)
        return np.column_stack(columns), sizes


def messy_frame(seed: int = 0) -> pd.DataFrame:
    """6,366 employees as somebody keeps them: dollars as text, gaps, rare departments, a few impossible ages."""
    rng = np.random.default_rng(seed)
    n = MESSY_ROWS
    grade = np.minimum(1 + rng.geometric(0.25, n), 12)
    age = np.clip(22 + 3 * grade + rng.normal(0, 8, n), 17, 90).round().astype(int)
    salary = np.clip(18_000 * 1.16**grade * rng.lognormal(0, 0.2, n), 0, 400_000)
    department = np.minimum(rng.zipf(1.5, n) - 1, 39)
    region = np.where(rng.random(n) < 0.7, department % 4, rng.integers(0, 4, n))
    hired = pd.Timestamp("2025-12-31") - pd.to_timedelta((rng.beta(1.2, 3, n) * (age - 16) * 365).astype(int), "D")
    distance = rng.lognormal(2.2 + 0.2 * region, 0.8)
    absences = np.minimum(rng.poisson(3 + distance / 15), 60)
    rating = np.clip(np.digitize(rng.normal(0, 1, n) - absences / 10, [-2, -1, 0, 1]), 0, 4)
    table = pd.DataFrame(
        {
            "age": age.astype(str).astype(object),
            "salary": [f"${value:,.2f}" for value in salary],
            "hired": hired.strftime("%Y-%m-%d").astype(object),
            "department": [f"{'d' if rng.random() < 0.2 else 'D'}{code:02}" for code in department],
            "grade": grade,
            "region": np.array(["north", "south", "east", "west"], dtype=object)[region],
            "union": np.where(rng.random(n) < 0.2 + 0.04 * grade, "yes", "no").astype(object),
            "commute_km": distance.round(1).astype(str).astype(object),
            "absences": absences.astype(str).astype(object),
            "rating": np.array(list("EDCBA"), dtype=object)[rating],
        }
    )
    for name, share in {"age": 0.02, "salary": 0.1, "hired": 0.03, "region": 0.05, "union": 0.3, "rating": 0.2}.items():
        table.loc[rng.random(n) < share, name] = None
    table.loc[rng.random(n) < 0.01, "age"] = "unknown"
    return table


def messy(fine: bool = False) -> Table:
    name = "messy, fine codes" if fine else "messy"
    return Table.of(name, schema(fine).encode(messy_frame()), FINE if fine else None)


def tables() -> dict[str, Table]:
    """All of them, by name.

    Raises:
        FileNotFoundError: the public ones are not at hand (`PGMEST_DATA`).
    """
    public = {name: Table.of(name, load(name)) for name in ("titanic", "BR2000", "adult")}
    return {"messy": messy(), "messy, fine codes": messy(fine=True), **public}

"""All exceptions that pgmest raises on purpose.

Each message names the mistake, its place, and the remedy. Named constructors (`.of(...)`) build the message from the
facts, so that the same mistake has the same message everywhere.
"""

from __future__ import annotations

import difflib
import math
import operator
from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

MOST_AXES = 64 if int(np.__version__.partition(".")[0]) > 1 else 32
"""The most axes of an array of NumPy."""


def listed(names: Iterable[object], limit: int = 12) -> str:
    """Return the names joined by commas, cut after `limit` names."""
    names = [str(name) for name in names]
    shown = ", ".join(names[:limit])
    return shown if len(names) <= limit else f"{shown}, ... ({len(names)} in all)"


def excerpt(value: object, limit: int = 80) -> str:
    """Return the repr of a value in one line, cut after `limit` characters, so that a message never holds a table."""
    text = " ".join(repr(value).split())
    return text if len(text) <= limit else f"{text[: limit - 3]}..."


def plural(count: int, noun: str) -> str:
    """Return the count with its noun: "1 clique", "2 cliques"."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def percent_text(part: float, whole: float) -> str:
    """Return a part of a whole in percent, never rounded to 0 or to 100; "-" if the part is 0.

    >>> percent_text(0, 10), percent_text(1, 100_000), percent_text(999_999, 10**6), percent_text(1, 8)
    ('-', '<0.1 %', '>99.9 %', '12.5 %')
    """
    if not part or not whole:
        return "-"
    percent = 100 * part / whole
    if part < whole and percent >= 99.95:
        return ">99.9 %"
    return "<0.1 %" if percent < 0.1 else f"{percent:.3g} %"


def count_text(count: int) -> str:
    """Return a count in a readable form: "1,234", and a power of ten such as "10^30" from 10^15."""
    return f"{count:,}" if count < 10**15 else f"10^{math.log10(count):.0f}"


def memory_text(size: float) -> str:
    """Return a number of bytes in a readable form: "1.5 MB", "800 MB", "3.2 TB"."""
    if size > 10**24:
        return f"10^{math.log10(size):.0f} bytes"
    for unit in ("bytes", "KB", "MB", "GB", "TB", "PB"):
        if size < 999.5 or unit == "PB":
            return f"{size:.3g} {unit}" if size < 999.5 else f"{size:.2e} {unit}"
        size /= 1000
    raise AssertionError("unreachable")


def _place(column: str, row: int | None) -> str:
    return f"column '{column}'" if row is None else f"column '{column}', row {row}"


class PgmestError(Exception):
    """The base of every error that pgmest raises on purpose."""


class DomainError(PgmestError, ValueError):
    """An invalid domain: duplicate attributes, or a number of values that is not a positive integer."""


class UnknownAttributeError(PgmestError, KeyError):
    """An attribute that the domain does not have, or attributes over which a clique vector has no table."""

    @classmethod
    def of(cls, name: object, attributes: Sequence[str]) -> UnknownAttributeError:
        text = f"'{name}' is not an attribute of the domain ({listed(attributes)})."
        if not isinstance(name, str) and str(name) in attributes:
            return cls(f"{name!r} is not an attribute of the domain ({listed(attributes)}): names are texts, '{name}'.")
        near = difflib.get_close_matches(str(name), list(attributes), n=1)
        if near:
            return cls(f"{text} Did you mean '{near[0]}'?")
        return cls(f"{text} Use one of these names, or add it to the domain.")

    @classmethod
    def no_level(cls, attribute: str, level: str, levels: Sequence[str]) -> UnknownAttributeError:
        near = difflib.get_close_matches(level.lower(), [name.lower() for name in levels], n=1)
        found = next((name for name in levels if near and name.lower() == near[0]), levels[0])
        hint = f"Did you mean '{attribute}@{found}'?" if near else f"Name one of them, such as '{attribute}@{found}'."
        return cls(f"'{attribute}' has no level '{level}'; its levels are: {listed(levels)}. {hint}")

    @classmethod
    def no_table(cls, clique: object, cliques: Sequence[tuple[str, ...]]) -> UnknownAttributeError:
        return cls(
            f"{clique!r} is not one of the {plural(len(cliques), 'clique')} here ({listed(cliques, 6)}). "
            "Use one of these cliques, or model.project(...) for any other marginal."
        )

    def __str__(self) -> str:  # KeyError would show the repr of its message
        return str(self.args[0]) if self.args else ""


class DuplicateAttributeError(DomainError):
    """An attribute that is named twice where each may be named once."""

    @classmethod
    def of(cls, names: Sequence[str], where: str) -> DuplicateAttributeError:
        repeated = sorted(str(name) for name, count in Counter(names).items() if count > 1)
        return cls(f"{where} names {listed(repeated)} more than once; name each attribute once.")


class ShapeError(PgmestError, ValueError):
    """An array with the wrong shape, such as values or a query that do not fit the clique of a measurement."""

    @classmethod
    def of(cls, what: str, expected: object, got: object, remedy: str = "") -> ShapeError:
        return cls(f"{what}: expected shape {expected}, got {got}. {remedy}".rstrip())


class CodeRangeError(PgmestError, ValueError):
    """A value in a record or in evidence that is not a code of its attribute."""

    @classmethod
    def of(cls, column: str, row: int | None, value: object, size: int) -> CodeRangeError:
        """Return the error of a value; `row` is None for records in a query engine, which have no numbers."""
        return cls(
            f"{_place(column, row)}: value {value!r} is not a code in 0..{size - 1}. "
            f"Recode the column to integers from 0, or give '{column}' a larger size in the domain."
        )

    @classmethod
    def in_evidence(cls, attribute: str, value: object, size: int) -> CodeRangeError:
        text = f"evidence {attribute}={value!r} is not a code of '{attribute}': give an integer in 0..{size - 1}."
        label = f" Schema.evidence({{{attribute!r}: {value!r}}}) finds the codes of values."
        return cls(f"{text}{label if isinstance(value, str) else ''}")


class DataError(PgmestError, ValueError):
    """Invalid records: a missing column, or text where codes are expected."""

    @classmethod
    def missing_columns(
        cls,
        missing: Sequence[str],
        existing: Sequence[object],
        table: str = "table",
        remedy: str = "Rename its columns to the domain's attributes, or leave these attributes out of the domain.",
    ) -> DataError:
        names = {str(name).casefold(): str(name) for name in existing}
        hints = []
        for name in missing[:12]:
            near = difflib.get_close_matches(name.casefold(), names, n=1)
            hints.append(f"'{name}' (did you mean '{names[near[0]]}'?)" if near else f"'{name}'")
        more = f", ... ({len(missing)} in all)" if len(missing) > 12 else ""
        return cls(f"the {table} has no column {', '.join(hints)}{more}. Its columns are: {listed(existing)}. {remedy}")

    @classmethod
    def not_a_code(cls, column: str, row: int | None, value: object, size: int) -> DataError:
        return cls(
            f"{_place(column, row)}: {value!r} is not an integer code. "
            f"Recode the column to integers 0..{size - 1}; give missing values a separate code."
        )


class SchemaError(PgmestError, ValueError):
    """An invalid schema of a raw table: a wrong key, a range without values, a column described twice."""


class MeasurementError(PgmestError, ValueError):
    """An invalid measurement: NaN or infinite values, or non-positive noise."""


class QueryError(PgmestError, ValueError):
    """A query that cannot be answered as given."""


class ArgumentError(PgmestError, ValueError):
    """An argument with a value that is not allowed."""

    @classmethod
    def of(cls, name: str, value: object, allowed: Iterable[object] | str) -> ArgumentError:
        options = allowed if isinstance(allowed, str) else f"one of {listed(map(repr, allowed), 20)}"
        return cls(f"{name}={excerpt(value)} is not valid: it must be {options}.")


class SpendTooSmall(ArgumentError):
    """A part of a budget so small that its noise would exceed every count; nothing was paid."""


def at_least(name: str, value: object, least: int) -> int:
    """Return the value of an argument as an integer.

    Raises:
        ArgumentError: the value is not an integer, or is below `least`.
    """
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        number = least - 1
    if number < least or isinstance(value, bool):
        raise ArgumentError.of(name, value, f"an integer of at least {least}")
    return number


class TotalError(PgmestError, ValueError):
    """A number of records that no measurement determines and that was not given."""


class ImpossibleModelError(PgmestError, ValueError):
    """Potentials under which every record is impossible: all cells of some table are -inf."""


class ModelTooLarge(PgmestError, MemoryError):
    """A table, or the junction tree of the measured cliques, needs more memory than allowed."""

    @classmethod
    def of_tree(
        cls, cells: int, measured: int, limit: str, needed: int, culprits: Iterable[tuple[str, int, Sequence[str]]]
    ) -> ModelTooLarge:
        """Return the error of a junction tree that exceeds a limit.

        Args:
            cells, measured: the numbers of cells and of measured cliques.
            limit: the text of the argument, such as "max_cells=100".
            needed: the least sufficient value of the argument.
            culprits: large cliques of the tree, each with its cells and the measured cliques that meet in it.
        """
        lines = [
            f"  {clique}: {count_text(size)} cells ({memory_text(8 * size)})"
            + (f", where {listed(met, 4)} meet" if met else "")
            for clique, size, met in culprits
        ]
        return cls(
            f"the junction tree of {plural(measured, 'measured clique')} needs {memory_text(8 * cells)} "
            f"({count_text(cells)} cells of 8 bytes), more than {limit}. Its largest cliques:\n"
            + "\n".join(lines)
            + f"\nDrop or shrink measured cliques that meet in these, or raise {limit.split('=')[0]} "
            f"to at least {count_text(needed)}."
        )

    @classmethod
    def of_axes(cls, attributes: Iterable[str]) -> ModelTooLarge:
        names = list(attributes)
        return cls(
            f"a table over {listed(names)} would have {len(names)} axes, and NumPy's arrays have at most {MOST_AXES}. "
            "Leave some of the attributes out; the table is then summed over them."
        )

    @classmethod
    def of_answer(cls, attributes: Iterable[str], cells: int) -> ModelTooLarge:
        return cls(
            f"the answer about {listed(attributes)} needs a table of {count_text(cells)} cells "
            f"({memory_text(8 * cells)}). Ask about fewer attributes at a time, or use queries with fewer rows."
        )


class InconsistentMeasurementsError(PgmestError, ValueError):
    """Measurements that no table satisfies.

    Attributes:
        answers: a minimal set of answers that contradict each other, as (position of the measurement, row).
    """

    answers: tuple[tuple[int, int], ...] = ()

    @classmethod
    def of(
        cls, answers: Sequence[tuple[int, int]], texts: Sequence[str], noisy: bool, beside: Sequence[str] = ()
    ) -> InconsistentMeasurementsError:
        remedy = (
            "Ask for a higher level, which allows larger errors of noisy answers, or correct one of them."
            if noisy
            else "Correct one of them, or state its rounding or suppression in the measurement."
        )
        others = " and ".join(beside)
        if not answers:
            cause = f"Even without them there is none, because of {others or 'the number of records'}."
        elif len(answers) == 1:
            cause = f"This answer contradicts {others}:" if others else "This answer is impossible for counts:"
        else:
            cause = f"These {len(answers)} answers contradict each other{' and ' if others else ''}{others}:"
        lines = "\n".join(["no table is compatible with all measurements. " + cause, *(f"  {text}" for text in texts)])
        error = cls(f"{lines}\n{remedy}")
        error.answers = tuple(answers)
        return error


class ControlError(PgmestError, ValueError):
    """Control totals that no weights of the respondents meet, or that do not fit the survey."""


class FileFormatError(PgmestError, ValueError):
    """A file that is unreadable, truncated, or in another format."""

    @classmethod
    def of(cls, path: object, problem: str, remedy: str) -> FileFormatError:
        return cls(f"{path}: {problem} {remedy}")


class OptionalDependencyError(PgmestError, ImportError):
    """A feature that needs a package which is not installed."""

    @classmethod
    def of(cls, package: str, feature: str) -> OptionalDependencyError:
        return cls(f"{feature} needs the package '{package}', which is not installed: pip install {package}.")


class BudgetTypeError(PgmestError, TypeError):
    """Privacy budgets of different types used together; a conversion is always an explicit call."""

    @classmethod
    def of(cls, what: str, expected: type, got: object) -> BudgetTypeError:
        kind = type(got).__name__
        remedy = {
            ("Rho", "Epsilon"): "Convert it with epsilon.to_rho().",
            ("ApproxDP", "Epsilon"): "Convert it with epsilon.to_approx().",
            ("ApproxDP", "Rho"): "Convert it with rho.to_approx(delta).",
            ("ApproxDP", "GDP"): "Convert it with gdp.to_approx(delta).",
            ("Rho", "ApproxDP"): "Use Rho.of(epsilon, delta), the largest rho that implies it.",
            ("Rho", "GDP"): "Convert it with gdp.to_rho().",
            ("GDP", "ApproxDP"): "Use GDP.of(epsilon, delta), the largest mu that implies it.",
        }.get((expected.__name__, kind), f"Give it as {expected.__name__}(...).")
        return cls(f"{what} is {got!r}, but must be a budget of type {expected.__name__}. {remedy}")


class BudgetExceeded(PgmestError):
    """A request that costs more than the remaining budget; nothing was spent and no record was read."""

    @classmethod
    def of(cls, label: str, cost: object, remaining: object, budget: object) -> BudgetExceeded:
        return cls(
            f"{label} would cost {cost}, but only {remaining} of {budget} is left. Nothing was spent. Ask for less "
            "(spend=curator.remaining within a mechanism), or start with a larger budget."
        )


class ChargeError(PgmestError):
    """Noise that would cost more than its charge, as computed by the backend that draws it; nothing was spent."""

    @classmethod
    def of(cls, label: str, price: float, charged: float, measure: str) -> ChargeError:
        return cls(
            f"{label}: the noise would cost {measure} {price:.6g}, but {charged:.6g} is charged for it. Nothing was "
            "spent and no record was read. The calibration of the noise is wrong: please report this."
        )


class ScoreError(PgmestError, ValueError):
    """Scores by which no candidate can be selected."""

    @classmethod
    def of(cls, candidates: int) -> ScoreError:
        return cls(
            f"one of {candidates} scores is not a number (NaN), so their sensitivity is not as stated. The request is "
            "paid for, but has no answer. Return a number as the score of every table, including an empty one."
        )


class CopyError(PgmestError, TypeError):
    """A copy or a pickle of an object with private records or a budget, which must exist only once."""

    @classmethod
    def of(cls, name: str) -> CopyError:
        return cls(
            f"a {name} can be neither copied nor pickled: each copy would spend the whole budget. Copy its results "
            "instead; curator.ledger.statement() is a copy of the ledger."
        )


class ProcessError(PgmestError):
    """An object that spends a budget, used in another process than the one that created it."""

    @classmethod
    def of(cls, name: str, process: int) -> ProcessError:
        return cls(
            f"this {name} belongs to process {process}, and a forked process would spend its budget once more. Use it "
            "in that process, and pass the answers on."
        )


class LedgerError(PgmestError, ValueError):
    """An invalid ledger of a dataset: not a ledger, edited, rolled back, copied, or of another neighboring relation."""


class JournalError(PgmestError, ValueError):
    """A journal of paid answers that does not fit the run that would continue it."""

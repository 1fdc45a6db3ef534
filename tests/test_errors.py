"""The texts of the errors and of the numbers in them."""

from __future__ import annotations

import inspect
import pickle

import pytest

from pgmest import errors
from pgmest.errors import (
    ArgumentError,
    CodeRangeError,
    DataError,
    DuplicateAttributeError,
    FileFormatError,
    ModelTooLarge,
    OptionalDependencyError,
    PgmestError,
    ShapeError,
    UnknownAttributeError,
    count_text,
    listed,
    memory_text,
    plural,
)


def test_lists_are_cut():
    assert listed([]) == ""
    assert listed(["a", "b"]) == "a, b"
    assert listed(range(13)) == "0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, ... (13 in all)"
    assert listed("abcd", 2) == "a, b, ... (4 in all)"


def test_counts_go_with_their_noun():
    assert [plural(n, "clique") for n in (0, 1, 2, 12345)] == ["0 cliques", "1 clique", "2 cliques", "12,345 cliques"]


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0"), (1234, "1,234"), (10**15 - 1, "999,999,999,999,999"), (10**400, "10^400")]
)
def test_counts_are_readable(count, text):
    assert count_text(count) == text


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 bytes"),
        (999, "999 bytes"),
        (1000, "1 KB"),
        (1500, "1.5 KB"),
        (999_499, "999 KB"),
        (999_700, "1 MB"),
        (8 * 10**8, "800 MB"),
        (3.2e12, "3.2 TB"),
        (5 * 10**19, "5.00e+04 PB"),
        (8 * 10**30, "10^31 bytes"),
        (10**400, "10^400 bytes"),
    ],
)
def test_memory_is_readable(size, text):
    assert memory_text(size) == text


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (
            UnknownAttributeError.of("incme", ("age", "sex", "income")),
            "'incme' is not an attribute of the domain (age, sex, income). Did you mean 'income'?",
        ),
        (
            UnknownAttributeError.of("zzz", ("age", "sex")),
            "'zzz' is not an attribute of the domain (age, sex). Use one of these names, or add it to the domain.",
        ),
        (
            UnknownAttributeError.of(7, ("age", "7")),
            "7 is not an attribute of the domain (age, 7): names are texts, '7'.",
        ),
        (
            UnknownAttributeError.of(3, ("age",)),
            "'3' is not an attribute of the domain (age). Use one of these names, or add it to the domain.",
        ),
        (
            DuplicateAttributeError.of(("b", "a", "b", "a", "c"), "the clique"),
            "the clique names a, b more than once; name each attribute once.",
        ),
        (
            UnknownAttributeError.no_table(("a", "c"), (("a", "b"),)),
            "('a', 'c') is not one of the 1 clique here (('a', 'b')). "
            "Use one of these cliques, or model.project(...) for any other marginal.",
        ),
        (ShapeError.of("values", (2,), (3,)), "values: expected shape (2,), got (3,)."),
        (ShapeError.of("values", (2,), (3,), "Trim them."), "values: expected shape (2,), got (3,). Trim them."),
        (
            CodeRangeError.of("sex", 7, 2, 2),
            "column 'sex', row 7: value 2 is not a code in 0..1. Recode the column to integers from 0, "
            "or give 'sex' a larger size in the domain.",
        ),
        (
            CodeRangeError.in_evidence("sex", 2, 2),
            "evidence sex=2 is not a code of 'sex': give an integer in 0..1.",
        ),
        (
            DataError.missing_columns(["Age", "zzz"], ["age", "sex"]),
            "the table has no column 'Age' (did you mean 'age'?), 'zzz'. Its columns are: age, sex. "
            "Rename its columns to the domain's attributes, or leave these attributes out of the domain.",
        ),
        (
            DataError.not_a_code("sex", 3, "F", 2),
            "column 'sex', row 3: 'F' is not an integer code. "
            "Recode the column to integers 0..1; give missing values a separate code.",
        ),
        (
            ArgumentError.of("method", "sgd", ("auto", "lbfgs")),
            "method='sgd' is not valid: it must be one of 'auto', 'lbfgs'.",
        ),
        (
            ArgumentError.of("total", -1, "a positive number"),
            "total=-1 is not valid: it must be a positive number.",
        ),
        (
            FileFormatError.of("a.json", "not a JSON object.", "Save it again."),
            "a.json: not a JSON object. Save it again.",
        ),
        (
            OptionalDependencyError.of("pyarrow", "Reading parquet"),
            "Reading parquet needs the package 'pyarrow', which is not installed: pip install pyarrow.",
        ),
        (
            OptionalDependencyError.of("torch", "torch_loss"),
            "torch_loss needs the package 'torch', which is not installed: pip install torch.",
        ),
        (
            ModelTooLarge.of_tree(1_500_000, 2, "max_cells=1,000", 1_500_000, [("a, b", 10**6, ["(a)", "(b)"])]),
            "the junction tree of 2 measured cliques needs 12 MB (1,500,000 cells of 8 bytes), more than "
            "max_cells=1,000. Its largest cliques:\n"
            "  a, b: 1,000,000 cells (8 MB), where (a), (b) meet\n"
            "Drop or shrink measured cliques that meet in these, or raise max_cells to at least 1,500,000.",
        ),
    ],
)
def test_texts(error, text):
    assert str(error) == text
    assert isinstance(error, PgmestError)
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again)) == (type(error), text)


def test_a_key_error_without_a_message_has_an_empty_text():
    assert str(UnknownAttributeError()) == ""


def error_classes() -> list[type]:
    return [value for _, value in inspect.getmembers(errors, inspect.isclass) if issubclass(value, Exception)]


@pytest.mark.parametrize("error", error_classes(), ids=lambda error: error.__name__)
def test_every_error_is_a_pgmest_error(error):
    assert issubclass(error, PgmestError)
    assert error.__doc__

"""Identifiers: columns whose values tell rows, persons or things apart, which drafts leave out, whatever else they say.

What a column is called is evidence, and so is how many rows its values have: identifiers have about equally many each,
few of them, while a few labels of a category have most of the rows. Whole numbers that all differ are identifiers if
they are consecutive, ascend with the rows, or are spread as evenly as no amounts are.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

import numpy as np

from pgmest.errors import percent_text
from pgmest.schema.guess_numbers import MOST_POINTS
from pgmest.schema.tally import Tally

FEWEST_ROWS = 20
"""The least number of rows in which all values differ by no accident."""
MOST_LISTED = 50
"""The largest number of values of a categorical column; the most frequent ones are listed."""
FEW_ROWS_EACH, NAMED_ROWS_EACH = 10, 30
"""Evenly many values with fewer rows each, on average, are identifiers; the second number if digits say so, too."""
FEW_LABELS = 5
"""The largest number of values of a column such as `gender_id` that are labels whatever the number of rows."""
PAIRS = 3
"""The number of rows, on average, below which texts that are all written alike are identifiers."""
EVEN = 5
"""The largest ratio of the most rows of a value to the average for which values have about equally many rows."""
LONGEST_SCALE = 200
"""The largest number of consecutive whole numbers that may measure something, such as ages or years."""
LEAST_COVERED = 0.1
"""The least share of the rows that the listed values must have for a list to be worth anything."""
UNIFORM = 1.63
"""The largest Kolmogorov-Smirnov distance, times the root of the number, of uniform numbers, but for 1 % of them."""
MORE_ROWS = 1.2
"""The least number of rows, on average, of identifiers that do not all differ."""
LONG = 6
"""The average length from which on texts that all differ are identifiers, however they are written."""
LONG_NUMBERS = 6
"""The number of digits from which on whole numbers that all differ, and all have as many, are identifiers."""

ID_WORDS = frozenset(
    {"id", "ids", "ident", "identifier", "identifiers", "uuid", "guid", "uid", "ssn", "mrn", "pid", "hhid", "idno"}
    | {
        "nr",
        "nummer",
        "pkey",
        "rowid",
        "seqn",
        "serialno",
        "caseid",
        "personid",
        "patientid",
        "userid",
        "email",
        "iban",
        "passport",
    }
)
NUMBER_WORDS = frozenset({"number", "no", "num", "key", "code", "serial"})
PERSONS = frozenset(
    {"person", "persons", "patient", "patients", "subject", "respondent", "participant", "customer", "client", "user"}
    | {"member", "student", "pupil", "employee", "worker", "citizen", "resident", "household", "households", "hh"}
    | {"family", "mother", "child", "case", "account", "record", "row", "applicant", "borrower", "insured", "donor"}
    | {"policyholder", "voter", "taxpayer", "beneficiary", "inmate", "passenger", "driver", "player"}
)
THINGS = frozenset(
    {"row", "record", "case", "account", "policy", "invoice", "order", "ticket", "card", "file", "security", "phone"}
    | {"tax", "serial"}
)
ALONE = frozenset(
    {"person", "patient", "subject", "respondent", "participant", "customer", "client", "user", "student", "employee"}
    | {"household", "family"}
)
"""The names of columns that are identifiers if they have many values that are single words with digits, or numbers."""
PERSONAL = (
    r"(?:(?:first|last|full|given|family|middle|maiden|sur|fore|patient|customer|client|person|contact|street)_?)?name"
    r"|(?:home|street|mail|postal|email)?_?address|street|e_?mail"
    r"|(?:vor|nach|zu|familien)name|adresse|anschrift|prenom"
)
"""The names of columns of names and addresses."""
CLASSIFIED = frozenset(
    {"fips", "zip", "zipcode", "postcode", "plz", "puma", "naics", "naicsp", "isco", "soc", "socp", "icd", "tract"}
)
"""Words in the names of columns whose whole numbers are codes of public classifications."""
MOST_SIZES = 12
"""The largest number of values of a column such as `household` or `name` that are sizes or kinds of these."""
COMPOUND = r"\w{2,}(?:nummer|nr)"
"""The German words for numbers of persons or things, such as Kundennummer and PatNr."""
UUID = r"[0-9a-fA-F]{8}-?(?:[0-9a-fA-F]{4}-?){3}[0-9a-fA-F]{12}|[0-9a-fA-F]{32,}"


@dataclass(frozen=True)
class Identifier:
    """The finding that a column identifies something.

    Attributes:
        reason: why, as a draft says it.
        rows: the rows of each identifier, ascending; empty if all values differ.
    """

    reason: str
    rows: tuple[int, ...] = ()


def words_of(name: str) -> list[str]:
    """Return the words of a name in small letters.

    >>> words_of("patientID_no2"), words_of("HHId")
    (['patient', 'id', 'no'], ['hh', 'id'])
    """
    return [word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)]


def named_as_identifier(name: str) -> bool:
    """Return whether a column is called an identifier of anything: `id`, `shop_id`, `UserID`, `case_number`."""
    words = words_of(name)
    numbered = len(words) > 1 and words[-1] in NUMBER_WORDS and set(words[:-1]) & (PERSONS | THINGS)
    return bool(set(words) & ID_WORDS or numbered or any(re.fullmatch(COMPOUND, word) for word in words))


def named_after_persons(name: str) -> bool:
    """Return whether a column is called the id of persons, or just `id`."""
    words = set(words_of(name))
    return bool(words & ID_WORDS and (words & PERSONS or words <= ID_WORDS))


def shape_of(text: str) -> str:
    """Return a text with 9 for each run of digits and a for each run of letters.

    >>> shape_of("3 Mar 2021, 10:05")
    '9 a 9, 9:9'
    """
    return re.sub(r"[0-9]+", "9", re.sub(r"[^\W\d_]+", "a", text))


def identifier_in_texts(name: str, tally: Tally) -> Identifier | None:
    """Return the finding that texts are identifiers, or None."""
    found = _named(name, tally)
    if found is not None:
        return found
    rows, distinct, texts = tally.rows, tally.distinct, tally.texts
    alike = texts.map(shape_of).nunique() == 1 and texts.str.contains(r"\d").all()
    if distinct == rows >= FEWEST_ROWS and (alike or rows > MOST_LISTED or texts.str.len().mean() >= LONG):
        return Identifier(f"IT LOOKS LIKE AN IDENTIFIER OR FREE TEXT: ITS {rows:,} VALUES ALL DIFFER")
    shaped = texts.str.fullmatch(UUID).to_numpy(dtype=bool) | texts.str.contains(r"\S@\S+\.\S").to_numpy(dtype=bool)
    if tally.share(shaped) > 0.5 and distinct > 2:
        return _repeated("IT IS WRITTEN LIKE AN IDENTIFIER OR AN ADDRESS", tally)
    if alike and distinct >= FEWEST_ROWS and rows < PAIRS * distinct and tally.counts.max() <= EVEN:
        return _repeated("IT LOOKS LIKE AN IDENTIFIER", tally)
    digits = tally.share(texts.str.contains(r"\d\d\d").to_numpy(dtype=bool)) > 0.5
    if _evenly_few(tally, NAMED_ROWS_EACH if digits else FEW_ROWS_EACH):
        return _repeated("IT LOOKS LIKE AN IDENTIFIER OR FREE TEXT", tally)
    return None


def identifier_in_numbers(name: str, tally: Tally, amounts: bool) -> Identifier | None:
    """Return the finding that whole numbers are identifiers, or None.

    Args:
        name: of the column.
        tally: the numbers.
        amounts: whether numbers that all differ are no identifiers, as some are missing, or they were measured.
    """
    found = _named(name, tally)
    if found is not None:
        return found
    rows, numbers = tally.rows, tally.values.astype(np.float64)
    if numbers.min() < 0:
        return None
    if tally.distinct == rows and not amounts and _numbered(name, numbers):
        return Identifier(
            f"IT LOOKS LIKE AN IDENTIFIER: ITS {rows:,} WHOLE NUMBERS ALL DIFFER. IF THEY ARE AMOUNTS, DESCRIBE THEM "
            "(type: integer, min, max, width)"
        )
    long = _digits(numbers) >= LONG_NUMBERS - 1 and not _round(numbers)
    in_order = (np.diff(numbers) > 0).all() or np.ptp(numbers) + 1 == len(numbers)  # as they occur first, or a run
    counted = in_order and tally.distinct > LONGEST_SCALE and rows > MORE_ROWS * tally.distinct
    if (long or counted) and _evenly_few(tally, NAMED_ROWS_EACH if long else FEW_ROWS_EACH):
        return _repeated("IT LOOKS LIKE AN IDENTIFIER", tally)
    return None


def _named(name: str, tally: Tally) -> Identifier | None:
    rows, distinct, texts = tally.rows, tally.distinct, tally.values.dtype == object
    if texts and distinct > MOST_SIZES and re.fullmatch(PERSONAL, "_".join(words_of(name))):
        return _repeated("IT IS CALLED A NAME OR AN ADDRESS, WHICH IS AN IDENTIFIER", tally)
    alone = distinct > MOST_SIZES and len(words_of(name)) == 1 and words_of(name)[0] in ALONE
    if alone and (not texts or tally.texts.str.fullmatch(r"\S*\d\S*").all()):
        return _repeated("IT IS CALLED AN IDENTIFIER", tally)
    if not named_as_identifier(name):
        return None
    if distinct == rows:
        return Identifier(f"IT IS CALLED AN IDENTIFIER, AND ITS {rows:,} VALUES ALL DIFFER")
    few = rows < NAMED_ROWS_EACH * distinct and distinct > FEW_LABELS
    if (named_after_persons(name) and distinct > 2) or distinct > MOST_LISTED or few:
        return _repeated("IT IS CALLED AN IDENTIFIER", tally)
    return None


def _repeated(reason: str, tally: Tally) -> Identifier:
    if tally.distinct == tally.rows:
        return Identifier(f"{reason}: ITS {tally.rows:,} VALUES ALL DIFFER")
    each = tally.rows / tally.distinct
    text = f"{reason}: ITS {tally.distinct:,} VALUES HAVE {each:.2g} ROWS EACH ON AVERAGE"
    return Identifier(text, tuple(np.sort(tally.counts).tolist()))


def _evenly_few(tally: Tally, each: float) -> bool:
    """Return whether many values have about equally many rows, on average fewer than `each`."""
    average = tally.rows / max(tally.distinct, 1)
    return tally.distinct > MOST_LISTED and average < each and tally.counts.max() <= EVEN * average + EVEN


def _numbered(name: str, numbers: np.ndarray) -> bool:
    """Return whether whole numbers that all differ number or identify rows rather than measure them."""
    run = np.ptp(numbers) + 1 == len(numbers) > 1
    if run and (len(numbers) >= FEWEST_ROWS or re.fullmatch(r"Unnamed: \d+|level_\d+|", name) is not None):
        return True
    if len(numbers) < FEWEST_ROWS:
        return False
    steps = np.diff(numbers)
    if (steps > 0).all() or (steps < 0).all():
        return True
    if _round(numbers):
        return False
    if _digits(numbers) >= LONG_NUMBERS:
        return True
    ranks = (np.arange(len(numbers)) + 0.5) / len(numbers)
    spread = (np.sort(numbers) - numbers.min()) / np.ptp(numbers)
    return bool(np.abs(ranks - spread).max() * math.sqrt(len(numbers)) < UNIFORM)


def _digits(numbers: np.ndarray) -> int:
    """Return the number of digits that all whole numbers have, or 0."""
    if numbers.min() <= 0 or numbers.max() > 1e18:
        return 0
    fewest, most = (len(str(int(end))) for end in (numbers.min(), numbers.max()))
    return fewest if fewest == most else 0


def _round(numbers: np.ndarray) -> bool:
    """Return whether most whole numbers are multiples of 5, as amounts often are."""
    return bool((numbers % 5 == 0).mean() > 0.5)


def are_codes(name: str, tally: Tally) -> bool:
    """Return whether many distinct whole numbers are codes, such as those of counties, rather than amounts.

    Codes lie far apart, are as often odd as even, have many rows each, and are spread evenly.
    """
    numbers = np.sort(tally.values.astype(np.float64))
    if set(words_of(name)) & CLASSIFIED:
        return True
    span, fewer = np.ptp(numbers), np.sort(tally.counts)[:-MOST_POINTS]  # the commonest may be points of amounts
    if fewer.sum() < 5 * len(fewer) or span < 10 * tally.distinct or numbers[0] < 0 or _round(numbers):
        return False
    if np.gcd.reduce(numbers.astype(np.int64)) > 2:
        return False
    ranks = (np.arange(len(numbers)) + 0.5) / len(numbers)
    return bool(np.abs(ranks - (numbers - numbers[0]) / span).max() < 0.3)


def uncovered(tally: Tally) -> Identifier | None:
    """Return the finding that too many values have too few rows each to be listed, or None."""
    rows, distinct = tally.rows, tally.distinct
    covered = int(np.sort(tally.counts)[::-1][:MOST_LISTED].sum())
    if distinct <= MOST_LISTED or (2 * distinct <= rows and covered >= LEAST_COVERED * rows):
        return None
    share = percent_text(covered, rows)
    return Identifier(
        f"IT LOOKS LIKE AN IDENTIFIER OR FREE TEXT: THE COMMONEST {MOST_LISTED} OF ITS {distinct:,} VALUES HAVE "
        f"{share} OF THE ROWS"
    )

"""Marginal engineering for the fire calls (DPSyn section 5.3): what to recode and which marginals to measure.

As in the contest, the choice rests on what the attributes mean, and on nothing that was read from the records.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pgmest.tables.domain import Clique

AREA = "Neighborhooods - Analysis Boundaries"
PLACES = ("Station Area", AREA, "Zipcode of Incident", "Supervisor District", "Battalion", "Fire Prevention District")
CALL = ("Call Type Info", "Priority Info", "Unit Info", "Call Final Disposition")
LOW, HIGH = 0.5, 4.0
"""Below and above these epsilons fewer and more marginals are measured."""


@dataclass(frozen=True)
class Design:
    """A recoding of a table, and the measurements of the recoded table.

    Attributes:
        combined: groups of attributes that mean nearly the same, recoded into one each.
        learned: attributes that others nearly determine: left out, and filled in by a noisy mapping.
        numeric: what the range score counts as numeric.
        whole: attributes whose rare values are not put together.
        essential, more, most: marginals for every epsilon, for those above `LOW`, and for those above `HIGH`.
    """

    combined: Mapping[str, Clique]
    essential: Sequence[Clique]
    more: Sequence[Clique]
    most: Sequence[Clique]
    learned: Mapping[str, Clique] = field(default_factory=dict)
    numeric: Sequence[str] = ()
    whole: Sequence[str] = ()

    def marginals(self, epsilon: float) -> list[Clique]:
        """What is measured after the recoding."""
        chosen = [*self.essential, *(self.more if epsilon > LOW else ()), *(self.most if epsilon > HIGH else ())]
        return list({frozenset(clique): clique for clique in chosen}.values())


def _pairs(names: Sequence[str]) -> list[Clique]:
    return list(itertools.combinations(names, 2))


COMBINED = {
    "Unit Info": ("ALS Unit", "Unit Type"),
    "Call Type Info": ("Call Type Group", "Call Type"),
    "Priority Info": ("Final Priority", "Original Priority", "Priority"),
}
"""The paper's three groups."""

NESTED = [
    ("Station Area", "Battalion"),
    ("Station Area", AREA),
    (AREA, "Zipcode of Incident"),
    (AREA, "Supervisor District"),
    ("Battalion", "Fire Prevention District"),
]
"""Districts inside one another, of which each pair says most about the finer one."""

FIRE = Design(
    combined=COMBINED,
    learned={"City": ("Zipcode of Incident",)},
    essential=[*NESTED, *_pairs(CALL)],
    more=[*_pairs(PLACES), ("Call Type Info", AREA)],
    most=[(name, place) for name in CALL for place in PLACES[:4]],
)

WORK = ("INCWAGE", "EMPSTATD", "EDUC", "AGE")
IPUMS = Design(
    combined={},
    learned={name: ("EMPSTATD",) for name in ("EMPSTAT", "LABFORCE")},
    numeric=("YEAR", "AGE", "INCTOT", "INCWAGE", "INCEARN", "POVERTY", "DEPARTS", "ARRIVES"),
    whole=("PUMA", "SEX", "INCWAGE"),
    essential=[
        ("PUMA", "SEX", "INCWAGE"),
        *_pairs(WORK),
        ("INCTOT", "INCWAGE"),
        ("INCEARN", "INCWAGE"),
        ("AGE", "MARST"),
        ("RACE", "HISPAN"),
        ("RACE", "CITIZEN"),
    ],
    more=[
        *(("EMPSTATD", name) for name in ("WRKLSTWK", "ABSENT", "LOOKING", "AVAILBLE", "WRKRECAL", "WORKEDYR")),
        *(("AGE", name) for name in ("HCOVANY", "HCOVPRIV", "HINSCARE", "GQ", "INCINVST", "INCTOT")),
        ("HCOVANY", "HCOVPRIV"),
        ("HCOVPRIV", "HINSEMP"),
        ("HCOVANY", "HINSCAID"),
        ("POVERTY", "INCTOT"),
        ("CITIZEN", "SPEAKENG"),
    ],
    most=[
        ("PUMA", "YEAR"),
        ("PUMA", "RACE"),
        ("DEPARTS", "ARRIVES"),
        ("DEPARTS", "EMPSTATD"),
        *(("EMPSTATD", name) for name in ("DEPARTS", "ARRIVES", "HINSEMP", "INCTOT", "INCEARN")),
    ],
)
"""Excerpts of the American Community Survey in Ohio and Illinois, for the third score: its PUMAs are the cities. (The
contest had the census of 1940 in Colorado.)"""

DESIGNS = {"fire": FIRE, "acs/IL_OH": IPUMS}

"""Which rows of linked tables count: what one unit's rows are changes nothing for another's, and little is lost."""

import hashlib

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pgmest.schema.linked.linking import BEYOND, COUNTED, DOUBLED, FOLLOWED, KEYLESS, ORPHAN, TableRows, link_rows

PARENTS = {"patients": None, "visits": "patients", "contacts": "patients", "codes": "visits"}
AT_MOST = {"patients": 0, "visits": 3, "contacts": 1, "codes": 2}
LEVELS = {"patients": 3, "visits": 8, "contacts": 0, "codes": 0}
"""The number of different keys of each table; 0 if nothing hangs on it. Visits 2 p and 2 p + 1 name the patient p."""


@st.composite
def tables(draw):
    """Rows as (key, link, code), with few keys, so that many of them collide; -1 is no key."""
    made = {}
    for name, parent in PARENTS.items():
        own = st.integers(-1, LEVELS[name] - 1 if parent is None else 1) if LEVELS[name] else st.just(-1)
        links = st.integers(-1, LEVELS[parent]) if parent else st.just(0)  # the last is never there
        rows = draw(st.lists(st.tuples(own, links, st.integers(0, 1)), max_size=8))
        made[name] = [(-1 if min(key, link) < 0 else 2 * link + key, link, code) for key, link, code in rows]
    return made


def hashes(numbers):
    """A hash of each number."""
    texts = [hashlib.blake2b(str(number).encode(), digest_size=8).digest() for number in numbers]
    return np.array([int.from_bytes(text, "little") for text in texts], dtype=np.uint64)


def linked(rows):
    """The fates and the counted parents of all rows."""
    held = {}
    for name, parent in PARENTS.items():
        key, link, code = np.array(rows[name], int).reshape(-1, 3).T
        wanted = [(code == 1, 1)] if name == "codes" else []
        held[name] = TableRows(
            parent, key if LEVELS[name] else None, link if parent else None, AT_MOST[name], [code], wanted
        )
    found = link_rows(held, hashes)
    parents = {}
    for name, parent in PARENTS.items():
        rows_of_parent = found[parent].rows if parent else None
        at = zip(found[name].rows, found[name].parent_rows, strict=True)
        parents[name] = {int(row): None if parent is None else int(rows_of_parent[place]) for row, place in at}
    return {name: one.fates.tolist() for name, one in found.items()}, parents, found


def units_of(rows):
    """The rows that name each patient, as sets of (table, row)."""
    units = {}
    for name in PARENTS:
        for row, (key, link, _) in enumerate(rows[name]):
            patient = {"patients": key, "codes": link // 2}.get(name, link)
            units.setdefault(patient, set()).add((name, row))
    return [unit for patient, unit in units.items() if patient >= 0]


@given(tables())
def test_one_unit_changes_nothing_for_another(rows):
    fates, parents, _ = linked(rows)
    for unit in units_of(rows):
        left = {name: [row for row in range(len(rows[name])) if (name, row) not in unit] for name in PARENTS}
        fewer, their_parents, _ = linked({name: [rows[name][row] for row in kept] for name, kept in left.items()})
        for name, parent in PARENTS.items():
            assert fewer[name] == [fates[name][row] for row in left[name]]
            for place, row in enumerate(left[name]):
                if parent and fates[name][row] == COUNTED:
                    assert left[parent][their_parents[name][place]] == parents[name][row]
        root = [row for name, row in unit if name == "patients" and fates[name][row] == COUNTED]
        assert len(root) <= 1


@given(tables())
def test_what_counts_is_joined_and_nothing_else_is_lost(rows):
    fates, parents, found = linked(rows)
    keys = [key for key, _, _ in rows["patients"]]
    for name, parent in PARENTS.items():
        for row, (key, link, _) in enumerate(rows[name]):
            fate = fates[name][row]
            assert (row in parents[name]) == (fate == COUNTED)
            if parent is None:
                assert fate == (KEYLESS if key < 0 else DOUBLED if keys.count(key) > 1 else COUNTED)
                continue
            known = {one[0] for one in rows[parent]}
            assert (fate == KEYLESS) == (link < 0)
            assert (fate == ORPHAN) == (link >= 0 and link not in known)
            if fate == COUNTED:
                assert rows[parent][parents[name][row]][0] == link
                assert fates[parent][parents[name][row]] == COUNTED
            if fate == FOLLOWED:
                assert all(fates[parent][at] != COUNTED for at, one in enumerate(rows[parent]) if one[0] == link)
        if parent:
            counts = np.bincount([*parents[name].values()], minlength=len(rows[parent])).tolist()
            sizes = found[name].sizes.tolist()
            assert [counts[row] for row in found[parent].rows] == [min(size, AT_MOST[name]) for size in sizes]
            assert fates[name].count(BEYOND) == sum(sizes) - sum(counts)


@given(tables(), st.randoms(use_true_random=False))
def test_the_order_of_rows_does_not_matter(rows, random):
    """Rows that are alike in all but their own key may take the place of one another."""
    mixed = {name: random.sample(range(len(rows[name])), len(rows[name])) for name in PARENTS}
    fates, _, _ = linked(rows)
    others, _, _ = linked({name: [rows[name][row] for row in order] for name, order in mixed.items()})
    for name in ("patients", "visits"):
        first = sorted((row[1:], fate) for row, fate in zip(rows[name], fates[name], strict=True))
        assert first == sorted((rows[name][row][1:], fate) for row, fate in zip(mixed[name], others[name], strict=True))


def test_children_of_a_double_key_hang_on_the_same_row_in_any_order():
    patients, codes, chosen = [(0, -1, 0)], [(-1, 0, 0)], []
    for visits in ([(0, 0, 0), (0, 0, 1)], [(0, 0, 1), (0, 0, 0)]):
        _, parents, _ = linked({"patients": patients, "visits": visits, "codes": codes, "contacts": []})
        chosen.append(visits[parents["codes"][0]])
    assert chosen[0] == chosen[1]


def counted(codes, at_most, least=1):
    """How many rows of each code count in a household with these persons, of whom a rule asks for some of code 1."""
    code = np.array(codes)
    tables = {
        "h": TableRows(None, np.zeros(1, int), None, 0),
        "p": TableRows("h", None, np.zeros(len(codes), int), at_most, [code], [(code == 1, least)]),
    }
    return np.bincount(code[link_rows(tables, hashes)["p"].rows], minlength=2)


@given(st.lists(st.integers(0, 1), min_size=1, max_size=12), st.integers(1, 4), st.integers(0, 5))
def test_rows_that_a_rule_asks_for_count_first(codes, at_most, least):
    assert counted(codes, at_most, least)[1] >= min(sum(codes), at_most, least)
    assert counted(codes, at_most, least).sum() == min(len(codes), at_most)


def test_not_more_rows_are_preferred_than_a_rule_asks_for():
    assert any(counted([1, 1, 1, *[0] * seed], 3).tolist() != [0, 3] for seed in range(1, 9))


@given(st.lists(st.integers(0, 1), min_size=1, max_size=8), st.integers(0, 1), st.integers(1, 4))
def test_one_row_more_takes_the_place_of_at_most_one(codes, more, at_most):
    """The derivation for `unit:` of a table below the root rests on this."""
    before, after = counted(codes, at_most), counted([*codes, more], at_most)
    assert np.abs(after - before).sum() <= 2
    assert after.sum() - before.sum() == (len(codes) < at_most)

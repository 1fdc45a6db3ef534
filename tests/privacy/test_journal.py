"""The journal: nothing is paid for twice, whatever the moment of the interruption."""

import json
import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pgmest as pg
from pgmest.errors import BudgetExceeded, FileFormatError, JournalError
from pgmest.privacy import AddRemove, Curator, Epsilon, Replace, Rho
from pgmest.privacy.journal import journal_key

DATA = pg.Dataset.from_codes(np.random.default_rng(0).integers(0, (3, 4), (500, 2)), {"a": 3, "b": 4})


def ask(path, requests=4, backend="opendp", budget=None, neighbors=None, scores=lambda data: [0, data.records], **run):
    """The first few of four requests; what was answered, and the ledger."""
    curator = Curator(
        DATA, budget or Rho(1.0), backend=backend, neighbors=neighbors or AddRemove(), journal=path, seed=1, **run
    )
    spend = curator.budget / 5
    steps = [
        lambda: curator.measure("a", spend).values.tolist(),
        lambda: curator.select(["x", ("y",)], scores, 1.0, spend),
        lambda: curator.measure(("a", "b"), spend, [[0.3] * 12]).values.tolist(),
        lambda: curator.release(lambda data, rng: [int(rng.integers(2**60))], spend, label="own"),
    ]
    try:
        return [step() for step in steps[:requests]], curator.ledger
    finally:
        curator.close()


@pytest.mark.parametrize("backend", ["opendp", "simulation"])
@pytest.mark.parametrize("done", range(5))
def test_an_interrupted_run_goes_on_with_the_same_answers(tmp_path, backend, done):
    path = tmp_path / "run.journal"
    before, _ = ask(path, done, backend)
    after, ledger = ask(path, 4, backend)
    again, same = ask(path, 4, backend)
    assert after[:done] == before
    assert again == after
    assert len(ledger) == 4
    assert str(ledger) == str(same)
    assert len(path.read_text().splitlines()) == 5


def test_a_resumed_simulation_is_the_uninterrupted_one(tmp_path):
    whole, _ = ask(None, 4, "simulation")
    ask(tmp_path / "run", 2, "simulation")
    assert ask(tmp_path / "run", 4, "simulation")[0] == whole


def test_replayed_answers_do_not_touch_the_data(tmp_path):
    def refuse(data):
        assert not data.records, "touched"
        return [0.0, 0.0]

    ask(tmp_path / "run", 2)
    assert ask(tmp_path / "run", 2, scores=refuse)[0][1] == ("y",)


@pytest.mark.parametrize("lost", [1, 5, 20])
def test_an_answer_that_was_not_written_to_its_end_is_paid_for_once(tmp_path, lost):
    path = tmp_path / "run"
    before, _ = ask(path, 2)
    head = path.with_name("run.head").read_bytes()
    before, _ = ask(path, 3)
    path.with_name("run.head").write_bytes(head)  # it is written after the answer
    path.write_bytes(path.read_bytes()[:-lost])
    after, ledger = ask(path, 4)
    assert after[:2] == before[:2]
    assert len(ledger) == 4
    assert ask(path, 4)[0] == after


def test_the_file_holds_what_was_released_and_no_more(tmp_path):
    answers, _ = ask(tmp_path / "run", 3)
    header, *records = map(json.loads, (tmp_path / "run").read_text().splitlines())
    assert header["budget"] == {"type": "Rho", "rho": 1.0}
    assert [record["answer"] for record in records] == [answers[0], 1, answers[2]]
    assert all(record.keys() == {"label", "digest", "answer", "check"} for record in records)


def test_the_file_tells_nothing_of_the_records_without_its_key(tmp_path):
    """The digest of the records is under a secret key, which only the owner can read."""
    digests = set()
    for name in ("one", "two"):
        ask(tmp_path / name, 1)
        header = json.loads((tmp_path / name).read_text().splitlines()[0])
        key = tmp_path / f"{name}.key"
        assert header["records"] == DATA.fingerprint(bytes.fromhex(key.read_text()))
        assert key.read_text() not in (tmp_path / name).read_text()
        assert os.name == "nt" or key.stat().st_mode & 0o777 == 0o600
        digests.add(header["records"])
    assert len(digests) == 2


@pytest.mark.parametrize("content", [None, "", "00" * 15, "no key"])
def test_a_journal_without_its_key_is_refused(tmp_path, content):
    ask(tmp_path / "run", 1)
    (tmp_path / "run.key").unlink()
    if content is not None:
        (tmp_path / "run.key").write_text(content)
    with pytest.raises(JournalError, match=r"run\.key is (missing|not the key)"):
        ask(tmp_path / "run", 1)


def test_a_folder_is_no_journal_and_gets_no_key(tmp_path):
    (tmp_path / "d").mkdir()
    with pytest.raises(FileFormatError, match="d: is a folder"):
        journal_key(tmp_path / "d")
    assert [path.name for path in tmp_path.iterdir()] == ["d"]


def test_a_run_that_ended_asks_for_nothing_more(tmp_path):
    def curator():
        return Curator(DATA, Rho(1.0), journal=tmp_path / "run")

    first = curator()
    first.measure("a", Rho(0.5))
    first.end()
    first.close()
    again = curator()
    again.measure("a", Rho(0.5))
    with pytest.raises(JournalError, match=r"its run ended on .* without a request for 'b'"):
        again.measure("b", Rho(0.5))
    assert len(again.ledger) == 1


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3)), max_size=8), st.randoms(use_true_random=False))
def test_tables_have_the_same_fingerprint_exactly_if_they_have_the_same_rows(rows, random):
    key, domain = bytes(16), {"a": 3, "b": 4}

    def fingerprint(records):
        return pg.Dataset.from_codes(np.array(records, dtype=int).reshape(-1, 2), domain).fingerprint(key)

    shuffled = random.sample(rows, len(rows))
    other = [(random.randrange(3), random.randrange(4)) for _ in rows]
    assert fingerprint(shuffled) == fingerprint(rows)
    assert (fingerprint(other) == fingerprint(rows)) == (sorted(other) == sorted(rows))
    assert fingerprint([*rows, (0, 0)]) != fingerprint(rows)


def test_another_question_is_refused_before_anything_is_spent(tmp_path):
    path = tmp_path / "run"
    ask(path, 2)
    curator = Curator(DATA, Rho(1.0), journal=path)
    for request in (
        lambda: curator.measure("b", Rho(0.2)),
        lambda: curator.measure("a", Rho(0.1)),
        lambda: curator.measure("a", Rho(0.2), np.eye(3)[:2]),
        lambda: curator.count(Rho(0.2)),
    ):
        with pytest.raises(JournalError, match="answer 1 of 2 is to 'a', but this run asks"):
            request()
    assert len(curator.ledger) == 0
    with pytest.raises(BudgetExceeded):
        curator.measure("a", Rho(2.0))
    with pytest.raises(JournalError, match="release"):
        curator.charge(Rho(0.1), "elsewhere")


@pytest.mark.parametrize(
    "change", [{"budget": Rho(2.0)}, {"budget": Epsilon(1.0)}, {"neighbors": AddRemove(2)}, {"backend": "simulation"}]
)
def test_the_journal_of_another_run_is_refused(tmp_path, change):
    ask(tmp_path / "run", 1)
    with pytest.raises(JournalError, match=f"another run: its {next(iter(change))} is"):
        ask(tmp_path / "run", 1, **change)


def test_a_run_that_published_tables_exactly_is_not_resumed_as_one_that_protects_them(tmp_path):
    ask(tmp_path / "run", 1, neighbors=Replace(), invariants=[("a",)], backend="simulation")
    with pytest.raises(JournalError, match=r"another run: its invariants is .* here it is None"):
        ask(tmp_path / "run", 1, neighbors=Replace(), backend="simulation")


def test_two_runs_cannot_share_a_journal(tmp_path):
    pytest.importorskip("fcntl")
    first = Curator(DATA, Rho(1.0), journal=tmp_path / "run")
    with pytest.raises(JournalError, match="in use"):
        Curator(DATA, Rho(1.0), journal=tmp_path / "run")
    first.close()
    Curator(DATA, Rho(1.0), journal=tmp_path / "run").close()
    with pytest.raises(JournalError, match="was closed"):
        first.measure("a", Rho(0.1))
    assert len(first.ledger) == 0


@pytest.mark.parametrize("content", ["age,sex\n1,2\n", '{"format": "other"}\n', "no line ends here", '[1, 2]\n"x"\n'])
def test_a_file_that_is_no_journal_is_left_alone(tmp_path, content):
    path = tmp_path / "data.csv"
    path.write_text(content)
    with pytest.raises(JournalError, match="not a journal"):
        Curator(DATA, Rho(1.0), journal=path)
    assert path.read_text() == content
    with pytest.raises(FileFormatError, match="cannot be opened"):
        Curator(DATA, Rho(1.0), journal=tmp_path / "nowhere" / "run")

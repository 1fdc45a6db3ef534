"""The comparison: where the first seed was refused or stopped, the others are not run."""

from experiments.compare import store
from experiments.compare.cells import Cell


def test_other_seeds_are_run_unless_the_first_one_failed(monkeypatch):
    rows = {
        Cell("adult", "AIM", 1.0): {"note": "", "most_seconds": 60.0},
        Cell("adult", "AIM", 1.0, 1): {"note": "", "most_seconds": 60.0},
        Cell("adult", "HDMM", 1.0): {"note": "TooSlow: more than 60 seconds", "most_seconds": 60.0},
        Cell("adult", "MWEM", 1.0): {"note": "OversizedModelError: too large", "most_seconds": 60.0},
    }
    monkeypatch.setattr(store, "KEPT", type("Kept", (), {"row": staticmethod(rows.get)}))
    assert store.ended(Cell("adult", "AIM", 1.0, 1), 60.0)
    assert not store.ended(Cell("adult", "AIM", 1.0, 2), 60.0)
    assert store.ended(Cell("adult", "HDMM", 1.0, 2), 60.0)
    assert not store.ended(Cell("adult", "HDMM", 1.0, 2), 120.0)  # the first is to be tried again, for longer
    assert store.ended(Cell("adult", "MWEM", 1.0, 2), 120.0)
    assert not store.ended(Cell("adult", "MST", 1.0, 0), 60.0)

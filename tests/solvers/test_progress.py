"""The bar that shows how much of a budget is spent."""

import tqdm

from pgmest.mechanisms import Independent
from tests.mechanisms.auditing import DATA


def test_the_bar_fills_as_the_budget_is_spent(monkeypatch, capsys):
    bar = tqdm.tqdm
    monkeypatch.setattr(tqdm, "tqdm", lambda **options: bar(**{**options, "disable": False, "mininterval": 0}))
    Independent(rho=1.0, backend="simulation").fit(DATA, seed=0)
    last = capsys.readouterr().err.split("\r")[-1]
    assert last.startswith("Independent: 100%|")
    assert last.rstrip().endswith(", c")

"""Test that `experiments.ablation` takes out stages that the code has, and keeps the rows of deleted ones."""

from unittest import mock

import pandas as pd
import pytest

from experiments.ablation import CLASSES, STAGES, keep, runs, summary


@pytest.mark.parametrize("stage", STAGES)
def test_what_a_stage_replaces_is_in_the_code(stage):
    for name, other in STAGES[stage].patches.items():
        with mock.patch(name, other):
            pass
    assert set(STAGES[stage].classes) <= set(CLASSES)


def test_each_run_has_a_file_of_its_own():
    names = [run.name for run in runs(list(STAGES), [], 2)]
    assert len(set(names)) == len(names)


def test_ratios_are_geometric_means_and_rows_of_deleted_stages_stay(tmp_path):
    stage, name = next((stage, own.classes[0]) for stage, own in STAGES.items())
    runs = [("", 0.1, 0.2), ("", 1.0, 0.1), (stage, 0.1, 0.4), (stage, 1.0, 0.05)]
    rows = [{"mechanism": m, "table": f"{name}: a", "epsilon": e, "seed": 0, "error": x} for m, e, x in runs]
    table = summary(pd.DataFrame(rows), "12345678")
    assert table.loc[0, ["ratio", "smaller budget", "larger budget"]].tolist() == pytest.approx([1.0, 2.0, 0.5])
    keep(table.assign(stage="gone", commit="1234abcd"), tmp_path)
    assert set(keep(table, tmp_path)["stage"]) == {"gone", stage}
    assert f"| gone | {name} | 1.000 | 2.000 | 0.500 | 2 | 1 |" in (tmp_path / "ablation.md").read_text()
    assert "1234abcd | deleted |" in (tmp_path / "ablation.md").read_text()

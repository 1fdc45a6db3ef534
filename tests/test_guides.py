"""The guides: every Python block runs, those of a page one after the other."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path

import pytest

GUIDES = Path(__file__).resolve().parent.parent / "docs" / "guides"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
OPTIONAL = re.compile(
    r"^(?:from|import) (?:pgmest\.adapters\.)?(mbi|sklearn|statsmodels|snsql|tmlt|dpsynth|synthcity)\b", re.MULTILINE
)


@pytest.mark.parametrize("guide", sorted(GUIDES.glob("*.md")), ids=lambda path: path.stem)
def test_python_runs(guide, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = guide.read_text(encoding="utf-8")
    blocks = list(BLOCK.finditer(text))
    assert len(blocks) == text.count("```python")
    names: dict[str, object] = {"__name__": guide.stem}
    for block in blocks:
        if not all(map(find_spec, OPTIONAL.findall(block.group(1)))):
            continue
        lines_before = text.count("\n", 0, block.start(1))
        exec(compile("\n" * lines_before + block.group(1), str(guide), "exec"), names)


NEEDED = {
    r"^(from|import) statsmodels": "statsmodels",
    r"^import polars": "polars",
    r"^from pgmest\.adapters\.sklearn": "pgmest[sklearn]",
    r"^import pgmest\.adapters\.mbi": "pgmest[mbi]",
    r"evaluation\.report\(": "pgmest[plot]",
    r"\.parquet\"": "pgmest[parquet]",
}
"""What the blocks of a guide do, and the package or extra that it takes."""


@pytest.mark.parametrize("guide", sorted(GUIDES.glob("*.md")), ids=lambda path: path.stem)
def test_its_top_says_what_its_blocks_need(guide):
    text = guide.read_text(encoding="utf-8")
    top = text[: text.index("```")]
    blocks = "".join(block.group(1) for block in BLOCK.finditer(text))
    needed = [name for pattern, name in NEEDED.items() if re.search(pattern, blocks, re.MULTILINE)]
    assert [name for name in needed or ["need"] if name not in top] == []


def test_there_are_guides():
    assert {"measuring"} <= {path.stem for path in GUIDES.glob("*.md")}

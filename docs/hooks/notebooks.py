"""Turn the notebooks into pages, with their stored outputs. A hook of mkdocs."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = [*sorted((ROOT / "notebooks").glob("*.ipynb")), ROOT / "experiments" / "compat" / "opendp.ipynb"]


def on_files(files: Any, config: Any) -> Any:
    """Add a page for each notebook, and its pictures."""
    for path in NOTEBOOKS:
        pictures: list[bytes] = []
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        text = "\n\n".join(part for cell in cells for part in parts(cell, path.stem, pictures))
        files.append(File.generated(config, f"notebooks/{path.stem}.md", content=text + "\n"))
        for number, picture in enumerate(pictures):
            files.append(File.generated(config, f"notebooks/{path.stem}-{number}.png", content=picture))
    return files


def parts(cell: dict[str, Any], stem: str, pictures: list[bytes]) -> Iterator[str]:
    """Yield the Markdown of one cell, with the output of code; add its pictures to the list."""
    source = "".join(cell["source"])
    if cell["cell_type"] != "code":
        yield source
        return
    yield f"```python\n{source}\n```"
    for output in cell["outputs"]:
        data = output.get("data", {})
        if "image/png" in data:
            yield f"![the picture that this code draws]({stem}-{len(pictures)}.png)"
            pictures.append(base64.b64decode("".join(data["image/png"])))
        elif text := "".join(output.get("text", data.get("text/plain", ""))).rstrip():
            yield f"```text\n{text}\n```"

"""The documentation of every release: `python docs/hooks/site.py [FOLDER]`, or `make site`.

FOLDER (build/site) gets a folder for each tag `v*` of the repository, built from that tag's own sources, and one for
what is checked out. Each page then has a menu of the versions; `index.html` leads to the newest, and lists all of
them. A tag is built once: pages that are there already stay.
"""

from __future__ import annotations

import io
import json
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def released() -> list[str]:
    """Return the tags of releases, the newest first, with only the last patch of each minor version."""
    tags = _git("tag", "--list", "v*", "--sort=-version:refname").split()
    newest: dict[str, str] = {}
    for tag in tags:
        newest.setdefault(tag.rsplit(".", 1)[0], tag)
    return list(newest.values())


def build(sources: Path, target: Path, version: str) -> None:
    """Build the pages of one version, with the menu of versions."""
    config = sources / "mkdocs.versioned.yml"
    menu = "INHERIT: mkdocs.yml\nextra:\n  version: {provider: mike, default: latest}\n"
    config.write_text(menu, encoding="utf-8")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "-f", str(config), "-d", str(target)]
    try:
        subprocess.run(command, cwd=sources, check=True)
    finally:
        config.unlink()
    print(f"built {target} ({version})", flush=True)


def build_tag(tag: str, target: Path) -> None:
    """Build the pages of a release from its sources."""
    archive = subprocess.run(["git", "archive", tag], cwd=ROOT, check=True, capture_output=True).stdout
    with tempfile.TemporaryDirectory() as folder, tarfile.open(fileobj=io.BytesIO(archive)) as files:
        files.extraction_filter = getattr(tarfile, "data_filter", None)  # Python 3.11.4 has it
        files.extractall(folder)
        build(Path(folder), target, tag)


def index(versions: list[str]) -> str:
    """Return the page above all versions."""
    items = "".join(f'<li><a href="{version}/index.html">pgmest {version}</a></li>\n' for version in versions)
    return (
        '<!doctype html>\n<meta charset="utf-8">\n<title>pgmest</title>\n'
        f'<meta http-equiv="refresh" content="5; url={versions[0]}/index.html">\n'
        f"<h1>pgmest</h1>\n<ul>\n{items}</ul>\n"
    )


def main() -> None:
    site = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build" / "site").resolve()
    here = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    tags = [tag for tag in released() if tag != f"v{here}"]
    for tag in tags:
        if not (site / tag.removeprefix("v")).is_dir():
            build_tag(tag, site / tag.removeprefix("v"))
    build(ROOT, site / here, here)
    versions = [here, *(tag.removeprefix("v") for tag in tags)]
    menu = [{"version": version, "title": version, "aliases": []} for version in versions]
    menu[0]["aliases"] = ["latest"]
    (site / "versions.json").write_text(json.dumps(menu, indent=1) + "\n", encoding="utf-8")
    (site / "index.html").write_text(index(versions), encoding="utf-8")


def _git(*command: str) -> str:
    return subprocess.run(["git", *command], cwd=ROOT, check=True, capture_output=True, text=True).stdout


if __name__ == "__main__":
    main()

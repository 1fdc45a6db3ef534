"""Provide the files that pages load: MathJax, and the shim for searching in pages that are opened from a folder.

Both come from npm packages of fixed versions with fixed checksums, fetched once when the pages are built, and kept
in build/. `PGMEST_VENDORED` names a folder with the two archives, where there is no network at build time either.
Without them formulas stay as TeX, and search needs a server. A hook of mkdocs.
"""

from __future__ import annotations

import base64
import hashlib
import logging
import os
import shutil
import tarfile
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any

log = logging.getLogger("mkdocs.hooks.vendored")


@dataclass(frozen=True)
class Package:
    """An npm package, with the SHA-512 of its archive."""

    name: str
    version: str
    sha512: str

    @property
    def archive(self) -> str:
        return f"{self.name}-{self.version}.tgz"

    @property
    def address(self) -> str:
        return f"https://registry.npmjs.org/{self.name}/-/{self.archive}"


MATHJAX = Package(
    "mathjax", "3.2.2", "Bt+SSVU8eBG27zChVewOicYs7Xsdt40qm4+UpHyX7k0/O9NliPc+x77k1/FEsPsjKPZGJvtRZM1vO+geW0OhGw=="
)
SHIM = Package(
    "iframe-worker", "1.0.4", "roeaaI+Lg1LJNfgpCjoRe/+WzEjy9+Z08LoEvu85MCPbBjwm+qXz8Ag5U05lHa6V1CysZyGzE0SOkAtSUA5q7Q=="
)
SHIM_ADDRESS = "https://unpkg.com/iframe-worker/shim"
"""The address from which the theme's pages would load the file."""


def unpacked(package: Package, kept: Path) -> Path | None:
    """Return the folder of a package's files, or None if the package is not available.

    Raises:
        RuntimeError: the archive is not the one that is expected.
    """
    folder = kept / package.archive.removesuffix(".tgz")
    if folder.is_dir():
        return folder / "package"
    content = _archive(package)
    if content is None:
        return None
    if base64.b64encode(hashlib.sha512(content).digest()).decode() != package.sha512:
        raise RuntimeError(f"{package.archive} is not what it was: its SHA-512 differs.")
    kept.mkdir(parents=True, exist_ok=True)
    (kept / package.archive).write_bytes(content)
    with tarfile.open(kept / package.archive) as files:
        files.extraction_filter = getattr(tarfile, "data_filter", None)  # Python 3.11.4 has it
        files.extractall(folder)
    return folder / "package"


def _archive(package: Package) -> bytes | None:
    if named := os.environ.get("PGMEST_VENDORED"):
        return (Path(named) / package.archive).read_bytes()
    try:
        with urllib.request.urlopen(package.address, timeout=60) as answer:
            return answer.read()
    except OSError as error:
        log.info("no %s (%s); PGMEST_VENDORED may name a folder with %s.", package.name, error, package.archive)
        return None


def on_post_build(config: Any) -> None:
    """Copy the files that the pages load, and point the pages to the copies."""
    site, kept = Path(config["site_dir"]), Path(config["config_file_path"]).parent / "build" / "vendored"
    mathjax, shim = unpacked(MATHJAX, kept), unpacked(SHIM, kept)
    if mathjax is not None:
        target = site / "mathjax"
        shutil.copytree(
            mathjax / "es5/output/chtml/fonts/woff-v2", target / "output/chtml/fonts/woff-v2", dirs_exist_ok=True
        )
        shutil.copy(mathjax / "es5/tex-mml-chtml.js", target / "tex-mml-chtml.js")
    if shim is not None:
        shutil.copy(shim / "shim/index.js", site / "assets/iframe-worker.js")
        for page in site.rglob("*.html"):
            up = "../" * (len(page.relative_to(site).parts) - 1)
            text = page.read_text(encoding="utf-8")
            page.write_text(text.replace(SHIM_ADDRESS, f"{up}assets/iframe-worker.js"), encoding="utf-8")

"""MathJax beside the pages, so that formulas show without a network; fetched once, when the pages are built.

It comes from the npm package, of a fixed version with a fixed checksum, and is kept in build/. `PGMEST_MATHJAX` names a
folder with its `es5`, where there is no network at build time either; without both, formulas stay as TeX.
"""

from __future__ import annotations

import base64
import hashlib
import logging
import os
import shutil
import tarfile
import urllib.request
from pathlib import Path
from typing import Any

VERSION = "3.2.2"
ADDRESS = f"https://registry.npmjs.org/mathjax/-/mathjax-{VERSION}.tgz"
SHA512 = "Bt+SSVU8eBG27zChVewOicYs7Xsdt40qm4+UpHyX7k0/O9NliPc+x77k1/FEsPsjKPZGJvtRZM1vO+geW0OhGw=="
KEPT = Path("build") / f"mathjax-{VERSION}"
PARTS = ("tex-mml-chtml.js", "output/chtml/fonts/woff-v2")

log = logging.getLogger("mkdocs.hooks.mathjax")


def fetched() -> Path | None:
    """The folder `es5` of MathJax."""
    named = os.environ.get("PGMEST_MATHJAX")
    if named:
        return Path(named)
    folder = KEPT / "package" / "es5"
    if folder.is_dir():
        return folder
    archive = KEPT.with_suffix(".tgz")
    archive.parent.mkdir(parents=True, exist_ok=True)
    try:
        with urllib.request.urlopen(ADDRESS, timeout=60) as answer:
            content = answer.read()
    except OSError as error:
        log.info("no MathJax (%s): formulas stay as TeX. PGMEST_MATHJAX may name a folder with it.", error)
        return None
    if base64.b64encode(hashlib.sha512(content).digest()).decode() != SHA512:
        raise RuntimeError(f"{ADDRESS} is not what it was: its SHA-512 differs.")
    archive.write_bytes(content)
    with tarfile.open(archive) as files:
        files.extractall(KEPT, filter="data")
    return folder


def on_post_build(config: Any) -> None:
    """Copy what the pages load."""
    source = fetched()
    if source is None:
        return
    target = Path(config["site_dir"]) / "mathjax"
    for part in PARTS:
        if (source / part).is_dir():
            shutil.copytree(source / part, target / part, dirs_exist_ok=True)
        else:
            target.mkdir(parents=True, exist_ok=True)
            shutil.copy(source / part, target / part)

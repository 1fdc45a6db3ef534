"""Check that links, pictures and scripts of the built pages exist, and that nothing is loaded from a network.

mkdocs checks what stands in Markdown; this checks the pages themselves: also what docstrings, notebooks and the theme
put into them. A hook of mkdocs: the build fails with a list. `python docs/hooks/checks.py FOLDER` checks a built site.
"""

from __future__ import annotations

import sys
import urllib.parse
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

LOADED = {"img": "src", "script": "src", "link": "href", "iframe": "src"}


class Page(HTMLParser):
    """The anchors of a page, its links, and the files that it loads."""

    def __init__(self, text: str):
        super().__init__()
        self.places: set[str] = set()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        self.places.update(found[name] for name in ("id", "name") if name in found)
        if tag == "a" and "href" in found:
            self.links.append(found["href"])
        elif found.get(LOADED.get(tag, "")) and (tag != "link" or found.get("rel") in ("stylesheet", "icon")):
            self.loads.append(found[LOADED[tag]])


def problems(site: Path) -> list[str]:
    """Return the broken links, one line for each."""
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in site.rglob("*.html")}
    found = []
    for path, page in sorted(pages.items()):
        if path.name == "404.html":
            continue  # its links are from the root of a server
        here = path.relative_to(site)
        for address in page.loads:
            if urllib.parse.urlsplit(address).netloc:
                found.append(f"{here} loads {address}")
        for address in (*page.links, *page.loads):
            parts = urllib.parse.urlsplit(address)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / urllib.parse.unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            if not target.exists():
                found.append(f"{here} leads to {address}, which is not there")
            elif (
                parts.fragment and target in pages and urllib.parse.unquote(parts.fragment) not in pages[target].places
            ):
                found.append(f"{here} leads to {address}, a place that is not there")
    return found


def on_post_build(config: Any) -> None:
    """Raise SystemExit if a link is broken."""
    found = problems(Path(config["site_dir"]).resolve())
    if found:
        raise SystemExit("\n".join(["pages that lead nowhere:", *found]))


if __name__ == "__main__":
    sys.exit("\n".join(problems(Path(sys.argv[1]).resolve())) or None)

"""A journal as a run leaves it that was interrupted earlier."""

from pathlib import Path

from pgmest.privacy.store import adopt_file


def interrupted_after(path: Path, lines: int) -> None:
    """Cut a journal to its first lines, with the head file that it had then."""
    with path.open("rb") as file:
        kept = b"".join(file.readlines()[:lines])
    path.write_bytes(kept)
    adopt_file(path)

"""OneProcess: what holds private records or a budget exists once, neither copied nor pickled nor used after a fork.

A forked process has the same objects, and would spend the same budget again; so would a copy.
"""

from __future__ import annotations

import os
from typing import Any, NoReturn

from pgmest._base.errors import CopyError, ProcessError


class OneProcess:
    """Bound to the process that made it: its methods begin with `_check_process`, which a fork fails."""

    def __new__(cls, *arguments: Any, **options: Any) -> Any:
        self = super().__new__(cls)
        self.__dict__["_made_in"] = (_origin, os.getpid())
        return self

    def _check_process(self) -> None:
        """Before any lock is asked for: another thread may have held it when the process was forked.

        Raises:
            ProcessError: this is a fork of the process that made it.
        """
        if not self._in_its_process():
            raise ProcessError.of(type(self).__name__, self.__dict__["_made_in"][1])

    def _in_its_process(self) -> bool:
        origin, process = self.__dict__["_made_in"]
        return origin is _origin and process == os.getpid()  # the number alone may be given to a later process

    def _refuse(self) -> NoReturn:
        raise CopyError.of(type(self).__name__)

    def __copy__(self) -> NoReturn:
        self._refuse()

    def __deepcopy__(self, memo: Any) -> NoReturn:
        self._refuse()

    def __reduce__(self) -> NoReturn:
        self._refuse()

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        self._refuse()

    def __getstate__(self) -> NoReturn:
        self._refuse()


def _forked() -> None:
    global _origin
    _origin = object()


_origin = object()
if hasattr(os, "register_at_fork"):  # not on Windows, which has no forks
    os.register_at_fork(after_in_child=_forked)

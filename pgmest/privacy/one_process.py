"""A base class for objects that hold private records or a budget: no copies, no pickles, no use after a fork.

A forked process has the same objects and would spend the same budget again; so would a copy.
"""

from __future__ import annotations

import os
from typing import Any, NoReturn, Self

from pgmest.errors import CopyError, ProcessError


class OneProcess:
    """An object that is bound to its process. Its methods call `_check_process` first, which raises after a fork."""

    def __new__(cls, *arguments: Any, **options: Any) -> Self:
        self = super().__new__(cls)
        self.__dict__["_made_in"] = (_origin, os.getpid())
        return self

    def _check_process(self) -> None:
        """Raise an error in a fork. Call this before taking a lock: a thread may have held it during the fork.

        Raises:
            ProcessError: if this process is a fork of the one that made the object.
        """
        if not self._in_its_process():
            raise ProcessError.of(type(self).__name__, self.__dict__["_made_in"][1])

    def _in_its_process(self) -> bool:
        origin, process = self.__dict__["_made_in"]
        return origin is _origin and process == os.getpid()  # the number alone may be given to a later process

    def _refuse(self, *_: Any) -> NoReturn:
        raise CopyError.of(type(self).__name__)

    __copy__: Any = _refuse
    __deepcopy__: Any = _refuse
    __reduce__: Any = _refuse
    __reduce_ex__: Any = _refuse
    __getstate__: Any = _refuse


def _forked() -> None:
    global _origin
    _origin = object()


_origin = object()
if hasattr(os, "register_at_fork"):  # not on Windows, which has no forks
    os.register_at_fork(after_in_child=_forked)

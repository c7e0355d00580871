"""State that threads share, such that a process that forks beside them leaves a child that works.

A fork copies a lock as it is. If another thread holds it, nobody in the child ever releases it.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, TypeVar

T = TypeVar("T")


class cached_property(functools.cached_property[T]):
    """``functools.cached_property`` without a lock: before Python 3.12, that is one lock for all instances of a class.

    Threads may compute a value twice; all of them get the one that is there first.
    """

    if not TYPE_CHECKING:

        def __get__(self, instance: Any, owner: type | None = None) -> Any:
            if instance is None:
                return self
            return vars(instance).setdefault(self.attrname, self.func(instance))

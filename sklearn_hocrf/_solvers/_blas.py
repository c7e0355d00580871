"""Limit on the threads of BLAS while a solver runs."""

from contextlib import AbstractContextManager
from functools import cache

from threadpoolctl import ThreadpoolController


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()  # inspects all libraries of the process, which takes 3 ms


def one_blas_thread() -> AbstractContextManager:
    """Return a context in which BLAS uses only the caller's thread.

    An idle thread of BLAS spins for a while after each vector operation, on a core that the package's threads need.
    """
    return _controller().limit(limits=1, user_api="blas")

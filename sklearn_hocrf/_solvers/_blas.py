"""How many threads BLAS may use while a solver runs."""

from contextlib import AbstractContextManager
from functools import cache

from threadpoolctl import ThreadpoolController


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()  # looks through all libraries of the process, which takes 3 ms


def one_blas_thread() -> AbstractContextManager:
    """Return a context in which BLAS uses the caller's thread alone.

    An idle thread of BLAS spins for a while after each vector operation, on a core that our own threads need.
    """
    return _controller().limit(limits=1, user_api="blas")

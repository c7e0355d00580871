"""Ids of the attributes of tokens, sorted."""

from ._jit import njit

MOST = 256  # ids of a row that are sorted by insertion


@njit(cache=True, nogil=True, error_model="numpy")
def sort_ids(indptr, ids, ends, found):
    """Sort the ids >= 0 of each row, by insertion; return how many there are.

    It is -1 if a row has an id twice, or more than ``MOST`` ids.

    indptr : (N + 1,) int64   the rows of ``ids``, (n,) int32
    ends, found : out, rows of the same shapes and types
    """
    n_found = 0
    ends[0] = 0
    for row in range(len(indptr) - 1):
        if indptr[row + 1] - indptr[row] > MOST:
            return -1
        first = n_found
        for attribute in ids[indptr[row] : indptr[row + 1]]:
            if attribute < 0:
                continue
            slot = n_found
            while slot > first and found[slot - 1] > attribute:
                found[slot] = found[slot - 1]
                slot -= 1
            if slot > first and found[slot - 1] == attribute:
                return -1
            found[slot] = attribute
            n_found += 1
        ends[row + 1] = n_found
    return n_found

"""Attributes of tokens by templates: keys of the codes of fields around a token, and their look-up in vocabularies.

Shapes: N tokens, F fields, J templates of P (field, offset) pairs in all, V attributes.
"""

from typing import NamedTuple

import numpy as np

from ._jit import njit
from ._network import first_at_least

FEW_CODES = 8  # of a field, next to each other
MOST = 256  # ids of a row that are sorted by insertion


class Templates(NamedTuple):
    """Templates, and the attributes that each of them makes."""

    pairs: np.ndarray  # (J + 1,) int64   the pairs of each template
    field: np.ndarray  # (P,) int64
    offset: np.ndarray  # (P,) int64
    n_codes: np.ndarray  # (P,) int64   of the field, with the two marks outside the sequence, which are the last
    keys: np.ndarray  # (J + 1,) int64   the attributes of each template
    key: np.ndarray  # (V,) int64   of the attributes, ascending for each template
    prefixes: np.ndarray  # (P + 1,) int64   of a pair, those that the pairs before it may make; none: as they are
    prefix: np.ndarray  # int64   their keys, ascending for each pair
    starts: np.ndarray  # (J + 1,) int64   the elements of ``start`` of each template; none: one pair, or prefixes
    start: np.ndarray  # int32   of a template, by each few codes of its first pair: the first attribute with them


@njit(cache=True, nogil=True, error_model="numpy")
def _position(keys, first, stop, wanted):
    """Return where ``wanted`` is in a range that ascends; -1 if it is not there."""
    at = first_at_least(keys, first, stop, wanted)
    return at if at < stop and keys[at] == wanted else -1


@njit(cache=True, nogil=True, error_model="numpy")
def find_attributes(templates, codes, offsets, marks, ids):
    """Find the attribute that each template makes at each token: ``ids`` (N, J) int32, out; -1 for none.

    codes : (N, F) int32   of each field's values in training; -1 for others and none
    offsets : (n_sequences + 1,) int64
    marks : bool   whether positions outside the sequence have codes
    """
    pairs, fields, shifts, n_codes, keys, key_of, prefixes, prefix_of, starts, start_of = templates  # once, not a token
    for sequence in range(len(offsets) - 1):
        first, stop = offsets[sequence], offsets[sequence + 1]
        for token in range(first, stop):
            for template in range(len(pairs) - 1):
                key, low, high = np.int64(0), keys[template], keys[template + 1]
                for pair in range(pairs[template], pairs[template + 1]):
                    position = token + shifts[pair]
                    if first <= position < stop:
                        code = np.int64(codes[position, fields[pair]])
                    else:
                        code = n_codes[pair] - (2 if position < first else 1) if marks else -1
                    if prefixes[pair + 1] > prefixes[pair]:
                        key = _position(prefix_of, prefixes[pair], prefixes[pair + 1], key) - prefixes[pair]
                    if code < 0 or key < 0:
                        high = low
                        break
                    if starts[template + 1] > starts[template] and pair == pairs[template]:
                        low = start_of[starts[template] + code // FEW_CODES]  # few attributes have these codes
                        high = start_of[starts[template] + code // FEW_CODES + 1]
                    key = key * n_codes[pair] + code
                if pairs[template + 1] - pairs[template] == 1 and high > low:  # few codes are not keys
                    low, high = max(low, high - n_codes[pairs[template]] + key), min(high, low + key + 1)
                ids[token, template] = _position(key_of, low, high, key)


@njit(cache=True, nogil=True, error_model="numpy")
def list_attributes(ids, offsets, bias, ends, indptr, indices):
    """List the attributes of each token, as rows of a sparse matrix; return how many there are.

    ids : (N, J) int32   attributes made by templates; -1 for none
    offsets : (n_sequences + 1,) int64
    bias, ends : int   the attribute of all tokens, and the first of two at ends of sequences; -1: none
    indptr : (N + 1,) int64, out
    indices : (N * (J + 3),) int32, out   as many as are returned
    """
    n_found = 0
    indptr[0] = 0
    for sequence in range(len(offsets) - 1):
        first, stop = offsets[sequence], offsets[sequence + 1]
        for token in range(first, stop):
            for attribute in ids[token]:
                if attribute >= 0:
                    indices[n_found] = attribute
                    n_found += 1
            if bias >= 0:
                indices[n_found] = bias
                n_found += 1
            if ends >= 0 and token == first:
                indices[n_found] = ends
                n_found += 1
            if ends >= 0 and token == stop - 1:
                indices[n_found] = ends + 1
                n_found += 1
            indptr[token + 1] = n_found
    return n_found


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

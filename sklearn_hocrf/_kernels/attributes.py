"""Attributes of tokens by templates: keys of the codes of fields around a token, and their look-up in vocabularies.

Shapes: N tokens, F fields, J templates of P (field, offset) pairs in all, V attributes.
"""

from typing import NamedTuple

import numpy as np

from ._jit import njit


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
    starts: np.ndarray  # (J + 1,) int64   the elements of ``start`` of each template; none if it has prefixes
    start: np.ndarray  # int64   of a template, by code of its first pair: the first attribute with it


@njit(cache=True, nogil=True, error_model="numpy")
def _position(keys, first, stop, wanted):
    """Return where ``wanted`` is in a range that ascends, counted from ``first``; -1 if it is not there."""
    low, high = first, stop
    while low < high:
        middle = (low + high) >> 1
        if keys[middle] < wanted:
            low = middle + 1
        else:
            high = middle
    return low - first if low < stop and keys[low] == wanted else -1


@njit(cache=True, nogil=True, error_model="numpy")
def _code_at(templates, pair, codes, token, first, stop, marks):
    """Return the code of a pair at a token of the sequence ``first .. stop``; -1 where it has none."""
    place = token + templates.offset[pair]
    if first <= place < stop:
        return np.int64(codes[place, templates.field[pair]])
    return templates.n_codes[pair] - (2 if place < first else 1) if marks else -1


@njit(cache=True, nogil=True, error_model="numpy")
def _find(templates, template, codes, token, first, stop, marks):
    """Return the number of the attribute that a template makes at a token, among those of the template; -1 for none."""
    key, first_key, stop_key = np.int64(0), templates.keys[template], templates.keys[template + 1]
    for pair in range(templates.pairs[template], templates.pairs[template + 1]):
        code = _code_at(templates, pair, codes, token, first, stop, marks)
        if code < 0:
            return -1
        if templates.prefixes[pair + 1] > templates.prefixes[pair]:
            key = _position(templates.prefix, templates.prefixes[pair], templates.prefixes[pair + 1], key)
            if key < 0:
                return -1
        key = key * templates.n_codes[pair] + code
        if pair == templates.pairs[template] and templates.starts[template + 1] > templates.starts[template]:
            place = templates.starts[template] + code  # few attributes have the same first code
            first_key, stop_key = templates.start[place], templates.start[place + 1]
    number = _position(templates.key, first_key, stop_key, key)
    return number if number < 0 else number + first_key - templates.keys[template]


@njit(cache=True, nogil=True, error_model="numpy")
def list_attributes(templates, codes, offsets, marks, has_bias, indptr, indices):
    """List the attributes of each token, as rows of a sparse matrix; return how many there are.

    codes : (N, F) int32   of each field's values in training; -1 for others and none
    offsets : (n_sequences + 1,) int64
    marks : bool   whether places outside the sequence have codes; else its ends have attributes, after the templates'
    has_bias : bool   whether each token has an attribute, after the templates'
    indptr : (N + 1,) int64, out
    indices : (N * (J + 3),) int32, out   as many as are returned
    """
    n_templates, n_found = len(templates.pairs) - 1, 0
    bias = templates.keys[n_templates]
    ends = bias + has_bias
    indptr[0] = 0
    for sequence in range(len(offsets) - 1):
        first, stop = offsets[sequence], offsets[sequence + 1]
        for token in range(first, stop):
            for template in range(n_templates):
                number = _find(templates, template, codes, token, first, stop, marks)
                if number >= 0:
                    indices[n_found] = templates.keys[template] + number
                    n_found += 1
            if has_bias:
                indices[n_found] = bias
                n_found += 1
            if not marks and token == first:
                indices[n_found] = ends
                n_found += 1
            if not marks and token == stop - 1:
                indices[n_found] = ends + 1
                n_found += 1
            indptr[token + 1] = n_found
    return n_found

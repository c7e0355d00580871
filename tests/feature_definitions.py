"""Definitions of forms of X, features and schemes, in plain Python, without any code of sklearn_hocrf."""

import math
from collections import Counter
from collections.abc import Mapping

BEGIN, END = ("outside", "begin"), ("outside", "end")  # no token is equal to these marks

# --- attributes of tokens -------------------------------------------------------------------------------------------


def entries(token):
    """Return the (name, amount) pairs of a feature dict or list of attribute names, as python-crfsuite reads them."""
    if not isinstance(token, Mapping):
        return [(name, 1.0) for name in token]
    pairs = []
    for key, value in token.items():
        if isinstance(value, str):
            pairs.append((f"{key}:{value}", 1.0))
        elif isinstance(value, (bool, int, float)):
            pairs.append((key, float(value)))
        else:
            pairs += [(f"{key}:{name}", amount) for name, amount in entries(value)]
    return pairs


def row_of(token):
    """Return {name: value} of a token, without zeros; for a row of numbers, the names are the columns."""
    is_row = not isinstance(token, Mapping) and any(not isinstance(value, str) for value in token)
    pairs = enumerate(map(float, token)) if is_row else entries(token)
    row = Counter()
    for name, amount in pairs:
        row[name] += amount
    return {name: value for name, value in row.items() if value}


def attributes_of_templates(sequence, templates, padding, bias):
    """Return one {attribute: value} per token of a sequence of {field: value}; an attribute is (template, strings)."""
    answer = []
    for t in range(len(sequence)):
        attributes = {"bias": 1.0} if bias else {}
        for template in templates:
            texts, value = [], 1.0
            for field, offset in template:
                if 0 <= t + offset < len(sequence):
                    cell = sequence[t + offset].get(field)
                else:
                    cell = (BEGIN if offset < 0 else END) if padding == "mark" else None
                if cell in (BEGIN, END) or isinstance(cell, str):
                    texts.append(cell)
                else:
                    value *= 0.0 if cell is None else cell
            if value:
                attributes[template, tuple(texts)] = value
        if padding == "drop":
            attributes.update({"__BOS__": 1.0} if t == 0 else {})
            attributes.update({"__EOS__": 1.0} if t == len(sequence) - 1 else {})
        answer.append(attributes)
    return answer


# --- features of segments -------------------------------------------------------------------------------------------


def tags_of_segment(length, scheme):
    """Return the prefixes of the tags of a segment's tokens."""
    if scheme == "bio":
        return ["B"] + ["I"] * (length - 1)
    return ["S"] if length == 1 else ["B"] + ["I"] * (length - 2) + ["E"]


def positions(place, scheme, start, stop, n_tokens):
    """Return the tokens to which features of a place apply: "", "begin", "end", "inside" or a tag n-gram."""
    fixed = {"": range(start, stop), "begin": [start], "end": [stop - 1], "inside": range(start + 1, stop)}
    if place in fixed:
        return fixed[place]
    tags = tags_of_segment(stop - start, scheme)
    if place.endswith("|"):
        return [stop] if tags[-1] + "|" == place and stop < n_tokens else []
    n = len(place)
    return [start + i for i in range(len(tags)) if "".join(tags[max(0, i + 1 - n) : i + 1]) == place]


def length_value(name, length):
    """Return the value of a feature of a segment's length."""
    if name == "log_length":
        return math.log(length)
    if name == "length":
        return float(length)
    number = name.removeprefix("length=")
    return float(length >= int(number[:-1]) if number.endswith("+") else length == int(number))


# --- schemes ------------------------------------------------------------------------------------------------------


def runs(labels):
    """Return the (start, stop, label) of the maximal runs of equal labels."""
    starts = [t for t in range(len(labels)) if t == 0 or labels[t] != labels[t - 1]]
    return [(u, v, labels[u]) for u, v in zip(starts, [*starts, len(labels)][1:], strict=True)]

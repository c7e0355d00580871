"""The commands of ``hocrf``: fit, tag, evaluate and export, on files with a token per line."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

__all__ = ["COMMANDS", "add_commands", "run"]


class BadFile(Exception):
    """A file that cannot be read; the message names the file and the line."""


class Line(NamedTuple):
    """A token."""

    number: int
    text: str
    columns: list[str]


class Form(NamedTuple):
    """What a model wants of lines."""

    n_columns: int  # at least
    token: Callable[[list[str]], Any]  # made of the columns of a line


def add_commands(commands: Any) -> None:
    """Add the parsers of the commands."""
    fit = _add(commands, "fit", "train a model on a file with a token per line, whose last column is the label")
    fit.add_argument("file", help="training data; an empty line ends a sequence")
    fit.add_argument("-o", "--output", required=True, help="the model, for `hocrf tag`")
    fit.add_argument("--order", type=int, help="highest order of label patterns (default: 1, or that of the templates)")
    fit.add_argument("--sigma", type=float, default=1.0, help="sigma_reg (default: %(default)s)")
    fit.add_argument("--l1", type=float, default=0.0, help="l1_reg (default: %(default)s)")
    fit.add_argument("--templates", metavar="FILE", help="features: a template file of CRF++ or Wapiti")
    fit.add_argument("--constraints", help="scheme of the tags that may follow each other, such as bio")
    tag = _add(commands, "tag", "add a column of labels to lines of standard input")
    tag.add_argument("model", help="a file that `hocrf fit` or export_tagger has written")
    what = tag.add_mutually_exclusive_group()
    what.add_argument("--probability", action="store_true", help="add a column with the label's probability")
    what.add_argument("--nbest", type=int, metavar="N", help="write the N best labellings, each after a line with # ")
    what.add_argument("--segments", action="store_true", help="write start, stop, label, probability and text instead")
    evaluate = _add(commands, "evaluate", "report precision, recall and F1 by label of segments")
    evaluate.add_argument("model", help="a file that `hocrf fit` or export_tagger has written")
    evaluate.add_argument("file", help="test data, like the training data")
    export = _add(commands, "export", "write a model of skops into a file for `hocrf tag`")
    export.add_argument("model", help="a file that skops has written")
    export.add_argument("-o", "--output", required=True, help="the file to write")


def _add(commands, name, what) -> argparse.ArgumentParser:
    return commands.add_parser(name, help=what, description=what[0].upper() + what[1:] + ".")


def run(options: argparse.Namespace) -> int:
    """Do what a command says, and return the exit code: 2 for files and arguments that are not valid."""
    try:
        COMMANDS[options.command](options)
        sys.stdout.flush()
    except BrokenPipeError:  # who reads the output has read enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (BadFile, OSError, ValueError, TypeError) as error:
        print(f"hocrf {options.command}: {error}", file=sys.stderr)
        return 2
    return 0


def _fit(options) -> None:
    from ._pipeline import make_pipeline
    from .crf import HighOrderCRF
    from .datasets import load_conll
    from .feature_extraction import SequenceFeatureExtractor
    from .tagger import export_tagger

    X, y = load_conll(options.file, return_X_y=True)
    features, order = SequenceFeatureExtractor(), 1
    feature_order: Any = 0
    if options.templates is not None:
        features = SequenceFeatureExtractor.from_file(options.templates)
        order, feature_order = features.max_order, features.feature_order
    crf = HighOrderCRF(
        order if options.order is None else options.order,
        feature_order=feature_order,
        sigma_reg=options.sigma,
        l1_reg=options.l1,
        constraints=options.constraints,
        verbose=1,
    )
    pipe = make_pipeline(features, crf).fit(X, y)
    n_bytes = export_tagger(pipe, options.output).n_bytes
    print(f"{options.output}: {len(X)} sequences, {crf.n_parameters_} weights, {n_bytes / 1e6:.1f} MB", file=sys.stderr)


def _tag(options) -> None:
    from .tagger import Tagger

    tagger = Tagger(options.model)
    form = _form(tagger)
    write = _writer(tagger, form, options)
    sys.stdin.reconfigure(encoding="utf-8-sig", errors="surrogateescape")  # type: ignore[union-attr]
    sys.stdout.reconfigure(encoding="utf-8")  # type: ignore[union-attr]
    for lines in _sequences(sys.stdin, "standard input", form.n_columns):
        try:
            answer = "\n".join([*write(lines), ""])
        except ValueError as error:
            raise BadFile(f"standard input, lines {lines[0].number} to {lines[-1].number}: {error}") from None
        print(answer, flush=True)  # who waits for an answer gets it


def _form(tagger: Any) -> Form:
    """Return what a model wants of lines: columns by number, in a row, or the first one."""
    fields = tagger.fields
    if fields is not None and all(isinstance(field, int) for field in fields):
        return Form(len(fields), lambda columns: tuple(columns[: len(fields)]))
    if fields is None or all(re.fullmatch("[0-9]{1,9}", str(field)) for field in fields):
        needed = 1 + max(map(int, fields or ["0"]))
        return Form(needed, lambda columns: {str(number): column for number, column in enumerate(columns)})
    if len(fields) == 1:
        return Form(1, lambda columns: columns[0])
    raise BadFile(f"the model reads the fields {', '.join(map(str, fields)):.200}, but a line has columns by number")


def _writer(tagger: Any, form: Form, options: argparse.Namespace) -> Callable[[list[Line]], Iterable[str]]:
    """Return the function that makes the lines of output of a sequence."""

    def tokens(lines):
        return [form.token(line.columns) for line in lines]

    def labels(lines):
        return [f"{line.text}\t{label}" for line, label in zip(lines, tagger.tag(tokens(lines)), strict=True)]

    def probabilities(lines):
        found = tagger.tag(tokens(lines), with_probability=True)
        return [f"{line.text}\t{label}\t{p:.6f}" for line, (label, p) in zip(lines, found, strict=True)]

    def best(lines):
        for number, found in enumerate(tagger.nbest(tokens(lines), options.nbest)):
            yield f"# {number} {found.log_probability:.6f}"
            yield from (f"{line.text}\t{label}" for line, label in zip(lines, found.labels, strict=True))

    def segments(lines):
        for start, stop, label, p in tagger.segments(tokens(lines), with_probability=True):
            text = " ".join(line.columns[0] for line in lines[start:stop])
            yield f"{start}\t{stop}\t{label}\t{p:.6f}\t{text}"

    if options.segments:
        return segments
    if options.nbest is not None:
        return best
    return probabilities if options.probability else labels


def _evaluate(options) -> None:
    from . import metrics
    from ._data.schemes import guessed_scheme
    from .datasets import load_conll
    from .tagger import Tagger

    tagger = Tagger(options.model)
    form = _form(tagger)
    X, truth = load_conll(options.file, return_X_y=True)
    rows = [[list(token.values()) for token in tokens] for tokens in X]
    if (n_columns := len(rows[0][0])) < form.n_columns:
        what = f"{n_columns} columns and the label, but the model reads {form.n_columns} columns"
        raise BadFile(f"{options.file}: {what}")
    found = [[str(label) for label in tagger.tag(list(map(form.token, tokens)))] for tokens in rows]
    scheme = guessed_scheme(sorted({label for labels in truth for label in labels}))
    print(metrics.segment_classification_report(truth, found, scheme=scheme))
    accuracy = metrics.token_accuracy_score(truth, found)
    print(f"token accuracy {accuracy:.4f}, sequence accuracy {metrics.sequence_accuracy_score(truth, found):.4f}")


def _export(options) -> None:
    try:
        import skops.io
    except ImportError:
        raise BadFile("skops is not installed: pip install skops") from None
    from ._persistence import TRUSTED_TYPES
    from .tagger import export_tagger

    n_bytes = export_tagger(skops.io.load(options.model, trusted=TRUSTED_TYPES), options.output).n_bytes
    print(f"{options.output}: {n_bytes / 1e6:.1f} MB", file=sys.stderr)


def _sequences(stream: Iterable[str], name: str, n_columns: int) -> Iterator[list[Line]]:
    """Yield the sequences of a stream, one at a time.

    A line with fewer columns than the model reads is an error, and one with another number than the lines before.
    """
    lines: list[Line] = []
    width = None
    for number, text in enumerate(stream, start=1):
        place, text = f"{name}, line {number}", text.rstrip("\r\n")
        if not text.isascii() and (bad := re.search("[\udc80-\udcff]", text)):
            raise BadFile(f"{place}, character {bad.start() + 1}: the byte {ord(bad[0]) - 0xDC00:#x} is not UTF-8")
        columns = re.split("[ \t]+", text.strip(" \t"))  # as load_conll does: spaces of other kinds are parts of tokens
        if columns == [""]:
            if lines:
                yield lines
            lines = []
            continue
        if width not in (None, len(columns)):
            raise BadFile(f"{place}: {len(columns)} columns, but the lines before have {width}")
        if len(columns) < n_columns:
            raise BadFile(f"{place}: {len(columns)} columns, but the model reads {n_columns}")
        width = len(columns)
        lines.append(Line(number, text, columns))
    if lines:
        yield lines


COMMANDS: dict[str, Callable[[argparse.Namespace], None]] = {
    "fit": _fit,
    "tag": _tag,
    "evaluate": _evaluate,
    "export": _export,
}

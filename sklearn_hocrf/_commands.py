"""The commands of ``hocrf``: fit, tag, evaluate and export, on files with a token per line."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

__all__ = ["COMMANDS", "add_commands", "run"]


class BadFile(Exception):
    """A file that cannot be read; the message names the file and the line."""


class Line(NamedTuple):
    """A token."""

    text: str
    columns: list[str]

    @property
    def token(self) -> dict[str, str]:
        """The columns by number, as :func:`~sklearn_hocrf.datasets.load_conll` names them."""
        return {str(number): column for number, column in enumerate(self.columns)}


def add_commands(commands: Any) -> None:
    """Add the parsers of the commands."""
    fit = _add(commands, "fit", "train a model on a file with a token per line, whose last column is the label")
    fit.add_argument("file", help="training data; an empty line ends a sequence")
    fit.add_argument("-o", "--output", required=True, help="the model, for `hocrf tag`")
    fit.add_argument("--order", type=int, default=1, help="highest order of label patterns (default: %(default)s)")
    fit.add_argument("--sigma", type=float, default=1.0, help="sigma_reg (default: %(default)s)")
    fit.add_argument("--l1", type=float, default=0.0, help="l1_reg (default: %(default)s)")
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
    from .crf import HighOrderCRF
    from .datasets import load_conll
    from .feature_extraction import SequenceFeatureExtractor
    from .pipeline import make_pipeline
    from .tagger import export_tagger

    X, y = load_conll(options.file, return_X_y=True)
    crf = HighOrderCRF(
        options.order, sigma_reg=options.sigma, l1_reg=options.l1, constraints=options.constraints, verbose=1
    )
    pipe = make_pipeline(SequenceFeatureExtractor(), crf).fit(X, y)
    n_bytes = export_tagger(pipe, options.output).n_bytes
    print(f"{options.output}: {len(X)} sequences, {crf.n_parameters_} weights, {n_bytes / 1e6:.1f} MB", file=sys.stderr)


def _tag(options) -> None:
    from .tagger import Tagger

    tagger = Tagger(options.model)
    write = _writer(tagger, options)
    for stream in sys.stdin, sys.stdout:
        stream.reconfigure(encoding="utf-8")  # type: ignore[union-attr]
    for lines in _sequences(sys.stdin, "standard input"):
        print("\n".join([*write(lines), ""]), flush=True)  # who waits for an answer gets it


def _writer(tagger: Any, options: argparse.Namespace) -> Callable[[list[Line]], Iterable[str]]:
    """Return the function that makes the lines of output of a sequence."""

    def labels(lines):
        return [f"{line.text}\t{label}" for line, label in zip(lines, tagger.tag(_tokens(lines)), strict=True)]

    def probabilities(lines):
        found = tagger.tag(_tokens(lines), with_probability=True)
        return [f"{line.text}\t{label}\t{p:.6f}" for line, (label, p) in zip(lines, found, strict=True)]

    def best(lines):
        for number, found in enumerate(tagger.nbest(_tokens(lines), options.nbest)):
            yield f"# {number} {found.log_probability:.6f}"
            yield from (f"{line.text}\t{label}" for line, label in zip(lines, found.labels, strict=True))

    def segments(lines):
        for start, stop, label, p in tagger.segments(_tokens(lines), with_probability=True):
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
    from .tagger import Tagger

    tagger, truth, found = Tagger(options.model), [], []
    with open(options.file, encoding="utf-8-sig") as stream:
        for lines in _sequences(stream, options.file):
            truth.append([line.columns[-1] for line in lines])
            found.append([str(label) for label in tagger.tag(_tokens(lines))])
    if not truth:
        raise BadFile(f"{options.file}: there are no tokens")
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


def _tokens(lines: Sequence[Line]) -> list[dict[str, str]]:
    return [line.token for line in lines]


def _sequences(stream: Iterable[str], name: str) -> Iterator[list[Line]]:
    """Yield the sequences of a stream, one at a time; a line with another number of columns is an error."""
    lines: list[Line] = []
    width = None
    for number, text in enumerate(stream, start=1):
        columns = text.split()
        if columns and width not in (None, len(columns)):
            raise BadFile(f"{name}, line {number}: {len(columns)} columns, but the lines before have {width}")
        if columns:
            width = len(columns)
            lines.append(Line(text.rstrip("\r\n"), columns))
        elif lines:
            yield lines
            lines = []
    if lines:
        yield lines


COMMANDS: dict[str, Callable[[argparse.Namespace], None]] = {
    "fit": _fit,
    "tag": _tag,
    "evaluate": _evaluate,
    "export": _export,
}

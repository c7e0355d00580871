"""The commands of ``hocrf``: fit, tag, evaluate and export, for files with one token per line."""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import stat
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext, suppress
from io import TextIOWrapper
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple
from zipfile import BadZipFile

import sklearn_hocrf as hocrf

LONGEST_LINE = 2**20  # characters
OPTIONS = {
    "max_order": "--order",
    "sigma_reg": "--sigma",
    "l1_reg": "--l1",
    "max_iter": "--max-iter",
    "constraints": "--constraints",
}


class InputLine(NamedTuple):
    """A line of input, which describes one token."""

    lineno: int
    text: str
    columns: list[str]


def add_commands(commands: Any) -> None:
    """Add the parsers of the commands."""
    fit = _add_command(commands, "fit", "train a model on lines of one token each, with the label in the last column")
    fit.add_argument("file", help="training data, or - for standard input; an empty line ends a sequence")
    fit.add_argument("-o", "--output", required=True, help="the model file to write, for `hocrf tag`")
    fit.add_argument("--order", type=int, help="max_order: highest pattern order (default: 2, or as in the templates)")
    sigma = "sigma_reg: smaller values mean stronger penalties; try 0.5, 1 and 2 (default: %(default)s)"
    fit.add_argument("--sigma", type=float, default=1.0, help=sigma)
    fit.add_argument("--l1", type=float, default=0.0, help="l1_reg: large values remove weights (default: %(default)s)")
    iterations = "max_iter: maximum number of iterations (default: %(default)s)"
    fit.add_argument("--max-iter", type=int, default=500, help=iterations)
    fit.add_argument("--templates", metavar="FILE", help="a CRF++ or Wapiti template file for the features")
    fit.add_argument("--constraints", help="scheme that restricts which tags may follow each other, such as bio")
    tag = _add_command(commands, "tag", "add a column of labels to the lines of a file or of standard input")
    tag.add_argument("model", help="a file that `hocrf fit` or export_tagger has written")
    tag.add_argument("file", nargs="?", default="-", help="the lines to tag (default: standard input)")
    what = tag.add_mutually_exclusive_group()
    best = "write the N best labellings, each after a line that begins with # "
    what.add_argument("--nbest", type=int, metavar="N", help=best)
    json_help = "write one object per sequence instead: its best labels, its segments, and their probabilities"
    what.add_argument("--json", action="store_true", help=json_help)
    evaluate = _add_command(commands, "evaluate", "report precision, recall and F1 for each segment label")
    evaluate.add_argument("model", help="a file that `hocrf fit` or export_tagger has written")
    evaluate.add_argument("file", help="test data, in the format of the training data")
    by = "how labels describe segments: runs, bio, bioes, bilou, bmes or iob1 (default: the model's scheme)"
    evaluate.add_argument("--scheme", help=by)
    export = _add_command(commands, "export", "convert a skops file to a file for `hocrf tag`")
    export.add_argument("model", help="a file that skops has written")
    export.add_argument("-o", "--output", required=True, help="the file to write")


def _add_command(commands, name, what) -> argparse.ArgumentParser:
    return commands.add_parser(name, help=what, description=what[0].upper() + what[1:] + ".")


def run(options: argparse.Namespace) -> int:
    """Run a command and return the exit code, which is 2 for invalid files and arguments."""

    def tell(message: Any) -> None:
        print(f"hocrf {options.command}: {message}", file=sys.stderr)

    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *_, **__: tell(_with_options(message))
        try:
            COMMANDS[options.command](options)
            sys.stdout.flush()
        except BrokenPipeError:  # the program that reads the output has closed it
            return 0
        except (OSError, ValueError, TypeError, ImportError) as error:
            tell(error)
            return 2
    return 0


def _source(path: str) -> Any:
    """Return the path of an existing file, or the stream of standard input for ``-``."""
    if path != "-":
        os.stat(path)
        return path
    return sys.stdin.buffer


def _load(source: Any) -> tuple[list, list]:
    """Return the sequences of a file and their labels, and warn about lines that separate documents."""
    X, y = hocrf.datasets.load_conll(source)
    n_lines = sum(str(next(iter(tokens[0].values()))).startswith("-DOCSTART-") for tokens in X)
    if n_lines:
        what = f"{n_lines} sequences begin with -DOCSTART-, a line between documents, which is read as a token"
        warnings.warn(f"{what}: remove such lines, as grep -v '^-DOCSTART-' does", stacklevel=2)
    return X, y


def _fit(options) -> None:
    from .._data.folders import output_file
    from .._data.tagger import PREFIXES

    source = _source(options.file)
    _check_scheme("--constraints", options.constraints, PREFIXES)
    output_file(options.output, "/dev/stdin" if options.file == "-" else options.file, options.templates)

    X, y = _load(source)
    features, order = hocrf.feature_extraction.SequenceFeatureExtractor(), 2
    feature_order: Any = 0
    if options.templates is not None:
        features = hocrf.feature_extraction.SequenceFeatureExtractor.from_file(options.templates)
        order, feature_order = features.max_order, features.feature_order
    crf = hocrf.HighOrderCRF(
        order if options.order is None else options.order,
        feature_order=feature_order,
        sigma_reg=options.sigma,
        l1_reg=options.l1,
        constraints=options.constraints,
        max_iter=options.max_iter,
        verbose=1,
    )
    try:
        pipe = hocrf.make_pipeline(features, crf).fit(X, y)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{options.file}: {_with_options(error)}") from None
    n_bytes = hocrf.tagger.export_tagger(pipe, options.output)
    _tell_size(f"{options.output}: {len(X)} sequences, {crf.n_parameters_} weights", n_bytes)


def _tag(options) -> None:
    if options.nbest is not None and options.nbest < 1:
        raise ValueError(f"--nbest must be at least 1, got {options.nbest}")
    source, name = _source(options.file), "standard input" if options.file == "-" else options.file
    tagger = _read(options.model)
    n_columns, token_of = _form(tagger)
    write = _objects if options.json else _labels if options.nbest is None else _best
    sys.stdout.reconfigure(encoding="utf-8")  # type: ignore[union-attr]
    with nullcontext(source) if options.file == "-" else open(source, "rb") as binary:
        if _are_one_file(binary, sys.stdout):
            raise ValueError(f"{name} and standard output are one file")
        stream = TextIOWrapper(binary, encoding="utf-8-sig", errors="surrogateescape")
        for lines in _sequences(stream, name, n_columns):
            if not lines:  # an empty line; the output of _labels has as many lines as the input
                print(end="\n" if write is _labels else "", flush=True)
                continue
            try:
                tokens = [token_of(line.columns) for line in lines]
                answer = "".join(f"{text}\n" for text in write(tagger, tokens, lines, options.nbest))
            except ValueError as error:
                raise ValueError(f"{name}, lines {lines[0].lineno} to {lines[-1].lineno}: {error}") from None
            print(answer, flush=True, end="\n" if write is _best else "")  # a program may wait for the output


def _read(path: str) -> Any:
    from .._data.tagger import Tagger

    try:
        return Tagger(path)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def _are_one_file(source: Any, target: Any) -> bool:
    """Return whether two streams are the same regular file, which would then be read and written at the same time."""
    try:
        first, second = os.fstat(source.fileno()), os.fstat(target.fileno())
    except (OSError, ValueError):  # a stream in memory
        return False
    return stat.S_ISREG(first.st_mode) and os.path.samestat(first, second)


def _form(tagger: Any) -> tuple[int, Callable[[list[str]], Any]]:
    """Return the number of columns that a model reads, and a function that turns the columns of a line into a token."""
    fields = tagger.fields
    if fields is not None and all(isinstance(field, int) for field in fields):
        return len(fields), lambda columns: tuple(columns[: len(fields)])
    if fields is None or all(re.fullmatch("[0-9]{1,9}", str(field)) for field in fields):
        return 1 + max(map(int, fields or ["0"])), lambda columns: {str(i): text for i, text in enumerate(columns)}
    if len(fields) == 1:
        return 1, lambda columns: columns[0]
    raise ValueError(f"the model reads the fields {', '.join(map(str, fields)):.200}, but a line has columns by number")


def _labels(tagger, tokens, lines, _) -> Iterable[str]:
    """Return the lines of a sequence, with a label appended to each."""
    return [f"{line.text}\t{label}" for line, label in zip(lines, tagger.predict(tokens), strict=True)]


def _best(tagger, tokens, lines, n) -> Iterator[str]:
    """Yield the lines of a sequence for each of its n best labellings."""
    for rank, labelling in enumerate(tagger.predict_nbest(tokens, n)):
        yield f"# {rank} {labelling.log_probability:.6f}"
        yield from (f"{line.text}\t{label}" for line, label in zip(lines, labelling.labels, strict=True))


def _objects(tagger, tokens, lines, _) -> Iterator[str]:
    """Yield one JSON object for a sequence, as a string."""
    (labelling,) = tagger.predict_nbest(tokens, 1)
    spans = [
        {"start": start, "stop": stop, "label": label, "probability": p, "text": " ".join(words)}
        for start, stop, label, p in tagger.predict_segments(tokens, with_probability=True).tolist()
        for words in [[line.columns[0] for line in lines[start:stop]]]
    ]
    probability = math.exp(labelling.log_probability)
    fields = {"line": lines[0].lineno, "probability": probability, "labels": list(labelling.labels), "segments": spans}
    yield json.dumps(fields, ensure_ascii=False)


def _evaluate(options) -> None:
    from .._data.tagger import PREFIXES

    _check_scheme("--scheme", options.scheme, ["runs", *PREFIXES])
    source, tagger = _source(options.file), _read(options.model)

    metrics = hocrf.metrics  # importing it takes a second
    scheme = options.scheme or tagger.scheme
    if scheme is None:
        raise ValueError("some labels of the model look like tags, but not all are of one scheme: name the --scheme")
    if options.scheme is None and scheme == "runs" and "B" in tagger.labels and set(tagger.labels) <= set("BIOESLUM"):
        names = ", ".join(sorted(tagger.labels))
        warnings.warn(f"{names} are not counted as tags, but as runs of equal labels: name the --scheme", stacklevel=2)
    n_needed, token_of = _form(tagger)
    X, truth = _load(source)
    rows = [[list(token.values()) for token in tokens] for tokens in X]
    if (n_columns := len(rows[0][0])) < n_needed:
        what = f"{n_columns} columns and the label, but the model reads {n_needed} columns"
        raise ValueError(f"{options.file}: {what}")
    y_pred = [[str(label) for label in tagger.predict(list(map(token_of, tokens)))] for tokens in rows]
    if unknown := {label for labels in truth for label in labels}.difference(map(str, tagger.labels)):
        warnings.warn(f"the model does not know the labels {', '.join(sorted(unknown)):.200}", stacklevel=2)
    try:
        # undefined scores are 0, as in conlleval
        report = metrics.segment_classification_report(truth, y_pred, scheme=scheme, zero_division=0.0)
    except ValueError as error:
        what = f"--scheme {scheme} does not fit the labels of {options.file} (y_true) or of the model (y_pred)"
        raise ValueError(f"{what}: {error}") from None
    print(report)
    accuracy, whole = metrics.token_accuracy_score(truth, y_pred), metrics.sequence_accuracy_score(truth, y_pred)
    print(f"token accuracy {accuracy:.4f}, sequence accuracy {whole:.4f}, segments by --scheme {scheme}")


def _export(options) -> None:
    with suppress(ValueError):
        _read(options.model)
        raise TypeError(f"{options.model} is a file for `hocrf tag` already")
    try:
        import skops.io
    except ImportError:
        raise ValueError("skops is not installed: pip install 'sklearn_hocrf[skops]'") from None
    from .._data.folders import output_file

    output_file(options.output, options.model)
    try:
        model = skops.io.load(options.model, trusted=hocrf.TRUSTED_TYPES)
    except (BadZipFile, KeyError):  # another kind of file, such as a tagger or a pickle, or another archive
        raise ValueError(f"{options.model}: this is no file that skops has written") from None
    try:
        n_bytes = hocrf.tagger.export_tagger(model, options.output)
    except ValueError as error:  # only the first sentence, if the model is not fitted
        raise ValueError(f"{options.model}: {str(error).partition('. Call')[0]}") from None
    except (AttributeError, TypeError):  # not a model, or a model of another library
        what = f"it holds a {type(model).__name__}, not a HighOrderCRF, alone or behind an extractor"
        raise ValueError(f"{options.model}: {what}") from None
    _tell_size(options.output, n_bytes)


def _with_options(message: Any) -> str:
    """Return an estimator's message with the options of ``hocrf fit`` in place of parameters."""
    return re.sub("|".join(OPTIONS), lambda found: OPTIONS[found[0]], str(message))


def _check_scheme(option: str, scheme: str | None, schemes: Iterable[str]) -> None:
    if scheme is not None and scheme not in schemes:
        raise ValueError(f"{option} must be {', '.join(schemes)}, got {scheme:.60} (IOBES is bioes)")


def _tell_size(what: str, n_bytes: int) -> None:
    size = f"{n_bytes / 1e6:.1f} MB" if n_bytes >= 1e6 else f"{n_bytes / 1e3:.1f} kB"
    print(f"{what}, {size}", file=sys.stderr)


def _sequences(stream: Any, name: str, n_columns: int) -> Iterator[list[InputLine]]:
    """Yield the sequences of a stream, one at a time, and an empty list for each empty line.

    Raise a ValueError for a line that is too long, is not UTF-8, contains fewer columns than the model reads, or
    differs from earlier lines in the number of columns.
    """
    lines: list[InputLine] = []
    width = None
    for lineno in count(1):
        if not (text := stream.readline(LONGEST_LINE + 1)):
            break
        where = f"{name}, line {lineno}"
        if len(text) > LONGEST_LINE and not text.endswith("\n"):
            raise ValueError(f"{where}: more than {LONGEST_LINE} characters")
        text = text.rstrip("\r\n")
        if not text.isascii() and (bad := re.search("[\udc80-\udcff]", text)):
            raise ValueError(f"{where}, character {bad.start() + 1}: the byte {ord(bad[0]) - 0xDC00:#x} is not UTF-8")
        columns = re.split("[ \t]+", text.strip(" \t"))  # as in load_conll: spaces of other kinds are parts of tokens
        if columns == [""]:
            if lines:
                yield lines
            yield []
            lines = []
            continue
        if width not in (None, len(columns)):
            what = f"{len(columns)} columns, but the lines before have {width}"
            raise ValueError(f"{where}: {what} (a line is one token, an empty line ends a sequence)")
        if len(columns) < n_columns:
            raise ValueError(f"{where}: {len(columns)} columns, but the model reads {n_columns}")
        width = len(columns)
        lines.append(InputLine(lineno, text, columns))
    if lines:
        yield lines


COMMANDS = {"fit": _fit, "tag": _tag, "evaluate": _evaluate, "export": _export}


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse the command line, run the command, and return the exit code."""
    parser = argparse.ArgumentParser(
        prog="hocrf" if Path(sys.argv[0]).stem == "hocrf" else "python -m sklearn_hocrf",
        description="Train models on files with one token per line, and tag with them. Without a command, train "
        "HighOrderCRFs of orders 1 to 3 on words of noisy handwritten digits that follow a Markov chain of order 3.",
    )
    parser.add_argument("--version", action="version", version=f"sklearn_hocrf {hocrf.__version__}")
    commands = parser.add_subparsers(dest="command", title="commands")
    what = "compile all kernels, and store them in the folder NUMBA_CACHE_DIR, for container images"
    _add_command(commands, "warm-up", what)
    add_commands(commands)
    options = parser.parse_args(arguments)
    try:
        if options.command in COMMANDS:
            return run(options)
        return compile_everything() if options.command else show()
    except BrokenPipeError:  # the program that reads the output has closed it
        return 0
    finally:
        for stream in sys.stdout, sys.stderr:
            _let_go(stream)


def _let_go(stream: Any) -> None:
    """Flush a stream; if this fails, discard the rest, so that Python does not report an error at exit."""
    try:
        stream.flush()
    except (OSError, ValueError):
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def compile_everything() -> int:
    """Compile all kernels, print a summary line, and return the exit code."""
    from .warm_up import warm_up

    try:
        done = warm_up(tell_progress)
    except OSError as error:
        print(f"python -m sklearn_hocrf warm-up: {error}", file=sys.stderr)
        return 1
    print(
        f"{done.n_compiled} kernels compiled, {done.n_versions - done.n_compiled} were there: {done.folder} "
        f"({done.seconds:.0f} s)"
    )
    return 0


def tell_progress(n_done: int, n_models: int, n_kernels: int) -> None:
    """Write the progress of the warm-up to stderr: on one line in a terminal, otherwise after every tenth model."""
    is_terminal, is_end = sys.stderr.isatty(), n_done == n_models
    if is_terminal or is_end or n_done % 10 == 0:
        end = "\r" if is_terminal and not is_end else "\n"  # overwritten by the next output
        print(f"{n_done}/{n_models} models, {n_kernels} kernels", end=end, file=sys.stderr, flush=True)


def show() -> int:
    """Train on generated digits, and print a table with one line for each order."""
    (X, y), (X_test, y_test) = (hocrf.datasets.make_digit_words(500, random_state=seed) for seed in (0, 1))
    print(f"{len(y)} training words, {len(y_test)} test words; the very first use also compiles kernels")
    print(f"{'order':>5} {'patterns':>9} {'states':>7} {'accuracy':>9} {'seconds':>8}")
    for order in 1, 2, 3:
        start = time.perf_counter()
        model = hocrf.HighOrderCRF(order).fit(X, y)
        accuracy, seconds = model.score(X_test, y_test), time.perf_counter() - start
        states = model.automaton_.n_states
        print(f"{order:>5} {len(model.patterns_):>9} {states:>7} {accuracy:>9.4f} {seconds:>8.1f}", flush=True)
    return 0

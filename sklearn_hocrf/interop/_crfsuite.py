"""CRFsuite models as estimators."""

from __future__ import annotations

from os import PathLike
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.exceptions import NotFittedError

from .._data.labels import sorted_labels
from .._estimator.course import Course
from .._structure.layout import WeightLayout
from .._structure.pairs import FeatureMap
from .._structure.patterns import given_patterns
from .._validation import FeatureSpace, TokenTargets
from .._validation._attributes import Vocabulary
from ..crf import HighOrderCRF
from ._crfsuite_file import CRFsuiteWeights, Weights, read_crfsuite_file

__all__ = ["from_crfsuite"]

PENALISED = {"lbfgs": "auto", "l2sgd": "sgd"}  # algorithms for the penalised likelihood, and our solvers


def from_crfsuite(model: str | PathLike[str] | Any, *, encoding: str = "utf-8") -> HighOrderCRF:
    """Return a CRFsuite model as a fitted :class:`~sklearn_hocrf.HighOrderCRF`.

    It gives the same labels and the same marginals, and accepts the same X: sequences of feature dicts, or of lists of
    attribute names. It offers everything that a fitted estimator does: ``predict_nbest``, ``known``,
    ``predict_segments``, pickle, skops. If several labellings have the same score, CRFsuite may return a different
    one.

    The features of CRFsuite are pairs of an attribute and a label, and pairs of neighbouring labels; it has no weights
    of single labels, hence ``fit_intercept=False``. Its algorithms "ap", "pa" and "arow" do not train probabilities;
    CRFsuite nevertheless gives marginals, and so does this model.

    Parameters
    ----------
    model : str, path-like, sklearn_crfsuite.CRF or pycrfsuite.Tagger
        Preferably the path of a model file, written by any program: weights are read exactly, without any other
        package. A fitted ``sklearn_crfsuite.CRF`` also contains its penalty. An open ``Tagger`` does not give its path;
        its weights are read from a text, so that they have 6 decimals, and names must not contain line ends.
    encoding : str, default="utf-8"
        Encoding of labels and attributes in the file. Python packages write UTF-8; the command line of CRFsuite
        writes the bytes that it has read.

    Returns
    -------
    crf : HighOrderCRF
        A model with ``max_order=1``. ``n_iter_`` is 0, and ``objective_history_`` is nan. ``classes_`` and
        ``feature_names_in_`` are sorted. For a ``sklearn_crfsuite.CRF``, the parameters ``sigma_reg``, ``l1_reg``,
        ``patterns``, ``all_pairs``, ``min_pattern_count`` and ``min_pair_count`` are set such that training it again
        minimises the same function; for a file, they have their defaults. With ``warm_start=True``, training starts
        from these weights.

    Raises
    ------
    ValueError
        If the file is not a CRFsuite model, is damaged, or has names that are not text in this encoding; if there are
        fewer than two labels. Damaged files are safe to read, whereas CRFsuite may end the process.
    LookupError
        If the encoding does not exist.
    OSError
        If the file cannot be read.
    TypeError
        If the model is not one of these.
    sklearn.exceptions.NotFittedError
        If the ``sklearn_crfsuite.CRF`` is not fitted.

    References
    ----------
    .. [1] Okazaki, "CRFsuite: a fast implementation of Conditional Random Fields (CRFs)", 2007,
       http://www.chokkan.org/software/crfsuite/.

    Examples
    --------
    >>> import sklearn_crfsuite  # pip install sklearn-crfsuite
    >>> from sklearn_hocrf.interop import from_crfsuite
    >>> X, y = (
    ...     [[{"word": "Ann"}, {"word": "left"}], [{"word": "left"}]],
    ...     [["B-PER", "O"], ["O"]],
    ... )
    >>> theirs = sklearn_crfsuite.CRF(c2=0.5).fit(X, y)
    >>> crf = from_crfsuite(theirs)
    >>> crf.predict(X) == [list(labels) for labels in theirs.predict(X)]
    True

    The ten best labellings in which each field occurs at most once:

    >>> once = lambda labels: all(
    ...     labels.count(label) <= 1 for label in labels if label.startswith("B-")
    ... )
    >>> candidates = crf.predict_nbest(X, 10, accept=once)
    """
    if isinstance(model, (str, PathLike)):
        return _fitted(HighOrderCRF(fit_intercept=False), read_crfsuite_file(model, encoding), str(model))
    if hasattr(model, "modelfile") and hasattr(model, "all_possible_states"):
        if getattr(model, "tagger_", None) is None:
            raise NotFittedError(f"this {type(model).__name__} is not fitted, so it has no model")
        path = model.modelfile.name
        return _fitted(_with_parameters_of(model), read_crfsuite_file(path, encoding), path)
    if hasattr(model, "info") and hasattr(model, "marginal"):
        return _fitted(HighOrderCRF(fit_intercept=False), _weights_of_tagger(model), "the Tagger")
    raise TypeError(
        "model must be the path of a model file, a sklearn_crfsuite.CRF or a pycrfsuite.Tagger, not a "
        f"{type(model).__name__}"
    )


def _with_parameters_of(model: Any) -> HighOrderCRF:
    """Return an unfitted estimator that minimises the same function as an estimator of sklearn-crfsuite."""
    params: dict[str, Any] = {"fit_intercept": False}
    algorithm = model.algorithm or "lbfgs"
    if algorithm in PENALISED:
        c2 = 1.0 if model.c2 is None else float(model.c2)
        params |= {"sigma_reg": (2 * c2) ** -0.5 if c2 else np.inf, "solver": PENALISED[algorithm]}
    if algorithm == "lbfgs":
        params["l1_reg"] = float(model.c1 or 0.0)
    if model.all_possible_transitions:
        params["patterns"] = "all"
    if model.all_possible_states:
        params["all_pairs"] = True
    if model.min_freq:
        params |= {"min_pattern_count": float(model.min_freq), "min_pair_count": float(model.min_freq)}
    return HighOrderCRF(**params)


def _weights_of_tagger(tagger: Any) -> CRFsuiteWeights:
    """Return the weights of an open tagger."""
    try:
        info = tagger.info()
    except (AttributeError, AssertionError, IndexError, UnicodeError) as error:  # its parser of its own text has failed
        raise ValueError(
            f"python-crfsuite cannot read the names in its text of this model ({type(error).__name__}): pass the path "
            "of the file"
        ) from error
    labels, attributes = list(info.labels), list(info.attributes)
    numbers = [{name: number for number, name in enumerate(names)} for names in (attributes, labels)]
    return CRFsuiteWeights(
        labels,
        attributes,
        _coordinates(info.state_features, *numbers),
        _coordinates(info.transitions, numbers[1], numbers[1]),
    )


def _coordinates(weights: dict, sources: dict, targets: dict) -> Weights:
    """Return the numbers of the names of pairs, and their weights."""
    rows, columns = (
        np.array([number[pair[place]] for pair in weights], dtype=np.int64)
        for place, number in enumerate((sources, targets))
    )
    return Weights(rows, columns, np.array(list(weights.values()), dtype=np.float64))


def _fitted(crf: HighOrderCRF, weights: CRFsuiteWeights, origin: str) -> HighOrderCRF:
    """Set the fitted attributes of an estimator from weights, and return it."""
    labels, attributes = sorted(weights.labels), sorted(weights.attributes)
    for what, texts in ("label", labels), ("attribute", attributes):
        if len(set(texts)) < len(texts):
            raise ValueError(f"{origin} has two {what}s with the same name")
    try:
        classes = sorted_labels(labels, [0, len(labels)])
    except ValueError as error:
        raise ValueError(f"{origin} has {len(labels)} labels, but at least two are required") from error
    layout, vector = _lay_out(weights, labels, attributes)
    names = np.empty(len(attributes), dtype=object)
    names[:] = attributes
    targets = TokenTargets(np.empty(0, dtype=np.int32), classes, as_lists=True)
    features = FeatureSpace(len(names), names, Vocabulary.of_names(attributes, ()), is_table=False)
    Course(crf).end(layout, vector, targets, features)
    return crf


def _lay_out(weights: CRFsuiteWeights, labels: list[str], attributes: list[str]) -> tuple[WeightLayout, np.ndarray]:
    """Return the layout of pairs (attribute, label) and (label, next label), numbered by sorted names, and the weights.

    Repeated pairs count repeatedly, as in CRFsuite.
    """
    label_number, attribute_number = _places(weights.labels, labels), _places(weights.attributes, attributes)
    attribute, label = attribute_number[weights.state.source], label_number[weights.state.target]
    before, after = label_number[weights.transition.source], label_number[weights.transition.target]
    n_labels, n_attributes = len(labels), len(attributes)
    patterns = given_patterns(zip(before.tolist(), after.tolist(), strict=True), n_labels)
    shape = (len(patterns.lengths), n_attributes)
    coef = sparse.coo_array((weights.state.weight, (label, attribute)), shape=shape).tocsr()
    coef.sum_duplicates()
    pair_pattern, pair_feature = coef.nonzero()
    runs = sparse.coo_array((weights.transition.weight, (before, after)), shape=(n_labels, n_labels)).toarray()
    longer = np.arange(n_labels, len(patterns.lengths))
    pattern_coef = np.zeros(len(patterns.lengths))
    if len(longer):
        pattern_coef[longer] = runs[tuple(patterns.labels[longer].T)]
    features = FeatureMap.of_tokens(np.arange(n_attributes))
    layout = WeightLayout(patterns, features, pair_feature, pair_pattern, longer)
    return layout, layout.weights(pattern_coef, coef)


def _places(names: list[str], in_order: list[str]) -> np.ndarray:
    """Return the position of each name among the sorted names."""
    place = {name: number for number, name in enumerate(in_order)}
    return np.array([place[name] for name in names], dtype=np.int64)

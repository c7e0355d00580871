"""Importance of the features of a template for predictions."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from numbers import Integral
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.metrics import check_scoring
from sklearn.utils import Bunch, check_random_state
from sklearn.utils.validation import check_is_fitted

from .._data.batch import SequenceBatch
from .._data.checks import short
from .._estimator.fitted_model import FittedModel
from .._validation import read_sequences
from .._validation._delegation import model_and_input
from ._names import feature_names, template_of, templates_of

__all__ = ["template_importance"]


def template_importance(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    scoring: Any = None,
    groups: str | Callable[[Any], Any] = "template",
    n_repeats: int = 5,
    random_state: int | np.random.RandomState | None = None,
) -> Bunch:
    """Return how much predictions degrade when the features of one template are permuted across tokens.

    The features that come from one template, such as all words ``w[0]=...``, are permuted across the tokens of all
    sequences, together [1]_. The model is not fitted again. Templates with the same information, such as a word and its
    lower case, share their importance: each alone may seem useless. In that case, fit models without them.

    Parameters
    ----------
    estimator : HighOrderCRF, HighOrderSemiCRF, or a pipeline or search around one
        A fitted model.
    X : list of sequences, SequenceBatch, array-like or sparse matrix
        As in the estimator's ``predict``.
        Sequences that the model was not trained on, rather than its training data.
    y : list of label sequences, or array-like
        As in the estimator's ``score``.
    scoring : str, callable or None, default=None
        A scorer of sequences, such as ``sklearn_hocrf.metrics.segment_f1_scorer``; scikit-learn's own, such as
        "accuracy", are for single labels. It is called with the model itself and a
        :class:`~sklearn_hocrf.feature_extraction.SequenceBatch`. None means ``score`` of the model.
    groups : "template" or callable, default="template"
        Features to permute together: a function from the name of a token feature (its number if it has no name) to the
        name of its group, or None for features that are not permuted. "template" is the part of the name before "=", or
        the key of names made from dicts.
    n_repeats : int, default=5
        Number of permutations of each group.
    random_state : int, RandomState instance or None, default=None
        Determines the permutations.

    Returns
    -------
    result : Bunch
        ``groups``, the names of the groups; ``importances``, ndarray of shape (n_groups, n_repeats), the decrease of
        the score; ``importances_mean`` and ``importances_std`` of shape (n_groups,), as in
        :func:`sklearn.inspection.permutation_importance`. Groups are sorted by ``importances_mean``, the highest first.

    Raises
    ------
    ValueError, TypeError
        If X and y do not match, if there is no group, if the name of a group is not hashable, or if ``scoring`` names a
        scorer that fails on sequences.

    Notes
    -----
    Features of whole segments that are computed from raw tokens, such as texts, and lengths, are not permuted. Segment
    features that count token features, such as ``begin:w[0]=...``, change with these: they belong to the group of the
    token feature. Each number of an array field, ``vector[0]``, ``vector[1]`` .., is a separate group, which permutes
    only a part of the embedding; ``groups=lambda name: name.split("[")[0]`` combines them.

    References
    ----------
    .. [1] Breiman, "Random forests", Machine Learning 45, 2001.

    Examples
    --------
    >>> from sklearn_hocrf import HighOrderCRF
    >>> from sklearn_hocrf.feature_extraction import SequenceFeatureExtractor
    >>> from sklearn_hocrf.inspection import template_importance
    >>> from sklearn_hocrf.pipeline import make_pipeline
    >>> X = [["the", "old", "man"], ["the", "man"], ["an", "old", "house"]] * 5
    >>> y = [["DET", "ADJ", "NOUN"], ["DET", "NOUN"], ["DET", "ADJ", "NOUN"]] * 5
    >>> features = SequenceFeatureExtractor(
    ...     [("w", 0), ("shape", 0)], token_features=["shape"]
    ... )
    >>> pipe = make_pipeline(features, HighOrderCRF()).fit(X, y)
    >>> result = template_importance(pipe, X, y, random_state=0)
    >>> dict(zip(result.groups, result.importances_mean.round(2).tolist()))
    {'w[0]': 0.57, 'shape[0]': 0.0}
    """
    if not isinstance(n_repeats, Integral) or isinstance(n_repeats, bool) or n_repeats < 1:
        raise ValueError(f"n_repeats must be a positive integer, got {n_repeats!r:.80}")
    check_is_fitted(estimator)
    random = check_random_state(random_state)
    model, inner = model_and_input(estimator, X)
    batch, form = read_sequences(model, inner)
    y = [[label] for label in y] if form == "table" else y  # sequences of one token
    score = check_scoring(model, scoring=scoring)
    names, group_of_attribute = _groups(FittedModel(model), batch, groups)
    base = _base_score(score, scoring, (model, batch, y))
    importances = np.empty((len(names), n_repeats))
    for group in range(len(names)):
        for repeat in range(n_repeats):
            importances[group, repeat] = base - score(model, _permuted(batch, group_of_attribute == group, random), y)
    mean = importances.mean(axis=1)
    order = np.argsort(-mean, kind="stable")
    return Bunch(
        groups=[names[group] for group in order.tolist()],
        importances=importances[order],
        importances_mean=mean[order],
        importances_std=importances.std(axis=1)[order],
    )


def _base_score(score: Any, scoring: Any, of: tuple) -> float:
    try:
        return score(*of)
    except (TypeError, ValueError) as error:
        if not isinstance(scoring, str):
            raise
        raise ValueError(
            f"scoring={short(scoring)} fails: is it a score of single labels? Give a scorer of sequences, such as "
            "make_scorer(sklearn_hocrf.metrics.token_accuracy_score)"
        ) from error


def _groups(fitted: FittedModel, batch: SequenceBatch, groups: Any) -> tuple[list, np.ndarray]:
    """Return the names of the groups, and the number of the group of each token feature, -1 for none."""
    if groups == "template" and isinstance(groups, str):
        of_attribute = (
            templates_of(fitted) if batch.attribute_names is None else map(template_of, batch.attribute_names)
        )
    elif callable(groups):
        names = feature_names(fitted) if batch.attribute_names is None else batch.attribute_names
        of_attribute = [_group_of(groups, name) for name in names]
    else:
        raise ValueError(f'groups must be "template" or a function of names, got {short(groups)}')
    of_attribute = list(of_attribute)
    number = {name: i for i, name in enumerate(dict.fromkeys(name for name in of_attribute if name is not None))}
    if not number:
        raise ValueError("groups puts no feature into any group")
    return list(number), np.array([-1 if name is None else number[name] for name in of_attribute], dtype=np.int64)


def _group_of(groups: Callable[[Any], Any], name: Any) -> Any:
    group = groups(name)
    if not isinstance(group, Hashable):
        raise TypeError(
            f"groups must return hashable names of groups, but returns {short(group)} ({type(group).__name__}) for the "
            f"feature {short(name)}"
        )
    return group


def _permuted(batch: SequenceBatch, is_member: np.ndarray, random: np.random.RandomState) -> SequenceBatch:
    """Return the batch with some token features permuted across tokens, whole rows together."""
    rows = sparse.coo_array(batch.tocsr())
    token = rows.row.copy()
    moved = is_member[rows.col]
    token[moved] = random.permutation(batch.n_tokens)[token[moved]]
    matrix = sparse.csr_array((rows.data, (token, rows.col)), shape=rows.shape)
    permuted = SequenceBatch.from_csr(matrix, batch.offsets, batch.attribute_names, batch.columns)
    return permuted if batch.blocks is None else permuted.with_blocks(batch.blocks, batch.block_names)

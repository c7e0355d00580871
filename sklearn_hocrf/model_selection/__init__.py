"""Learned penalties, predictions by cross-validation, and probabilities that are accurate on new data.

scikit-learn's searches can choose orders, penalties, templates and all other parameters, with the scorers of
:mod:`sklearn_hocrf.metrics` and unstratified folds. This module adds:

==================================  ====================================================================================
:class:`PenaltySearchCV`            one penalty for each group of weights, learned with gradients of the held-out
                                    likelihood
:func:`cross_val_predict`           results of any method for each sequence, from a model not trained on it
:class:`CalibratedSequenceLabeler`  a temperature for all weights of a model, so that probabilities match how often
                                    predictions are correct
:class:`ConformalSequenceLabeler`   sets of labels or segments that miss true ones with at most a chosen probability
==================================  ====================================================================================

The held-out part of each fold must be new in the same way as the data at prediction time: pass groups of words, writers
or documents.

>>> from sklearn_hocrf import HighOrderCRF
>>> from sklearn_hocrf.datasets import make_digit_words
>>> from sklearn_hocrf.model_selection import cross_val_predict
>>> X, y = make_digit_words(40, random_state=0)
>>> y_pred = cross_val_predict(HighOrderCRF(max_order=1), X, y, cv=3)
>>> [len(labels) for labels in y_pred] == [len(labels) for labels in y]
True

User guide: https://sklearn-hocrf.github.io/sklearn-hocrf/stable/guide/penalties.html,
https://sklearn-hocrf.github.io/sklearn-hocrf/stable/guide/answers.html.
"""

from ._conformal import ConformalSequenceLabeler
from ._penalty_search import PenaltySearchCV
from ._predictions import cross_val_predict
from ._temperature import CalibratedSequenceLabeler

__all__ = ["CalibratedSequenceLabeler", "ConformalSequenceLabeler", "PenaltySearchCV", "cross_val_predict"]

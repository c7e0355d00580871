"""Models that choose their own penalties, and predictions by cross-validation.

scikit-learn's searches choose orders, penalties, templates and all other parameters: the scorers of
:mod:`sklearn_hocrf.metrics` and folds that are not stratified work for sequences. This page has what they lack.

Learned penalties
-----------------
One ``sigma_reg`` for all weights hides what high orders can do. :class:`PenaltySearchCV` learns one for each group of
weights: by default the features and the patterns' own weights, for each order. It maximises the likelihood of held-out
data along exact gradients, so many groups cost little more than one. It is used like ``GridSearchCV``, with any
pipeline that ends in one of the two estimators:

>>> from sklearn_hocrf import HighOrderCRF
>>> from sklearn_hocrf.datasets import make_digit_words
>>> from sklearn_hocrf.model_selection import PenaltySearchCV
>>> X, X_new, y, y_new = make_digit_words(200, 500, random_state=0)
>>> learned = PenaltySearchCV(HighOrderCRF(), orders=[1, 2, 3], cv=3, max_steps=5, tol=1e-2).fit(X, y)
>>> learned.best_params_["max_order"]
3
>>> for group, sigma in learned.best_params_["sigma_reg"].items():
...     print(group, "about 1" if sigma < 2 else "3 to 6")
('features', 0) about 1
('patterns', 0) about 1
('patterns', 1) 3 to 6
('patterns', 2) 3 to 6
('patterns', 3) 3 to 6
>>> for model in HighOrderCRF(max_order=3).fit(X, y), learned:  # sigma_reg=1, and learned
...     print(round(model.score(X_new, y_new), 2), round(model.log_likelihood(X_new, y_new).mean(), 1))
0.85 -3.0
0.86 -2.2

``best_params_["sigma_reg"]`` can be given to any estimator. Other groups are keys of the same kind, such as
``penalty_groups=["word:", ("patterns", 0), ("patterns", 1), None]``: a prefix of feature names, patterns by order, and
the rest; ``[None]`` learns one value for all weights. ``PenaltySearchDisplay.from_search(learned)`` plots the way.

The folds say what is new at prediction. With words at random, the patterns of long known words get weak penalties; with
whole words held out (``fit(X, y, groups=words)``), strong ones. The notebook "Let the data choose" shows both, and what
the wrong choice costs.

Groups and weights
------------------
Groups go to the splitter and ``sample_weight``, one number a sequence, to ``fit``, as with any scikit-learn estimator:

>>> import numpy as np
>>> import sklearn
>>> from sklearn.model_selection import GridSearchCV, GroupKFold
>>> X, y, writers, weights = X[:60], y[:60], np.arange(60) % 10, np.linspace(1, 2, 60)
>>> with sklearn.config_context(enable_metadata_routing=True):
...     crf = HighOrderCRF(tol=1e-2).set_fit_request(sample_weight=True)
...     crf = crf.set_score_request(sample_weight=True)
...     search = GridSearchCV(crf, {"max_order": [0, 1]}, cv=GroupKFold(2))
...     best = search.fit(X, y, groups=writers, sample_weight=weights).best_params_
>>> best
{'max_order': 1}

Predictions by cross-validation
-------------------------------
:func:`cross_val_predict` predicts each sequence by a model that has not seen it, with any method; scikit-learn's own
stacks predictions, which is impossible for sequences of different lengths.

Replacements for scikit-learn's tools for tables
------------------------------------------------
scikit-learn's searches, ``cross_validate``, ``train_test_split`` and ``LearningCurveDisplay`` take sequences as they
are. Tools that convert X or y to one array fail before they reach this package ("inhomogeneous shape", "legacy
multi-label"), because sequences differ in length:

==========================================  ============================================================================
scikit-learn                                for sequences
==========================================  ============================================================================
``cross_val_predict``                       :func:`cross_val_predict` of this module
``cv=StratifiedKFold()``, ``stratify=y``    ``KFold(5, shuffle=True)`` or ``GroupKFold()``; with one class per sequence,
                                            ``cv=list(StratifiedKFold(5).split(X, classes))`` or ``stratify=classes``
``scoring="bio_f1"`` or ``"f1_macro"``      the scorers of :mod:`~sklearn_hocrf.metrics` themselves, such as
                                            ``scoring=metrics.bio_f1_scorer``
``classification_report``                   :func:`~sklearn_hocrf.metrics.segment_classification_report`
``permutation_importance``                  :func:`~sklearn_hocrf.inspection.template_importance`
``CalibratedClassifierCV``                  :class:`~sklearn_hocrf.calibration.CalibratedSequenceLabeler`
``FeatureUnion``                            a pipeline of extractors: each appends its features to those of the batch
``StandardScaler``, ``ColumnTransformer``   the same inside :class:`~sklearn_hocrf.feature_extraction.TokenTransformer`
``BaggingClassifier``                       models fitted to ``sklearn.utils.resample(X, y)``, and the mean of their
                                            ``predict_marginals``
``GridSearchCV`` over bags of Dask          lists on the client, of all data or of a sample
==========================================  ============================================================================

References
----------
C.-S. Foo, C. B. Do, A. Y. Ng: Efficient multiple hyperparameter learning for log-linear models. NIPS 2007.
"""

from ._display import PenaltySearchDisplay
from ._penalty_search import PenaltySearchCV
from ._predictions import cross_val_predict

__all__ = ["PenaltySearchCV", "PenaltySearchDisplay", "cross_val_predict"]

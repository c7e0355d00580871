"""Training criteria, penalties and solvers.

Objectives and solvers
----------------------
Both estimators minimise an ``objective`` plus a penalty, by a ``solver``. They take the same ones.

==============================  ========================================  ===========================================
``objective``                   meaning                                   ``solver="auto"``, and other solvers
==============================  ========================================  ===========================================
``"likelihood"`` (default)      negative log-likelihood                   ``"lbfgs"``; ``"newton-cg"``, ``"sgd"``,
                                                                          ``"adagrad"``, ``"owlqn"``
``"local_feature_matching"``    squared distance of expected features     ``"lbfgs"``, from the weights of maximum
                                at each position (Kim 2014)               likelihood; ``"owlqn"``
``"hinge"``                     structured support vector machine,        ``"bcfw"``, block-coordinate Frank-Wolfe
                                Hamming loss
``"perceptron"``                averaged perceptron                       ``"perceptron"``
==============================  ========================================  ===========================================

``sigma_reg`` is the standard deviation of a Gaussian prior: the smaller it is, the stronger the penalty; ``l1_reg`` is
the strength of an additional Laplacian prior. Each can be one number, depend on the order of the pattern, or be given
by groups of weights: ``sigma_reg={"word:": 0.5, ("features", 0): 2, ("patterns", 1): 10, None: 1}`` is one value each
for features whose names begin with ``word:``, for the other features, for label bigrams, and for the rest. With
``l1_reg``, weights of 0 are removed from the model, and so are label patterns without weights. ``class_weight`` gives
more weight to sequences with rare labels. ``fit`` rejects incompatible settings before any work.

>>> from sklearn_hocrf import HighOrderCRF
>>> from sklearn_hocrf.feature_extraction import SequenceFeatureExtractor
>>> names = [["Ada", "Lovelace"], ["Lovelace", ",", "Ada"], ["Alan", "Turing"]]
>>> tags = [["g", "f"], ["f", ",", "g"], ["g", "f"]]
>>> words = SequenceFeatureExtractor().fit_transform(names)
>>> for model in HighOrderCRF(max_order=2), HighOrderCRF(max_order=2, l1_reg=0.8):
...     print(len(model.fit(words, tags).patterns_), model.coef_.nnz)
7 124
5 26
>>> HighOrderCRF(objective="hinge", random_state=0).fit(words, tags).predict(words)
[['g', 'f'], ['f', ',', 'g'], ['g', 'f']]

Instead of a name, pass an instance of one of the classes below, which have more settings, or of a custom class (see
below):

>>> from sklearn_hocrf.training import SGD
>>> averaged = HighOrderCRF(solver=SGD(batch_size=4, average=True, random_state=0)).fit(words, tags)
>>> averaged.predict(words)[1]
['f', ',', 'g']

For data larger than memory, ``partial_fit`` takes one batch at a time; it needs a stochastic solver. With feature
hashing the extractor needs no vocabulary. Only maximum likelihood fits probabilities; it is convex if no labels are
missing. Local feature matching takes many times as long, especially for segments. Hinge and perceptron yield no
probabilities.

Passive-aggressive and AROW steps are not available; ``objective="hinge"`` is closest to the former.

How long to train
-----------------
Training ends when a bound shows that the objective is at most a fraction ``tol**2`` of itself above the optimum. Scores
stabilise much earlier. On the first 1,000 sentences of CoNLL 2000 and 2002, order 1: F1 of segments on the test set by
``tol``; the iterations of L-BFGS; and the largest change of any label's probability at any test token from there to the
optimum:

=======================  ===============  ===============  ===============  ===============  ===============
``tol``                  0.1              0.03             0.01             0.003            0.001
=======================  ===============  ===============  ===============  ===============  ===============
chunks (CoNLL 2000)      90.88 (39) .054  90.92 (48) .013  90.97 (55) .004  90.94 (63) .001  90.95 (68) .000
names (CoNLL 2002)       50.11 (62) .032  49.91 (73) .010  50.04 (82) .004  50.01 (91) .001  50.01 (100) .000
=======================  ===============  ===============  ===============  ===============  ===============

With the default, 0.003, the scores of 30 models of eight data sets are within 0.1 % of the scores at the optimum, and
probabilities within 0.01. 0.03 is enough for searches, and for a model that only predicts; weights that are to be
reproducible, or compared, need 1e-4 or less, and :func:`~sklearn_hocrf.inspection.weight_standard_errors` reports what
it needs. ``verbose=1`` reports when the objective hardly decreases any more, and
:class:`~sklearn_hocrf.callback.EarlyStopping` monitors the scores of held-out data.

The bound follows from the penalty: it is half the sum of the squares of the gradient over ``1 / sigma_reg**2``. Weak
penalties therefore take more iterations, because the optimum is then farther away than a small gradient suggests.

Custom criteria, penalties and solvers
--------------------------------------
* An objective has a method ``bind(problem)``, which returns a function of the weights; :class:`Objective` is a base
  class. If it has ``starting_objective()``, training starts from the weights that this other objective trains.
* A penalty is a function of the weights with ``value(w)``, ``gap(gradient)`` and the methods that the solver
  needs: ``value_gradient(w)`` for most solvers. :class:`L2` and :class:`ElasticNet` can serve as base classes. If its
  ``strength`` is not None, weights of 0 are removed from the fitted model.
* A solver has a method ``solve(objective, penalty, w0)``, which returns a :class:`SolverReport`. Its attribute
  ``needs`` lists the methods of the objective and of the penalty that it calls; ``fit`` rejects combinations that lack
  them before any work.

References
----------
M. Collins: Discriminative training methods for hidden Markov models. EMNLP 2002.

J. Duchi, E. Hazan, Y. Singer: Adaptive subgradient methods for online learning and stochastic optimization. JMLR 12,
2011.

S. Lacoste-Julien, M. Jaggi, M. Schmidt, P. Pletscher: Block-coordinate Frank-Wolfe optimization for structural SVMs.
ICML 2013.
"""

from __future__ import annotations

from ._objectives import (
    Hinge,
    LocalFeatureMatching,
    NegativeLogLikelihood,
    Objective,
    PartialLikelihood,
    Perceptron,
    Problem,
    ScoredLikelihood,
    predict_from_scores,
    sequence_log_likelihood,
)
from ._penalties import L2, ElasticNet
from ._solvers import (
    LBFGS,
    OWLQN,
    SGD,
    AdaGrad,
    AveragedPerceptron,
    FrankWolfe,
    NewtonCG,
    Progress,
    SolverReport,
)

__all__ = [
    "AdaGrad",
    "AveragedPerceptron",
    "ElasticNet",
    "FrankWolfe",
    "Hinge",
    "L2",
    "LBFGS",
    "LocalFeatureMatching",
    "NegativeLogLikelihood",
    "NewtonCG",
    "OWLQN",
    "Objective",
    "PartialLikelihood",
    "Perceptron",
    "Problem",
    "Progress",
    "SGD",
    "ScoredLikelihood",
    "SolverReport",
    "predict_from_scores",
    "sequence_log_likelihood",
]

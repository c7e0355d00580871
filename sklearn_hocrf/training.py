"""Training criteria, penalties and solvers.

Both estimators minimise an ``objective`` plus a penalty, by a ``solver``. Names stand for the classes below; instances
have more settings, and custom classes may take their place.

==============================  ========================================  ===========================================
``objective``                   meaning                                   ``solver="auto"``, and other solvers
==============================  ========================================  ===========================================
``"likelihood"`` (default)      :class:`NegativeLogLikelihood`            ``"lbfgs"``; ``"newton-cg"``, ``"sgd"``,
                                                                          ``"adagrad"``, ``"owlqn"``
``"local_feature_matching"``    :class:`LocalFeatureMatching`             ``"lbfgs"``, from the weights of maximum
                                                                          likelihood; ``"owlqn"``
``"hinge"``                     :class:`Hinge`: structured support        ``"bcfw"``, block-coordinate Frank-Wolfe
                                vector machine
``"perceptron"``                :class:`Perceptron`, averaged             ``"perceptron"``
==============================  ========================================  ===========================================

Penalties: :class:`L2`, :class:`ElasticNet`. Solvers: :class:`LBFGS`, :class:`OWLQN`, :class:`NewtonCG`, :class:`SGD`,
:class:`AdaGrad`, :class:`FrankWolfe`, :class:`AveragedPerceptron`. Scores of other models, such as neural networks:
:class:`ScoredLikelihood`, :func:`sequence_log_likelihood`, :func:`predict_from_scores`. For custom classes:
:class:`Objective`, :class:`PartialLikelihood`, :class:`Problem`, :class:`Progress`, :class:`SolverReport`.

>>> from sklearn_hocrf import HighOrderCRF
>>> from sklearn_hocrf.training import SGD
>>> X, y = (
...     [["the", "old", "man"], ["the", "man"]],
...     [["DET", "ADJ", "NOUN"], ["DET", "NOUN"]],
... )
>>> X = [[[word] for word in words] for words in X]
>>> model = HighOrderCRF(solver=SGD(batch_size=4, average=True, random_state=0)).fit(
...     X, y
... )
>>> model.predict(X)[1]
['DET', 'NOUN']

User guide: docs/guide/training.md.
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

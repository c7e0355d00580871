"""High-order conditional random fields: one label per token, weights on label patterns of any length.

This page shows :class:`HighOrderCRF` at work: why order helps, the questions that a model answers, labels that must or
must not follow each other, and known or missing labels. ``help(HighOrderCRF)`` describes all parameters.

Why order helps
---------------
The data are lines of an invented index of authors: family name, given name, family name, given name. Some names can be
either, and the label after a comma depends on the label before the comma. This is a label pattern of order 2, that is
of three labels. ``max_order=1`` is the usual linear-chain CRF, ``max_order=0`` is logistic regression for each token.
The template ``(("w", 0),)`` stands for the word itself.

>>> import random
>>> from sklearn.model_selection import GridSearchCV
>>> from sklearn_hocrf import HighOrderCRF
>>> from sklearn_hocrf.feature_extraction import SequenceFeatureExtractor
>>> from sklearn_hocrf.pipeline import make_pipeline
>>> rng = random.Random(0)
>>> family = ["Bohr", "Curie", "Kelly", "Lewis", "Morgan", "Taylor"]
>>> given = ["Ada", "Emmy", "Kelly", "Lewis", "Morgan", "Taylor"]
>>> lengths = [rng.randint(2, 4) for _ in range(90)]
>>> X = [" , ".join(f"{rng.choice(family)} , {rng.choice(given)}" for _ in range(n)).split() for n in lengths]
>>> y = [(["family", "comma", "given", "comma"] * n)[:-1] for n in lengths]
>>> X[2], y[2]
(['Lewis', ',', 'Ada', ',', 'Bohr', ',', 'Taylor'], ['family', 'comma', 'given', 'comma', 'family', 'comma', 'given'])
>>> pipe = make_pipeline(SequenceFeatureExtractor([(("w", 0),)]), HighOrderCRF())
>>> grid = {"highordercrf__sigma_reg": [0.3, 1, 3], "highordercrf__max_order": [1, 2, 3]}
>>> search = GridSearchCV(pipe, grid, cv=3, n_jobs=2).fit(X, y)
>>> search.best_params_
{'highordercrf__max_order': 2, 'highordercrf__sigma_reg': 0.3}
>>> by_order = search.cv_results_["mean_test_score"].reshape(3, 3).max(axis=1)  # the best over sigma_reg
>>> by_order.round(2).tolist()
[0.89, 1.0, 1.0]
>>> search.predict(["Taylor , Kelly , Lewis , Ada".split()])
[['family', 'comma', 'given', 'comma', 'family', 'comma', 'given']]

A model uses the label patterns that occur in the training data, so each order adds at most one pattern per training
token. ``min_pattern_count`` drops rare patterns; ``patterns`` takes a list, "all", or "auto". Time grows with the
number of patterns and of states (prefixes of patterns), not with the number of labels to the power of the order.

Questions to a model
--------------------
==============================================  =====================================================================
``predict(X)``                                  the most probable label sequences, in the form of the y of ``fit``
``predict_marginals(X)``, ``predict_proba``     a list of arrays (tokens, labels): the probability of each label
``score(X, y)``                                 the share of tokens with the right label
``log_likelihood(X, y)``                        ln P(y given x) of each sequence
``pattern_marginals(X, patterns)``              the probability that a label pattern ends at a token, for all tokens
``predict_nbest(X, n)``                         the n best labellings, with their scores and log-probabilities
``sample(X, n_samples)``                        labellings drawn from their distribution
``entropy(X)``                                  how uncertain a sequence or a token is, in nats
``predict_segments(X)``, ``segment_marginals``  segments that tags describe, and their probabilities
==============================================  =====================================================================

All are exact at any order (with ``pruning``, among the labels that are kept), respect the constraints, and accept known
labels. :mod:`sklearn_hocrf.pipeline` provides scikit-learn's pipeline with all of these methods. A search passes on
``predict``, ``predict_proba`` and ``score``; its ``best_estimator_`` has the rest:

>>> pipe, line = search.best_estimator_, ["Taylor , Kelly , Lewis , Ada".split()]
>>> pipe.classes_.tolist(), pipe.predict_marginals(line)[0][0].round(2).tolist()
(['comma', 'family', 'given'], [0.05, 0.86, 0.09])
>>> pipe.log_likelihood(line, [y[2]]).round(2).tolist()
[-0.31]
>>> pipe.pattern_marginals(line, [("given", "comma", "family")])[0][:, 0].round(2).tolist()
[0.0, 0.0, 0.06, 0.0, 0.8, 0.0, 0.05]

Models of BIO tags (or BIOES, and so on) return segments and their probabilities:

>>> X_names = [[["Ann"], ["Lee"], ["met"], ["Bob"]], [["met"], ["Ann"]]]
>>> y_names = [["B-PER", "I-PER", "O", "B-PER"], ["O", "B-PER"]]
>>> model = HighOrderCRF(constraints="bio").fit(X_names, y_names)
>>> line = X_names[:1]
>>> for labels, score, log_probability in model.predict_nbest(line, 2)[0]:
...     print(labels, round(log_probability, 2))
['B-PER', 'I-PER', 'O', 'B-PER'] -1.44
['B-PER', 'I-PER', 'O', 'O'] -2.74
>>> model.sample(line, 2, random_state=0)[0]
[['B-PER', 'I-PER', 'O', 'B-PER'], ['B-PER', 'B-PER', 'I-PER', 'B-PER']]
>>> model.entropy(line).round(2).tolist(), model.entropy(line, level="token")[0].round(2).tolist()
([3.08], [0.55, 1.04, 1.0, 0.93])
>>> for start, stop, label, probability in model.predict_segments(line, with_probability=True)[0].tolist():
...     print(start, stop, label, round(probability, 2))
0 2 PER 0.38
3 4 PER 0.6

``predict`` returns the most probable labelling. With ``decoding="token"`` it returns the labelling with the highest
expected number of correct tokens, with ``"segment"`` the segments that are more probable than not.
:class:`~sklearn_hocrf.settings.TokenDecoding` accepts costs of errors, :class:`~sklearn_hocrf.settings.SegmentDecoding`
a threshold: a high threshold finds fewer segments, and more of them are correct. Both can be changed after ``fit``, and
tuned by a search:

>>> from sklearn_hocrf.settings import SegmentDecoding
>>> for threshold in 0.2, 0.5, 0.8:
...     print(threshold, model.set_params(decoding=SegmentDecoding(threshold)).predict_segments(line)[0])
0.2 [(0, 2, 'PER'), (3, 4, 'PER')]
0.5 [(3, 4, 'PER')]
0.8 []

:mod:`sklearn_hocrf.calibration` corrects over- or under-confident probabilities.

Constraints
-----------
``constraints`` specifies which labels may follow each other. A labelling that violates a constraint has probability 0,
in training and in prediction, and training labels that violate one are an error. Tagging schemes have names: "bio",
"bioes", "bilou", "bmes" and "iob1".

>>> for constraints in None, "bio":
...     model = HighOrderCRF(max_order=0, constraints=constraints).fit(X_names, y_names)
...     print(model.predict([[["Lee"], ["met"], ["Lee"]]])[0])
['I-PER', 'O', 'I-PER']
['B-PER', 'O', 'B-PER']

:class:`~sklearn_hocrf.settings.Constraints` forbids runs of labels of any length, or lists the allowed pairs, and the
labels with which a sequence may begin and end. For rules that are easier to compute than to list, pass a function of
two neighbouring labels.

Labels with parts
-----------------
Morphological tags are numerous and mostly rare, but they are built from a few parts. ``label_parts`` is a function that
returns the parts of a label, or a mapping. The weight of a feature for a part counts for all labels with this part, in
addition to its weight for the label itself. Here *-um* marks genitive plurals, which were all nouns except for one
adjective:

>>> lines = "rosa bona", "rosae bonae", "rosarum multarum", "portarum longarum", "puellae parvae", "puellarum"
>>> X_words = [line.split() for line in lines]
>>> cases = "Nom|Sg", "Gen|Sg", "Gen|Pl", "Gen|Pl", "Gen|Sg", "Gen|Pl"
>>> y_words = [[f"{pos}|{case}" for pos, _ in zip("NA", X_words[n])] for n, case in enumerate(cases)]
>>> functions = ["prefix3", "suffix1", "suffix2"]
>>> extractor = SequenceFeatureExtractor([(name, 0) for name in functions], token_features=functions)
>>> for label_parts in None, lambda label: label.split("|"):
...     tagger = make_pipeline(extractor, HighOrderCRF(0, label_parts=label_parts)).fit(X_words, y_words)
...     print(tagger.predict([["bonarum", "parva"]])[0])
['N|Gen|Pl', 'A|Gen|Sg']
['A|Gen|Pl', 'A|Nom|Sg']
>>> tagger[-1].label_parts_.tolist()
['A', 'Gen', 'N', 'Nom', 'Pl', 'Sg']

``coef_`` contains the weights of the labels, ``part_coef_`` the weights of the parts. On Turkish morphology (981 tags)
parts raise the accuracy from 0.819 to 0.831, and a gradient takes 1.2 to 1.5 times
as long.

Hundreds of labels
------------------
Time and memory grow with the number of labels and of the patterns that occur. ``pruning=n`` lets each token keep n of
them: the best ones according to a model of order 0, called level 0, which is trained first and takes little time. All
others have probability 0. Training and prediction are then exact, conditional on each label being among those kept:

>>> tagger = make_pipeline(extractor, HighOrderCRF(1, pruning=3)).fit(X_words, y_words)
>>> tagger.predict([["bonarum", "parva"]])[0]
['N|Gen|Pl', 'A|Gen|Sg']
>>> (tagger.predict_proba([["bonarum", "parva"]])[0] > 0).sum(axis=1)
array([3, 3])

``pruning_recall_`` is the fraction of tokens whose true label was kept, in sentences that level 0 had not seen. If
labels are known, or constraints rule some out, the n best of the remaining labels are kept; a sentence without a
possible labelling keeps more. A labelling with a label that was not kept has a ``log_likelihood`` of -inf.
:class:`~sklearn_hocrf.settings.Pruning` describes the settings. Turkish morphology (981 tags; words and affixes of up
to 10 letters, sigma 3, 60 iterations, ``tests/benchmarks/bench_pruning.py``; training from raw words, in seconds):

=====================  ==========  ==========  ========
model                  training    words/s     accuracy
=====================  ==========  ==========  ========
order 1, all labels    50          48,000      0.8179
order 1, pruning=4     3.2         70,000      0.8197
order 1, pruning=6     3.5         61,000      0.8190
order 2, pruning=6     4.2         57,000      0.8187
order 3, pruning=6     4.5         58,000      0.8155
=====================  ==========  ==========  ========

Known labels, and labels that are missing
-----------------------------------------
Everywhere y may have holes: None (or ``missing_label``, such as -100) for any label, a set for one of several, None for
a whole sequence. Predictions accept such a y as ``known``, and ``log_likelihood`` returns the probability of any event:

>>> model = HighOrderCRF(constraints="bio").fit(X_names, y_names)
>>> known = [[None, "B-PER", None, None]]  # a name begins with the second token
>>> model.predict(line), model.predict(line, known=known)
([['B-PER', 'I-PER', 'O', 'B-PER']], [['O', 'B-PER', 'O', 'B-PER']])
>>> model.log_likelihood(line, known).round(2).tolist()
[-1.1]

scikit-learn's searches and ``cross_val_predict`` pass nothing on to predictions: use ``search.best_estimator_``, or
:func:`sklearn_hocrf.model_selection.cross_val_predict` with ``method_params={"known": known}``.

With holes in y, ``fit`` maximises the probability of the known labels, which is not a convex problem: it starts from
the fit on the runs of known labels. On 2,000 Spanish sentences, with features of words and parts of speech but no
affixes, F1 of names is 0.60 with all labels, 0.59 without 20 % of them, 0.53
without 50 % and 0.45 without 80 % (0.58, 0.52 and 0.41 on the known runs only). Completely unlabelled sentences have no
effect. If half of the names are unknown, F1 is 0.50, but 0.21 if they are treated as O. At least some O must be known:
if everything but the known names is unknown, the model finds names everywhere.

References
----------
N. Ye, W. S. Lee, H. L. Chieu, D. Wu: Conditional random fields with high-order features for sequence labeling. NIPS
2009.

N. V. Cuong, N. Ye, W. S. Lee, H. L. Chieu: Conditional random field with high-order dependencies for sequence labeling
and segmentation. JMLR 15, 2014, 981-1009.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from numbers import Integral
from typing import Any

import numpy as np

from ._docstrings import share_docstring
from ._estimator.base import BaseSequenceLabeler
from ._estimator.constraints import Constraints
from ._estimator.decoding import SegmentDecoding, TokenDecoding
from ._estimator.parameters import PARAMETER_CONSTRAINTS
from ._estimator.pattern_search import PatternSearch
from ._estimator.pruning import Pruning
from ._estimator.tag_segments import TagSegmentsMixin
from ._inference.families import CHAIN
from ._objectives import Objective
from ._structure.layout import LayoutBuilder, WeightLayout
from ._validation import (
    Holes,
    Reader,
    check_classes,
    has_holes,
    has_soft_labels,
    read_known_tokens,
    read_label_codes,
    read_labels,
    read_soft_targets,
    read_token_labels,
    read_token_targets,
)
from ._validation._sklearn import Interval

__all__ = ["HighOrderCRF"]


@share_docstring(BaseSequenceLabeler)
class HighOrderCRF(TagSegmentsMixin, BaseSequenceLabeler):
    """High-order conditional random field for sequence labelling.

    Given a sequence x, the probability of a labelling y is proportional to the exponential of a sum over positions t of

    * the weight of (label y_t, feature i) times the value of the feature, for each feature i of token t,
    * the weight of z, for each label pattern z that ends at t (the labels up to y_t end with z),
    * and, with ``feature_order``, the weights of pairs (pattern z, feature i) in the same way.

    A pattern of k + 1 labels has order k. ``max_order=1`` gives the usual linear-chain CRF, ``max_order=0`` logistic
    regression for each token. Training maximises the log-likelihood of the training labels minus a Gaussian penalty.
    The problem is convex, so the optimum is unique, and ``optimality_gap_`` bounds how far above it the fit ended.

    Parameters
    ----------
    max_order : int or None, default=1
        Highest order of the label patterns: a pattern has at most ``max_order + 1`` labels. None, which requires
        ``patterns="auto"``, means no limit: the search determines the highest useful order.
    sigma_reg, l1_reg : as in :class:`BaseSequenceLabeler`
    patterns : {"observed", "all", "auto"}, PatternSearch or iterable of tuples of labels, default="observed"
        "observed" selects the patterns that occur in the training labels, "all" every possible pattern (an error above
        a million). An iterable selects the given patterns and all single labels. "auto" chooses among the observed
        patterns by training: those that an L1 penalty keeps, which are then trained again without it. It is short for
        :class:`~sklearn_hocrf.settings.PatternSearch`, which has the settings.
    min_pattern_count, feature_order : as in :class:`BaseSequenceLabeler`
    min_pair_count : float, default=1
        (Pattern, feature) pairs with a lower count in the training data get no weight. Counts are weighted, and small
        values handled, as for ``min_pattern_count``. Ignored if ``all_pairs=True``.
    fit_intercept : as in :class:`BaseSequenceLabeler`
    all_pairs : bool, default=False
        Whether (pattern, feature) pairs that do not occur in the training data get a weight, too. A pair occurs where
        the feature is nonzero at the position at which the pattern ends.
    class_weight : dict, "balanced" or None, default=None
        Weights of labels; labels that are missing from a dict have weight 1. The weight of a sequence in the objective
        is its ``sample_weight`` times the mean label weight of its tokens. "balanced" gives a label the weight n /
        (n_classes * n_label), where n and n_label are numbers of tokens, weighted by ``sample_weight``. Unlike
        ``sample_weight``, class weights do not affect the counts behind ``min_pattern_count`` and
        ``min_pair_count``: counts describe the data, whereas class weights describe the cost of errors.
    constraints : {"bio", "bioes", "bilou", "bmes", "iob1"}, Constraints, callable or None, default=None
        Which labels may follow each other. A labelling that violates a constraint has probability 0, in training and in
        prediction. A training sequence that violates one is an error.

        * The name of a tagging scheme: labels are tags, and only tag sequences that are valid in the scheme are
          possible. :class:`HighOrderSemiCRF` describes the schemes. The strict form of "iob1" uses B only directly
          after a segment of the same label.
        * :class:`~sklearn_hocrf.settings.Constraints`: forbidden runs of labels, or allowed pairs, and the labels with
          which a sequence may begin and end.
        * A function of a label and the next one, which returns whether they may be neighbours. It is called once for
          each pair of labels; None represents the label before the first and after the last one.

    pruning : int, Pruning or None, default=None
        For hundreds of labels and more: how many of them each token keeps, according to a model of order 0 that is
        trained first. None keeps all. With a number, the time of training and prediction does not depend on the number
        of labels, and a label that a token does not keep has probability 0. See
        :class:`~sklearn_hocrf.settings.Pruning`. It requires the likelihood, a solver other than "newton-cg" and
        ``feature_order=0``, and cannot be combined with ``partial_fit`` or ``patterns="auto"``.
    label_parts, objective, penalty, solver, max_iter, tol, missing_label : as in :class:`BaseSequenceLabeler`
    warm_start, n_jobs, verbose, decoding, random_state : as in :class:`BaseSequenceLabeler`

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels, sorted.
    patterns_ : list of tuples of labels
        The label patterns, by order. The single labels come first, in the order of ``classes_``.
    pattern_coef_, coef_, label_parts_, part_coef_, automaton_ : as in :class:`BaseSequenceLabeler`
    n_features_in_, feature_names_in_, n_iter_ : as in :class:`BaseSequenceLabeler`
    intercept_, n_parameters_, n_passes_, objective_history_, optimality_gap_ : as in :class:`BaseSequenceLabeler`
    pattern_search_history_ : as in :class:`BaseSequenceLabeler`
    pruning_recall_ : float
        The fraction of tokens that keep their true label, in a tenth of the training sequences before level 0 was
        trained on them; nan if there is only one sequence. Defined only if ``pruning`` leaves labels out.

    See Also
    --------
    HighOrderSemiCRF : Label segments of several tokens, with features of whole segments.
    sklearn_hocrf.callback : Progress, early stopping and checkpoints of long fits.

    Notes
    -----
    The estimator is not a :class:`~sklearn.base.ClassifierMixin`, because its targets are sequences. It works in
    :class:`~sklearn.pipeline.Pipeline`, :class:`~sklearn.model_selection.GridSearchCV` and similar tools.

    With ``l1_reg``, the fitted model consists of the nonzero weights. Patterns of two or more labels without nonzero
    weights are removed from ``patterns_`` and from the automaton, and prediction stores no (pattern, feature) pairs
    with weight 0. All predictions equal those of the model with its zeros. Single labels are kept, as are the names and
    numbers of features. With ``l1_reg`` and ``sigma_reg=inf``, the optimum need not be unique.

    References
    ----------
    .. [1] Ye, Lee, Chieu and Wu, "Conditional random fields with high-order features for sequence labeling", NIPS 2009.
    .. [2] Cuong, Ye, Lee and Chieu, "Conditional random field with high-order dependencies for sequence labeling and
       segmentation", JMLR 15, 2014.
    .. [3] Andrew and Gao, "Scalable training of L1-regularized log-linear models", ICML 2007.

    Examples
    --------
    >>> from sklearn_hocrf import HighOrderCRF
    >>> X = [[{"word": "the"}, {"word": "old"}, {"word": "man"}], [{"word": "the"}, {"word": "man"}]]
    >>> y = [["DET", "ADJ", "NOUN"], ["DET", "NOUN"]]
    >>> crf = HighOrderCRF(max_order=2).fit(X, y)
    >>> crf.predict([[{"word": "the"}, {"word": "old"}, {"word": "house"}]])
    [['DET', 'ADJ', 'NOUN']]
    >>> crf.predict_marginals(X)[1].round(2)
    array([[0.2 , 0.59, 0.21],
           [0.2 , 0.21, 0.59]])
    >>> crf.patterns_[3:]
    [('ADJ', 'NOUN'), ('DET', 'ADJ'), ('DET', 'NOUN'), ('DET', 'ADJ', 'NOUN')]
    >>> crf.score(X, y)
    1.0
    """

    _family = CHAIN
    _layout_class = WeightLayout
    _parameter_constraints: dict = {
        **PARAMETER_CONSTRAINTS,
        "pruning": [Interval(Integral, 1, None, closed="left"), Pruning, None],
    }

    def __init__(
        self,
        max_order: int | None = 1,
        *,
        sigma_reg: float | Sequence[float] | Mapping[Any, float] = 1.0,
        l1_reg: float | Sequence[float] | Mapping[Any, float] = 0.0,
        patterns: str | Iterable[tuple] | PatternSearch = "observed",
        min_pattern_count: float = 1,
        feature_order: int | Mapping[str, Any] = 0,
        min_pair_count: float = 1,
        fit_intercept: bool = True,
        all_pairs: bool = False,
        class_weight: Mapping[Any, float] | str | None = None,
        constraints: str | Constraints | Callable[[Any, Any], bool] | None = None,
        pruning: int | Pruning | None = None,
        label_parts: Mapping[Any, Iterable] | Callable[[Any], Iterable] | None = None,
        objective: str | Objective = "likelihood",
        penalty: Any = None,
        solver: Any = "auto",
        max_iter: int = 500,
        tol: float = 3e-3,
        missing_label: Any = None,
        warm_start: bool = False,
        n_jobs: int | None = None,
        verbose: int = 0,
        decoding: str | TokenDecoding | SegmentDecoding = "viterbi",
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.max_order = max_order
        self.sigma_reg = sigma_reg
        self.l1_reg = l1_reg
        self.patterns = patterns
        self.min_pattern_count = min_pattern_count
        self.feature_order = feature_order
        self.min_pair_count = min_pair_count
        self.fit_intercept = fit_intercept
        self.all_pairs = all_pairs
        self.class_weight = class_weight
        self.constraints = constraints
        self.pruning = pruning
        self.label_parts = label_parts
        self.objective = objective
        self.penalty = penalty
        self.solver = solver
        self.max_iter = max_iter
        self.tol = tol
        self.missing_label = missing_label
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.decoding = decoding
        self.random_state = random_state

    def _read_training_targets(self, y, sequences, fixed=None):
        name = type(self).__name__
        lengths, holes = sequences.batch.lengths, Holes(self.missing_label)
        read = read_soft_targets if has_soft_labels(y) else read_token_targets
        return read(y, lengths, sequences.form, name, sequences.is_used, fixed, holes)

    def _read_label_set(self, y, sequences):
        name = type(self).__name__
        return read_token_labels(y, sequences.batch.lengths, sequences.form, name, sequences.is_used)

    def _check_classes(self, classes):
        return check_classes(classes)

    def _target_attributes(self, targets):
        return {"classes_": targets.labels}

    def _training_codes(self, targets):
        return targets.codes

    def _make_builder(self, targets, frame, rule):
        return LayoutBuilder(frame, rule, self.fit_intercept)

    def _read_truth(self, y, batch, form, unknown):
        return read_label_codes(y, batch.lengths, form, type(self).__name__, self.classes_, unknown=unknown)

    def _token_codes(self, decoded):
        return decoded

    def _are_right(self, decoded, truth):
        return decoded == truth

    def _has_holes(self, y, batch, form):
        return has_holes(read_labels(y, batch.lengths, form, type(self).__name__)[0], self.missing_label)

    def _read_known(self, known, batch, form, what="known", unknown="raise"):
        reader = Reader(self.classes_, self.missing_label, unknown)
        return read_known_tokens(known, batch.lengths, form, type(self).__name__, reader, what)

    def _class_marginals(self, batch, mask):
        with self._asked(batch, mask) as model:
            return model.marginals(batch, n_jobs=self.n_jobs, mask=mask)

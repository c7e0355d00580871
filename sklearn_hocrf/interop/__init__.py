"""Coming from other programs: models of CRFsuite, and what the settings of each program are called here.

:func:`from_crfsuite` turns a model of CRFsuite into a fitted :class:`~sklearn_hocrf.HighOrderCRF`, which gives the same
labels and probabilities, and answers more. Text models of CRF++ and Wapiti, and models of MALLET, cannot be read: train
them again. :func:`~sklearn_hocrf.datasets.load_conll` reads training files of CRF++ and Wapiti, and feature dicts are
those of CRFsuite.

From sklearn-crfsuite and CRFsuite; these rows are tested, by training both, but for those of "ap", "pa" and "arow"::

    c2                                  sigma_reg = (2 c2)^-0.5; of c2 = 0: inf
    c1                                  l1_reg
    (no weights of single labels)       fit_intercept=False
    all_possible_transitions            patterns="all"
    all_possible_states                 all_pairs=True
    min_freq                            min_pattern_count and min_pair_count; they count tokens, while CRFsuite adds
                                        up values, and leaves out features whose sums are 0 or negative
    max_iterations, epsilon             max_iter, tol, which is about the norm of the gradient: another criterion
    algorithm="l2sgd"                   solver="sgd"
    algorithm="ap"                      objective="perceptron"; other steps, other weights
    algorithm="pa", "arow"              none; objective="hinge" is near to "pa"
    feature dicts, lists of names       the same, with the same names
    crf.predict(X)                      crf.predict(X)
    crf.predict_marginals_single(x)     [dict(zip(crf.classes_, row)) for row in crf.predict_marginals([x])[0]]
    tagger.probability(labels)          numpy.exp(crf.log_likelihood([x], [labels]))
    crf.state_features_                 inspection.weights(crf, order=0), or crf.coef_ as a matrix
    crf.transition_features_            inspection.weights(crf, order=1), or pattern_coef_ beside patterns_
    flat_f1_score(y, y_pred, labels=l, average=a)   metrics.token_f1_score(y, y_pred, labels=l, average=a)
    seqeval's f1_score                  metrics.segment_f1_score(y, y_pred, scheme="bio"); see its docstring

From CRF++; the first row is tested where CRF++ is installed, the others are from the tool's documentation::

    -c C, with -a CRF-L2                sigma_reg = C^0.5
    -a CRF-L1                           l1_reg, sigma_reg=inf; a larger -c means a smaller l1_reg
    -a MIRA                             none
    -f n                                min_pair_count=n
    -m, -e                              max_iter, tol: another criterion
    U01:%x[-1,0]/%x[0,1]                SequenceFeatureExtractor(templates=[((0, -1), (1, 0))]): (field, offset)
    B                                   max_order=1
    B01:%x[0,0]                         feature_order, by prefixes of the features' names
    crf_test -v1, -v2                   predict_marginals
    crf_test -n N                       predict_nbest(X, N)
    conlleval                           metrics.segment_classification_report(y, y_pred, scheme="bio")

From Wapiti; from the tool's documentation::

    -1 rho1, -2 rho2                    l1_reg = rho1, sigma_reg = rho2^-0.5
    -a l-bfgs, sgd-l1                   solver="lbfgs" or, with l1_reg, "owlqn"; "adagrad"
    -a bcd, rprop                       none
    -i, -e                              max_iter, tol: another criterion
    u:, b:, *:                          feature_order of 0, of exactly 1, of 0 and 1, by prefixes of names
    label --score                       log_likelihood; with --post: predict_marginals
    label --post                        decoding="token"
    label --force                       predict(X, known=...)
    label -n N                          predict_nbest(X, N)
    dump                                coef_, pattern_coef_, patterns_

From MALLET's SimpleTagger; from the tool's documentation::

    --gaussian-variance v               sigma_reg = v^0.5
    --iterations                        max_iter
    --orders 1,2                        max_order=2
    --fully-connected true, false       patterns="all", "observed"
    --n-best N                          predict_nbest(X, N)

What users of other tools ask for, by the threads of these tools, and the lines that answer it here::

    the n best, with probabilities      for c in crf.predict_nbest([x], 10)[0]: c.labels, c.log_probability
      (crfsuite#84, NCRFpp#40,          those that keep a rule: predict_nbest(X, 10, accept=each_field_once), see below;
      mindmeld#421)                     different segmentations: predict_nbest of a HighOrderSemiCRF
    some labels are known beforehand    crf.predict(X, known=[[None, "B-PER", None]])
      (crfsuite#96)
    labels are missing in training      crf.fit(X, y), where y has None, or sets such as {"B-LOC", "B-ORG"}
      (hmmlearn#173, #568,
      pytorch-partial-crf#13)
    segments that are too short         HighOrderSemiCRF(min_segment_length={"exon": 3})
      (Helixer#138, hmmlearn#173)
    labels that may not follow          HighOrderCRF(constraints=settings.Constraints(forbid=[("REM", "W", "REM")]));
      (U-Time#49)                       for tags: constraints="bio"
    recall before precision             HighOrderCRF(decoding=settings.TokenDecoding(cost={("B-PER", "O"): 5}))
      (flair#642)
    argmax differs from Viterbi         HighOrderCRF(decoding="token")
      (pytorch-crf#36, flair#3070,
      flair#3469)
    a threshold for entities            HighOrderCRF(decoding=settings.SegmentDecoding(threshold=0.8))
      (flair#3575)
    the probability of an entity        crf.predict_segments(X, with_probability=True); with another label, or a part
      (edsnlp#377)                      of its tokens: crf.log_likelihood(X, y) of a y with holes
    sets of labels that hold the truth  not yet: conformal prediction
      (GLiNER#374)
    spans that cut tokens               text.tags_from_spans(tokenized, spans, misaligned="expand")
      (label-studio-converter#15, #254)
    keeping a model                     skops.io.dump(pipe, path); pickle.dumps(pipe)
      (sklearn-crfsuite#5, #50, #65)
    why this label?                     inspection.explain(pipe, X, sequence=0, position=3)
      (python-crfsuite#99)
    weights as a table                  inspection.weights(pipe, label="B-PER", top=20)
      (eli5#77, sklearn-crfsuite#34)
    a confusion matrix of entities      metrics.segment_confusion(y, y_pred, scheme="bio")
      (seqeval#37)
    nested or overlapping entities      not yet: segments tile a sequence
    training on a GPU                   no: kernels are for processors

A rule for ``accept``, each field at most once in a sequence of labels whose runs are the fields:

>>> from itertools import groupby
>>> def each_field_once(labels):
...     fields = [label for label, _ in groupby(labels)]
...     return len(fields) == len(set(fields))
>>> each_field_once(["author", "author", "title"]), each_field_once(["author", "title", "author"])
(True, False)
"""

from ._crfsuite import from_crfsuite

__all__ = ["from_crfsuite"]

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
    all_possible_states                 unsupported=True
    min_freq                            min_pattern_count and min_feature_count; they count tokens, while CRFsuite adds
                                        up values, and leaves out features whose sums are 0 or negative
    max_iterations, epsilon             max_iter, tol, which is about the norm of the gradient: another criterion
    algorithm="l2sgd"                   solver="sgd"
    algorithm="ap"                      objective="perceptron"; other steps, other weights
    algorithm="pa", "arow"              none; objective="hinge" is near to "pa"
    feature dicts, lists of names       the same, with the same names
    crf.predict(X)                      crf.predict(X)
    crf.predict_marginals_single(x)     [dict(zip(crf.classes_, row)) for row in crf.predict_marginals([x])[0]]
    tagger.probability(labels)          numpy.exp(crf.log_likelihood([x], [labels]))
    crf.state_features_                 crf.coef_, of shape (patterns, attributes), with patterns_, feature_names_in_
    crf.transition_features_            dict(zip(crf.patterns_, crf.pattern_coef_)), of the pairs among them
    flat_f1_score(y, y_pred, labels=l, average=a)   metrics.token_f1_score(y, y_pred, labels=l, average=a)
    seqeval's f1_score                  metrics.segment_f1_score(y, y_pred, encoding="bio"); see its docstring

From CRF++; the first row is tested where CRF++ is installed, the others are from the tool's documentation::

    -c C, with -a CRF-L2                sigma_reg = C^0.5
    -a CRF-L1                           l1_reg, sigma_reg=inf; a larger -c means a smaller l1_reg
    -a MIRA                             none
    -f n                                min_feature_count=n
    -m, -e                              max_iter, tol: another criterion
    U01:%x[-1,0]/%x[0,1]                SequenceFeatureExtractor(templates=[((0, -1), (1, 0))]): (field, offset)
    B                                   max_order=1
    B01:%x[0,0]                         feature_order, by prefixes of the features' names
    crf_test -v1, -v2                   predict_marginals
    crf_test -n N                       predict_nbest(X, N)
    conlleval                           metrics.segment_classification_report(y, y_pred, encoding="bio")

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
"""

from ._crfsuite import from_crfsuite

__all__ = ["from_crfsuite"]

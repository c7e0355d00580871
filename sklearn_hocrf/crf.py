"""High-order conditional random fields: one label per token, with weights for label patterns of any length.

A model learns weights for those label patterns of up to ``max_order + 1`` labels that occur in the training data. Time
grows with the number of patterns and the number of states (prefixes of patterns), not with the number of labels to the
power of the order. A fitted model offers these methods:

==============================================  =====================================================================
``predict(X)``                                  the most probable label sequences, in the form that y had in ``fit``
``predict_marginals(X)``, ``predict_proba``     a list of arrays (tokens, labels): the probability of each label
``score(X, y)``                                 the share of tokens with the correct label
``log_likelihood(X, y)``                        ln P(y given x) of each sequence
``pattern_marginals(X, patterns)``              the probability that a label pattern ends at a token, for all tokens
``predict_nbest(X, n)``                         the n best labellings, with their scores and log-probabilities
``sample(X, n_samples)``                        labellings drawn from their distribution
``entropy(X)``                                  the uncertainty of each sequence or token, in nats
``predict_segments(X, threshold=)``             segments that tags describe, and their probabilities
==============================================  =====================================================================

>>> from sklearn_hocrf import HighOrderCRF
>>> X = [[["Ann"], ["Lee"], ["met"], ["Bob"]], [["met"], ["Ann"]]]
>>> y = [["B-PER", "I-PER", "O", "B-PER"], ["O", "B-PER"]]
>>> model = HighOrderCRF(constraints="bio").fit(X, y)
>>> for start, stop, label, p in model.predict_segments(X[:1], with_probability=True)[
...     0
... ].tolist():
...     print(start, stop, label, round(p, 2))
0 2 PER 0.51
3 4 PER 0.66

User guide: https://sklearn-hocrf.github.io/sklearn-hocrf/stable/guide/order.html,
https://sklearn-hocrf.github.io/sklearn-hocrf/stable/guide/answers.html,
https://sklearn-hocrf.github.io/sklearn-hocrf/stable/guide/many_labels.html.

References
----------
N. Ye, W. S. Lee, H. L. Chieu, D. Wu: Conditional random fields with high-order features for sequence labeling. NIPS
2009.

N. V. Cuong, N. Ye, W. S. Lee, H. L. Chieu: Conditional random field with high-order dependencies for sequence labeling
and segmentation. JMLR 15, 2014, 981-1009.
"""

from __future__ import annotations

from ._estimator.token_labeler import HighOrderCRF

__all__ = ["HighOrderCRF"]

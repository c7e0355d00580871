"""Scores as input and gradients as output, against enumeration."""

import doctest
import itertools
import re
from pathlib import Path

import numpy as np
import pytest
from refusals import refusals

from sklearn_hocrf.scores import posterior, sequence_log_likelihood


def total(scores, labels, patterns, history="tokens"):
    """Return the score of one labelling, by counting."""
    weights = []
    for t in range(len(labels)):
        before = labels[: t + 1]
        if history == "segments":  # a token that stays ends with its label and the pair of it alone
            stays = t and labels[t] == labels[t - 1]
            before = [labels[t]] * 2 if stays else [label for label, _ in itertools.groupby(before)]
        weights += [weight for pattern, weight in patterns.items() if tuple(before[-len(pattern) :]) == pattern]
    return sum(scores[t, label] for t, label in enumerate(labels)) + sum(weights)


def enumerated(scores, patterns, history):
    labellings = list(itertools.product(range(scores.shape[1]), repeat=len(scores)))
    return labellings, np.array([total(scores, labels, patterns, history) for labels in labellings])


def draw(seed, history="tokens"):
    """Return scores, labels, patterns and lengths; empty sequences, one label, forbidden runs and labels occur."""
    random = np.random.default_rng(seed)
    n_labels = int(random.integers(1, 4))
    lengths = random.integers(0, 5, size=random.integers(1, 4))
    scores = random.normal(size=(lengths.sum(), n_labels)) * random.choice([1, 30])
    patterns = {}
    for _ in range(random.integers(0, 6)):
        pattern = tuple(random.integers(n_labels, size=random.integers(1, 5)).tolist())
        if history == "tokens" or len(pattern) < 3 or all(a != b for a, b in itertools.pairwise(pattern)):
            patterns[pattern] = float(random.normal())
    for pattern in [pattern for pattern in patterns if len(pattern) > 1 and seed % 3 == 0][:1]:
        patterns[pattern] = -np.inf
    if seed % 4 == 0 and n_labels > 1:
        scores[random.random(scores.shape) < 0.15] = -np.inf
    bounds = np.cumsum(lengths)
    y = []
    for part in np.split(scores, bounds[:-1]):
        labellings, values = enumerated(part, patterns, history)
        possible = [labels for labels, value in zip(labellings, values, strict=True) if value > -np.inf]
        if not possible:
            return draw(seed + 1000, history)
        y += possible[random.integers(len(possible))]
    return scores, np.array(y, dtype=int), patterns, lengths


@pytest.mark.parametrize("history", ["tokens", "segments"])
@pytest.mark.parametrize("seed", range(40))
def test_enumeration(seed, history):
    scores, y, patterns, lengths = draw(seed, history)
    found = sequence_log_likelihood(scores, y, patterns, lengths, history=history)
    bounds = np.cumsum(lengths)[:-1]
    gradient, marginals = np.zeros(len(patterns)), []
    for n, (part, labels) in enumerate(zip(np.split(scores, bounds), np.split(y, bounds), strict=True)):
        labellings, values = enumerated(part, patterns, history)
        log_z = np.logaddexp.reduce(values)
        np.testing.assert_allclose(found.log_likelihood[n], total(part, labels, patterns, history) - log_z, atol=1e-9)
        p = np.exp(values - log_z)
        for k, pattern in enumerate(patterns):
            if patterns[pattern] > -np.inf:
                zero = np.zeros_like(part)
                counts = np.array([total(zero, one, {pattern: 1.0}, history) for one in labellings])
                gradient[k] += total(zero, labels.tolist(), {pattern: 1.0}, history) - p @ counts
        one_hot = np.eye(part.shape[1])
        expected = sum((q * one_hot[list(one)] for q, one in zip(p, labellings, strict=True)), np.zeros(part.shape))
        marginals.append(one_hot[labels] - expected)
    np.testing.assert_allclose(found.pattern_gradient, gradient, atol=1e-9)
    np.testing.assert_allclose(found.score_gradient, np.concatenate(marginals), atol=1e-9)


PAGE = Path(__file__).resolve().parents[2] / "docs" / "guide" / "scores.md"


def test_the_page():
    assert doctest.testfile(str(PAGE), module_relative=False).failed == 0


def test_the_recipe_for_torch(capsys):
    """Its gradients are those of finite differences, and what the page prints is what it says."""
    torch = pytest.importorskip("torch")
    recipe, use = [code for code in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL) if "torch." in code]
    names = {}
    exec(recipe + use, names)  # the code of the page
    assert f"```text\n{capsys.readouterr().out}```" in PAGE.read_text()
    scores, y, patterns, lengths = draw(5)
    tensors = [
        torch.tensor(numbers, dtype=torch.float64, requires_grad=True) for numbers in (scores, [*patterns.values()])
    ]

    def loss(scores, weights):
        return names["SequenceLoss"].apply(scores, weights, torch.from_numpy(y), list(patterns), lengths)

    assert torch.autograd.gradcheck(loss, tensors)
    likelihood = sequence_log_likelihood(scores, y, patterns, lengths)
    assert loss(*tensors).item() == pytest.approx(-likelihood.log_likelihood.sum())


test_refusals = refusals(
    (lambda args: sequence_log_likelihood(*args),
     ("label 2 at token 0, but labels are 0 to 1", ([[0.0, 1.0]], [2], {}, None)),
     ("y must be 1 integers", ([[0.0, 1.0]], [0.0], {}, None), ([[0.0, 1.0]], [0, 1], {}, None)),
     (r"a label pattern must be a tuple of one or more labels, got \(\)", ([[0.0, 1.0]], [0], {(): 1.0}, None)),
     ("must be a finite number, or -inf for two or more labels", ([[0.0, 1.0]], [0], {(0,): -np.inf}, None)),
     ("sequence 0: its labels y are forbidden", ([[0.0, 1.0], [0.0, 1.0]], [0, 1], {(0, 1): -np.inf}, [2])),
     ("sequence 1: its labels y are forbidden", ([[0.0, 1.0], [-np.inf, 1.0]], [0, 0], {}, [1, 1]))),
    (lambda: posterior([[0.0, 1.0]], {(0, 1, 1): 1.0}, history="segments"),
     r"pattern \(0, 1, 1\) cannot occur with history='segments'"),
    (lambda: posterior(np.zeros((3, 2)), {(a, b): -np.inf for a in (0, 1) for b in (0, 1)}, lengths=[1, 2]).predict(),
     "sequence 1: the model forbids every labelling"),
)  # fmt: skip

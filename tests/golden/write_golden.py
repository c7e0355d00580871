"""Write the golden files of this folder:  ``python tests/golden/write_golden.py``.

Every file holds a model and what is known about it. Keys ending in ``_printed`` are digits of a publication, typed in
by hand with their source; all other numbers come from the enumeration of tests/segment_oracle.py.
"""

import json
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import segment_oracle as so  # noqa: E402  (found only after the line above)

SENTENCE = ["Peter", "goes", "to", "Britain", "and", "France", "annually", "."]
LABELS = "POL"
LABEL_OF_WORD = dict(zip(SENTENCE, "POOLOLOO", strict=True))
LOL = (2, 1, 2)

PRINTED_CONDITIONAL = [
    [0.58, 0.21, 0.21, 0],
    [0.21, 0.58, 0.21, 0],
    [0.21, 0.58, 0.21, 0.03],
    [0.16, 0.16, 0.68, 0.08],
    [0.16, 0.68, 0.16, 0.01],
    [0.16, 0.16, 0.68, 0.39],
    [0.21, 0.58, 0.21, 0.01],
    [0.21, 0.58, 0.21, 0.08],
]
PRINTED_UNCONDITIONAL = [
    [0.55, 0.20, 0.24, 0],
    [0.18, 0.52, 0.30, 0],
    [0.18, 0.60, 0.23, 0.06],
    [0.14, 0.15, 0.71, 0.19],
    [0.15, 0.68, 0.17, 0.02],
    [0.14, 0.15, 0.72, 0.43],
    [0.18, 0.62, 0.19, 0.02],
    [0.19, 0.50, 0.31, 0.20],
]


def main():
    words = {(word, (LABELS.index(y),)): 1.0 for word, y in LABEL_OF_WORD.items()}
    rows = [{word: 1.0} for word in SENTENCE]
    source = "Cuong, Ye, Lee and Chieu, JMLR 15 (2014) 981-1009, Appendix B"
    write(
        "jmlr_appendix_b",
        so.chain(3, {}, {**words, ("France", LOL): 1.0}),
        rows,
        [LOL],
        source=source + ": LOL is active at position 6 (France) only, as in its Table 11; marginals of P, O, L, LOL",
        log_partition_printed=12.696,
        marginals_printed=PRINTED_CONDITIONAL,
    )
    write(
        "jmlr_appendix_b_unconditional",
        so.chain(3, {LOL: 1.0}, words),
        rows,
        [LOL],
        source=source + ", as its text says it: LOL is active everywhere; digits from a separate enumeration",
        log_partition_printed=13.0254,
        marginals_printed=PRINTED_UNCONDITIONAL,
    )
    switches = {(0, 1): -1000.0, (1, 0): -1000.0}
    halves = {("first", (1,)): -400.0, ("last", (0,)): -400.0, ("last", (1,)): 150.0}
    write(
        "underflow",
        so.chain(2, switches, halves),
        [{"first": 1.0}] * 3 + [{"last": 1.0}] * 3,
        [],
        source="constructed: the path that is out of the running for three positions is the one that wins; "
        "scaled forward passes that lose it say -1200",
        log_partition_printed=-550.0,
    )


def write(name, model, rows, patterns, **figures):
    """Write one golden file: the model, the digits known from elsewhere, and the enumerated quantities."""
    labels = [(y,) for y in range(model.n_labels)]
    sequence = so.tokens(rows)
    best, paths = so.best_segmentations(model, sequence)
    probability = so.distribution(model, sequence)
    content = {
        "n_labels": model.n_labels,
        "patterns": [[list(z), w] for z, w in model.patterns.items()],
        "features": [[f, list(z), w] for (f, z), w in model.features.items()],
        "rows": rows,
        "asked": [list(z) for z in patterns],
        **figures,
        "log_partition": so.log_partition(model, sequence),
        "marginals": so.pattern_marginals(probability, len(rows), labels + patterns),
        "best_score": best,
        "best_paths": sorted([y for _, _, y in path] for path in paths),
    }
    lines = ",\n".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in content.items())
    (HERE / f"{name}.json").write_text("{\n" + lines + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()

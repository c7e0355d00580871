"""Write the models of this folder, once for each release: ``PYTHONPATH=.:tests python tests/golden/write_models.py``.

The program writes one skops file for a CRF and one for a semi-CRF, with transformers and estimator, and one JSON file
with the labels and probabilities of both. Later versions must load these files and give the same results. The steps are
in a list, because files of scikit-learn's pipelines require the version of scikit-learn that wrote them.
"""

import json
import warnings
import zipfile
from pathlib import Path

import saved_models
import skops.io

import sklearn_hocrf

HERE = Path(__file__).resolve().parent
KINDS = {"crf": "default extractor", "semicrf": "texts"}  # names of models in saved_models


def main():
    warnings.simplefilter("ignore")  # not converged
    answers = {}
    for kind, name in KINDS.items():
        model, X = saved_models.fitted(name)
        steps = [step for _, step in model.steps]
        file = HERE / f"{kind}-{sklearn_hocrf.__version__}.skops"
        skops.io.dump(steps, file, compression=zipfile.ZIP_DEFLATED)
        answers[kind] = {
            "X": X,
            "labels": model.predict(X),
            "marginals": [table.tolist() for table in model.predict_marginals(X)],
        }
    path = HERE / f"answers-{sklearn_hocrf.__version__}.json"
    path.write_text(json.dumps(answers, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

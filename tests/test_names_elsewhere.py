"""Names of other libraries are answered by ours, which exist; all other names behave as in any class or module."""

import copy
import importlib
import inspect
import pickle
import re
from operator import attrgetter
from pathlib import Path

import numpy as np
import pytest
from internals import _names_elsewhere as tables

import sklearn_hocrf
from sklearn_hocrf import HighOrderCRF, HighOrderSemiCRF
from sklearn_hocrf.tagger import Tagger, export_tagger

X, Y = [[["a"], ["b"]], [["b"]]], [["A", "B"], ["B"]]
PAGES = Path(__file__).resolve().parents[1] / "docs" / "guide"
PAGE = "".join((PAGES / name).read_text(encoding="utf-8") for name in ("migration.md", "hmmlearn.md"))
# what other libraries have; of those that are installed, a test compares the lists
words = str.split
CRFSUITE = words(
    """algorithm min_freq all_possible_states all_possible_transitions c1 c2 max_iterations num_memories epsilon
    period delta linesearch max_linesearch calibration_eta calibration_rate calibration_samples
    calibration_candidates calibration_max_trials pa_type c error_sensitive averaging variance gamma trainer_cls
    model_filename keep_tempfiles feature.minfreq feature.possible_states feature.possible_transitions order"""
)
HMMLEARN = words(
    """n_components n_mix covariance_type min_covar startprob_prior transmat_prior emissionprob_prior
    means_prior means_weight covars_prior covars_weight weights_prior n_iter params init_params implementation
    n_trials"""
)
OF_TAGGER = words("""close dump info labels marginal open open_inmemory probability set tag""")
OF_TRAINER = words(
    """append clear get get_params help logparser message on_end on_featgen_end on_featgen_progress on_iteration
    on_optimization_end on_prepare_error on_prepared on_start params select set set_params train verbose"""
)
OF_CRF = words(
    """attributes_ classes_ fit get_params num_attributes_ predict predict_marginals predict_marginals_single
    predict_single score set_params size_ state_features_ tagger_ transition_features_ training_log_
    modelfile"""
)
OF_HMM = words(
    """aic bic covars_ decode emissionprob_ fit get_stationary_distribution means_ monitor_ predict sample score
    score_samples startprob_ transmat_ weights_"""
)
OF_MODULES = {
    "sklearn_hocrf": words(
        """CRF metrics scorers utils Trainer BaseTrainer Tagger ItemSequence CRFSuiteError hmm GaussianHMM
        GMMHMM CategoricalHMM MultinomialHMM PoissonHMM"""
    ),
    "sklearn_hocrf.metrics": words(
        """flat_accuracy_score flat_classification_report flat_f1_score flat_fbeta_score flat_precision_score
        flat_recall_score flatten sequence_accuracy_score flat_accuracy sequence_accuracy accuracy_score
        classification_report f1_score performance_measure precision_score recall_score
        precision_recall_fscore_support get_entities extract_segments IOB1 IOB2 IOBES BILOU IOE1 IOE2"""
    ),
    "sklearn_hocrf.tagger": words("""Trainer BaseTrainer ItemSequence CRFSuiteError Tagger CRF"""),
}
IMPORTED = [(module, name) for module, names in OF_MODULES.items() for name in names]


@pytest.fixture(scope="module")
def fitted():
    return HighOrderCRF(max_iter=1, tol=1e9).fit(X, Y)


@pytest.fixture(scope="module")
def tagger(fitted, tmp_path_factory):
    path = tmp_path_factory.mktemp("tagger") / "model.hocrf"
    export_tagger(fitted, path)
    return Tagger(path)


def ours(message):
    """Return the name after "here:" in a message, without its owner in parentheses."""
    assert len(message) <= 400
    return re.search(r"here: ([\w.]+)", message)[1]


@pytest.mark.parametrize("estimator", [HighOrderCRF, HighOrderSemiCRF])
@pytest.mark.parametrize("name", [*CRFSUITE, *HMMLEARN, "class_weight"])
def test_parameters(estimator, name):
    answer = f"{estimator.__name__} has no {name}, a name of other programs; here: "
    with pytest.raises(TypeError, match=answer) as caught:
        estimator(**{name: 1})
    with pytest.raises(ValueError, match=answer):
        estimator().set_params(**{name: 1})
    with pytest.raises(AttributeError, match=answer):
        getattr(estimator(), name)
    allowed = {*inspect.signature(estimator).parameters, "there", "pickle", "as", "nothing", "sample_weight"}
    assert ours(str(caught.value)) in allowed


@pytest.mark.parametrize("name", sorted({*OF_TAGGER, *OF_TRAINER, *OF_CRF, *OF_HMM, *tables.ATTRIBUTES}))
def test_attributes(name, fitted):
    if hasattr(fitted, name):
        assert name not in tables.ATTRIBUTES
        return
    for crf in HighOrderCRF(), fitted:
        assert not hasattr(crf, name)
        assert getattr(crf, name, 3) == 3
        assert name not in dir(crf)
        with pytest.raises(AttributeError, match=f"HighOrderCRF has no {name}, a name of other programs; here: ") as e:
            getattr(crf, name)
    our = ours(str(e.value))
    assert our in ("tagger.export_tagger", "tagger.Tagger", "nothing", "as", "there", "verbose") or hasattr(crf, our)


def test_taggers(tagger):
    with pytest.raises(TypeError, match=r"here: Tagger\(path\)"):
        Tagger()
    with pytest.raises(AttributeError, match="object has no attribute 'nonsense'"):
        tagger.nonsense  # noqa: B018
    assert list(inspect.signature(Tagger).parameters) == ["path", "mmap", "functions"]
    assert tagger.tag(X[0]) == tagger.predict(X[0])  # as python-crfsuite calls it
    for twin in copy.copy(tagger), copy.deepcopy(tagger), pickle.loads(pickle.dumps(tagger)):
        assert twin.predict(X[0]) == tagger.predict(X[0])


@pytest.mark.parametrize(("module", "name"), IMPORTED)
def test_imports(module, name):
    """The text reaches the user of either style, and only an import of the name is an ImportError."""
    imported = importlib.import_module(module)
    if hasattr(imported, name):
        assert name not in tables.MODULES or (module, name) == ("sklearn_hocrf.tagger", "Tagger")
        return
    assert getattr(imported, name, 3) == 3
    assert name not in dir(imported)
    message = f"^module '{module}' has no {name}, a name of other programs; here: "
    with pytest.raises(AttributeError, match=message) as e:
        getattr(imported, name)
    for code in f"from {module} import {name}", f"def f():\n    from {module} import __name__, {name} as x\nf()":
        with pytest.raises(ImportError, match=message) as raised:
            exec(code, {})
        assert type(raised.value) is ImportError
        assert raised.value.name == module
    owner, _, names = ours(str(e.value)).partition(".")
    if names:
        known = getattr(sklearn_hocrf, owner) if owner in sklearn_hocrf.__all__ else importlib.import_module(owner)
        assert attrgetter(names)(known)
    else:
        assert owner in ("HighOrderCRF", "scheme", "a", "ValueError")


@pytest.mark.parametrize("module", OF_MODULES)
def test_unknown_imports(module):
    imported = importlib.import_module(module)
    with pytest.raises(ImportError, match="^cannot import name 'nonsense'"):
        exec(f"from {module} import nonsense", {})
    with pytest.raises(AttributeError, match=f"^module '{module}' has no attribute 'nonsense'$"):
        imported.nonsense  # noqa: B018


@pytest.mark.parametrize(
    ("names", "library"),
    [
        (OF_TAGGER, "pycrfsuite:Tagger"),
        (OF_TRAINER, "pycrfsuite:Trainer"),
        (OF_CRF, "sklearn_crfsuite:CRF"),
        (OF_MODULES["sklearn_hocrf"], "pycrfsuite"),
        (OF_MODULES["sklearn_hocrf.metrics"], "sklearn_crfsuite.metrics"),
        (OF_MODULES["sklearn_hocrf.metrics"], "sklearn_crfsuite.scorers"),
        (OF_MODULES["sklearn_hocrf.metrics"], "seqeval.metrics"),
        ([*OF_HMM, "predict_proba", "get_params", "set_params"], "hmmlearn.hmm:GaussianHMM"),
    ],
)
def test_lists_are_complete(names, library):
    module, _, name = library.partition(":")
    found = pytest.importorskip(module)
    found = getattr(found, name) if name else found
    public = {each for each in dir(found) if not each.startswith("_") and not inspect.ismodule(getattr(found, each))}
    public -= {"CRFSUITE_VERSION", "wraps", "make_scorer", "get_metadata_routing", "set_fit_request"}
    assert public - {each for each in public if each.startswith("set_") and each.endswith("_request")} <= {*names}


def test_the_page_has_all_names():
    """What the errors say is on the page, name by name: theirs, and the first one of ours."""
    spans = " ".join(re.findall(r"`+([^`]+)`+", PAGE))
    words = {*re.findall(r"[\w.]+", spans), *re.findall(r"\w+", spans)}
    given = (tables.PARAMETERS, tables.METHOD_PARAMETERS, tables.ATTRIBUTES, tables.TAGGER, tables.MODULES)
    names = {name for table in given for name in table if not name.startswith("on_")}
    assert names - words - {"extract_segments"} == set()
    answers = {re.match(r"(?:sklearn\.metrics\.)?([\w.]+)", answer)[1] for table in given for answer in table.values()}
    assert (
        answers - {"there"} - {*re.findall(r"[\w.]+", PAGE), *re.findall(r"\w+", PAGE.lower()), *dir(Tagger)} == set()
    )


@pytest.mark.parametrize("arguments", [{"X_dev": X, "y_dev": Y}, {"y_dev": Y}, (X, Y)])
def test_held_out_data_of_fit(arguments):
    args, options = (arguments, {}) if isinstance(arguments, tuple) else ((), arguments)
    with pytest.raises(TypeError, match=r"training\.EarlyStopping\(X_dev, y_dev\)"):
        HighOrderCRF().fit(X, Y, *args, **options)
    assert list(inspect.signature(HighOrderCRF.fit).parameters) == ["self", "X", "y", "sample_weight"]


def test_lengths_and_class_weight(fitted):
    table, lengths = np.ones((5, 2)), [2, 3]
    calls = [
        lambda: fitted.fit(table, lengths=lengths),
        lambda: fitted.predict(table, lengths),
        lambda: fitted.predict(table, lengths=lengths),
        lambda: fitted.score(table, lengths=lengths),
    ]
    for call in calls:
        with pytest.raises(TypeError, match=r"has no lengths, .*here: X as a list of sequences: np\.split"):
            call()
    with pytest.raises(TypeError, match=r"HighOrderCRF\.fit has no class_weight, .*predict_segments\(X, threshold"):
        fitted.fit(X, Y, class_weight="balanced")
    assert [len(x) for x in np.split(table, np.cumsum(lengths)[:-1])] == lengths
    assert list(inspect.signature(HighOrderCRF.predict).parameters) == ["self", "X", "known"]


def test_item_sequences(fitted, tagger):
    crfsuite = pytest.importorskip("pycrfsuite")
    items = crfsuite.ItemSequence(X[0])
    calls = [lambda: fitted.fit([items], Y[:1]), lambda: fitted.predict([items]), lambda: tagger.predict(items)]
    for call in calls:
        with pytest.raises(TypeError, match=r"pass its items\(\)$"):
            call()
    with pytest.raises(TypeError, match=r"pass \[X\.items\(\)\]$"):
        fitted.predict(items)
    assert fitted.predict([items.items()])[0] == tagger.predict(items.items()) == fitted.predict(X[:1])[0]

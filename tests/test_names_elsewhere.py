"""Names of sklearn-crfsuite are answered by ours, which exist; all other names behave as in any class."""

import copy
import inspect
import pickle
import re

import pytest
from internals import names_elsewhere
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

from sklearn_hocrf import HighOrderCRF, HighOrderSemiCRF, make_pipeline

X, Y = [[["a"], ["b"]], [["b"]]], [["A", "B"], ["B"]]
CRFSUITE = """algorithm min_freq all_possible_states all_possible_transitions c1 c2 max_iterations num_memories epsilon
period delta linesearch max_linesearch calibration_eta calibration_rate calibration_samples calibration_candidates
calibration_max_trials pa_type c error_sensitive averaging variance gamma trainer_cls model_filename keep_tempfiles
feature.minfreq feature.possible_states feature.possible_transitions order"""


@pytest.mark.parametrize("estimator", [HighOrderCRF, HighOrderSemiCRF])
@pytest.mark.parametrize("name", CRFSUITE.split())
def test_parameters(estimator, name):
    answer = f"{estimator.__name__} has no {name}, a name of other programs; here: "
    with pytest.raises(TypeError, match=answer) as caught:
        estimator(**{name: 1})
    with pytest.raises(ValueError, match=answer):
        estimator().set_params(**{name: 1})
    ours = re.search(r"here: (\w+)", str(caught.value))[1]
    assert ours in (*inspect.signature(estimator).parameters, "there", "pickle")


def test_searches_over_their_names():
    with pytest.raises(ValueError, match="here: l1_reg"):
        GridSearchCV(HighOrderCRF(), {"c1": [0.1]}, cv=2, error_score="raise").fit(X, Y)


@pytest.mark.parametrize("name", names_elsewhere.ATTRIBUTES)
def test_attributes(name):
    for crf in HighOrderCRF(), HighOrderCRF(max_iter=1, tol=1e9).fit(X, Y):
        assert not hasattr(crf, name)
        assert getattr(crf, name, 3) == 3
        assert name not in dir(crf)
        with pytest.raises(AttributeError, match=f"HighOrderCRF has no {name}, a name of other programs; here: ") as e:
            getattr(crf, name)
    ours = re.search(r"here: (\w+)", str(e.value))[1]
    assert ours == "tagger" or hasattr(crf, ours)


@pytest.mark.parametrize("name", names_elsewhere.ATTRIBUTES)
def test_attributes_of_pipelines(name):
    for pipe in (
        make_pipeline(HighOrderCRF()),
        make_pipeline(make_pipeline(HighOrderCRF(max_iter=1, tol=1e9)).fit(X, Y)),
    ):
        assert not hasattr(pipe, name)
        with pytest.raises(AttributeError, match=f"HighOrderCRF has no {name}, a name of other programs; here: "):
            getattr(pipe, name)
    with pytest.raises(AttributeError, match="object has no attribute 'nonsense'"):
        pipe.nonsense  # noqa: B018


@pytest.mark.parametrize("arguments", [{"X_dev": X, "y_dev": Y}, {"y_dev": Y}, (X, Y)])
def test_held_out_data_of_fit(arguments):
    args, options = (arguments, {}) if isinstance(arguments, tuple) else ((), arguments)
    with pytest.raises(TypeError, match=r"training\.EarlyStopping\(X_dev, y_dev\)"):
        HighOrderCRF().fit(X, Y, *args, **options)
    assert list(inspect.signature(HighOrderCRF.fit).parameters) == ["self", "X", "y", "sample_weight"]


def test_other_names_are_as_ever():
    """Messages of properties and of unknown names, copies and parameters."""
    crf = HighOrderCRF(sigma_reg=2.0)
    assert not hasattr(crf, "nonsense")
    with pytest.raises(AttributeError, match="object has no attribute 'nonsense'"):
        crf.nonsense  # noqa: B018
    with pytest.raises(AttributeError, match="HighOrderCRF has no n_parameters_: it is not fitted"):
        crf.n_parameters_  # noqa: B018
    taken = list(inspect.signature(HighOrderCRF.__init__).parameters)[1:]
    assert list(inspect.signature(HighOrderCRF).parameters) == taken
    for twin in clone(crf), copy.copy(crf), copy.deepcopy(crf), pickle.loads(pickle.dumps(crf)):
        assert twin.get_params() == crf.get_params()

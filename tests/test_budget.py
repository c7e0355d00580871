"""The package stays within its budget: a commit that raises a number says why in its body."""

import pytest
from budget import ROOT, budget

# at most; what is added is paid for by what leaves
BUDGET = {
    "public names": 51,
    "modules of public names": 11,
    "parameters of HighOrderCRF": 20,
    "parameters of HighOrderSemiCRF": 20,
    "reasons why two features refuse each other": 7,
    "code lines of the package": 23_560,
    "files of the package": 185,
    "code lines of tests and benchmarks": 26_620,
    "words of docs/guide": 17_075,
    "words of docs/develop": 14_960,
    "words of other pages of docs": 3_275,
    "words of README and CONTRIBUTING": 2_690,
}


@pytest.fixture(scope="module")
def numbers():
    return budget(ROOT)


@pytest.mark.parametrize("name", BUDGET)
def test_the_package_stays_within_its_budget(numbers, name):
    assert 0 < numbers[name] <= BUDGET[name]

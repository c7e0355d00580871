"""Warnings that name the line of the user's program."""

import sys
import warnings

_PASSED_OVER = {"sklearn_hocrf", "sklearn", "joblib"}  # pipelines and searches call us on behalf of the user, too


def warn_of_tags(scheme: str) -> None:
    """Warn of labels that look like tags of a scheme, but are read otherwise; of "runs" there is nothing to say."""
    if scheme != "runs":
        warn_user(f'the labels look like {scheme.upper()} tags: scheme="{scheme}"?')


def warn_user(message, category: type[Warning] = UserWarning) -> None:
    """Warn on behalf of the innermost caller outside of this package, scikit-learn and joblib.

    A constant ``stacklevel`` would count functions of this package, and become wrong as soon as one of them is split.

    Parameters
    ----------
    message : str
        Text of the warning.
    category : type of Warning, default=UserWarning
        Kind of the warning.

    Examples
    --------
    >>> import warnings
    >>> from sklearn_hocrf._validation._warnings import warn_user
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     warn_user("the labels look like BIO tags")
    >>> str(caught[0].message)
    'the labels look like BIO tags'
    """
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in _PASSED_OVER:
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)

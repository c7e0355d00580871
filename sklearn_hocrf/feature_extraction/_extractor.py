"""SequenceFeatureExtractor: turns raw tokens into sparse features with templates."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from copy import copy
from itertools import chain
from numbers import Integral
from os import PathLike
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from scipy import sparse
from sklearn.base import clone
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from .._data.arrays import freeze
from .._data.batch import SequenceBatch
from .._data.checks import short
from .._data.columns import DenseColumns
from .._reading.attributes import known_batch
from .._reading.rows import refuse_infinite_values
from .._sklearn.names import Interval, StrOptions, fit_context, fit_task
from ._attributes import GivenNames, NamedAttributes
from ._base import BatchTransformer
from ._columns import MISSING, ArrayTemplates, TokenTable, columns_of_one, text_column, without_arrays
from ._input_space import InputSpace, TokenCounts, lacks_counts, without_tokens
from ._names import ConstantNames, FeatureNames, HashedNames
from ._string_templates import StringTemplates, are_strings, read_template_lines
from ._template_rows import FieldTemplates
from ._templates import TemplateVocabularies, Window, check_templates
from ._token_functions import named_functions

if TYPE_CHECKING:
    from .._sklearn.layers import TaggerFeatures


class SequenceFeatureExtractor(BatchTransformer, auto_wrap_output_keys=None):  # type: ignore[call-arg]
    """Turn sequences of raw tokens into sparse features with templates over neighbouring tokens.

    A token is a string, a number, a tuple, list or row of columns, or a dict of columns. A template is a tuple of
    ``(field, offset)`` pairs: ``(("w", -1), ("w", 0))`` produces one attribute for every pair of neighbouring words in
    the training data, for instance ``w[-1]|w[0]=in|the``. Strings become indicators. Numbers and bools become real
    values (``True`` is 1, and 0 is the same as no attribute); a template of several pairs multiplies their values. An
    array of numbers, such as an embedding, produces one dense feature for each of its numbers. Missing values are
    ``None``, absent keys of a dict, masked entries and, in data frames, nan among strings as well as pandas' NA and
    NaT. A template with a missing value produces no attribute. :meth:`transform` ignores attributes that did not occur
    in training. If the training tokens had a single field, :meth:`transform` also reads plain strings, as values of
    that field.

    Parameters
    ----------
    templates : iterable of tuples of (field, offset) pairs, "attributes", list of str or None, default=None
        A field is the index of a column for tuples and rows, a key for dicts, ``"w"`` for plain strings, ``"x"`` for
        plain numbers, or the name of a token feature. Offsets are integers; 0 is the token itself. None means default
        templates. For the first text field, these use the token, two tokens on either side, and the token paired with
        each of its two neighbours. For other text fields, they also use all other pairs and triples of neighbours
        within the same five tokens. For numeric and array fields, they use only the token itself. "attributes" means no
        templates: the tokens are feature dicts or lists of attribute names, which become features unchanged. Strings
        such as ``"U01:%x[-1,0]/%x[0,1]"`` are CRF++ or Wapiti templates (see :meth:`from_file`).
    token_features : "auto", None, list or dict, default="auto"
        Functions of a field's value. Templates refer to these functions by name; a function that no template uses
        applies at offset 0. An element of a list is the name of a function (see Notes), a callable, the result of
        :func:`phrase_marks`, or a pair of a field and one of these; without a field, the function applies to the first
        text field. A token feature is named after its function, as in ``"shape"``, or ``"shape(pos)"`` if the element
        is a pair. A dict ``{name: element}`` sets other names. The extractor calls a function once for every distinct
        value; the function returns a string, a number, a bool, or None for no attribute. "auto" means no functions if
        you pass templates or if there is no text field. Otherwise, it means ``"lower"``, ``"shape"`` and affixes,
        except for functions that leave all values unchanged and functions that have the name of a field; the default
        templates then use the shape in the same way as the text.
    fields : sequence of str or None, default=None
        Names for the columns of tuples and rows, or for the one column of plain strings or numbers; templates use them
        instead of the default names. For dicts, the keys to read, in this order.
    min_count : int, default=1
        Attributes that occur in fewer training tokens are dropped.
    affixes : int or None, default=None
        Length of the longest affixes: the functions ``prefix1``, ``suffix1`` and so on, up to this number of
        characters, are added for the first text field. None means 5 if "auto" chooses the functions, and 0 otherwise.
        For languages with long endings, such as Turkish, try 10.
    n_features : int or None, default=None
        If not None, the extractor hashes attributes to this many features and learns no vocabulary. Attributes that did
        not occur in training then become features, too, and memory use does not grow with the data. See Notes.
    bias : bool, default=False
        Whether to add the attribute ``bias`` to every token.
    padding : {"mark", "drop"}, default="mark"
        Treatment of offsets outside the sequence. "mark": the values are ``__BOS__`` and ``__EOS__``. "drop": templates
        that extend beyond the sequence produce no attribute; the first token has the attribute ``__BOS__``, and the
        last ``__EOS__``, as in CRFsuite. With CRF++ or Wapiti templates, "mark" uses the markers of the program:
        ``_x-1``, ``_x+1`` and so on, as in Wapiti, if any template begins with ``*``, ``u`` or ``b``, and otherwise
        ``_B-1``, ``_B+1``, as in CRF++.

    Attributes
    ----------
    fields_ : list
        The raw fields.
    templates_ : list of tuples of (field, offset) pairs
        The templates in use, in the order of the features.
    token_features_ : dict
        ``{name: (field, function)}`` for the token features in use; a named function is represented by its name.
    complete_fields_ : list
        The raw fields in use that all training tokens contain. `transform` warns if some tokens lack one of them, and
        raises an error if all tokens lack it.
    n_features_out_ : int
        Number of features.

    See Also
    --------
    phrase_marks : Return a token function that marks the tokens of listed phrases.
    SegmentFeatureExtractor : Compute features of segments from features of tokens.

    Notes
    -----
    The named functions are ``lower``; ``prefixN`` and ``suffixN`` with a number N (the whole string if it is shorter);
    ``shape`` (upper-case letters become X, other letters x, and digits d; runs are collapsed) and ``long_shape`` (runs
    are kept); ``is_alpha``, ``is_digit``, ``is_lower``, ``is_punctuation``, ``is_title``, ``is_upper``, ``has_digit``,
    ``has_hyphen``; ``length``.

    With ``n_features``, the feature of an attribute is the hash of its name, as computed by
    :class:`~sklearn.feature_extraction.FeatureHasher` without signs. Attributes with equal hashes share a feature, and
    their values are added. Typical values of ``n_features`` are 2**18 to 2**22. The templates depend on the data only
    if ``templates=None``, and then only on the fields; ``token_features="auto"`` means all functions that "auto" can
    choose. :meth:`transform` therefore works on a stream of batches without :meth:`fit`. After :meth:`fit`, the fields
    must stay the same. ``min_count`` must be 1. The batches have no feature names, because the hashed names are not
    stored; :meth:`get_feature_names_out` returns ``hash[0]``, ``hash[1]`` and so on.

    A field of one-dimensional numpy arrays, all of the same length d, produces d features: ``vector[0]``, ``vector[1]``
    and so on, or ``vector[-1][0]`` and so on at the offset -1. These features follow all others. The batch stores their
    values as float32 in one array of shape (n_tokens, d), which needs a fraction of the memory and time that sparse
    features would need. The values are 0 outside the sequence and for tokens that contain None instead of an array.
    Such a field must be the only one in its template, supports no token features, and is not among the raw token
    columns of the batch.

    Feature names are unique. If a template joins several values, the extractor writes a backslash before each "|" and
    each backslash within a value.

    Examples
    --------
    >>> from sklearn_hocrf.feature_extraction import SequenceFeatureExtractor
    >>> X = [[("In", "IN"), ("the", "DT"), ("end", "NN")], [("The", "DT"), ("end", "NN")]]
    >>> templates = [(("w", -1), ("w", 0)), (("pos", 1),), (("low", 0),)]
    >>> extractor = SequenceFeatureExtractor(
    ...     templates, token_features={"low": "lower"}, fields=["w", "pos"]
    ... )
    >>> batch = extractor.fit_transform(X)
    >>> batch
    SequenceBatch(2 sequences, 5 tokens, 11 features)
    >>> extractor.get_feature_names_out().tolist()
    ['w[-1]|w[0]=In|the', 'w[-1]|w[0]=The|end', 'w[-1]|w[0]=the|end', 'w[-1]|w[0]=__BOS__|In', 'w[-1]|w[0]=__BOS__|The',
    'pos[1]=DT', 'pos[1]=NN', 'pos[1]=__EOS__', 'low[0]=end', 'low[0]=in', 'low[0]=the']
    >>> extractor.transform([[("In", "IN"), ("March", "NNP")]]).toarray().sum(
    ...     axis=1
    ... ).tolist()
    [2.0, 1.0]
    >>> SequenceFeatureExtractor(n_features=2**18).transform([["In", "the", "end"]])
    SequenceBatch(1 sequences, 3 tokens, 262144 features)

    Embeddings and strings together:

    >>> import numpy as np
    >>> vector = {"In": np.float32([0.5, 1]), "March": np.float32([-1.5, 2])}
    >>> X = [
    ...     [{"w": "In", "vector": vector["In"]}, {"w": "March", "vector": vector["March"]}]
    ... ]
    >>> extractor = SequenceFeatureExtractor([("vector", 0), ("w", 0)]).fit(X)
    >>> extractor.get_feature_names_out().tolist()
    ['w[0]=In', 'w[0]=March', 'vector[0]', 'vector[1]']

    Feature dicts become features unchanged; a segment transformer then selects the tokens at which each feature counts:

    >>> from sklearn_hocrf.feature_extraction import SegmentFeatureExtractor
    >>> X = [[{"w": "J.", "title": True}, {"w": "Ye"}, {"w": "1992", "digits": 4}]]
    >>> batch = SequenceFeatureExtractor("attributes").fit_transform(X)
    >>> list(batch.feature_names)
    ['digits', 'title', 'w:1992', 'w:J.', 'w:Ye']
    >>> extractor = SegmentFeatureExtractor(bag="digits", begin="w:").fit(batch)
    >>> extractor.get_feature_names_out().tolist()
    ['digits', 'begin:w:1992', 'begin:w:J.', 'begin:w:Ye']
    """

    __module__ = "sklearn_hocrf.feature_extraction"  # the public module: model files contain this name

    _array_widths: dict = {}  # array length of each array field; absent from models of version 0.1

    _parameter_constraints = {
        "templates": "no_validation",
        "token_features": "no_validation",
        "fields": "no_validation",
        "min_count": [Interval(Integral, 1, None, closed="left")],
        "affixes": [Interval(Integral, 0, None, closed="left"), None],
        "n_features": [Interval(Integral, 1, 2**31 - 1, closed="both"), None],
        "bias": ["boolean"],
        "padding": [StrOptions({"mark", "drop"})],
    }

    def __init__(
        self,
        templates: Iterable[Any] | str | None = None,
        token_features: Any = "auto",
        *,
        fields: Sequence[str] | None = None,
        min_count: int = 1,
        affixes: int | None = None,
        n_features: int | None = None,
        bias: bool = False,
        padding: str = "mark",
    ) -> None:
        self.templates = templates
        self.token_features = token_features
        self.fields = fields
        self.min_count = min_count
        self.affixes = affixes
        self.n_features = n_features
        self.bias = bias
        self.padding = padding

    @classmethod
    def from_file(cls, path: str | PathLike[str], *, fields: Sequence[str] | None = None, min_count: int = 1) -> Self:
        """Return an extractor with the templates of a CRF++ or Wapiti file.

        A template is a string with macros: ``%x[-1,0]`` stands for the first column of the previous token, so
        ``U01:%x[-1,0]/%x[0,1]`` produces strings such as ``U01:the/NN``; ``%X`` converts the value to lower case. As in
        CRF++ and Wapiti, equal strings are the same feature, even if they come from different templates; identifiers
        such as ``U01:`` distinguish templates. The first letter of a template, in upper or lower case, specifies what
        its features are paired with: ``U`` for labels, ``B`` for pairs of labels, ``*`` for both. A template that is
        only ``B`` or ``*`` stands for the pairs of labels themselves.

        Parameters
        ----------
        path : str or path-like
            A text file in UTF-8. Lines that are empty or begin with ``#``, and spaces and tabs around a template, are
            ignored.
        fields : sequence of str or None, default=None
            The columns of the tokens, as in the parameter ``fields`` of the class. None means the columns of tuples and
            lists in their order, the keys of dicts (such as those from :func:`~sklearn_hocrf.datasets.load_conll`) in
            the order of their first appearance, or the one column of plain strings.
        min_count : int, default=1
            Features that occur in fewer training tokens are dropped.

        Returns
        -------
        extractor : SequenceFeatureExtractor
            Pass its attributes ``max_order`` and ``feature_order`` to a :class:`~sklearn_hocrf.HighOrderCRF`, so that
            the model contains the pairs of labels that the templates require. Tokens may have any form, but their
            columns must contain strings.

        Raises
        ------
        ValueError
            If the file is not UTF-8 or contains no templates, or if a line is not a template or contains one of
            Wapiti's tests (``%t`` and ``%m``); the message names the file, and the invalid line.
        OSError
            If the file cannot be read.

        Examples
        --------
        >>> from pathlib import Path
        >>> from tempfile import TemporaryDirectory
        >>> from sklearn_hocrf import HighOrderCRF, make_pipeline
        >>> from sklearn_hocrf.feature_extraction import SequenceFeatureExtractor
        >>> with TemporaryDirectory() as folder:
        ...     path = Path(folder, "template")
        ...     _ = path.write_text("U00:%x[0,0]\\nU01:%x[-1,0]/%x[0,1]\\n\\nB\\n")
        ...     features = SequenceFeatureExtractor.from_file(path)
        >>> features.max_order, features.feature_order
        (1, 0)
        >>> X, y = [[("He", "PRP"), ("runs", "VBZ")]], [["B-NP", "B-VP"]]
        >>> crf = HighOrderCRF(features.max_order, feature_order=features.feature_order)
        >>> make_pipeline(features, crf).fit(X, y)[0].get_feature_names_out().tolist()
        ['U00:He', 'U00:runs', 'U01:He/VBZ', 'U01:_B-1/PRP']
        """
        return cls(read_template_lines(path), fields=fields, min_count=min_count)

    @property
    def max_order(self) -> int:
        """The highest order of label patterns that CRF++ or Wapiti templates require: 1 for pairs, otherwise 0."""
        return self._strings().max_order

    @property
    def feature_order(self) -> int | dict[str, Any]:
        """The orders of the label patterns that are paired with the features of CRF++ or Wapiti templates.

        Pass this attribute to the estimators as `feature_order`. The value is 0, or a dict from the first letters of
        feature names to orders.
        """
        return self._strings().feature_order

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the attributes of training sequences.

        Parameters
        ----------
        X : list of sequences of tokens
            The sequences are lists or arrays; they may differ in length and may be empty.
        y : None
            Ignored.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            If a template names an unknown field, or if the tokens do not all have the same form; the message names the
            sequence, the position and the value.
        TypeError
            If a token or a value is of an unsupported type, or if X is a `SequenceBatch`.
        """
        self._learn(X)
        return self

    def fit_transform(self, X: Any, y: Any = None) -> SequenceBatch:
        """Learn the attributes of training sequences and return their features.

        Parameters
        ----------
        X : list of sequences of tokens
            As in `fit`; invalid input raises the same errors.
        y : None
            Ignored.

        Returns
        -------
        batch : SequenceBatch of shape (n_sequences, n_features_out_)
        """
        return self._to_batch(*self._learn(X))

    def transform(self, X: Any) -> SequenceBatch:
        """Return the features of sequences; without hashing, attributes that did not occur in training are ignored.

        Parameters
        ----------
        X : list of sequences of tokens
            The tokens must have the same form as in `fit`.

        Returns
        -------
        batch : SequenceBatch of shape (n_sequences, n_features_out_)

        Raises
        ------
        ValueError
            If the fields differ from those in `fit`, if no token contains a field that every training token contains
            (not even with the value None), or if a field contains numbers instead of strings, or arrays of a different
            length.
        sklearn.exceptions.NotFittedError
            If `fit` was not called, unless ``n_features`` is set.

        Warns
        -----
        UserWarning
            If some tokens lack a field that every training token contains.
        """
        if self.n_features is not None and not hasattr(self, "templates_"):
            return clone(self).fit_transform(X)
        if not hasattr(self, "templates_"):
            check_is_fitted(self, "templates_")  # raises the error; for a few tokens, it takes longer than the rest
        if type(X) is list and len(X) == 1:
            found = self.__token_ids__(X[0])  # one sequence at a time
            if found is not None and (found[-1] is not None or found[3].max(initial=-1) >= 0):
                names, n_attributes, columns, ids, indptr, values, dense = found
                batch = known_batch(np.array([0, len(indptr) - 1]), indptr, ids, values, n_attributes, names)
                kinds = self._space.kinds
                batch.columns = {
                    field: freeze(cells, np.float64) if kinds[field] == "numbers" else text_column(cells)
                    for field, cells in without_arrays(columns).items()
                }
                batch.dense = dense and dense.checked(batch.n_tokens, batch.n_attributes, batch.indices)
                return batch
        maker = self._maker
        table = self._space.like_fitted(X, self._read(X), self.complete_fields_)
        return self._to_batch(table, maker.rows(self._vocabularies, table))

    @fit_context(prefer_skip_nested_validation=True)
    def fit_partition(self, X: Any, y: Any = None) -> TokenCounts:
        """Count the attributes of one part of the training sequences.

        https://sklearn-hocrf.github.io/sklearn-hocrf/stable/guide/large_data.html shows an example.

        Parameters
        ----------
        X : list of sequences, or other form of n sequences
            As for `fit`.
        y : None
            Ignored.

        Returns
        -------
        counts : object
            The counts, which `merge` and `finish` accept. The transformer itself does not change.

        Raises
        ------
        ValueError, TypeError
            As for `fit`.
        """
        self._check_parameters()
        table = self._read(X)
        if table.kind == "empty":
            return TokenCounts(None)
        form = InputSpace.from_input(X, table), without_tokens(table.columns)
        if table.kind == "dict" and self._maker.unused is None:  # tokens of other parts may contain these keys
            table = table._replace(columns={**table.columns, **self._missing(table.columns, table.offsets)})
        counting = copy(self)
        counting._set_plan(table.columns, of_all=True)
        functions = {name: field for name, (field, _) in counting.token_features_.items()}
        return TokenCounts(*form, functions, counting._maker.counts(table))

    def merge(self, left: Any, right: Any) -> Any:
        """Add the counts of two parts of the training sequences; ``left`` is the earlier part.

        Parameters
        ----------
        left, right : object
            Results of `fit_partition` or `merge`.

        Returns
        -------
        counts : object
            The counts of both. The transformer itself does not change.

        Raises
        ------
        ValueError
            If the tokens of the two parts differ in form or fields.
        """
        if left.space is None or right.space is None:  # no tokens
            return right if left.space is None else left
        return left.merged(right)

    @fit_context(prefer_skip_nested_validation=True)
    def finish(self, counts: Any) -> Self:
        """Set the fitted attributes from the counts of all training sequences, as `fit` does.

        Parameters
        ----------
        counts : object
            Result of `fit_partition` or `merge`.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            If no part contains tokens, or if a field or key that a parameter names does not occur.
        """
        if counts.space is None:
            raise ValueError("X has no tokens to learn features from")
        fresh = copy(self)
        fresh._check_parameters()
        fresh._read_form(counts.space, counts.columns)
        for name, (field, _) in fresh.token_features_.items():
            if counts.functions.get(name) != field:
                raise lacks_counts(f"the token feature {name!r} of {field!r}", fresh.fields_)
        fresh._vocabularies = fresh._maker.finish(counts.counted, self.min_count, fresh.fields_)
        fresh._name_features()
        self.__dict__.update(fresh.__dict__)  # at the end, so that an error changes nothing
        return self

    def __token_ids__(self, tokens) -> tuple | None:
        """Return names and number of attributes, and the columns and attributes of a sequence for ``token_entries``.

        The result is None if the caller must build a batch instead. The method supports feature dicts, lists of
        attribute names, strings, numbers and arrays of common types, if ``transform`` would not issue a warning for
        them.
        """
        is_own = type(self).transform is SequenceFeatureExtractor.transform  # subclasses may override it
        known, attributes = self.__dict__.get("_vocabularies") if is_own else None, None
        columns: dict | None = {}
        if isinstance(known, NamedAttributes) and isinstance(self.templates, str):
            attributes = known.vocabulary.ids_of(tokens)
        elif isinstance(known, TemplateVocabularies) and self.padding in FieldTemplates.paddings:
            columns = columns_of_one(tokens, self._space, self._array_widths, self.fields is not None)
            if columns:
                maker: Any = self._maker  # FieldTemplates
                cells = without_arrays(columns) if self._array_widths else columns
                attributes = maker.ids_of_one(known, cells, len(tokens))
        if not attributes:
            return None
        names, dense = self._feature_names if self.n_features is None else None, None
        if self._array_widths:
            dense = self._dense(np.array([0, len(tokens)]), columns)
        return names, self.n_features_out_, columns, *attributes, dense

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.requires_fit = self.n_features is None
        return tags

    # --- learning -----------------------------------------------------------------------------------------------------

    def __tagger_features__(self, kept) -> TaggerFeatures:
        """Return the description from which a tagger computes the attributes; see :class:`TaggerFeatures`."""
        if self._array_widths:
            raise ValueError(f"a tagger has no fields of arrays, such as {next(iter(self._array_widths))!r:.60}")
        return self._maker.tagger_features(self, self._vocabularies, self._space.text_fields, kept)

    @property
    def _maker(self) -> GivenNames | FieldTemplates:
        """The object that creates attributes; its type depends on the kind of the templates."""
        if isinstance(self.templates, str):
            return GivenNames()
        if are_strings(self.templates):
            return self._strings()
        templates, widths = getattr(self, "templates_", []), self._array_widths
        templates = [pairs for pairs in templates if pairs[0][0] not in widths] if widths else templates
        functions = getattr(self, "token_features_", {})
        return FieldTemplates(templates, functions, self.padding, self.bias, self.n_features)

    def _strings(self) -> StringTemplates:
        """Return the compiled CRF++ or Wapiti templates."""
        if not are_strings(self.templates):
            raise AttributeError("only templates of CRF++ and Wapiti say with which pairs of labels they go")
        return StringTemplates(self.templates)

    @fit_context(prefer_skip_nested_validation=True)
    @fit_task
    def _learn(self, X):
        """Set the fitted attributes; return the columns of the tokens and the rows of their attributes."""
        fresh = copy(self)
        fresh._check_parameters()
        table = fresh._read(X)
        fresh._read_form(InputSpace.from_input(X, table), table.columns)
        fresh._vocabularies, rows = fresh._maker.learn(table, self.min_count)
        fresh._name_features()
        self.__dict__.update(fresh.__dict__)  # at the end, so that an error changes nothing
        return table, rows

    def _missing(self, columns, offsets) -> dict:
        """Return columns without values for the fields that parameters name but ``columns`` does not contain."""
        features, first = self.token_features, next(iter(columns), None)
        functions = {} if features is None or isinstance(features, str) else named_functions(features, first)
        templates = [] if self.templates is None else check_templates(self.templates)
        pairs = chain(functions.values(), *templates)
        missing = text_column([None] * int(offsets[-1]))
        return {field: missing for field, _ in pairs if field not in functions and field not in columns}

    def _check_parameters(self):
        """Raise an error if the parameters cannot be combined."""
        if isinstance(self.n_features, bool):
            raise ValueError(f"n_features must be an integer >= 1 or None, got {self.n_features!r}")
        if self.n_features is not None and self.min_count > 1:
            raise ValueError(f"min_count={self.min_count} needs a vocabulary, but n_features uses none")
        if isinstance(self.templates, str) and self.templates != "attributes":
            raise TypeError(
                "templates must be an iterable of tuples of (field, offset) pairs, 'attributes' or None, got "
                f"{short(self.templates)}"
            )
        maker = self._maker
        settings = {
            "fields": self.fields is not None and isinstance(self.templates, str),
            "token_features": self.token_features is not None and self.token_features != "auto",
            "affixes": self.affixes,
            "n_features": self.n_features,
            "bias": self.bias,
            "padding": self.padding not in maker.paddings,
        }
        for name in (name for name, is_given in settings.items() if is_given and maker.unused):
            raise ValueError(f"{name}={short(getattr(self, name))} is not possible here: {maker.unused} no use for it")

    def _read(self, X) -> TokenTable:
        if isinstance(X, SequenceBatch):
            raise TypeError("X is a SequenceBatch already; a SequenceFeatureExtractor reads sequences of tokens")
        return self._maker.read(X, _check_fields(self.fields))

    def _read_form(self, space, columns):
        """From the training columns, set the fitted attributes that describe tokens."""
        for field in columns if self.fields is not None else ():
            if space.kinds[field] == MISSING:
                raise ValueError(f"fields names {field!r}, but no token has a value for it")
        self._space, self.fields_ = space, space.fields
        used = self._set_plan(columns)
        self.complete_fields_ = [field for field in self.fields_ if field in used and field in space.complete]

    def _set_plan(self, columns, of_all=False) -> Collection:
        """Set ``templates_`` and ``token_features_`` from parameters and training columns; return the fields in use.

        With ``of_all``, ``columns`` contains only a part of the data, but the plan must serve all data: a function that
        changes no string in this part may change strings in other parts.
        """
        plan, used = self._maker.plan(self, columns, of_all)
        self.templates_, self.token_features_, self._array_widths = plan
        return used

    # --- features -----------------------------------------------------------------------------------------------------

    @property
    def _arrays(self):
        """The templates that produce dense columns."""
        widths = self._array_widths
        return ArrayTemplates([pairs[0] for pairs in self.templates_ if pairs[0][0] in widths], widths)

    def _name_features(self):
        new = [self._vocabularies, ConstantNames(np.array(self._maker.names_of_always(), dtype=object))]
        if self.n_features is not None:
            new = [HashedNames(self.n_features)]
        self._feature_names = FeatureNames([*new, ConstantNames(self._arrays.names())])
        self.n_features_out_ = len(self._feature_names)

    def _to_batch(self, table, rows) -> SequenceBatch:
        indptr, indices, values = rows
        columns, dense = without_arrays(table.columns), self._dense(table.offsets, table.columns)
        if self.n_features is None:
            parts = indptr, indices, values, self.n_features_out_, self._feature_names
            return SequenceBatch(table.offsets, *parts, columns, dense=dense)
        values = np.ones(len(indices)) if values is None else values
        hashed = sparse.csr_array((values, indices, indptr), shape=(int(table.offsets[-1]), self.n_features_out_))
        batch = SequenceBatch.from_csr(hashed, table.offsets, None, columns, dense)
        refuse_infinite_values(batch)  # sums of attributes with the same hash
        return batch

    def _dense(self, offsets, columns) -> DenseColumns | None:
        """Return the dense columns, which are the last features."""
        n_dense = self._arrays.n_features
        if not n_dense:
            return None
        values = self._arrays.values(columns, Window(offsets))
        return DenseColumns(np.arange(self.n_features_out_ - n_dense, self.n_features_out_), values)


def _check_fields(fields):
    if fields is None:
        return None
    if isinstance(fields, (str, bytes)) or not np.iterable(fields):
        raise TypeError(f"fields must be a sequence of names, got {fields!r}")
    fields = list(fields)
    if not fields or len(set(fields)) < len(fields):
        raise ValueError(f"fields must be different names, at least one, got {fields!r}")
    return fields

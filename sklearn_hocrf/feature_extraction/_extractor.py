"""SequenceFeatureExtractor: raw tokens to sparse features, by templates."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from copy import copy
from numbers import Integral
from os import PathLike
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from scipy import sparse
from sklearn.base import clone
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from .._data.arrays import offsets_of
from .._data.batch import SequenceBatch, with_blocks, without_dense
from .._data.checks import short
from .._data.columns import DenseColumns, TokenColumn
from .._data.labels import position_name
from .._data.segments import BAG, TokenBlock
from .._validation._messages import refuse_infinite_values
from .._validation._sklearn import Interval, StrOptions, fit_context
from ._array_fields import ArrayTemplates
from ._attributes import AttributeCounts, NamedAttributes, read_attribute_tokens
from ._base import CountingTransformer, fit_task
from ._columns import (
    TokenTable,
    apply_function,
    check_complete,
    complete_fields,
    is_text,
    read_tokens,
    without_arrays,
)
from ._merging import merge_columns, merge_vocabularies, without_tokens
from ._names import ConstantNames, FeatureNames, HashedNames, InputFeatures, hash_names
from ._plan import FeaturePlan, are_strings, plan_of
from ._string_templates import STYLES, StringTemplates, read_template_lines
from ._templates import BOS, EOS, TemplateVocabularies, Window, check_kind, check_templates
from ._token_functions import Phrases, as_function, named_functions

if TYPE_CHECKING:
    from .._validation._delegation import TaggerFeatures

__all__ = ["SequenceFeatureExtractor"]


class TokenCounts(NamedTuple):
    """The counts of some training sequences for a :class:`SequenceFeatureExtractor`; empty if they have no tokens."""

    input: InputFeatures | None
    kind: str = "empty"  # form of the tokens
    columns: dict = {}  # raw columns of no tokens, with all values
    complete: Collection = ()  # fields that every token has
    functions: dict = {}  # the field of each token feature
    vocabularies: TemplateVocabularies = TemplateVocabularies([], {})  # all attributes, however rare
    n_of: Sequence = ()  # number of tokens with each of them, by template
    named: AttributeCounts | None = None  # of attributes that are given by name

    def by_template(self) -> dict:
        """Return the number of tokens with each attribute, by template."""
        return {own.template: n for own, n in zip(self.vocabularies.all, self.n_of, strict=True)}

    def merged(self, other) -> TokenCounts:
        """Return the sums of the counts of both."""
        if self.input is None or other.input is None:
            return other if self.input is None else self
        if self.kind != other.kind:
            raise ValueError(f"tokens have the form {self.kind!r} in one partition and {other.kind!r} in another")
        self.input.check_same(other.input)
        if self.kind != "dict" and list(self.columns) != list(other.columns):
            raise ValueError(
                f"tokens have the fields {short(list(self.columns))} in one partition and "
                f"{short(list(other.columns))} in another"
            )
        for name in sorted(self.functions.keys() & other.functions.keys()):
            if self.functions[name] != other.functions[name]:
                raise ValueError(
                    f"the token feature {name!r} is for the field {self.functions[name]!r} in one partition and for "
                    f"{other.functions[name]!r} in another: specify the field in token_features"
                )
        vocabularies, new_ids = merge_vocabularies(self.vocabularies, other.vocabularies)
        n_of = self.by_template(), other.by_template()
        return TokenCounts(
            self.input,
            self.kind,
            merge_columns(self.columns, other.columns),
            [field for field in self.complete if field in set(other.complete)],
            {name: field for name, field in self.functions.items() if name in other.functions},
            vocabularies,
            [
                ids.add_up(n_of[0][own.template], n_of[1][own.template], len(own))
                for own, ids in zip(vocabularies.all, new_ids, strict=True)
            ],
            None if self.named is None else self.named.merged(other.named),
        )


class SequenceFeatureExtractor(CountingTransformer, auto_wrap_output_keys=None):  # type: ignore[call-arg]
    """Turn sequences of raw tokens into sparse features, by templates over neighbouring tokens.

    A token is a text, a number, a tuple, list or row of columns, or a dict of columns. A template is a tuple of
    ``(field, offset)`` pairs: ``(("w", -1), ("w", 0))`` makes one attribute for every pair of neighbouring words seen
    in training, for instance ``w[-1]|w[0]=in|the``. Text becomes indicators. Numbers and bools become real values
    (``True`` is 1, and 0 is the same as no attribute); in a template of several pairs the values are multiplied. An
    array of numbers (an embedding, say) makes one feature for each of its numbers, kept dense. Missing values are
    ``None``, absent keys of a dict, masked entries and, in data frames, nan among texts and pandas' NA and NaT. A
    template with a missing value makes no attribute. Attributes that did not occur in training are ignored. If the
    training tokens had a single field, plain texts are read as that field.

    Parameters
    ----------
    templates : iterable of tuples of (field, offset) pairs, "attributes", list of str or None, default=None
        A field is the index of a column for tuples and rows, a key for dicts, ``"w"`` for plain texts, ``"x"`` for
        plain numbers, or the name of a token feature. Offsets are integers; 0 is the token itself. None means
        default templates. For the first text field these are the five tokens around and the two pairs with a neighbour.
        For other text fields they also include the other pairs and the triples within the same five tokens. Numeric
        and array fields are taken at the token itself. "attributes" means no templates: the tokens are feature dicts
        or lists of attribute names, which become features as they are. Texts such as ``"U01:%x[-1,0]/%x[0,1]"`` are
        templates of CRF++ and Wapiti, see :meth:`from_file`.
    token_features : "auto", None, list or dict, default="auto"
        Functions of the value of a field. Templates refer to them by name; a function that no template uses is taken
        at offset 0. An element of a list is the name of a function (see Notes), a callable, the result of
        :func:`phrases`, or a pair of a field and one of these; without a field, the function applies to the first text
        field. A token feature is named after its function, ``"shape"``, or ``"shape(pos)"`` if the element is a pair. A
        dict ``{name: element}`` gives other names. A function is called once for every distinct value and returns a
        text, a number, a bool, or None for no attribute. "auto" means no functions if templates are given or if there
        is no text. Otherwise it means ``"lower"``, ``"shape"`` and affixes, without functions that change no value and
        without names that are fields; the shape is then used in the same templates as the text.
    fields : sequence of str or None, default=None
        Names for the columns of tuples and rows, or for the one column of plain texts or numbers. Templates use them
        instead of the default names. For dicts and batches: the keys to read, in this order. With
        ``templates="attributes"``: the keys of the dicts to keep as raw columns, of which other transformers make
        features.
    min_count : int, default=1
        Attributes that occur in fewer training tokens are dropped.
    affixes : int or None, default=None
        Adds the functions ``prefix1``, ``suffix1`` and so on, up to this number of characters, of the first text field.
        None means 5 if "auto" chooses the functions, and 0 otherwise. Languages with long endings, such as Turkish,
        benefit from more (10).
    n_features : int or None, default=None
        If a number, attributes are hashed to this many features and no vocabulary is learned. Attributes that did not
        occur in training then become features, too, and memory does not grow with the data. See Notes.
    bias : bool, default=False
        Whether every token has the attribute ``bias``.
    padding : {"mark", "drop", "crf++", "wapiti"}, default="mark"
        Treatment of offsets outside the sequence. "mark": the values are ``__BOS__`` and ``__EOS__``. "drop": templates
        that reach outside make no attribute; the first token has the attribute ``__BOS__``, the last ``__EOS__``, as in
        CRFsuite. With templates of CRF++ and Wapiti: "crf++" for ``_B-1``, ``_B+1`` and so on, "wapiti" for ``_x-1``,
        ``_x+1``; "mark" is Wapiti's way if some template begins with ``*``, ``u`` or ``b``, and CRF++'s otherwise.

    Attributes
    ----------
    fields_ : list
        The raw fields.
    templates_ : list of tuples of (field, offset) pairs
        The templates in use, in the order of the features.
    token_features_ : dict
        ``{name: (field, function)}`` of the token features in use; named functions by their names.
    complete_fields_ : list
        The raw fields in use that every training token had. `transform` warns if some tokens lack one of them, and
        raises an error if all tokens lack it.
    n_features_out_ : int
        Number of features, including the earlier features of a `SequenceBatch`.

    See Also
    --------
    phrases : A token function that marks tokens inside phrases of a list.
    SegmentFeatureExtractor : Features of segments from features of tokens.

    Notes
    -----
    Names of functions: ``lower``; ``prefixN`` and ``suffixN`` with a number N (the whole text if it is shorter);
    ``shape`` (upper-case letters as X, other letters as x, digits as d, runs joined) and ``long_shape`` (runs not
    joined); ``is_alpha``, ``is_digit``, ``is_lower``, ``is_punctuation``, ``is_title``, ``is_upper``, ``has_digit``,
    ``has_hyphen``; ``length``.

    With ``n_features`` the feature of an attribute is the hash of its name, by
    :class:`~sklearn.feature_extraction.FeatureHasher` without signs. Attributes with equal hashes share a feature, and
    their values are added; 2**18 to 2**22 features are usual. ``templates=None`` depends on the fields of the data, and
    ``token_features="auto"`` means all of its functions; nothing else depends on the data. :meth:`transform` therefore
    works without :meth:`fit`, on a stream of batches. After :meth:`fit`, the fields must stay the same.
    ``min_count`` must be 1. The batches have no feature names, because the hashed names are not stored;
    :meth:`get_feature_names_out` returns ``hash[0]``, ``hash[1]`` and so on.

    Fields of one-dimensional numpy arrays, all of one length d, make features ``vector[0]`` .. ``vector[d - 1]``, or
    ``vector[-1][0]`` .. at the offset -1, after all others. Their values are kept as float32 in one array of shape
    (n_tokens, d), which takes a fraction of the memory and time of sparse features. Outside the sequence, and where a
    token has None for an array, they are 0. Such a field must be the only one in its template, cannot have token
    features, and is not among the raw token columns of the batch.

    Names are unique. If several values are joined, each "|" and each backslash within a value is preceded by a
    backslash. If the given batch already has a feature of the same name, the new one gets a number, as in
    ``w[0]=the#2``.

    If X is a `SequenceBatch`, the new features are appended to its features, and its raw token columns are kept. If it
    has features of segments, the new features are counted at all tokens of a segment.

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

    Embeddings next to texts:

    >>> import numpy as np
    >>> vector = {"In": np.float32([0.5, 1]), "March": np.float32([-1.5, 2])}
    >>> X = [
    ...     [{"w": "In", "vector": vector["In"]}, {"w": "March", "vector": vector["March"]}]
    ... ]
    >>> extractor = SequenceFeatureExtractor([("vector", 0), ("w", 0)]).fit(X)
    >>> extractor.get_feature_names_out().tolist()
    ['w[0]=In', 'w[0]=March', 'vector[0]', 'vector[1]']

    Feature dicts as they are, with raw columns for the text of segments:

    >>> from sklearn_hocrf.feature_extraction import SegmentFeatureExtractor
    >>> X = [[{"w": "J.", "title": True}, {"w": "Ye"}, {"w": "1992", "digits": 4}]]
    >>> batch = SequenceFeatureExtractor("attributes", fields=["w"]).fit_transform(X)
    >>> list(batch.feature_names)
    ['digits', 'title', 'w:1992', 'w:J.', 'w:Ye']
    >>> extractor = SegmentFeatureExtractor(bag="digits", begin="w:", identity="w")
    >>> extractor.fit(
    ...     batch, [["author", "author", "date"]]
    ... ).get_feature_names_out().tolist()
    ['digits', 'begin:w:1992', 'begin:w:J.', 'begin:w:Ye', 'identity=1992', 'identity=J. Ye']
    """

    __module__ = "sklearn_hocrf.feature_extraction"  # where users import it from: files of models name this place

    _array_widths: dict = {}  # length of the arrays of each field of arrays; absent in models of version 0.1

    _parameter_constraints = {
        "templates": "no_validation",
        "token_features": "no_validation",
        "fields": "no_validation",
        "min_count": [Interval(Integral, 1, None, closed="left")],
        "affixes": [Interval(Integral, 0, None, closed="left"), None],
        "n_features": [Interval(Integral, 1, 2**31 - 1, closed="both"), None],
        "bias": ["boolean"],
        "padding": [StrOptions({"mark", "drop", *STYLES})],
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
    def from_file(
        cls,
        path: str | PathLike[str],
        *,
        fields: Sequence[str] | None = None,
        min_count: int = 1,
        style: str = "auto",
    ) -> Self:
        """Return an extractor with the templates of a file of CRF++ or Wapiti.

        A template is a text with macros: ``%x[-1,0]`` stands for the first column of the token before, so that
        ``U01:%x[-1,0]/%x[0,1]`` gives ``U01:the/NN``; ``%X`` makes the text lower-case. Equal texts are one feature,
        whichever template they come from: in these programs, and so here, identifiers such as ``U01:`` tell templates
        apart, and templates without one make features that hold at any of their places. The first letter of a template
        says with what its features are paired: ``U`` with labels, ``B`` with pairs of labels, ``*`` with both; in
        either case. ``B`` or ``*`` alone are the pairs of labels themselves.

        Parameters
        ----------
        path : str or path-like
            A text file in UTF-8. Lines that are empty or begin with ``#`` are skipped, and so are spaces and tabs
            around a template.
        fields : sequence of str or None, default=None
            The columns of the tokens, as for the class. None means those of tuples and lists in their order, the keys
            of dicts in the order of their first appearance, as :func:`~sklearn_hocrf.datasets.load_conll` returns them,
            or the one column of plain texts.
        min_count : int, default=1
            Features of fewer training tokens than this are left out.
        style : {"auto", "crf++", "wapiti"}, default="auto"
            What stands for places outside the sequence: ``_B-1``, ``_B+1`` and so on in CRF++, ``_x-1``, ``_x+1`` in
            Wapiti. "auto" is Wapiti's style if some template begins with ``*``, ``u`` or ``b``.

        Returns
        -------
        extractor : SequenceFeatureExtractor
            Its attributes ``max_order`` and ``feature_order`` are the parameters of a
            :class:`~sklearn_hocrf.HighOrderCRF` with the pairs of labels that the file asks for. Its tokens are texts
            in columns, of any form.

        Raises
        ------
        ValueError
            For a line that is not a template, or that has one of Wapiti's tests, ``%t`` and ``%m``; the message names
            the file and the line. For bytes that are not UTF-8 it names their line and their place in the file.
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
        padding = "mark" if style == "auto" else style
        return cls(read_template_lines(path, style), fields=fields, min_count=min_count, padding=padding)

    @property
    def max_order(self) -> int:
        """The highest order of label patterns that templates of CRF++ or Wapiti ask for: 1 for pairs, else 0."""
        return self._strings().max_order

    @property
    def feature_order(self) -> int | dict[str, Any]:
        """The orders of the label patterns that are paired with the features of templates of CRF++ or Wapiti.

        By the first letter of the features' names: the value of `feature_order` of the estimators.
        """
        return self._strings().feature_order

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the attributes of training sequences.

        Parameters
        ----------
        X : list of sequences of tokens, or SequenceBatch with raw token columns
            Sequences may be lists or arrays, may have different lengths and may be empty.
        y : None
            Ignored.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            If a template names an unknown field, or if the tokens are not all of the same form; the message names
            sequence, position and value.
        TypeError
            If a token or a value is of an unsupported type.

        Warns
        -----
        UserWarning
            If a token feature is a lambda or a local function, because the transformer cannot be pickled then.
        """
        self._learn(X)
        return self

    def fit_transform(self, X: Any, y: Any = None) -> SequenceBatch:
        """Learn the attributes of training sequences and return their features.

        Parameters
        ----------
        X : list of sequences of tokens, or SequenceBatch with raw token columns
            As in `fit`, with the same errors.
        y : None
            As in `fit`, with the same errors.

        Returns
        -------
        batch : SequenceBatch of shape (n_sequences, n_features_out_)
        """
        table, rows = self._learn(X)
        return self._to_batch(X, table, rows)

    def transform(self, X: Any) -> SequenceBatch:
        """Return the features of sequences; attributes that were not seen in training are ignored, unless hashed.

        Parameters
        ----------
        X : list of sequences of tokens, or SequenceBatch with raw token columns
            Tokens of the form seen in `fit`.

        Returns
        -------
        batch : SequenceBatch of shape (n_sequences, n_features_out_)

        Raises
        ------
        ValueError
            If the fields differ from those in `fit`, if no token has a field that every training token had (not even
            with the value None), or if a field holds numbers but held text in `fit`, or arrays of another length.
        sklearn.exceptions.NotFittedError
            If `fit` was not called, unless ``n_features`` is given.

        Warns
        -----
        UserWarning
            If some tokens lack a field that every training token had.
        """
        if self.n_features is not None and not hasattr(self, "templates_"):
            return clone(self).fit_transform(X)
        if not hasattr(self, "templates_"):
            check_is_fitted(self, "templates_")  # says so; it takes longer than all else for a few tokens
        table = self._like_fitted(X, self._read(X))
        return self._to_batch(X, table, self._rows_of(table))

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        tags.input_tags.categorical = True
        tags.requires_fit = self.n_features is None
        return tags

    # --- learning -----------------------------------------------------------------------------------------------------

    def __tagger_features__(self, kept) -> TaggerFeatures:
        """Return how a tagger makes the attributes; see :class:`TaggerFeatures`."""
        from . import _tagger_features as description  # of a file that few write

        if len(self._input.feature_names):
            raise ValueError("the extractor adds to features of a SequenceBatch, which a tagger cannot read")
        if self._has_names():
            names = self.get_feature_names_out().tolist()
            if isinstance(self.templates, str):
                return description.TaggerFeatures.of_names(names, kept)
            return description.features_of_strings(self._strings(), self.fields_, names, kept)
        if self.n_features is not None:
            raise ValueError("a tagger finds attributes by their values, so hashing (n_features) is not for it")
        if self._array_widths:
            raise ValueError(f"a tagger has no fields of arrays, such as {next(iter(self._array_widths))!r:.60}")
        fitted = description.FittedTemplates(
            self._vocabularies,
            self._names_of_always(),
            self.token_features_,
            self.fields_,
            self._text_fields,
            self.complete_fields_,
            by_position=self.fields is not None or self.fields_ == list(range(len(self.fields_))),
            marks=self.padding == "mark",
        )
        return description.features_of_templates(fitted, kept)

    @fit_context(prefer_skip_nested_validation=True)
    @fit_task
    def _learn(self, X):
        """Set the fitted attributes; return the columns of the tokens and the rows of their attributes."""
        fresh = copy(self)
        learned = fresh._learn_anew(X)
        self.__dict__.update(fresh.__dict__)  # at the end, so that an error changes nothing
        return learned

    def _learn_anew(self, X):
        self._check_parameters()
        table = self._read(X)
        complete = complete_fields(table.columns, table.columns)
        self._read_form(table.kind, table.columns, InputFeatures.of(X), complete)
        if self._has_names():
            self._vocabularies, rows = NamedAttributes.learn(self._named(table), self.min_count)
        else:
            columns = self._with_token_features(table.columns, table.offsets)
            self._vocabularies = TemplateVocabularies.of([] if self.n_features is not None else self._sparse, columns)
            rows = self._rows(table.offsets, self._attributes(table.offsets, columns, learn=True))
        self._name_features()
        return table, rows

    @fit_context(prefer_skip_nested_validation=True)
    def _count_partition(self, X, y) -> TokenCounts:
        """Return the counts of sequences."""
        self._check_parameters()
        table = self._read(X)
        if table.kind == "empty":
            return TokenCounts(None)
        form = InputFeatures.of(X), table.kind, without_tokens(table.columns)
        complete = complete_fields(table.columns, table.columns)
        if self._has_names():
            return TokenCounts(*form, complete, named=AttributeCounts.of(self._named(table)))
        columns = table.columns
        if table.kind == "dict":  # tokens of other parts may have these keys
            columns = {**columns, **self._missing(columns, table.offsets)}
        counting = copy(self)
        counting.min_count = 1
        counting._set_plan(columns, of_all=True)
        functions = {name: field for name, (field, _) in counting.token_features_.items()}
        if self.n_features is not None:
            return TokenCounts(*form, complete, functions)
        derived = counting._with_token_features(columns, table.offsets)
        vocabularies = counting._vocabularies = TemplateVocabularies.of(counting._sparse, derived)
        found = counting._attributes(table.offsets, derived, learn=True)
        n_of = [
            np.bincount(ids + 1, minlength=len(own) + 1)[1:]
            for own, (ids, _) in zip(vocabularies.all, found, strict=False)
        ]
        return TokenCounts(*form, complete, functions, vocabularies, n_of)

    def _missing(self, columns, offsets) -> dict:
        """Return empty columns for the fields that parameters name but ``columns`` lack."""
        functions = self.token_features
        named = []
        if functions is not None and not isinstance(functions, str):
            named = list(named_functions(functions, next(iter(columns), None)).items())
        fields = [field for _, (field, _) in named]
        if self.templates is not None:
            fields += [field for template in check_templates(self.templates) for field, _ in template]
        derived = {name for name, _ in named}
        missing = TokenColumn(np.full(int(offsets[-1]), -1, dtype=np.int32), np.empty(0, dtype=object))
        return {field: missing for field in fields if field not in derived and field not in columns}

    @fit_context(prefer_skip_nested_validation=True)
    def _finish(self, counts):
        """Set the fitted attributes."""
        self._check_parameters()
        self._read_form(counts.kind, counts.columns, counts.input, counts.complete)
        if counts.named is not None:
            self._vocabularies = NamedAttributes.of_counts(counts.named, self.min_count)
            self._name_features()
            return
        for name, (field, _) in self.token_features_.items():
            if counts.functions.get(name) != field:
                raise self._lacks_counts(f"the token feature {name!r} of {field!r}")
        templates = [] if self.n_features is not None else self._sparse
        n_of = counts.by_template()
        for template in templates:
            if template not in n_of:
                raise self._lacks_counts(f"the template {template!r}")
        kept = {template: n >= self.min_count for template, n in n_of.items()}
        self._vocabularies = counts.vocabularies.chosen(templates, kept)
        self._name_features()

    def _lacks_counts(self, what) -> ValueError:
        return ValueError(
            f"{what} was not counted in every partition, because some have no values of a field: give templates and "
            f"token_features with their fields; the tokens have {short(self.fields_)}"
        )

    def _check_parameters(self):
        """Raise if parameters exclude each other."""
        if isinstance(self.n_features, bool):
            raise ValueError(f"n_features must be an integer >= 1 or None, got {self.n_features!r}")
        if self.n_features is not None and self.min_count > 1:
            raise ValueError(f"min_count={self.min_count} needs a vocabulary, but n_features uses none")
        if isinstance(self.templates, str) and self.templates != "attributes":
            raise TypeError(
                "templates must be an iterable of tuples of (field, offset) pairs, 'attributes' or None, got "
                f"{short(self.templates)}"
            )
        is_string = are_strings(self.templates)
        if self.padding in STYLES and not is_string:
            raise ValueError(f"padding={self.padding!r} is for templates of CRF++ and Wapiti")
        if self._has_names():
            has_no_functions = self.token_features is None or self.token_features == "auto"
            given = {
                "token_features": not has_no_functions,
                "affixes": self.affixes,
                "n_features": self.n_features,
                "bias": self.bias,
                "padding": self.padding not in (("mark", *STYLES) if is_string else ("mark",)),
            }
            for name in (name for name, is_given in given.items() if is_given):
                what = "templates of CRF++ and Wapiti have" if is_string else "templates='attributes' has"
                raise ValueError(f"{name}={short(getattr(self, name))} is not possible here: {what} no use for it")

    def _has_names(self) -> bool:
        """Return whether tokens have attributes by name, not by the fields of templates."""
        return isinstance(self.templates, str) or are_strings(self.templates)

    def _strings(self) -> StringTemplates:
        """Return the templates of CRF++ or Wapiti, compiled."""
        if not are_strings(self.templates):
            raise AttributeError("only templates of CRF++ and Wapiti say with which pairs of labels they go")
        return StringTemplates(self.templates, self.padding)

    def _read(self, X) -> TokenTable:
        fields = _check_fields(self.fields)
        return read_attribute_tokens(X, fields) if isinstance(self.templates, str) else read_tokens(X, fields)

    def _named(self, table) -> list:
        """Return the tokens of a table as feature dicts or lists of names."""
        return self._strings().attributes(table) if table.attributes is None else table.attributes

    def _read_form(self, kind, columns, features, complete):
        """Set the attributes that describe tokens, from training columns and the fields that every token has."""
        if kind == "empty":
            raise ValueError("X has no tokens to learn features from")
        for field in columns if self.fields is not None else ():
            if is_text(columns[field]) and not len(columns[field].values):
                raise ValueError(f"fields names {field!r}, but no token has a value for it")
        self.fields_ = list(columns)
        self._kind = kind
        self._text_fields = {field for field, column in columns.items() if is_text(column)}
        self._input = features
        used = self._set_plan(columns)
        self.complete_fields_ = [field for field in self.fields_ if field in used and field in complete]

    def _set_plan(self, columns, of_all=False) -> Collection:
        """Set ``templates_`` and ``token_features_`` from the parameters and the training columns; return the fields.

        With ``of_all`` the columns are from a part of the data: functions that change none of its texts may change
        texts of other parts.
        """
        plan, used = FeaturePlan([], {}, {}), list(columns)
        if are_strings(self.templates):
            strings = self._strings()
            plan, used = plan._replace(templates=[line.text for line in strings.lines]), used[: strings.n_columns]
        elif not self._has_names():
            is_fixed = of_all or self.n_features is not None  # with hashing, nothing may depend on the texts
            plan = plan_of(self.templates, self.token_features, self.affixes, columns, is_fixed=is_fixed)
            used = [field for template in plan.templates for field, _ in template]
            used += [field for field, _ in plan.functions.values()]
        self.templates_, self.token_features_, self._array_widths = plan
        return used

    # --- features -----------------------------------------------------------------------------------------------------

    @property
    def _sparse(self):
        """Return the templates that make attributes."""
        return [template for template in self.templates_ if template[0][0] not in self._array_widths]

    @property
    def _arrays(self):
        """Return the templates that make dense columns."""
        widths = self._array_widths
        return ArrayTemplates(
            [pairs[0] for pairs in self.templates_ if pairs[0][0] in widths] if widths else [], widths
        )

    def _like_fitted(self, X, table) -> TokenTable:
        """Return the table with exactly the fields of `fit`."""
        self._input.check(X)
        if table.kind == "text" and len(self.fields_) == 1 and self.fields_[0] in self._text_fields:
            table = table._replace(columns=dict.fromkeys(self.fields_, *table.columns.values()))
        lacking = [field for field in self.fields_ if field not in table.columns]
        surplus = table.kind == "tuple" and len(table.columns) > len(self.fields_)
        optional = table.kind == "empty" or table.kind == self._kind == "dict"
        if surplus or (lacking and not optional):
            raise ValueError(
                f"the tokens have the fields {short(list(table.columns))}, but those in fit had {short(self.fields_)}"
            )
        self._arrays.check({f: table.columns[f] for f in self.fields_ if f in table.columns}, table.offsets)
        for field in self.fields_:
            if field in table.columns and field not in self._arrays.widths:
                check_kind(table.columns[field], field in self._text_fields, field)
        columns = table.columns
        if lacking:
            missing = TokenColumn(np.full(table.offsets[-1], -1, dtype=np.int32), np.empty(0, dtype=object))
            columns = columns | dict.fromkeys(lacking, missing)
        table = table._replace(columns={field: columns[field] for field in self.fields_})
        check_complete(table.columns, table.offsets, self.complete_fields_, table.absent | set(lacking))
        return table

    def _with_token_features(self, columns, offsets):
        derived = {
            name: apply_function(as_function(function), columns[field], name)
            for name, (field, function) in self.token_features_.items()
            if not isinstance(function, Phrases)
        }
        return {**self._with_phrases(columns, offsets), **derived}

    def _with_phrases(self, columns, offsets):
        """Return the columns and the marks of phrases, which depend on neighbouring tokens."""
        marks = {
            name: function.column(columns[field], offsets, name)
            for name, (field, function) in self.token_features_.items()
            if isinstance(function, Phrases)
        }
        return columns | marks

    def _attributes(self, offsets, columns, learn):
        """Return, for each template and each attribute outside the templates, the ids and values of the tokens.

        The ids, of shape (N,) int32, index the attributes of a template, or hashed features; -1 means no attribute.
        The values are float64, or None if all are 1.
        """
        window = Window(offsets, self.padding == "mark")
        vocabularies = self._vocabularies
        if self.n_features is not None:
            vocabularies = TemplateVocabularies.of(self._sparse, columns)  # of this X only
        tables = vocabularies.tables
        coded = {field: table.encode(columns[field], field) for field, table in tables.items()}
        shifted = {
            (field, offset): window.shift(coded[field], tables[field].size, offset)
            for field, offset in dict.fromkeys(pair for vocabulary in vocabularies.all for pair in vocabulary.template)
        }
        attributes = []
        for vocabulary in vocabularies.all:
            parts, values = _multiply([shifted[pair] for pair in vocabulary.template])
            if values is not None and not np.isfinite(values).all():
                t = int(np.argmin(np.isfinite(values)))
                raise ValueError(
                    f"{position_name(offsets, t)}: the product of the template {vocabulary.template!r} is inf"
                )
            if self.n_features is not None:
                vocabulary.fit(parts)
                hashes = np.append(hash_names(vocabulary.names(), self.n_features), np.int32(-1))
                ids = hashes[vocabulary.lookup(parts)]
            else:
                ids = vocabulary.fit(parts, self.min_count) if learn else vocabulary.lookup(parts)
            attributes.append((ids, values))
        for name, present in zip(self._names_of_always(), self._always(window), strict=True):
            index = 0 if self.n_features is None else hash_names([name], self.n_features)[0]
            attributes.append((np.where(present, index, -1).astype(np.int32), None))
        return attributes

    def _always(self, window):
        """Return, for each attribute outside the templates, which tokens have it."""
        present = [window.from_begin >= 0] if self.bias else []
        return present if window.mark else [*present, window.from_begin == 0, window.to_end == 0]

    def _names_of_always(self):
        return (["bias"] if self.bias else []) + ([BOS, EOS] if self.padding == "drop" else [])

    def _name_features(self):
        new = [self._vocabularies, ConstantNames(np.array(self._names_of_always(), dtype=object))]
        if self.n_features is not None:
            new = [HashedNames(self.n_features)]
        new.append(ConstantNames(self._arrays.names()))
        self._attribute_names = FeatureNames([ConstantNames(self._input.attribute_names), *new])
        self._feature_names = self._attribute_names
        if self._input.has_blocks:
            self._feature_names = FeatureNames([ConstantNames(self._input.feature_names), *new])
        self.n_features_out_ = len(self._feature_names)

    def _rows_of(self, table) -> tuple:
        """Return the attributes of later tokens as CSR arrays."""
        if self._has_names():
            return self._vocabularies.rows(self._named(table))
        rows = self._rows_of_texts(table)
        if rows is None:
            columns = self._with_token_features(table.columns, table.offsets)
            rows = self._rows(table.offsets, self._attributes(table.offsets, columns, learn=False))
        return rows

    def _rows_of_texts(self, table) -> tuple | None:
        """Return what :meth:`_rows` does where all fields hold text, by kernels; else None."""
        if self.n_features is not None or not len(self._vocabularies.all):
            return None
        functions = {n: pair for n, pair in self.token_features_.items() if not isinstance(pair[1], Phrases)}
        compiled = self._vocabularies.compiled(functions)
        if compiled is None:
            return None
        columns = self._with_phrases(table.columns, table.offsets)
        rows = compiled.attributes(columns, table.offsets, self.padding == "mark", bool(self.bias))
        return None if rows is None else (*rows, None)

    def _rows(self, offsets, attributes) -> tuple:
        """Return the attributes of all tokens as CSR arrays."""
        vocabularies = self._vocabularies.all
        sizes = [*map(len, vocabularies)] + [1] * (len(attributes) - len(vocabularies))
        return _assemble(int(offsets[-1]), attributes, [0] * len(sizes) if self.n_features is not None else sizes)

    def _to_batch(self, X, table, rows) -> SequenceBatch:
        hashed = self.n_features is not None
        indptr, indices, values = rows
        columns = without_arrays(table.columns)
        if not isinstance(X, SequenceBatch) and not hashed:
            parts = indptr, indices, values, self.n_features_out_, self._attribute_names
            return SequenceBatch(table.offsets, *parts, columns, dense=self._dense(table, self.n_features_out_))
        n_attributes = self.n_features if hashed else len(self._vocabularies) + len(self._names_of_always())
        n_new = n_attributes + self._arrays.n_features
        values = np.ones(len(indices)) if values is None else values
        new = sparse.csr_array((values, indices, indptr), shape=(int(table.offsets[-1]), n_new))
        if hashed:
            new.sum_duplicates()  # attributes of one hash
        if not isinstance(X, SequenceBatch):
            dense = self._dense(table, n_new)
            batch = SequenceBatch.from_csr(new, table.offsets, None, columns, dense)
            refuse_infinite_values(batch)  # sums of attributes of one hash
            return batch
        stacked = sparse.hstack([without_dense(X).tocsr(), new], format="csr")
        batch = SequenceBatch.from_csr(stacked, X.offsets, self._attribute_names, X.columns, X.dense)
        if X.blocks is None:
            return batch
        bag = TokenBlock(BAG, np.arange(X.n_attributes, batch.n_attributes, dtype=np.int32), "")
        return with_blocks(batch, (*X.blocks, bag), self._feature_names)

    def _dense(self, table, n_features) -> DenseColumns | None:
        """Return the dense columns, which are the last of ``n_features`` features."""
        n_dense = self._arrays.n_features
        if not n_dense:
            return None
        values = self._arrays.values(table.columns, Window(table.offsets, mark=False))
        return DenseColumns(np.arange(n_features - n_dense, n_features), values)


def _check_fields(fields):
    if fields is None:
        return None
    if isinstance(fields, (str, bytes)) or not np.iterable(fields):
        raise TypeError(f"fields must be a sequence of names, got {fields!r}")
    fields = list(fields)
    if not fields or len(set(fields)) < len(fields):
        raise ValueError(f"fields must be different names, at least one, got {fields!r}")
    return fields


def _multiply(parts):
    """Return the parts of a conjunction and the product of their numbers, None if all are texts."""
    factors = [part.numbers for part in parts if part.numbers is not None]
    if not factors:
        return parts, None
    with np.errstate(over="ignore"):
        product = np.prod(factors, axis=0)
    codes = np.where(product == 0, np.int32(-1), parts[0].codes)  # a product may underflow
    return [parts[0]._replace(codes=codes), *parts[1:]], product


def _assemble(n_tokens, attributes, sizes):
    """Return CSR arrays from the attributes of each template; ``sizes`` are the sizes of their vocabularies."""
    starts = offsets_of(sizes)[:-1]
    indices = np.empty((n_tokens, len(attributes)), dtype=np.int32)
    for j, (ids, _) in enumerate(attributes):
        indices[:, j] = ids
    present = indices >= 0
    indices += starts.astype(np.int32)
    indptr = offsets_of(present.sum(axis=1))
    if all(values is None for _, values in attributes):
        return indptr, indices[present], None
    values = np.ones(present.shape)
    for j, (_, column) in enumerate(attributes):
        if column is not None:
            values[:, j] = column
    values = values[present]
    return indptr, indices[present], None if (values == 1).all() else values

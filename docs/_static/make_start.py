"""Make the picture of docs/start.md: the sentences that its ``SegmentsDisplay`` shows in a notebook.

python docs/_static/make_start.py     # writes start_names.html beside this file
"""

import doctest
from pathlib import Path

HERE = Path(__file__).parent


def picture():
    """Run the page up to the block that shows the sentences, and return the HTML of their display."""
    page = (HERE.parent / "start.md").read_text(encoding="utf-8").partition(">>> print(display)")[0]
    names: dict = {}
    for example in doctest.DocTestParser().get_examples(page):
        exec(compile(example.source, "start.md", "single"), names)
    return f"{names['display']._repr_html_()}\n"


if __name__ == "__main__":
    (HERE / "start_names.html").write_text(picture(), encoding="utf-8")

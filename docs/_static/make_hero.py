"""Draw the picture of README: accuracy on usaddress, and an address tagged by the model of the page "Try it".

    python docs/_static/make_hero.py     # writes hero.svg and hero_dark.svg beside this file

The bars are the last table of ``tests/benchmarks/products/usaddress.py``, which README also shows.
"""

import base64
import gzip
import re
from html import escape
from pathlib import Path

from sklearn_hocrf.tagger import Tagger

HERE = Path(__file__).parent
BARS = [("python-crfsuite, as the product trains it", 75.8), ("sklearn_hocrf, same features", 79.4)]
BARS += [("and 15 more features", 81.3)]
ADDRESS = "1600 W Dr Martin Luther King Jr Blvd Apt 4 , Chicago, IL 60612".replace(" ,", ",").split()
THEMES = {
    "hero": ("#1c2126", "#6b7680", "#c3ccd3", "#0a7d91"),
    "hero_dark": ("#eef2f5", "#a3adb5", "#4a545c", "#35b6cc"),
}


def address_fields():
    """Return the text, label and probability of each field of the address."""
    script = (HERE / "demo" / "addresses.js").read_text(encoding="utf-8")
    tagger = Tagger(gzip.decompress(base64.b64decode(re.search('"(.*)"', script)[1])))
    found = tagger.predict_segments(ADDRESS, with_probability=True).tolist()
    return [(" ".join(ADDRESS[start:stop]), label, probability) for start, stop, label, probability in found]


def text(x, y, content, fill, size=15, weight="normal"):
    return f'<text x="{x}" y="{y}" fill="{fill}" font-size="{size}" font-weight="{weight}">{escape(content)}</text>'


def draw(ink, pale, grey, colour, fields):
    """Return the picture in the colours of a theme."""
    parts = [text(20, 34, "Addresses parsed without an error", ink, 17, "bold")]
    for number, (name, percent) in enumerate(BARS):
        y, width = 60 + 82 * number, (percent - 50) * 11  # the axis begins at 50 %
        parts += [text(20, y + 14, name, ink)]
        parts += [f'<rect x="20" y="{y + 24}" width="{width}" height="26" fill="{colour if number else grey}"/>']
        parts += [text(30 + width, y + 43, f"{percent} %", ink, 17, "bold")]
    parts += [text(20, 318, "bars begin at 50 %", pale, 13), text(500, 34, "How sure the model is", ink, 17, "bold")]
    for number, (words, label, probability) in enumerate(fields):
        y = 62 + 30 * number
        parts += [text(500, y, words, ink, 15, "bold"), text(700, y, label, pale, 14)]
        parts += [text(905, y, f"{100 * min(probability, 0.999):.1f} %", ink, 15)]
    body = "".join(parts)
    return f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 980 335" font-family="sans-serif">{body}</svg>\n'


def main():
    fields = address_fields()
    for name, colours in THEMES.items():
        (HERE / f"{name}.svg").write_text(draw(*colours, fields), encoding="utf-8")


if __name__ == "__main__":
    main()

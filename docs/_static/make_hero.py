"""Draw the pictures of README, in light and dark: lines of verse and addresses that are labelled without an error.

    python docs/_static/make_hero.py     # writes hero*.svg and addresses*.svg beside this file

The bars show rows of the last tables of ``tests/benchmarks/products/verse.py`` and ``usaddress.py``, which README also
contains; the last bar of verse is from notebook 02. The line of verse is the first of the Aeneid, scanned by hand. The
model of the page "Try it" tags the address.
"""

import base64
import gzip
import re
from html import escape
from pathlib import Path

from sklearn_hocrf.tagger import Tagger

HERE = Path(__file__).parent
VERSE = [("python-crfsuite: pairs of labels", 28.1), ("sklearn_hocrf, order 5, same features", 90.7)]
VERSE += [("order 7, with features of words, sounds and places in the line", 99.2)]
ADDRESSES = [("python-crfsuite, tuned", 73.9), ("sklearn_hocrf, order 1, same features", 74.3)]
ADDRESSES += [("best order, same features", 77.4), ("and 15 more features", 78.7)]
FEET = "AR ma vi|RUM que ca|NO TRO|IAE QUI|PRI mus ab|O RIS"  # capitals mark long syllables
ADDRESS = "1600 W Dr Martin Luther King Jr Blvd Apt 4 , Chicago, IL 60612".replace(" ,", ",").split()
THEMES = {
    "": ("#1c2126", "#6b7680", "#c3ccd3", "#0a7d91", "#ffffff"),
    "_dark": ("#eef2f5", "#a3adb5", "#4a545c", "#35b6cc", "#10151a"),
}
LEFT, WIDTH, UNIT = 20, 940, 37  # a short syllable is one unit wide, a long one two


def address_fields():
    """Return the text, label and probability of each field of the address."""
    script = (HERE / "demo" / "addresses.js").read_text(encoding="utf-8")
    tagger = Tagger(gzip.decompress(base64.b64decode(re.search('"(.*)"', script)[1])))
    found = tagger.predict_segments(ADDRESS, with_probability=True).tolist()
    return [(" ".join(ADDRESS[start:stop]), label, probability) for start, stop, label, probability in found]


def text(x, y, content, fill, size=15, weight="normal", anchor="start"):
    style = f'font-size="{size}" font-weight="{weight}" text-anchor="{anchor}"'
    return f'<text x="{x:g}" y="{y:g}" fill="{fill}" {style}>{escape(content)}</text>'


def box(x, y, width, height, fill):
    return f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" fill="{fill}"/>'


def bars(rows, top, first, width, ink, grey, colour):
    """Return bars of percentages with their names above them; the axis begins at ``first`` percent."""
    parts, scale = [], width / (100 - first)
    for number, (name, percent) in enumerate(rows):
        y, length = top + 66 * number, scale * (percent - first)
        parts += [text(LEFT, y + 14, name, ink), box(LEFT, y + 22, length, 26, colour if number else grey)]
        parts += [text(LEFT + 8 + length, y + 41, f"{percent:.1f} %", ink, 17, "bold")]
    return parts


def scanned(top, ink, pale, grey, colour, inverse):
    """Return the line of verse: a box for each syllable, the length above each box, and gaps between feet."""
    parts, x = [], LEFT
    for foot in FEET.split("|"):
        for syllable in foot.split():
            is_long = syllable.isupper()
            width = UNIT * (1 + is_long)
            parts += [text(x + width / 2, top, "\N{EM DASH}" if is_long else "\N{UNION}", pale, 16, anchor="middle")]
            parts += [box(x, top + 10, width - 3, 36, colour if is_long else grey)]
            parts += [text(x + width / 2, top + 34, syllable.lower(), inverse if is_long else ink, 16, anchor="middle")]
            x += width
        x += 8
    return parts


def svg(parts, height):
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 980 {height}" font-family="sans-serif">'
    return f"{head}{''.join(parts)}</svg>\n"


def verse(ink, pale, grey, colour, inverse):
    """Return the picture of verse in the colours of a theme."""
    parts = [
        text(LEFT, 30, "How long is each syllable? Arma virumque cano, Troiae qui primus ab oris", ink, 17, "bold")
    ]
    parts += scanned(64, ink, pale, grey, colour, inverse)
    parts += [text(LEFT, 156, "New lines of the Aeneid without an error", ink, 17, "bold")]
    return svg(parts + bars(VERSE, 172, 0, WIDTH - 100, ink, grey, colour), 380)


def addresses(fields, ink, pale, grey, colour):
    """Return the picture of addresses in the colours of a theme."""
    parts = [text(LEFT, 34, "Addresses parsed without an error", ink, 17, "bold")]
    parts += bars(ADDRESSES, 62, 50, 450, ink, grey, colour)
    parts += [text(LEFT, 346, "bars begin at 50 %", pale, 13), text(500, 34, "How sure the model is", ink, 17, "bold")]
    for number, (words, label, probability) in enumerate(fields):
        y = 62 + 28 * number
        parts += [text(500, y, words, ink, 15, "bold"), text(720, y, label, pale, 14)]
        parts += [text(915, y, f"{100 * min(probability, 0.999):.1f} %", ink, 15)]
    return svg(parts, 366)


def main():
    fields = address_fields()
    for name, colours in THEMES.items():
        (HERE / f"hero{name}.svg").write_text(verse(*colours), encoding="utf-8")
        (HERE / f"addresses{name}.svg").write_text(addresses(fields, *colours[:4]), encoding="utf-8")


if __name__ == "__main__":
    main()

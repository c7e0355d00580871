"""What CONTRIBUTING.md, the notebook on theory and the code say of each other."""

import json
import re
from pathlib import Path

from test_architecture import MAY_IMPORT

CHECKOUT = Path(__file__).resolve().parents[1]
PAGE = (CHECKOUT / "CONTRIBUTING.md").read_text(encoding="utf-8")
NOTEBOOK = json.loads((CHECKOUT / "notebooks" / "05_how_it_works.ipynb").read_text(encoding="utf-8"))


def test_equations_are_numbered_in_order():
    without_pictures = re.sub(r"^```$.*?^```$", "", PAGE, flags=re.MULTILINE | re.DOTALL)
    numbers = [int(number) for number in re.findall(r"^ {4}.* \((\d+)\)$", without_pictures, re.MULTILINE)]
    assert numbers == list(range(1, len(numbers) + 1))
    assert len(numbers) >= 30


def test_notebook_uses_the_numbers_of_the_page():
    text = "".join("".join(cell["source"]) for cell in NOTEBOOK["cells"])
    tags = [int(tag) for tag in re.findall(r"\\tag\{(\d+)\}", text)]
    assert len(tags) == len(set(tags)) > 10
    assert all(f" ({tag})\n" in PAGE for tag in tags)


def test_notebook_imports_private_names_in_one_cell():
    sources = ["".join(cell["source"]) for cell in NOTEBOOK["cells"] if cell["cell_type"] == "code"]
    assert sum("sklearn_hocrf._" in source for source in sources) == 1


def test_page_names_all_rooms():
    table = PAGE.split("| room |")[1].split("\n\n")[0]
    first_column = " ".join(row.split("|")[1] for row in table.splitlines()[2:])
    assert set(re.findall(r"`(\w+)`", first_column)) == set(MAY_IMPORT)

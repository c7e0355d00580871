"""Benchmarks, as asv finds them: it imports a package, whereas each of these modules is a program beside the others."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

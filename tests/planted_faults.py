"""Plant twenty faults, one after the other, in a copy of the checkout, and print which tests find them.

    python tests/planted_faults.py                 # all, which takes half an hour: changed kernels compile
    python tests/planted_faults.py chain.py ...    # those of some files

Each fault is small: a wrong sign, an off-by-one error, a lost carry, a swapped index, a stale value. The test files
that its row names should find it. Run this program before and after tests are removed.
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LEFT_OUT = shutil.ignore_patterns(".git", "__pycache__", "*.egg-info", ".hypothesis", "_build")

# file, text, text of the fault, test files or tests
FAULTS = [
    ("_engine/inference/chain.py", "x * dy + dx * y", "x * dy - dx * y", "test_derivatives"),
    ("_engine/training/problem.py", "difference[part.truth] -= 1.0", "difference[part.truth] = -1.0",
     "test_model_laws::test_gradients_are_those_of_central_differences"),
    ("_engine/kernels/candidates.py", "-rate * data.weight[sequence] / norm", "-rate / norm", "test_label_parts"),
    ("_engine/kernels/choices.py", "gap = min(gap, loss)", "gap = loss",
     "test_model_laws::test_answers_are_those_of_all_labellings"),
    ("_engine/kernels/segment_scores.py", "row - first_row + 1) + 1):", "row - first_row) + 1):",
     "test_model_laws::test_answers_are_those_of_all_labellings"),
    ("_engine/kernels/lattice.py", "if kept_node >= first:", "if kept_node > stop:", "test_pruning"),
    ("_engine/kernels/segment_scores.py",
     "else row + 1 - d + channel[1]\n                        if token >= stop_row:\n"
     "                            continue\n                        cell", "else row - d + channel[1]\n"
     "                        if token >= stop_row:\n                            continue\n"
     "                        cell", "test_laws"),
    ("_engine/kernels/segment_scores.py", "if tile.rows[block] <= token < tile.rows[block + 1]:  # lanes",
     "if tile.rows[block] < token < tile.rows[block + 1]:  # lanes", "test_segment_ages"),
    ("_engine/structure/automaton.py", "suffix[unresolved] = fail[suffix[unresolved]]",
     "suffix[unresolved] = parent[suffix[unresolved]]", "test_automaton"),
    ("_engine/training/minimise.py", "return of_groups[groups] * of_positions[position]",
     "return of_groups[groups]",
     "test_weight_groups"),
    ("_estimator/fit/penalties.py", "        for matched in by_length:", "        for matched in by_length[::-1]:",
     "test_weight_groups"),
    ("_engine/training/lbfgs.py", "np.where(w != 0, w, -steepest)", "np.where(w != 0, w, steepest)", "test_sparsity"),
    ("_reading/schemes.py", "is_open = (before.prefix == B) | (before.prefix == I)", "is_open = before.prefix != S",
     "test_schemes"),
    ("_data/folders.py", "self._part().fill(-1 if is_text else np.nan, n_before)",
     "self._part().fill(-1 if is_text else np.nan, 0)", "test_folders"),
    ("model_selection/_conformal.py", "allowed = alpha * (n + 1) - 1", "allowed = alpha * n - 1",
     "test_conformal"),
    ("_engine/training/hypergradient.py", "        self._precision = precision\n        penalty", "        penalty",
     "test_penalty_search"),
    ("_engine/kernels/lists.py", "n_missing[end] > n_missing[begin]", "n_missing[end] < n_missing[begin]",
     "test_log_odds"),
    ("feature_extraction/_input_space.py", "merged.size, merged.size + 1]", "merged.size + 1, merged.size]",
     "test_partitions"),
    ("_estimator/labels/patterns.py", "goes_on(table.at(np.s_[:, None]), table)",
     "goes_on(table, table.at(np.s_[:, None]))", "test_tag_segments"),
    ("inspection/_paths.py", "!= self.best[position]", ">= self.best[position]", "test_look_inside"),
]  # fmt: skip


def kernels_of(folder):
    """Return the folder below NUMBA_CACHE_DIR in which numba caches the kernels of a checkout."""
    return f"kernels_{hashlib.sha1(str(folder / 'sklearn_hocrf' / '_engine' / 'kernels').encode()).hexdigest()}"


def finder(folder, fault):
    """Return the test that finds a fault in a copy of the checkout, or None."""
    name, old, new, tests = fault
    path = folder / "sklearn_hocrf" / name
    source = path.read_text(encoding="utf-8")
    assert source.count(old) == 1, (name, old, source.count(old))
    path.write_text(source.replace(old, new), encoding="utf-8")
    modules = {path.stem: str(path) for path in (folder / "tests").rglob("test_*.py")}
    files = [re.sub(r"^\w+", lambda match: modules[match[0]], test) for test in tests.split()]
    cache = Path(os.environ.get("NUMBA_CACHE_DIR", ""), kernels_of(ROOT))
    shutil.rmtree(folder / "kernels", ignore_errors=True)
    if cache.is_dir():  # kernels that are not changed need not be compiled
        shutil.copytree(cache, folder / "kernels" / kernels_of(folder))
    own = {"PYTHONPATH": str(folder), "NUMBA_CACHE_DIR": str(folder / "kernels")}
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-m", "not slow", *files]
    done = subprocess.run(command, cwd=folder, env=os.environ | own, capture_output=True, text=True)
    path.write_text(source, encoding="utf-8")
    if done.returncode < 0:  # a fault may write where it must not
        return f"signal {-done.returncode}"
    found = re.search(r"^(?:FAILED|ERROR) (.*)$", done.stdout, re.MULTILINE)
    assert done.returncode in (0, 1) or found, done.stdout + done.stderr
    return found[1] if found else None


def main():
    missed = 0
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(shutil.copytree(ROOT, Path(temporary) / "checkout", ignore=LEFT_OUT))
        for fault in FAULTS:
            if len(sys.argv) == 1 or Path(fault[0]).name in sys.argv[1:]:
                found = finder(folder, fault)
                missed += found is None
                print(f"{fault[0]:35}", (found or "MISSED")[:140], flush=True)
    return missed


if __name__ == "__main__":
    sys.exit(main())

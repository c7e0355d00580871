# What the scripts of this folder share, to be sourced: a new environment in a temporary folder, and titled, timed steps.
# Needs: bash, a Python >= 3.11 (PYTHON names another than python3), a package index. Leaves nothing in the checkout.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
work=$(mktemp -d)
title= start=0
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP  # else a script that was ended from outside would say that all steps passed
# PYTHONSAFEPATH: Python finds the installed package, not the folder of that name in the checkout
export PYTHONSAFEPATH=1 PYTHONDONTWRITEBYTECODE=1 PIP_DISABLE_PIP_VERSION_CHECK=1
export NUMBA_CACHE_DIR="$work/numba" HYPOTHESIS_STORAGE_DIRECTORY="$work/hypothesis" COVERAGE_FILE="$work/traces/data"
export PYTEST_ADDOPTS="-p no:cacheprovider" MYPY_CACHE_DIR="$work/mypy" RUFF_NO_CACHE=true
unset PYTHONPATH NUMBA_DISABLE_JIT
if [ -z "${SKLEARN_HOCRF_DATA:-}" ] && [ -d "$root/../shared/data" ]; then
    SKLEARN_HOCRF_DATA=$(cd "$root/../shared/data" && pwd)
fi
export SKLEARN_HOCRF_DATA=${SKLEARN_HOCRF_DATA:-}
mkdir "$work/traces" "$work/empty"
cd "$root"

finish() {
    local status=$?
    rm -rf "$work"
    if [ "$status" -eq 0 ]; then
        printf '\nall steps passed in %d s\n' "$SECONDS"
    else
        printf '\nFAILED after %d s: %s\n' $((SECONDS - start)) "$title"
    fi
}

step() {  # step "title" command...: errexit ends the script at the first failure, which `if` or `||` here would prevent
    title=$1 start=$SECONDS
    shift
    printf '\n=== %s\n' "$title"
    "$@"
    printf '=== %d s: %s\n' $((SECONDS - start)) "$title"
}

find_python() {  # find_python NAME...: the first of these that is there and new enough
    local candidate
    for candidate in "$@"; do
        if "$candidate" -c 'import sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            echo "$candidate"
            return
        fi
    done
    echo "no Python >= 3.11 found" >&2
    return 1
}

new_environment() {  # new_environment PYTHON
    "$1" --version
    "$1" -m venv "$work/venv"
    PATH="$work/venv/bin:$PATH"
}

copy_checkout() {  # a build must not leave build/ and *.egg-info behind
    mkdir "$work/checkout"
    git ls-files -z --cached --others --exclude-standard --deduplicate | while IFS= read -r -d '' path; do
        if [ -e "$path" ]; then printf '%s\0' "$path"; fi
    done | xargs -0 tar -cf - | tar -xf - -C "$work/checkout"
}

build_wheel() {
    copy_checkout
    python -m pip wheel --quiet --no-deps --wheel-dir "$work/dist" "$work/checkout"
}

install() {  # install [EXTRA] [OPTION...]: the wheel, as a user would
    python -m pip install --quiet "$(echo "$work"/dist/*.whl)${1:+[$1]}" "${@:2}"
    python -m pip list
}

add() {  # add EXTRA: what it needs beside what is installed; uv takes a third of the time of pip, which is asked if it fails
    local wanted
    wanted="$(echo "$work"/dist/*.whl)[$1]"
    python -m pip install --quiet uv
    # certificates of the system, as pip takes them: the first name is that of older versions
    UV_CACHE_DIR=$work/uv UV_NATIVE_TLS=1 UV_SYSTEM_CERTS=1 python -m uv pip install --quiet \
        --python "$(command -v python)" --compile-bytecode "$wanted" || python -m pip install --quiet "$wanted"
    python -m pip list
}

compile_kernels() {  # by one process, so that two that run tests do not compile the same
    python tests/all_kernels.py >/dev/null
}

main_command() {  # from an empty kernel cache, within two minutes
    (cd "$work/empty" && time timeout 120 python -m sklearn_hocrf)
}

notebooks() {  # notebooks FOLDER_OF_DATA [PATTERN...]: two at a time, by default all of them
    local data=$1
    shift
    cp -R notebooks "$work/notebooks"
    # without PYTHONSAFEPATH, which would hide the module beside the notebooks; there is no package to be taken for ours
    (cd "$work/notebooks" && printf '%s\0' ${@:-*.ipynb} | SKLEARN_HOCRF_DATA=$data env -u PYTHONSAFEPATH xargs -0 -n 1 -P 2 python -c '
import sys
import time

import nbformat
from nbclient import NotebookClient

start = time.perf_counter()
NotebookClient(nbformat.read(sys.argv[1], as_version=4), timeout=3600, kernel_name="python3").execute()
print(f"executed {sys.argv[1]}: {time.perf_counter() - start:.0f} s")
')
}

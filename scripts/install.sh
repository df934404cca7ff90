#!/bin/sh
# Usage: scripts/install.sh run|dev
#
# Install the pinned requirements and this checkout into .venv, unless that has been done.
# uv is used where it is installed, because it is faster; python3 with venv and pip is enough.
set -eu
cd "$(dirname "$0")/.."
wanted=$1
venv=.venv
stamp=$venv/installed
identity='import sys; print(sys.version, sys.base_prefix)'

say() { printf '%s\n' "$*" >&2; }

suits() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }

find_python() {
    if [ -n "${PYTHON:-}" ]; then
        suits "$PYTHON" && { echo "$PYTHON"; return; }
        say "PYTHON=$PYTHON does not run, or is older than 3.11."
        return 1
    fi
    for candidate in python3.13 python3.12 python3.11 python3; do
        suits "$candidate" && { echo "$candidate"; return; }
    done
    say "Takeaways needs Python 3.11 or newer, and found none as python3.13, python3.12, python3.11 or python3."
    say "On Debian and Ubuntu: apt-get install python3 python3-venv. Elsewhere: make PYTHON=/path/to/python3.12 ..."
    return 1
}

# What an installation depends on: the interpreter, the place (scripts in .venv name it), the versions.
fingerprint() {
    {
        "$python" -c "$identity"
        pwd -P
        cat "requirements/$1.txt" pyproject.toml
    } | cksum
}

installed() { [ -x $venv/bin/python ] && grep -qxF "$1 $(fingerprint "$1")" $stamp 2>/dev/null; }

# A .venv of the same interpreter that was not moved is kept; only what changed is installed again.
usable() {
    [ "$($venv/bin/python -c "$identity" 2>/dev/null)" = "$("$python" -c "$identity")" ] &&
        grep -qF "$(pwd -P)/$venv" $venv/bin/activate 2>/dev/null
}

with_uv() {
    usable || "$uv" venv --quiet --clear --python "$(command -v "$python")" $venv || return 1
    "$uv" pip install --quiet --python $venv/bin/python --require-hashes -r "requirements/$wanted.txt" &&
        "$uv" pip install --quiet --python $venv/bin/python --no-deps --no-build-isolation --editable .
}

with_pip() {
    if ! { usable && $venv/bin/python -m pip --version >/dev/null 2>&1; } && ! "$python" -m venv --clear $venv; then
        say "$python cannot make a virtual environment. On Debian and Ubuntu: apt-get install python3-venv"
        return 1
    fi
    pip="$venv/bin/python -m pip --disable-pip-version-check --quiet"
    $pip install --require-hashes -r "requirements/$wanted.txt" &&
        $pip install --no-deps --no-build-isolation --editable .
}

python=$(find_python)
# dev holds all that run does.
if installed "$wanted" || { [ "$wanted" = run ] && installed dev; }; then
    exit 0
fi

started=$(date +%s)
uv=$(command -v uv || true)
tool=pip
[ -z "$uv" ] || tool=uv
say "Installing into $venv with $tool and $("$python" --version) ..."
if [ -z "$uv" ]; then
    with_pip
elif ! with_uv; then
    say "uv could not install; trying python -m venv and pip."
    with_pip
fi
echo "$wanted $(fingerprint "$wanted")" >$stamp
say "Installed in $(($(date +%s) - started)) s."

#!/bin/sh
# Write requirements/*.txt from pyproject.toml. `UPGRADE=1` takes the newest version of everything.
set -eu
cd "$(dirname "$0")/.."

uv=$(command -v uv || true)
[ -n "$uv" ] || uv=.venv/bin/uv
if ! [ -x "$uv" ]; then
    echo "make lock needs uv. Install it, for example with: .venv/bin/python -m pip install uv" >&2
    exit 1
fi

upgrade=
[ -z "${UPGRADE:-}" ] || upgrade=--upgrade

# `--universal`: one file for every platform and every Python that we support.
compile() {
    output=$1
    shift
    "$uv" pip compile --quiet --universal --python-version 3.11 --generate-hashes \
        --no-emit-index-url --no-emit-find-links --no-annotate --no-header $upgrade \
        --output-file "$output" "$@"
    echo "$output: $(grep -c '==' "$output") pinned versions"
}

compile requirements/dev.txt --extra workers --extra recall --extra local --extra monitor --extra dev \
    pyproject.toml requirements/build.in
# The same versions as in dev.txt, so that what is tested is what runs.
tested="--constraints requirements/dev.txt"
compile requirements/run.txt --extra workers --extra recall $tested pyproject.toml requirements/build.in
compile requirements/image.txt --extra workers --extra recall --extra monitor $tested pyproject.toml
compile requirements/build.txt $tested requirements/build.in

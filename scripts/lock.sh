#!/bin/sh
# Write the lock files anew: every version and digest, for all of our Pythons and platforms at once. Versions stay as
# they are where pyproject.toml lets them; `scripts/lock.sh --upgrade` takes the newest.
set -eu
cd "$(dirname "$0")/.."

tools=$(mktemp -d)
trap 'rm -rf "$tools"' EXIT
.venv/bin/python -m venv "$tools"
"$tools/bin/pip" install --quiet uv

# One version of a package for all Pythons (--fork-strategy), so that a history does not depend on which.
compile() {
    "$tools/bin/uv" pip compile --quiet --universal --python-version 3.11 --fork-strategy fewest --generate-hashes \
        --no-emit-index-url --no-emit-find-links --custom-compile-command "make lock" --group build "$@"
}
compile pyproject.toml --output-file requirements.lock
compile pyproject.toml --extra test --constraints requirements.lock --output-file requirements-test.lock

#!/bin/sh
# Lint, then the tests, whatever came before: one run tells everything. Arguments go to pytest. Tests with containers run
# one after the other, since their brokers want the whole machine; the others side by side.
cd "$(dirname "$0")/.." || exit 1
failed=0
scripts/lint.sh || failed=1
.venv/bin/pytest --numprocesses auto --maxprocesses 4 --dist worksteal -m "not docker and not long" "$@" || failed=1
.venv/bin/pytest -m "docker and not long" --session-timeout 2100 "$@" || failed=1
if [ $failed -ne 0 ]; then echo "make test: failed, see above (lint, then tests without containers, then with)" >&2; fi
exit $failed

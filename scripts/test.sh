#!/bin/sh
# Lint, then the tests, whatever came before: one run tells everything. Arguments go to pytest. There is one process more
# than cores, for tests that wait; tests with containers, whose brokers want the machine, go two files at a time.
cd "$(dirname "$0")/.." || exit 1
failed=0
# compiles every test, which each process would otherwise do for itself
.venv/bin/pytest --collect-only --quiet > /dev/null 2>&1 &
scripts/lint.sh || failed=1
wait
cores=$(getconf _NPROCESSORS_ONLN)
.venv/bin/pytest --numprocesses $((cores < 4 ? cores + 1 : 4)) --dist worksteal -m "not docker and not spark and not long" "$@" || failed=1
.venv/bin/pytest -m "spark and not long" "$@" || failed=1
.venv/bin/pytest --numprocesses 2 --dist loadfile --no-loadscope-reorder -m "docker and not long" \
    --session-timeout 2100 "$@" || failed=1
if [ $failed -ne 0 ]; then echo "make test: failed, see above (lint, then tests without containers, then with)" >&2; fi
exit $failed

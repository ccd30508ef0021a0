#!/bin/sh
# Lint, then the tests whatever lint said: one run tells everything. Arguments go to pytest.
cd "$(dirname "$0")/.." || exit 1
failed=0
scripts/lint.sh || failed=1
.venv/bin/pytest "$@" || failed=1
if [ $failed -ne 0 ]; then echo "make test: failed, see above (lint comes first, then the tests)" >&2; fi
exit $failed

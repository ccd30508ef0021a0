#!/bin/sh
# All that is checked without running anything; each tool speaks, also when an earlier one found something.
cd "$(dirname "$0")/.." || exit 1
failed=0
.venv/bin/ruff check || failed=1
.venv/bin/mypy || failed=1
.venv/bin/lint-imports || failed=1
exit $failed

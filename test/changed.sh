#!/usr/bin/env bash
# changed.sh PATH...: succeeds if a file below one of the paths differs from BASE. It also succeeds with COLD=1, and where nothing is
# known about BASE, such as in a shallow clone.
set -euo pipefail
cd "$(dirname "$0")/.."
[ "${COLD:-}" != 1 ] || exit 0
. test/base.sh
[ -n "$BASE" ] || exit 0
! git diff --quiet "$BASE" -- "$@" || [ -n "$(git ls-files --others --exclude-standard -- "$@")" ]

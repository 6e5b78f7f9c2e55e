#!/usr/bin/env bash
# Runs a build and says what it took: CPU time of all its processes, and the program's bytes.
#
#     scripts/built.sh target/release/atoll make build
#
# CPU time and not the clock's, since that is much the same however many cores there are and whoever
# else uses them. What was compiled before takes none, so a first build's is the figure to compare.
set -euo pipefail
program=$1
shift

code=0
"$@" || code=$?
[ $code = 0 ] || exit $code
[ -f "$program" ] || exit 0 # `make -n`
# Not in a pipe: what the children of this very shell took.
spent=$(mktemp)
trap 'rm -f "$spent"' EXIT
times > "$spent"
minutes=$(LC_ALL=C awk 'NR == 2 {
    for (at = 1; at <= 2; at++) { split($at, part, /[ms]/); sum += part[1] * 60 + part[2] }
    printf "%.1f", sum / 60
}' "$spent")
echo "== the build took $minutes CPU minutes; the program is $(stat -c %s "$program") bytes"

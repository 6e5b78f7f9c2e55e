# Shared by the scripts of this folder: a temporary folder with a Python environment and packages.
# Usage: . "$(dirname "$0")/lib.sh" PACKAGE==VERSION …; then: ask < program.py
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check "$@"
ask() { "$work/venv/bin/python" -; }

#!/usr/bin/env bash
# Installs what building, running and testing need and the machine lacks: a C compiler (two
# dependencies are in C) and a Python environment in .venv; with the word `postgres` PostgreSQL as
# well, whose answers SQL is compared with, and with `browser` one that tests look at the console
# with. Prints what it does; quiet when there is nothing to do.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf '\033[1m== %s\033[0m\n' "$*"; }
die() { printf 'setup: %s\n' "$*" >&2; exit 1; }

# Debian packages, with sudo where that is needed.
install_packages() {
  local sudo=
  [ "$(id -u)" = 0 ] || sudo=sudo
  command -v apt-get >/dev/null || die "please install: $*"
  [ -z "$sudo" ] || command -v sudo >/dev/null || die "please install as root: apt-get install $*"
  say "installing Debian packages: $*"
  $sudo apt-get update -q
  $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "$@"
}

command -v cargo >/dev/null ||
  die "cargo is missing: install Rust with rustup (see rustup.rs), then run this again"
command -v cc >/dev/null || install_packages gcc libc6-dev
command -v python3 >/dev/null || install_packages python3 python3-venv
python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
  die "python3 is $(python3 --version), 3.11 or later is needed"

if [ ! -x .venv/bin/pip ]; then
  say "making a Python environment in .venv"
  # Debian's python3 has venv but not the pip that goes into it.
  python3 -c 'import ensurepip, venv' 2>/dev/null || install_packages python3-venv
  rm -rf .venv
  python3 -m venv .venv
fi

wanted=$(cat {python,demo,differential}/requirements.txt | sha256sum)
if [ "$(cat .venv/requirements.sha256 2>/dev/null)" != "$wanted" ]; then
  say "installing Python packages into .venv"
  .venv/bin/pip install --quiet --disable-pip-version-check \
    -r python/requirements.txt -r demo/requirements.txt -r differential/requirements.txt
  printf '%s\n' "$wanted" >.venv/requirements.sha256
fi

# Debian keeps these programs beside each other in a folder for each version, not in the path.
if [ "${1:-}" = postgres ] && ! command -v initdb >/dev/null &&
  ! compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null; then
  install_packages postgresql
fi

if [ "${1:-}" = browser ] && ! command -v chromium >/dev/null; then
  # Some systems have it under another name, or not at all: the tests that need it are skipped then.
  (install_packages chromium) || say "there is no chromium: tests of the console are skipped"
fi

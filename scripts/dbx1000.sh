#!/usr/bin/env bash
# Measures DBx1000 (https://github.com/yxymit/DBx1000), the database of the study "Staring into the
# Abyss" whose schemes Atoll has too, on the workloads of `atoll bench ycsb` and
# `atoll bench tpcc --reduced`. For people who want both on one machine; no test runs it.
#
#   scripts/dbx1000.sh build     fetch one fixed commit, apply the settings, compile a program for
#                                each scheme and workload (a program serves one of each only)
#   scripts/dbx1000.sh run       run the rows below and print thousands of transactions per second
#   scripts/dbx1000.sh [all]     both
#
# Rows: 50 % reads theta 0.6; reads only theta 0; 50 % reads theta 0.8; TPC-C, 4 warehouses.
# Settings for YCSB: 4 Mi rows of 10 columns of 100 bytes, 16 accesses per transaction (a key drawn
# twice is left out the second time, so a few transactions have less). HSTORE has as many
# partitions as threads, and every YCSB transaction stays in the one of its thread.
#
# Its figure is txn_cnt / run_time * threads, as its README says. `run_time` is counted by the
# time-stamp counter, whose frequency is measured here and compiled in (CPU_FREQ).
#
# What is changed in the sources: config.h (the settings), the schema of YCSB, and two places that
# a present-day compiler turns into faults, see `apply_settings`.
#
# What its figures mean: locking schemes and HSTORE touch 8 bytes of a row in place; OCC, SILO,
# TICTOC and TIMESTAMP copy the whole row for each access. An update writes 8 bytes of a column.
# Aborted transactions wait up to 0.1 ms (ABORT_PENALTY) while their thread runs others. TPC-C has
# Payment and NewOrder only, half each, without their inserts.
#
# Needs git, make, g++, libjemalloc-dev, about 6 GiB of memory.
#
#   DBX1000_DIR         where sources and programs go          (target/dbx1000)
#   DBX1000_REPOSITORY  another address or a local copy of it  (GitHub)
#   SCHEMES             which                                  (all nine)
#   WORKLOADS           which of YCSB and TPCC                 (both)
#   THREADS             how many, powers of two                ("1 2")
#   REPEAT              runs of each row; the median is shown  (3)
#   LIMIT               seconds after which a run is given up  (120)
#   JOBS                compilers at a time                    (all CPUs)
set -euo pipefail
cd "$(dirname "$0")/.."

commit=5f172a99bd57bed29745df81f72e93f91292bb31
repository=${DBX1000_REPOSITORY:-https://github.com/yxymit/DBx1000.git}
dir=${DBX1000_DIR:-target/dbx1000}
# TIMESTAMP comes last: it does not end on the rows with updates, see `measure`.
schemes=${SCHEMES:-NO_WAIT WAIT_DIE DL_DETECT MVCC OCC HSTORE SILO TICTOC TIMESTAMP}
workloads=${WORKLOADS:-YCSB TPCC}
threads=${THREADS:-1 2}
repeat=${REPEAT:-3}
limit=${LIMIT:-120}
jobs=${JOBS:-$(nproc)}

say() { printf '\033[1m== %s\033[0m\n' "$*" >&2; }
die() { printf 'dbx1000: %s\n' "$*" >&2; exit 1; }

# Ticks of the time-stamp counter in a nanosecond, against the system's clock.
clock_ghz() {
  local probe=$dir/clock
  cat >"$probe.cpp" <<'END'
#include <chrono>
#include <cstdio>
#include <thread>
#include <x86intrin.h>
int main() {
  using clock = std::chrono::steady_clock;
  auto from = clock::now();
  unsigned long long ticks = __rdtsc();
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  ticks = __rdtsc() - ticks;
  std::chrono::duration<double, std::nano> passed = clock::now() - from;
  std::printf("%.4f\n", ticks / passed.count());
}
END
  g++ -O2 -std=c++11 -pthread -o "$probe" "$probe.cpp"
  "$probe"
}

fetch_sources() {
  [ -d "$dir/source" ] || git clone --quiet "$repository" "$dir/source"
  git -C "$dir/source" checkout --quiet --detach "$commit" ||
    die "$dir/source has no commit $commit; remove that folder and run this again"
}

# Sets one `#define` of config.h in the folder $1 and fails if there is none.
define() {
  grep -qE "^#define[[:space:]]+$2[[:space:]]" "$1/config.h" || die "config.h has no $2"
  sed -i -E "s|^#define[[:space:]]+$2[[:space:]].*|#define $2 $3|" "$1/config.h"
}

# $1 folder, $2 scheme, $3 workload, $4 GHz.
apply_settings() {
  define "$1" CC_ALG "$2"
  define "$1" WORKLOAD "$3"
  define "$1" CPU_FREQ "$4"
  define "$1" SYNTH_TABLE_SIZE "(4 * 1024 * 1024)"
  define "$1" REQ_PER_QUERY 16
  define "$1" NUM_WH 4
  # The table is filled by this many threads, which must divide its size.
  define "$1" INIT_PARALLELISM 2
  # Transactions of a thread: seconds, not a fraction of one.
  if [ "$3" = YCSB ]; then define "$1" MAX_TXN_PER_PART 300000
  else define "$1" MAX_TXN_PER_PART 1000000; fi
  # Columns of 100 bytes, and a source of as many to fill them from.
  sed -i 's/^\t10,string/\t100,string/' "$1/benchmarks/YCSB_schema.txt"
  sed -i 's/char value\[6\] = "hello"/char value[128] = "hello"/' "$1/benchmarks/ycsb_wl.cpp"
  # A table kept the address of a string that is gone by then; OCC sorts rows by it.
  sed -i 's/schema->init( tname.c_str(),/schema->init( strdup(tname.c_str()),/' "$1/system/wl.cpp"
}

build() {
  command -v g++ >/dev/null || die "g++ is missing"
  mkdir -p "$dir/bin"
  fetch_sources
  local ghz scheme workload tree
  ghz=$(clock_ghz)
  for workload in $workloads; do
    for scheme in $schemes; do
      say "building $scheme for $workload"
      tree=$dir/build/$scheme-$workload
      rm -rf "$tree"
      mkdir -p "$tree"
      git -C "$dir/source" archive "$commit" | tar -x -C "$tree"
      apply_settings "$tree" "$scheme" "$workload" "$ghz"
      # Its own flags but for -Werror, and the system's jemalloc in place of an old one beside it.
      make -s -C "$tree" -j "$jobs" rundb LDFLAGS="-pthread -O3 -ljemalloc -lrt" \
        CFLAGS="-std=c++11 -O3 -w -D NOGRAPHITE=1 -I. -I./benchmarks -I./concurrency_control \
          -I./storage -I./system" >/dev/null
      cp "$tree/rundb" "$dir/bin/$scheme-$workload"
      mkdir -p "$dir/bin/benchmarks"
      cp "$tree"/benchmarks/*schema.txt "$dir/bin/benchmarks/"
      rm -rf "$tree"
    done
  done
}

# One run: thousands of transactions per second, or why there is no figure.
measure() { # scheme workload threads arguments...
  local scheme=$1 workload=$2 count=$3 log status=0
  shift 3
  [ "$scheme" != HSTORE ] || set -- "$@" "-p$count" "-v$count"
  # Programs look for their schema below the folder that they are started in.
  log=$(cd "$dir/bin" && timeout "$limit" "./$scheme-$workload" "-t$count" "$@" 2>&1) || status=$?
  case $status in
    0) ;;
    124) echo hangs; return ;;
    *) echo "failed($status)"; return ;;
  esac
  awk -v threads="$count" '/^\[summary\]/ {
    gsub(/,/, ""); for (i = 2; i <= NF; i++) { split($i, pair, "="); value[pair[1]] = pair[2] }
    printf "%.1f\n", value["txn_cnt"] / value["run_time"] * threads / 1000
  }' <<<"$log"
}

# The median of several runs; one that gives no figure is not repeated.
median() {
  local figures=() figure i
  for ((i = 0; i < repeat; i++)); do
    figure=$(measure "$@")
    [[ $figure =~ ^[0-9.]+$ ]] || { echo "${figure:-none}"; return; }
    figures+=("$figure")
  done
  printf '%s\n' "${figures[@]}" | sort -n | sed -n "$(((repeat + 1) / 2))p"
}

run() {
  local scheme count cells
  printf '%-10s %7s %12s %12s %12s %12s\n' \
    scheme threads "50/50 0.6" "reads 0" "50/50 0.8" TPC-C
  for scheme in $schemes; do
    for count in $threads; do
      cells=(- - - -)
      if [[ " $workloads " == *" YCSB "* ]]; then
        cells[0]=$(median "$scheme" YCSB "$count" -r0.5 -w0.5 -z0.6)
        cells[1]=$(median "$scheme" YCSB "$count" -r1 -w0 -z0)
        cells[2]=$(median "$scheme" YCSB "$count" -r0.5 -w0.5 -z0.8)
      fi
      if [[ " $workloads " == *" TPCC "* ]]; then
        cells[3]=$(median "$scheme" TPCC "$count" -n4)
      fi
      printf '%-10s %7s %12s %12s %12s %12s\n' "$scheme" "$count" "${cells[@]}"
    done
  done
}

mkdir -p "$dir"
dir=$(cd "$dir" && pwd)
case ${1:-all} in
  build) build ;;
  run) run ;;
  all) build; run ;;
  *) die "expected build, run or all, not '$1'" ;;
esac

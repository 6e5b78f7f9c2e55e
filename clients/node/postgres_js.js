// The checks of postgres.js.

import assert from "node:assert/strict";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import postgres from "postgres";
import { check, fails, until, versionOf } from "./checks.js";

console.log(`version postgres.js ${versionOf("postgres")}`);

/** A check with a pool of its own, or of one connection. */
const withSql = (name, body, options = {}) =>
  check(name, async () => {
    const sql = postgres({
      max: 4,
      onnotice() {},
      connection: { statement_timeout: 10_000 },
      ...options,
    });
    try {
      await body(sql);
    } finally {
      await sql.end({ timeout: 2 });
    }
  });

await withSql("connection", async (sql) => {
  const [row] = await sql`SELECT current_user AS me, current_database() AS db`;
  assert.deepEqual({ ...row }, { me: process.env.PGUSER, db: process.env.PGDATABASE });
});
await withSql("wrong password", (sql) => fails("28P01", sql`SELECT 1`), { password: "wrong" });
await withSql(
  "parameters of the connection",
  async (sql) => {
    assert.equal((await sql`SHOW application_name`)[0].application_name, "shop");
    assert.equal((await sql`SHOW search_path`)[0].search_path, "elsewhere, public");
  },
  { connection: { application_name: "shop", search_path: "elsewhere, public" } },
);
await withSql("result of a query", async (sql) => {
  const result = await sql`SELECT n, ${"x"} AS b FROM generate_series(1, ${3}::int) s(n)`;
  assert.deepEqual(
    [...result],
    [1, 2, 3].map((n) => ({ n, b: "x" })),
  );
  assert.deepEqual([result.count, result.command], [3, "SELECT"]);
  assert.deepEqual(
    result.columns.map(({ name, type }) => [name, type]),
    [
      ["n", 23],
      ["b", 25],
    ],
  );
});

const types = {
  boolean: true,
  smallint: -5,
  integer: 2147483647,
  bigint: "9223372036854775807",
  real: 0.1,
  "double precision": 1e-300,
  "numeric(12,3)": "1.500",
  text: "zwölf 🐘",
  "varchar(5)": "abc",
  bytea: Buffer.from([0, 255]),
  date: new Date("2024-02-29T00:00:00Z"),
  timestamptz: new Date("2024-02-29T10:34:56.789Z"),
  uuid: "6ba7b810-9dad-11d1-80b4-00c04fd430c8",
  json: { a: [1, null] },
  jsonb: { a: 1.5 },
  "integer[]": [1, -3],
  "text[]": ["a,b", "", "NULL"],
};
for (const [type, value] of Object.entries(types)) {
  await withSql(`type ${type}`, async (sql) => {
    await sql.unsafe(`DROP TABLE IF EXISTS js_type; CREATE TABLE js_type (v ${type})`);
    await sql`INSERT INTO js_type (v) VALUES (${value})`;
    const [{ v }] = await sql`SELECT v FROM js_type`;
    assert.deepEqual(v, value);
    const [{ again }] = await sql.unsafe(`SELECT $1::${type} AS again`, [value]);
    assert.deepEqual(again, value);
  });
}
await withSql("arrays whose types are fetched", async (sql) => {
  const [row] =
    await sql`SELECT '{1.5,2}'::numeric(5, 1)[] AS a, '{2024-02-29}'::date[] AS b,
                     '{t,f}'::boolean[] AS c`;
  assert.deepEqual(
    { ...row },
    {
      a: ["1.5", "2.0"],
      b: [new Date("2024-02-29T00:00:00Z")],
      c: [true, false],
    },
  );
});
await withSql("helpers of insert, update and IN", async (sql) => {
  await sql`CREATE TABLE js_user (id int PRIMARY KEY, name text, age int)`;
  await sql`INSERT INTO js_user ${sql([
    { id: 1, name: "a", age: 5 },
    { id: 2, name: null, age: 6 },
  ])}`;
  await sql`UPDATE js_user SET ${sql({ name: "b", age: 7 }, "name", "age")} WHERE id = ${2}`;
  const rows =
    await sql`SELECT ${sql(["id", "name"])} FROM ${sql("js_user")}
              WHERE id IN ${sql([1, 2, 3])} ORDER BY id`;
  assert.deepEqual(
    [...rows],
    [
      { id: 1, name: "a" },
      { id: 2, name: "b" },
    ],
  );
  const update = await sql`
    UPDATE js_user SET name = d.name FROM (VALUES ${sql([[1, "z"]])}) AS d (id, name)
    WHERE js_user.id = d.id::int RETURNING js_user.name`;
  assert.deepEqual([...update], [{ name: "z" }]);
});
await withSql("fragments", async (sql) => {
  const older = (than) => sql`AND n > ${than}`;
  const rows =
    await sql`SELECT n FROM generate_series(1, 9) s(n) WHERE true ${older(7)}
              ORDER BY ${sql("n")} DESC`;
  assert.deepEqual(
    rows.map(({ n }) => n),
    [9, 8],
  );
});
await withSql("many rows of one insert", async (sql) => {
  await sql`CREATE TABLE js_bulk (id int, name text)`;
  const users = Array.from({ length: 5000 }, (_, id) => ({ id, name: `n${id}` }));
  await sql`INSERT INTO js_bulk ${sql(users)}`;
  assert.equal((await sql`SELECT count(*)::int AS n FROM js_bulk`)[0].n, 5000);
});
await withSql(
  "pipeline of one connection",
  async (sql) => {
    const results = await Promise.all(
      Array.from({ length: 300 }, (_, i) => sql`SELECT ${i}::int AS n`),
    );
    assert.deepEqual(
      results.map(([{ n }]) => n),
      Array.from({ length: 300 }, (_, i) => i),
    );
  },
  { max: 1 },
);
await withSql(
  "pipeline in which one fails",
  async (sql) => {
    const outcomes = await Promise.allSettled([
      sql`SELECT 1 AS n`,
      sql`SELECT 1 / ${0}::int AS n`,
      sql`SELECT 3 AS n`,
    ]);
    assert.deepEqual(
      outcomes.map(({ status, reason }) => reason?.code ?? status),
      ["fulfilled", "22012", "fulfilled"],
    );
  },
  { max: 1 },
);
await withSql("transaction", async (sql) => {
  await sql`CREATE TABLE js_tx (id int PRIMARY KEY)`;
  await sql.begin(async (sql) => {
    await sql`INSERT INTO js_tx VALUES (1)`;
    await sql
      .savepoint(async (sql) => {
        await sql`INSERT INTO js_tx VALUES (2)`;
        await sql`INSERT INTO js_tx VALUES (1)`;
      })
      .catch((error) => assert.equal(error.code, "23505"));
    await sql`INSERT INTO js_tx VALUES (3)`;
  });
  await fails(
    "22012",
    sql.begin("isolation level serializable", (sql) => [
      sql`INSERT INTO js_tx VALUES (4)`,
      sql`SELECT 1 / 0`,
    ]),
  );
  assert.deepEqual(
    (await sql`SELECT id FROM js_tx ORDER BY id`).map(({ id }) => id),
    [1, 3],
  );
});
await withSql("transaction that is pipelined", async (sql) => {
  await sql`CREATE TABLE js_piped (id int PRIMARY KEY)`;
  const results = await sql.begin((sql) => [
    sql`INSERT INTO js_piped VALUES (1)`,
    sql`INSERT INTO js_piped SELECT n FROM generate_series(2, 5) s(n)`,
    sql`SELECT count(*)::int AS n FROM js_piped`,
  ]);
  assert.equal(results[2][0].n, 5);
});
await withSql("read-only transaction", (sql) =>
  fails(
    "25006",
    sql.begin("read only", (sql) => sql`CREATE TABLE js_ro (a int)`),
  ),
);
await withSql("cursor", async (sql) => {
  const sizes = [];
  await sql`SELECT n FROM generate_series(1, 25) s(n)`.cursor(
    10,
    (rows) => void sizes.push(rows.length),
  );
  assert.deepEqual(sizes, [10, 10, 5]);
  let last;
  for await (const [row] of sql`SELECT n FROM generate_series(1, 1000) s(n)`.cursor()) {
    last = row.n;
    if (last === 7) break;
  }
  assert.equal(last, 7);
});
await withSql("forEach, raw and values", async (sql) => {
  let sum = 0;
  await sql`SELECT n FROM generate_series(1, 100) s(n)`.forEach(({ n }) => (sum += n));
  assert.equal(sum, 5050);
  assert.deepEqual([...(await sql`SELECT 1, 'x'::text`.values())], [[1, "x"]]);
  assert.deepEqual((await sql`SELECT 1`.raw())[0][0].toString(), "1");
});
await withSql("describe of a statement", async (sql) => {
  await sql`CREATE TABLE js_described (id int, name text)`;
  const about = await sql`SELECT name FROM js_described WHERE id = ${1}`.describe();
  assert.deepEqual(about.types, [23]);
  assert.deepEqual(
    about.columns.map(({ name, type }) => [name, type]),
    [["name", 25]],
  );
});
await withSql("simple protocol", async (sql) => {
  const results = await sql`SELECT 1 AS a; SELECT 2 AS b`.simple();
  assert.deepEqual(
    results.map(([row]) => ({ ...row })),
    [{ a: 1 }, { b: 2 }],
  );
});
await withSql("COPY", async (sql) => {
  await sql`CREATE TABLE js_copy (id int, name text)`;
  await pipeline(
    Readable.from(["1\ta\n", "2\tb\n"]),
    await sql`COPY js_copy (id, name) FROM STDIN`.writable(),
  );
  let text = "";
  for await (const chunk of await sql`COPY js_copy TO STDOUT`.readable()) {
    text += chunk;
  }
  assert.equal(text, "1\ta\n2\tb\n");
});
await withSql("notifications", async (sql) => {
  const seen = [];
  const { unlisten } = await sql.listen("js_news", (payload) => seen.push(payload));
  await sql.notify("js_news", "one");
  await sql.notify("js_news", "two");
  await until(() => seen.length === 2);
  assert.deepEqual(seen, ["one", "two"]);
  await unlisten();
});
await withSql("cancellation", async (sql) => {
  const slow = sql`SELECT pg_sleep(9)`;
  setTimeout(() => slow.cancel(), 300);
  await fails("57014", slow);
  assert.equal((await sql`SELECT 1 AS a`)[0].a, 1);
});
await withSql("error of a constraint", async (sql) => {
  await sql`CREATE TABLE js_unique (id int PRIMARY KEY)`;
  await sql`INSERT INTO js_unique VALUES (1)`;
  const error = await fails("23505", sql`INSERT INTO js_unique VALUES (${1})`);
  assert.deepEqual(
    [error.table_name, error.constraint_name, error.detail],
    ["js_unique", "js_unique_pkey", "Key (id)=(1) already exists."],
  );
});
await withSql("error of a parameter", async (sql) => {
  await fails("22P02", sql`SELECT ${"x"}::int`);
  await fails("42P01", sql`SELECT * FROM js_nowhere WHERE id = ${1}`);
  await fails("42601", sql`SELEC ${1}`);
});
await withSql("reserved connection", async (sql) => {
  const reserved = await sql.reserve();
  await reserved`SET application_name = 'mine'`;
  assert.equal((await reserved`SHOW application_name`)[0].application_name, "mine");
  reserved.release();
});
await withSql(
  "without prepared statements",
  async (sql) => {
    for (let i = 0; i < 3; i++) {
      assert.equal((await sql`SELECT ${i}::int AS n`)[0].n, i);
    }
  },
  { prepare: false },
);
await withSql(
  "statement of a table that changes",
  async (sql) => {
    await sql`CREATE TABLE js_shift (a int)`;
    const ask = () => sql`SELECT * FROM js_shift`;
    await ask();
    await sql`ALTER TABLE js_shift ADD COLUMN b int`;
    assert.deepEqual(
      (await ask()).columns.map(({ name }) => name),
      ["a", "b"],
    );
  },
  { max: 1 },
);
await withSql(
  "transform of names",
  async (sql) => {
    const [row] = await sql`SELECT 1 AS user_id`;
    assert.deepEqual({ ...row }, { userId: 1 });
  },
  { transform: postgres.camel },
);

// Clients that have not ended would keep the program.
process.exit();

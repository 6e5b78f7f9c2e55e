"""What database tools ask of a server, in the shape of their queries, without the tools.

The queries were written anew after what DBeaver, Grafana and Metabase ask: the same catalogs,
joins, functions and casts. Their JDBC part is in the checks of pgjdbc.
"""

import sys

import psycopg

TABLES = """
CREATE TYPE mood AS ENUM ('sad', 'glad');
CREATE TABLE city (id serial PRIMARY KEY, name text NOT NULL UNIQUE);
COMMENT ON TABLE city IS 'Where people live';
COMMENT ON COLUMN city.name IS 'Its name';
CREATE TABLE visit (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, city int REFERENCES city ON DELETE CASCADE,
    at timestamptz NOT NULL, amount numeric(9, 2) DEFAULT 0 CHECK (amount >= 0), mood mood);
CREATE INDEX visit_at ON visit (at);
CREATE VIEW town AS SELECT id, upper(name) AS name FROM city;
INSERT INTO city (name) VALUES ('Ulm'), ('Bonn');
INSERT INTO visit (city, at, amount, mood) SELECT 1 + n % 2,
    timestamptz '2024-01-31 23:00:00+00' + n * interval '1 hour', n, 'glad'
    FROM generate_series(0, 9) AS s(n);
"""

DBEAVER = {
    "databases": (
        """SELECT db.oid, db.* FROM pg_catalog.pg_database db
           WHERE datallowconn AND NOT datistemplate AND db.datname = current_database()""",
        1,
    ),
    "schemas": (
        """SELECT n.oid, n.*, d.description FROM pg_catalog.pg_namespace n
           LEFT OUTER JOIN pg_catalog.pg_description d
           ON d.objoid = n.oid AND d.objsubid = 0 AND d.classoid = 'pg_namespace'::regclass
           WHERE nspname = 'public'""",
        1,
    ),
    "data types": (
        """SELECT t.oid, t.*, c.relkind, format_type(nullif(t.typbasetype, 0), t.typtypmod) AS base,
                  d.description
           FROM pg_catalog.pg_type t LEFT OUTER JOIN pg_catalog.pg_type et ON et.oid = t.typelem
           LEFT OUTER JOIN pg_catalog.pg_class c ON c.oid = t.typrelid
           LEFT OUTER JOIN pg_catalog.pg_description d ON t.oid = d.objoid
           WHERE t.typname IN ('int4', 'text', 'mood') AND (c.relkind IS NULL OR c.relkind = 'c')
             AND (et.typcategory IS NULL OR et.typcategory <> 'C')""",
        3,
    ),
    "labels of enums": (
        """SELECT e.enumlabel FROM pg_catalog.pg_enum e
           WHERE e.enumtypid = 'mood'::regtype ORDER BY e.enumsortorder""",
        2,
    ),
    "tables": (
        """SELECT c.oid, c.*, d.description, pg_catalog.pg_get_expr(c.relpartbound, c.oid) AS bound,
                  pg_catalog.pg_get_partkeydef(c.oid) AS partition_key
           FROM pg_catalog.pg_class c LEFT OUTER JOIN pg_catalog.pg_description d
           ON d.objoid = c.oid AND d.objsubid = 0 AND d.classoid = 'pg_class'::regclass
           WHERE c.relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = 'public')
             AND c.relkind NOT IN ('i', 'I', 'c', 'S')""",
        3,
    ),
    "sizes of tables": (
        """SELECT c.oid, pg_catalog.pg_total_relation_size(c.oid) AS total,
                  pg_catalog.pg_relation_size(c.oid) AS own
           FROM pg_class c WHERE c.relname IN ('city', 'visit')""",
        2,
    ),
    "columns": (
        """SELECT c.relname, a.*, pg_catalog.pg_get_expr(ad.adbin, ad.adrelid, true) AS def_value,
                  dsc.description, dep.objid
           FROM pg_catalog.pg_attribute a
           INNER JOIN pg_catalog.pg_class c ON (a.attrelid = c.oid)
           LEFT OUTER JOIN pg_catalog.pg_attrdef ad
             ON (a.attrelid = ad.adrelid AND a.attnum = ad.adnum)
           LEFT OUTER JOIN pg_catalog.pg_description dsc
             ON (c.oid = dsc.objoid AND a.attnum = dsc.objsubid)
           LEFT OUTER JOIN pg_catalog.pg_depend dep
             ON dep.refobjid = a.attrelid AND dep.deptype = 'i' AND dep.refobjsubid = a.attnum
             AND dep.classid = dep.refclassid
           WHERE NOT a.attisdropped AND c.relkind NOT IN ('i', 'I', 'c') AND a.attnum > 0
             AND c.oid = 'visit'::regclass ORDER BY a.attnum""",
        5,
    ),
    "constraints": (
        """SELECT c.oid, c.*, t.relname AS tabrelname, rt.relnamespace AS refnamespace,
                  d.description, CASE WHEN c.contype = 'c'
                  THEN substring(pg_get_constraintdef(c.oid), 7) END AS source
           FROM pg_catalog.pg_constraint c
           INNER JOIN pg_catalog.pg_class t ON t.oid = c.conrelid
           LEFT OUTER JOIN pg_catalog.pg_class rt ON rt.oid = c.confrelid
           LEFT OUTER JOIN pg_catalog.pg_description d
             ON d.objoid = c.oid AND d.objsubid = 0 AND d.classoid = 'pg_constraint'::regclass
           WHERE c.conrelid = 'visit'::regclass AND c.contype IN ('p', 'f', 'c')""",
        3,
    ),
    "indexes": (
        """SELECT i.*, i.indkey AS keys, c.relname, c.relam, tc.relname AS tabrelname,
                  dsc.description, pg_catalog.pg_get_expr(i.indpred, i.indrelid) AS predicate,
                  pg_catalog.pg_get_expr(i.indexprs, i.indrelid, true) AS expression,
                  pg_catalog.pg_relation_size(i.indexrelid) AS size,
                  pg_catalog.pg_stat_get_numscans(i.indexrelid) AS scans
           FROM pg_catalog.pg_index i
           INNER JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid
           INNER JOIN pg_catalog.pg_class tc ON tc.oid = i.indrelid
           LEFT OUTER JOIN pg_catalog.pg_description dsc ON i.indexrelid = dsc.objoid
           WHERE i.indrelid = 'visit'::regclass ORDER BY tabrelname, c.relname""",
        2,
    ),
    "sequences": ("SELECT last_value, is_called FROM city_id_seq", 1),
    "roles": (
        """SELECT a.oid, a.*, pd.description FROM pg_catalog.pg_roles a
           LEFT JOIN pg_catalog.pg_shdescription pd ON a.oid = pd.objoid
           WHERE a.rolname = current_user""",
        1,
    ),
    "sessions": ("SELECT sa.* FROM pg_catalog.pg_stat_activity sa WHERE pid = pg_backend_pid()", 1),
    "text of a view": ("SELECT pg_get_viewdef('town'::regclass, true)", 1),
    "extensions, triggers, rules and policies": (
        """SELECT 1 FROM pg_catalog.pg_trigger WHERE NOT tgisinternal
           UNION ALL SELECT 2 FROM pg_catalog.pg_policy
           UNION ALL SELECT 3 FROM pg_catalog.pg_rewrite WHERE ev_class = 'city'::regclass""",
        0,
    ),
    "estimate of a plan": ("EXPLAIN (FORMAT JSON) SELECT * FROM city", 1),
}

PATH = """SELECT CASE WHEN trim(s[i]) = '"$user"' THEN current_user::text ELSE trim(s[i]) END
    FROM generate_series(
        array_lower(string_to_array(current_setting('search_path'), ','), 1),
        array_upper(string_to_array(current_setting('search_path'), ','), 1)) AS i,
    string_to_array(current_setting('search_path'), ',') AS s"""

GRAFANA = {
    "version": ("SELECT current_setting('server_version_num')::int / 100 >= 1500", [(True,)]),
    "timescale": ("SELECT extversion FROM pg_extension WHERE extname = 'timescaledb'", []),
    "tables of the search path": (
        f"""SELECT CASE WHEN quote_ident(table_schema) IN ({PATH}) THEN quote_ident(table_name)
                        ELSE quote_ident(table_schema) || '.' || quote_ident(table_name) END AS t
            FROM information_schema.tables
            WHERE quote_ident(table_schema) NOT IN ('information_schema', 'pg_catalog')
            ORDER BY 1""",
        [("city",), ("town",), ("visit",)],
    ),
    "columns of a table": (
        f"""SELECT quote_ident(column_name) AS "column", data_type AS "type"
            FROM information_schema.columns
            WHERE CASE WHEN array_length(parse_ident('visit'), 1) = 2
                  THEN quote_ident(table_schema) = (parse_ident('visit'))[1]
                   AND quote_ident(table_name) = (parse_ident('visit'))[2]
                  ELSE quote_ident(table_name) = 'visit' AND quote_ident(table_schema) IN ({PATH})
                  END ORDER BY ordinal_position""",
        [
            ("id", "bigint"),
            ("city", "integer"),
            ("at", "timestamp with time zone"),
            ("amount", "numeric"),
            ("mood", "USER-DEFINED"),
        ],
    ),
    "series by groups of time": (
        """SELECT floor(extract(epoch FROM at) / 21600) * 21600 AS "time", c.name AS metric,
                  sum(amount) AS value
           FROM visit v JOIN city c ON c.id = v.city
           WHERE at BETWEEN '2024-01-31T00:00:00Z' AND '2024-02-01T04:00:00.5Z'
           GROUP BY 1, 2 ORDER BY 1, 2""",
        [(1706724000, "Ulm", 0), (1706745600, "Bonn", 9), (1706745600, "Ulm", 6)],
    ),
    "series by hours": (
        """SELECT date_trunc('day', at AT TIME ZONE 'UTC')::date::text AS "time",
                  avg(amount)::float8 AS v
           FROM visit WHERE extract(epoch FROM at) >= 1706738400 GROUP BY 1 ORDER BY "time" """,
        [("2024-01-31", 0.0), ("2024-02-01", 5.0)],
    ),
    "bins of time": (
        """SELECT to_char(date_bin('6 hours', at, timestamptz '2024-01-01 00:00:00+00')
                  AT TIME ZONE 'UTC', 'DD HH24'), count(*) FROM visit GROUP BY 1 ORDER BY 1""",
        [("01 00", 6), ("01 06", 3), ("31 18", 1)],
    ),
    "variables": (
        "SELECT name AS __text, id AS __value FROM city ORDER BY 1",
        [("Bonn", 2), ("Ulm", 1)],
    ),
}

METABASE = {
    "tables with estimates": (
        """SELECT n.nspname, c.relname,
                  CASE c.relkind WHEN 'r' THEN 'TABLE' WHEN 'v' THEN 'VIEW' END,
                  d.description, stat.n_live_tup IS NOT NULL
           FROM pg_catalog.pg_class c INNER JOIN pg_catalog.pg_namespace n ON c.relnamespace = n.oid
           LEFT JOIN pg_catalog.pg_description d ON c.oid = d.objoid AND d.objsubid = 0
             AND d.classoid = 'pg_catalog.pg_class'::regclass
           LEFT JOIN pg_stat_user_tables stat
             ON n.nspname = stat.schemaname AND c.relname = stat.relname
           WHERE n.nspname !~ '^information_schema|catalog_history|pg_'
             AND c.relkind IN ('r', 'p', 'v', 'f', 'm') ORDER BY 1, 2""",
        [
            ("public", "city", "TABLE", "Where people live", True),
            ("public", "town", "VIEW", None, False),
            ("public", "visit", "TABLE", None, True),
        ],
    ),
    "fields with keys": (
        """SELECT c.column_name, c.udt_name, c.ordinal_position - 1, pk.column_name IS NOT NULL,
                  col_description(to_regclass(format('%I.%I', c.table_schema, c.table_name)),
                                  c.ordinal_position)
           FROM information_schema.columns c
           LEFT JOIN (SELECT tc.table_schema, tc.table_name, kc.column_name
                      FROM information_schema.table_constraints tc
                      INNER JOIN information_schema.key_column_usage kc
                        ON tc.constraint_name = kc.constraint_name
                        AND tc.table_schema = kc.table_schema AND tc.table_name = kc.table_name
                      WHERE tc.constraint_type = 'PRIMARY KEY') pk
             ON c.table_schema = pk.table_schema AND c.table_name = pk.table_name
             AND c.column_name = pk.column_name
           WHERE c.table_schema !~ '^information_schema|catalog_history|pg_'
             AND c.table_name = 'city' ORDER BY c.ordinal_position""",
        [("id", "int4", 0, True, None), ("name", "text", 1, False, "Its name")],
    ),
    "foreign keys": (
        """SELECT fk_table.relname, fk_column.attname, pk_table.relname, pk_column.attname
           FROM pg_constraint c JOIN pg_class fk_table ON c.conrelid = fk_table.oid
           CROSS JOIN LATERAL unnest(c.conkey, c.confkey) AS k(fk, pk)
           JOIN pg_attribute fk_column
             ON c.conrelid = fk_column.attrelid AND fk_column.attnum = k.fk
           JOIN pg_class pk_table ON c.confrelid = pk_table.oid
           JOIN pg_attribute pk_column
             ON c.confrelid = pk_column.attrelid AND pk_column.attnum = k.pk
           WHERE c.contype = 'f'""",
        [("visit", "city", "city", "id")],
    ),
    "enums": (
        """SELECT n.nspname, t.typname FROM pg_type t JOIN pg_namespace n ON n.oid = t.typnamespace
           WHERE t.oid IN (SELECT DISTINCT e.enumtypid FROM pg_enum e)""",
        [("public", "mood")],
    ),
    "privileges": (
        """SELECT t.tablename,
                  pg_catalog.has_table_privilege(current_user,
                    concat('"', t.schemaname, '"', '.', '"', t.tablename, '"'), 'SELECT'),
                  pg_catalog.has_any_column_privilege(current_user,
                    concat('"', t.schemaname, '"', '.', '"', t.tablename, '"'), 'UPDATE')
           FROM pg_catalog.pg_tables t WHERE t.schemaname = 'public' ORDER BY 1""",
        [("city", True, True), ("visit", True, True)],
    ),
    "indexes": (
        """SELECT ci.relname, pg_get_indexdef(i.indexrelid, 1, true)
           FROM pg_index i JOIN pg_class ci ON ci.oid = i.indexrelid
           JOIN pg_class ct ON ct.oid = i.indrelid WHERE ct.relname = 'visit' AND i.indpred IS NULL
           ORDER BY 1""",
        [("visit_at", "at"), ("visit_pkey", "id")],
    ),
    "question by months": (
        """-- Metabase:: userID: 1 queryType: MBQL
           SELECT to_char(date_trunc('month', "public"."visit"."at"), 'YYYY-MM') AS "at",
                  count(*) AS "count", sum("public"."visit"."amount") AS "sum"
           FROM "public"."visit" GROUP BY date_trunc('month', "public"."visit"."at")
           ORDER BY date_trunc('month', "public"."visit"."at") ASC""",
        [("2024-01", 1, 0), ("2024-02", 9, 45)],
    ),
    "question of joins and parts of dates": (
        """SELECT "City"."name", extract(isodow FROM "v"."at")::int AS "dow", count(*)
           FROM "public"."visit" AS "v" LEFT JOIN "public"."city" AS "City"
             ON "v"."city" = "City"."id"
           WHERE "v"."at" >= CAST('2024-02-01' AS timestamptz)
             AND ("City"."name" <> 'Paris' OR "City"."name" IS NULL)
           GROUP BY "City"."name", extract(isodow FROM "v"."at")::int
           ORDER BY "City"."name" ASC, "dow" ASC LIMIT 2000""",
        [("Bonn", 4, 5), ("Ulm", 4, 4)],
    ),
    "percentiles": (
        """SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY amount), stddev_pop(id)::int
           FROM visit""",
        [(4.5, 3)],
    ),
    "sample of values": (
        """SELECT source.a FROM (SELECT substring(name FROM 1 FOR 1234) AS a FROM city) AS source
           ORDER BY 1 LIMIT 10000""",
        [("Bonn",), ("Ulm",)],
    ),
    "zone of the session": ("SELECT current_setting('TIMEZONE')", [("UTC",)]),
}

TOOLS = {"dbeaver": DBEAVER, "grafana": GRAFANA, "metabase": METABASE}


def check(name, query, expected):
    """Asks in a session of its own; `expected` are rows, or how many there are."""
    seen = ""
    try:
        with psycopg.connect("options='-c statement_timeout=10s -c TimeZone=UTC'") as connection:
            rows = connection.execute(query).fetchall()
        if (len(rows) if isinstance(expected, int) else rows) != expected:
            seen = f"expected {expected}, saw {rows}"
    except psycopg.Error as error:
        seen = f"{error.sqlstate} {error}"
    print(f"not ok {name}: {' '.join(seen.split())}" if seen else f"ok {name}", flush=True)


def main():
    tool = sys.argv[1]
    print(f"version {tool}-queries of 2026", flush=True)
    with psycopg.connect(autocommit=True) as connection:
        for statement in TABLES.strip().split(";\n"):
            connection.execute(statement)
    for name, (query, expected) in TOOLS[tool].items():
        check(name, query, expected)


if __name__ == "__main__":
    main()

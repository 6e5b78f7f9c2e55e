import java.sql.Connection;
import java.sql.DatabaseMetaData;
import java.sql.ResultSet;
import java.util.ArrayList;
import java.util.List;

/** DatabaseMetaData: what tools and libraries ask about tables before they use them. */
final class Metadata {
    private interface Question {
        void ask(DatabaseMetaData about) throws Exception;
    }

    private Metadata() {}

    static void run() {
        Checks.check("tables of the metadata", Metadata::create);
        question("metadata of the server", about -> {
            Checks.equal("PostgreSQL", about.getDatabaseProductName());
            Checks.that(about.getDatabaseMajorVersion() >= 15, "the major version");
            Checks.equal(Checks.variable("PGUSER"), about.getUserName());
            Checks.equal(63, about.getMaxColumnNameLength());
            Checks.equal(32, about.getMaxColumnsInIndex());
            Checks.that(about.getSQLKeywords().contains("ilike"), "keywords");
            Checks.that(about.getNumericFunctions().contains("abs"), "numeric functions");
            Checks.equal(Connection.TRANSACTION_READ_COMMITTED,
                    about.getDefaultTransactionIsolation());
        });
        question("getTables", about -> {
            Checks.equal(List.of("city|TABLE|Where people live", "person|TABLE|null",
                    "person_name|VIEW|null"),
                    Checks.rows(about.getTables(null, "md", "%", new String[] {"TABLE", "VIEW"}),
                            "TABLE_NAME", "TABLE_TYPE", "REMARKS"));
            Checks.equal(List.of("person", "person_name"), Checks.rows(
                    about.getTables(null, "md", "pers%", new String[] {"TABLE", "VIEW"}),
                    "TABLE_NAME"));
        });
        question("getTables of all kinds", about -> {
            var rows = Checks.rows(about.getTables(null, "md", null, null),
                    "TABLE_NAME", "TABLE_TYPE");
            for (var expected : List.of("city_id_seq|SEQUENCE", "city_pkey|INDEX", "city|TABLE",
                    "person_name|VIEW")) {
                Checks.that(rows.contains(expected), expected + " among " + rows);
            }
        });
        question("getTables of the system", about -> {
            var rows = Checks.rows(about.getTables(null, "pg_catalog", "pg_c%",
                    new String[] {"SYSTEM TABLE"}), "TABLE_NAME");
            Checks.that(rows.contains("pg_class"), "pg_class among " + rows);
        });
        question("getColumns", about -> {
            Checks.equal(List.of(
                    "id|4|int4|10|0|0|1|NO|NO|NO",
                    "name|12|varchar|40|0|0|2|NO|NO|NO",
                    "city|-5|int8|19|0|1|3|YES|NO|NO",
                    "born|91|date|13|0|0|4|NO|NO|NO",
                    "pay|2|numeric|10|2|1|5|YES|NO|NO",
                    "twice|2|numeric|12|2|1|6|YES|NO|YES",
                    "tags|2003|_text|2147483647|0|1|7|YES|NO|NO",
                    "mood|12|\"md\".\"mood\"|2147483647|0|1|8|YES|NO|NO"),
                    Checks.rows(about.getColumns(null, "md", "person", "%"), "COLUMN_NAME",
                            "DATA_TYPE", "TYPE_NAME", "COLUMN_SIZE", "DECIMAL_DIGITS", "NULLABLE",
                            "ORDINAL_POSITION", "IS_NULLABLE", "IS_AUTOINCREMENT",
                            "IS_GENERATEDCOLUMN"));
        });
        question("getColumns of defaults", about -> {
            Checks.equal(List.of("id|null", "name|null", "city|null", "born|CURRENT_DATE", "pay|0"),
                    Checks.rows(about.getColumns(null, "md", "person", "%"), "COLUMN_NAME",
                            "COLUMN_DEF").subList(0, 5));
        });
        question("getColumns of keys that the database makes", about -> {
            Checks.equal(List.of("id|-5|bigserial|YES", "code|4|int4|YES", "name|12|text|NO"),
                    Checks.rows(about.getColumns(null, "md", "city", "%"),
                            "COLUMN_NAME", "DATA_TYPE", "TYPE_NAME", "IS_AUTOINCREMENT"));
        });
        question("getColumns of a view and with remarks", about -> {
            Checks.equal(List.of("id|4", "upper|12"), Checks.rows(
                    about.getColumns(null, "md", "person\\_name", null),
                    "COLUMN_NAME", "DATA_TYPE"));
            Checks.equal(List.of("name|The name of the town"), Checks.rows(
                    about.getColumns(null, "md", "city", "name"), "COLUMN_NAME", "REMARKS"));
        });
        question("getColumns of all tables", about -> {
            Checks.that(Checks.rows(about.getColumns(null, null, null, null), "TABLE_NAME").size()
                    > 500, "many columns");
        });
        question("getPrimaryKeys", about -> {
            Checks.equal(List.of("city|id|1|city_pkey"), Checks.rows(
                    about.getPrimaryKeys(null, "md", "city"),
                    "TABLE_NAME", "COLUMN_NAME", "KEY_SEQ", "PK_NAME"));
            Checks.equal(List.of("id|1|person_key", "name|2|person_key", "born|3|person_key"),
                    Checks.rows(about.getPrimaryKeys(null, "md", "person"),
                            "COLUMN_NAME", "KEY_SEQ", "PK_NAME"));
        });
        question("getImportedKeys", about -> {
            Checks.equal(List.of("md|city|id|md|person|city|1|3|0|person_city_fkey|city_pkey|7"),
                    Checks.rows(about.getImportedKeys(null, "md", "person"), KEYS));
        });
        question("getExportedKeys", about -> {
            Checks.equal(List.of("md|city|id|md|person|city|1|3|0|person_city_fkey|city_pkey|7"),
                    Checks.rows(about.getExportedKeys(null, "md", "city"), KEYS));
            Checks.equal(List.of(),
                    Checks.rows(about.getExportedKeys(null, "md", "person"), KEYS));
        });
        question("getCrossReference", about -> {
            Checks.equal(List.of("md|city|id|md|person|city|1|3|0|person_city_fkey|city_pkey|7"),
                    Checks.rows(about.getCrossReference(null, "md", "city", null, "md", "person"),
                            KEYS));
        });
        question("getIndexInfo", about -> {
            Checks.equal(List.of("f|city_name|3|1|code|A", "f|city_name|3|2|name|A",
                    "f|city_pkey|3|1|id|A"),
                    Checks.rows(about.getIndexInfo(null, "md", "city", true, false), INDEXES));
            Checks.equal(List.of("f|person_key|3|1|id|A", "f|person_key|3|2|name|A",
                    "f|person_key|3|3|born|A", "t|person_city|3|1|city|D",
                    "t|person_city|3|2|pay|D"),
                    Checks.rows(about.getIndexInfo(null, "md", "person", false, true), INDEXES));
        });
        question("getIndexInfo of two directions", about -> {
            Checks.execute(about.getConnection(), "CREATE TABLE md_two (a int, b int)",
                    "CREATE INDEX md_two_way ON md_two (a DESC, b)");
            Checks.equal(List.of("t|md_two_way|3|1|a|D", "t|md_two_way|3|2|b|A"), Checks.rows(
                    about.getIndexInfo(null, "public", "md_two", false, true), INDEXES));
        });
        question("getBestRowIdentifier", about -> {
            Checks.equal(List.of("id|-5"), Checks.rows(about.getBestRowIdentifier(
                    null, "md", "city", DatabaseMetaData.bestRowSession, true),
                    "COLUMN_NAME", "DATA_TYPE"));
        });
        question("getSchemas", about -> {
            var rows = Checks.rows(about.getSchemas(), "TABLE_SCHEM");
            for (var expected : List.of("information_schema", "md", "pg_catalog", "public")) {
                Checks.that(rows.contains(expected), expected + " among " + rows);
            }
            Checks.equal(List.of("md"), Checks.rows(about.getSchemas(null, "md"), "TABLE_SCHEM"));
        });
        question("getCatalogs", about -> {
            Checks.that(Checks.rows(about.getCatalogs()).contains(Checks.variable("PGDATABASE")),
                    "the database");
        });
        question("getTableTypes", about -> {
            Checks.that(Checks.rows(about.getTableTypes()).contains("MATERIALIZED VIEW"),
                    "MATERIALIZED VIEW");
        });
        question("getTypeInfo", about -> {
            var rows = Checks.rows(about.getTypeInfo(), "TYPE_NAME", "DATA_TYPE", "PRECISION");
            var missing = new ArrayList<>(List.of("int2|5|0", "int4|4|0", "int8|-5|0", "serial|4|0",
                    "float4|7|0", "float8|8|0", "numeric|2|1000", "bool|-7|0", "text|12|0",
                    "varchar|12|10485760", "bpchar|1|10485760", "date|91|0", "time|92|6",
                    "timestamp|93|6", "timestamptz|93|6", "interval|1111|6", "uuid|1111|0",
                    "bytea|-2|0", "json|1111|0", "jsonb|1111|0", "_int4|2003|0", "_text|2003|0"));
            missing.removeAll(rows);
            Checks.equal(List.of(), missing);
        });
        question("getUDTs", about -> {
            Checks.execute(about.getConnection(), "CREATE TYPE md.pair AS (a int, b int)",
                    "CREATE DOMAIN md.positive AS int CHECK (VALUE > 0)");
            Checks.equal(List.of("positive|2001", "pair|2002"), Checks.rows(
                    about.getUDTs(null, "md", "p%i%", null), "TYPE_NAME", "DATA_TYPE"));
        });
        question("getProcedures and getFunctions", about -> {
            Checks.equal(List.of(), Checks.rows(about.getProcedures(null, "md", "%")));
            Checks.equal(List.of(), Checks.rows(about.getProcedureColumns(null, "md", "%", "%")));
            Checks.equal(List.of(), Checks.rows(about.getFunctions(null, "md", "%")));
            Checks.equal(List.of(), Checks.rows(about.getFunctionColumns(null, "md", "%", "%")));
        });
        question("getFunctions of the system", about -> {
            Checks.that(Checks.rows(about.getFunctions(null, "pg_catalog", "upper"),
                    "FUNCTION_NAME").contains("upper"), "upper");
            Checks.that(Checks.rows(about.getFunctionColumns(null, "pg_catalog", "upper", null),
                    "FUNCTION_NAME", "COLUMN_TYPE", "TYPE_NAME").contains("upper|1|text"),
                    "the argument of upper");
        });
        question("getTablePrivileges", about -> {
            var user = Checks.variable("PGUSER");
            Checks.equal(List.of("DELETE", "INSERT", "REFERENCES", "SELECT", "TRIGGER", "TRUNCATE",
                    "UPDATE").stream().map(each -> "%s|%s|YES".formatted(user, each)).toList(),
                    Checks.rows(about.getTablePrivileges(null, "md", "city"),
                            "GRANTEE", "PRIVILEGE", "IS_GRANTABLE"));
            Checks.that(Checks.rows(about.getTablePrivileges(null, "md", "person"),
                    "GRANTEE", "PRIVILEGE", "IS_GRANTABLE").contains("md_reader|SELECT|NO"),
                    "what has been granted");
        });
        question("getColumnPrivileges", about -> {
            Checks.that(Checks.rows(about.getColumnPrivileges(null, "md", "city", "name"),
                    "COLUMN_NAME", "PRIVILEGE").contains("name|SELECT"), "SELECT of name");
        });
        question("getVersionColumns", about -> {
            Checks.that(Checks.rows(about.getVersionColumns(null, "md", "city"), "COLUMN_NAME")
                    .size() == 1, "a column");
        });
        question("getClientInfoProperties", about -> {
            Checks.that(Checks.rows(about.getClientInfoProperties(), "NAME")
                    .contains("ApplicationName"), "ApplicationName");
        });
        question("getSuperTables and getAttributes are as the driver says", about -> {
            Checks.fails("0A000", () -> about.getSuperTables(null, "md", "city"));
            Checks.fails("0A000", () -> about.getAttributes(null, "md", "%", "%"));
        });
    }

    private static final String[] KEYS = {
        "PKTABLE_SCHEM", "PKTABLE_NAME", "PKCOLUMN_NAME", "FKTABLE_SCHEM", "FKTABLE_NAME",
        "FKCOLUMN_NAME", "KEY_SEQ", "UPDATE_RULE", "DELETE_RULE", "FK_NAME", "PK_NAME",
        "DEFERRABILITY"
    };

    private static final String[] INDEXES = {
        "NON_UNIQUE", "INDEX_NAME", "TYPE", "ORDINAL_POSITION", "COLUMN_NAME", "ASC_OR_DESC"
    };

    private static void question(String name, Question question) {
        Checks.check(name, connection -> question.ask(connection.getMetaData()));
    }

    private static void create(Connection connection) throws Exception {
        Checks.execute(connection, "CREATE SCHEMA md",
                "CREATE TYPE md.mood AS ENUM ('sad', 'glad')",
                """
                CREATE TABLE md.city (
                    id bigserial PRIMARY KEY, code int GENERATED ALWAYS AS IDENTITY,
                    name text NOT NULL)""",
                "CREATE UNIQUE INDEX city_name ON md.city (code, name)",
                """
                CREATE TABLE md.person (
                    id int, name varchar(40), city bigint REFERENCES md.city ON DELETE CASCADE,
                    born date DEFAULT CURRENT_DATE, pay numeric(10, 2) DEFAULT 0,
                    twice numeric(12, 2) GENERATED ALWAYS AS (pay * 2) STORED, tags text[],
                    mood md.mood DEFAULT 'glad',
                    CONSTRAINT person_key PRIMARY KEY (id, name, born))""",
                "CREATE INDEX person_city ON md.person (city DESC, pay DESC)",
                "CREATE VIEW md.person_name AS SELECT id, upper(name) FROM md.person",
                "COMMENT ON TABLE md.city IS 'Where people live'",
                "COMMENT ON COLUMN md.city.name IS 'The name of the town'",
                "CREATE ROLE md_reader", "GRANT SELECT ON md.person TO md_reader");
    }
}

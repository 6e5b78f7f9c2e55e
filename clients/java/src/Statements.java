import java.sql.Connection;
import java.sql.ResultSet;
import java.sql.Statement;
import java.util.List;
import org.postgresql.PGStatement;

/** Statements: prepared ones, keys that the database makes, calls, several in one text. */
final class Statements {
    private Statements() {}

    static void run() {
        Checks.check("statement kinds of results", Statements::kinds);
        Checks.check("statement of the server from the fifth run on", Statements::fifthRun);
        Checks.check("binary results from the first run on", connection -> {
            try (var statement = connection.prepareStatement("SELECT ?::int8, ?::float8, ?")) {
                statement.setLong(1, Long.MAX_VALUE);
                statement.setDouble(2, -0.1);
                statement.setString(3, "zwölf");
                for (int i = 0; i < 3; i++) {
                    try (var rows = statement.executeQuery()) {
                        Checks.equal(List.of(Long.MAX_VALUE + "|-0.1|zwölf"), Checks.rows(rows));
                    }
                }
            }
        }, "prepareThreshold", "-1");
        Checks.check("prepared statement of a table that changes", Statements::changedTable);
        Checks.check("prepared statement of a table that is created again", Statements::newTable);
        Checks.check("prepared statement after a change of search_path", Statements::searchPath);
        Checks.check("prepared statements after DEALLOCATE ALL", connection -> {
            try (var statement = connection.prepareStatement("SELECT ?::int")) {
                for (int i = 0; i < 8; i++) {
                    statement.setInt(1, i);
                    try (var rows = statement.executeQuery()) {
                        Checks.equal(List.of("" + i), Checks.rows(rows));
                    }
                    if (i == 6) {
                        Checks.execute(connection, "DEALLOCATE ALL");
                    }
                }
            }
        });
        Checks.check("three hundred prepared statements", connection -> {
            for (int i = 0; i < 300; i++) {
                try (var statement = connection.prepareStatement("SELECT ? + " + i)) {
                    for (int j = 0; j < 2; j++) {
                        statement.setInt(1, 1);
                        try (var rows = statement.executeQuery()) {
                            Checks.equal(List.of("" + (i + 1)), Checks.rows(rows));
                        }
                    }
                }
            }
        }, "prepareThreshold", "1", "preparedStatementCacheQueries", "20");
        Checks.check("parameter that changes its type", Statements::changedType);
        Checks.check("generated keys", Statements::generatedKeys);
        Checks.check("generated keys of named columns", Statements::namedKeys);
        Checks.check("generated keys of an update", Statements::keysOfUpdate);
        Checks.check("several statements in one text", Statements::several);
        Checks.check("several statements with parameters", connection -> {
            Checks.execute(connection, "CREATE TABLE st_pair (a int)");
            try (var statement = connection.prepareStatement(
                    "INSERT INTO st_pair VALUES (?); SELECT a + ? FROM st_pair")) {
                statement.setInt(1, 3);
                statement.setInt(2, 4);
                Checks.that(!statement.execute(), "the first has a count");
                Checks.that(statement.getMoreResults(), "the second has rows");
                Checks.equal(List.of("7"), Checks.rows(statement.getResultSet()));
            }
        });
        Checks.check("key made by gen_random_uuid", connection -> {
            Checks.execute(connection, "CREATE TABLE st_uuid (id uuid DEFAULT gen_random_uuid())",
                    "INSERT INTO st_uuid DEFAULT VALUES");
            Checks.equal(36, Checks.one(connection, "SELECT id FROM st_uuid").length());
        });
        Checks.check("temporary table", connection -> {
            Checks.execute(connection, "CREATE TEMP TABLE st_temp (a int)",
                    "INSERT INTO st_temp VALUES (1)");
            try (var other = Checks.connect()) {
                Checks.fails("42P01", () -> Checks.one(other, "SELECT a FROM st_temp"));
            }
        });
        Checks.check("escapes of JDBC", connection -> {
            Checks.equal(List.of("ab|2020-02-29|2020-02-29 10:11:12|3|5|t"),
                    Checks.rows(connection, """
                            SELECT {fn concat('a', 'b')}, {d '2020-02-29'},
                                   {ts '2020-02-29 10:11:12'}, {fn abs(-3)}, {fn length('12345')},
                                   'a_c' LIKE 'a|_c' {escape '|'}"""));
            Checks.equal(List.of("29|3|2021-03-01 00:00:00"), Checks.rows(connection, """
                    SELECT {fn dayofmonth({d '2020-02-29'})}, {fn month({d '2020-03-01'})},
                           {fn timestampadd(SQL_TSI_DAY, 1, {ts '2021-02-28 00:00:00'})}"""));
        });
        Checks.check("call of a function", connection -> {
            try (var call = connection.prepareCall("{? = call upper(?)}")) {
                call.registerOutParameter(1, java.sql.Types.VARCHAR);
                call.setString(2, "shout");
                call.execute();
                Checks.equal("SHOUT", call.getString(1));
            }
        });
        Checks.check("operator with a question mark", connection -> {
            try (var statement = connection.prepareStatement("SELECT ?::jsonb ?? ?")) {
                statement.setString(1, "{\"a\": 1}");
                statement.setString(2, "a");
                try (var rows = statement.executeQuery()) {
                    Checks.equal(List.of("t"), Checks.rows(rows));
                }
            }
        });
        Checks.check("stringtype unspecified", Statements::unspecified,
                "stringtype", "unspecified");
        Checks.check("ParameterMetaData", connection -> {
            Checks.execute(connection, "CREATE TABLE st_meta (id int, name text, at timestamptz)");
            try (var statement = connection.prepareStatement(
                    "SELECT * FROM st_meta WHERE id = ? AND name = ? AND at < ?")) {
                var about = statement.getParameterMetaData();
                Checks.equal(3, about.getParameterCount());
                Checks.equal("int4", about.getParameterTypeName(1));
                Checks.equal("text", about.getParameterTypeName(2));
                Checks.equal("timestamptz", about.getParameterTypeName(3));
                Checks.equal("java.lang.Integer", about.getParameterClassName(1));
            }
        });
        Checks.check("array as the parameter of ANY", connection -> {
            Checks.execute(connection, "CREATE TABLE st_any (id int, name text)",
                    "INSERT INTO st_any VALUES (1, 'a'), (2, 'b'), (3, 'c')");
            try (var statement = connection.prepareStatement(
                    "SELECT id FROM st_any WHERE id = ANY (?) OR name = ANY (?) ORDER BY id")) {
                statement.setArray(1, connection.createArrayOf("int4", new Integer[] {1}));
                statement.setArray(2, connection.createArrayOf("text", new String[] {"c"}));
                try (var rows = statement.executeQuery()) {
                    Checks.equal(List.of("1", "3"), Checks.rows(rows));
                }
            }
        });
        Checks.check("rows of a page", connection -> {
            try (var statement = connection.prepareStatement(
                    "SELECT n FROM generate_series(1, 100) AS s(n) ORDER BY n LIMIT ? OFFSET ?")) {
                statement.setInt(1, 3);
                statement.setInt(2, 40);
                try (var rows = statement.executeQuery()) {
                    Checks.equal(List.of("41", "42", "43"), Checks.rows(rows));
                }
            }
        });
        Checks.check("INSERT ON CONFLICT with counts", connection -> {
            Checks.execute(connection, "CREATE TABLE st_up (id int PRIMARY KEY, n int)");
            try (var statement = connection.prepareStatement("""
                    INSERT INTO st_up VALUES (?, ?)
                    ON CONFLICT (id) DO UPDATE SET n = st_up.n + excluded.n""")) {
                for (int i = 0; i < 7; i++) {
                    statement.setInt(1, 1);
                    statement.setInt(2, i);
                    Checks.equal(1, statement.executeUpdate());
                }
            }
            Checks.equal("21", Checks.one(connection, "SELECT n FROM st_up"));
        });
        Checks.check("text of a megabyte", connection -> {
            var text = "ä".repeat(1 << 19);
            try (var statement = connection.prepareStatement("SELECT ?::text, length(?)")) {
                statement.setString(1, text);
                statement.setString(2, text);
                try (var rows = statement.executeQuery()) {
                    Checks.that(rows.next(), "a row");
                    Checks.that(text.equals(rows.getString(1)), "the text returns");
                    Checks.equal(1 << 19, rows.getInt(2));
                }
            }
        });
        Checks.check("thousand parameters", connection -> {
            var marks = "?, ".repeat(999) + "?";
            try (var statement = connection.prepareStatement(
                    "SELECT count(*) FROM generate_series(1, 5000) s(n) WHERE n IN (" + marks
                            + ")")) {
                for (int i = 1; i <= 1000; i++) {
                    statement.setInt(i, 2 * i);
                }
                try (var rows = statement.executeQuery()) {
                    Checks.equal(List.of("1000"), Checks.rows(rows));
                }
            }
        });
    }

    private static void kinds(Connection connection) throws Exception {
        try (var statement = connection.createStatement()) {
            Checks.that(!statement.execute("CREATE TABLE st_kind (a int)"), "no rows of CREATE");
            Checks.equal(0, statement.getUpdateCount());
            Checks.equal(3, statement.executeUpdate("INSERT INTO st_kind VALUES (1), (2), (3)"));
            Checks.equal(2L, statement.executeLargeUpdate("DELETE FROM st_kind WHERE a > 1"));
            Checks.that(statement.execute("SELECT a FROM st_kind"), "rows of SELECT");
            Checks.equal(List.of("1"), Checks.rows(statement.getResultSet()));
            Checks.that(statement.execute("UPDATE st_kind SET a = 5 RETURNING a"), "RETURNING");
            Checks.equal(List.of("5"), Checks.rows(statement.getResultSet()));
            Checks.equal(5, statement.executeUpdate(
                    "CREATE TABLE st_of AS SELECT * FROM generate_series(1, 5) s(n)"));
            Checks.that(!statement.execute(""), "an empty text has no rows");
        }
    }

    private static void fifthRun(Connection connection) throws Exception {
        try (var statement = connection.prepareStatement("SELECT ?::int, ?::text, now()")) {
            for (int i = 1; i <= 9; i++) {
                statement.setInt(1, i);
                statement.setString(2, i % 2 == 0 ? null : "n" + i);
                try (var rows = statement.executeQuery()) {
                    Checks.equal(i >= 4, isNextOnServer(statement));
                    Checks.that(rows.next(), "a row");
                    Checks.equal(i, rows.getInt(1));
                    Checks.equal(i % 2 == 0 ? null : "n" + i, rows.getString(2));
                    Checks.that(rows.getTimestamp(3).getTime() > 1.5e12, "now is late");
                }
            }
        }
    }

    private static boolean isNextOnServer(Statement statement) throws Exception {
        return statement.unwrap(PGStatement.class).isUseServerPrepare();
    }

    private static void changedTable(Connection connection) throws Exception {
        Checks.execute(connection, "CREATE TABLE st_changed (a int)",
                "INSERT INTO st_changed VALUES (1)");
        try (var statement = connection.prepareStatement("SELECT * FROM st_changed")) {
            for (int i = 0; i < 10; i++) {
                try (var rows = statement.executeQuery()) {
                    Checks.equal(List.of(i < 7 ? "1" : "1|x"), Checks.rows(rows));
                }
                if (i == 6) {
                    Checks.execute(connection,
                            "ALTER TABLE st_changed ADD COLUMN b text DEFAULT 'x'");
                }
            }
        }
    }

    private static void newTable(Connection connection) throws Exception {
        Checks.execute(connection, "CREATE TABLE st_new (a int)");
        try (var statement = connection.prepareStatement("INSERT INTO st_new VALUES (?)")) {
            for (int i = 0; i < 10; i++) {
                statement.setInt(1, i);
                statement.executeUpdate();
                if (i == 6) {
                    Checks.execute(connection, "DROP TABLE st_new", "CREATE TABLE st_new (a int)");
                }
            }
        }
        Checks.equal(List.of("7", "8", "9"), Checks.rows(connection, "SELECT a FROM st_new"));
    }

    private static void searchPath(Connection connection) throws Exception {
        Checks.execute(connection, "CREATE SCHEMA st_one", "CREATE SCHEMA st_two",
                "CREATE TABLE st_one.t AS SELECT 1 AS a", "CREATE TABLE st_two.t AS SELECT 2 AS a",
                "SET search_path = st_one");
        try (var statement = connection.prepareStatement("SELECT a FROM t")) {
            for (int i = 0; i < 10; i++) {
                try (var rows = statement.executeQuery()) {
                    Checks.equal(List.of(i < 7 ? "1" : "2"), Checks.rows(rows));
                }
                if (i == 6) {
                    Checks.execute(connection, "SET search_path = st_two");
                }
            }
        }
    }

    private static void changedType(Connection connection) throws Exception {
        try (var statement = connection.prepareStatement("SELECT ? + 1")) {
            for (int i = 0; i < 7; i++) {
                statement.setInt(1, i);
                statement.executeQuery().close();
            }
            statement.setLong(1, 1L << 40);
            try (var rows = statement.executeQuery()) {
                Checks.equal(List.of("" + ((1L << 40) + 1)), Checks.rows(rows));
            }
            statement.setDouble(1, 0.5);
            try (var rows = statement.executeQuery()) {
                Checks.equal(List.of("1.5"), Checks.rows(rows));
            }
        }
    }

    private static void generatedKeys(Connection connection) throws Exception {
        Checks.execute(connection, """
                CREATE TABLE st_key (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
                                     name text, size int DEFAULT 7)""");
        try (var statement = connection.createStatement()) {
            statement.executeUpdate("INSERT INTO st_key (name) VALUES ('a'), ('b')",
                    Statement.RETURN_GENERATED_KEYS);
            try (var keys = statement.getGeneratedKeys()) {
                Checks.equal(List.of("1|a|7", "2|b|7"), Checks.rows(keys));
            }
        }
    }

    private static void namedKeys(Connection connection) throws Exception {
        Checks.execute(connection, "CREATE TABLE st_named (id bigserial PRIMARY KEY, name text)");
        try (var statement = connection.prepareStatement(
                "INSERT INTO st_named (name) VALUES (?)", new String[] {"id"})) {
            for (int i = 1; i <= 7; i++) {
                statement.setString(1, "n" + i);
                Checks.equal(1, statement.executeUpdate());
                try (var keys = statement.getGeneratedKeys()) {
                    Checks.that(keys.next(), "a key");
                    Checks.equal((long) i, keys.getLong("id"));
                }
            }
        }
    }

    private static void keysOfUpdate(Connection connection) throws Exception {
        Checks.execute(connection, "CREATE TABLE st_upd (id int PRIMARY KEY, n int)",
                "INSERT INTO st_upd VALUES (1, 10), (2, 20)");
        try (var statement = connection.prepareStatement(
                "UPDATE st_upd SET n = n + ? WHERE id < 2", new String[] {"n", "id"})) {
            statement.setInt(1, 5);
            Checks.equal(1, statement.executeUpdate());
            Checks.equal(List.of("15|1"), Checks.rows(statement.getGeneratedKeys()));
        }
    }

    private static void several(Connection connection) throws Exception {
        try (var statement = connection.createStatement()) {
            Checks.that(statement.execute("""
                    SELECT 1; CREATE TABLE st_many (a int);
                    INSERT INTO st_many VALUES (4), (5); -- the end
                    SELECT a FROM st_many"""),
                    "rows first");
            Checks.equal(List.of("1"), Checks.rows(statement.getResultSet()));
            Checks.that(!statement.getMoreResults(), "CREATE TABLE has no rows");
            Checks.equal(0, statement.getUpdateCount());
            Checks.that(!statement.getMoreResults(), "INSERT has no rows");
            Checks.equal(2, statement.getUpdateCount());
            Checks.that(statement.getMoreResults(), "rows last");
            ResultSet rows = statement.getResultSet();
            Checks.equal(List.of("4", "5"), Checks.rows(rows));
            Checks.that(!statement.getMoreResults(), "nothing more");
            Checks.equal(-1, statement.getUpdateCount());
        }
    }

    private static void unspecified(Connection connection) throws Exception {
        Checks.execute(connection,
                "CREATE TABLE st_loose (id int, at date, u uuid, j jsonb, n numeric(6, 2))");
        try (var statement = connection.prepareStatement(
                "INSERT INTO st_loose VALUES (?, ?, ?, ?, ?)")) {
            for (int i = 0; i < 6; i++) {
                statement.setString(1, "" + i);
                statement.setString(2, "2024-05-06");
                statement.setString(3, "00000000-0000-0000-0000-00000000000" + i);
                statement.setString(4, "[1]");
                statement.setString(5, "12.5");
                Checks.equal(1, statement.executeUpdate());
            }
        }
        Checks.equal("5|2024-05-06|00000000-0000-0000-0000-000000000005|[1]|12.50",
                Checks.one(connection, "SELECT * FROM st_loose WHERE id = 5"));
    }
}

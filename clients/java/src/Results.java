import static java.sql.ResultSet.CONCUR_READ_ONLY;
import static java.sql.ResultSet.CONCUR_UPDATABLE;
import static java.sql.ResultSet.HOLD_CURSORS_OVER_COMMIT;
import static java.sql.ResultSet.TYPE_FORWARD_ONLY;
import static java.sql.ResultSet.TYPE_SCROLL_INSENSITIVE;

import java.sql.Connection;
import java.sql.ResultSetMetaData;
import java.sql.Types;
import java.util.List;

/** Results: read in parts, scrolled, updated, described. */
final class Results {
    private static final String NUMBERS = "SELECT n, 'row ' || n FROM generate_series(1, 5000) s(n)";

    private Results() {}

    static void run() {
        Checks.check("fetch size of a statement", connection -> {
            connection.setAutoCommit(false);
            try (var statement = connection.createStatement()) {
                statement.setFetchSize(100);
                readNumbers(statement.executeQuery(NUMBERS));
            }
            connection.commit();
        });
        Checks.check("fetch size of a prepared statement", connection -> {
            connection.setAutoCommit(false);
            try (var statement = connection.prepareStatement(NUMBERS + " WHERE n > ?")) {
                statement.setFetchSize(7);
                for (int i = 0; i < 7; i++) {
                    statement.setInt(1, 0);
                    readNumbers(statement.executeQuery());
                }
            }
            connection.commit();
        });
        Checks.check("fetch size of a table", connection -> {
            Checks.execute(connection, "CREATE TABLE re_big (id int PRIMARY KEY, name text)",
                    "INSERT INTO re_big SELECT n, 'row ' || n FROM generate_series(1, 5000) s(n)");
            connection.setAutoCommit(false);
            try (var statement = connection.createStatement()) {
                statement.setFetchSize(999);
                readNumbers(statement.executeQuery("SELECT * FROM re_big ORDER BY id"));
            }
            connection.commit();
        });
        Checks.check("fetch size by the parameter defaultRowFetchSize", connection -> {
            connection.setAutoCommit(false);
            try (var statement = connection.createStatement()) {
                readNumbers(statement.executeQuery(NUMBERS));
            }
        }, "defaultRowFetchSize", "50", "adaptiveFetch", "true", "maxResultBuffer", "1M");
        Checks.check("two results in turns", Results::inTurns);
        Checks.check("changes while a result is read in parts", Results::changesMeanwhile);
        Checks.check("result in parts after a commit", connection -> {
            connection.setAutoCommit(false);
            try (var statement = connection.createStatement()) {
                statement.setFetchSize(10);
                var rows = statement.executeQuery(NUMBERS);
                Checks.that(rows.next(), "a row");
                connection.commit();
                Checks.fails("34000", () -> Checks.rows(rows));
            }
        });
        Checks.check("result held over a commit", connection -> {
            connection.setAutoCommit(false);
            try (var statement = connection.createStatement(
                    TYPE_FORWARD_ONLY, CONCUR_READ_ONLY, HOLD_CURSORS_OVER_COMMIT)) {
                statement.setFetchSize(10);
                var rows = statement.executeQuery(NUMBERS);
                connection.commit();
                readNumbers(rows);
            }
        });
        Checks.check("most rows of a statement", connection -> {
            try (var statement = connection.createStatement()) {
                statement.setMaxRows(5);
                Checks.equal(5, Checks.rows(statement.executeQuery(NUMBERS)).size());
            }
        });
        Checks.check("scrolled result", connection -> {
            try (var statement = connection.createStatement(
                    TYPE_SCROLL_INSENSITIVE, CONCUR_READ_ONLY)) {
                var rows = statement.executeQuery(NUMBERS);
                Checks.that(rows.last(), "last");
                Checks.equal(5000, rows.getRow());
                Checks.that(rows.absolute(17), "absolute");
                Checks.equal(17, rows.getInt(1));
                Checks.that(rows.previous(), "previous");
                Checks.equal(16, rows.getInt(1));
            }
        });
        Checks.check("cursor of SQL", connection -> {
            connection.setAutoCommit(false);
            Checks.execute(connection, "DECLARE numbers CURSOR FOR " + NUMBERS);
            Checks.equal(List.of("1|row 1", "2|row 2"),
                    Checks.rows(connection, "FETCH 2 FROM numbers"));
            Checks.execute(connection, "MOVE 10 IN numbers");
            Checks.equal(List.of("13|row 13"), Checks.rows(connection, "FETCH NEXT FROM numbers"));
            Checks.execute(connection, "CLOSE numbers");
            connection.commit();
        });
        Checks.check("updatable result", Results::updatable);
        Checks.check("ResultSetMetaData of a table", Results::metadata);
        Checks.check("ResultSetMetaData of expressions", connection -> {
            try (var rows = connection.createStatement().executeQuery(
                    "SELECT 1 AS a, 2::bigint, 'x', 1.5::numeric(5, 2) AS d, now() AS e")) {
                var about = rows.getMetaData();
                Checks.equal(List.of(Types.INTEGER, Types.BIGINT, Types.VARCHAR, Types.NUMERIC,
                        Types.TIMESTAMP), types(about));
                Checks.equal("?column?", about.getColumnLabel(3));
                Checks.equal(5, about.getPrecision(4));
                Checks.equal(2, about.getScale(4));
                Checks.equal("", about.getTableName(1));
            }
        });
        Checks.check("empty result and NULL", connection -> {
            try (var rows = connection.createStatement().executeQuery(
                    "SELECT NULL, NULL::int, NULL::bool")) {
                Checks.that(rows.next(), "a row");
                Checks.equal(null, rows.getString(1));
                Checks.equal(0, rows.getInt(2));
                Checks.that(rows.wasNull(), "wasNull");
                Checks.equal(null, rows.getObject(3));
                Checks.that(!rows.next(), "one row");
            }
            Checks.equal(List.of(), Checks.rows(connection, "SELECT 1 WHERE false"));
        });
        Checks.check("sixteen hundred columns", connection -> {
            var columns = new StringBuilder("SELECT 1");
            for (int i = 2; i <= 1600; i++) {
                columns.append(", ").append(i);
            }
            try (var rows = connection.createStatement().executeQuery(columns.toString())) {
                Checks.equal(1600, rows.getMetaData().getColumnCount());
                Checks.that(rows.next(), "a row");
                Checks.equal(1600, rows.getInt(1600));
            }
        });
        Checks.check("result of hundred thousand rows", connection -> {
            try (var rows = connection.createStatement().executeQuery(
                    "SELECT n, n::text, n / 2.0 FROM generate_series(1, 100000) s(n)")) {
                long sum = 0;
                while (rows.next()) {
                    sum += rows.getInt(1);
                }
                Checks.equal(5000050000L, sum);
            }
        });
    }

    private static void readNumbers(java.sql.ResultSet rows) throws Exception {
        int read = 0;
        while (rows.next()) {
            read += 1;
            Checks.equal(read, rows.getInt(1));
            Checks.equal("row " + read, rows.getString(2));
        }
        Checks.equal(5000, read);
    }

    private static void inTurns(Connection connection) throws Exception {
        connection.setAutoCommit(false);
        try (var one = connection.createStatement(); var two = connection.createStatement()) {
            one.setFetchSize(3);
            two.setFetchSize(5);
            var ones = one.executeQuery("SELECT n FROM generate_series(1, 100) s(n)");
            var twos = two.executeQuery("SELECT -n FROM generate_series(1, 100) s(n)");
            for (int i = 1; i <= 100; i++) {
                Checks.that(ones.next() && twos.next(), "a row of both");
                Checks.equal(i, ones.getInt(1));
                Checks.equal(-i, twos.getInt(1));
            }
        }
        connection.commit();
    }

    private static void changesMeanwhile(Connection connection) throws Exception {
        Checks.execute(connection, "CREATE TABLE re_change (id int PRIMARY KEY, n int)",
                "INSERT INTO re_change SELECT n, 0 FROM generate_series(1, 1000) s(n)");
        connection.setAutoCommit(false);
        try (var statement = connection.createStatement();
                var update = connection.prepareStatement(
                        "UPDATE re_change SET n = n + 1 WHERE id = ?")) {
            statement.setFetchSize(10);
            var rows = statement.executeQuery("SELECT id, n FROM re_change ORDER BY id");
            while (rows.next()) {
                Checks.equal(0, rows.getInt(2));
                update.setInt(1, rows.getInt(1));
                Checks.equal(1, update.executeUpdate());
            }
        }
        connection.commit();
        Checks.equal("1000|1000", Checks.one(connection, "SELECT count(*), sum(n) FROM re_change"));
    }

    private static void updatable(Connection connection) throws Exception {
        Checks.execute(connection,
                "CREATE TABLE re_upd (id int PRIMARY KEY, name text, size numeric(4, 1))",
                "INSERT INTO re_upd VALUES (1, 'a', 1), (2, 'b', 2), (3, 'c', 3)");
        try (var statement = connection.createStatement(
                TYPE_SCROLL_INSENSITIVE, CONCUR_UPDATABLE)) {
            var rows = statement.executeQuery("SELECT id, name, size FROM re_upd ORDER BY id");
            rows.next();
            rows.updateString("name", "aa");
            rows.updateRow();
            Checks.equal("aa", rows.getString("name"));
            rows.next();
            rows.deleteRow();
            rows.moveToInsertRow();
            rows.updateInt("id", 4);
            rows.updateString("name", "d");
            rows.updateBigDecimal("size", new java.math.BigDecimal("4.5"));
            rows.insertRow();
        }
        Checks.equal(List.of("1|aa|1.0", "3|c|3.0", "4|d|4.5"),
                Checks.rows(connection, "SELECT * FROM re_upd ORDER BY id"));
    }

    private static void metadata(Connection connection) throws Exception {
        Checks.execute(connection, """
                CREATE TABLE re_meta (id serial PRIMARY KEY, name varchar(30) NOT NULL,
                    price numeric(10, 2), at timestamp, big bigint, ok bool, raw bytea,
                    real real, day date, code char(3), tags text[], doc jsonb, u uuid)""");
        try (var rows = connection.createStatement().executeQuery(
                "SELECT m.*, id AS number FROM re_meta AS m")) {
            var about = rows.getMetaData();
            Checks.equal(List.of(Types.INTEGER, Types.VARCHAR, Types.NUMERIC, Types.TIMESTAMP,
                    Types.BIGINT, Types.BIT, Types.BINARY, Types.REAL, Types.DATE, Types.CHAR,
                    Types.ARRAY, Types.OTHER, Types.OTHER, Types.INTEGER), types(about));
            Checks.equal("serial", about.getColumnTypeName(1));
            Checks.that(about.isAutoIncrement(1), "isAutoIncrement");
            Checks.equal(ResultSetMetaData.columnNoNulls, about.isNullable(2));
            Checks.equal(ResultSetMetaData.columnNullable, about.isNullable(3));
            Checks.equal("varchar", about.getColumnTypeName(2));
            Checks.equal(30, about.getPrecision(2));
            Checks.equal("10 2", about.getPrecision(3) + " " + about.getScale(3));
            Checks.equal("bpchar 3", about.getColumnTypeName(10) + " " + about.getPrecision(10));
            Checks.equal("_text", about.getColumnTypeName(11));
            Checks.equal("number", about.getColumnLabel(14));
            Checks.equal("id", about.unwrap(org.postgresql.PGResultSetMetaData.class)
                    .getBaseColumnName(14));
            Checks.equal("re_meta", about.unwrap(org.postgresql.PGResultSetMetaData.class)
                    .getBaseTableName(14));
        }
    }

    private static List<Integer> types(ResultSetMetaData about) throws Exception {
        var types = new java.util.ArrayList<Integer>();
        for (int i = 1; i <= about.getColumnCount(); i++) {
            types.add(about.getColumnType(i));
        }
        return types;
    }
}

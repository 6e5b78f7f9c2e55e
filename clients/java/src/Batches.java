import java.sql.BatchUpdateException;
import java.sql.Connection;
import java.sql.Statement;
import java.util.Arrays;
import java.util.List;
import java.util.stream.IntStream;

/** Batches: of texts, of a prepared statement, rewritten to statements of many rows. */
final class Batches {
    private Batches() {}

    static void run() {
        Checks.check("batch of texts", connection -> {
            Checks.execute(connection, "CREATE TABLE ba_text (id int)");
            try (var statement = connection.createStatement()) {
                statement.addBatch("INSERT INTO ba_text VALUES (1), (2)");
                statement.addBatch("UPDATE ba_text SET id = id + 10 WHERE id = 2");
                statement.addBatch("DELETE FROM ba_text");
                Checks.equal(new int[] {2, 1, 2}, statement.executeBatch());
            }
        });
        for (var rewritten : List.of("false", "true")) {
            var kind = rewritten.equals("true") ? "rewritten batch" : "batch";
            var table = rewritten.equals("true") ? "ba_rewritten" : "ba_plain";
            String[] parameters = {"reWriteBatchedInserts", rewritten};
            Checks.check(kind + " of ten thousand rows",
                    connection -> many(connection, table), parameters);
            Checks.check(kind + " that breaks a key",
                    connection -> broken(connection, table + "_key"), parameters);
            Checks.check(kind + " with generated keys",
                    connection -> keys(connection, table + "_gen"), parameters);
            Checks.check(kind + " of all types",
                    connection -> types(connection, table + "_typ"), parameters);
        }
        Checks.check("batch of updates in a transaction", connection -> {
            Checks.execute(connection, "CREATE TABLE ba_upd (id int PRIMARY KEY, n int)",
                    "INSERT INTO ba_upd SELECT n, 0 FROM generate_series(1, 500) s(n)");
            connection.setAutoCommit(false);
            try (var statement = connection.prepareStatement(
                    "UPDATE ba_upd SET n = n + ? WHERE id = ?")) {
                for (int i = 1; i <= 500; i++) {
                    statement.setInt(1, i);
                    statement.setInt(2, i);
                    statement.addBatch();
                }
                Checks.equal(500, Arrays.stream(statement.executeBatch()).sum());
            }
            connection.commit();
            Checks.equal("125250", Checks.one(connection, "SELECT sum(n) FROM ba_upd"));
        });
        Checks.check("batch outside of a transaction is one", connection -> {
            Checks.execute(connection, "CREATE TABLE ba_one (id int PRIMARY KEY)");
            try (var statement = connection.createStatement()) {
                statement.addBatch("INSERT INTO ba_one VALUES (1)");
                statement.addBatch("INSERT INTO ba_one VALUES (1)");
                Checks.fails("23505", statement::executeBatch);
            }
            Checks.equal("0", Checks.one(connection, "SELECT count(*) FROM ba_one"));
        });
        Checks.check("rewritten batch with ON CONFLICT", connection -> {
            Checks.execute(connection, "CREATE TABLE ba_con (id int PRIMARY KEY, n int)");
            try (var statement = connection.prepareStatement(
                    "INSERT INTO ba_con VALUES (?, ?) ON CONFLICT DO NOTHING")) {
                for (int i = 0; i < 100; i++) {
                    statement.setInt(1, i % 50);
                    statement.setInt(2, i);
                    statement.addBatch();
                }
                statement.executeBatch();
            }
            Checks.equal("50|1225", Checks.one(connection, "SELECT count(*), sum(n) FROM ba_con"));
        }, "reWriteBatchedInserts", "true");
    }

    private static void many(Connection connection, String table) throws Exception {
        Checks.execute(connection, "CREATE TABLE %s (id int PRIMARY KEY, name text, n float8)"
                .formatted(table));
        try (var statement = connection.prepareStatement(
                "INSERT INTO %s (id, name, n) VALUES (?, ?, ?)".formatted(table))) {
            for (int i = 0; i < 10_000; i++) {
                statement.setInt(1, i);
                statement.setString(2, i % 10 == 0 ? null : "name " + i);
                statement.setDouble(3, i / 2.0);
                statement.addBatch();
            }
            var counts = statement.executeBatch();
            Checks.equal(10_000, counts.length);
            Checks.that(IntStream.of(counts).allMatch(
                    count -> count == 1 || count == Statement.SUCCESS_NO_INFO), "counts");
        }
        Checks.equal("10000|9000|24997500", Checks.one(connection,
                "SELECT count(*), count(name), sum(n)::bigint FROM " + table));
    }

    private static void broken(Connection connection, String table) throws Exception {
        Checks.execute(connection, "CREATE TABLE %s (id int PRIMARY KEY)".formatted(table));
        connection.setAutoCommit(false);
        try (var statement = connection.prepareStatement(
                "INSERT INTO %s VALUES (?)".formatted(table))) {
            for (int i = 0; i < 20; i++) {
                statement.setInt(1, i == 13 ? 4 : i);
                statement.addBatch();
            }
            var error = (BatchUpdateException) Checks.fails("23505", statement::executeBatch);
            Checks.that(Arrays.stream(error.getUpdateCounts())
                    .anyMatch(count -> count == Statement.EXECUTE_FAILED), "a failed count");
        }
        Checks.fails("25P02", () -> Checks.one(connection, "SELECT 1"));
        connection.rollback();
        Checks.equal("0", Checks.one(connection, "SELECT count(*) FROM " + table));
    }

    private static void keys(Connection connection, String table) throws Exception {
        Checks.execute(connection, "CREATE TABLE %s (id serial PRIMARY KEY, name text)"
                .formatted(table));
        try (var statement = connection.prepareStatement(
                "INSERT INTO %s (name) VALUES (?)".formatted(table), new String[] {"id"})) {
            for (int round = 0; round < 2; round++) {
                for (int i = 1; i <= 50; i++) {
                    statement.setString(1, "n" + i);
                    statement.addBatch();
                }
                statement.executeBatch();
                var first = 50 * round + 1;
                Checks.equal(IntStream.range(first, first + 50).mapToObj(n -> "" + n).toList(),
                        Checks.rows(statement.getGeneratedKeys()));
            }
        }
    }

    private static void types(Connection connection, String table) throws Exception {
        Checks.execute(connection, """
                CREATE TABLE %s (a int, b numeric(12, 3), c timestamptz, d date, e bytea,
                                 f boolean, g uuid, h int[])""".formatted(table));
        try (var statement = connection.prepareStatement(
                "INSERT INTO %s VALUES (?, ?, ?, ?, ?, ?, ?, ?)".formatted(table))) {
            for (int i = 0; i < 300; i++) {
                statement.setInt(1, i);
                statement.setBigDecimal(2, new java.math.BigDecimal(i + ".125"));
                statement.setObject(3, java.time.OffsetDateTime.parse("2024-01-01T00:00:00Z"));
                statement.setObject(4, java.time.LocalDate.of(2024, 1, 1).plusDays(i));
                statement.setBytes(5, new byte[] {0, (byte) i});
                statement.setBoolean(6, i % 2 == 0);
                statement.setObject(7, new java.util.UUID(0, i));
                statement.setArray(8, connection.createArrayOf("int4", new Integer[] {i, null}));
                statement.addBatch();
            }
            statement.executeBatch();
        }
        Checks.equal("299|299.125|2024-01-01 00:00:00|2024-10-26|\\x002b|f"
                + "|00000000-0000-0000-0000-00000000012b|{299,NULL}",
                Checks.one(connection, """
                        SELECT a, b, c AT TIME ZONE 'UTC', d, e, f, g, h
                        FROM %s WHERE a = 299""".formatted(table)));
    }
}

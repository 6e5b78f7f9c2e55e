import static java.util.concurrent.TimeUnit.SECONDS;

import java.sql.Connection;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import org.postgresql.util.PSQLException;

/** Errors: their SQLSTATE and what they name; statements that are stopped. */
final class Errors {
    private record Wrong(String state, String sql) {}

    private static final List<Wrong> WRONG = List.of(
            new Wrong("42601", "SELEC 1"),
            new Wrong("42P01", "SELECT * FROM er_missing"),
            new Wrong("42703", "SELECT missing FROM er_base"),
            new Wrong("42883", "SELECT missing(1)"),
            new Wrong("42P07", "CREATE TABLE er_base (id int)"),
            new Wrong("42701", "ALTER TABLE er_base ADD COLUMN id int"),
            new Wrong("42803", "SELECT id, count(*) FROM er_base"),
            new Wrong("42704", "SELECT 1::missing"),
            new Wrong("3F000", "CREATE TABLE er_nowhere.t (id int)"),
            new Wrong("42702", "SELECT id FROM er_base a, er_base b"),
            new Wrong("42804", "INSERT INTO er_base VALUES (true)"),
            new Wrong("42P10", "INSERT INTO er_base VALUES (1) ON CONFLICT (small) DO NOTHING"),
            new Wrong("2BP01", "DROP TABLE er_base"),
            new Wrong("22012", "SELECT 1 / 0"),
            new Wrong("22003", "SELECT 2147483647 + 1"),
            new Wrong("22P02", "SELECT 'x'::int"),
            new Wrong("22007", "SELECT 'x'::date"),
            new Wrong("22008", "SELECT '2024-02-30'::date"),
            new Wrong("22001", "INSERT INTO er_base (id, code) VALUES (9, 'long')"),
            new Wrong("21000", "SELECT (SELECT n FROM generate_series(1, 2) s(n))"),
            new Wrong("25001", "BEGIN; CREATE TABLE er_x (a int); VACUUM"));

    private Errors() {}

    static void run() {
        Checks.check("tables of the errors", connection -> Checks.execute(connection, """
                CREATE TABLE er_base (id int PRIMARY KEY, small int CHECK (small < 10),
                                      code varchar(3), name text UNIQUE)""",
                "CREATE TABLE er_child (base int NOT NULL REFERENCES er_base)",
                "INSERT INTO er_base VALUES (1, 1, 'a', 'one')",
                "INSERT INTO er_child VALUES (1)"));
        for (var wrong : WRONG) {
            Checks.check("error " + wrong.state, connection ->
                    Checks.fails(wrong.state, () -> Checks.execute(connection, wrong.sql)));
        }
        constraint("23505", "INSERT INTO er_base VALUES (1)", "er_base_pkey", null);
        constraint("23502", "INSERT INTO er_child VALUES (NULL)", null, "base");
        constraint("23503", "INSERT INTO er_child VALUES (2)", "er_child_base_fkey", null);
        constraint("23514", "INSERT INTO er_base VALUES (2, 20)", "er_base_small_check", null);
        Checks.check("error has a position and a severity", connection -> {
            var error = serverError(connection, "SELECT missing FROM er_base");
            Checks.equal(8, error.getPosition());
            Checks.equal("ERROR", error.getSeverity());
            Checks.equal("column \"missing\" does not exist", error.getMessage());
        });
        Checks.check("detail of a broken key", connection -> {
            var error = serverError(connection, "INSERT INTO er_base VALUES (7, 1, 'a', 'one')");
            Checks.equal("Key (name)=(one) already exists.", error.getDetail());
        });
        Checks.check("error of a prepared statement", connection -> {
            try (var statement = connection.prepareStatement("SELECT 10 / ?")) {
                for (int i = 8; i >= -8; i--) {
                    statement.setInt(1, i);
                    if (i == 0) {
                        Checks.fails("22012", statement::executeQuery);
                    } else {
                        statement.executeQuery().close();
                    }
                }
            }
        });
        Checks.check("notice of a missing table", connection -> {
            try (var statement = connection.createStatement()) {
                statement.execute("DROP TABLE IF EXISTS er_gone");
                var warning = statement.getWarnings();
                Checks.that(warning != null, "a warning");
                Checks.equal("table \"er_gone\" does not exist, skipping", warning.getMessage());
                Checks.equal("00000", warning.getSQLState());
            }
        });
        Checks.check("query timeout", connection -> {
            try (var statement = connection.createStatement()) {
                statement.setQueryTimeout(1);
                Checks.fails("57014", () -> statement.executeQuery("SELECT pg_sleep(15)"));
                Checks.equal(List.of("1"), Checks.rows(statement.executeQuery("SELECT 1")));
            }
        });
        Checks.check("statement_timeout", connection -> {
            Checks.execute(connection, "SET statement_timeout = 100");
            Checks.fails("57014", () -> Checks.one(connection, "SELECT pg_sleep(15)"));
        });
        Checks.check("cancellation", Errors::cancellation);
        Checks.check("cancellation of a computation", connection -> {
            try (var statement = connection.createStatement()) {
                statement.setQueryTimeout(1);
                Checks.fails("57014", () -> statement.executeQuery("""
                        SELECT count(*) FROM generate_series(1, 100000) a(n),
                                             generate_series(1, 1000000) b(n)
                        WHERE a.n + b.n = -1"""));
            }
            Checks.equal("1", Checks.one(connection, "SELECT 1"));
        });
        Checks.check("network timeout", connection -> {
            connection.setNetworkTimeout(Runnable::run, 500);
            Checks.fails("08006", () -> Checks.one(connection, "SELECT pg_sleep(15)"));
        });
    }

    private static org.postgresql.util.ServerErrorMessage serverError(
            Connection connection, String sql) throws Exception {
        try {
            Checks.execute(connection, sql);
        } catch (PSQLException e) {
            return e.getServerErrorMessage();
        }
        throw new AssertionError("no error");
    }

    private static void constraint(String state, String sql, String constraint, String column) {
        Checks.check("error " + state + " names what is broken", connection -> {
            var error = serverError(connection, sql);
            Checks.equal(state, error.getSQLState());
            Checks.equal("public", error.getSchema());
            Checks.equal(sql.contains("er_base") ? "er_base" : "er_child", error.getTable());
            Checks.equal(constraint, error.getConstraint());
            Checks.equal(column, error.getColumn());
        });
    }

    private static void cancellation(Connection connection) throws Exception {
        try (var statement = connection.createStatement()) {
            var stopped = CompletableFuture.runAsync(() -> {
                try {
                    Thread.sleep(300);
                    statement.cancel();
                } catch (Exception e) {
                    throw new IllegalStateException(e);
                }
            });
            Checks.fails("57014", () -> statement.executeQuery("SELECT pg_sleep(15)"));
            stopped.get(5, SECONDS);
        }
        Checks.equal("1", Checks.one(connection, "SELECT 1"));
    }
}

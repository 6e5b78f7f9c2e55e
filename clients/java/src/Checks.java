import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Objects;
import java.util.Properties;

/**
 * What all groups of checks use: connections to the database of the environment, a line for each
 * check, and comparisons that say what was seen.
 */
final class Checks {
    /** The body of a check, with a connection of its own. */
    interface Body {
        void run(Connection connection) throws Exception;
    }

    /** What is expected to fail. */
    interface Action {
        void run() throws Exception;
    }

    private Checks() {}

    /** Where the database is, without the parameters of the connection. */
    static String url() {
        return url(variable("PGDATABASE"));
    }

    static String url(String database) {
        return "jdbc:postgresql://%s:%s/%s"
                .formatted(variable("PGHOST"), variable("PGPORT"), database);
    }

    static String variable(String name) {
        return Objects.requireNonNull(System.getenv(name), name);
    }

    /** A connection; `parameters` are names and values in turns. */
    static Connection connect(String... parameters) throws SQLException {
        var properties = new Properties();
        properties.put("user", variable("PGUSER"));
        properties.put("password", variable("PGPASSWORD"));
        properties.put("loginTimeout", "20");
        // No check may hang the program.
        properties.put("options", "-c statement_timeout=10s");
        for (int i = 0; i < parameters.length; i += 2) {
            properties.put(parameters[i], parameters[i + 1]);
        }
        return DriverManager.getConnection(url(), properties);
    }

    /** Runs a check over a connection with these parameters, and prints its line. */
    static void check(String name, Body body, String... parameters) {
        String seen = null;
        try (var connection = connect(parameters)) {
            body.run(connection);
        } catch (Exception | AssertionError e) {
            seen = described(e);
        }
        System.out.println(seen == null ? "ok " + name : "not ok " + name + ": " + seen);
    }

    private static String described(Throwable e) {
        var state = e instanceof SQLException sql ? sql.getSQLState() + " " : "";
        var kind = e instanceof AssertionError ? "" : e.getClass().getSimpleName() + " ";
        var at = Arrays.stream(e.getStackTrace())
                .filter(frame -> frame.getClassName().indexOf('.') < 0)
                .filter(frame -> !frame.getClassName().startsWith("Checks"))
                .findFirst()
                .map(frame -> " (%s:%d)".formatted(frame.getFileName(), frame.getLineNumber()))
                .orElse("");
        return (kind + state + e.getMessage() + at).replaceAll("\\s+", " ");
    }

    static void equal(Object expected, Object seen) {
        if (!Objects.deepEquals(expected, seen)) {
            throw new AssertionError("expected %s, saw %s".formatted(shown(expected), shown(seen)));
        }
    }

    private static String shown(Object value) {
        var shown = Arrays.deepToString(new Object[] {value});
        return shown.substring(1, shown.length() - 1);
    }

    static void that(boolean holds, String claim) {
        if (!holds) {
            throw new AssertionError("not so: " + claim);
        }
    }

    /** The error that an action must fail with. */
    static SQLException fails(String state, Action action) throws Exception {
        try {
            action.run();
        } catch (SQLException e) {
            if (!state.equals(e.getSQLState())) {
                throw new AssertionError("expected SQLSTATE %s, saw %s %s"
                        .formatted(state, e.getSQLState(), e.getMessage()));
            }
            return e;
        }
        throw new AssertionError("expected SQLSTATE %s, saw no error".formatted(state));
    }

    /** Runs statements by `Statement.execute`, each by itself. */
    static void execute(Connection connection, String... statements) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            for (var sql : statements) {
                statement.execute(sql);
            }
        }
    }

    /** The rows of a query as texts: columns with `|` between them, NULL as `null`. */
    static List<String> rows(Connection connection, String sql) throws SQLException {
        try (var statement = connection.createStatement(); var rows = statement.executeQuery(sql)) {
            return rows(rows);
        }
    }

    /** The rest of a result as texts, of all columns or of those named. */
    static List<String> rows(ResultSet rows, String... columns) throws SQLException {
        var texts = new ArrayList<String>();
        while (rows.next()) {
            var cells = new ArrayList<String>();
            if (columns.length == 0) {
                for (int i = 1; i <= rows.getMetaData().getColumnCount(); i++) {
                    cells.add(rows.getString(i));
                }
            }
            for (var column : columns) {
                cells.add(rows.getString(column));
            }
            texts.add(String.join("|", cells.stream().map(String::valueOf).toList()));
        }
        return texts;
    }

    /** The first column of the first row. */
    static String one(Connection connection, String sql) throws SQLException {
        return rows(connection, sql).get(0);
    }
}

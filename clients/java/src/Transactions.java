import static java.sql.Connection.TRANSACTION_READ_COMMITTED;
import static java.sql.Connection.TRANSACTION_READ_UNCOMMITTED;
import static java.sql.Connection.TRANSACTION_REPEATABLE_READ;
import static java.sql.Connection.TRANSACTION_SERIALIZABLE;

import java.sql.Connection;
import java.sql.SQLException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Executors;

/** Transactions: levels, savepoints, conflicts, waits. */
final class Transactions {
    private static final Map<Integer, String> LEVELS = Map.of(
            TRANSACTION_READ_UNCOMMITTED, "read uncommitted",
            TRANSACTION_READ_COMMITTED, "read committed",
            TRANSACTION_REPEATABLE_READ, "repeatable read",
            TRANSACTION_SERIALIZABLE, "serializable");

    private Transactions() {}

    static void run() {
        Checks.check("commit and rollback", connection -> {
            Checks.execute(connection, "CREATE TABLE tx_plain (id int)");
            connection.setAutoCommit(false);
            Checks.execute(connection, "INSERT INTO tx_plain VALUES (1)");
            connection.rollback();
            Checks.execute(connection, "INSERT INTO tx_plain VALUES (2)");
            connection.commit();
            Checks.execute(connection, "INSERT INTO tx_plain VALUES (3)");
            connection.setAutoCommit(true);
            Checks.equal(List.of("2", "3"),
                    Checks.rows(connection, "SELECT id FROM tx_plain ORDER BY id"));
        });
        LEVELS.forEach((level, name) -> Checks.check("level " + name, connection -> {
            Checks.equal(TRANSACTION_READ_COMMITTED, connection.getTransactionIsolation());
            connection.setTransactionIsolation(level);
            Checks.equal(level, connection.getTransactionIsolation());
            connection.setAutoCommit(false);
            Checks.equal(name, Checks.one(connection, "SHOW transaction_isolation"));
            Checks.equal("1", Checks.one(connection, "SELECT 1"));
            connection.commit();
        }));
        Checks.check("what a read committed and a repeatable read see", Transactions::visible);
        Checks.check("conflict of repeatable read", Transactions::lostUpdate);
        Checks.check("conflict of serializable", Transactions::writeSkew);
        Checks.check("definitions roll back", connection -> {
            connection.setAutoCommit(false);
            Checks.execute(connection, "CREATE TABLE tx_ddl (id int PRIMARY KEY)",
                    "INSERT INTO tx_ddl VALUES (1)", "ALTER TABLE tx_ddl ADD COLUMN b text");
            Checks.equal("1|null", Checks.one(connection, "SELECT * FROM tx_ddl"));
            connection.rollback();
            Checks.fails("42P01", () -> Checks.one(connection, "SELECT * FROM tx_ddl"));
        });
        Checks.check("savepoints", Transactions::savepoints);
        for (var autosave : List.of("never", "always", "conservative")) {
            Checks.check("autosave " + autosave, connection -> {
                autosave(connection, autosave);
            }, "autosave", autosave);
        }
        Checks.check("autosave conservative and a table that changes", connection -> {
            Checks.execute(connection, "CREATE TABLE tx_plan (a int)",
                    "INSERT INTO tx_plan VALUES (1)");
            connection.setAutoCommit(false);
            try (var statement = connection.prepareStatement("SELECT * FROM tx_plan")) {
                for (int i = 0; i < 7; i++) {
                    statement.executeQuery().close();
                }
                Checks.execute(connection, "ALTER TABLE tx_plan ADD COLUMN b int");
                try (var rows = statement.executeQuery()) {
                    Checks.equal(List.of("1|null"), Checks.rows(rows));
                }
            }
            connection.commit();
        }, "autosave", "conservative");
        Checks.check("read-only transaction", connection -> {
            Checks.execute(connection, "CREATE TABLE tx_read (id int)");
            connection.setReadOnly(true);
            connection.setAutoCommit(false);
            Checks.equal("0", Checks.one(connection, "SELECT count(*) FROM tx_read"));
            Checks.fails("25006",
                    () -> Checks.execute(connection, "INSERT INTO tx_read VALUES (1)"));
            connection.rollback();
            connection.setReadOnly(false);
            Checks.execute(connection, "INSERT INTO tx_read VALUES (1)");
            connection.commit();
        });
        Checks.check("read-only session", connection -> {
            Checks.execute(connection, "CREATE TABLE tx_session (id int)");
            connection.setReadOnly(true);
            Checks.fails("25006",
                    () -> Checks.execute(connection, "INSERT INTO tx_session VALUES (1)"));
            connection.setReadOnly(false);
            Checks.execute(connection, "INSERT INTO tx_session VALUES (1)");
        }, "readOnlyMode", "always");
        Checks.check("failed transaction", connection -> {
            connection.setAutoCommit(false);
            Checks.fails("22012", () -> Checks.one(connection, "SELECT 1 / 0"));
            Checks.fails("25P02", () -> Checks.one(connection, "SELECT 1"));
            connection.rollback();
            Checks.equal("1", Checks.one(connection, "SELECT 1"));
        });
        Checks.check("commit of a failed transaction", connection -> {
            Checks.execute(connection, "CREATE TABLE tx_silent (id int)");
            connection.setAutoCommit(false);
            Checks.execute(connection, "INSERT INTO tx_silent VALUES (1)");
            Checks.fails("22012", () -> Checks.one(connection, "SELECT 1 / 0"));
            connection.commit();
            Checks.equal("0", Checks.one(connection, "SELECT count(*) FROM tx_silent"));
        });
        Checks.check("FOR UPDATE", Transactions::locks);
        Checks.check("deadlock", Transactions::deadlock);
        Checks.check("queue of SKIP LOCKED", Transactions::queue);
        Checks.check("transfers of eight threads", Transactions::transfers);
        Checks.check("advisory lock", connection -> {
            try (var other = Checks.connect()) {
                Checks.execute(connection, "SELECT pg_advisory_lock(77)");
                Checks.equal("f", Checks.one(other, "SELECT pg_try_advisory_lock(77)"));
                Checks.equal("t", Checks.one(connection, "SELECT pg_advisory_unlock(77)"));
                Checks.equal("t", Checks.one(other, "SELECT pg_try_advisory_lock(77)"));
            }
        });
        Checks.check("SET LOCAL", connection -> {
            connection.setAutoCommit(false);
            Checks.execute(connection, "SET LOCAL lock_timeout = '3s'");
            Checks.equal("3s", Checks.one(connection, "SHOW lock_timeout"));
            connection.commit();
            Checks.equal("0", Checks.one(connection, "SHOW lock_timeout"));
        });
    }

    private static void visible(Connection connection) throws Exception {
        Checks.execute(connection, "CREATE TABLE tx_see (n int)", "INSERT INTO tx_see VALUES (1)");
        try (var writer = Checks.connect(); var late = Checks.connect()) {
            connection.setAutoCommit(false);
            late.setAutoCommit(false);
            late.setTransactionIsolation(TRANSACTION_REPEATABLE_READ);
            Checks.equal("1", Checks.one(connection, "SELECT n FROM tx_see"));
            Checks.equal("1", Checks.one(late, "SELECT n FROM tx_see"));
            Checks.execute(writer, "UPDATE tx_see SET n = 2");
            Checks.equal("2", Checks.one(connection, "SELECT n FROM tx_see"));
            Checks.equal("1", Checks.one(late, "SELECT n FROM tx_see"));
            late.commit();
            Checks.equal("2", Checks.one(late, "SELECT n FROM tx_see"));
        }
    }

    private static void lostUpdate(Connection connection) throws Exception {
        Checks.execute(connection, "CREATE TABLE tx_lost (id int PRIMARY KEY, n int)",
                "INSERT INTO tx_lost VALUES (1, 1)");
        connection.setAutoCommit(false);
        connection.setTransactionIsolation(TRANSACTION_REPEATABLE_READ);
        Checks.one(connection, "SELECT n FROM tx_lost");
        try (var other = Checks.connect()) {
            Checks.execute(other, "UPDATE tx_lost SET n = n + 1 WHERE id = 1");
        }
        Checks.fails("40001", () -> {
            Checks.execute(connection, "UPDATE tx_lost SET n = n + 1 WHERE id = 1");
            connection.commit();
        });
    }

    private static void writeSkew(Connection connection) throws Exception {
        Checks.execute(connection, "CREATE TABLE tx_skew (id int PRIMARY KEY, duty bool)",
                "INSERT INTO tx_skew VALUES (1, true), (2, true)");
        try (var other = Checks.connect()) {
            for (var each : List.of(connection, other)) {
                each.setAutoCommit(false);
                each.setTransactionIsolation(TRANSACTION_SERIALIZABLE);
                Checks.equal("2", Checks.one(each, "SELECT count(*) FROM tx_skew WHERE duty"));
            }
            Checks.fails("40001", () -> {
                Checks.execute(connection, "UPDATE tx_skew SET duty = false WHERE id = 1");
                Checks.execute(other, "UPDATE tx_skew SET duty = false WHERE id = 2");
                connection.commit();
                other.commit();
            });
        }
    }

    private static void savepoints(Connection connection) throws Exception {
        Checks.execute(connection, "CREATE TABLE tx_save (id int PRIMARY KEY)");
        connection.setAutoCommit(false);
        Checks.execute(connection, "INSERT INTO tx_save VALUES (1)");
        var first = connection.setSavepoint();
        Checks.execute(connection, "INSERT INTO tx_save VALUES (2)");
        var second = connection.setSavepoint("se \"cond\"");
        Checks.fails("23505", () -> Checks.execute(connection, "INSERT INTO tx_save VALUES (1)"));
        connection.rollback(second);
        Checks.execute(connection, "INSERT INTO tx_save VALUES (3)");
        connection.releaseSavepoint(second);
        Checks.equal("3", Checks.one(connection, "SELECT count(*) FROM tx_save"));
        connection.rollback(first);
        Checks.execute(connection, "INSERT INTO tx_save VALUES (4)");
        connection.commit();
        Checks.equal(List.of("1", "4"), Checks.rows(connection, "SELECT id FROM tx_save"));
    }

    private static void autosave(Connection connection, String autosave) throws Exception {
        var table = "tx_auto_" + autosave;
        Checks.execute(connection, "CREATE TABLE %s (id int PRIMARY KEY)".formatted(table));
        connection.setAutoCommit(false);
        try (var statement = connection.prepareStatement(
                "INSERT INTO %s VALUES (?)".formatted(table))) {
            for (int i = 0; i < 10; i++) {
                statement.setInt(1, i);
                statement.executeUpdate();
            }
            statement.setInt(1, 3);
            Checks.fails("23505", statement::executeUpdate);
            statement.setInt(1, 10);
            if (autosave.equals("always")) {
                statement.executeUpdate();
            } else {
                Checks.fails("25P02", statement::executeUpdate);
            }
        }
        connection.commit();
        Checks.equal(autosave.equals("always") ? "11" : "0",
                Checks.one(connection, "SELECT count(*) FROM " + table));
    }

    private static void locks(Connection connection) throws Exception {
        Checks.execute(connection, "CREATE TABLE tx_lock (id int PRIMARY KEY, n int)",
                "INSERT INTO tx_lock VALUES (1, 1), (2, 2)");
        connection.setAutoCommit(false);
        Checks.equal("1", Checks.one(connection, "SELECT n FROM tx_lock WHERE id = 1 FOR UPDATE"));
        try (var other = Checks.connect()) {
            Checks.fails("55P03", () -> Checks.one(other,
                    "SELECT n FROM tx_lock WHERE id = 1 FOR UPDATE NOWAIT"));
            Checks.execute(other, "SET lock_timeout = '100ms'");
            Checks.fails("55P03", () -> Checks.execute(other,
                    "UPDATE tx_lock SET n = 9 WHERE id = 1"));
            Checks.equal(List.of("2"), Checks.rows(other,
                    "SELECT id FROM tx_lock ORDER BY id FOR UPDATE SKIP LOCKED"));
            connection.commit();
            Checks.execute(other, "UPDATE tx_lock SET n = 9 WHERE id = 1");
        }
    }

    private static void deadlock(Connection connection) throws Exception {
        Checks.execute(connection, "CREATE TABLE tx_dead (id int PRIMARY KEY, n int)",
                "INSERT INTO tx_dead VALUES (1, 0), (2, 0)");
        var update = "UPDATE tx_dead SET n = n + 1 WHERE id = ";
        var executor = Executors.newSingleThreadExecutor();
        try (var other = Checks.connect()) {
            connection.setAutoCommit(false);
            other.setAutoCommit(false);
            Checks.execute(connection, update + 1);
            Checks.execute(other, update + 2);
            var waiting = executor.submit(() -> failure(other, update + 1));
            var states = new ArrayList<String>();
            states.add(failure(connection, update + 2));
            states.add(waiting.get());
            states.sort(null);
            Checks.equal(List.of("", "40P01"), states);
        } finally {
            executor.shutdown();
        }
    }

    /** The SQLSTATE of a statement that may fail; then, or after it, the transaction ends. */
    private static String failure(Connection connection, String sql) throws SQLException {
        try {
            Checks.execute(connection, sql);
            connection.commit();
            return "";
        } catch (SQLException e) {
            connection.rollback();
            return e.getSQLState();
        }
    }

    private static void queue(Connection connection) throws Exception {
        Checks.execute(connection, "CREATE TABLE tx_job (id int PRIMARY KEY, done bool)",
                "INSERT INTO tx_job SELECT n, false FROM generate_series(1, 200) s(n)");
        var taken = inThreads(4, worker -> {
            int jobs = 0;
            while (true) {
                var job = Checks.rows(worker, """
                        SELECT id FROM tx_job WHERE NOT done ORDER BY id LIMIT 1
                        FOR UPDATE SKIP LOCKED""");
                if (job.isEmpty()) {
                    return jobs;
                }
                Checks.execute(worker, "UPDATE tx_job SET done = true WHERE id = " + job.get(0));
                worker.commit();
                jobs += 1;
            }
        });
        Checks.equal(200, taken);
    }

    private static void transfers(Connection connection) throws Exception {
        Checks.execute(connection, "CREATE TABLE tx_account (id int PRIMARY KEY, balance bigint)",
                "INSERT INTO tx_account SELECT n, 100 FROM generate_series(0, 9) s(n)");
        var done = inThreads(8, worker -> {
            worker.setTransactionIsolation(TRANSACTION_SERIALIZABLE);
            int transfers = 0;
            for (int i = 0; transfers < 50; i++) {
                int from = i * 7 % 10;
                try (var update = worker.prepareStatement(
                        "UPDATE tx_account SET balance = balance + ? WHERE id = ?")) {
                    for (int side = 0; side < 2; side++) {
                        update.setLong(1, side == 0 ? -1 : 1);
                        update.setInt(2, (from + 3 * side) % 10);
                        update.executeUpdate();
                    }
                    worker.commit();
                    transfers += 1;
                } catch (SQLException e) {
                    worker.rollback();
                    if (!e.getSQLState().startsWith("40")) {
                        throw e;
                    }
                }
            }
            return transfers;
        });
        Checks.equal(400, done);
        Checks.equal("1000", Checks.one(connection, "SELECT sum(balance) FROM tx_account"));
    }

    private interface Worker {
        int work(Connection connection) throws Exception;
    }

    /** The sum of what workers return, each with a thread and a connection of its own. */
    private static int inThreads(int count, Worker worker) throws Exception {
        var executor = Executors.newFixedThreadPool(count);
        try {
            var results = new ArrayList<java.util.concurrent.Future<Integer>>();
            for (int i = 0; i < count; i++) {
                results.add(executor.submit(() -> {
                    try (var connection = Checks.connect()) {
                        connection.setAutoCommit(false);
                        return worker.work(connection);
                    }
                }));
            }
            int sum = 0;
            for (var result : results) {
                sum += result.get();
            }
            return sum;
        } finally {
            executor.shutdown();
        }
    }
}

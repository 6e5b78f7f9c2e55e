import static java.util.concurrent.TimeUnit.SECONDS;

import java.sql.Connection;
import java.sql.DriverManager;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Executors;
import org.postgresql.ds.PGSimpleDataSource;
import org.postgresql.xa.PGXADataSource;

/** Connections: their parameters, what the server says of itself, data sources. */
final class Connecting {
    private Connecting() {}

    static void run() {
        Checks.check("connection is valid", connection -> {
            Checks.that(connection.isValid(5), "isValid");
            Checks.equal(Checks.variable("PGDATABASE"), connection.getCatalog());
            Checks.equal("public", connection.getSchema());
        });
        Checks.check("wrong password", connection -> {
            Checks.fails("28P01", () -> Checks.connect("password", "wrong").close());
        });
        Checks.check("missing role", connection -> {
            Checks.fails("28P01", () -> Checks.connect("user", "nobody_here").close());
        });
        Checks.check("missing database", connection -> {
            Checks.fails("3D000", () -> DriverManager.getConnection(
                    Checks.url("missing"), Checks.variable("PGUSER"),
                    Checks.variable("PGPASSWORD")).close());
        });
        Checks.check("application name", connection -> {
            Checks.equal("orders", Checks.one(connection, "SHOW application_name"));
            connection.setClientInfo("ApplicationName", "invoices");
            Checks.equal("invoices", Checks.one(connection, "SHOW application_name"));
            Checks.equal("invoices", connection.getClientInfo("ApplicationName"));
        }, "ApplicationName", "orders");
        Checks.check("application name of the oldest servers", connection -> {
            Checks.equal("late", Checks.one(connection, "SHOW application_name"));
        }, "ApplicationName", "late", "assumeMinServerVersion", "8.0");
        Checks.check("current schema", Connecting::currentSchema);
        Checks.check("options of the session", connection -> {
            Checks.equal("7s", Checks.one(connection, "SHOW lock_timeout"));
            Checks.equal("1d", Checks.one(connection, "SHOW statement_timeout"));
        }, "options", "-c lock_timeout=7s -c statement_timeout=1d");
        Checks.check("option of read-only transactions", connection -> {
            Checks.fails("25006", () -> Checks.execute(connection, "CREATE TABLE con_r (id int)"));
        }, "options", "-c default_transaction_read_only=on");
        Checks.check("connection to a primary", connection -> {
            Checks.equal("1", Checks.one(connection, "SELECT 1"));
        }, "targetServerType", "primary");
        Checks.check("no connection to a secondary", connection -> {
            Checks.fails("08001", () -> Checks.connect("targetServerType", "secondary").close());
        });
        Checks.check("sslmode prefer and disable", connection -> {
            for (var mode : List.of("disable", "allow", "prefer")) {
                try (var other = Checks.connect("sslmode", mode)) {
                    Checks.equal("1", Checks.one(other, "SELECT 1"));
                }
            }
        });
        Checks.check("gssEncMode prefer", connection -> {
            Checks.equal("1", Checks.one(connection, "SELECT 1"));
        }, "gssEncMode", "prefer");
        Checks.check("protocol 3_2", connection -> {
            Checks.equal("1", Checks.one(connection, "SELECT 1"));
        }, "protocolVersion", "3.2");
        for (var mode : List.of(
                "simple", "extended", "extendedForPrepared", "extendedCacheEverything")) {
            Checks.check("preferQueryMode " + mode, Connecting::asks, "preferQueryMode", mode);
        }
        Checks.check("parameter statuses", connection -> {
            var statuses = connection.unwrap(org.postgresql.PGConnection.class)
                    .getParameterStatuses();
            for (var entry : Map.of("server_encoding", "UTF8", "client_encoding", "UTF8",
                    "integer_datetimes", "on", "standard_conforming_strings", "on",
                    "is_superuser", "on").entrySet()) {
                Checks.equal(entry.getValue(), statuses.get(entry.getKey()));
            }
            Checks.execute(connection, "SET TimeZone = 'Asia/Tokyo'");
            Checks.equal("Asia/Tokyo", connection.unwrap(org.postgresql.PGConnection.class)
                    .getParameterStatus("TimeZone"));
        });
        Checks.check("abort of a connection", connection -> {
            var executor = Executors.newSingleThreadExecutor();
            connection.abort(executor);
            executor.shutdown();
            Checks.that(executor.awaitTermination(10, SECONDS), "the abort ends");
            Checks.that(connection.isClosed(), "isClosed");
        });
        Checks.check("pg_terminate_backend", connection -> {
            try (var other = Checks.connect()) {
                var number = Checks.one(other, "SELECT pg_backend_pid()");
                Checks.equal("t", Checks.one(connection,
                        "SELECT pg_terminate_backend(%s)".formatted(number)));
                Checks.fails("57P01", () -> {
                    for (int i = 0; i < 100; i++) {
                        Thread.sleep(20);
                        Checks.one(other, "SELECT 1");
                    }
                });
            }
        });
        Checks.check("DISCARD ALL", connection -> {
            Checks.execute(connection, "SET search_path = nowhere", "DISCARD ALL");
            Checks.equal("\"$user\", public", Checks.one(connection, "SHOW search_path"));
            asks(connection);
        });
        Checks.check("PGSimpleDataSource", connection -> {
            var source = new PGSimpleDataSource();
            source.setUrl(Checks.url());
            source.setUser(Checks.variable("PGUSER"));
            source.setPassword(Checks.variable("PGPASSWORD"));
            try (var other = source.getConnection()) {
                Checks.equal("1", Checks.one(other, "SELECT 1"));
            }
        });
        Checks.check("PGXADataSource in one phase", Connecting::onePhase);
        Checks.check("sixty connections", connection -> {
            var others = new Connection[60];
            for (int i = 0; i < others.length; i++) {
                others[i] = Checks.connect();
            }
            for (var other : others) {
                Checks.equal("1", Checks.one(other, "SELECT 1"));
                other.close();
            }
        });
    }

    /** Asks with a parameter, often enough for a statement of the server. */
    private static void asks(Connection connection) throws Exception {
        try (var statement = connection.prepareStatement("SELECT ? + 1, ?")) {
            for (int i = 0; i < 8; i++) {
                statement.setInt(1, i);
                statement.setString(2, "it's \\ " + i);
                try (var rows = statement.executeQuery()) {
                    Checks.that(rows.next(), "a row");
                    Checks.equal(i + 1, rows.getInt(1));
                    Checks.equal("it's \\ " + i, rows.getString(2));
                }
            }
        }
    }

    private static void currentSchema(Connection connection) throws Exception {
        Checks.execute(connection, "CREATE SCHEMA sales", "CREATE TABLE sales.con_order (id int)");
        try (var other = Checks.connect("currentSchema", "sales")) {
            Checks.equal("sales", other.getSchema());
            Checks.execute(other, "INSERT INTO con_order VALUES (1)");
        }
        connection.setSchema("sales");
        Checks.equal("1", Checks.one(connection, "SELECT id FROM con_order"));
        Checks.equal("sales", Checks.one(connection, "SELECT current_schema()"));
    }

    private static void onePhase(Connection connection) throws Exception {
        Checks.execute(connection, "CREATE TABLE con_xa (id int)");
        var source = new PGXADataSource();
        source.setUrl(Checks.url());
        source.setUser(Checks.variable("PGUSER"));
        source.setPassword(Checks.variable("PGPASSWORD"));
        var xa = source.getXAConnection();
        try {
            var id = new Id(new byte[] {1}, new byte[] {2});
            var resource = xa.getXAResource();
            resource.start(id, javax.transaction.xa.XAResource.TMNOFLAGS);
            Checks.execute(xa.getConnection(), "INSERT INTO con_xa VALUES (7)");
            resource.end(id, javax.transaction.xa.XAResource.TMSUCCESS);
            resource.commit(id, true);
        } finally {
            xa.close();
        }
        Checks.equal(Arrays.asList("7"), Checks.rows(connection, "SELECT id FROM con_xa"));
    }

    private record Id(byte[] getGlobalTransactionId, byte[] getBranchQualifier)
            implements javax.transaction.xa.Xid {
        @Override
        public int getFormatId() {
            return 1;
        }

        @Override
        public byte[] getGlobalTransactionId() {
            return getGlobalTransactionId;
        }

        @Override
        public byte[] getBranchQualifier() {
            return getBranchQualifier;
        }
    }
}

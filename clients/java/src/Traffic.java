import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.StringReader;
import java.io.StringWriter;
import java.sql.Connection;
import java.util.Arrays;
import java.util.List;
import org.postgresql.PGConnection;
import org.postgresql.copy.CopyManager;
import org.postgresql.copy.PGCopyInputStream;
import org.postgresql.copy.PGCopyOutputStream;

/** COPY, and notifications. */
final class Traffic {
    private Traffic() {}

    static void run() {
        Checks.check("COPY in the text format", connection -> {
            Checks.execute(connection, "CREATE TABLE co_text (id int, name text)");
            var rows = copies(connection).copyIn("COPY co_text FROM STDIN",
                    new StringReader("1\ta\\tb\n2\t\\N\n3\t\\\\.\n"));
            Checks.equal(3L, rows);
            Checks.equal(List.of("1|a\tb", "2|null", "3|\\."),
                    Checks.rows(connection, "SELECT * FROM co_text ORDER BY id"));
            var out = new StringWriter();
            Checks.equal(3L, copies(connection).copyOut("COPY co_text TO STDOUT", out));
            Checks.equal("1\ta\\tb\n2\t\\N\n3\t\\\\.\n", out.toString());
        });
        Checks.check("COPY in the csv format", connection -> {
            Checks.execute(connection, "CREATE TABLE co_csv (id int, name text, at date)");
            Checks.equal(2L, copies(connection).copyIn(
                    "COPY co_csv (id, name) FROM STDIN WITH (FORMAT csv, HEADER true)",
                    new StringReader("id,name\n1,\"a \"\"q\"\",\nb\"\n2,\n")));
            var out = new StringWriter();
            copies(connection).copyOut("""
                    COPY (SELECT * FROM co_csv ORDER BY id)
                    TO STDOUT (FORMAT csv, HEADER, DELIMITER ';', NULL '-')""", out);
            Checks.equal("id;name;at\n1;\"a \"\"q\"\",\nb\";-\n2;-;-\n", out.toString());
        });
        Checks.check("COPY in the binary format", connection -> {
            Checks.execute(connection, "CREATE TABLE co_bin (a int, b numeric(9, 2), c text[], d uuid)",
                    "INSERT INTO co_bin VALUES (1, 1.50, '{a,NULL}', '00000000-0000-0000-0000-000000000001')",
                    "INSERT INTO co_bin VALUES (NULL)",
                    "CREATE TABLE co_bin2 (a int, b numeric(9, 2), c text[], d uuid)");
            var out = new ByteArrayOutputStream();
            Checks.equal(2L, copies(connection).copyOut("COPY co_bin TO STDOUT BINARY", out));
            Checks.equal(2L, copies(connection).copyIn("COPY co_bin2 FROM STDIN BINARY",
                    new ByteArrayInputStream(out.toByteArray())));
            Checks.equal("0", Checks.one(connection,
                    "SELECT count(*) FROM (TABLE co_bin EXCEPT TABLE co_bin2) AS d"));
        });
        Checks.check("COPY by streams", connection -> {
            Checks.execute(connection, "CREATE TABLE co_stream (id int, name text)");
            try (var out = new PGCopyOutputStream(connection.unwrap(PGConnection.class),
                    "COPY co_stream FROM STDIN")) {
                for (int i = 0; i < 50_000; i++) {
                    out.write("%d\tname %d\n".formatted(i, i).getBytes("UTF-8"));
                }
            }
            Checks.equal("50000", Checks.one(connection, "SELECT count(*) FROM co_stream"));
            try (var in = new PGCopyInputStream(connection.unwrap(PGConnection.class),
                    "COPY co_stream TO STDOUT")) {
                Checks.equal(50_000L, new String(in.readAllBytes(), "UTF-8").lines().count());
            }
        });
        Checks.check("COPY that fails", connection -> {
            Checks.execute(connection, "CREATE TABLE co_bad (id int)");
            Checks.fails("22P02", () -> copies(connection).copyIn("COPY co_bad FROM STDIN",
                    new StringReader("1\nx\n")));
            Checks.equal("0", Checks.one(connection, "SELECT count(*) FROM co_bad"));
        });
        Checks.check("COPY with too few columns", connection -> {
            Checks.execute(connection, "CREATE TABLE co_few (id int, b int)");
            Checks.fails("22P04", () -> copies(connection).copyIn("COPY co_few FROM STDIN",
                    new StringReader("1\n")));
        });
        Checks.check("COPY that is cancelled", connection -> {
            Checks.execute(connection, "CREATE TABLE co_stop (id int)");
            var copy = copies(connection).copyIn("COPY co_stop FROM STDIN");
            copy.writeToCopy("1\n".getBytes("UTF-8"), 0, 2);
            copy.cancelCopy();
            Checks.equal("0", Checks.one(connection, "SELECT count(*) FROM co_stop"));
        });
        Checks.check("COPY in a transaction", connection -> {
            Checks.execute(connection, "CREATE TABLE co_tx (id int PRIMARY KEY)");
            connection.setAutoCommit(false);
            copies(connection).copyIn("COPY co_tx FROM STDIN", new StringReader("1\n2\n"));
            Checks.equal("2", Checks.one(connection, "SELECT count(*) FROM co_tx"));
            connection.rollback();
            Checks.equal("0", Checks.one(connection, "SELECT count(*) FROM co_tx"));
        });
        Checks.check("notifications", Traffic::notifications);
        Checks.check("notifications of a transaction", connection -> {
            Checks.execute(connection, "LISTEN tr_commit");
            try (var other = Checks.connect()) {
                other.setAutoCommit(false);
                Checks.execute(other, "NOTIFY tr_commit, 'lost'");
                other.rollback();
                Checks.execute(other, "NOTIFY tr_commit, 'one'", "NOTIFY tr_commit, 'one'",
                        "NOTIFY tr_commit, 'two'");
                other.commit();
            }
            Checks.equal(List.of("tr_commit one", "tr_commit two"), received(connection, 2));
        });
    }

    private static CopyManager copies(Connection connection) throws Exception {
        return connection.unwrap(PGConnection.class).getCopyAPI();
    }

    private static void notifications(Connection connection) throws Exception {
        Checks.execute(connection, "LISTEN \"Tr news\"", "LISTEN tr_other");
        try (var other = Checks.connect(); var statement = other.prepareStatement(
                "SELECT pg_notify(?, ?)")) {
            statement.setString(1, "Tr news");
            statement.setString(2, "ü 1");
            statement.executeQuery().close();
            Checks.execute(other, "NOTIFY tr_other");
            Checks.equal(List.of("Tr news ü 1", "tr_other "), received(connection, 2));
            Checks.execute(connection, "UNLISTEN tr_other");
            Checks.execute(other, "NOTIFY tr_other");
        }
        Checks.equal(List.of(), received(connection, 1));
    }

    /** Notifications until there are as many, or for a second. */
    private static List<String> received(Connection connection, int count) throws Exception {
        var found = new java.util.ArrayList<String>();
        for (int i = 0; i < 10 && found.size() < count; i++) {
            var more = connection.unwrap(PGConnection.class).getNotifications(100);
            if (more != null) {
                Arrays.stream(more).map(each -> each.getName() + " " + each.getParameter())
                        .forEach(found::add);
            }
        }
        return found;
    }
}

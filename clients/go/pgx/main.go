// Checks of pgx: its modes of queries, types, batches, COPY and pool.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/big"
	"net/netip"
	"os"
	"strings"
	"sync"
	"time"

	"atoll/clients/checks"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"
)

var modes = []pgx.QueryExecMode{
	pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe,
	pgx.QueryExecModeDescribeExec, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
}

// check runs body with a connection of its own.
func check(name string, body func(ctx context.Context, c *pgx.Conn) error) {
	checkWith(name, func(*pgx.ConnConfig) {}, body)
}

func checkWith(
	name string,
	configure func(*pgx.ConnConfig),
	body func(ctx context.Context, c *pgx.Conn) error,
) {
	checks.Check(name, func(ctx context.Context) error {
		c, err := connect(ctx, configure)
		if err != nil {
			return err
		}
		defer c.Close(context.Background())
		return body(ctx, c)
	})
}

func connect(ctx context.Context, configure func(*pgx.ConnConfig)) (*pgx.Conn, error) {
	config, err := pgx.ParseConfig("sslmode=disable")
	if err != nil {
		return nil, err
	}
	configure(config)
	return pgx.ConnectConfig(ctx, config)
}

func execute(ctx context.Context, c *pgx.Conn, statements ...string) error {
	for _, statement := range statements {
		if _, err := c.Exec(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

// one compares the one value of a query.
func one[T any](ctx context.Context, c *pgx.Conn, expected T, sql string, values ...any) error {
	var seen T
	if err := c.QueryRow(ctx, sql, values...).Scan(&seen); err != nil {
		return err
	}
	return checks.Equal(expected, seen)
}

// all compares the first column of a query.
func all[T any](ctx context.Context, c *pgx.Conn, expected []T, sql string, values ...any) error {
	rows, err := c.Query(ctx, sql, values...)
	if err != nil {
		return err
	}
	seen, err := pgx.CollectRows(rows, pgx.RowTo[T])
	if err != nil {
		return err
	}
	return checks.Equal(expected, seen)
}

func main() {
	checks.Version("pgx", "github.com/jackc/pgx/v5")
	connections()
	for _, mode := range modes {
		inMode(mode)
	}
	types()
	statements()
	batches()
	copies()
	transactions()
	traffic()
	pools()
}

func connections() {
	check("connection", func(ctx context.Context, c *pgx.Conn) error {
		return checks.First(
			one(ctx, c, os.Getenv("PGUSER"), "SELECT current_user::text"),
			checks.Equal("UTF8", c.PgConn().ParameterStatus("server_encoding")),
			c.Ping(ctx),
		)
	})
	checks.Check("wrong password", func(ctx context.Context) error {
		_, err := connect(ctx, func(config *pgx.ConnConfig) { config.Password = "wrong" })
		return checks.Fails("28P01", err)
	})
	checks.Check("missing database", func(ctx context.Context) error {
		_, err := connect(ctx, func(config *pgx.ConnConfig) { config.Database = "missing" })
		return checks.Fails("3D000", err)
	})
	checkWith("parameters of the connection", func(config *pgx.ConnConfig) {
		config.RuntimeParams["application_name"] = "shop"
		config.RuntimeParams["search_path"] = "elsewhere, public"
	}, func(ctx context.Context, c *pgx.Conn) error {
		return checks.First(one(ctx, c, "shop", "SHOW application_name"),
			one(ctx, c, "elsewhere, public", "SHOW search_path"))
	})
	checks.Check("target_session_attrs read-write", func(ctx context.Context) error {
		c, err := pgx.Connect(ctx, "sslmode=disable target_session_attrs=read-write")
		if err != nil {
			return err
		}
		return c.Close(ctx)
	})
	checks.Check("protocol 3.2", func(ctx context.Context) error {
		c, err := pgx.Connect(ctx, "sslmode=disable max_protocol_version=latest")
		if err != nil {
			return err
		}
		return c.Close(ctx)
	})
}

func inMode(mode pgx.QueryExecMode) {
	name := strings.ReplaceAll(mode.String(), " ", "_")
	inTheMode := func(config *pgx.ConnConfig) { config.DefaultQueryExecMode = mode }
	checkWith("parameters in mode "+name, inTheMode, func(ctx context.Context, c *pgx.Conn) error {
		table := "mode_" + name
		if err := execute(ctx, c, "CREATE TABLE "+table+` (id int PRIMARY KEY, name text, n float8,
			at timestamptz, ok bool, raw bytea, big bigint)`); err != nil {
			return err
		}
		at := time.Date(2024, 2, 29, 12, 34, 56, 789_000_000, time.UTC)
		for i := range 5 {
			if _, err := c.Exec(ctx, "INSERT INTO "+table+" VALUES ($1, $2, $3, $4, $5, $6, $7)",
				i, "o'hara \\ ü", 0.5*float64(i), at, i%2 == 0, []byte{0, 255, 39},
				int64(math.MaxInt64)); err != nil {
				return err
			}
		}
		if _, err := c.Exec(ctx, "INSERT INTO "+table+" (id, name) VALUES ($1, $2)", 9, nil); err != nil {
			return err
		}
		var (
			text string
			n    float64
			seen time.Time
			ok   bool
			raw  []byte
			big  int64
		)
		row := c.QueryRow(ctx, "SELECT name, n, at, ok, raw, big FROM "+table+" WHERE id = $1", 3)
		if err := row.Scan(&text, &n, &seen, &ok, &raw, &big); err != nil {
			return err
		}
		return checks.First(
			checks.Equal("o'hara \\ ü", text), checks.Equal(1.5, n), checks.Equal(at, seen.UTC()),
			checks.Equal(false, ok), checks.Equal([]byte{0, 255, 39}, raw),
			checks.Equal(int64(math.MaxInt64), big),
			one(ctx, c, (*string)(nil), "SELECT name FROM "+table+" WHERE id = $1", 9),
			all(ctx, c, []int32{1, 2}, "SELECT id FROM "+table+
				" WHERE id = ANY ($1) ORDER BY id", []int32{1, 2, 77}),
		)
	})
	checkWith("error in mode "+name, inTheMode, func(ctx context.Context, c *pgx.Conn) error {
		for range 2 {
			_, err := c.Exec(ctx, "SELECT * FROM nowhere WHERE id = $1", 1)
			if err := checks.Fails("42P01", err); err != nil {
				return err
			}
			_, err = c.Exec(ctx, "SELECT 1 / $1::int", 0)
			if err := checks.Fails("22012", err); err != nil {
				return err
			}
		}
		return one(ctx, c, int32(7), "SELECT $1::int + 3", 4)
	})
	checkWith("no result of a changed table in mode "+name, inTheMode,
		func(ctx context.Context, c *pgx.Conn) error {
			table := "shift_" + name
			if err := execute(ctx, c, "CREATE TABLE "+table+" (a int)",
				"INSERT INTO "+table+" VALUES (1)"); err != nil {
				return err
			}
			query := "SELECT * FROM " + table
			if err := all(ctx, c, []int32{1}, query); err != nil {
				return err
			}
			if err := execute(ctx, c, "ALTER TABLE "+table+" ALTER COLUMN a TYPE text"); err != nil {
				return err
			}
			if err := all(ctx, c, []string{"1"}, query); err == nil {
				return nil
			}
			// A statement of the cache may fail once; then it is described again.
			return all(ctx, c, []string{"1"}, query)
		})
}

// returns checks that a value returns, as a parameter with a cast and by way of a table.
func returns[T any](sql string, values ...T) {
	check("type "+sql, func(ctx context.Context, c *pgx.Conn) error {
		if err := execute(ctx, c, "DROP TABLE IF EXISTS type_value",
			"CREATE TABLE type_value (n int, v "+sql+")"); err != nil {
			return err
		}
		for n, value := range values {
			if _, err := c.Exec(ctx, "INSERT INTO type_value VALUES ($1, $2)", n, value); err != nil {
				return err
			}
			if err := checks.First(
				one(ctx, c, value, "SELECT v FROM type_value WHERE n = $1", n),
				one(ctx, c, value, "SELECT $1::"+sql, value),
			); err != nil {
				return err
			}
		}
		return nil
	})
}

func types() {
	text := func(s string) *string { return &s }
	returns("boolean", true, false)
	returns("smallint", int16(math.MinInt16), int16(math.MaxInt16))
	returns("integer", int32(math.MinInt32), int32(math.MaxInt32))
	returns("bigint", int64(math.MinInt64), int64(math.MaxInt64))
	returns("real", float32(0.1), float32(math.MaxFloat32), float32(math.Inf(-1)))
	returns("double precision", 0.1, math.SmallestNonzeroFloat64, math.MaxFloat64, math.Inf(1))
	returns("numeric(20,3)", pgtype.Numeric{Int: big.NewInt(-1500), Exp: -3, Valid: true},
		pgtype.Numeric{Int: big.NewInt(123), Exp: -3, Valid: true})
	returns("numeric", pgtype.Numeric{Int: big.NewInt(15), Exp: -1, Valid: true},
		pgtype.Numeric{NaN: true, Valid: true})
	returns("text", "", "o'hara \\ ü 🐘", strings.Repeat("x", 100_000))
	returns("varchar(5)", "abc")
	returns("char(5)", "abc  ")
	returns("bytea", []byte{}, []byte{0, 255})
	returns("date", time.Date(2024, 2, 29, 0, 0, 0, 0, time.UTC))
	returns("time", pgtype.Time{Microseconds: 86_399_999_999, Valid: true})
	returns("timestamp", time.Date(2024, 2, 29, 1, 2, 3, 4000, time.UTC))
	returns("timestamptz", pgtype.Timestamptz{InfinityModifier: pgtype.Infinity, Valid: true})
	returns("interval", pgtype.Interval{Months: 14, Days: -3, Microseconds: 5_000_000, Valid: true})
	returns("uuid", pgtype.UUID{Bytes: [16]byte{1, 2, 15: 255}, Valid: true})
	returns("jsonb", map[string]any{"a": []any{1.0, nil}, "b": "ü"})
	returns("json", json.RawMessage(`{"b":1,  "a":[2]}`))
	returns("integer[]", []int32{1, -3}, []int32{})
	returns("text[]", []*string{text("a,b"), text(""), nil, text("NULL")})
	returns("uuid[]", []pgtype.UUID{{Bytes: [16]byte{1}, Valid: true}})
	returns("float8[]", []float64{0.5, math.Inf(1)})
	returns("int[][]", [][]int32{{1, 2}, {3, 4}})
	returns("inet", netip.MustParsePrefix("10.1.2.3/32"))
	returns("int4range", pgtype.Range[pgtype.Int4]{
		Lower: pgtype.Int4{Int32: 1, Valid: true}, Upper: pgtype.Int4{Int32: 5, Valid: true},
		LowerType: pgtype.Inclusive, UpperType: pgtype.Exclusive, Valid: true,
	})
	check("type timestamptz of two zones", func(ctx context.Context, c *pgx.Conn) error {
		at := time.Date(2024, 3, 31, 2, 30, 0, 123_456_000, time.FixedZone("", -9*3600))
		var seen time.Time
		err := c.QueryRow(ctx, "SELECT $1::timestamptz", at).Scan(&seen)
		return checks.First(err, checks.Equal(true, at.Equal(seen)))
	})
	check("enum that is registered", func(ctx context.Context, c *pgx.Conn) error {
		if err := execute(ctx, c, "CREATE TYPE go_mood AS ENUM ('sad', 'glad')",
			"CREATE TABLE go_moody (m go_mood, all_of go_mood[])"); err != nil {
			return err
		}
		for _, name := range []string{"go_mood", "_go_mood"} {
			found, err := c.LoadType(ctx, name)
			if err != nil {
				return err
			}
			c.TypeMap().RegisterType(found)
		}
		if _, err := c.Exec(ctx, "INSERT INTO go_moody VALUES ($1, $2)", "glad",
			[]string{"sad", "glad"}); err != nil {
			return err
		}
		return checks.First(one(ctx, c, "glad", "SELECT m FROM go_moody"),
			one(ctx, c, []string{"sad", "glad"}, "SELECT all_of FROM go_moody"))
	})
	check("composite type that is registered", func(ctx context.Context, c *pgx.Conn) error {
		if err := execute(ctx, c, "CREATE TYPE go_pair AS (a int, b text)"); err != nil {
			return err
		}
		found, err := c.LoadType(ctx, "go_pair")
		if err != nil {
			return err
		}
		c.TypeMap().RegisterType(found)
		type pair struct {
			A int32
			B string
		}
		return one(ctx, c, pair{1, "x"}, "SELECT $1::go_pair", pair{1, "x"})
	})
}

func statements() {
	check("rows to structs", func(ctx context.Context, c *pgx.Conn) error {
		type row struct {
			ID   int32
			Name *string
		}
		rows, err := c.Query(ctx, "SELECT 1::int AS id, 'a' AS name UNION ALL SELECT 2, NULL ORDER BY 1")
		if err != nil {
			return err
		}
		seen, err := pgx.CollectRows(rows, pgx.RowToStructByName[row])
		name := "a"
		return checks.First(err, checks.Equal([]row{{1, &name}, {2, nil}}, seen))
	})
	check("types of literals", func(ctx context.Context, c *pgx.Conn) error {
		rows, err := c.Query(ctx, "SELECT 1, 5000000000, 1.5, 'x', true, now(), NULL")
		if err != nil {
			return err
		}
		rows.Close()
		numbers := []uint32{}
		for _, field := range rows.FieldDescriptions() {
			numbers = append(numbers, field.DataTypeOID)
		}
		return checks.First(rows.Err(), checks.Equal([]uint32{23, 20, 1700, 25, 16, 1184, 25}, numbers))
	})
	check("statement that is prepared", func(ctx context.Context, c *pgx.Conn) error {
		if err := execute(ctx, c, "CREATE TABLE prepared (id int, name varchar(9), at date)"); err != nil {
			return err
		}
		about, err := c.Prepare(ctx, "ps", "SELECT id, name FROM prepared WHERE id > $1 AND name = $2 AND at < $3")
		if err != nil {
			return err
		}
		columns := []uint32{about.Fields[0].DataTypeOID, about.Fields[1].DataTypeOID}
		return checks.First(
			checks.Equal([]uint32{23, 25, 1082}, about.ParamOIDs),
			checks.Equal([]uint32{23, 1043}, columns),
			all(ctx, c, []int32{}, "ps", 1, "x", time.Now()),
			c.Deallocate(ctx, "ps"),
		)
	})
	check("named arguments and rewritten ones", func(ctx context.Context, c *pgx.Conn) error {
		return one(ctx, c, "x7", "SELECT @a::text || @b::int", pgx.NamedArgs{"a": "x", "b": 7})
	})
	check("bulk insert by unnest", func(ctx context.Context, c *pgx.Conn) error {
		if err := execute(ctx, c, "CREATE TABLE bulk (id int, name text)"); err != nil {
			return err
		}
		tag, err := c.Exec(ctx, "INSERT INTO bulk SELECT * FROM unnest($1::int[], $2::text[])",
			[]int32{1, 2}, []string{"a", "b"})
		return checks.First(err, checks.Equal("INSERT 0 2", tag.String()))
	})
	check("error of a constraint", func(ctx context.Context, c *pgx.Conn) error {
		if err := execute(ctx, c, "CREATE TABLE keyed (id int PRIMARY KEY)",
			"INSERT INTO keyed VALUES (1)"); err != nil {
			return err
		}
		_, err := c.Exec(ctx, "INSERT INTO keyed VALUES ($1)", 1)
		var found *pgconn.PgError
		if !errors.As(err, &found) {
			return fmt.Errorf("saw %v", err)
		}
		return checks.Equal(
			[]string{"23505", "public", "keyed", "keyed_pkey", "Key (id)=(1) already exists."},
			[]string{found.Code, found.SchemaName, found.TableName, found.ConstraintName, found.Detail})
	})
	check("rows that are left", func(ctx context.Context, c *pgx.Conn) error {
		rows, err := c.Query(ctx, "SELECT n FROM generate_series(1, 100000) s(n)")
		if err != nil {
			return err
		}
		rows.Next()
		rows.Close()
		return checks.First(rows.Err(), one(ctx, c, int32(1), "SELECT 1::int"))
	})
	check("pipeline", func(ctx context.Context, c *pgx.Conn) error {
		pipeline := c.PgConn().StartPipeline(ctx)
		pipeline.SendQueryParams("SELECT $1::int", [][]byte{[]byte("1")}, nil, nil, nil)
		pipeline.SendQueryParams("SELECT 1 / 0", nil, nil, nil, nil)
		pipeline.SendQueryParams("SELECT 3", nil, nil, nil, nil)
		if err := pipeline.Sync(); err != nil {
			return err
		}
		_, err := pipeline.GetResults()
		if err != nil {
			return err
		}
		if err := checks.Fails("22012", pipelineError(pipeline)); err != nil {
			return err
		}
		pipeline.Close()
		return one(ctx, c, int32(4), "SELECT 4::int")
	})
}

// pipelineError reads results until one fails.
func pipelineError(pipeline *pgconn.Pipeline) error {
	for {
		result, err := pipeline.GetResults()
		if err != nil || result == nil {
			return err
		}
		if reader, ok := result.(*pgconn.ResultReader); ok {
			if _, err := reader.Close(); err != nil {
				return err
			}
		}
	}
}

func batches() {
	for _, mode := range modes {
		name := strings.ReplaceAll(mode.String(), " ", "_")
		checkWith("batch in mode "+name, func(config *pgx.ConnConfig) {
			config.DefaultQueryExecMode = mode
		}, func(ctx context.Context, c *pgx.Conn) error {
			table := "batch_" + name
			if err := execute(ctx, c, "CREATE TABLE "+table+" (id int PRIMARY KEY, name text)"); err != nil {
				return err
			}
			batch := &pgx.Batch{}
			for i := range 100 {
				batch.Queue("INSERT INTO "+table+" VALUES ($1, $2)", i, fmt.Sprint("n", i))
			}
			var count int64
			batch.Queue("SELECT count(*) FROM " + table).QueryRow(func(row pgx.Row) error {
				return row.Scan(&count)
			})
			return checks.First(c.SendBatch(ctx, batch).Close(), checks.Equal(int64(100), count))
		})
	}
	check("batch that fails is one transaction", func(ctx context.Context, c *pgx.Conn) error {
		if err := execute(ctx, c, "CREATE TABLE batch_bad (id int PRIMARY KEY)"); err != nil {
			return err
		}
		batch := &pgx.Batch{}
		batch.Queue("INSERT INTO batch_bad VALUES ($1)", 1)
		batch.Queue("INSERT INTO batch_bad VALUES ($1)", 1)
		batch.Queue("INSERT INTO batch_bad VALUES ($1)", 2)
		return checks.First(checks.Fails("23505", c.SendBatch(ctx, batch).Close()),
			one(ctx, c, int64(0), "SELECT count(*) FROM batch_bad"))
	})
	check("batch in a transaction", func(ctx context.Context, c *pgx.Conn) error {
		if err := execute(ctx, c, "CREATE TABLE batch_tx (id int PRIMARY KEY)"); err != nil {
			return err
		}
		tx, err := c.Begin(ctx)
		if err != nil {
			return err
		}
		batch := &pgx.Batch{}
		for i := range 10 {
			batch.Queue("INSERT INTO batch_tx VALUES ($1)", i)
		}
		batch.Queue("UPDATE batch_tx SET id = id + 100 WHERE id = $1", 3)
		return checks.First(tx.SendBatch(ctx, batch).Close(), tx.Commit(ctx),
			one(ctx, c, int64(145), "SELECT sum(id) FROM batch_tx"))
	})
}

func copies() {
	check("CopyFrom", func(ctx context.Context, c *pgx.Conn) error {
		if err := execute(ctx, c, `CREATE TABLE copied (id int, name text, at timestamptz, n numeric(9,2),
			tags text[], u uuid, doc jsonb)`); err != nil {
			return err
		}
		at := time.Date(2024, 2, 29, 1, 2, 3, 0, time.UTC)
		count, err := c.CopyFrom(ctx, pgx.Identifier{"copied"},
			[]string{"id", "name", "at", "n", "tags", "u", "doc"},
			pgx.CopyFromSlice(10_000, func(i int) ([]any, error) {
				return []any{i, fmt.Sprint("name ", i), at, "1.25", []string{"a", "b"},
					[16]byte{1}, map[string]int{"i": i}}, nil
			}))
		return checks.First(err, checks.Equal(int64(10_000), count),
			one(ctx, c, int64(49_995_000), "SELECT sum(id) FROM copied"),
			one(ctx, c, "12500.00", "SELECT sum(n)::text FROM copied"),
			one(ctx, c, []string{"a", "b"}, "SELECT tags FROM copied WHERE id = 9999"))
	})
	check("CopyFrom that breaks a key", func(ctx context.Context, c *pgx.Conn) error {
		if err := execute(ctx, c, "CREATE TABLE copied_key (id int PRIMARY KEY)"); err != nil {
			return err
		}
		_, err := c.CopyFrom(ctx, pgx.Identifier{"copied_key"}, []string{"id"},
			pgx.CopyFromRows([][]any{{1}, {2}, {1}}))
		return checks.First(checks.Fails("23505", err),
			one(ctx, c, int64(0), "SELECT count(*) FROM copied_key"))
	})
	check("COPY TO STDOUT", func(ctx context.Context, c *pgx.Conn) error {
		var out strings.Builder
		tag, err := c.PgConn().CopyTo(ctx, &out, "COPY (SELECT 1, 'a,b', NULL) TO STDOUT (FORMAT csv)")
		return checks.First(err, checks.Equal("COPY 1", tag.String()),
			checks.Equal("1,\"a,b\",\n", out.String()))
	})
	check("COPY FROM STDIN of text", func(ctx context.Context, c *pgx.Conn) error {
		if err := execute(ctx, c, "CREATE TABLE copied_text (id int, name text)"); err != nil {
			return err
		}
		tag, err := c.PgConn().CopyFrom(ctx, strings.NewReader("1\ta\n2\t\\N\n"),
			"COPY copied_text FROM STDIN")
		return checks.First(err, checks.Equal(int64(2), tag.RowsAffected()))
	})
}

func transactions() {
	for _, level := range []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable} {
		check("level "+string(level), func(ctx context.Context, c *pgx.Conn) error {
			tx, err := c.BeginTx(ctx, pgx.TxOptions{IsoLevel: level, AccessMode: pgx.ReadOnly})
			if err != nil {
				return err
			}
			defer tx.Rollback(ctx)
			if err := one(ctx, tx.Conn(), string(level), "SHOW transaction_isolation"); err != nil {
				return err
			}
			_, err = tx.Exec(ctx, "CREATE TABLE tx_never (id int)")
			return checks.Fails("25006", err)
		})
	}
	check("level serializable read only deferrable", func(ctx context.Context, c *pgx.Conn) error {
		tx, err := c.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.Serializable,
			AccessMode: pgx.ReadOnly, DeferrableMode: pgx.Deferrable})
		if err != nil {
			return err
		}
		return checks.First(one(ctx, tx.Conn(), int32(1), "SELECT 1::int"), tx.Commit(ctx))
	})
	check("nested transactions", func(ctx context.Context, c *pgx.Conn) error {
		if err := execute(ctx, c, "CREATE TABLE tx_nested (id int PRIMARY KEY)"); err != nil {
			return err
		}
		err := pgx.BeginFunc(ctx, c, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, "INSERT INTO tx_nested VALUES (1)"); err != nil {
				return err
			}
			inner := pgx.BeginFunc(ctx, tx, func(inner pgx.Tx) error {
				_, err := inner.Exec(ctx, "INSERT INTO tx_nested VALUES (2), (1)")
				return err
			})
			if err := checks.Fails("23505", inner); err != nil {
				return err
			}
			_, err := tx.Exec(ctx, "INSERT INTO tx_nested VALUES (3)")
			return err
		})
		return checks.First(err, all(ctx, c, []int32{1, 3}, "SELECT id FROM tx_nested ORDER BY id"))
	})
	check("commit of a failed transaction", func(ctx context.Context, c *pgx.Conn) error {
		tx, err := c.Begin(ctx)
		if err != nil {
			return err
		}
		_, failed := tx.Exec(ctx, "SELECT 1 / 0")
		if err := checks.Fails("22012", failed); err != nil {
			return err
		}
		return checks.Equal(true, errors.Is(tx.Commit(ctx), pgx.ErrTxCommitRollback))
	})
}

func traffic() {
	check("notifications", func(ctx context.Context, c *pgx.Conn) error {
		if err := execute(ctx, c, "LISTEN go_news"); err != nil {
			return err
		}
		other, err := connect(ctx, func(*pgx.ConnConfig) {})
		if err != nil {
			return err
		}
		defer other.Close(ctx)
		if _, err := other.Exec(ctx, "SELECT pg_notify($1, $2)", "go_news", "ü"); err != nil {
			return err
		}
		note, err := c.WaitForNotification(ctx)
		if err != nil {
			return err
		}
		if err := checks.Equal([]string{"go_news", "ü"}, []string{note.Channel, note.Payload}); err != nil {
			return err
		}
		short, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
		defer cancel()
		_, err = c.WaitForNotification(short)
		return checks.Equal(true, errors.Is(err, context.DeadlineExceeded))
	})
	checkWith("notice", func(config *pgx.ConnConfig) {
		config.OnNotice = func(_ *pgconn.PgConn, notice *pgconn.Notice) { noticed = notice.Message }
	}, func(ctx context.Context, c *pgx.Conn) error {
		return checks.First(execute(ctx, c, "DROP TABLE IF EXISTS nowhere"),
			checks.Equal(`table "nowhere" does not exist, skipping`, noticed))
	})
	check("context that ends", func(ctx context.Context, c *pgx.Conn) error {
		short, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
		defer cancel()
		_, err := c.Exec(short, "SELECT pg_sleep(8)")
		return checks.First(checks.Equal(true, errors.Is(err, context.DeadlineExceeded)),
			checks.Equal(true, c.IsClosed()))
	})
	check("CancelRequest", func(ctx context.Context, c *pgx.Conn) error {
		time.AfterFunc(300*time.Millisecond, func() { c.PgConn().CancelRequest(ctx) })
		_, err := c.Exec(ctx, "SELECT pg_sleep(8)")
		return checks.First(checks.Fails("57014", err), one(ctx, c, int32(1), "SELECT 1::int"))
	})
}

var noticed string

func pools() {
	withPool := func(name string, body func(ctx context.Context, pool *pgxpool.Pool) error) {
		checks.Check(name, func(ctx context.Context) error {
			pool, err := pgxpool.New(ctx, "sslmode=disable pool_max_conns=5")
			if err != nil {
				return err
			}
			defer pool.Close()
			return body(ctx, pool)
		})
	}
	withPool("pool of counters", func(ctx context.Context, pool *pgxpool.Pool) error {
		for _, sql := range []string{"CREATE TABLE counter (id int PRIMARY KEY, n int)",
			"INSERT INTO counter VALUES (1, 0)"} {
			if _, err := pool.Exec(ctx, sql); err != nil {
				return err
			}
		}
		if err := together(20, func() error {
			for range 10 {
				if _, err := pool.Exec(ctx, "UPDATE counter SET n = n + $1 WHERE id = 1", 1); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			return err
		}
		var n int
		err := pool.QueryRow(ctx, "SELECT n FROM counter").Scan(&n)
		return checks.First(err, checks.Equal(200, n))
	})
	withPool("pool of serializable transfers", func(ctx context.Context, pool *pgxpool.Pool) error {
		for _, sql := range []string{"CREATE TABLE account (id int PRIMARY KEY, balance bigint)",
			"INSERT INTO account SELECT n, 100 FROM generate_series(0, 9) s(n)"} {
			if _, err := pool.Exec(ctx, sql); err != nil {
				return err
			}
		}
		transfer := func(from, to int) error {
			return pgx.BeginTxFunc(ctx, pool, pgx.TxOptions{IsoLevel: pgx.Serializable},
				func(tx pgx.Tx) error {
					var balance int64
					err := tx.QueryRow(ctx, "SELECT balance FROM account WHERE id = $1", from).
						Scan(&balance)
					if err != nil {
						return err
					}
					if _, err := tx.Exec(ctx, "UPDATE account SET balance = $1 WHERE id = $2",
						balance-1, from); err != nil {
						return err
					}
					_, err = tx.Exec(ctx, "UPDATE account SET balance = balance + 1 WHERE id = $1", to)
					return err
				})
		}
		if err := together(5, func() error {
			for i := 0; i < 20; {
				err := transfer(i%10, (i*3+1)%10)
				var found *pgconn.PgError
				if err == nil {
					i++
				} else if !errors.As(err, &found) || !strings.HasPrefix(found.Code, "40") {
					return err
				}
			}
			return nil
		}); err != nil {
			return err
		}
		var sum int64
		err := pool.QueryRow(ctx, "SELECT sum(balance)::bigint FROM account").Scan(&sum)
		return checks.First(err, checks.Equal(int64(1000), sum))
	})
	withPool("pool that loses a connection", func(ctx context.Context, pool *pgxpool.Pool) error {
		held, err := pool.Acquire(ctx)
		if err != nil {
			return err
		}
		defer held.Release()
		_, err = pool.Exec(ctx, "SELECT pg_terminate_backend($1)", held.Conn().PgConn().PID())
		if err != nil {
			return err
		}
		for i := 0; i < 100 && err == nil; i++ {
			time.Sleep(10 * time.Millisecond)
			_, err = held.Exec(ctx, "SELECT 1")
		}
		return checks.First(checks.Fails("57P01", err), pool.Ping(ctx))
	})
}

// together runs work in so many goroutines, and returns an error of them.
func together(count int, work func() error) error {
	var group sync.WaitGroup
	errs := make([]error, count)
	for i := range count {
		group.Go(func() { errs[i] = work() })
	}
	group.Wait()
	return errors.Join(errs...)
}

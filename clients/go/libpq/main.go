// Checks of lib/pq with database/sql.
package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"atoll/clients/checks"

	"github.com/lib/pq"
)

// check runs body with a pool of its own.
func check(name string, body func(ctx context.Context, db *sql.DB) error) {
	checkWith(name, "", body)
}

func checkWith(name, parameters string, body func(ctx context.Context, db *sql.DB) error) {
	checks.Check(name, func(ctx context.Context) error {
		db, err := sql.Open("postgres", "sslmode=disable "+parameters)
		if err != nil {
			return err
		}
		defer db.Close()
		return body(ctx, db)
	})
}

func execute(ctx context.Context, db *sql.DB, statements ...string) error {
	for _, statement := range statements {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

type queryer interface {
	QueryRowContext(ctx context.Context, sql string, values ...any) *sql.Row
}

// one compares the one value of a query.
func one[T any](ctx context.Context, db queryer, expected T, sql string, values ...any) error {
	var seen T
	if err := db.QueryRowContext(ctx, sql, values...).Scan(&seen); err != nil {
		return err
	}
	return checks.Equal(expected, seen)
}

func main() {
	checks.Version("lib-pq", "github.com/lib/pq")
	check("connection", func(ctx context.Context, db *sql.DB) error {
		return checks.First(db.PingContext(ctx),
			one(ctx, db, os.Getenv("PGUSER"), "SELECT current_user"))
	})
	checkWith("wrong password", "password=wrong", func(ctx context.Context, db *sql.DB) error {
		return checks.Fails("28P01", db.PingContext(ctx))
	})
	checkWith("missing database", "dbname=missing", func(ctx context.Context, db *sql.DB) error {
		return checks.Fails("3D000", db.PingContext(ctx))
	})
	checkWith("parameters of the connection", "application_name=shop lock_timeout=3s",
		func(ctx context.Context, db *sql.DB) error {
			return checks.First(one(ctx, db, "shop", "SHOW application_name"),
				one(ctx, db, "3s", "SHOW lock_timeout"))
		})
	for _, parameters := range []string{"binary_parameters=no", "binary_parameters=yes"} {
		values(parameters)
	}
	check("arrays", func(ctx context.Context, db *sql.DB) error {
		var numbers []int64
		var texts []string
		err := db.QueryRowContext(ctx, "SELECT $1::int[], $2::text[]", pq.Array([]int64{1, -2}),
			pq.Array([]string{"a,b", "", `"q"`})).Scan(pq.Array(&numbers), pq.Array(&texts))
		return checks.First(err, checks.Equal([]int64{1, -2}, numbers),
			checks.Equal([]string{"a,b", "", `"q"`}, texts))
	})
	check("statement that is prepared", func(ctx context.Context, db *sql.DB) error {
		statement, err := db.PrepareContext(ctx, "SELECT $1::int * 2")
		if err != nil {
			return err
		}
		defer statement.Close()
		for i := range 20 {
			var seen int
			if err := statement.QueryRowContext(ctx, i).Scan(&seen); err != nil {
				return err
			}
			if err := checks.Equal(2*i, seen); err != nil {
				return err
			}
		}
		return nil
	})
	check("several statements in one text", func(ctx context.Context, db *sql.DB) error {
		return checks.First(execute(ctx, db, `CREATE TABLE pq_many (a int);
			INSERT INTO pq_many VALUES (1); INSERT INTO pq_many VALUES (2)`),
			one(ctx, db, 3, "SELECT sum(a) FROM pq_many"))
	})
	check("several results of one text", func(ctx context.Context, db *sql.DB) error {
		rows, err := db.QueryContext(ctx, "SELECT 1; SELECT 'x'")
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			// The driver knows of a second result at the end of the first.
		}
		if !rows.NextResultSet() || !rows.Next() {
			return fmt.Errorf("no second result: %v", rows.Err())
		}
		var seen string
		return checks.First(rows.Scan(&seen), checks.Equal("x", seen))
	})
	check("types of columns", func(ctx context.Context, db *sql.DB) error {
		rows, err := db.QueryContext(ctx, "SELECT 1, 'x', 1.5::numeric(5, 2), now(), 'y'::varchar(7)")
		if err != nil {
			return err
		}
		defer rows.Close()
		found, err := rows.ColumnTypes()
		if err != nil {
			return err
		}
		names := []string{}
		for _, column := range found {
			names = append(names, column.DatabaseTypeName())
		}
		precision, scale, _ := found[2].DecimalSize()
		length, _ := found[4].Length()
		return checks.First(
			checks.Equal([]string{"INT4", "TEXT", "NUMERIC", "TIMESTAMPTZ", "VARCHAR"}, names),
			checks.Equal([]int64{5, 2, 7}, []int64{precision, scale, length}))
	})
	check("counts of rows and RETURNING", func(ctx context.Context, db *sql.DB) error {
		if err := execute(ctx, db, "CREATE TABLE pq_key (id serial PRIMARY KEY, name text)"); err != nil {
			return err
		}
		result, err := db.ExecContext(ctx, "INSERT INTO pq_key (name) VALUES ($1), ($2)", "a", "b")
		if err != nil {
			return err
		}
		count, _ := result.RowsAffected()
		return checks.First(checks.Equal(int64(2), count),
			one(ctx, db, 3, "INSERT INTO pq_key (name) VALUES ($1) RETURNING id", "c"))
	})
	check("error of a constraint", func(ctx context.Context, db *sql.DB) error {
		if err := execute(ctx, db, "CREATE TABLE pq_unique (id int PRIMARY KEY)"); err != nil {
			return err
		}
		_, err := db.ExecContext(ctx, "INSERT INTO pq_unique VALUES ($1), ($1)", 1)
		var found *pq.Error
		if !errors.As(err, &found) {
			return fmt.Errorf("saw %v", err)
		}
		return checks.Equal([]string{"23505", "public", "pq_unique", "pq_unique_pkey"},
			[]string{string(found.Code), found.Schema, found.Table, found.Constraint})
	})
	for state, text := range map[string]string{
		"42601": "SELEC $1", "42P01": "SELECT * FROM nowhere WHERE id = $1",
		"42703": "SELECT nothing WHERE $1 > 0", "22012": "SELECT 1 / ($1::int - 1)",
		"42883": "SELECT nothing($1)",
	} {
		check("error "+state, func(ctx context.Context, db *sql.DB) error {
			_, err := db.ExecContext(ctx, text, 1)
			return checks.First(checks.Fails(state, err), db.PingContext(ctx))
		})
	}
	transactions()
	traffic()
}

func values(parameters string) {
	checkWith("values with "+parameters, parameters, func(ctx context.Context, db *sql.DB) error {
		table := "pq_" + strings.ReplaceAll(parameters, "=", "_")
		if err := execute(ctx, db, "CREATE TABLE "+table+` (id int, name text, n float8, ok bool,
			at timestamptz, raw bytea, price numeric(9, 2), u uuid, doc jsonb, day date)`); err != nil {
			return err
		}
		at := time.Date(2024, 2, 29, 12, 34, 56, 789_000_000, time.UTC)
		insert := "INSERT INTO " + table + " VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)"
		if _, err := db.ExecContext(ctx, insert, 1, "o'hara \\ ü", 0.1, true, at, []byte{0, 255},
			"12.5", "6ba7b810-9dad-11d1-80b4-00c04fd430c8", `{"a": 1}`, at); err != nil {
			return err
		}
		if _, err := db.ExecContext(ctx, insert, 2, nil, nil, nil, nil, nil, nil, nil, nil,
			nil); err != nil {
			return err
		}
		var (
			name, price, u, doc string
			n                   float64
			ok                  bool
			seen, day           time.Time
			raw                 []byte
		)
		row := db.QueryRowContext(ctx, "SELECT name, n, ok, at, raw, price, u, doc, day FROM "+table+
			" WHERE id = $1", 1)
		if err := row.Scan(&name, &n, &ok, &seen, &raw, &price, &u, &doc, &day); err != nil {
			return err
		}
		return checks.First(
			checks.Equal([]string{"o'hara \\ ü", "12.50", "6ba7b810-9dad-11d1-80b4-00c04fd430c8",
				`{"a": 1}`, "2024-02-29"}, []string{name, price, u, doc, day.Format(time.DateOnly)}),
			checks.Equal(0.1, n), checks.Equal(true, ok), checks.Equal(at, seen.UTC()),
			checks.Equal([]byte{0, 255}, raw),
			one(ctx, db, sql.NullString{}, "SELECT name FROM "+table+" WHERE id = 2"))
	})
}

func transactions() {
	for _, level := range []sql.IsolationLevel{
		sql.LevelDefault, sql.LevelReadCommitted, sql.LevelRepeatableRead, sql.LevelSerializable,
	} {
		name := strings.ToLower(level.String())
		check("level "+name, func(ctx context.Context, db *sql.DB) error {
			tx, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: level})
			if err != nil {
				return err
			}
			if level == sql.LevelDefault {
				name = "read committed"
			}
			return checks.First(one(ctx, tx, name, "SHOW transaction_isolation"), tx.Commit())
		})
	}
	check("transaction that rolls back", func(ctx context.Context, db *sql.DB) error {
		if err := execute(ctx, db, "CREATE TABLE pq_back (id int PRIMARY KEY)"); err != nil {
			return err
		}
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, "INSERT INTO pq_back VALUES ($1)", 1); err != nil {
			return err
		}
		return checks.First(tx.Rollback(), one(ctx, db, 0, "SELECT count(*) FROM pq_back"))
	})
	check("commit of a failed transaction", func(ctx context.Context, db *sql.DB) error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		_, failed := tx.ExecContext(ctx, "SELECT 1 / 0")
		if err := checks.Fails("22012", failed); err != nil {
			return err
		}
		if tx.Commit() == nil {
			return errors.New("the commit says nothing")
		}
		return nil
	})
	check("read-only transaction", func(ctx context.Context, db *sql.DB) error {
		tx, err := db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
		if err != nil {
			return err
		}
		defer tx.Rollback()
		_, err = tx.ExecContext(ctx, "CREATE TABLE pq_never (id int)")
		return checks.Fails("25006", err)
	})
	check("counter of twenty goroutines", func(ctx context.Context, db *sql.DB) error {
		db.SetMaxOpenConns(8)
		if err := execute(ctx, db, "CREATE TABLE pq_counter (id int PRIMARY KEY, n int)",
			"INSERT INTO pq_counter VALUES (1, 0)"); err != nil {
			return err
		}
		var group sync.WaitGroup
		errs := make([]error, 20)
		for i := range errs {
			group.Go(func() {
				for range 10 {
					_, err := db.ExecContext(ctx, "UPDATE pq_counter SET n = n + 1 WHERE id = $1", 1)
					errs[i] = errors.Join(errs[i], err)
				}
			})
		}
		group.Wait()
		return checks.First(errors.Join(errs...), one(ctx, db, 200, "SELECT n FROM pq_counter"))
	})
}

func traffic() {
	check("COPY in a transaction", func(ctx context.Context, db *sql.DB) error {
		if err := execute(ctx, db, "CREATE TABLE pq_copy (id int, name text, raw bytea)"); err != nil {
			return err
		}
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		statement, err := tx.PrepareContext(ctx, `COPY "pq_copy" ("id", "name", "raw") FROM STDIN`)
		if err != nil {
			return err
		}
		for i := range 5000 {
			if _, err := statement.ExecContext(ctx, i, "a\tb\\", []byte{byte(i)}); err != nil {
				return err
			}
		}
		_, err = statement.ExecContext(ctx)
		return checks.First(err, statement.Close(), tx.Commit(),
			one(ctx, db, 5000, "SELECT count(*) FROM pq_copy"),
			one(ctx, db, "a\tb\\", "SELECT name FROM pq_copy WHERE id = 4999"))
	})
	check("context that ends", func(ctx context.Context, db *sql.DB) error {
		short, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
		defer cancel()
		began := time.Now()
		_, err := db.ExecContext(short, "SELECT pg_sleep(8)")
		if err == nil || time.Since(began) > 5*time.Second {
			return fmt.Errorf("after %v: %v", time.Since(began), err)
		}
		return checks.First(checks.Fails("57014", err), db.PingContext(ctx))
	})
	checks.Check("notifications", func(ctx context.Context) error {
		db, err := sql.Open("postgres", "sslmode=disable")
		if err != nil {
			return err
		}
		defer db.Close()
		listener := pq.NewListener("sslmode=disable", time.Second, time.Second, nil)
		defer listener.Close()
		if err := listener.Listen("pq_news"); err != nil {
			return err
		}
		if err := execute(ctx, db, "NOTIFY pq_news, 'one'"); err != nil {
			return err
		}
		select {
		case note := <-listener.Notify:
			return checks.First(checks.Equal("pq_news one", note.Channel+" "+note.Extra),
				listener.Ping())
		case <-ctx.Done():
			return ctx.Err()
		}
	})
}

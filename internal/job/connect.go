package job

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"dpsidecar/internal/arrowio"
)

// pin gives every connection of a configuration the settings that its work rests
// on, whatever those of the server, the database and the role are: a commit that
// was reported survives a crash, each statement sees what others have committed,
// and no clock but ours ends a read. lock_timeout stays the role's.
func pin(config *pgx.ConnConfig) {
	for name, value := range map[string]string{
		"synchronous_commit":                  "on",
		"default_transaction_isolation":       "read committed",
		"default_transaction_read_only":       "off",
		"default_transaction_deferrable":      "off",
		"statement_timeout":                   "0",
		"idle_in_transaction_session_timeout": "0",
		"idle_session_timeout":                "0",
	} {
		config.RuntimeParams[name] = value
	}
	// Servers before 17 do not know it.
	config.AfterConnect = func(ctx context.Context, conn *pgconn.PgConn) error {
		return conn.Exec(ctx, `SELECT pg_catalog.set_config('transaction_timeout', '0', false)
			WHERE pg_catalog.current_setting('server_version_num')::int >= 170000`).Close()
	}
}

// patience is how long a short statement may take. A connection that is silent for
// longer hangs, and is closed.
const patience = 3 * heartbeat

// brief runs short statements, each in a transaction of its own.
type brief struct{ pool *pgxpool.Pool }

func (q brief) exec(ctx context.Context, sql string, args ...any) error {
	ctx, done := context.WithTimeout(ctx, patience)
	defer done()
	_, err := q.pool.Exec(ctx, sql, args...)
	return err
}

// QueryRow returns a row that must be scanned.
func (q brief) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	ctx, done := context.WithTimeout(ctx, patience)
	return briefRow{q.pool.QueryRow(ctx, sql, args...), done}
}

type briefRow struct {
	pgx.Row
	done context.CancelFunc
}

func (r briefRow) Scan(dest ...any) error {
	defer r.done()
	return r.Row.Scan(dest...)
}

// snapshot lends a connection whose transaction sees one state of the data and
// can write nothing.
func (s *Sidecar) snapshot(ctx context.Context, use func(*pgx.Conn) error) error {
	begin, begun := context.WithTimeout(ctx, patience)
	defer begun()
	conn, err := s.pool.Acquire(begin)
	if err != nil {
		return err
	}
	defer conn.Release()
	if _, err := conn.Exec(begin, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"); err != nil {
		return err
	}
	defer leave(context.WithoutCancel(ctx), conn.Conn())
	return use(conn.Conn())
}

// leave ends a snapshot, and what outlives its rollback: a view that is declared
// total may have called functions that took advisory locks or prepared statements.
// A session that cannot be cleaned is closed.
func leave(ctx context.Context, conn *pgx.Conn) {
	ctx, done := context.WithTimeout(ctx, patience)
	defer done()
	_, err := conn.Exec(ctx, "ROLLBACK")
	if err == nil {
		err = conn.DeallocateAll(ctx)
	}
	if err == nil {
		_, err = conn.Exec(ctx, "SELECT pg_catalog.pg_advisory_unlock_all()")
	}
	if err != nil {
		conn.Close(ctx)
	}
}

// hold locks a relation and has the database say, on another connection, whether
// it is what was registered. Only then may anything of it run: its owner may have
// put something else in its place.
func (s *Sidecar) hold(ctx context.Context, conn *pgx.Conn, relation pgx.Identifier, recheck string, args ...any) error {
	locked, done := context.WithTimeout(ctx, patience)
	defer done()
	err := uncountable(arrowio.Lock(locked, conn, relation))
	var fail *failure
	if err != nil && !errors.As(err, &fail) {
		return err
	}
	// Of a relation that cannot be locked it may have a better explanation.
	if err := s.recheck(ctx, recheck, args...); err != nil {
		return refusedBy(err)
	}
	return err
}

// recheck asks whether a relation is what was registered. With thousands of
// partitions that is no short statement.
func (s *Sidecar) recheck(ctx context.Context, sql string, args ...any) error {
	ctx, done := context.WithTimeout(ctx, 8*patience)
	defer done()
	_, err := s.pool.Exec(ctx, sql, args...)
	return err
}

// rows counts a data set and publishes the number, which is public.
func (s *Sidecar) rows(ctx context.Context, dataset int64, relation pgx.Identifier) (n int64, err error) {
	err = s.snapshot(ctx, func(conn *pgx.Conn) error {
		if err := s.hold(ctx, conn, relation, recheckDataset, dataset); err != nil {
			return err
		}
		n, err = arrowio.Count(ctx, conn, relation)
		return uncountable(err)
	})
	if err != nil {
		return 0, err
	}
	return n, s.brief.exec(ctx, "SELECT dp_int.counted($1, $2)", dataset, n)
}

package job

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"dpsidecar/internal/arrowio"
)

// pinSettings gives every connection the settings that a sidecar relies on, whatever those
// of the server, the database and the role are: a commit that was reported survives a
// crash, each statement sees what others have committed, and no time limit but the
// sidecar's ends a read. lock_timeout stays the role's. The functions' statements are
// planned once a session: planning takes longer than running them.
func pinSettings(config *pgx.ConnConfig) {
	for name, value := range map[string]string{
		"synchronous_commit":                  "on",
		"default_transaction_isolation":       "read committed",
		"default_transaction_read_only":       "off",
		"default_transaction_deferrable":      "off",
		"statement_timeout":                   "0",
		"idle_in_transaction_session_timeout": "0",
		"idle_session_timeout":                "0",
		"plan_cache_mode":                     "force_generic_plan",
		"jit":                                 "off",
		"datestyle":                           "ISO", // with extra_float_digits what a coordinator of Citus writes into its workers' statements
		"extra_float_digits":                  "1",
		"client_encoding":                     "UTF8", // that of the database where there are categories of text: nothing is converted
	} {
		config.RuntimeParams[name] = value
	}
	// Servers before 17 do not have transaction_timeout.
	config.AfterConnect = func(ctx context.Context, conn *pgconn.PgConn) error {
		return conn.Exec(ctx, `SELECT pg_catalog.set_config('transaction_timeout', '0', false)
			WHERE pg_catalog.current_setting('server_version_num')::int >= 170000`).Close()
	}
}

// statementTimeout is how long a short statement may take. A connection that does not
// answer for longer is believed to hang, and closed.
const statementTimeout = livesFor

// autocommit runs short statements, each in a transaction of its own.
type autocommit struct{ pool *pgxpool.Pool }

func (q autocommit) exec(ctx context.Context, sql string, args ...any) error {
	ctx, done := context.WithTimeout(ctx, statementTimeout)
	defer done()
	_, err := q.pool.Exec(ctx, sql, args...)
	return err
}

// QueryRow returns a row that must be scanned.
func (q autocommit) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	ctx, done := context.WithTimeout(ctx, statementTimeout)
	return autocommitRow{q.pool.QueryRow(ctx, sql, args...), done}
}

type autocommitRow struct {
	pgx.Row
	done context.CancelFunc
}

func (r autocommitRow) Scan(dest ...any) error {
	defer r.done()
	return r.Row.Scan(dest...)
}

// inSnapshot lends a connection whose transaction sees one state of the data and
// can write nothing.
func (s *Sidecar) inSnapshot(ctx context.Context, use func(*pgx.Conn) error) error {
	begin, begun := context.WithTimeout(ctx, statementTimeout)
	defer begun()
	conn, err := s.pool.Acquire(begin)
	if err != nil {
		return err
	}
	defer conn.Release()
	if _, err := conn.Exec(begin, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"); err != nil {
		return err
	}
	defer endSnapshot(context.WithoutCancel(ctx), conn.Conn())
	return use(conn.Conn())
}

// endSnapshot ends a snapshot, and what outlives its rollback: a view that is declared
// total may have called functions that took advisory locks or prepared statements.
// A session that cannot be cleaned is closed.
func endSnapshot(ctx context.Context, conn *pgx.Conn) {
	ctx, done := context.WithTimeout(ctx, statementTimeout)
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

// lockChecked locks a relation and has the database check, on another connection, whether
// it is what was registered. Only then may anything of it run: its owner may have
// put something else in its place.
func (s *Sidecar) lockChecked(ctx context.Context, conn *pgx.Conn, relation pgx.Identifier, recheck string, args ...any) error {
	locked, done := context.WithTimeout(ctx, statementTimeout)
	defer done()
	err := relationFailure(arrowio.Lock(locked, conn, relation))
	var fail *failure
	if err != nil && !errors.As(err, &fail) {
		return err
	}
	// Why a relation cannot be locked the check may know better: it may have been dropped.
	if err := s.recheck(ctx, recheck, args...); err != nil {
		return asFailure(err)
	}
	return err
}

// recheck has the database check that a relation is what was registered. With thousands
// of partitions that takes longer than statementTimeout.
func (s *Sidecar) recheck(ctx context.Context, sql string, args ...any) error {
	ctx, done := context.WithTimeout(ctx, 8*statementTimeout)
	defer done()
	_, err := s.pool.Exec(ctx, sql, args...)
	return err
}

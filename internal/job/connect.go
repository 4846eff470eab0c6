package job

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"dpsidecar/internal/arrowio"
)

// pinSettings sets on every connection the settings that a sidecar relies on, over those of the server, the
// database and the role: a reported commit survives a crash, each statement sees all earlier commits of
// others, no time limit other than the sidecar's ends a read, and planning a read runs no function of a
// constraint. lock_timeout is that of the role. Generic plans are forced because planning the functions'
// statements takes longer than running them.
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
		"constraint_exclusion":                "off", // otherwise the planner runs functions in constraints of the owner's as this role
		"datestyle":                           "ISO", // Citus formats dates and, by extra_float_digits, numbers with these settings in statements to its workers
		"extra_float_digits":                  "1",
		"client_encoding":                     "UTF8", // the encoding of the database if categories are of text, so that nothing is converted
	} {
		config.RuntimeParams[name] = value
	}
	config.AfterConnect = func(ctx context.Context, conn *pgconn.PgConn) error {
		// The statements of a sidecar that was killed, or whose machine is gone, end soon. A server whose system
		// cannot tell that a client is gone refuses the first; then they end when they send their answer.
		if err := conn.Exec(ctx, "SET client_connection_check_interval = '10s'").Close(); err != nil && conn.IsClosed() {
			return err
		}
		// The last two are settings that not every server has: of Postgres 17, and of the last minor versions before it.
		return conn.Exec(ctx, `SELECT pg_catalog.set_config(name, value, false)
			FROM (VALUES ('tcp_keepalives_idle', '30'), ('tcp_keepalives_interval', '10'), ('tcp_keepalives_count', '3'),
			             ('transaction_timeout', '0'), ('restrict_nonsystem_relation_kind', '')) AS v(name, value)
			WHERE pg_catalog.current_setting(name, true) IS NOT NULL`).Close()
	}
}

// statementTimeout bounds the time of a short statement. A connection that does not answer for so long is
// taken to hang, and is closed.
const statementTimeout = livesFor

// autocommit runs short statements, each in a transaction of its own.
type autocommit struct{ pool *pgxpool.Pool }

func (q autocommit) exec(ctx context.Context, sql string, args ...any) error {
	ctx, done := context.WithTimeout(ctx, statementTimeout)
	defer done()
	_, err := q.pool.Exec(ctx, sql, args...)
	return err
}

// QueryRow returns a row, which must be scanned: Scan releases the time limit.
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

// inSnapshot calls use with a connection in a repeatable read, read only transaction.
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

// endSnapshot rolls back the transaction and releases session state that survives a rollback: a view that
// is declared total may have called functions that took advisory locks or prepared statements. If that
// fails, the connection is closed.
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

// lockChecked locks a relation and has the database check, on another connection, that it is the registered
// one. Nothing of the relation may be evaluated before that, because its owner may have replaced it. It
// returns what recheck returns.
func (s *Sidecar) lockChecked(ctx context.Context, conn *pgx.Conn, relation pgx.Identifier, recheck string, args ...any) (versions []byte, err error) {
	locked, done := context.WithTimeout(ctx, statementTimeout)
	defer done()
	err = relationFailure(arrowio.Lock(locked, conn, relation))
	var fail *failure
	if err != nil && !errors.As(err, &fail) {
		return nil, err
	}
	// The check may give a better reason why the relation cannot be locked: it may have been dropped.
	versions, refused := s.recheck(ctx, recheck, args...)
	if refused != nil {
		return nil, asFailure(refused)
	}
	return versions, err
}

// recheck has the database check that a relation is the registered one. With thousands of partitions this
// takes longer than statementTimeout. It returns a hash of the versions of the functions that the relation
// calls; nil if it calls none. Locks do not hold functions: one could be replaced after a check, and be put
// back before the next, but not without another version.
func (s *Sidecar) recheck(ctx context.Context, sql string, args ...any) (versions []byte, err error) {
	ctx, done := context.WithTimeout(ctx, 8*statementTimeout)
	defer done()
	err = s.pool.QueryRow(ctx, sql, args...).Scan(&versions)
	return versions, err
}

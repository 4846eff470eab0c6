// Package install puts dpsidecar into a database: roles, schema, the loopback
// of synchronous calls, and passwords. It needs no superuser: an administrator
// runs a short script once, and a role with CREATEROLE does the rest. Running it
// again changes nothing that is right.
package install

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// oldestServer is the oldest server_version_num that is supported.
const oldestServer = 140000

// ErrSharedLoopback is returned when the role of the loopback exists, but no
// password for it is known in this database.
var ErrSharedLoopback = errors.New("role dp_loopback exists already, and may serve another database of this server: give its password, or a new one if no other database uses it")

// Config says where to install and how.
type Config struct {
	Admin            *pgx.ConnConfig // a superuser, or a role with CREATEROLE
	LoopbackHost     string          // where the server reaches itself; empty: as it is, else 127.0.0.1
	LoopbackPort     uint16          // 0: as it is, else the server's own port
	LoopbackPassword string          // empty: as it is, else a new one
	SidecarPassword  string          // empty: as it is, else a new one, which is returned
}

// Result says what an installation did.
type Result struct {
	Version         int    // of the schema
	SidecarPassword string // of role dp_sidecar if it was made just now, else empty
	Checks          []Check
}

// Check is one row of dp_check_install.
type Check struct {
	Item   string
	OK     bool
	Detail string
}

// Run installs. Two runs at once wait for each other.
//
// Errors: *PrerequisiteError when an administrator has to run a script first;
// ErrSharedLoopback; ErrNewer; ErrInterrupted.
func Run(ctx context.Context, c Config) (Result, error) {
	conn, err := pgx.ConnectConfig(ctx, c.Admin)
	if err != nil {
		return Result{}, err
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, `SELECT pg_advisory_lock(hashtext('dpsidecar install'))`); err != nil {
		return Result{}, err
	}
	if err := prepare(ctx, conn); err != nil {
		return Result{}, err
	}
	known, err := knownRoles(ctx, conn)
	if err != nil {
		return Result{}, err
	}
	var r Result
	if r.Version, err = Up(ctx, c.Admin); err != nil {
		return r, err
	}
	if err := loopback(ctx, conn, c, known["dp_loopback"]); err != nil {
		return r, fmt.Errorf("loopback: %w", err)
	}
	password := c.SidecarPassword
	if password == "" && !known["dp_sidecar"] {
		password = rand.Text()
		r.SidecarPassword = password
	}
	if password != "" {
		if err := SetPassword(ctx, conn, "dp_sidecar", password); err != nil {
			return r, err
		}
	}
	r.Checks, err = CheckAll(ctx, conn)
	return r, err
}

// knownRoles tells which of the login roles exist before the schema is made.
func knownRoles(ctx context.Context, conn *pgx.Conn) (map[string]bool, error) {
	rows, err := conn.Query(ctx, `SELECT rolname::text FROM pg_roles WHERE rolname IN ('dp_loopback', 'dp_sidecar')`)
	if err != nil {
		return nil, err
	}
	known := map[string]bool{}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	for _, name := range names {
		known[name] = true
	}
	return known, err
}

// SetPassword gives a login role a password. The server only sees the verifier.
func SetPassword(ctx context.Context, conn executor, role, password string) error {
	v, err := verifier(password)
	if err != nil {
		return fmt.Errorf("password of %s: %w", role, err)
	}
	_, err = conn.Exec(ctx, "ALTER ROLE "+pgx.Identifier{role}.Sanitize()+" PASSWORD"+literal(v))
	return err
}

// executor is a connection or a transaction.
type executor interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}

// CheckAll asks the database whether everything is in place.
func CheckAll(ctx context.Context, conn *pgx.Conn) ([]Check, error) {
	rows, err := conn.Query(ctx, `SELECT item, ok, detail FROM public.dp_check_install()`)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[Check])
}

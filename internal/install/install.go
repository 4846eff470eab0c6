// Package install installs dpsidecar in a database: roles, schema, the loopback of synchronous calls, and
// passwords. It needs no superuser: an administrator runs a short script once, and a role with CREATEROLE
// does the rest. Running it again changes only what needs repair.
package install

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// ErrLocked is returned when a session holds the lock of installations for too long.
var ErrLocked = errors.New("another session holds the lock of installations")

// oldestServer is the oldest server_version_num that is supported.
const oldestServer = 140000

// Config configures an installation.
type Config struct {
	Admin           *pgx.ConnConfig // a superuser, or a role with CREATEROLE
	LoopbackHost    string          // where the server reaches itself; empty: unchanged; in a new installation or a copy 127.0.0.1
	LoopbackPort    uint16          // 0: unchanged; in a new installation or a copy the server's own port
	SidecarPassword string          // empty: unchanged; for a new role a generated one, which is returned

	copied bool // set by Adopt: replace the loopback's address even if the database does not detect that it is a copy
}

// Result is the outcome of an installation.
type Result struct {
	Version         int    // of the schema
	SidecarPassword string // of role dp_sidecar if it was generated now, otherwise empty
	Earlier         string // roles of ours that were there before this first installation in the database, otherwise empty
	Checks          []Check
}

// Check is one row of dp_check_install.
type Check struct {
	Item   string
	OK     bool
	Detail string
}

// Run installs, or repairs an installation. Concurrent runs wait for each other. Every run gives the
// loopback a new password, because every dump contains the old one.
//
// Errors: *PrerequisiteError when an administrator has to run a script first; ErrForeign; ErrNewer; ErrInterrupted; ErrLocked.
func Run(ctx context.Context, c Config) (Result, error) {
	c.Admin = systemNames(c.Admin)
	conn, err := connectAlone(ctx, c.Admin)
	if err != nil {
		return Result{}, err
	}
	defer conn.Close(ctx)
	return installWith(ctx, conn, c)
}

// How long an installation waits for another one, and for the session of a role that cannot install, which
// has no business with the lock: any login can take it.
const (
	anothersTime  = 10 * time.Minute
	strangersTime = 5 * time.Second
)

// lockHolders selects the sessions that hold the lock of installations, and whether each is of a role that
// may install.
const lockHolders = `
	SELECT coalesce(string_agg(format('%s of role %s', l.pid, coalesce(a.usename, '?')), ', '), ''),
	       coalesce(bool_and(r.rolsuper OR r.rolcreaterole OR coalesce(pg_has_role(r.oid, to_regrole('dp_owner'), 'MEMBER'), false)), true)
	  FROM pg_locks l
	  LEFT JOIN pg_stat_activity a ON a.pid = l.pid
	  LEFT JOIN pg_roles r ON r.oid = a.usesysid
	 WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1 AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
	   AND (l.classid::bigint << 32 | l.objid::bigint) = hashtext('dpsidecar install')::bigint`

// systemNames returns a configuration whose sessions find the system's functions and operators alone by a name
// without a schema: others could put their own in schema public, where the server lets them, or in a schema of
// the database's search_path, with arguments that fit a call better, and these would run with the rights of
// whoever installs. No limit of these on a statement or an idle session ends them.
func systemNames(admin *pgx.ConnConfig) *pgx.ConnConfig {
	admin = admin.Copy()
	admin.RuntimeParams["search_path"] = "pg_catalog, pg_temp"
	for _, limit := range []string{"statement_timeout", "idle_in_transaction_session_timeout", "idle_session_timeout"} { // of the database or the role; a migration may take longer
		admin.RuntimeParams[limit] = "0"
	}
	return admin
}

// connectAlone connects and takes the lock of installations, for which it waits. The lock lasts as long as
// the connection.
//
// Errors: ErrForeign; ErrLocked, which names who holds the lock.
func connectAlone(ctx context.Context, admin *pgx.ConnConfig) (*pgx.Conn, error) {
	conn, err := pgx.ConnectConfig(ctx, onThisNode(admin))
	if err != nil {
		return nil, err
	}
	if err = refuseForeign(ctx, conn); err == nil {
		err = lock(ctx, conn)
	}
	if err != nil {
		conn.Close(ctx)
		return nil, err
	}
	return conn, nil
}

func lock(ctx context.Context, conn *pgx.Conn) error {
	for began := time.Now(); ; {
		var mine, known bool
		var holders string
		if err := conn.QueryRow(ctx, `SELECT pg_try_advisory_lock(hashtext('dpsidecar install'))`).Scan(&mine); err != nil || mine {
			return err
		}
		if err := conn.QueryRow(ctx, lockHolders).Scan(&holders, &known); err != nil {
			return err
		}
		if waited := time.Since(began); waited > anothersTime || waited > strangersTime && !known {
			return fmt.Errorf("%w: session %s; end it with SELECT pg_terminate_backend(PID), and run this again", ErrLocked, holders)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// installWith installs on a connection from connectAlone.
func installWith(ctx context.Context, conn *pgx.Conn, c Config) (Result, error) {
	if err := checkPrerequisites(ctx, conn); err != nil {
		return Result{}, err
	}
	var known bool
	if err := conn.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_roles WHERE rolname = 'dp_sidecar')`).Scan(&known); err != nil {
		return Result{}, err
	}
	var r Result
	err := conn.QueryRow(ctx, earlierRoles).Scan(&r.Earlier)
	if err != nil {
		return r, err
	}
	if err := execute(ctx, c.Admin, rolesOnAllNodes); err != nil {
		return r, fmt.Errorf("roles on the nodes of Citus: %w", err)
	}
	if r.Version, err = up(ctx, c.Admin); err != nil {
		return r, err
	}
	if err := putLoopback(ctx, conn, c); err != nil {
		return r, fmt.Errorf("loopback: %w", err)
	}
	password := c.SidecarPassword
	if password == "" && !known {
		password = rand.Text()
		r.SidecarPassword = password
	}
	if password != "" {
		if err := setSidecarPassword(ctx, c.Admin, password); err != nil {
			return r, err
		}
	}
	r.Checks, err = CheckAll(ctx, conn)
	return r, err
}

// earlierRoles names the roles that a first installation finds. Another database's installation has made them, or
// somebody who may still be logged in as one of them.
const earlierRoles = `
SELECT coalesce(string_agg(rolname, ', ' ORDER BY rolname), '')
  FROM pg_catalog.pg_roles
 WHERE rolname IN ('dp_owner', 'dp_sidecar', 'dp_loopback')
   AND to_regclass('dp_int.installed_code') IS NULL`

// setSidecarPassword sets the password of role dp_sidecar, with Citus on all nodes.
func setSidecarPassword(ctx context.Context, admin *pgx.ConnConfig, password string) error {
	conn, err := pgx.ConnectConfig(ctx, admin)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	return SetPassword(ctx, conn, "dp_sidecar", password)
}

// SetPassword sets the password of a login role. The server receives only the verifier.
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

// CheckAll has the database check the installation, and with Citus its workers too.
func CheckAll(ctx context.Context, conn *pgx.Conn) ([]Check, error) {
	rows, err := conn.Query(ctx, `SELECT item, ok, detail FROM public.dp_check_install()`)
	if err != nil {
		return nil, err
	}
	checks, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Check])
	if err != nil {
		return nil, err
	}
	onNodes, err := checkNodes(ctx, conn)
	return append(checks, onNodes...), err
}

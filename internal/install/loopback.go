package install

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

// loopback makes or adjusts the foreign server by which this server reaches
// itself, and gives role dp_loopback the password that stands there. known says
// whether the role is older than this installation.
func loopback(ctx context.Context, conn *pgx.Conn, c Config, known bool) error {
	tx, err := conn.Begin(ctx)
	if err != nil {
		return err
	}
	defer tx.Rollback(ctx) // does nothing after the commit
	if err := quiet(ctx, tx); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, `SET LOCAL ROLE dp_owner`); err != nil {
		return err
	}
	password, err := loopbackPassword(ctx, tx, c.LoopbackPassword, known)
	if err != nil {
		return err
	}
	if err := server(ctx, tx, c); err != nil {
		return err
	}
	if err := mapping(ctx, tx, password); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, `RESET ROLE`); err != nil {
		return err
	}
	if err := SetPassword(ctx, tx, "dp_loopback", password); err != nil {
		return err
	}
	return tx.Commit(ctx)
}

// quiet keeps the statement with the loopback's password out of the server's
// log where we may say so.
func quiet(ctx context.Context, tx pgx.Tx) error {
	_, err := tx.Exec(ctx, `
		SELECT set_config(name, value, true)
		  FROM (VALUES ('log_statement', 'none'), ('log_min_duration_statement', '-1'), ('log_min_error_statement', 'panic')) AS v(name, value)
		 WHERE (SELECT rolsuper FROM pg_roles WHERE rolname = current_user)`)
	return err
}

// loopbackPassword decides: the one asked for, the one in use, or a new one.
func loopbackPassword(ctx context.Context, tx pgx.Tx, asked string, known bool) (string, error) {
	if asked != "" {
		return asked, nil
	}
	var password string
	err := tx.QueryRow(ctx, `
		SELECT substr(option, length('password=') + 1)
		  FROM pg_user_mappings, unnest(umoptions) AS option
		 WHERE srvname = 'dp_loop' AND usename = 'dp_owner' AND option LIKE 'password=%'`).Scan(&password)
	switch {
	case err == nil:
		return password, nil
	case !errors.Is(err, pgx.ErrNoRows):
		return "", err
	case known:
		return "", ErrSharedLoopback
	}
	return rand.Text(), nil
}

// server creates the foreign server; on one that exists it sets the database,
// which may have been renamed, and what was asked for.
func server(ctx context.Context, tx pgx.Tx, c Config) error {
	var there bool
	var database, port string
	if err := tx.QueryRow(ctx, `
		SELECT EXISTS (SELECT FROM pg_foreign_server WHERE srvname = 'dp_loop'), current_database(), current_setting('port')`).
		Scan(&there, &database, &port); err != nil {
		return err
	}
	if c.LoopbackPort != 0 {
		port = fmt.Sprint(c.LoopbackPort)
	}
	if !there {
		host := c.LoopbackHost
		if host == "" {
			host = "127.0.0.1"
		}
		_, err := tx.Exec(ctx, `CREATE SERVER dp_loop FOREIGN DATA WRAPPER dblink_fdw OPTIONS (`+options("", serverOptions(host, port, database)...)+`)`)
		return err
	}
	change := []string{"dbname", database}
	if c.LoopbackHost != "" {
		change = append(change, "host", c.LoopbackHost)
	}
	if c.LoopbackPort != 0 {
		change = append(change, "port", port)
	}
	_, err := tx.Exec(ctx, `ALTER SERVER dp_loop OPTIONS (`+options("SET ", change...)+`)`)
	return err
}

// serverOptions are those of a new foreign server, name and value.
func serverOptions(host, port, database string) []string {
	return []string{"host", host, "port", port, "dbname", database, "sslmode", "prefer", "connect_timeout", "3", "keepalives_idle", "30",
		"application_name", "dp_loopback", "options", "-c default_transaction_read_only=off"}
}

func mapping(ctx context.Context, tx pgx.Tx, password string) error {
	var there bool
	if err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_user_mappings WHERE srvname = 'dp_loop' AND usename = 'dp_owner')`).Scan(&there); err != nil {
		return err
	}
	statement := `CREATE USER MAPPING FOR dp_owner SERVER dp_loop OPTIONS (` + options("", "user", "dp_loopback", "password", password) + `)`
	if there {
		statement = `ALTER USER MAPPING FOR dp_owner SERVER dp_loop OPTIONS (` + options("SET ", "password", password) + `)`
	}
	_, err := tx.Exec(ctx, statement)
	return err
}

// options spells name and value pairs for a foreign server or user mapping.
func options(verb string, pairs ...string) string {
	var list []string
	for i := 0; i < len(pairs); i += 2 {
		list = append(list, verb+pairs[i]+" "+literal(pairs[i+1]))
	}
	return strings.Join(list, ", ")
}

// literal quotes a string for statements that take no parameters.
func literal(s string) string {
	return " E'" + strings.NewReplacer(`\`, `\\`, `'`, `''`).Replace(s) + "'"
}

package install

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

// putLoopback creates or updates the foreign server by which this server reaches itself, and sets a new
// password of this database's loopback role, which its user mapping stores. Other databases of the cluster
// have roles of their own and keep their passwords. The server draws the password: no statement of ours and
// none of its parameters holds it, so neither does what logs or shows statements.
func putLoopback(ctx context.Context, conn *pgx.Conn, c Config) error {
	tx, err := conn.Begin(ctx)
	if err != nil {
		return err
	}
	defer tx.Rollback(ctx) // does nothing after the commit
	if err := disableStatementLog(ctx, tx); err != nil {
		return err
	}
	role, err := loopbackRole(ctx, tx)
	if err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, `SET LOCAL ROLE dp_owner`); err != nil {
		return err
	}
	if err := putServer(ctx, tx, c); err != nil {
		return err
	}
	password, err := putUserMapping(ctx, tx, role)
	if err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, `RESET ROLE`); err != nil {
		return err
	}
	if err := SetPassword(ctx, tx, role, password); err != nil {
		return err
	}
	return tx.Commit(ctx)
}

// loopbackRole creates the role with which the loopback of this database logs in, unless it exists, and
// returns its name. Settings are not inherited, so it copies those of dp_loopback; and a dump does not
// contain the rights on the database itself, so it grants them. Roles of databases that are gone, or that
// came with a dump, are dropped: their passwords may be known. So is one of this database's name that its loopback
// has not been so far: whoever made it, since Postgres 16 anybody with CREATEROLE, may be logged in as it, and no
// password ends a session. One that somebody else may become or grant is refused, and he could give it a password of
// his own.
func loopbackRole(ctx context.Context, tx pgx.Tx) (role string, err error) {
	if err := tx.QueryRow(ctx, `SELECT 'dp_loopback_' || oid FROM pg_database WHERE datname = current_database()`).Scan(&role); err != nil {
		return "", err
	}
	var ours bool
	if _, err := tx.Exec(ctx, `SET LOCAL ROLE dp_owner`); err != nil {
		return "", err
	}
	if err := tx.QueryRow(ctx, `SELECT coalesce(dp_int.loopback_role() = $1 AND NOT dp_int.is_copy(), false)`, role).Scan(&ours); err != nil {
		return "", err
	}
	if _, err := tx.Exec(ctx, `RESET ROLE`); err != nil {
		return "", err
	}
	_, err = tx.Exec(ctx, strings.NewReplacer("{{role}}", role, "{{ours}}", fmt.Sprint(ours)).Replace(`
DO $$
DECLARE
  setting text;
  stray name;
  others text;
BEGIN
  IF NOT {{ours}} AND EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = '{{role}}') THEN
    BEGIN
      DROP ROLE {{role}};
    EXCEPTION WHEN dependent_objects_still_exist OR insufficient_privilege THEN
      RAISE EXCEPTION 'role {{role}} was there before it became the loopback of this database, and cannot be dropped: %', SQLERRM
        USING HINT = 'Who made it may be logged in as it, and could ask in anybody''s name. Let a superuser drop it, with what it owns. Then install again.';
    END;
  END IF;
  IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = '{{role}}') THEN
    CREATE ROLE {{role}} LOGIN;
    COMMENT ON ROLE {{role}} IS 'dpsidecar: dp_loopback of one database';
  END IF;
  IF NOT EXISTS (SELECT FROM pg_catalog.pg_auth_members WHERE member = '{{role}}'::regrole AND roleid = 'dp_loopback'::regrole) THEN
    GRANT dp_loopback TO {{role}};
  END IF;
  EXECUTE format('GRANT CONNECT ON DATABASE %I TO dp_loopback, dp_sidecar', current_database());
  FOREACH setting IN ARRAY '{search_path=pg_catalog,statement_timeout=5s,lock_timeout=3s,idle_in_transaction_session_timeout=5s,idle_session_timeout=10min,default_transaction_isolation=read committed}'::text[] LOOP
    EXECUTE format('ALTER ROLE {{role}} SET %I = %L', split_part(setting, '=', 1), split_part(setting, '=', 2));
  END LOOP;
  FOR stray IN SELECT r.rolname FROM pg_catalog.pg_roles r
                WHERE r.rolname ~ '^dp_loopback_[0-9]+$' AND NOT EXISTS (SELECT FROM pg_catalog.pg_database d WHERE r.rolname = 'dp_loopback_' || d.oid) LOOP
    BEGIN
      EXECUTE format('DROP ROLE %I', stray);
    EXCEPTION WHEN dependent_objects_still_exist OR insufficient_privilege OR object_in_use THEN
      RAISE NOTICE 'role % stays, though its database is gone: %', stray, SQLERRM;
    END;
  END LOOP;
  SELECT string_agg(format('%I may become or grant %s', m.rolname, mine.rolname), ', ' ORDER BY m.rolname, mine.rolname) INTO others
    FROM pg_catalog.pg_roles mine
    JOIN pg_catalog.pg_roles m ON m.oid <> mine.oid AND NOT m.rolsuper AND pg_has_role(m.oid, mine.oid, 'MEMBER') AND NOT pg_has_role(m.oid, 'dp_owner', 'MEMBER')
                              AND NOT (mine.rolname = 'dp_loopback' AND m.rolname ~ '^dp_loopback_[0-9]+$' AND NOT pg_has_role(m.oid, mine.oid, 'MEMBER WITH ADMIN OPTION'))
   WHERE pg_has_role(mine.oid, 'dp_loopback', 'MEMBER') AND mine.rolname ~ '^dp_loopback(_[0-9]+)?$';
  IF others IS NOT NULL THEN
    RAISE EXCEPTION 'a loopback is not dpsidecar''s alone: %', others
      USING HINT = 'They could ask in anybody''s name. REVOKE the role from them, or where somebody made it before dpsidecar was installed, DROP ROLE. Then install again.';
  END IF;
END $$`))
	return role, err
}

// disableStatementLog keeps the statement with the loopback's password, which runs inside another, out of
// extensions that look there, if this role may change the settings.
func disableStatementLog(ctx context.Context, tx pgx.Tx) error {
	_, err := tx.Exec(ctx, `
		SELECT set_config(name, value, true)
		  FROM (VALUES ('log_statement', 'none'), ('log_min_duration_statement', '-1'), ('log_min_error_statement', 'panic'), ('pg_stat_statements.track', 'none')) AS v(name, value)
		 WHERE (SELECT rolsuper FROM pg_roles WHERE rolname = current_user)`)
	return err
}

// putServer creates the foreign server. On an existing one it sets the database, which may have been
// renamed, and the configured host and port. In a copy the server still points at the original, so host and
// port are always set.
func putServer(ctx context.Context, tx pgx.Tx, c Config) error {
	var there, copied bool
	var database, port string
	if err := tx.QueryRow(ctx, `
		SELECT EXISTS (SELECT FROM pg_foreign_server WHERE srvname = 'dp_loop'), dp_int.is_copy(), current_database(), current_setting('port')`).
		Scan(&there, &copied, &database, &port); err != nil {
		return err
	}
	if c.LoopbackPort != 0 {
		port = fmt.Sprint(c.LoopbackPort)
	}
	host := cmp.Or(c.LoopbackHost, "127.0.0.1")
	if !there {
		_, err := tx.Exec(ctx, `CREATE SERVER dp_loop FOREIGN DATA WRAPPER dblink_fdw OPTIONS (`+options("", serverOptions(host, port, database)...)+`)`)
		return err
	}
	change := []string{"dbname", database}
	if copied || c.copied || c.LoopbackHost != "" {
		change = append(change, "host", host)
	}
	if copied || c.copied || c.LoopbackPort != 0 {
		change = append(change, "port", port)
	}
	_, err := tx.Exec(ctx, `ALTER SERVER dp_loop OPTIONS (`+options("SET ", change...)+`)`)
	return err
}

// serverOptions returns the options of a new foreign server, as name and value pairs.
func serverOptions(host, port, database string) []string {
	return []string{"host", host, "port", port, "dbname", database, "sslmode", "prefer", "connect_timeout", "3", "keepalives_idle", "30",
		"application_name", "dp_loopback", "options", "-c default_transaction_read_only=off"}
}

// putUserMapping stores the loopback's role and a new password where only dp_owner can read them, and returns
// the password.
func putUserMapping(ctx context.Context, tx pgx.Tx, role string) (password string, err error) {
	if _, err := tx.Exec(ctx, strings.ReplaceAll(`
DO $$
BEGIN
  DROP USER MAPPING IF EXISTS FOR dp_owner SERVER dp_loop;  -- one of a dump that dp_owner did not make has no options to set
  EXECUTE format('CREATE USER MAPPING FOR dp_owner SERVER dp_loop OPTIONS (user %L, password %L)', '{{role}}', translate(concat(gen_random_uuid(), gen_random_uuid()), '-', ''));
END $$`, "{{role}}", role)); err != nil {
		return "", err
	}
	err = tx.QueryRow(ctx, `
		SELECT o.option_value FROM pg_catalog.pg_user_mappings, pg_options_to_table(umoptions) AS o
		 WHERE srvname = 'dp_loop' AND usename = 'dp_owner' AND o.option_name = 'password'`).Scan(&password)
	return password, err
}

// options formats name and value pairs for a foreign server or user mapping.
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

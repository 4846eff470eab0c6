package install

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"dpsidecar/sql"
)

// PrerequisiteError lists the privileges that the installing role lacks, and holds the script with which an
// administrator grants them.
type PrerequisiteError struct {
	Missing []string
	Script  string
}

func (e *PrerequisiteError) Error() string {
	return "the installing role lacks " + strings.Join(e.Missing, ", ")
}

// checkPrerequisites checks the server and the privileges of the installing role. A superuser is the
// administrator, for whom it runs the script.
func checkPrerequisites(ctx context.Context, conn *pgx.Conn) error {
	var s struct {
		Superuser, CreateRole, Standby bool
		Version                        int
		Database, User                 string
	}
	err := conn.QueryRow(ctx, `
		SELECT rolsuper, rolcreaterole, pg_is_in_recovery(), current_setting('server_version_num')::int, current_database(), current_user
		  FROM pg_roles WHERE rolname = current_user`).
		Scan(&s.Superuser, &s.CreateRole, &s.Standby, &s.Version, &s.Database, &s.User)
	switch {
	case err != nil:
		return err
	case s.Version < oldestServer:
		return fmt.Errorf("the server is too old: version %d or newer is needed", oldestServer/10000)
	case s.Standby:
		return errors.New("the server is a standby: install on its primary")
	}
	script := strings.NewReplacer(
		"{{database}}", pgx.Identifier{s.Database}.Sanitize(),
		"{{installer}}", pgx.Identifier{s.User}.Sanitize(),
	).Replace(sql.Admin)
	if s.Superuser {
		if _, err := conn.Exec(ctx, script); err != nil {
			return fmt.Errorf("administrator's script: %w", err)
		}
	}
	missing, err := missingPrivileges(ctx, conn)
	if err != nil {
		return err
	}
	var elsewhere string
	if err := conn.QueryRow(ctx, `SELECT coalesce((SELECT extnamespace::regnamespace::text FROM pg_extension WHERE extname = 'dblink' AND extnamespace::regnamespace::text <> 'dp_dblink'), '')`).Scan(&elsewhere); err != nil {
		return err
	}
	if elsewhere != "" { // whoever calls it there must call it by another name: no script does that unasked
		script = strings.Replace(script, createDblink, "-- It is in schema "+elsewhere+": whoever calls it there must call dp_dblink.dblink(...) afterwards, and needs rights there.\nALTER EXTENSION dblink SET SCHEMA dp_dblink;", 1)
	}
	further, err := furtherGrants(ctx, conn, s.User, s.Version)
	if err != nil {
		return err
	}
	for what, grant := range further {
		missing = append(missing, what)
		script += grant + ";\n"
	}
	if !s.Superuser && !s.CreateRole {
		missing = append(missing, "CREATEROLE")
		script += fmt.Sprintf("ALTER ROLE %s CREATEROLE;\n", pgx.Identifier{s.User}.Sanitize())
	}
	if len(missing) > 0 {
		return &PrerequisiteError{missing, script}
	}
	return nil
}

// createDblink is the statement of the administrator's script that makes dblink, unless it is there.
const createDblink = "CREATE EXTENSION IF NOT EXISTS dblink SCHEMA dp_dblink;"

// missingPrivileges lists the privileges of the administrator's script that are missing.
func missingPrivileges(ctx context.Context, conn *pgx.Conn) ([]string, error) {
	rows, err := conn.Query(ctx, `
		SELECT missing
		  FROM (VALUES
		    ('CREATE on the database', has_database_privilege(current_database(), 'CREATE WITH GRANT OPTION')),
		    ('CREATE on schema public', has_schema_privilege('public', 'CREATE WITH GRANT OPTION')),
		    ('extension dblink in schema dp_dblink',
		      EXISTS (SELECT FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace WHERE e.extname = 'dblink' AND n.nspname = 'dp_dblink')),
		    ('USAGE on schema dp_dblink',
		      (SELECT bool_or(has_schema_privilege(oid, 'USAGE WITH GRANT OPTION')) FROM pg_namespace WHERE nspname = 'dp_dblink')),
		    ('EXECUTE on the functions of dblink',
		      (SELECT coalesce(bool_and(has_function_privilege('public', oid, 'EXECUTE') OR has_function_privilege(oid, 'EXECUTE WITH GRANT OPTION')), true)
		         FROM pg_proc WHERE pronamespace = to_regnamespace('dp_dblink') AND proname <> 'dblink_connect_u')),
		    ('USAGE on foreign data wrapper dblink_fdw',
		      (SELECT bool_or(has_foreign_data_wrapper_privilege(oid, 'USAGE WITH GRANT OPTION')) FROM pg_foreign_data_wrapper WHERE fdwname = 'dblink_fdw'))
		  ) AS need(missing, met)
		 WHERE met IS NOT TRUE`)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

// furtherGrants returns the privileges that some servers need beyond the administrator's script, with the
// statements that grant them: reading the identity of the cluster, which few servers restrict, and from
// Postgres 16 on the right to grant dpsidecar's roles if an installation by another role in another
// database created them.
func furtherGrants(ctx context.Context, conn *pgx.Conn, user string, version int) (map[string]string, error) {
	var identity bool
	var foreign string
	err := conn.QueryRow(ctx, `
		SELECT has_function_privilege('public', 'pg_catalog.pg_control_system()', 'EXECUTE'),
		       coalesce((SELECT string_agg(quote_ident(r.rolname), ', ' ORDER BY r.rolname) FROM pg_roles r
		                  WHERE r.rolname IN ('dp_owner', 'dp_admin', 'dp_analyst', 'dp_loopback', 'dp_sidecar')
		                    AND NOT pg_has_role(r.oid, 'MEMBER WITH ADMIN OPTION')), '')`).Scan(&identity, &foreign)
	if err != nil {
		return nil, err
	}
	grants := map[string]string{}
	if !identity {
		grants["EXECUTE for everybody on pg_control_system()"] = "GRANT EXECUTE ON FUNCTION pg_catalog.pg_control_system() TO PUBLIC"
	}
	if foreign != "" && version >= 160000 {
		grants["ADMIN OPTION on roles "+foreign] = "GRANT " + foreign + " TO " + pgx.Identifier{user}.Sanitize() + " WITH ADMIN OPTION"
	}
	return grants, nil
}

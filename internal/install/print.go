package install

import (
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"dpsidecar/sql"
)

// Print writes all SQL of an installation, for reading before running it: the administrator's script, the
// migrations in their order, functions and views, and a description of the steps for passwords and the
// loopback.
func Print(w io.Writer) error {
	names, err := fs.Glob(sql.Migrations, "*.up.sql")
	if err != nil {
		return err
	}
	slices.Sort(names)
	script := strings.NewReplacer("{{database}}", "DATABASE", "{{installer}}", "INSTALLER").Replace(sql.Admin)
	fmt.Fprintf(w, "-- 1. As an administrator, once a database. DATABASE and INSTALLER stand for names.\n\n%s\n", script)
	fmt.Fprint(w, "-- 2. As INSTALLER: the migrations.\n\nSET search_path = pg_catalog, pg_temp;\nCREATE SCHEMA dp_int;  -- an error if there is one: is it of somebody else?\n\n")
	for _, name := range names {
		text, err := fs.ReadFile(sql.Migrations, name)
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "-- %s\n\n%s\n", name, text)
	}
	fmt.Fprintf(w, "-- 3. As INSTALLER: functions and views, whole.\n\n%s\n", codeScript())
	_, err = fmt.Fprintf(w, `-- 4. As INSTALLER: passwords, of which the server sees the SCRAM verifiers, and the loopback.
--
-- CREATE ROLE dp_loopback_OID LOGIN IN ROLE dp_loopback;  -- OID of the database; with the settings of dp_loopback
-- SET LOCAL ROLE dp_owner;
-- CREATE SERVER dp_loop FOREIGN DATA WRAPPER dblink_fdw OPTIONS (%s);
-- CREATE USER MAPPING FOR dp_owner SERVER dp_loop OPTIONS (%s);  -- inside a DO that draws the password
-- RESET ROLE;
-- ALTER ROLE dp_loopback_OID PASSWORD 'SCRAM-SHA-256$...';
-- ALTER ROLE dp_sidecar PASSWORD 'SCRAM-SHA-256$...';
`, options("", serverOptions("127.0.0.1", "PORT", "DATABASE")...), options("", "user", "dp_loopback_OID", "password", "..."))
	return err
}

package install

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"dpsidecar/internal/version"
	"dpsidecar/sql"
)

// replaceCode replaces all functions, views and the catalogue in one transaction. Afterwards the database
// has those of this build and no others, with the rights that their files grant and no others, and the
// version is recorded.
func replaceCode(ctx context.Context, admin *pgx.ConnConfig) error {
	conn, err := pgx.ConnectConfig(ctx, admin)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	if _, err := conn.PgConn().Exec(ctx, codeScript()).ReadAll(); err != nil {
		return fmt.Errorf("functions and views: %w", err)
	}
	return nil
}

// codeScript returns the SQL of replaceCode, one transaction.
func codeScript() string {
	return "BEGIN; SET LOCAL ROLE dp_owner; SET LOCAL check_function_bodies = off; SET LOCAL search_path = pg_catalog, pg_temp;\n" +
		lockViews + revokeAll + sql.Code() + dropStale +
		"INSERT INTO dp_int.installed_code (version, fingerprint, objects) VALUES ('" + version.Number + "', '" + sql.Current().Fingerprint + "', dp_int.code_hash())\n" +
		"ON CONFLICT ON CONSTRAINT installed_code_pk DO UPDATE SET version = excluded.version, fingerprint = excluded.fingerprint, objects = excluded.objects, at = clock_timestamp();\n" +
		"SELECT dp_int.record_location(); SELECT dp_int.bring_definitions(); SELECT dp_int.bring_filters();\n" +
		"COMMIT;"
}

// removeCode drops functions and views, so that tables can be dropped. It drops nothing if other objects in
// the database depend on them.
func removeCode(ctx context.Context, admin *pgx.ConnConfig) error {
	return execute(ctx, admin, "BEGIN; SET LOCAL ROLE dp_owner;"+lockViews+dropAll+"COMMIT;")
}

// Views are locked in the order in which their readers lock them, the public ones before those they are
// built on: another order could deadlock.
const lockViews = `
DO $$
DECLARE
  v regclass;
BEGIN
  FOR v IN SELECT c.oid FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
            WHERE c.relkind = 'v' AND c.relowner = 'dp_owner'::regrole AND n.nspname IN ('dp', 'dp_int') ORDER BY n.nspname, c.oid DESC LOOP
    EXECUTE format('ALTER VIEW %s OWNER TO dp_owner', v);  -- changes nothing
  END LOOP;
END $$;
`

// ourRoutines is the end of a query of all functions of an installation, including those of triggers.
const ourRoutines = ` FROM pg_catalog.pg_proc p
   WHERE p.proowner = 'dp_owner'::regrole AND p.pronamespace IN ('public'::regnamespace, 'dp'::regnamespace, 'dp_int'::regnamespace)`

// revokeAll revokes the rights that earlier files granted; the files grant again those that they intend.
// Grants by stewards to other roles stay. It records the location (ctid) of every routine's row in pg_proc,
// for dropStale.
const revokeAll = `
DO $$
DECLARE
  f regprocedure;
BEGIN
  FOR f IN SELECT p.oid` + ourRoutines + ` LOOP
    EXECUTE format('REVOKE ALL ON ROUTINE %s FROM PUBLIC, dp_analyst, dp_admin, dp_loopback, dp_sidecar', f);
  END LOOP;
  REVOKE ALL ON ALL TABLES IN SCHEMA dp FROM PUBLIC, dp_analyst, dp_admin;
  PERFORM pg_catalog.set_config('dp.routines', coalesce((SELECT string_agg(concat_ws(' ', p.oid, p.ctid), ';')` + ourRoutines + `), ''), true);
END $$;
`

// dropStale drops functions that no file has any more: those whose row in pg_proc is still where it was
// after revokeAll, because replacing a function writes a new row elsewhere. An old signature of a function
// that files name without its arguments is dropped by the migration that changes it.
const dropStale = `
DO $$
DECLARE
  names CONSTANT text := (SELECT string_agg(p.oid::regprocedure::text, ', ')` + ourRoutines + `
     AND concat_ws(' ', p.oid, p.ctid) = ANY (string_to_array(current_setting('dp.routines'), ';')));
BEGIN
  IF names IS NOT NULL THEN
    EXECUTE 'DROP ROUTINE ' || names;
  END IF;
END $$;
`

// dropAll drops triggers, functions and views, if there is an installation. It keeps the function of
// triggers on users' own tables, see dp_freeze: only their owners may drop those triggers.
const dropAll = `
DO $$
DECLARE
  r record;
  names text;
BEGIN
  IF to_regclass('dp_int.installed_code') IS NULL THEN
    RETURN;
  END IF;
  FOR r IN SELECT t.tgname, t.tgrelid::regclass AS relation FROM pg_catalog.pg_trigger t
             JOIN pg_catalog.pg_class c ON c.oid = t.tgrelid
            WHERE c.relnamespace = 'dp_int'::regnamespace AND NOT t.tgisinternal LOOP
    EXECUTE format('DROP TRIGGER %I ON %s', r.tgname, r.relation);
  END LOOP;
  DROP VIEW IF EXISTS dp.blocks;  -- the one that uses functions that use views
  SELECT string_agg(p.oid::regprocedure::text, ', ') INTO names` + ourRoutines + `
     AND p.oid IS DISTINCT FROM to_regprocedure('dp.caller()') AND NOT EXISTS (SELECT FROM pg_catalog.pg_trigger t WHERE t.tgfoid = p.oid);
  IF names IS NOT NULL THEN
    EXECUTE 'DROP ROUTINE ' || names;
  END IF;
  SELECT string_agg(c.oid::regclass::text, ', ') INTO names FROM pg_catalog.pg_class c
   WHERE c.relkind = 'v' AND c.relnamespace IN ('dp'::regnamespace, 'dp_int'::regnamespace);
  IF names IS NOT NULL THEN
    EXECUTE 'DROP VIEW ' || names;
  END IF;
  DROP FUNCTION IF EXISTS dp.caller();  -- which views call
  DELETE FROM dp_int.installed_code;
END $$;
`

package install

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"dpsidecar/internal/version"
	"dpsidecar/sql"
)

// replaceCode puts functions, views and the catalogue in place whole, in one
// transaction: afterwards the database has those of this build and no others, with
// no rights but those that their files grant, and says so.
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

// codeScript is the SQL of replaceCode, one transaction.
func codeScript() string {
	return "BEGIN; SET LOCAL ROLE dp_owner; SET LOCAL check_function_bodies = off;\n" +
		lockViews + revokeAll + sql.Code() + dropStale +
		"INSERT INTO dp_int.installed_code (version, fingerprint, objects) VALUES ('" + version.Number + "', '" + sql.Current().Fingerprint + "', dp_int.code_hash())\n" +
		"ON CONFLICT ON CONSTRAINT installed_code_pk DO UPDATE SET version = excluded.version, fingerprint = excluded.fingerprint, objects = excluded.objects, at = clock_timestamp();\n" +
		"SELECT dp_int.record_location(); SELECT dp_int.bring_filters();\n" +
		"COMMIT;"
}

// removeCode drops functions and views, so that tables can be dropped. Nothing is
// dropped when something of the database's users depends on them.
func removeCode(ctx context.Context, admin *pgx.ConnConfig) error {
	return execute(ctx, admin, "BEGIN; SET LOCAL ROLE dp_owner;"+lockViews+dropAll+"COMMIT;")
}

// Views are locked in the order in which their readers lock them, those for people
// before what they are made of: otherwise one of the two would end in a deadlock.
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

// ourRoutines is a query's end: the functions and triggers' functions of an installation.
const ourRoutines = ` FROM pg_catalog.pg_proc p
   WHERE p.proowner = 'dp_owner'::regrole AND p.pronamespace IN ('public'::regnamespace, 'dp'::regnamespace, 'dp_int'::regnamespace)`

// revokeAll takes back what earlier files granted, for the files grant again what they
// mean to. What a steward granted to other roles stays. It notes where the rows of all
// routines stand then, for dropStale.
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

// dropStale drops functions that no file has any more: those whose rows stand where they
// stood after revokeAll. To replace a function writes its row anew, elsewhere. An old signature
// of a function that files name without its arguments is dropped by the migration that changes it.
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

// dropAll drops triggers, functions and views, where an installation has any. The function of
// triggers on people's own tables stays, see dp_freeze: nobody but their owners may drop those.
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
  DROP VIEW IF EXISTS dp.blocks;  -- the one that uses a function
  SELECT string_agg(p.oid::regprocedure::text, ', ') INTO names` + ourRoutines + `
     AND NOT EXISTS (SELECT FROM pg_catalog.pg_trigger t WHERE t.tgfoid = p.oid);
  IF names IS NOT NULL THEN
    EXECUTE 'DROP ROUTINE ' || names;
  END IF;
  SELECT string_agg(c.oid::regclass::text, ', ') INTO names FROM pg_catalog.pg_class c
   WHERE c.relkind = 'v' AND c.relnamespace IN ('dp'::regnamespace, 'dp_int'::regnamespace);
  IF names IS NOT NULL THEN
    EXECUTE 'DROP VIEW ' || names;
  END IF;
  DELETE FROM dp_int.installed_code;
END $$;
`

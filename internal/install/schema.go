package install

import (
	"context"
	"errors"
	"fmt"

	"github.com/golang-migrate/migrate/v4"
	"github.com/golang-migrate/migrate/v4/database"
	driver "github.com/golang-migrate/migrate/v4/database/pgx/v5"
	"github.com/golang-migrate/migrate/v4/source/iofs"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"

	"dpsidecar/sql"
)

var (
	// ErrNewer is returned when a newer dpsidecar made the schema.
	ErrNewer = errors.New("the schema in the database is newer than this dpsidecar")

	// ErrInterrupted is returned when a migration lost its connection, so that it is unknown whether it was
	// committed.
	ErrInterrupted = errors.New("a migration was interrupted")

	// ErrUnfinished is returned when an older dpsidecar has not finished its own migrations, whose
	// functions would conflict.
	ErrUnfinished = errors.New("the schema is from before functions were put in place whole, and unfinished: let the dpsidecar that made it run migrate up first")
)

// Latest returns the version of the schema that this program brings.
func Latest() int { return sql.Current().Version }

// firstVersion is the number of the first migration.
func firstVersion() int { return sql.Versions()[0] }

// Version returns the version of the schema in the database, 0 for none.
func Version(ctx context.Context, admin *pgx.ConnConfig) (int, error) {
	conn, err := pgx.ConnectConfig(ctx, systemNames(admin))
	if err != nil {
		return 0, err
	}
	defer conn.Close(ctx)
	if err := refuseForeign(ctx, conn); err != nil {
		return 0, err
	}
	var there bool
	if err := conn.QueryRow(ctx, `SELECT to_regclass('dp_int.schema_migrations') IS NOT NULL`).Scan(&there); err != nil || !there {
		return 0, err
	}
	var version int
	err = conn.QueryRow(ctx, `SELECT coalesce(max(version), 0) FROM dp_int.schema_migrations`).Scan(&version)
	return version, err
}

// Up migrates the schema to Latest, each migration in a transaction of its own, and then replaces all
// functions and views by those of this build. It waits for others that install, upgrade or revert. It
// returns the version reached, also with an error.
//
// Errors: a server's 55P03, after 5 s, when an open transaction has used an object to be replaced.
func Up(ctx context.Context, admin *pgx.ConnConfig) (version int, err error) {
	return alone(ctx, admin, up)
}

// alone moves the schema by up or down while it holds the lock of installations.
func alone(ctx context.Context, admin *pgx.ConnConfig, move func(context.Context, *pgx.ConnConfig) (version int, err error)) (int, error) {
	admin = systemNames(admin)
	conn, err := connectAlone(ctx, admin)
	if err != nil {
		return 0, err
	}
	defer conn.Close(ctx)
	return move(ctx, admin)
}

// up is Up for who holds the lock of installations.
func up(ctx context.Context, admin *pgx.ConnConfig) (version int, err error) {
	defer func() { err = explainBusy(ctx, admin, err) }()
	everywhere := impatient(admin)
	admin = impatient(onThisNode(admin))
	if err := claimSchema(ctx, admin); err != nil {
		return 0, err
	}
	if version, err = migrateUp(ctx, admin); err != nil {
		return version, err
	}
	if err := execute(ctx, admin, grantDblink); err != nil {
		return version, fmt.Errorf("rights on dblink: %w", err)
	}
	if err := execute(ctx, admin, revokeForeign); err != nil {
		return version, fmt.Errorf("rights of others: %w", err)
	}
	if err := execute(ctx, everywhere, sidecarSettings); err != nil {
		return version, fmt.Errorf("settings of dp_sidecar: %w", err)
	}
	if err := execute(ctx, admin, likeHere); err != nil {
		return version, fmt.Errorf("roles on the workers of Citus: %w", err)
	}
	return version, replaceCode(ctx, admin)
}

// ErrSchemaOnly is returned where a dump without rows was restored.
var ErrSchemaOnly = errors.New("this database has dpsidecar's tables without a row, as pg_dump --schema-only leaves them; to install it anew run DROP SCHEMA dp, dp_int CASCADE first; to have the ledger restore a dump with rows")

// refuseSchemaOnly refuses tables without rows: neither the version, which is there as soon as a table is, nor an account.
// Where there is an account, to drop them would lose its ledger.
//
// Errors: ErrSchemaOnly.
func refuseSchemaOnly(ctx context.Context, conn *pgx.Conn) error {
	var tables, rows bool
	err := conn.QueryRow(ctx, `SELECT to_regclass('dp_int.schema_migrations') IS NOT NULL AND to_regclass('dp_int.account') IS NOT NULL`).Scan(&tables)
	if err != nil || !tables {
		return err
	}
	if err := conn.QueryRow(ctx, `SELECT EXISTS (SELECT FROM dp_int.schema_migrations) OR EXISTS (SELECT FROM dp_int.account)`).Scan(&rows); err != nil || rows {
		return err
	}
	return ErrSchemaOnly
}

// claimSchema makes schema dp_int, if there is none, and takes the rights of others on it.
//
// Errors: ErrForeign; ErrSchemaOnly.
func claimSchema(ctx context.Context, admin *pgx.ConnConfig) error {
	conn, err := pgx.ConnectConfig(ctx, admin)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	var there bool
	if err := conn.QueryRow(ctx, `SELECT to_regnamespace('dp_int') IS NOT NULL`).Scan(&there); err != nil {
		return err
	}
	claim := revokeForeign
	if !there {
		claim = `CREATE SCHEMA dp_int;` + claim // in one transaction
	}
	if _, err := conn.PgConn().Exec(ctx, claim).ReadAll(); err != nil {
		return err
	}
	if err := refuseForeign(ctx, conn); err != nil {
		return err
	}
	return refuseSchemaOnly(ctx, conn)
}

// dblinkFunctions starts a loop over the functions of dblink that the administrator's script lets the installer grant.
const dblinkFunctions = `
DO $$
DECLARE
  f regprocedure;
BEGIN
  FOR f IN SELECT oid FROM pg_catalog.pg_proc p WHERE p.pronamespace = to_regnamespace('dp_dblink') AND p.proname <> 'dblink_connect_u' AND has_function_privilege(p.oid, 'EXECUTE WITH GRANT OPTION') LOOP
    EXECUTE format('`

// Only dp_owner may execute the functions of dblink, where the administrator's script could take them from everybody.
const (
	grantDblink  = dblinkFunctions + `GRANT EXECUTE ON FUNCTION %s TO dp_owner', f); END LOOP; END $$`
	revokeDblink = dblinkFunctions + `REVOKE EXECUTE ON FUNCTION %s FROM dp_owner', f); END LOOP; END $$`
)

// sidecarSettings are settings of the role dp_sidecar, with Citus on all nodes, where its sessions are the
// coordinator's and no setting of the sidecar's own arrives. The planner runs no function of a constraint, and no
// time limit of a database ends a pass over its rows.
// pg_stat_statements, where it is loaded, counts nothing: it shows to everybody how many rows a statement
// returned, which may be private, as pg_stat_user_functions shows how often a view has called a function. Only a
// superuser may set these; dp_check_install tells where the former is missing.
const sidecarSettings = `
DO $$
DECLARE
  setting text;
BEGIN
  FOREACH setting IN ARRAY '{constraint_exclusion=off,statement_timeout=0,transaction_timeout=0,idle_in_transaction_session_timeout=0,pg_stat_statements.track=none,track_functions=none}'::text[] LOOP
    CONTINUE WHEN setting = 'transaction_timeout=0' AND current_setting('server_version_num')::int < 170000;
    BEGIN
      IF NOT EXISTS (SELECT FROM pg_catalog.pg_db_role_setting s WHERE s.setrole = 'dp_sidecar'::regrole AND s.setdatabase = 0 AND setting = ANY (s.setconfig)) THEN
        EXECUTE format('ALTER ROLE dp_sidecar SET %I = %L', split_part(setting, '=', 1), split_part(setting, '=', 2));
      END IF;
    EXCEPTION WHEN OTHERS THEN  -- also another installation that alters the role now
      RAISE NOTICE 'setting % of dp_sidecar stays: %', split_part(setting, '=', 1), SQLERRM;
    END;
  END LOOP;
END $$`

// migrateUp applies the migrations up to Latest. It returns the version reached, also with an error.
func migrateUp(ctx context.Context, admin *pgx.ConnConfig) (int, error) {
	return migrating(admin, func(m *migrate.Migrate) (int, error) {
		for {
			version, err := reached(m)
			switch {
			case err != nil || version == Latest():
				return version, err
			case version > Latest():
				return version, fmt.Errorf("%w: it has version %d, this program knows %d", ErrNewer, version, Latest())
			case version > 0 && version < firstVersion():
				return version, fmt.Errorf("%w: it has version %d", ErrUnfinished, version)
			case ctx.Err() != nil:
				return version, ctx.Err()
			}
			if err := migrateOne(m, version, +1); err != nil {
				return version, err
			}
		}
	})
}

// migrateDown reverts the last migration, that to version.
func migrateDown(admin *pgx.ConnConfig, version int) error {
	_, err := migrating(admin, func(m *migrate.Migrate) (int, error) { return version, migrateOne(m, version, -1) })
	return err
}

// migrating runs migrations on one connection and returns what they return: the version reached, and an
// error. If the server refused a migration, its transaction is rolled back and that version recorded: the
// library marks the next one as dirty.
func migrating(admin *pgx.ConnConfig, migrations func(m *migrate.Migrate) (version int, err error)) (version int, err error) {
	m, err := migrator(admin)
	if err != nil {
		return 0, err
	}
	version, err = migrations(m)
	closed := errors.Join(m.Close()) // and with it a transaction that has failed
	var refused *refusedError
	switch {
	case err == nil:
		err = closed
	case errors.As(err, &refused):
		err = errors.Join(err, recordVersion(admin, version))
	}
	return version, err
}

// refusedError is that of a migration that the server refused.
type refusedError struct {
	migration int
	cause     *pgconn.PgError
}

func (e *refusedError) Error() string { return fmt.Sprintf("migration %03d: %v", e.migration, e.cause) }

func (e *refusedError) Unwrap() error { return e.cause }

// reached returns the version of the schema, 0 for none.
func reached(m *migrate.Migrate) (int, error) {
	version, dirty, err := m.Version()
	switch {
	case errors.Is(err, migrate.ErrNilVersion):
		return 0, nil
	case dirty:
		err = interrupted(int(version))
	}
	return int(version), err
}

func interrupted(migration int) error {
	return fmt.Errorf("%w: see whether migration %d was applied, and correct dp_int.schema_migrations", ErrInterrupted, migration)
}

// Down reverts the last migration, with the contents of its tables, after dropping functions and views: Up,
// of this build or of another one, restores those. It waits for others that install, upgrade or revert. It
// returns the version reached. Reverting the first migration removes the schema.
func Down(ctx context.Context, admin *pgx.ConnConfig) (version int, err error) {
	return alone(ctx, admin, down)
}

// down is Down for who holds the lock of installations.
func down(ctx context.Context, admin *pgx.ConnConfig) (version int, err error) {
	defer func() { err = explainBusy(ctx, admin, err) }()
	admin = impatient(admin)
	version, err = Version(ctx, admin)
	if err != nil || version == 0 {
		return version, err
	}
	if version > Latest() {
		return version, fmt.Errorf("%w: it has version %d, this program knows %d", ErrNewer, version, Latest())
	}
	if refuse, ok := refusals[version]; ok {
		if err := execute(ctx, admin, refuse); err != nil {
			return version, err
		}
	}
	if err := removeCode(ctx, admin); err != nil {
		return version, err
	}
	last := version == firstVersion()
	if last {
		if err := execute(ctx, admin, dropLoopback+`;`+revokeDblink); err != nil {
			return version, err
		}
	}
	if err := migrateDown(admin, version); err != nil {
		if version == Latest() {
			err = errors.Join(err, replaceCode(ctx, admin))
		}
		return version, err
	}
	if last {
		return 0, execute(ctx, admin, `DROP SCHEMA dp_int CASCADE`)
	}
	return Version(ctx, admin)
}

// impatient limits the time that a statement waits for a lock, unless the limit is set already, because all
// later lock requests queue behind a waiting one. It also sets standard_conforming_strings: migrations have
// literals with backslashes, as '\x'.
func impatient(admin *pgx.ConnConfig) *pgx.ConnConfig {
	admin = admin.Copy()
	if _, set := admin.RuntimeParams["lock_timeout"]; !set {
		admin.RuntimeParams["lock_timeout"] = "5s"
	}
	admin.RuntimeParams["standard_conforming_strings"] = "on"
	return admin
}

// explainBusy says which transactions may hold what was waited for in vain. Those that were prepared are of no
// session.
func explainBusy(ctx context.Context, admin *pgx.ConnConfig, err error) error {
	var refusal *pgconn.PgError
	if !errors.As(err, &refusal) || refusal.Code != "55P03" {
		return err
	}
	var prepared string
	if conn, failed := pgx.ConnectConfig(ctx, admin); failed == nil {
		defer conn.Close(ctx)
		_ = conn.QueryRow(ctx, `SELECT coalesce(string_agg('ROLLBACK PREPARED ' || quote_literal(gid) || ' as ' || owner, ', ' ORDER BY prepared), '') FROM pg_prepared_xacts WHERE database = current_database()`).Scan(&prepared)
	}
	if prepared != "" {
		prepared = ", pg_prepared_xacts those that were prepared, which end with " + prepared
	}
	return fmt.Errorf("%w: a transaction is open that has used what is to be replaced; end it (pg_stat_activity shows sessions that are idle in transaction%s), and run this again", err, prepared)
}

// refusals are statements, by version, that raise an error if the migration down from that version would
// discard a setting of a steward or a paid release, where the migration itself, which was released earlier,
// does not check this. After migrating up again, data sets would be active without the setting, and the
// same request would get an empty answer instead of the release.
var refusals = map[int]string{
	24: refusal("dp_int.metric", "scores have been released", stay),
	26: refusal("dp_int.dataset WHERE categories <> '{}' AND unregistered_at IS NULL", "a data set has categories", stay),
	// Otherwise single rows would be protected instead of all rows of a person.
	28: refusal("dp_int.dataset WHERE unit IS NOT NULL", "a data set protects all rows of a person", stay),
	30: refusal("dp_int.release WHERE model IN ('describe', 'scales')", "descriptions have been released", stay),
	31: refusal("dp_int.coefficient WHERE grp <> ''", "fits by groups have been released", stay),
	34: refusal("dp_int.second_moments", "second moments have been released", stay),
	// Otherwise rows that must stay in the database could leave it, and rows that are pulled could be
	// summed there.
	37: refusal("dp_int.dataset WHERE placement <> 'auto' AND unregistered_at IS NULL", "the rows of a data set are where its steward has said",
		"Stay with this version, or let a steward allow any place: dp_set_placement(dataset, ''auto'')."),
	// Otherwise data sets that are refused because a definition has changed since would be read.
	39: refusal("dp_int.dataset WHERE definition IS NOT NULL AND unregistered_at IS NULL", "it is noted with which definitions a data set was stated to be total",
		"Stay with this version, or let a steward dp_unregister the data sets that have the option total."),
}

const stay = "Stay with this version."

// refusal returns a statement that raises an error with a message and a hint if there is a row, unless the
// ledger may be discarded.
func refusal(rows, message, hint string) string {
	return `
DO $$
BEGIN
  IF EXISTS (SELECT FROM ` + rows + `) AND current_setting('dp.discard_ledger', true) IS DISTINCT FROM 'yes' THEN
    RAISE EXCEPTION '` + message + `, which an older dpsidecar does not know'
      USING ERRCODE = '55000', HINT = '` + hint + ` Where steps before this one have removed functions and views, dpsidecar migrate up brings them again. Nothing was changed.';
  END IF;
END $$`
}

const dropLoopback = `
DO $$
BEGIN
  DROP SERVER IF EXISTS dp_loop CASCADE;
  EXECUTE (SELECT format('DROP ROLE IF EXISTS dp_loopback_%s', oid) FROM pg_catalog.pg_database WHERE datname = current_database());
END $$`

func execute(ctx context.Context, admin *pgx.ConnConfig, statement string) error {
	conn, err := pgx.ConnectConfig(ctx, admin)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	_, err = conn.Exec(ctx, statement)
	return err
}

// migrateOne applies one migration, up or down.
func migrateOne(m *migrate.Migrate, version, direction int) error {
	err := m.Steps(direction)
	if err == nil {
		return nil
	}
	number := version
	if direction > 0 {
		number = max(version+1, firstVersion())
	}
	var dirty migrate.ErrDirty
	if errors.As(err, &dirty) {
		return interrupted(dirty.Version)
	}
	if refusal := serverRefusal(err); refusal != nil {
		return &refusedError{number, refusal}
	}
	return fmt.Errorf("migration %03d: %w", number, err)
}

// serverRefusal returns the server's own error when it ended the migration.
func serverRefusal(err error) *pgconn.PgError {
	var failure database.Error
	var refusal *pgconn.PgError
	if errors.As(err, &failure) && errors.As(failure.OrigErr, &refusal) && refusal.Severity == "ERROR" {
		return refusal
	}
	return nil
}

// recordVersion records the version of the schema.
func recordVersion(admin *pgx.ConnConfig, version int) error {
	m, err := migrator(admin)
	if err != nil {
		return err
	}
	if version == 0 {
		version = database.NilVersion
	}
	return errors.Join(m.Force(version), errors.Join(m.Close()))
}

// migrator opens the embedded migrations on a connection of its own. Its table is in dp_int, quoted and
// with its schema, so that no search_path can hide it. A file is sent to the server as a whole: it is one
// transaction.
func migrator(admin *pgx.ConnConfig) (*migrate.Migrate, error) {
	files, err := iofs.New(sql.Migrations, ".")
	if err != nil {
		return nil, err
	}
	db := stdlib.OpenDB(*admin)
	d, err := driver.WithInstance(db, &driver.Config{
		SchemaName:            "dp_int",
		MigrationsTable:       `"dp_int"."schema_migrations"`,
		MigrationsTableQuoted: true,
	})
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return migrate.NewWithInstance("embedded", files, admin.Database, d)
}

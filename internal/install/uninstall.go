package install

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

var (
	// ErrServed is returned while a sidecar is connected.
	ErrServed = errors.New("a dpsidecar is connected: stop every dpsidecar serve first")

	// ErrInUse is returned when other objects in the database depend on those that would be removed.
	ErrInUse = errors.New("nothing was exported or removed, because something depends on it")

	// ErrVersion is returned when the schema is not of this program's version.
	ErrVersion = errors.New("the schema is of another version: run dpsidecar migrate up first")
)

// window is the window of time of a job's request, NULL where there are no blocks.
const window = `CASE WHEN j.request ? 'over' THEN daterange((j.request #>> '{over,0}')::date, (j.request #>> '{over,1}')::date) END`

// exports are the queries of exported files, by file name: a view of the ledger, and tables where the views
// show only rows of their reader.
var exports = []struct{ file, query string }{
	{"ledger.csv", `SELECT * FROM dp.ledger`},
	{"releases.csv", `SELECT r.id, r.job, r.charge, d.name AS dataset, r.model, r.method, r.eps, r.delta, r.caller, r.parameters, r.released_at, r.read_at, r.rows, r.why_null, r.cut,
		j.request ->> 'target' AS target, ` + window + ` AS over, j.request -> 'where_level' AS where_level, r.huber_delta
		FROM dp_int.release r JOIN dp_int.dataset d ON d.id = r.dataset JOIN dp_int.job j ON j.id = r.job ORDER BY r.released_at`},
	{"coefficients.csv", `SELECT release, position, term, coef, coef - band AS noise_low, coef + band AS noise_high, std_err, df, ci_low, ci_high, p_value, covariance, bias, noise, grp, share, why_null
		FROM dp_int.coefficient ORDER BY release, position`},
	{"metrics.csv", `SELECT release, position, metric, value, ci_low, ci_high, why_null FROM dp_int.metric ORDER BY release, position`},
	{"descriptions.csv", `SELECT release, position, column_name, statistic, value, ci_low, ci_high, why_null FROM dp_int.column_statistic ORDER BY release, position`},
	{"moments.csv", `SELECT m.release, ` + window + ` AS over, m.terms, m.sums, m.noise, m.bound, m.lost AS lost_weight, m.lost_noise AS lost_weight_noise, j.request -> 'scales' AS scales
		FROM dp_int.second_moments m JOIN dp_int.release r ON r.id = m.release JOIN dp_int.job j ON j.id = r.job ORDER BY m.release`},
	{"suggested_scales.csv", `SELECT release, position, column_name, scale, center, note FROM dp_int.suggested_scale ORDER BY release, position`},
	{"datasets.csv", `SELECT d.name AS dataset, d.account, format('%I.%I', d.schema_name, d.relation_name) AS relation, d.target, d.features, d.scales, d.labels, d.options, d.unit, d.max_rows, d.persons, d.row_count,
		d.registered_by, d.registered_at, d.unregistered_at, a.accounting, a.renyi_order, least(a.epsilon, d.epsilon) AS epsilon, a.delta, a.proven_epsilon AS epsilon_spent,
		a.spent, a.spent_epsilon, a.rest, a.rest_rho, a.spent_delta, d.categories, d.block, d.block_source, a.block_width, a.block_origin, d.block_rows, d.block_is_fixed, d.block_fixed_by
		FROM dp_int.dataset d JOIN dp_int.account a ON a.id = d.account ORDER BY d.id`},
	{"blocks.csv", `SELECT b.account, dp_int.block_start(a.block_origin, a.block_width, b.block) AS block_from, dp_int.block_start(a.block_origin, a.block_width, b.block + 1) AS block_to,
		b.spent, b.spent_epsilon, b.rest, b.rest_rho, b.spent_delta
		FROM dp_int.account_block b JOIN dp_int.account a ON a.id = b.account ORDER BY b.account, b.block`},
	{"heads.txt", `SELECT format('account=%s entry=%s head=%s', id, entries, encode(head, 'hex')) FROM dp_int.account WHERE entries > 0 ORDER BY id`},
}

// export writes the ledger, its heads, releases, coefficients and registrations, in one snapshot, into new
// files of a folder, which it makes if it is missing. It returns the files' names, and the folders it made,
// innermost first. A file that exists already is an error and stays unchanged; after an error what was
// written is removed.
func export(ctx context.Context, conn *pgx.Conn, dir string) (files, folders []string, err error) {
	defer func() {
		if err != nil {
			files, folders, err = nil, nil, errors.Join(err, remove(files, folders))
		}
	}()
	tx, err := conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	if err != nil {
		return nil, nil, err
	}
	defer tx.Rollback(ctx) // it has written nothing to the database
	if _, err := tx.Exec(ctx, `SET LOCAL ROLE dp_owner`); err != nil {
		return nil, nil, err
	}
	for d := filepath.Clean(dir); ; d = filepath.Dir(d) {
		if _, err := os.Lstat(d); !errors.Is(err, os.ErrNotExist) {
			break
		}
		folders = append(folders, d)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, folders, err
	}
	for _, e := range exports {
		name := filepath.Join(dir, e.file)
		if err := copyTo(ctx, tx, name, e.query); err != nil {
			if !errors.Is(err, os.ErrExist) {
				files = append(files, name)
			}
			return files, folders, err
		}
		files = append(files, name)
	}
	return files, folders, nil
}

// remove deletes files that this run has written, and the folders it made unless something else is in them.
func remove(files, folders []string) (err error) {
	for _, f := range files {
		if failed := os.Remove(f); !errors.Is(failed, os.ErrNotExist) {
			err = errors.Join(err, failed)
		}
	}
	for _, d := range folders {
		if os.Remove(d) != nil {
			break
		}
	}
	return err
}

// requireUnused refuses while other objects depend on functions, tables, views or types of the installation:
// views, functions that keep their body as a parse tree, constraints, rules, policies, triggers, defaults,
// columns of these types and the like. It names what can be dropped without a row of anybody's: a constraint
// and not its table. Triggers of dp_freeze do not count.
func requireUnused(ctx context.Context, conn *pgx.Conn) error {
	rows, err := conn.Query(ctx, `
WITH ours AS MATERIALIZED (
  SELECT 'pg_catalog.pg_proc'::regclass::oid AS class, p.oid AS id`+ourRoutines+`
  UNION ALL SELECT 'pg_catalog.pg_class'::regclass, c.oid FROM pg_catalog.pg_class c WHERE c.relnamespace IN (to_regnamespace('dp'), to_regnamespace('dp_int'))
  UNION ALL SELECT 'pg_catalog.pg_type'::regclass, t.oid FROM pg_catalog.pg_type t WHERE t.typnamespace IN (to_regnamespace('dp'), to_regnamespace('dp_int'))),
uses AS (  -- a view stands for its rule, a generated column for its expression; all else for itself
  SELECT CASE WHEN whole.relid IS NULL THEN d.classid ELSE 'pg_catalog.pg_class'::regclass END AS class, coalesce(whole.relid, d.objid) AS id, CASE WHEN whole.relid IS NULL THEN d.objsubid ELSE whole.num END AS sub,
         coalesce(w.ev_class, k.conrelid, g.tgrelid, y.polrelid, f.adrelid, 0) AS relation, nullif(k.contypid, 0) AS domain, o.class AS used_class, o.id AS used
    FROM ours o
    JOIN pg_catalog.pg_depend d ON d.refclassid = o.class AND d.refobjid = o.id AND d.deptype IN ('n', 'a')
    LEFT JOIN pg_catalog.pg_rewrite w ON d.classid = 'pg_catalog.pg_rewrite'::regclass AND w.oid = d.objid
    LEFT JOIN pg_catalog.pg_constraint k ON d.classid = 'pg_catalog.pg_constraint'::regclass AND k.oid = d.objid
    LEFT JOIN pg_catalog.pg_trigger g ON d.classid = 'pg_catalog.pg_trigger'::regclass AND g.oid = d.objid
    LEFT JOIN pg_catalog.pg_policy y ON d.classid = 'pg_catalog.pg_policy'::regclass AND y.oid = d.objid
    LEFT JOIN pg_catalog.pg_attrdef f ON d.classid = 'pg_catalog.pg_attrdef'::regclass AND f.oid = d.objid
    LEFT JOIN LATERAL (
      SELECT w.ev_class, 0 WHERE w.rulename = '_RETURN'
      UNION ALL SELECT a.attrelid, a.attnum::int FROM pg_catalog.pg_attribute a WHERE a.attrelid = f.adrelid AND a.attnum = f.adnum AND a.attgenerated <> '') AS whole(relid, num) ON true
   WHERE (g.oid IS NOT NULL AND o.class = 'pg_catalog.pg_proc'::regclass AND o.id = to_regprocedure('public.dp_refuse_change()')) IS NOT TRUE  -- a trigger of dp_freeze
     AND (k.contype = 'f' AND o.class = 'pg_catalog.pg_class'::regclass AND o.id <> k.confrelid) IS NOT TRUE)  -- the index of the table that a foreign key names
SELECT DISTINCT format('%s%s uses %s', pg_describe_object(u.class, u.id, u.sub), ' of domain ' || u.domain::regtype, pg_describe_object(u.used_class, u.used, 0))
  FROM uses u
 WHERE (u.class, u.id) NOT IN (SELECT class, id FROM ours)
   AND ('pg_catalog.pg_class'::regclass, u.relation) NOT IN (SELECT class, id FROM ours)
 ORDER BY 1`)
	if err != nil {
		return err
	}
	uses, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err == nil && len(uses) > 0 {
		err = fmt.Errorf("%w: %s; drop what is named first, then run dpsidecar uninstall again", ErrInUse, strings.Join(uses, ", "))
	}
	return err
}

// copyTo writes the result of a query, with a header line unless it is plain text, and returns once it is
// on disk.
func copyTo(ctx context.Context, tx pgx.Tx, name, query string) (err error) {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, os.ErrExist) {
		return fmt.Errorf("%w: it may be the only record of what was spent; name another folder", err)
	} else if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Sync(), f.Close()) }()
	format := "csv, HEADER"
	if strings.HasSuffix(name, ".txt") {
		format = "text"
	}
	_, err = tx.Conn().PgConn().CopyTo(ctx, f, "COPY ("+query+") TO STDOUT WITH (FORMAT "+format+")")
	return err
}

// requireLatest refuses a database without an installation of this version.
func requireLatest(ctx context.Context, admin *pgx.ConnConfig) error {
	switch version, err := Version(ctx, admin); {
	case err != nil:
		return err
	case version == 0:
		return ErrNotInstalled
	case version != Latest():
		return fmt.Errorf("%w: it is %d, this program knows %d", ErrVersion, version, Latest())
	}
	return nil
}

// Uninstall exports records into new files of a folder, and then removes everything: functions, views,
// tables with the ledger and all releases, the loopback, and every role that nothing else in the cluster
// depends on. If another object depends on a function or a view, nothing is exported or removed. It returns the
// files written, and the roles that stay.
//
// Errors: ErrNotInstalled; ErrVersion; ErrServed; ErrInUse; a file that exists already.
func Uninstall(ctx context.Context, admin *pgx.ConnConfig, dir string) (files, stay []string, err error) {
	admin = systemNames(admin)
	if err := requireLatest(ctx, admin); err != nil {
		return nil, nil, err
	}
	conn, err := connectAlone(ctx, admin)
	if err != nil {
		return nil, nil, err
	}
	defer conn.Close(ctx)
	if err := requireNoSidecar(ctx, conn); err != nil {
		return nil, nil, err
	}
	if err := requireUnused(ctx, conn); err != nil {
		return nil, nil, err
	}
	files, folders, err := export(ctx, conn, dir)
	if err != nil {
		return nil, nil, err
	}
	if err := downAll(ctx, admin); err != nil {
		if version, failed := Version(ctx, admin); failed == nil && version == Latest() { // nothing was removed
			return nil, nil, errors.Join(err, remove(files, folders))
		}
		return files, nil, fmt.Errorf("%w; a part is removed, and the files that were written are the only record of it: keep them", err)
	}
	if err := dropDblink(ctx, conn); err != nil {
		return files, nil, err
	}
	rows, err := conn.Query(ctx, `SELECT rolname::text FROM pg_roles WHERE rolname ~ '^dp_(owner|admin|analyst|loopback|sidecar)' ORDER BY 1`)
	if err != nil {
		return files, nil, err
	}
	if stay, err = pgx.CollectRows(rows, pgx.RowTo[string]); err != nil {
		return files, stay, err
	}
	left, err := dropRolesOnWorkers(ctx, conn)
	return files, append(stay, left...), err
}

// settling is the time that a sidecar that was just stopped may take to disconnect.
const settling = 3 * time.Second

// requireNoSidecar refuses while the database takes a sidecar to be alive, but waits up to settling for one
// that was just stopped.
func requireNoSidecar(ctx context.Context, conn *pgx.Conn) error {
	for patience := time.Now().Add(settling); ; time.Sleep(settling / 30) {
		err := checkNoSidecar(ctx, conn)
		if !errors.Is(err, ErrServed) || time.Now().After(patience) {
			return err
		}
	}
}

func checkNoSidecar(ctx context.Context, conn *pgx.Conn) error {
	tx, err := conn.Begin(ctx)
	if err != nil {
		return err
	}
	defer tx.Rollback(ctx)
	if _, err := tx.Exec(ctx, `SET LOCAL ROLE dp_owner`); err != nil {
		return err
	}
	var alive int
	if err := tx.QueryRow(ctx, `SELECT dp_int.sidecars_alive()`).Scan(&alive); err != nil {
		return err
	}
	if alive > 0 {
		return ErrServed
	}
	return nil
}

// downAll reverts every migration, and allows each to discard the ledger.
func downAll(ctx context.Context, admin *pgx.ConnConfig) error {
	admin = admin.Copy()
	admin.RuntimeParams["dp.discard_ledger"] = "yes"
	for version := Latest(); version > 0; {
		var err error
		if version, err = down(ctx, admin); err != nil {
			return err
		}
	}
	return nil
}

// dropDblink drops the extension dblink if the administrator's script made it, the connected role is a
// superuser and nothing else uses the extension.
func dropDblink(ctx context.Context, conn *pgx.Conn) error {
	_, err := conn.Exec(ctx, `
DO $$
BEGIN
  IF NOT (SELECT rolsuper FROM pg_catalog.pg_roles WHERE rolname = current_user)
     OR NOT EXISTS (SELECT FROM pg_catalog.pg_extension WHERE extname = 'dblink' AND extnamespace = to_regnamespace('dp_dblink')) THEN
    RETURN;
  END IF;
  BEGIN
    DROP EXTENSION dblink;
    DROP SCHEMA dp_dblink;
  EXCEPTION WHEN dependent_objects_still_exist THEN
    RAISE NOTICE 'extension dblink stays: %', SQLERRM;
  END;
END $$`)
	return err
}

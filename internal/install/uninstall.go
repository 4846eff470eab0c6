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

	// ErrVersion is returned when the schema is not of this program's version.
	ErrVersion = errors.New("the schema is of another version: run dpsidecar migrate up first")
)

// exports are the queries of exported files, by file name: a view of the ledger, and tables where the views
// show only rows of their reader.
var exports = []struct{ file, query string }{
	{"ledger.csv", `SELECT * FROM dp.ledger`},
	{"releases.csv", `SELECT r.id, r.job, r.charge, d.name AS dataset, r.model, r.method, r.eps, r.delta, r.caller, r.parameters, r.released_at, r.read_at, r.rows, r.why_null
		FROM dp_int.release r JOIN dp_int.dataset d ON d.id = r.dataset ORDER BY r.released_at`},
	{"coefficients.csv", `SELECT release, position, term, coef, coef - band AS noise_low, coef + band AS noise_high, std_err, df, ci_low, ci_high, p_value, covariance, bias FROM dp_int.coefficient ORDER BY release, position`},
	{"metrics.csv", `SELECT release, position, metric, value, ci_low, ci_high, why_null FROM dp_int.metric ORDER BY release, position`},
	{"descriptions.csv", `SELECT release, position, column_name, statistic, value, ci_low, ci_high, why_null FROM dp_int.column_statistic ORDER BY release, position`},
	{"moments.csv", `SELECT release, terms, sums, noise, bound FROM dp_int.second_moments ORDER BY release`},
	{"suggested_scales.csv", `SELECT release, position, column_name, scale, center, note FROM dp_int.suggested_scale ORDER BY release, position`},
	{"datasets.csv", `SELECT d.name AS dataset, d.account, format('%I.%I', d.schema_name, d.relation_name) AS relation, d.target, d.features, d.scales, d.labels, d.options, d.unit, d.max_rows, d.persons, d.row_count,
		d.registered_by, d.registered_at, d.unregistered_at, a.accounting, a.renyi_order, least(a.epsilon, d.epsilon) AS epsilon, a.delta, a.proven_epsilon AS epsilon_spent,
		a.spent, a.spent_epsilon, a.rest, a.rest_rho, a.spent_delta
		FROM dp_int.dataset d JOIN dp_int.account a ON a.id = d.account ORDER BY d.id`},
	{"heads.txt", `SELECT format('account=%s entry=%s head=%s', id, entries, encode(head, 'hex')) FROM dp_int.account WHERE entries > 0 ORDER BY id`},
}

// export writes the ledger, its heads, releases, coefficients and registrations, in one snapshot, into new
// files of a folder, which it makes if it is missing. It returns the files' names. A file that exists
// already is an error and stays unchanged.
func export(ctx context.Context, conn *pgx.Conn, dir string) (files []string, err error) {
	tx, err := conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	if err != nil {
		return nil, err
	}
	defer tx.Rollback(ctx) // it has written nothing to the database
	if _, err := tx.Exec(ctx, `SET LOCAL ROLE dp_owner`); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	for _, e := range exports {
		name := filepath.Join(dir, e.file)
		if err := copyTo(ctx, tx, name, e.query); err != nil {
			return files, err
		}
		files = append(files, name)
	}
	return files, nil
}

// copyTo writes the result of a query, with a header line unless it is plain text, and returns once it is
// on disk.
func copyTo(ctx context.Context, tx pgx.Tx, name, query string) (err error) {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
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
// depends on. If another object depends on a function or a view, nothing is removed. It returns the files
// written, and the roles that stay.
//
// Errors: ErrNotInstalled; ErrVersion; ErrServed; a file that exists already.
func Uninstall(ctx context.Context, admin *pgx.ConnConfig, dir string) (files, stay []string, err error) {
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
	if files, err = export(ctx, conn, dir); err != nil {
		return files, nil, err
	}
	if err := downAll(ctx, admin); err != nil {
		return files, nil, err
	}
	if err := dropDblink(ctx, conn); err != nil {
		return files, nil, err
	}
	rows, err := conn.Query(ctx, `SELECT rolname::text FROM pg_roles WHERE rolname ~ '^dp_(owner|admin|analyst|loopback|sidecar)' ORDER BY 1`)
	if err != nil {
		return files, nil, err
	}
	stay, err = pgx.CollectRows(rows, pgx.RowTo[string])
	return files, stay, err
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

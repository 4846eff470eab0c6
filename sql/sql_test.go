package sql_test

import (
	"context"
	"io/fs"
	"math"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"dpsidecar/internal/dpsco/privacy"
	"dpsidecar/internal/pgtest"
	"dpsidecar/sql"
)

// database returns a superuser's connection to a new database with dblink in
// its private schema and no migration applied.
func database(t *testing.T) *pgx.Conn {
	t.Helper()
	cluster := pgtest.Postgres(t)
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, cluster.SuperuserURL(cluster.Database(t)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(ctx) })
	admin := strings.NewReplacer("{{database}}", pgx.Identifier{conn.Config().Database}.Sanitize(), "{{installer}}", "CURRENT_USER").Replace(sql.Admin)
	script(t, conn, "admin.sql", admin)
	script(t, conn, "schema", "CREATE SCHEMA dp_int")
	return conn
}

func script(t *testing.T, conn *pgx.Conn, name, text string) {
	t.Helper()
	if _, err := conn.PgConn().Exec(context.Background(), text).ReadAll(); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

// migrate applies every migration of one direction, in order.
func migrate(t *testing.T, conn *pgx.Conn, direction string) {
	t.Helper()
	files, err := fs.Glob(sql.Migrations, "*."+direction+".sql")
	if err != nil || len(files) == 0 {
		t.Fatal("no migrations", err)
	}
	if direction == "down" {
		slices.Reverse(files)
	}
	for _, f := range files {
		text, err := fs.ReadFile(sql.Migrations, f)
		if err != nil {
			t.Fatal(err)
		}
		script(t, conn, path.Base(f), string(text))
	}
}

func query[T any](t *testing.T, conn *pgx.Conn, text string, args ...any) []T {
	t.Helper()
	rows, err := conn.Query(context.Background(), text, args...)
	if err != nil {
		t.Fatal(err)
	}
	out, err := pgx.CollectRows(rows, pgx.RowTo[T])
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return out
}

func TestMigrationsGoUpDownAndUp(t *testing.T) {
	conn := database(t)
	left := func() []string {
		return query[string](t, conn, `
			SELECT c.relname::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname IN ('dp', 'dp_int')
			UNION ALL SELECT p.proname::text FROM pg_proc p WHERE p.proname LIKE 'dp\_%' AND p.pronamespace = 'public'::regnamespace
			UNION ALL SELECT p.proname::text FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace WHERE n.nspname IN ('dp', 'dp_int')`)
	}
	migrate(t, conn, "up")
	migrate(t, conn, "down")
	if objects := left(); len(objects) > 0 {
		t.Fatalf("down leaves %v", objects)
	}
	migrate(t, conn, "up")
	if len(left()) == 0 {
		t.Fatal("nothing after the second up")
	}
}

func TestDownKeepsALedgerWithEntries(t *testing.T) {
	conn := database(t)
	migrate(t, conn, "up")
	script(t, conn, "register", `CREATE TABLE t (y float8, x float8); GRANT SELECT ON t TO dp_sidecar; SELECT dp_register('t', 't', 'y', '{x}', 1)`)
	down := func(session string) error {
		for _, f := range []string{"010_check", "009_calls", "008_views", "007_sidecar", "006_requests", "005_register", "004_jobs", "003_ledger"} {
			text, err := fs.ReadFile(sql.Migrations, f+".down.sql")
			if err != nil {
				t.Fatal(err)
			}
			if _, err := conn.PgConn().Exec(context.Background(), session+string(text)).ReadAll(); err != nil {
				conn.Exec(context.Background(), "ROLLBACK")
				return err
			}
		}
		return nil
	}
	if err := down(""); err == nil || !strings.Contains(err.Error(), "ledger has entries") {
		t.Fatalf("down with entries: %v", err)
	}
}

func TestEveryPublicObjectHasAComment(t *testing.T) {
	conn := database(t)
	migrate(t, conn, "up")
	bare := query[string](t, conn, `
		SELECT p.oid::regprocedure::text FROM pg_proc p
		 WHERE p.pronamespace = 'public'::regnamespace AND p.proname LIKE 'dp\_%' AND obj_description(p.oid, 'pg_proc') IS NULL
		UNION ALL
		SELECT c.oid::regclass::text FROM pg_class c
		 WHERE c.relnamespace = 'dp'::regnamespace AND c.relkind = 'v' AND obj_description(c.oid, 'pg_class') IS NULL`)
	if len(bare) > 0 {
		t.Fatalf("no comment on %v", bare)
	}
}

// Nobody but the loopback and the sidecar executes anything in dp_int, nobody
// reads or writes its tables, and each of the two has only its own functions.
func TestInternalsAreClosed(t *testing.T) {
	conn := database(t)
	migrate(t, conn, "up")
	for role, want := range map[string][]string{
		"dp_analyst":  nil,
		"dp_admin":    nil,
		"dp_loopback": {"cancel", "enqueue", "fetch", "watch"},
		"dp_sidecar": {"counted", "job_beat", "job_charge", "job_claim", "job_fail", "job_hand_back", "job_park", "job_publish", "job_read", "job_recheck",
			"uncounted", "worker_beat", "worker_bye"},
	} {
		got := query[string](t, conn, `
			SELECT proname::text FROM pg_proc WHERE pronamespace = 'dp_int'::regnamespace AND has_function_privilege($1, oid, 'EXECUTE') ORDER BY 1`, role)
		if !slices.Equal(got, want) {
			t.Errorf("%s may execute %v, want %v", role, got, want)
		}
		tables := query[string](t, conn, `
			SELECT relname::text FROM pg_class
			 WHERE relnamespace = 'dp_int'::regnamespace AND relkind IN ('r', 'v')
			   AND has_table_privilege($1, oid, 'SELECT, INSERT, UPDATE, DELETE, TRUNCATE, REFERENCES, TRIGGER')`, role)
		if len(tables) > 0 {
			t.Errorf("%s has privileges on %v", role, tables)
		}
	}
}

// Every SECURITY DEFINER function pins the search path, or a caller could put
// an operator of his own before ours.
func TestDefinersPinTheirSettings(t *testing.T) {
	conn := database(t)
	migrate(t, conn, "up")
	loose := query[string](t, conn, `
		SELECT oid::regprocedure::text FROM pg_proc
		 WHERE prosecdef AND pronamespace IN ('dp_int'::regnamespace, 'public'::regnamespace)
		   AND NOT 'search_path=pg_catalog, pg_temp' = ANY (coalesce(proconfig, '{}'))`)
	if len(loose) > 0 {
		t.Fatalf("search_path is not pinned: %v", loose)
	}
}

// The database converts rho as package privacy does, there and back.
func TestConversionAgreesWithPrivacy(t *testing.T) {
	conn := database(t)
	migrate(t, conn, "up")
	for _, delta := range []float64{1e-5, 1e-6, 1e-9, 0.01} {
		for _, rho := range []float64{1e-6, 1e-4, 0.0125, 0.125, 1, 12} {
			want := privacy.ZCDPEpsilon(rho, delta)
			got := query[float64](t, conn, "SELECT dp_int.zcdp_epsilon($1, $2)", rho, delta)[0]
			if !(math.Abs(got-want) <= 1e-8*want) {
				t.Errorf("epsilon(rho %g, delta %g) = %.15g, privacy says %.15g", rho, delta, got, want)
			}
			back := query[float64](t, conn, "SELECT dp_int.zcdp_rho($1, $2)", got, delta)[0]
			if got > 0 && !(math.Abs(back-rho) <= 1e-9*rho) {
				t.Errorf("rho(epsilon %g, delta %g) = %.15g, want %g", got, delta, back, rho)
			}
		}
	}
}

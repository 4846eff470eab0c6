package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"dpsidecar/internal/localpg"
)

// withClaims is a cluster of its own with dpsidecar in a database, a registered table and
// one entry in the ledger for each registration.
func withClaims(t *testing.T) (c *localpg.Cluster, env map[string]string) {
	t.Helper()
	c, err := localpg.Start(t.Context(), localpg.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Stop() })
	c.Exec(t, "postgres", "CREATE DATABASE app")
	env = map[string]string{"DPSIDECAR_ADMIN_URL": c.SuperuserURL("app"), "DPSIDECAR_DATABASE_URL": c.SuperuserURL("app"), "DPSIDECAR_SIDECAR_PASSWORD_FILE": write(t, "side")}
	if out, err := dpsidecar(t, env, "install"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	c.Exec(t, "app", "CREATE TABLE claims (amount float8, age float8)", "GRANT SELECT ON claims TO dp_sidecar",
		"SELECT dp_register('claims', 'claims', 'amount', '{age}', 2)")
	return c, env
}

// The heads that verify prints are those that it expects; after a change it says which
// account is another, and a file without heads is no comfort.
func TestVerifyExpectsHeads(t *testing.T) {
	c, env := withClaims(t)
	out, err := dpsidecar(t, env, "verify")
	if err != nil || !strings.Contains(out, "account=1 entry=1 head=") {
		t.Fatalf("%v\n%s", err, out)
	}
	kept := write(t, out)
	c.Exec(t, "app", "SELECT dp_set_budget('claims', 3, 0)")
	if out, err := dpsidecar(t, env, "verify", "--expect", kept); err != nil || !strings.Contains(out, "ok  every head that was kept outside") || !strings.Contains(out, "entry=2 head=") {
		t.Errorf("%v\n%s", err, out)
	}
	later := write(t, "account=1 entry=9 head="+strings.Repeat("0", 64))
	if out, err := dpsidecar(t, env, "verify", "--expect", later); err == nil || !strings.Contains(out, "account 1: it had 9 entries or more and has 2") {
		t.Errorf("%v\n%s", err, out)
	}
	if _, err := dpsidecar(t, env, "verify", "--expect", write(t, "nothing\n")); err == nil {
		t.Error("a file without heads is accepted")
	}
}

// Nothing is removed without an export and a confirmation, nor below what uses it; then
// all of it is, but for roles that others depend on.
func TestUninstall(t *testing.T) {
	c, env := withClaims(t)
	dir := filepath.Join(t.TempDir(), "export")
	for _, args := range [][]string{{"uninstall"}, {"uninstall", "--confirm", "app"}, {"uninstall", "--export", dir}, {"uninstall", "--export", dir, "--confirm", "other"}} {
		if out, err := dpsidecar(t, env, args...); !errors.Is(err, errUsage) {
			t.Errorf("%q: %v\n%s", args, err, out)
		}
	}
	sidecar, err := pgx.Connect(t.Context(), c.URL("dp_sidecar", "side", "app"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := sidecar.Exec(t.Context(), "SELECT dp_int.worker_beat(gen_random_uuid(), pg_backend_pid(), '')"); err != nil {
		t.Fatal(err)
	}
	if out, err := dpsidecar(t, env, "uninstall", "--export", t.TempDir(), "--confirm", "app"); err == nil || !strings.Contains(err.Error(), "stop every dpsidecar serve") {
		t.Errorf("%v\n%s", err, out)
	}
	sidecar.Close(t.Context())
	c.Exec(t, "app", "CREATE VIEW left_over AS SELECT * FROM dp.budget", "CREATE TABLE left_table (b dp.budget, said text DEFAULT dp.time_left(NULL))",
		`CREATE TABLE left_plain (a int CONSTRAINT left_check CHECK (dp_version() <> ''), whole text GENERATED ALWAYS AS (dp_int.refusal()) STORED)`,
		"CREATE RULE left_rule AS ON DELETE TO left_plain DO ALSO SELECT dp_version()", "CREATE POLICY left_policy ON left_plain USING (dp_version() <> '')",
		"CREATE FUNCTION left_mark() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'",
		"CREATE TRIGGER left_trigger BEFORE INSERT ON left_plain FOR EACH ROW WHEN (dp_int.refusal() <> '') EXECUTE FUNCTION left_mark()",
		"CREATE TABLE left_key (id bigint CONSTRAINT left_foreign REFERENCES dp_int.account)", "CREATE DOMAIN left_domain AS text CONSTRAINT left_limit CHECK (VALUE <> dp_int.refusal())",
		"CREATE FUNCTION left_function() RETURNS text LANGUAGE sql BEGIN ATOMIC SELECT dp_version(); END", "CREATE TABLE left_frozen (day date); SELECT dp_freeze('left_frozen', 'day')")
	_, err = dpsidecar(t, env, "uninstall", "--export", dir, "--confirm", "app")
	for _, uses := range []string{"view public.left_over uses view dp.budget", "column b of table public.left_table uses type dp.budget", "default value for column said of table public.left_table uses function dp.time_left(",
		"constraint left_check on table public.left_plain uses function public.dp_version()", "column whole of table public.left_plain uses function dp_int.refusal()", "rule left_rule on table public.left_plain uses function public.dp_version()",
		"policy left_policy on table public.left_plain uses function public.dp_version()", "trigger left_trigger on table public.left_plain uses function dp_int.refusal()",
		"constraint left_foreign on table public.left_key uses table dp_int.account", "constraint left_limit of domain public.left_domain uses function dp_int.refusal()", "function public.left_function() uses function public.dp_version()", "uninstall again"} {
		if err == nil || !strings.Contains(describe(err), uses) {
			t.Errorf("%v: it does not say that %s", err, uses)
		}
	}
	if err != nil && strings.Contains(describe(err), "left_frozen") {
		t.Error("the trigger of a frozen column stays as it is:", err)
	}
	if err != nil && (strings.Count(describe(err), "left_foreign") != 1 || strings.Contains(describe(err), ", table public.left_")) {
		t.Error("a foreign key is named twice, or a table that need not go:", err)
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("it was exported all the same")
	}
	c.Exec(t, "app", "SELECT * FROM dp.ledger", "DROP VIEW left_over", "DROP TABLE left_table", "DROP FUNCTION left_function", "DROP TABLE left_frozen", "DROP TABLE left_plain, left_key", "DROP FUNCTION left_mark", "DROP DOMAIN left_domain")
	// Where the removal fails before anything is gone, so is the export, and it can be tried again.
	c.Exec(t, "app", "CREATE FUNCTION public.stop() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'stopped'; END $$", "CREATE EVENT TRIGGER stop ON sql_drop EXECUTE FUNCTION public.stop()")
	if out, err := dpsidecar(t, env, "uninstall", "--export", dir, "--confirm", "app"); err == nil || !strings.Contains(describe(err), "stopped") || strings.Contains(out, "wrote") {
		t.Errorf("%v\n%s", err, out)
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("the folder of the export stays")
	}
	c.Exec(t, "app", "SELECT * FROM dp.ledger", "ALTER EVENT TRIGGER stop DISABLE", "DROP EVENT TRIGGER stop", "DROP FUNCTION public.stop()")
	out, err := dpsidecar(t, env, "uninstall", "--export", dir, "--confirm", "app")
	if err != nil || !strings.Contains(out, "is removed") || !strings.Contains(out, ": dp_sidecar.") {
		t.Fatalf("%v\n%s", err, out)
	}
	for file, holds := range map[string]string{"ledger.csv": `""epsilon"": 2`, "datasets.csv": "public.claims", "releases.csv": "where_level", "moments.csv": "lost_weight_noise", "blocks.csv": "block_from", "coefficients.csv": "share", "metrics.csv": "ci_low", "descriptions.csv": "column_name", "suggested_scales.csv": "center", "heads.txt": "account=1 entry=1 head="} {
		if text, err := os.ReadFile(filepath.Join(dir, file)); err != nil || !strings.Contains(string(text), holds) {
			t.Errorf("%s: %v\n%s", file, err, text)
		}
	}
	conn, err := pgx.Connect(t.Context(), c.SuperuserURL("app"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	var left string
	if err := conn.QueryRow(t.Context(), `SELECT concat_ws(', ',
		(SELECT string_agg(nspname, ', ') FROM pg_namespace WHERE nspname ~ '^dp'), (SELECT string_agg(proname, ', ') FROM pg_proc WHERE proname ~ '^dp_'),
		(SELECT string_agg(rolname, ', ') FROM pg_roles WHERE rolname ~ '^dp_'), (SELECT string_agg(extname, ', ') FROM pg_extension WHERE extname = 'dblink'))`).Scan(&left); err != nil || left != "dp_sidecar" {
		t.Errorf("left: %s %v", left, err)
	}
	if _, err := dpsidecar(t, env, "uninstall", "--export", dir, "--confirm", "app"); err == nil {
		t.Error("removed twice")
	}
	// The statements that it prints remove the role, too.
	_, drop, found := strings.Cut(out, "with all rights:\n")
	if !found {
		t.Fatalf("no statements:\n%s", out)
	}
	c.Exec(t, "app", strings.Split(strings.TrimSpace(drop), "\n")...)
	if out, err := dpsidecar(t, env, "install"); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// Whoever adopts says which of the two goes on; what is no copy needs no adoption.
func TestAdopt(t *testing.T) {
	c, env := withClaims(t)
	for _, args := range [][]string{{"adopt"}, {"adopt", "--original-is-gone", "--this-is-a-copy"}} {
		if out, err := dpsidecar(t, env, args...); !errors.Is(err, errUsage) || !strings.Contains(err.Error(), "--this-is-a-copy") {
			t.Errorf("%q: %v\n%s", args, err, out)
		}
	}
	if out, err := dpsidecar(t, env, "adopt", "--original-is-gone"); err == nil || !strings.Contains(describe(err), "nothing to adopt") {
		t.Errorf("%v\n%s", err, out)
	}
	c.Exec(t, "postgres", "CREATE DATABASE staging TEMPLATE app", "CREATE DATABASE empty")
	env["DPSIDECAR_ADMIN_URL"] = c.SuperuserURL("staging")
	out, err := dpsidecar(t, env, "adopt", "--this-is-a-copy")
	if err != nil || !strings.Contains(out, "claims  (public.claims)  0\n") || !strings.Contains(out, "ok  the database is the one") || !strings.Contains(out, "ok  the loopback") {
		t.Errorf("%v\n%s", err, out)
	}
	env["DPSIDECAR_ADMIN_URL"] = c.SuperuserURL("empty")
	if _, err := dpsidecar(t, env, "adopt", "--this-is-a-copy"); err == nil || !strings.Contains(err.Error(), "not installed") {
		t.Errorf("an empty database: %v", err)
	}
}

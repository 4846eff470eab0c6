package install

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/golang-migrate/migrate/v4"
	"github.com/jackc/pgx/v5"

	"dpsidecar/internal/localpg"
	"dpsidecar/sql"
)

func cluster(t *testing.T) *localpg.Cluster {
	t.Helper()
	c, err := localpg.Start(t.Context(), localpg.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Stop() })
	return c
}

func parse(t *testing.T, url string) *pgx.ConnConfig {
	t.Helper()
	config, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	return config
}

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(t.Context()) })
	return conn
}

func install(t *testing.T, c Config) Result {
	t.Helper()
	r, err := Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	for _, check := range r.Checks {
		if !check.OK && check.Item != "a dpsidecar is connected" {
			t.Errorf("%s: %s", check.Item, check.Detail)
		}
	}
	return r
}

// A role that is no superuser is told what it lacks, installs once the
// administrator has run the script, and may install again.
func TestInstallWithoutSuperuser(t *testing.T) {
	c := cluster(t)
	db := c.Database(t)
	c.Exec(t, db, "CREATE ROLE installer LOGIN CREATEROLE PASSWORD 'pw'")
	config := Config{Admin: parse(t, c.URL("installer", "pw", db))}

	_, err := Run(t.Context(), config)
	var missing *PrerequisiteError
	if !errors.As(err, &missing) || len(missing.Missing) != 5 {
		t.Fatalf("got %v", err)
	}
	c.Exec(t, db, missing.Script)
	first := install(t, config)
	if first.Version != Latest() || first.SidecarPassword == "" {
		t.Errorf("got %+v", first)
	}
	connect(t, c.URL("dp_sidecar", first.SidecarPassword, db))
	if query[bool](t, c, db, `SELECT has_function_privilege('installer', 'dp_dblink.dblink_connect_u(text)', 'EXECUTE') OR has_function_privilege('dp_owner', 'dp_dblink.dblink_connect_u(text)', 'EXECUTE')`) {
		t.Error("who installs may connect without a password, as the server")
	}

	again := install(t, config)
	if again.SidecarPassword != "" {
		t.Error("the second run changed the sidecar's password")
	}
	connect(t, c.URL("dp_sidecar", first.SidecarPassword, db))
}

// After dpsidecar is removed nothing else holds what was released: its export has every column of it.
func TestTheExportHasAllThatWasReleased(t *testing.T) {
	c := cluster(t)
	db := c.Database(t)
	install(t, Config{Admin: parse(t, c.SuperuserURL(db))})
	for _, table := range []string{"release", "coefficient", "metric", "column_statistic", "second_moments", "suggested_scale"} {
		i := slices.IndexFunc(exports, func(e struct{ file, query string }) bool { return strings.Contains(e.query, "FROM dp_int."+table+" ") })
		for _, name := range query[[]string](t, c, db, `SELECT array_agg(attname::text) FROM pg_attribute
			WHERE attrelid = to_regclass('dp_int.' || $1) AND attnum > 0 AND NOT attisdropped AND attname NOT IN ('request_hash', 'principal')`, table) { // these only find requests and callers
			if !regexp.MustCompile(`\b` + name + `\b`).MatchString(exports[i].query) {
				t.Errorf("column %s of %s is not exported", name, table)
			}
		}
	}
}

// Whoever installs without being a superuser adopts a copy too, once the administrator
// has run the script there. A dump that neither dp_owner nor a superuser made has no password of the loopback.
func TestAdoptWithoutSuperuser(t *testing.T) {
	c := cluster(t)
	c.Exec(t, "postgres", "CREATE ROLE installer LOGIN CREATEROLE PASSWORD 'pw'", "CREATE DATABASE original")
	config := Config{Admin: parse(t, c.URL("installer", "pw", "original"))}
	var missing *PrerequisiteError
	if _, err := Run(t.Context(), config); !errors.As(err, &missing) {
		t.Fatal(err)
	}
	c.Exec(t, "original", "REVOKE CREATE ON SCHEMA public FROM PUBLIC", missing.Script)
	install(t, config)
	c.Exec(t, "original", "CREATE TABLE claims (amount float8, age float8)", "GRANT SELECT ON claims TO dp_sidecar",
		"SELECT dp_register('claims', 'claims', 'amount', '{age}', 2)")
	c.Exec(t, "postgres", "CREATE DATABASE staging TEMPLATE original")
	config = Config{Admin: parse(t, c.URL("installer", "pw", "staging"))}
	if _, _, err := Adopt(t.Context(), config, true); !errors.As(err, &missing) || len(missing.Missing) != 1 {
		t.Fatalf("got %v", err)
	}
	c.Exec(t, "staging", "CREATE ROLE nobody LOGIN PASSWORD 'pw'")
	if _, _, err := Adopt(t.Context(), Config{Admin: parse(t, c.URL("nobody", "pw", "staging"))}, true); err == nil || errors.Is(err, ErrNotInstalled) {
		t.Errorf("of who may not look: %v", err)
	}
	c.Exec(t, "staging", missing.Script, "DROP USER MAPPING FOR dp_owner SERVER dp_loop", "CREATE USER MAPPING FOR dp_owner SERVER dp_loop")
	r, adopted, err := Adopt(t.Context(), config, true)
	if err != nil || len(adopted) != 1 || adopted[0].Remaining != 2 || !r.Checks[0].OK || !r.Checks[1].OK {
		t.Errorf("got %+v, %+v, %v", r, adopted, err)
	}
}

// A second installer, in another database of the cluster, is told what he needs for roles
// that the first has made, and where the cluster keeps its identity to itself.
func TestTwoInstallersShareTheRoles(t *testing.T) {
	c := cluster(t)
	for _, name := range []string{"first", "second"} {
		db := c.Database(t)
		c.Exec(t, db, "CREATE ROLE "+name+" LOGIN CREATEROLE PASSWORD 'pw'")
		if name == "second" {
			c.Exec(t, db, "REVOKE EXECUTE ON FUNCTION pg_catalog.pg_control_system() FROM PUBLIC")
		}
		config := Config{Admin: parse(t, c.URL(name, "pw", db))}
		_, err := Run(t.Context(), config)
		var missing *PrerequisiteError
		if !errors.As(err, &missing) {
			t.Fatalf("%s: %v", name, err)
		}
		if name == "second" && !strings.Contains(missing.Error(), "pg_control_system") {
			t.Errorf("missing: %v", missing)
		}
		c.Exec(t, db, missing.Script)
		install(t, config)
	}
}

// Migrations mean the same in a database whose settings are those of long ago.
func TestInstallWhereBackslashesEscape(t *testing.T) {
	c := cluster(t)
	db := c.Database(t)
	c.Exec(t, db, `ALTER DATABASE `+db+` SET standard_conforming_strings = off`)
	install(t, Config{Admin: parse(t, c.SuperuserURL(db)), SidecarPassword: "side"})
	if got := query[string](t, c, db, `SELECT pg_get_expr(adbin, adrelid) FROM pg_attrdef JOIN pg_attribute ON attrelid = adrelid AND attnum = adnum WHERE adrelid = 'dp_int.account'::regclass AND attname = 'head'`); got != `'\\x'::bytea` {
		t.Errorf("a new account's chain begins with %s", got)
	}
}

func TestInstallAsSuperuser(t *testing.T) {
	c := cluster(t)
	first, second := c.Database(t), c.Database(t)
	config := Config{Admin: parse(t, c.SuperuserURL(first)), SidecarPassword: "side"}
	if r := install(t, config); r.SidecarPassword != "" {
		t.Error("returned a password it was given")
	}
	connect(t, c.URL("dp_sidecar", "side", first))

	// A second database has a loopback role of its own: neither takes the password of
	// the other's away, however often they are installed.
	if r := install(t, Config{Admin: parse(t, c.SuperuserURL(second))}); r.Earlier != "dp_loopback, dp_owner, dp_sidecar" {
		t.Errorf("roles that were there before: %q", r.Earlier)
	}
	checkLoopback(t, c, first)
	if r := install(t, config); r.Earlier != "" {
		t.Errorf("its own roles were there before: %s", r.Earlier)
	}
	checkLoopback(t, c, second)
	a, b := loopbackLogin(t, c, first), loopbackLogin(t, c, second)
	if a.User == b.User || a.Password == b.Password {
		t.Errorf("two databases share the loopback %s", a.User)
	}
	connect(t, c.URL(a.User, a.Password, first))
	// What a dump of one database holds does not ask in the other.
	for _, db := range []string{first, second} {
		var elsewhere *string
		here := query[string](t, c, db, `SELECT dp_int.here()::text`)
		if err := connect(t, c.URL(a.User, a.Password, db)).QueryRow(t.Context(), `SELECT dp_int.elsewhere($1)`, here).Scan(&elsewhere); err != nil || (elsewhere == nil) != (db == first) {
			t.Errorf("in %s: %v %v", db, elsewhere, err)
		}
	}
}

// Every installation gives the loopback another password, and the old one no longer works.
func TestInstallRotatesTheLoopback(t *testing.T) {
	c := cluster(t)
	db := c.Database(t)
	config := Config{Admin: parse(t, c.SuperuserURL(db))}
	install(t, config)
	before := loopbackLogin(t, c, db)
	c.Exec(t, db, "CREATE ROLE dp_loopback_4000000000 LOGIN PASSWORD 'known' IN ROLE dp_loopback") // of a database that is gone
	install(t, config)
	if conn, err := pgx.Connect(t.Context(), c.URL(before.User, before.Password, db)); err == nil {
		conn.Close(t.Context())
		t.Error("the old password works still")
	}
	if n := query[int64](t, c, db, `SELECT count(*) FROM pg_roles WHERE rolname LIKE 'dp\_loopback\_%'`); n != 1 {
		t.Errorf("%d loopback roles for one database", n)
	}
}

// Whoever made the role of a database's loopback before it was installed, as anybody with CREATEROLE can, could
// give it a password and ask in everybody's name, also in a session that began before. So it is dropped, or refused where
// it owns something. Since Postgres 16 who makes a role may grant it; before, whoever has CREATEROLE is trusted anyway.
func TestALoopbackThatIsAnothersIsRefused(t *testing.T) {
	c := cluster(t)
	db := c.Database(t)
	c.Exec(t, db, "CREATE ROLE eve LOGIN CREATEROLE PASSWORD 'pw'", "CREATE ROLE eve_too", "CREATE ROLE analyst", "CREATE SCHEMA theirs")
	loopback := "dp_loopback_" + query[string](t, c, db, `SELECT oid::text FROM pg_database WHERE datname = current_database()`)
	eve := connect(t, c.URL("eve", "pw", db))
	if _, err := eve.Exec(t.Context(), "CREATE ROLE "+loopback+" LOGIN PASSWORD 'known'"); err != nil {
		t.Fatal(err)
	}
	early := connect(t, c.URL(loopback, "known", db))
	c.Exec(t, db, "ALTER SCHEMA theirs OWNER TO "+loopback)
	config := Config{Admin: parse(t, c.SuperuserURL(db)), SidecarPassword: "side"}
	if _, err := Run(t.Context(), config); err == nil || !strings.Contains(err.Error(), loopback+" was there before") {
		t.Fatalf("got %v", err)
	}
	c.Exec(t, db, "DROP SCHEMA theirs")
	install(t, config)
	checkLoopback(t, c, db)
	c.Exec(t, db, "GRANT dp_analyst TO analyst")
	here := query[string](t, c, db, `SELECT dp_int.here()::text`)
	_, err := early.Exec(t.Context(), `SELECT dp_int.enqueue(gen_random_uuid(), 'analyst', 'linear', 'd', 1, NULL, 'y', '{x}', true, '{}', $1)`, here)
	if err == nil || !strings.Contains(err.Error(), "permission denied for schema dp_int") {
		t.Errorf("who was logged in before asks as another: %v", err)
	}
	kept := query[string](t, c, db, `SELECT $1::regrole::oid::text`, loopback)
	install(t, config) // it is ours now
	if again := query[string](t, c, db, `SELECT $1::regrole::oid::text`, loopback); again != kept {
		t.Errorf("the loopback was made again: %s and %s", kept, again)
	}

	const item = `SELECT ok || ' ' || detail FROM dp_check_install() WHERE item = 'dp_sidecar and the loopback are nobody else''s'`
	for _, role := range []string{"dp_sidecar", "dp_loopback", loopback} {
		c.Exec(t, db, "GRANT "+role+" TO eve_too", "GRANT eve_too TO eve")
		if got := query[string](t, c, db, item); !strings.HasPrefix(got, "false ") || !strings.Contains(got, "eve may become or grant "+role) || !strings.Contains(got, "eve_too may become or grant "+role) {
			t.Errorf("%s: %s", role, got)
		}
		if _, err := Run(t.Context(), config); (err == nil) != (role == "dp_sidecar") {
			t.Errorf("%s: %v", role, err)
		}
		c.Exec(t, db, "REVOKE "+role+" FROM eve_too")
	}
	// A loopback of another database may ask there, and gives that to nobody: who made dp_loopback may, also by such a name.
	other := "dp_loopback_" + query[string](t, c, db, `SELECT oid::text FROM pg_database WHERE datname = 'postgres'`)
	c.Exec(t, db, "CREATE ROLE "+other+" LOGIN IN ROLE dp_loopback")
	if got := query[string](t, c, db, item); got != "true as it should be" {
		t.Error(got)
	}
	c.Exec(t, db, "GRANT dp_loopback TO "+other+" WITH ADMIN OPTION")
	if got := query[string](t, c, db, item); !strings.Contains(got, other+" may become or grant dp_loopback") {
		t.Error(got)
	}
	if _, err := Run(t.Context(), config); err == nil {
		t.Errorf("%s may grant dp_loopback, and nobody says so", other)
	}
	c.Exec(t, db, "DROP ROLE "+other)
	c.Exec(t, db, "GRANT dp_owner TO eve", "GRANT dp_admin TO eve, eve_too WITH ADMIN OPTION")
	if got := query[string](t, c, db, item); got != "true as it should be; beside superusers eve may become dp_owner, who is trusted with everything; eve_too may make stewards" {
		t.Error(got)
	}
	install(t, config)
}

func query[T any](t *testing.T, c *localpg.Cluster, db, sql string, args ...any) T {
	t.Helper()
	rows, _ := connect(t, c.SuperuserURL(db)).Query(t.Context(), sql, args...)
	v, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[T])
	if err != nil {
		t.Fatalf("%v\n%s", err, sql)
	}
	return v
}

type login struct{ User, Password string }

// loopbackLogin is what a dump of the database holds.
func loopbackLogin(t *testing.T, c *localpg.Cluster, db string) login {
	t.Helper()
	option := func(name string) string {
		return query[string](t, c, db, `SELECT substr(o, length($1) + 2) FROM pg_user_mappings, unnest(umoptions) AS o WHERE srvname = 'dp_loop' AND o LIKE $1 || '=%'`, name)
	}
	return login{option("user"), option("password")}
}

func checkLoopback(t *testing.T, c *localpg.Cluster, db string) {
	t.Helper()
	if detail := query[string](t, c, db, `SELECT detail FROM dp_check_install() WHERE item LIKE 'the loopback %' AND ok`); !strings.HasSuffix(detail, "as it should be") {
		t.Errorf("the loopback of %s: %s", db, detail)
	}
}

func TestReinstallMovesTheLoopback(t *testing.T) {
	c := cluster(t)
	db := c.Database(t)
	config := Config{Admin: parse(t, c.SuperuserURL(db)), LoopbackPort: 1}
	r, err := Run(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	if r.Checks[0].OK {
		t.Error("a loopback to port 1 works")
	}
	config.LoopbackPort = uint16(c.Port())
	install(t, config)
	config.LoopbackPort = 0
	install(t, config)
}

// Up, down and up again, with nothing left in between but roles that other databases may use,
// and what keeps a frozen column of somebody's table.
func TestMigrateUpDownUp(t *testing.T) {
	c := cluster(t)
	db := c.Database(t)
	admin := parse(t, c.SuperuserURL(db))
	config := Config{Admin: admin, SidecarPassword: "side"}
	install(t, config)
	c.Exec(t, db, `CREATE TABLE public.kept (day date); INSERT INTO public.kept VALUES ('2026-01-01'); SELECT dp_freeze('public.kept', 'day')`)
	versions := append([]int{0}, sql.Versions()...)
	for _, want := range slices.Backward(versions[:len(versions)-1]) {
		got, err := Down(t.Context(), admin)
		if err != nil || got != want {
			t.Fatalf("down to %d: got %d, %v", want, got, err)
		}
		if v, err := Version(t.Context(), admin); err != nil || v != want {
			t.Fatalf("version after down to %d: %d, %v", want, v, err)
		}
	}
	var left string
	err := connect(t, c.SuperuserURL(db)).QueryRow(t.Context(), `
		SELECT concat_ws(', ',
		  (SELECT string_agg(nspname, ', ') FROM pg_namespace WHERE nspname IN ('dp', 'dp_int')),
		  (SELECT string_agg(rolname, ', ') FROM pg_roles WHERE rolname LIKE 'dp\_%'),
		  (SELECT string_agg(proname, ', ') FROM pg_proc WHERE proname LIKE 'dp\_%'),
		  (SELECT string_agg(srvname, ', ') FROM pg_foreign_server))`).Scan(&left)
	if err != nil || left != "dp_owner, dp_refuse_change" {
		t.Errorf("left behind: %s %v", left, err)
	}
	if _, err := connect(t, c.SuperuserURL(db)).Exec(t.Context(), `UPDATE public.kept SET day = day + 1`); err == nil {
		t.Error("the frozen column changed")
	}
	c.Exec(t, db, `DROP TABLE public.kept; DROP FUNCTION public.dp_refuse_change; DROP ROLE dp_owner`)
	install(t, config)
}

// Between the migration that gives accounts more sums and the functions that add them up, an
// older build's functions charge nothing: also where an upgrade was taken back before.
func TestNothingIsChargedBetweenSumsAndTheirFunctions(t *testing.T) {
	const before, sums = 21, 22
	c := cluster(t)
	db := c.Database(t)
	admin := parse(t, c.SuperuserURL(db))
	config := Config{Admin: admin}
	install(t, config)
	for at := Latest(); at > before; {
		var err error
		if at, err = Down(t.Context(), admin); err != nil {
			t.Fatal(err)
		}
	}
	c.Exec(t, db, `SET ROLE dp_owner; CREATE FUNCTION dp_int.ledger_append(e dp_int.ledger) RETURNS bigint LANGUAGE plpgsql AS 'BEGIN RETURN 1; END'`)
	if _, err := migrating(admin, func(m *migrate.Migrate) (int, error) { return before, migrateOne(m, before, +1) }); err != nil {
		t.Fatal(err)
	}
	const appends = `SELECT to_regprocedure('dp_int.ledger_append(dp_int.ledger)') IS NOT NULL`
	if v, err := Version(t.Context(), admin); err != nil || v != sums || query[bool](t, c, db, appends) {
		t.Errorf("at version %d an older build's function still charges: %v", v, err)
	}
	install(t, config)
	if !query[bool](t, c, db, appends) {
		t.Error("nothing can be charged after the upgrade")
	}
}

// Functions and operators of others, with the names of the system's own and arguments that fit a call better or come first
// in the search path, do not run with the rights of whoever installs, upgrades, adopts and uninstalls.
func TestInstallCallsNobodysFunctions(t *testing.T) {
	c := cluster(t)
	db := c.Database(t)
	c.Exec(t, db, `CREATE ROLE mallory LOGIN`, `GRANT CREATE ON SCHEMA public TO mallory`, `CREATE SCHEMA first AUTHORIZATION mallory`, `ALTER DATABASE `+db+` SET search_path = first, pg_catalog, public`,
		`SET search_path = pg_catalog; SET ROLE mallory;
		DO $$
		DECLARE
		  f record;
		BEGIN
		  CREATE FUNCTION first.trace() RETURNS text LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''a function of mallory runs as %'', current_user; END';
		  FOR f IN SELECT * FROM (VALUES ('public.concat_ws(text, oid, tid)', 'text'), ('public.format(text, regprocedure)', 'text'), ('public.format(text, integer, name)', 'text'), ('first.format(text, VARIADIC "any")', 'text'),
		                                 ('first.to_regclass(text)', 'regclass'), ('first.to_regrole(text)', 'regrole'), ('first.hashtext(text)', 'integer'), ('first.current_database()', 'name'), ('first.current_setting(text)', 'text'),
		                                 ('first.has_function_privilege(oid, text)', 'boolean'), ('first.pg_has_role(oid, text)', 'boolean'), ('first.clock_timestamp()', 'timestamptz'), ('first.quote_literal(text)', 'text')) AS f(signature, result) LOOP
		    IF f.signature !~ 'VARIADIC "any"' THEN  -- no function in PL/pgSQL takes these
		      EXECUTE format('CREATE FUNCTION %s RETURNS %s LANGUAGE plpgsql AS $f$ BEGIN PERFORM first.trace(); END $f$', f.signature, f.result);
		    END IF;
		  END LOOP;
		  CREATE FUNCTION first.equal(name, text) RETURNS boolean LANGUAGE plpgsql AS 'BEGIN PERFORM first.trace(); END';
		  CREATE OPERATOR first.= (FUNCTION = first.equal, LEFTARG = name, RIGHTARG = text);
		  CREATE FUNCTION first.equal(oid, oid) RETURNS boolean LANGUAGE plpgsql AS 'BEGIN PERFORM first.trace(); END';
		  CREATE OPERATOR first.= (FUNCTION = first.equal, LEFTARG = oid, RIGHTARG = oid);
		END $$`)
	config := Config{Admin: parse(t, c.SuperuserURL(db)), SidecarPassword: "side"}
	// Not of install, which asks for checks: an analyst could create functions in schema public.
	if _, err := Run(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	if _, err := Run(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	for what, move := range map[string]func(context.Context, *pgx.ConnConfig) (int, error){"up": Up, "version": Version} {
		if _, err := move(t.Context(), config.Admin); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := Down(t.Context(), config.Admin); err != nil {
		t.Errorf("down: %v", err)
	}
	if _, err := Up(t.Context(), config.Admin); err != nil {
		t.Errorf("up again: %v", err)
	}
	if _, _, err := Adopt(t.Context(), config, true); err != nil && strings.Contains(err.Error(), "mallory") {
		t.Errorf("adopt: %v", err)
	}
	if _, _, err := Uninstall(t.Context(), config.Admin, filepath.Join(t.TempDir(), "ledger")); err != nil {
		t.Errorf("uninstall: %v", err)
	}
}

// What somebody made in our schemas before an installation, or later, does not run with the rights of whoever installs,
// upgrades, looks, adopts or uninstalls.
func TestNothingIsDoneWhereOthersHaveMadeSomething(t *testing.T) {
	c := cluster(t)
	c.Exec(t, "postgres", `CREATE ROLE mallory LOGIN PASSWORD 'pw'`)
	const table = `CREATE SCHEMA dp_int; CREATE TABLE dp_int.schema_migrations (version bigint PRIMARY KEY, dirty boolean NOT NULL); `
	for what, made := range map[string]string{
		"a trigger": table + `CREATE FUNCTION public.rise() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN EXECUTE 'ALTER ROLE mallory SUPERUSER'; RETURN NEW; END $$;
			CREATE TRIGGER rise BEFORE INSERT ON dp_int.schema_migrations FOR EACH ROW EXECUTE FUNCTION public.rise()`,
		"a view": `CREATE SCHEMA dp_int; CREATE FUNCTION public.rise() RETURNS bigint LANGUAGE plpgsql AS $$ BEGIN
				IF (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) THEN EXECUTE 'ALTER ROLE mallory SUPERUSER'; END IF; RETURN 0; END $$;
			CREATE VIEW dp_int.schema_migrations AS SELECT public.rise() AS version, false AS dirty`,
		"a schema":                 `CREATE SCHEMA dp_int`,
		"a function beside dblink": `CREATE SCHEMA dp_dblink; CREATE FUNCTION dp_dblink.dblink_connect(text, name) RETURNS text LANGUAGE sql AS 'SELECT NULL::text'`,
	} {
		db := c.Database(t)
		c.Exec(t, db, `GRANT CREATE ON DATABASE `+db+` TO mallory`, `GRANT CREATE ON SCHEMA public TO mallory`)
		if _, err := connect(t, c.URL("mallory", "pw", db)).Exec(t.Context(), made); err != nil {
			t.Fatal(err)
		}
		config := Config{Admin: parse(t, c.SuperuserURL(db)), SidecarPassword: "side"}
		for move, act := range map[string]func() error{
			"install": func() error { _, err := Run(t.Context(), config); return err },
			"version": func() error { _, err := Version(t.Context(), config.Admin); return err },
			"up":      func() error { _, err := Up(t.Context(), config.Admin); return err },
			"down":    func() error { _, err := Down(t.Context(), config.Admin); return err },
			"adopt":   func() error { _, _, err := Adopt(t.Context(), config, true); return err },
			"uninstall": func() error {
				_, _, err := Uninstall(t.Context(), config.Admin, filepath.Join(t.TempDir(), "ledger"))
				return err
			},
		} {
			if err := act(); !errors.Is(err, ErrForeign) || !strings.Contains(err.Error(), "of mallory") {
				t.Errorf("%s, %s: %v", what, move, err)
			}
		}
		if query[bool](t, c, db, `SELECT rolsuper FROM pg_roles WHERE rolname = 'mallory'`) {
			t.Fatalf("%s makes mallory a superuser", what)
		}
		if query[bool](t, c, db, `SELECT EXISTS (SELECT FROM pg_extension WHERE extname = 'dblink')`) {
			t.Errorf("%s: something was changed", what)
		}
		c.Exec(t, db, `DROP OWNED BY mallory CASCADE`)
		install(t, config)
	}
}

// A trigger on our own table that calls a function of somebody else's is found before a migration fires it.
func TestNothingIsDoneWhereATriggerOfOthersIs(t *testing.T) {
	c := cluster(t)
	db := c.Database(t)
	config := Config{Admin: parse(t, c.SuperuserURL(db))}
	install(t, config)
	c.Exec(t, db, `CREATE ROLE mallory LOGIN PASSWORD 'pw'`, `GRANT CREATE ON SCHEMA public TO mallory`, `GRANT USAGE ON SCHEMA dp_int TO mallory`, `GRANT TRIGGER ON dp_int.schema_migrations TO mallory`)
	if _, err := Down(t.Context(), config.Admin); err != nil {
		t.Fatal(err)
	}
	if _, err := connect(t, c.URL("mallory", "pw", db)).Exec(t.Context(), `
		CREATE FUNCTION public.rise() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN EXECUTE 'ALTER ROLE mallory SUPERUSER'; RETURN NEW; END $$;
		CREATE TRIGGER rise BEFORE INSERT ON dp_int.schema_migrations FOR EACH ROW EXECUTE FUNCTION public.rise()`); err != nil {
		t.Fatal(err)
	}
	if _, err := Up(t.Context(), config.Admin); !errors.Is(err, ErrForeign) || !strings.Contains(err.Error(), "trigger rise on table dp_int.schema_migrations of mallory") {
		t.Error(err)
	}
	if query[bool](t, c, db, `SELECT rolsuper FROM pg_roles WHERE rolname = 'mallory'`) {
		t.Error("mallory is a superuser")
	}
	c.Exec(t, db, `DROP FUNCTION public.rise() CASCADE`)
	install(t, config)
	if query[bool](t, c, db, `SELECT has_table_privilege('mallory', 'dp_int.schema_migrations', 'TRIGGER')`) {
		t.Error("mallory keeps TRIGGER")
	}
}

// Nobody else creates anything in our schemas, whatever default privileges or whoever made a schema have given: it could
// fit a call better than ours does, and would run as dp_sidecar or dp_owner.
func TestNobodyElseCreatesInOurSchemas(t *testing.T) {
	c := cluster(t)
	db := c.Database(t)
	const (
		creates = `SELECT string_agg(n.nspname, ', ' ORDER BY n.nspname) FROM pg_namespace n WHERE n.nspname IN ('dp', 'dp_int', 'dp_dblink') AND (has_schema_privilege('mallory', n.oid, 'CREATE') OR n.nspowner = 'mallory'::regrole)`
		check   = `SELECT detail FROM dp_check_install() WHERE item = 'nobody else creates anything in the schemas of dpsidecar'`
	)
	c.Exec(t, db, `CREATE ROLE mallory LOGIN`, `GRANT CREATE ON DATABASE `+db+` TO mallory`, `ALTER DEFAULT PRIVILEGES GRANT ALL ON SCHEMAS TO mallory`, `ALTER DEFAULT PRIVILEGES GRANT ALL ON TABLES TO mallory`,
		`CREATE ROLE bob`, `SET ROLE mallory; CREATE SCHEMA dp_dblink; GRANT CREATE ON SCHEMA dp_dblink TO bob WITH GRANT OPTION; SET ROLE bob; GRANT CREATE ON SCHEMA dp_dblink TO PUBLIC`)
	config := Config{Admin: parse(t, c.SuperuserURL(db))}
	install(t, config)
	if got := query[*string](t, c, db, creates); got != nil {
		t.Errorf("mallory creates in %s", *got)
	}
	if query[bool](t, c, db, `SELECT has_schema_privilege('mallory', 'dp_int', 'USAGE') OR has_table_privilege('mallory', 'dp_int.schema_migrations', 'TRIGGER')`) {
		t.Error("mallory reaches dp_int")
	}
	if got := query[string](t, c, db, check); got != "as it should be" {
		t.Error(got)
	}
	c.Exec(t, db, `GRANT CREATE ON SCHEMA dp, dp_int, dp_dblink TO mallory`)
	if got := query[string](t, c, db, check); !strings.HasPrefix(got, "mallory in schema dp, mallory in schema dp_dblink, mallory in schema dp_int can: ") {
		t.Error(got)
	}
	install(t, config)
	if got := query[*string](t, c, db, creates); got != nil {
		t.Errorf("after another install mallory creates in %s", *got)
	}
	checkLoopback(t, c, db)
}

// Functions and views are replaced under readers, who notice nothing; an open
// transaction that has read ends the attempt soon, and with it what others wait for.
func TestReplacingCodeUnderReaders(t *testing.T) {
	c := cluster(t)
	db := c.Database(t)
	config := Config{Admin: parse(t, c.SuperuserURL(db))}
	install(t, config)
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan error)
	for range 3 {
		reader := connect(t, c.SuperuserURL(db))
		go func() {
			var err error
			for err == nil && ctx.Err() == nil {
				_, err = reader.Exec(context.WithoutCancel(ctx), `SELECT count(*) FROM dp.jobs`)
			}
			ended <- err
		}()
	}
	for range 3 {
		if _, err := Up(t.Context(), config.Admin); err != nil {
			t.Error(err)
		}
	}
	end()
	for range 3 {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	idle := connect(t, c.SuperuserURL(db))
	if _, err := idle.Exec(t.Context(), `BEGIN; SELECT * FROM dp.budget`); err != nil {
		t.Fatal(err)
	}
	if _, err := Up(t.Context(), config.Admin); err == nil || !strings.Contains(err.Error(), "idle in transaction") {
		t.Errorf("got %v", err)
	}
}

// A function that no file has any more goes, also where another such function calls it, and so
// does a former form of one that files name with its arguments.
func TestReplacingCodeDropsWhatNoFileHas(t *testing.T) {
	c := cluster(t)
	db := c.Database(t)
	config := Config{Admin: parse(t, c.SuperuserURL(db))}
	install(t, config)
	c.Exec(t, db, `SET ROLE dp_owner;
		CREATE FUNCTION dp_int.of_an_older_build(int) RETURNS int LANGUAGE sql RETURN $1;
		CREATE FUNCTION dp_int.also_of_it(int) RETURNS int LANGUAGE sql RETURN dp_int.of_an_older_build($1);
		RESET ROLE;
		CREATE FUNCTION public.dp_scales(text, float8, delta float8 DEFAULT NULL, over daterange DEFAULT NULL) RETURNS int LANGUAGE sql RETURN 1;
		ALTER FUNCTION public.dp_scales(text, float8, float8, daterange) OWNER TO dp_owner`)
	routines := func() (n int) {
		if err := connect(t, c.SuperuserURL(db)).QueryRow(t.Context(), `SELECT count(*) FROM pg_proc WHERE proowner = 'dp_owner'::regrole`).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	before := routines()
	if _, err := Up(t.Context(), config.Admin); err != nil {
		t.Fatal(err)
	}
	if after := routines(); after != before-3 {
		t.Errorf("%d functions, %d before with three that no file has", after, before)
	}
}

// A migration that the server refuses leaves the version where it was.
func TestRefusedMigrationCanBeRepeated(t *testing.T) {
	c := cluster(t)
	db := c.Database(t)
	config := Config{Admin: parse(t, c.SuperuserURL(db))}
	c.Exec(t, db, "CREATE SCHEMA dp")
	if v, err := Up(t.Context(), config.Admin); err == nil || v != 0 || !strings.Contains(err.Error(), "010") || strings.Contains(err.Error(), "BEGIN") {
		t.Fatalf("version %d, %v", v, err)
	}
	c.Exec(t, db, "DROP SCHEMA dp")
	install(t, config)
}

// Several containers that start at once each migrate.
func TestUpgradesWaitForEachOther(t *testing.T) {
	c := cluster(t)
	db := c.Database(t)
	admin := parse(t, c.SuperuserURL(db))
	config := Config{Admin: admin}
	install(t, config)
	for range 5 {
		if _, err := Down(t.Context(), admin); err != nil {
			t.Fatal(err)
		}
	}
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			if at, err := Up(t.Context(), admin); err != nil || at != Latest() {
				t.Errorf("version %d, %v", at, err)
			}
		})
	}
	all.Wait()
	install(t, config)
}

func TestNewerSchemaIsRefused(t *testing.T) {
	c := cluster(t)
	db := c.Database(t)
	c.Exec(t, db, "CREATE SCHEMA dp_int",
		"CREATE TABLE dp_int.schema_migrations (version bigint PRIMARY KEY, dirty boolean NOT NULL)",
		"INSERT INTO dp_int.schema_migrations VALUES (999, false)")
	if _, err := Up(t.Context(), parse(t, c.SuperuserURL(db))); !errors.Is(err, ErrNewer) {
		t.Errorf("got %v", err)
	}
}

// A dump without rows, restored, is named as what it is, with a way out that leads to an installation.
func TestTablesWithoutRowsAreNamed(t *testing.T) {
	c := cluster(t)
	db := c.Database(t)
	config := Config{Admin: parse(t, c.SuperuserURL(db)), SidecarPassword: "side"}
	install(t, config)
	c.Exec(t, db, "TRUNCATE dp_int.schema_migrations")
	if _, err := Run(t.Context(), config); !errors.Is(err, ErrSchemaOnly) {
		t.Errorf("got %v", err)
	}
	c.Exec(t, db, "INSERT INTO dp_int.account (accounting, epsilon, delta, cap) VALUES ('pure', 1, 0, 1)")
	if _, err := Run(t.Context(), config); err == nil || errors.Is(err, ErrSchemaOnly) { // never where dropping loses an account
		t.Errorf("with an account: %v", err)
	}
	c.Exec(t, db, "DROP SCHEMA dp, dp_int CASCADE")
	install(t, config)
}

func TestPasswordsArePrintableASCII(t *testing.T) {
	for _, p := range []string{"with space", "tab\t", "ümlaut", "\x00"} {
		if _, err := verifier(p); !errors.Is(err, errPassword) {
			t.Errorf("%q: %v", p, err)
		}
	}
}

// A password with every printable character is taken literally.
func TestVerifierIsPostgresOwn(t *testing.T) {
	c := localpg.Postgres(t)
	password := ""
	for b := byte('!'); b <= '~'; b++ {
		password += string(b)
	}
	conn := connect(t, c.SuperuserURL("postgres"))
	if _, err := conn.Exec(t.Context(), "CREATE ROLE verified LOGIN"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Exec(t, "postgres", "DROP ROLE verified") })
	if err := SetPassword(t.Context(), conn, "verified", password); err != nil {
		t.Fatal(err)
	}
	connect(t, c.URL("verified", password, "postgres"))
	if _, err := pgx.Connect(t.Context(), c.URL("verified", password+"x", "postgres")); err == nil {
		t.Error("another password works too")
	}
}

// No statement that a log or pg_stat_statements shows holds the loopback's password, whoever installs.
func TestNoStatementHoldsTheLoopbacksPassword(t *testing.T) {
	c, err := localpg.Start(t.Context(), localpg.Options{Settings: map[string]string{"shared_preload_libraries": "pg_stat_statements",
		"log_statement": "all", "log_min_duration_statement": "0", "log_parameter_max_length": "-1"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Stop() })
	bySuperuser, byInstaller := c.Database(t), c.Database(t)
	c.Exec(t, "postgres", "CREATE EXTENSION pg_stat_statements", "CREATE ROLE installer LOGIN CREATEROLE PASSWORD 'pw'", "ALTER DATABASE "+bySuperuser+" SET pg_stat_statements.track = 'all'")
	installer := Config{Admin: parse(t, c.URL("installer", "pw", byInstaller))}
	var missing *PrerequisiteError
	if _, err := Run(t.Context(), installer); !errors.As(err, &missing) {
		t.Fatal(err)
	}
	c.Exec(t, byInstaller, missing.Script)
	for _, how := range []struct {
		Config
		db string
	}{{installer, byInstaller}, {Config{Admin: parse(t, c.SuperuserURL(bySuperuser))}, bySuperuser}} {
		for range 2 { // makes it, and replaces it
			install(t, how.Config)
			password := loopbackLogin(t, c, how.db).Password
			if len(password) != 64 {
				t.Fatalf("a password of %d characters", len(password))
			}
			log, err := os.ReadFile(c.LogFile())
			if err != nil || !strings.Contains(string(log), "USER MAPPING") {
				t.Errorf("the log does not show what installs: %v", err)
			}
			for line := range strings.Lines(string(log)) {
				if strings.Contains(line, password) {
					t.Errorf("%s: the log holds the password: %s", how.Admin.User, line)
				}
			}
			// Its parameter is logged.
			if n := query[int64](t, c, "postgres", `SELECT count(*) FROM pg_stat_statements WHERE query LIKE '%' || $1 || '%'`, password); n != 0 {
				t.Errorf("%s: %d statements of pg_stat_statements hold the password", how.Admin.User, n)
			}
			if n := query[int64](t, c, "postgres", `SELECT count(*) FROM pg_stat_statements WHERE query LIKE '%USER MAPPING%'`); n == 0 {
				t.Error("pg_stat_statements does not show what installs")
			}
			checkLoopback(t, c, how.db)
		}
	}
}

// Whoever reaches the schema of dblink by a role of the system's may not call it; where everybody may, the
// check tells of whom that is true.
func TestOnlyTheOwnerCallsDblink(t *testing.T) {
	c := cluster(t)
	db := c.Database(t)
	config := Config{Admin: parse(t, c.SuperuserURL(db))}
	install(t, config)
	c.Exec(t, db, "CREATE ROLE ann LOGIN NOINHERIT PASSWORD 'pw' IN ROLE dp_analyst, pg_read_all_data")
	connections := func() error {
		conn := connect(t, c.URL("ann", "pw", db))
		_, err := conn.Exec(t.Context(), "SET ROLE pg_read_all_data")
		if err == nil {
			_, err = conn.Exec(t.Context(), "SELECT dp_dblink.dblink_get_connections()")
		}
		return err
	}
	if err := connections(); err == nil || !strings.Contains(err.Error(), "permission denied for function") {
		t.Errorf("calling dblink: %v", err)
	}
	const check = `SELECT CASE WHEN ok THEN '' ELSE 'wrong: ' END || detail FROM dp_check_install() WHERE item = 'only dp_owner reaches dblink'`
	if got := query[string](t, c, db, check); got != "as it should be" {
		t.Error(got)
	}
	c.Exec(t, db, "GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA dp_dblink TO PUBLIC; REVOKE EXECUTE ON FUNCTION dp_dblink.dblink_connect_u(text), dp_dblink.dblink_connect_u(text, text) FROM PUBLIC") // as where they are a provider's
	if err := connections(); err != nil {
		t.Error(err)
	}
	if got := query[string](t, c, db, check); !strings.HasPrefix(got, "wrong: ann may call dblink") {
		t.Error(got)
	}
	c.Exec(t, db, "REVOKE pg_read_all_data FROM ann")
	if got := query[string](t, c, db, check); !strings.HasPrefix(got, "as it should be; everybody may execute") {
		t.Error(got)
	}
	install(t, config)
	if got := query[string](t, c, db, check); got != "as it should be" {
		t.Error(got)
	}
}

// Where the functions of dblink are a provider's, nothing can be taken from everybody, and installing works.
func TestInstallWhereDblinkIsTheProviders(t *testing.T) {
	c := cluster(t)
	db := c.Database(t)
	c.Exec(t, db, "CREATE ROLE provider CREATEROLE LOGIN PASSWORD 'pw'", "CREATE ROLE installer LOGIN CREATEROLE PASSWORD 'pw'", "ALTER DATABASE "+db+" OWNER TO provider", "ALTER SCHEMA public OWNER TO provider",
		"CREATE SCHEMA dp_dblink AUTHORIZATION provider", "CREATE EXTENSION dblink SCHEMA dp_dblink", "GRANT USAGE ON FOREIGN DATA WRAPPER dblink_fdw TO provider WITH GRANT OPTION")
	config := Config{Admin: parse(t, c.URL("installer", "pw", db))}
	var missing *PrerequisiteError
	if _, err := Run(t.Context(), config); !errors.As(err, &missing) {
		t.Fatal(err)
	}
	if _, err := connect(t, c.URL("provider", "pw", db)).Exec(t.Context(), missing.Script); err != nil {
		t.Fatal(err)
	}
	install(t, config)
	if got := query[string](t, c, db, `SELECT detail FROM dp_check_install() WHERE item = 'only dp_owner reaches dblink'`); !strings.HasPrefix(got, "as it should be; everybody may execute") {
		t.Error(got)
	}
	checkLoopback(t, c, db)
}

// A dblink in another schema, where others call it, is moved by an administrator who knows that.
func TestInstallTellsHowToMoveDblink(t *testing.T) {
	c := cluster(t)
	db := c.Database(t)
	c.Exec(t, db, "CREATE EXTENSION dblink SCHEMA public")
	config := Config{Admin: parse(t, c.SuperuserURL(db))}
	_, err := Run(t.Context(), config)
	var missing *PrerequisiteError
	if !errors.As(err, &missing) || !strings.Contains(missing.Script, "\nALTER EXTENSION dblink SET SCHEMA dp_dblink;\n") || strings.Contains(missing.Script, "\nCREATE EXTENSION") {
		t.Fatalf("got %v\n%+v", err, missing)
	}
	c.Exec(t, db, missing.Script)
	install(t, config)
}

// Any login can take the lock of installations: who waits for it is told whose it is.
func TestWhoHoldsTheLockIsNamed(t *testing.T) {
	c := cluster(t)
	db := c.Database(t)
	c.Exec(t, db, "CREATE ROLE mallory LOGIN PASSWORD 'pw'")
	config := Config{Admin: parse(t, c.SuperuserURL(db))}
	holder := connect(t, c.URL("mallory", "pw", db))
	for _, act := range []func() error{
		func() error { _, err := Run(t.Context(), config); return err },
		func() error { _, err := Up(t.Context(), config.Admin); return err },
		func() error { _, _, err := Adopt(t.Context(), config, true); return err },
	} {
		if _, err := holder.Exec(t.Context(), `SELECT pg_advisory_lock(hashtext('dpsidecar install'))`); err != nil {
			t.Fatal(err)
		}
		if err := act(); !errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), fmt.Sprintf("session %d of role mallory", holder.PgConn().PID())) {
			t.Errorf("got %v", err)
		}
		if _, err := holder.Exec(t.Context(), `SELECT pg_advisory_unlock_all()`); err != nil {
			t.Fatal(err)
		}
		install(t, config)
	}
}

// A transaction that was prepared is no session's: the error says where it is seen.
func TestPreparedTransactionsAreNamed(t *testing.T) {
	c, err := localpg.Start(t.Context(), localpg.Options{Settings: map[string]string{"max_prepared_transactions": "1"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Stop() })
	db := c.Database(t)
	config := Config{Admin: parse(t, c.SuperuserURL(db))}
	install(t, config)
	c.Exec(t, db, `BEGIN; SELECT FROM dp.budget; PREPARE TRANSACTION 'mine'`)
	if _, err := Up(t.Context(), config.Admin); err == nil || !strings.Contains(err.Error(), "ROLLBACK PREPARED 'mine'") {
		t.Errorf("got %v", err)
	}
	c.Exec(t, db, `ROLLBACK PREPARED 'mine'`)
	if _, err := Up(t.Context(), config.Admin); err != nil {
		t.Error(err)
	}
}

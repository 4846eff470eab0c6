package tests

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

// An analyst with nothing but EXECUTE on dp_* tries what he can think of.
func TestAnAnalystCannot(t *testing.T) {
	w := newWorld(t, 10, 0)
	w.mustRegress(w.analyst, ask, w.dataset, 0.5) // a loopback is cached in this session
	victim := w.newAnalyst(w.person + "v")
	job := one[string](w, victim, `SELECT dp_submit('l1', $1, 0.5)::text`, w.dataset)
	for what, sql := range map[string]string{
		"read the table":            `SELECT * FROM public.{dataset}`,
		"read the ledger":           `SELECT * FROM dp.ledger`,
		"read the ledger's table":   `SELECT * FROM dp_int.ledger`,
		"read jobs' table":          `SELECT * FROM dp_int.job`,
		"register":                  `SELECT dp_register('x', 'public.{dataset}', 'amount', '{age}', 1)`,
		"raise the budget":          `SELECT dp_set_budget('{dataset}', 100, 0)`,
		"grant":                     `SELECT dp_grant('{dataset}', session_user)`,
		"enqueue as somebody else":  `SELECT dp_int.enqueue(gen_random_uuid(), 'steward', 'l1', '{dataset}', 1, 0, NULL, NULL, true, '{}', '{}')`,
		"charge":                    `SELECT dp_int.ledger_charge(1, 'x', gen_random_uuid(), '{}', 1, 1, 0)`,
		"publish":                   `SELECT dp_int.job_publish('{job}', gen_random_uuid(), 'x', '{a}', '{1}')`,
		"claim":                     `SELECT dp_int.job_claim(gen_random_uuid(), '1 h', NULL)`,
		"be a sidecar":              `SELECT dp_int.worker_beat(gen_random_uuid(), pg_backend_pid(), 'x')`,
		"drive the cached loopback": `SELECT dp_dblink.dblink_exec('dp_loop', 'SELECT 1')`,
		"open a loopback":           `SELECT dp_dblink.dblink_connect('mine', 'dp_loop')`,
		"read the loopback's login": `SELECT 1 / count(*) FROM pg_user_mappings WHERE srvname = 'dp_loop' AND umoptions IS NOT NULL HAVING count(*) = 0`,
		"become the owner":          `SET ROLE dp_owner`,
		"become the sidecar":        `SET ROLE dp_sidecar`,
		"be another session user":   `SET SESSION AUTHORIZATION dp_sidecar`,
		"cancel another's job":      `SELECT dp_cancel('{job}')`,
		"read another's job":        `SELECT dp_result('{job}')`,
		"write a release":           `INSERT INTO dp.releases (id) VALUES (gen_random_uuid())`,
		"delete a budget":           `DELETE FROM dp.budget`,
	} {
		sql = strings.NewReplacer("{dataset}", w.dataset, "{job}", job).Replace(sql)
		if _, err := w.analyst.Exec(context.Background(), sql); err == nil {
			t.Errorf("an analyst can %s: %s", what, sql)
		}
	}
	if others := one[int64](w, w.analyst, `SELECT count(*) FROM dp.jobs WHERE id = $1`, job); others != 0 {
		t.Error("an analyst sees another's job")
	}
}

// Objects of the caller's own, placed before ours, are never called.
func TestShadowsAreNotCalled(t *testing.T) {
	w := newWorld(t, 10, 0)
	w.exec(w.super, strings.ReplaceAll(`CREATE SCHEMA {me} AUTHORIZATION {me}`, "{me}", w.person))
	for _, sql := range []string{
		`CREATE FUNCTION {me}.sha256(bytea) RETURNS bytea LANGUAGE sql AS $$ SELECT '\x00'::bytea $$`,
		`CREATE FUNCTION {me}.evil(float8, integer) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'called as %', current_user; END $$`,
		`CREATE OPERATOR {me}.> (LEFTARG = float8, RIGHTARG = integer, FUNCTION = {me}.evil)`,
		`CREATE FUNCTION {me}.evil(integer, integer) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'called as %', current_user; END $$`,
		`CREATE OPERATOR {me}.> (LEFTARG = integer, RIGHTARG = integer, FUNCTION = {me}.evil)`,
		`CREATE FUNCTION {me}.strpos(text, text) RETURNS integer LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'called as %', current_user; END $$`,
		`CREATE TEMP TABLE job AS SELECT 1 AS id`,
		`CREATE FUNCTION pg_temp.clock_timestamp() RETURNS timestamptz LANGUAGE sql AS $$ SELECT 'epoch'::timestamptz $$`,
		`SET search_path = {me}, pg_temp, pg_catalog, public`,
	} {
		w.exec(w.analyst, strings.ReplaceAll(sql, "{me}", w.person))
	}
	w.mustRegress(w.analyst, ask, w.dataset, 0.5)
	w.exec(w.analyst, `CALL dp_run('l1', $1, 0.25)`, w.dataset)
	w.exec(w.analyst, `SELECT dp_predict(r::text, '{1,1,1}'), dp_predict_interval(r::text, '{1,1,1}'), dp_predict_interval(r, '{"age": 1, "region": 1, "insured": 1}'::text) FROM dp_last_release($1) r`, w.dataset)
	if w.spent() != 0.75 {
		t.Errorf("spent %g, want 0.75", w.spent())
	}
}

// SET ROLE does not change who asks: attribution and limits are the login's.
func TestSetRoleDoesNotChangeWhoAsks(t *testing.T) {
	w := newWorld(t, 10, 0)
	w.exec(w.super, fmt.Sprintf(`GRANT %[1]s TO analyst; GRANT dp_analyst TO analyst`, w.person))
	other := w.connect(w.system.AnalystURL())
	w.exec(other, `SET ROLE `+w.person)
	w.mustRegress(other, ask, w.dataset, 0.5) // a member of the grantee may ask, as himself
	if who := one[string](w, w.steward, `SELECT caller FROM dp.ledger WHERE dataset = $1 AND kind = 'charge'`, w.dataset); who != "analyst" {
		t.Errorf("charged to %s, want analyst", who)
	}
}

// Functions in the indexes and materialized views of an owner run with the owner's rights when somebody else maintains
// them, as autovacuum does as the first superuser. Who that is asks nothing, reads nothing and does nothing there.
func TestNobodyAsksInMaintenance(t *testing.T) {
	w := newWorld(t, 10, 0)
	w.mustRegress(w.analyst, ask, w.dataset, 0.5)
	release := one[string](w, w.analyst, `SELECT dp_last_release($1)::text`, w.dataset)
	me := w.person + "m"
	if err := w.system.Login(context.Background(), me, "dp_analyst"); err != nil {
		t.Fatal(err)
	}
	if err := w.system.Login(context.Background(), me+"s", "dp_admin"); err != nil {
		t.Fatal(err)
	}
	// Since Postgres 17 maintenance can be given to those who may do nothing else.
	keeper := w.super
	if one[int](w, w.super, `SELECT current_setting('server_version_num')::int`) >= 170000 {
		if err := w.system.Login(context.Background(), me+"k", "dp_analyst"); err != nil {
			t.Fatal(err)
		}
		w.exec(w.super, fmt.Sprintf(`GRANT pg_maintain, dp_admin TO %[1]sk; SELECT dp_grant('%[2]s', '%[1]sk')`, me, w.dataset))
		keeper = w.connect(w.system.URL(me + "k"))
	}
	for who, does := range map[string][]string{
		me: {
			`SELECT count(*) FROM dp.datasets`, `SELECT count(*) FROM dp.budget`, `SELECT count(*) FROM dp.blocks`, `SELECT count(*) FROM dp.jobs`, `SELECT count(*) FROM dp.releases`, `SELECT count(*) FROM dp.coefficients`,
			`SELECT count(*) FROM dp.scores`, `SELECT count(*) FROM dp.descriptions`, `SELECT count(*) FROM dp.suggested_scales`, `SELECT count(*) FROM dp.moments`,
			`SELECT dp_l1_regress('{dataset}', 0.25)`, `SELECT dp_l1_regress('{dataset}', 0.5)`, `SELECT dp_submit('l1', '{dataset}', 0.25)`, `SELECT dp_explain('l1', '{dataset}', 0.25)`, `SELECT dp_describe('{dataset}', 0.25)`,
			`SELECT dp_score('{release}', 0.25)`, `SELECT dp_moments('{dataset}', 0.25)`, `SELECT dp_coef('{release}')`, `SELECT dp_summary('{release}')`, `SELECT dp_predict('{release}', '{1,1,1}')`,
			`SELECT dp_last_release('{dataset}')`, `SELECT count(*) FROM dp_help()`, `SELECT dp_cancel(gen_random_uuid())`, `SELECT dp_l1_regress_by('{dataset}', 'insured', 0.25)`,
		},
		me + "s": {`SELECT dp_grant('{dataset}', '` + me + `')`, `SELECT dp_unregister('{dataset}')`, `SELECT count(*) FROM dp.datasets`},
	} {
		w.exec(w.super, strings.ReplaceAll(`CREATE SCHEMA {me} AUTHORIZATION {me}`, "{me}", who))
		conn := w.connect(w.system.URL(who))
		fill := strings.NewReplacer("{me}", who, "{dataset}", w.dataset, "{release}", release)
		w.exec(conn, fill.Replace(`CREATE TABLE {me}.heard (what text, answer text, error text);
			CREATE FUNCTION {me}.ask(what text) RETURNS void LANGUAGE plpgsql SET search_path = public AS $$ -- since Postgres 17 maintenance has a search_path of its own
			DECLARE answer text;
			BEGIN
			  IF session_user <> '{me}' THEN
			    EXECUTE what INTO answer;
			    INSERT INTO {me}.heard VALUES (what, answer);
			  END IF;
			EXCEPTION WHEN OTHERS THEN
			  INSERT INTO {me}.heard VALUES (what, NULL, SQLERRM);
			END $$;
			CREATE FUNCTION {me}.in_index(what text) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN PERFORM {me}.ask(what); RETURN what; END $$;
			CREATE FUNCTION {me}.definer(what text) RETURNS text LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN PERFORM {me}.ask(what); RETURN what; END $$;
			CREATE TABLE {me}.bait (what text)`))
		for _, what := range does {
			w.exec(conn, fill.Replace(`INSERT INTO {me}.bait VALUES ($1)`), fill.Replace(what))
		}
		w.exec(conn, fill.Replace(`CREATE INDEX bait_i ON {me}.bait ({me}.in_index(what)); CREATE MATERIALIZED VIEW {me}.shown AS SELECT {me}.definer(what) FROM {me}.bait`))
		w.exec(w.super, fill.Replace(fmt.Sprintf(`GRANT USAGE ON SCHEMA {me} TO %s`, one[string](w, keeper, `SELECT session_user`))))
		for _, maintain := range []struct {
			by   *pgx.Conn
			does string
		}{
			{w.super, `ANALYZE {me}.bait`}, {w.super, `REINDEX TABLE {me}.bait`}, {w.super, `REFRESH MATERIALIZED VIEW {me}.shown`}, {w.super, `SET ROLE {me}; ANALYZE {me}.bait; RESET ROLE`},
			{keeper, `ANALYZE {me}.bait`}, {keeper, `REINDEX TABLE {me}.bait`}, {keeper, `REFRESH MATERIALIZED VIEW {me}.shown`},
		} {
			w.exec(conn, fill.Replace(`TRUNCATE {me}.heard`))
			w.exec(maintain.by, fill.Replace(maintain.does))
			if n := one[int](w, conn, fill.Replace(`SELECT count(*) FROM {me}.heard`)); n < len(does) {
				t.Errorf("%s: %d of %d were tried", maintain.does, n, len(does))
			}
			// A view that has no rows at all has none for anybody.
			for _, told := range all[string](w, conn, fill.Replace(`SELECT DISTINCT concat_ws(': ', what, answer, error) FROM {me}.heard WHERE answer <> '0' OR error NOT LIKE 'dpsidecar answers nobody within ANALYZE%'`)) {
				t.Errorf("%s: %s", maintain.does, told)
			}
		}
	}
	// Who maintains what is his own reads what is his.
	w.exec(w.super, strings.ReplaceAll(`CREATE SCHEMA {me} AUTHORIZATION {me}`, "{me}", w.person))
	w.exec(w.analyst, strings.ReplaceAll(`CREATE MATERIALIZED VIEW {me}.mine AS SELECT * FROM dp.coefficients; REFRESH MATERIALIZED VIEW {me}.mine`, "{me}", w.person))
	if n := one[int](w, w.analyst, `SELECT count(*) FROM `+w.person+`.mine`); n == 0 {
		t.Error("a materialized view of the analyst's own shows nothing")
	}
	// Nobody does in another role, nor through dp.blocks, which calls a function: the hint says so.
	w.exec(w.super, strings.ReplaceAll(`CREATE ROLE {me}_team IN ROLE dp_analyst; GRANT {me}_team TO {me}; GRANT CREATE ON SCHEMA {me} TO {me}_team`, "{me}", w.person))
	days := w.person + "_days"
	w.exec(w.super, `CREATE TABLE public.`+days+` AS SELECT i::float8 AS x, i::float8 AS y, DATE '2026-01-01' AS day FROM generate_series(1, 10) i; GRANT SELECT ON public.`+days+` TO dp_sidecar`)
	w.exec(w.super, `SELECT dp_register($1, $2::text::regclass, 'y', '{x}', 1, block => 'day', block_width => '1 day', block_origin => '2026-01-01', block_rows => 10, block_is_fixed => 'a test')`, days, "public."+days)
	w.exec(w.steward, `SELECT dp_grant($1, $2)`, days, w.person)
	for _, does := range []string{`SET ROLE {me}_team; CREATE MATERIALIZED VIEW {me}.team AS SELECT * FROM dp.coefficients`, `RESET ROLE; CREATE MATERIALIZED VIEW {me}.blocks AS SELECT * FROM dp.blocks`} {
		_, err := w.analyst.Exec(context.Background(), strings.ReplaceAll(does, "{me}", w.person))
		w.wantError(err, "42501", "dpsidecar answers nobody within ANALYZE")
		for _, says := range []string{"but not dp.blocks", "not by SET ROLE"} {
			if !strings.Contains(hint(err), says) {
				t.Errorf("%s: the hint is %q", does, hint(err))
			}
		}
	}
	if spent := w.spent(); spent != 0.5 {
		t.Errorf("spent %g, want 0.5", spent)
	}
}

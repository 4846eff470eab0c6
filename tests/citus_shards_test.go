package tests

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"dpsidecar/internal/dev"
	"dpsidecar/internal/install"
)

// The owner of a distributed table may change a shard on a worker, where the coordinator's catalogue shows nothing of
// it, and give columns domains whose constraints are functions of his. None of these runs as dp_sidecar: all of them
// would raise an error. And dp_sidecar has the same settings on all nodes. Takes about 25 s.
func TestOwnersRunNothingOnCitus(t *testing.T) {
	t.Parallel()
	d := newDistributed(t, dev.Options{})
	if _, err := d.Serve(context.Background()); err != nil {
		t.Fatal(err)
	}
	w := &world{T: t, system: d.System, person: "analyst", dataset: "owned"}
	people := w.people()
	w.super, w.steward, w.analyst = people["superuser"], people["steward"], people["analyst"]
	w.exec(w.super, `SET citus.shard_count = 4`)
	w.exec(w.super, `CREATE ROLE own; CREATE SCHEMA own AUTHORIZATION own; GRANT USAGE ON SCHEMA own TO dp_sidecar`)
	w.domainsRunNothing()
	w.shardsRunNothing(w.connect(d.worker(0)))
	w.shardsAreNotFrozen()
	w.rolesAreTheSame(d)
}

// mine runs as an expression of the owner's: for dp_sidecar it is an error.
const mine = `CREATE FUNCTION own.mine(float8) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN IF current_user = 'dp_sidecar' THEN RAISE EXCEPTION 'ran as %', current_user; END IF; RETURN true; END $$`

func (w *world) domainsRunNothing() {
	w.exec(w.super, mine)
	for _, make := range []string{
		`CREATE DOMAIN own.money AS float8 CHECK (own.mine(VALUE))`,
		`CREATE DOMAIN own.key AS bigint CHECK (own.mine(VALUE))`,
		`CREATE TYPE own.color AS ENUM ('red', 'blue')`,
		`CREATE DOMAIN own.paint AS own.color CHECK (own.mine(length(VALUE::text)))`,
		`CREATE DOMAIN own.word AS text CHECK (own.mine(length(VALUE)))`,
		`CREATE TABLE own.owned (id bigint, person own.key, cost own.money, age float8, paint own.paint, word own.word)`,
	} {
		w.exec(w.super, make)
	}
	w.exec(w.super, `SELECT create_distributed_table('own.owned', 'id')`)
	w.exec(w.super, `INSERT INTO own.owned SELECT i, i / 2, i % 100, i % 50, (ARRAY['red', 'blue'])[1 + i % 2]::own.color, (ARRAY['yes', 'no'])[1 + i % 2] FROM generate_series(1, 2000) i`)
	w.exec(w.super, `CREATE TABLE own.persons (LIKE own.owned); SELECT create_distributed_table('own.persons', 'id'); INSERT INTO own.persons SELECT * FROM own.owned`)
	w.exec(w.super, `ALTER TABLE own.owned OWNER TO own`)
	w.exec(w.super, `ALTER TABLE own.persons OWNER TO own`)
	w.exec(w.super, `GRANT SELECT ON own.owned, own.persons TO dp_sidecar`)
	const register = `SELECT dp_register($1, ('own.' || $1)::regclass, 'cost', '{age,paint,word}', 1e9, 1e-6, scales => '{"cost": 100, "age": 50}', categories => '{"paint": ["red", "blue"], "word": ["yes", "no"]}', options => $2`
	w.exec(w.super, `GRANT USAGE ON SCHEMA own TO dp_admin`)
	w.exec(w.steward, register+`)`, "owned", theyStay)
	w.exec(w.steward, register+`, unit => 'person', max_rows => 2)`, "persons", `{"new_population": "a test"}`)
	for _, dataset := range []string{"owned", "persons"} {
		w.exec(w.steward, `SELECT dp_grant($1, 'analyst')`, dataset)
		for _, call := range []string{
			`SELECT * FROM dp_linear_regress($1, 1e4)`,
			`SELECT * FROM dp_l1_regress($1, 1e3)`,
			`SELECT * FROM dp_describe($1, 1e3)`,
		} {
			if _, err := w.analyst.Exec(context.Background(), call, dataset); err != nil {
				w.Errorf("%s of %s: %v", call, dataset, err)
			}
		}
	}
	w.exec(w.super, `CREATE VIEW own.made AS SELECT id, cost, age + 1 AS age FROM own.owned; GRANT SELECT ON own.made TO dp_sidecar`)
	_, err := w.steward.Exec(context.Background(), `SELECT dp_register('made', 'own.made', 'cost', '{age}', 1, options => '{"total": true, "account": "owned", "rows_stay": "a test"}')`)
	w.wantError(err, "22023", "of a domain with constraints")
	for _, make := range []string{ // nodes are asked by the name of the type
		`CREATE SCHEMA closed`, `CREATE TYPE closed.color AS ENUM ('red', 'blue')`, `CREATE DOMAIN closed.paint AS closed.color`,
		`CREATE TABLE own.painted (id bigint, cost float8, color closed.color, paint closed.paint)`, `SELECT create_distributed_table('own.painted', 'id')`,
		`INSERT INTO own.painted SELECT i, i % 100, (ARRAY['red', 'blue'])[1 + i % 2]::closed.color, 'red' FROM generate_series(1, 2000) i`, `GRANT SELECT ON own.painted TO dp_sidecar`,
	} {
		w.exec(w.super, make)
	}
	const painted = `SELECT dp_register('painted', 'own.painted', 'cost', '{color,paint}', 1e9, 1e-6, categories => '{"color": "enum", "paint": ["red", "*"]}', options => $1)`
	_, err = w.steward.Exec(context.Background(), painted, theyStay)
	w.wantError(err, "42501", "may not use the labels of a column of own.painted")
	w.exec(w.super, `GRANT USAGE ON SCHEMA closed TO dp_sidecar`)
	w.exec(w.steward, painted, theyStay)
	w.exec(w.steward, `SELECT dp_grant('painted', 'analyst')`)
	for _, call := range []string{`SELECT * FROM dp_linear_regress('painted', 1e4)`, `SELECT * FROM dp_l1_regress('painted', 1e3)`} {
		if _, err := w.analyst.Exec(context.Background(), call); err != nil {
			w.Errorf("%s: %v", call, err)
		}
	}
}

// shardsRunNothing changes a shard of own.visits, and a function, on a worker in every way that could make reading it run
// something, and asks.
func (w *world) shardsRunNothing(worker *pgx.Conn) {
	w.exec(w.super, `CREATE TABLE own.visits AS SELECT i AS id, (i % 100)::float8 AS cost, (i % 50)::float8 AS age FROM generate_series(1, 2000) i`)
	w.exec(w.super, `SELECT create_distributed_table('own.visits', 'id')`)
	w.exec(w.super, `ALTER TABLE own.visits OWNER TO own`)
	w.exec(w.super, `GRANT SELECT ON own.visits TO dp_sidecar`)
	w.exec(w.super, `CREATE FUNCTION own.twice(float8) RETURNS float8 LANGUAGE sql IMMUTABLE AS 'SELECT 2 * $1'; ALTER FUNCTION own.twice(float8) OWNER TO own`)
	w.exec(w.super, `SELECT create_distributed_function('own.twice(float8)')`)
	w.exec(w.super, `CREATE VIEW own.doubled AS SELECT id, own.twice(cost) AS cost, age FROM own.visits; GRANT SELECT ON own.doubled TO dp_sidecar`)
	w.exec(w.steward, `SELECT dp_register('visits', 'own.visits', 'cost', '{age}', 1e9, 1e-6, scales => '{"cost": 100, "age": 50}', options => $1)`, theyStay)
	w.exec(w.steward, `SELECT dp_register('doubled', 'own.doubled', 'cost', '{age}', 1e9, 1e-6, scales => '{"cost": 100, "age": 50}', options => '{"rows_stay": "a test", "account": "visits", "total": true}')`)
	w.exec(w.steward, `SELECT dp_grant('visits', 'analyst'), dp_grant('doubled', 'analyst')`)
	w.exec(worker, `SET citus.enable_manual_changes_to_shards = on`)
	w.exec(worker, `SET citus.override_table_visibility = off`)
	w.exec(worker, `SET citus.enable_ddl_propagation = off`)
	shard := one[string](w, worker, `SELECT oid::regclass::text FROM pg_class WHERE relnamespace = 'own'::regnamespace AND relname ~ '^visits_[0-9]+$' LIMIT 1`)
	eps := 1e3
	ask := func(dataset string) error {
		eps++
		_, err := w.analyst.Exec(context.Background(), `SELECT * FROM dp_linear_regress($1, $2)`, dataset, eps)
		return err
	}
	w.dataset = "visits"
	for _, attack := range []struct{ dataset, does, undoes, says string }{
		{"visits", `ALTER TABLE SHARD ENABLE ROW LEVEL SECURITY; CREATE POLICY mine ON SHARD USING (own.mine(cost))`,
			`DROP POLICY mine ON SHARD; ALTER TABLE SHARD DISABLE ROW LEVEL SECURITY`, "hides rows by row-level security"},
		{"visits", `ALTER TABLE SHARD RENAME TO kept; CREATE VIEW SHARD AS SELECT * FROM own.kept WHERE own.mine(cost); GRANT SELECT ON SHARD TO dp_sidecar`,
			`DROP VIEW SHARD; ALTER TABLE own.kept RENAME TO BARE`, "is another kind of relation"},
		{"visits", `ALTER TABLE SHARD ALTER cost TYPE own.color USING 'red'; CREATE FUNCTION own.number(own.color) RETURNS float8 LANGUAGE sql AS 'SELECT 1::float8'; CREATE CAST (own.color AS float8) WITH FUNCTION own.number(own.color) AS IMPLICIT`,
			`DROP FUNCTION own.number CASCADE; ALTER TABLE SHARD ALTER cost TYPE float8 USING 1`, "has other columns"},
		{"visits", `CREATE TABLE own.more () INHERITS (SHARD)`, `DROP TABLE own.more`, "has a child that is none of its shards"},
		{"visits", `CREATE INDEX mine ON SHARD (own.mine(cost))`, `DROP INDEX own.mine`, "may run function own.mine(double precision)"},
		{"visits", `CREATE STATISTICS own.mine ON (own.mine(cost)) FROM SHARD`, `DROP STATISTICS own.mine`, "may run function own.mine(double precision)"},
		{"visits", `CREATE INDEX harmless ON SHARD ((cost::int)); CREATE FUNCTION own.words(own.color) RETURNS text LANGUAGE sql AS 'SELECT ''red'''; ALTER FUNCTION own.words(own.color) OWNER TO own; CREATE CAST (own.color AS text) WITH FUNCTION own.words(own.color)`,
			`DROP FUNCTION own.words CASCADE; DROP INDEX own.harmless`, "may run a cast"},
		{"visits", `CREATE INDEX mine ON SHARD ((cost::own.money))`, `DROP INDEX own.mine`, "may run type own.money"},
		{"doubled", `CREATE OR REPLACE FUNCTION own.twice(float8) RETURNS float8 LANGUAGE sql IMMUTABLE AS 'SELECT CASE WHEN own.mine($1) THEN 2 * $1 END'`,
			`CREATE OR REPLACE FUNCTION own.twice(float8) RETURNS float8 LANGUAGE sql IMMUTABLE AS 'SELECT 2 * $1'`, "function 'own'.'twice'('pg_catalog'.'float8') is another one"},
	} {
		named := strings.NewReplacer("SHARD", shard, "BARE", strings.TrimPrefix(shard, "own."))
		if err := ask(attack.dataset); err != nil {
			w.Fatalf("before %s: %v", attack.does, err)
		}
		entries := w.entries()
		w.exec(worker, named.Replace(attack.does))
		w.wantError(ask(attack.dataset), "DP004", attack.says)
		if w.entries() != entries {
			w.Errorf("%s: charged", attack.does)
		}
		w.exec(worker, named.Replace(attack.undoes))
	}
	if err := ask("visits"); err != nil {
		w.Errorf("put right again: %v", err)
	}
	// A worker's own settings end no read.
	w.exec(worker, `ALTER DATABASE `+dev.Database+` SET idle_in_transaction_session_timeout = '5ms'`)
	id := one[string](w, w.analyst, `SELECT dp_submit('linear', 'visits', 900)`)
	w.eventually("a job is done", func() bool {
		return one[string](w, w.analyst, `SELECT status::text FROM dp.jobs WHERE id = $1::text::uuid`, id) == "done"
	})
	if tries := one[int](w, w.super, `SELECT attempt FROM dp_int.job WHERE id = $1::text::uuid`, id); tries != 1 {
		w.Errorf("%d tries, where a worker ends idle transactions", tries)
	}
	// What a function of a total view may leave in a session goes with it.
	w.within(10*time.Second, "no session of a job is left on a worker", func() bool {
		return one[int](w, worker, `SELECT count(*) FROM pg_stat_activity WHERE usename = 'dp_sidecar'`) == 0
	})
}

// shardsAreNotFrozen makes the trigger of dp_freeze for the coordinator's table alone, where it sees no UPDATE of a shard.
func (w *world) shardsAreNotFrozen() {
	w.exec(w.super, `CREATE TABLE own.daily (id bigint, day date NOT NULL, cost float8)`)
	w.exec(w.super, `SELECT create_distributed_table('own.daily', 'id')`)
	w.exec(w.super, `GRANT SELECT ON own.daily TO dp_sidecar`)
	w.exec(w.super, `SET citus.enable_ddl_propagation = off`)
	_, err := w.super.Exec(context.Background(), `SELECT dp_freeze('own.daily', 'day')`)
	w.wantError(err, "0A000", "is a table of Citus")
	w.exec(w.super, `CREATE TRIGGER zz_dp_freeze_day BEFORE UPDATE ON own.daily FOR EACH ROW WHEN (OLD.day IS DISTINCT FROM NEW.day) EXECUTE FUNCTION public.dp_refuse_change('day')`)
	w.exec(w.super, `ALTER TABLE own.daily ENABLE ALWAYS TRIGGER zz_dp_freeze_day`)
	w.exec(w.super, `RESET citus.enable_ddl_propagation`)
	w.exec(w.super, `INSERT INTO own.daily VALUES (1, '2026-01-01', 1)`)
	w.exec(w.super, `UPDATE own.daily SET day = '2026-02-01'`)
	_, err = w.steward.Exec(context.Background(), `SELECT dp_register('daily', 'own.daily', 'cost', '{id}', 1, block => 'day', block_width => '1 day', block_origin => '2026-01-01', options => $1)`, theyStay)
	w.wantError(err, "22023", "State why its values do not change with block_is_fixed")
}

// rolesAreTheSame has the roles on workers as they are where Citus came after dpsidecar.
func (w *world) rolesAreTheSame(d *distributed) {
	admin, err := pgx.ParseConfig(d.SuperuserURL())
	if err != nil {
		w.Fatal(err)
	}
	worker := w.connect(d.worker(1))
	w.exec(worker, `SET citus.enable_ddl_propagation = off`)
	w.exec(worker, `ALTER ROLE dp_sidecar RESET ALL`)
	w.exec(worker, `ALTER ROLE dp_admin RENAME TO nobodys`)
	check := func() string {
		checks, err := install.CheckAll(context.Background(), w.super)
		if err != nil {
			w.Fatal(err)
		}
		i := slices.IndexFunc(checks, func(c install.Check) bool { return strings.HasPrefix(c.Item, "workers of Citus") })
		if checks[i].OK {
			return ""
		}
		return checks[i].Detail
	}
	said := check()
	for _, missing := range []string{"role dp_admin", "search_path=pg_catalog", "constraint_exclusion=off", "track_functions=none", "pg_stat_statements.track=none", "statement_timeout=0", "idle_in_transaction_session_timeout=0"} {
		if !strings.Contains(said, missing) {
			w.Errorf("missing %s is not told: %s", missing, said)
		}
	}
	if _, err := install.Up(context.Background(), admin); err != nil {
		w.Fatal(err)
	}
	if said := check(); said != "" {
		w.Errorf("after another install: %s", said)
	}
}

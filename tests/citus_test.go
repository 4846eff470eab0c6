package tests

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"dpsidecar/internal/dev"
	"dpsidecar/internal/install"
)

// The how-to runs as it tells, on a coordinator and two workers. What the nodes add up is the fit that one node
// gives; a worker that fails and a shard that moves in mid-pass cost a try and no budget; and tables
// whose rows no job can read safely are refused. Takes about 25 s.
func TestCitus(t *testing.T) {
	t.Parallel()
	d := newDistributed(t, dev.Options{})
	stop, err := d.Serve(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	w := &world{T: t, system: d.System, dataset: "visits", person: "analyst"}
	people := w.people()
	w.super, w.steward, w.analyst = people["superuser"], people["steward"], people["analyst"]
	w.runPage("how-to/citus.md", people, "dpsidecar install")
	w.exec(w.super, `SET citus.shard_count = 4`)
	w.refusedOnCitus()
	w.fitsOnCitus()
	w.workersFail(d)
	stop()
	w.rolesGo(d)
}

// rolesGo uninstalls: the roles that nothing depends on are gone from all nodes, also those that Citus does not know as its
// own, as where it came after dpsidecar, and a role that stays on one node only is told.
func (w *world) rolesGo(d *distributed) {
	const late = `dp_loopback, dp_analyst, dp_admin`
	w.exec(w.super, `DELETE FROM pg_catalog.pg_dist_object WHERE classid = 'pg_authid'::regclass AND objid::regrole::text = ANY (string_to_array($1, ', '))`, late)
	workers := []*pgx.Conn{w.connect(d.worker(0)), w.connect(d.worker(1))}
	for _, worker := range workers {
		w.exec(worker, `SET citus.enable_ddl_propagation = off`)
		w.exec(worker, `REVOKE ALL ON DATABASE `+dev.Database+` FROM `+late)
	}
	w.exec(workers[1], `CREATE TABLE kept (); GRANT SELECT ON kept TO dp_admin`)
	admin, err := pgx.ParseConfig(d.SuperuserURL())
	if err != nil {
		w.Fatal(err)
	}
	_, stay, err := install.Uninstall(context.Background(), admin, filepath.Join(w.TempDir(), "export"))
	if err != nil {
		w.Fatalf("uninstall: %v", err)
	}
	if want := []string{"dp_sidecar", "dp_admin on " + strings.Replace(at(d.workers[1]), "', ", ":", 1)}; !slices.Equal(stay, want) { // visits is granted to dp_sidecar
		w.Errorf("uninstall says that %q stay, want %q", stay, want)
	}
	for i, want := range [][]string{{"dp_sidecar"}, {"dp_admin", "dp_sidecar"}} {
		if got := all[string](w, workers[i], `SELECT rolname::text FROM pg_roles WHERE rolname LIKE 'dp\_%' ORDER BY 1`); !slices.Equal(got, want) {
			w.Errorf("worker %d has the roles %q, want %q", i, got, want)
		}
	}
}

// registerHuge registers a relation of visits with a budget that leaves hardly any noise.
func (w *world) registerHuge(name, relation, placement, options string) error {
	_, err := w.steward.Exec(context.Background(), `SELECT dp_register($1, $2::text::regclass, 'cost', '{age,days}', 1e9, 1e-6, scales => '{"cost": 2000, "age": 50, "days": 8}', placement => $3, options => $4)`,
		name, relation, placement, options)
	if err == nil {
		w.exec(w.steward, `SELECT dp_grant($1, 'analyst')`, name)
	}
	return err
}

func (w *world) mustRegisterHuge(name, relation, placement, options string) {
	w.Helper()
	if err := w.registerHuge(name, relation, placement, options); err != nil {
		w.Fatal(err)
	}
}

const theyStay = `{"rows_stay": "a test", "new_population": "a test"}`

// refusedOnCitus registers what is on one node, and what cannot be registered.
func (w *world) refusedOnCitus() {
	if how := one[string](w, w.analyst, `SELECT distribution FROM dp.datasets WHERE dataset = 'visits'`); how != "public.visits by hash of patient_id" {
		w.Errorf("distribution: %s", how)
	}
	if !one[bool](w, w.steward, `SELECT bool_or(event::text LIKE '%public.visits by hash of patient_id%' AND event::text LIKE '%keeps their number%') FROM dp.ledger WHERE kind = 'budget'`) {
		w.Error("the ledger does not have the statement")
	}
	w.exec(w.super, `CREATE TABLE towns AS SELECT i::float8 AS cost, i::float8 AS age, i AS days FROM generate_series(1, 100) i`)
	w.exec(w.super, `GRANT SELECT ON towns TO dp_sidecar`)
	w.mustRegisterHuge("towns", "towns", "auto", `{}`)
	w.exec(w.super, `SELECT create_reference_table('towns')`)
	if _, err := w.analyst.Exec(context.Background(), `SELECT * FROM dp_linear_regress('towns', 1)`); err != nil {
		w.Errorf("a reference table: %v", err)
	}
	w.wantError(w.registerHuge("towns2", "towns", "auto", `{"rows_stay": "a test"}`), "22023", "are on one")
	w.exec(w.super, `CREATE TABLE plain AS SELECT * FROM visits; GRANT SELECT ON plain TO dp_sidecar`)
	w.mustRegisterHuge("plain", "plain", "memory", `{}`)
	w.exec(w.super, `CREATE TABLE later (LIKE visits); GRANT SELECT ON later TO dp_sidecar`)
	w.mustRegisterHuge("later", "later", "auto", `{}`)
	w.exec(w.super, `SELECT create_distributed_table('later', 'days')`)
	_, err := w.analyst.Exec(context.Background(), `SELECT * FROM dp_linear_regress('later', 1)`)
	w.wantError(err, "DP004", "on several nodes")
	for _, method := range []string{"append", "range"} {
		w.exec(w.super, fmt.Sprintf(`CREATE TABLE by_%s (LIKE visits); GRANT SELECT ON by_%[1]s TO dp_sidecar; SELECT create_distributed_table('by_%[1]s', 'patient_id', '%[1]s')`, method))
		w.wantError(w.registerHuge(method, "by_"+method, "auto", theyStay), "22023", "is distributed by "+method)
	}
	w.exec(w.super, `SET citus.shard_replication_factor = 2`)
	w.exec(w.super, `CREATE TABLE copied (LIKE visits); GRANT SELECT ON copied TO dp_sidecar; SELECT create_distributed_table('copied', 'patient_id')`)
	w.exec(w.super, `RESET citus.shard_replication_factor`)
	w.wantError(w.registerHuge("copied", "copied", "auto", theyStay), "22023", "several copies of a shard")
	for _, name := range []string{"solo1", "solo2"} { // one shard each, on different workers
		w.exec(w.super, fmt.Sprintf(`CREATE TABLE %s (LIKE visits); SELECT create_distributed_table('%[1]s', NULL, colocate_with => 'none')`, name))
	}
	w.exec(w.super, `CREATE VIEW solos AS SELECT * FROM solo1 UNION ALL SELECT * FROM solo2; GRANT SELECT ON solos TO dp_sidecar`)
	w.wantError(w.registerHuge("solos", "solos", "auto", `{"total": true, "new_population": "a test"}`), "22023", "public.solo1 on node group")
	if err := w.registerHuge("solos", "solos", "auto", `{"total": true, "new_population": "a test", "rows_stay": "a test"}`); err != nil {
		w.Error(err)
	}
	w.exec(w.super, `CREATE VIEW beside_towns AS SELECT s.* FROM solo1 s JOIN towns t ON t.days = s.days`)
	for _, alone := range []string{"solo1", "beside_towns"} {
		if how := one[*string](w, w.super, `SELECT dp_int.apart($1::text::regclass)`, alone); how != nil {
			w.Errorf("%s: %s", alone, *how)
		}
	}
	w.steward = w.connect(w.system.StewardURL()) // plans of before go on hiding shards
	w.exec(w.steward, `SET citus.override_table_visibility = off`)
	shard := one[string](w, w.super, `SELECT shard_name FROM citus_shards WHERE table_name = 'towns'::regclass LIMIT 1`)
	w.wantError(w.registerHuge("shard", shard, "auto", `{"new_population": "a test"}`), "22023", "is a shard of a distributed table")
}

// fitsOnCitus compares fits that workers add up with those of the same rows on one node.
func (w *world) fitsOnCitus() {
	w.mustRegisterHuge("there", "visits", "database", `{"rows_stay": "a test", "account": "visits"}`)
	w.exec(w.steward, `SELECT dp_set_budget('there', 1e9, 1e-6)`)
	for _, call := range []string{`SELECT * FROM dp_linear_regress($1, 1e4)`, `SELECT * FROM dp_huber_regress($1, 1e4, features => '{age}')`} {
		here, there := w.mustRegress(w.analyst, call, "plain"), w.mustRegress(w.analyst, call, "there")
		for j, c := range here {
			if got := there[j]; got.Term != c.Term || math.Abs(got.Coef-c.Coef) > 1e-3*math.Abs(c.Coef)+1e-2 {
				w.Errorf("%s: %v on the workers, %v on one node", call, got, c)
			}
		}
	}
	_, err := w.analyst.Exec(context.Background(), `SELECT * FROM dp_l1_regress('there', 1)`)
	w.wantError(err, "DP005", "stay in the database")
	if said := w.explain(w.analyst, `SELECT * FROM dp_explain('l1', 'visits', 0.1)`); said["placement"] != "memory" {
		w.Errorf("what is no sum: %v", said)
	}
}

// workersFail ends a worker, and moves a shard, while a pass of a slow data set runs.
func (w *world) workersFail(d *distributed) {
	w.exec(w.super, `CREATE FUNCTION public.wait(float8) RETURNS float8 LANGUAGE plpgsql AS $$ BEGIN IF random() < 0.003 THEN PERFORM pg_catalog.pg_sleep(0.05); END IF; RETURN $1; END $$`)
	w.exec(w.super, `CREATE VIEW public.slow AS SELECT patient_id, cost, public.wait(age) AS age, days FROM public.visits; GRANT SELECT ON slow TO dp_sidecar`)
	w.mustRegisterHuge("slow", "slow", "auto", `{"total": true, "account": "there", "rows_stay": "a test"}`)
	for i, fail := range []func(){
		func() {
			if err := d.workers[0].Restart(context.Background(), 1); err != nil {
				w.Error(err)
			}
		},
		func() {
			w.exec(w.connect(d.SuperuserURL()), `SELECT citus_move_shard_placement(min(shardid), '127.0.0.1', $1, '127.0.0.1', $2, 'block_writes')
				FROM pg_dist_shard JOIN pg_dist_placement USING (shardid) JOIN pg_dist_node USING (groupid) WHERE logicalrelid = 'visits'::regclass AND nodeport = $1`, d.workers[0].Port(), d.workers[1].Port())
		},
	} {
		entries, worker := w.entries(), w.connect(d.worker(0))
		id := one[string](w, w.analyst, `SELECT dp_submit('linear', 'slow', $1)`, 1e4-float64(i))
		w.eventually("a pass runs on a worker", func() bool {
			if said := one[string](w, w.analyst, `SELECT concat_ws(' ', status, sqlstate, error) FROM dp.jobs WHERE id = $1::text::uuid`, id); strings.HasPrefix(said, "done") || strings.HasPrefix(said, "failed") {
				w.Fatalf("job %d ended before a worker could fail: %s", i, said)
			}
			return one[bool](w, worker, `SELECT EXISTS (SELECT FROM pg_stat_activity WHERE usename = 'dp_sidecar' AND state = 'active' AND query LIKE '%worker_column_1%')`)
		})
		if asked := one[int](w, worker, `SELECT count(*) FROM pg_stat_activity WHERE usename = 'dp_sidecar' AND xact_start IS NOT NULL`); i == 1 && asked != 1 {
			w.Errorf("a job asks a worker on %d connections", asked)
		}
		fail()
		w.eventually("the job is done", func() bool {
			return one[string](w, w.analyst, `SELECT status::text FROM dp.jobs WHERE id = $1::text::uuid`, id) == "done"
		})
		if tries := one[int](w, w.super, `SELECT attempt FROM dp_int.job WHERE id = $1::text::uuid`, id); tries < 2 || w.entries() != entries+1 {
			w.Errorf("failure %d: %d tries, %d charges", i, tries, w.entries()-entries)
		}
	}
}

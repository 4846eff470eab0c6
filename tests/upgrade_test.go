package tests

import (
	"compress/gzip"
	"context"
	"io"
	"os"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"dpsidecar/internal/dev"
	"dpsidecar/internal/install"
	"dpsidecar/internal/ledger"
	"dpsidecar/internal/privacy"
)

// schema14 is a dump of a database of the last build whose functions came by
// migrations: one data set of 40 rows, two analysts' answers and one of a job, made
// by that build (pg_dump --inserts).
const schema14 = "testdata/schema14.sql.gz"

// oldWorld restores schema14 into a server of its own, as if it had been there from
// the beginning: with the OIDs that the dump could not bring.
func oldWorld(t *testing.T) *world {
	t.Helper()
	s, err := dev.Start(context.Background(), dev.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Stop() })
	const database = "old"
	s.Cluster.Exec(t, "postgres", "CREATE DATABASE "+database)
	s = s.In(database)
	w := &world{T: t, system: s, dataset: "claims", person: "analyst"}
	w.super = w.connect(s.SuperuserURL())
	file, err := os.Open(schema14)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	unzipped, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	dump, err := io.ReadAll(unzipped)
	if err != nil {
		t.Fatal(err)
	}
	script := strings.NewReplacer("{{database}}", database, "{{port}}", strconv.Itoa(s.Cluster.Port())).Replace(string(dump)) + `
		UPDATE dp_int.dataset SET relid = 'public.claims'::regclass;
		UPDATE dp_int.account_relation SET relid = 'public.claims'::regclass;
		GRANT CREATE, CONNECT ON DATABASE old TO dp_owner; GRANT CONNECT ON DATABASE old TO dp_loopback, dp_sidecar;`
	if _, err := w.super.PgConn().Exec(context.Background(), script).ReadAll(); err != nil {
		t.Fatal(err)
	}
	w.super = w.connect(s.SuperuserURL()) // the dump has emptied the search path
	if err := install.SetPassword(context.Background(), w.super, "dp_loopback", "loop"); err != nil {
		t.Fatal(err)
	}
	return w
}

// An upgrade from the schema before functions were put in place whole keeps
// registrations, budgets, grants, releases and the ledger, and goes on from there.
func TestUpgradeFromMigratedFunctions(t *testing.T) {
	t.Parallel()
	w := oldWorld(t)
	const kept = `SELECT release::text || term || coef FROM dp.coefficients ORDER BY 1`
	before := all[string](w, w.super, kept)
	const entries = `SELECT entries::text FROM dp_int.account`
	account := func() string { // with the entries of that build
		return one[string](w, w.super, `SELECT concat(a.spent, ' ', a.spends, ' ', count(*), ' ', encode((array_agg(l.hash ORDER BY l.seq DESC))[1], 'hex')) FROM dp_int.account a
			JOIN dp_int.ledger l ON l.account = a.id WHERE NOT l.event ? 'upgrade' GROUP BY a.id`)
	}
	spent, proven := account(), one[float64](w, w.super, `SELECT proven_epsilon::float8 FROM dp_int.account`)
	if len(before) == 0 || !strings.HasPrefix(one[string](w, w.super, `SELECT dp_version()`), "dpsidecar schema 14 ") {
		t.Fatal("the dump is not what it should be")
	}
	config, err := pgx.ParseConfig(w.system.SuperuserURL())
	if err != nil {
		t.Fatal(err)
	}
	if at, err := install.Up(context.Background(), config); err != nil || at != install.Latest() {
		t.Fatalf("version %d: %v", at, err)
	}
	w.super = w.connect(w.system.SuperuserURL())
	if after := all[string](w, w.super, kept); !reflect.DeepEqual(after, before) {
		t.Errorf("releases: %q, before %q", after, before)
	}
	if now := account(); now != spent {
		t.Errorf("the account: %s, before %s", now, spent)
	}
	if now := one[float64](w, w.super, `SELECT proven_epsilon::float8 FROM dp_int.account`); now > proven {
		t.Errorf("%v is proven, before %v", now, proven)
	}
	w.wantSums()
	if said := one[string](w, w.super, `SELECT string_agg(concat(event #>> '{upgrade,filters}', ' ', event #>> '{budget,account_epsilon}'), ',') FROM dp_int.ledger WHERE event ? 'upgrade'`); said != "all 4" {
		t.Errorf("the ledger says of the upgrade: %q", said)
	}
	if again, err := install.Up(context.Background(), config); err != nil || again != install.Latest() {
		t.Fatal(err)
	}
	upgraded := one[string](w, w.super, entries)
	w.steward = w.connect(w.system.StewardURL())
	if bad := all[string](w, w.steward, `SELECT item FROM dp_verify() WHERE NOT ok`); len(bad) > 0 {
		t.Errorf("the ledger: %q", bad)
	}
	if stale := all[string](w, w.super, `SELECT oid::regprocedure::text FROM pg_proc WHERE proowner = 'dp_owner'::regrole AND prosrc LIKE '%dp_int.schema_version(), current_setting%' AND prosrc NOT LIKE '%fingerprint%'`); len(stale) > 0 {
		t.Errorf("old functions are still there: %q", stale)
	}
	if _, err := w.system.Serve(context.Background()); err != nil {
		t.Fatal(err)
	}
	w.analyst = w.connect(w.system.URL("analyst"))
	first := w.mustRegress(w.analyst, `SELECT * FROM dp_linear_regress('claims', 0.5)`)
	if len(first) != 2 || one[string](w, w.super, entries) != upgraded {
		t.Errorf("a kept answer was charged again: %v", first)
	}
	w.mustRegress(w.analyst, `SELECT * FROM dp_huber_regress('claims', 0.125)`)
	if bad := all[string](w, w.steward, `SELECT item FROM dp_verify() WHERE NOT ok`); len(bad) > 0 {
		t.Errorf("the ledger after a new charge: %q", bad)
	}
}

// Jobs that are queued at the upgrade are done after it, and people's own views of
// every view of ours stay.
func TestUpgradeKeepsJobsAndViewsOfOthers(t *testing.T) {
	t.Parallel()
	w := oldWorld(t)
	w.analyst = w.connect(w.system.URL("analyst"))
	queued := one[string](w, w.analyst, `SELECT dp_submit('huber', 'claims', 0.125)::text`)
	w.exec(w.super, `CREATE SCHEMA mine; CREATE VIEW mine.version AS SELECT dp_version()`)
	for _, view := range []string{"datasets", "budget", "jobs", "releases", "coefficients", "ledger"} {
		w.exec(w.super, `CREATE VIEW mine.`+view+` AS SELECT * FROM dp.`+view)
	}
	w.upgrade()
	if _, err := w.system.Serve(context.Background()); err != nil {
		t.Fatal(err)
	}
	w.eventually("the job is done", func() bool { return one[string](w, w.analyst, `SELECT status FROM dp_status($1)`, queued) == "done" })
	if n := one[int64](w, w.super, `SELECT count(*) FROM mine.jobs WHERE id = $1::text::uuid AND status = 'done'`, queued); n != 1 {
		t.Error("a view of others does not show the job")
	}
}

func (w *world) upgrade() {
	w.Helper()
	config, err := pgx.ParseConfig(w.system.SuperuserURL())
	if err != nil {
		w.Fatal(err)
	}
	if at, err := install.Up(context.Background(), config); err != nil || at != install.Latest() {
		w.Fatalf("version %d: %v", at, err)
	}
	w.super, w.steward, w.analyst = w.connect(w.system.SuperuserURL()), w.connect(w.system.StewardURL()), w.connect(w.system.URL("analyst"))
}

// A dump of before locations were noted, restored and upgraded, is a copy: its relations
// have other OIDs. It can be adopted.
func TestAnOldDumpIsACopy(t *testing.T) {
	t.Parallel()
	w := oldWorld(t)
	w.exec(w.super, `UPDATE dp_int.dataset SET relid = 4000000000; UPDATE dp_int.account_relation SET relid = 4000000000`)
	w.upgrade()
	const kept = `SELECT * FROM dp_linear_regress('claims', 0.5)`
	_, err := regress(w.analyst, kept)
	w.wantError(err, "DP003", "dpsidecar adopt")
	config, err := pgx.ParseConfig(w.system.SuperuserURL())
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := install.Adopt(context.Background(), install.Config{Admin: config}, true); err != nil {
		t.Fatalf("%v: %s", err, hint(err))
	}
	if _, err := w.system.Serve(context.Background()); err != nil {
		t.Fatal(err)
	}
	w.mustRegress(w.analyst, kept)
	w.mustRegress(w.analyst, `SELECT * FROM dp_huber_regress('claims', 0.125)`)
	if wrong := w.verify(); len(wrong) > 0 {
		t.Error(wrong)
	}
}

// What was asked without a delta before the upgrade finds its answer after it, also where
// the data set has less than the delta that it got; without such answers requests get what
// the data set has.
func TestUpgradeKeepsTheDeltaOfKeptAnswers(t *testing.T) {
	t.Parallel()
	w := oldWorld(t)
	w.exec(w.super, `UPDATE dp_int.dataset SET delta = 1e-7`)
	w.exec(w.super, `INSERT INTO dp_int.dataset (name, account, relid, schema_name, relation_name, target, features, scales, options, epsilon, delta, cap, registered_by)
		SELECT 'unasked', account, relid, schema_name, relation_name, target, features, scales, options, epsilon, delta, cap, registered_by FROM dp_int.dataset`)
	w.upgrade()
	said := one[string](w, w.super, `SELECT string_agg(concat(d.name, ' ', (SELECT default_delta FROM dp.datasets s WHERE s.dataset = d.name)), ', ' ORDER BY d.name) FROM dp_int.dataset d`)
	if said != "claims 1e-06, unasked 1e-07" {
		t.Errorf("default deltas are %s", said)
	}
	w.mustRegress(w.analyst, `SELECT * FROM dp_linear_regress('claims', 0.5)`) // no sidecar: it must be kept
}

// A copy that was left nothing, by the one filter that there was, has nothing after the
// upgrade by any other: pure epsilons may add up to less than what their rho proved. That
// holds also where an account had all filters before it went back to an older dpsidecar.
func TestUpgradeLeavesAnAdoptedCopyNothing(t *testing.T) {
	t.Parallel()
	for name, older := range map[string]string{"never upgraded": `true`, "upgraded before": `event ? 'adopt'`} {
		t.Run(name, func(t *testing.T) {
			w := lonelyWorld(t, 4, 1e-6)
			w.mustCharge(privacy.BoundedRange{Epsilon: .5})
			w.exec(w.super, `BEGIN`)
			w.exec(w.super, `UPDATE dp_int.account SET epsilon = 1.1485699440908124, cap = spent, proven_epsilon = 1.1485699440908124`)
			w.exec(w.super, `SELECT dp_int.ledger_budget(id, $1, 'somebody', jsonb_build_object('adopt', jsonb_build_object('original', 'goes on'), 'budget', dp_int.describe_budget(a, a.epsilon, a.delta))) FROM dp_int.account a`, w.dataset)
			w.exec(w.super, `SET LOCAL session_replication_role = replica`)
			w.exec(w.super, `UPDATE dp_int.ledger SET event = event #- '{budget,account_epsilon}' WHERE `+older)
			w.exec(w.super, `SET LOCAL session_replication_role = origin`)
			w.exec(w.super, `SELECT dp_int.bring_filters()`)
			w.exec(w.super, `COMMIT`)
			if left := one[float64](w, w.steward, `SELECT epsilon_remaining FROM dp.budget`); left != 0 {
				t.Errorf("%v is left", left)
			}
			for _, e := range []privacy.Event{privacy.Pure{Epsilon: 1e-9}, privacy.ZCDP{Rho: 1e-12}} {
				_, err := w.charge(e)
				w.wantRefusal(err, "and 0 is left")
			}
			w.exec(w.steward, `SELECT dp_set_budget($1, 1, 1e-6)`, w.dataset)
			w.mustCharge(privacy.Pure{Epsilon: .5})
		})
	}
}

// The digest of what a data set was stated to be total with covers more since schema 40: an upgrade makes it anew, and
// takes no change for what was stated. A step down forgets no digest: below, what has changed would be read.
func TestUpgradeMakesDigestsAnew(t *testing.T) {
	t.Parallel()
	w := lonelyWorld(t, 1, 0)
	for _, name := range []string{"kept", "changed"} {
		w.exec(w.super, strings.NewReplacer("{}", name, "{table}", w.dataset).Replace(`CREATE VIEW public.{} AS SELECT amount, age + 1 AS age FROM public.{table}; GRANT SELECT ON public.{} TO dp_sidecar`))
		w.exec(w.steward, `SELECT dp_register($1, $1::text::regclass, 'amount', '{age}', 1, options => '{"total": true}')`, name)
	}
	w.exec(w.super, `CREATE OR REPLACE VIEW public.changed AS SELECT amount, age + 2 AS age FROM public.`+w.dataset)
	digests := func(when string) {
		t.Helper()
		said := all[string](w, w.super, `SELECT name || ' ' || (definition = dp_int.definition(relid)) FROM dp_int.dataset WHERE options ? 'total' ORDER BY name`)
		if !reflect.DeepEqual(said, []string{"changed false", "kept true"}) {
			t.Errorf("%s, the digests hold: %q", when, said)
		}
	}
	config, err := pgx.ParseConfig(w.system.SuperuserURL())
	if err != nil {
		t.Fatal(err)
	}
	w.refusesStepDown(39, "stated to be total")
	digests("down and up again")
	for at := install.Latest(); at > 39; {
		if at, err = install.Down(context.Background(), config); err != nil {
			t.Fatal(err)
		}
	}
	w.exec(w.super, `CREATE FUNCTION dp_int.definition(p_relid oid) RETURNS bytea LANGUAGE sql AS $$ SELECT sha256(ev_action::text::bytea) FROM pg_rewrite WHERE ev_class = p_relid $$; ALTER FUNCTION dp_int.definition OWNER TO dp_owner`) // an older one
	w.exec(w.super, `UPDATE dp_int.dataset SET definition = CASE name WHEN 'kept' THEN dp_int.definition(relid) ELSE '\x00' END WHERE options ? 'total'`)
	w.upgrade()
	digests("from older digests")
}

// Functions that another version returns other columns from are made anew by an upgrade from it: CREATE OR REPLACE refuses
// them.
func TestUpgradeReplacesFunctionsWithOtherColumns(t *testing.T) {
	t.Parallel()
	w := lonelyWorld(t, 1, 0)
	config, err := pgx.ParseConfig(w.system.SuperuserURL())
	if err != nil {
		t.Fatal(err)
	}
	for at := install.Latest(); at > 43; {
		if at, err = install.Down(context.Background(), config); err != nil {
			t.Fatal(err)
		}
	}
	w.exec(w.super, `CREATE FUNCTION dp_int.solve_moments(p_sums float8[], p_size int, p_noise float8, p_ridge float8, p_alike int,
		OUT b float8[], OUT a float8[], OUT covariance float8[], OUT noise float8[], OUT why_null text) LANGUAGE sql IMMUTABLE AS 'SELECT NULL::float8[], NULL::float8[], NULL::float8[], NULL::float8[], NULL::text';
		ALTER FUNCTION dp_int.solve_moments OWNER TO dp_owner;
		CREATE FUNCTION dp_int.job_claim(p_worker uuid, p_lease interval) RETURNS jsonb LANGUAGE sql AS 'SELECT NULL::jsonb';  -- with other arguments
		CREATE FUNCTION dp_int.counted(p_dataset bigint, p_row_count bigint) RETURNS void LANGUAGE sql AS '';
		ALTER FUNCTION dp_int.job_claim OWNER TO dp_owner; ALTER FUNCTION dp_int.counted OWNER TO dp_owner`)
	w.upgrade()
	if v, err := install.Version(context.Background(), config); err != nil || v != install.Latest() {
		t.Errorf("version %d, %v", v, err)
	}
}

// A step down counts every charge without a pure epsilon once, an upgrade those once that were planned to be the only one, and
// others twice, for accounts, callers and blocks, and proves of each what its charges prove.
func TestUpgradeCountsNoiseAlone(t *testing.T) {
	t.Parallel()
	h := newBlockHistory(t, "zcdp", 5)
	noise, only := privacy.Gaussian{NoiseMultiplier: 9}, privacy.Only{Event: privacy.Gaussian{NoiseMultiplier: 9}}
	if _, err := chargeAs(context.Background(), h.super, h.super, h.sixFeatures(4, 1e-6), h.person, ledger.Entry{Event: only, Rows: 1000}); err != nil { // to an account without blocks
		t.Fatal(err)
	}
	h.begin(2, 1e-6)
	for k, events := range [][]privacy.Event{{noise}, {only, only}, {only}, {privacy.Pure{Epsilon: .1}}} {
		for _, e := range events {
			if !h.charge(&blockCharge{lo: 2 * k, hi: 2*k + 2, event: e}) {
				t.Fatalf("%v is refused", e)
			}
		}
	}
	config, err := pgx.ParseConfig(h.system.SuperuserURL())
	if err != nil {
		t.Fatal(err)
	}
	rests := func() string {
		return one[string](h.world, h.super, `SELECT concat_ws('; ', (SELECT string_agg(rest::text, ' ' ORDER BY id) FROM dp_int.account WHERE spends > 0),
			(SELECT string_agg(rest::text, ' ' ORDER BY account, block) FROM dp_int.account_block), (SELECT string_agg(rest::text, ' ' ORDER BY account, caller) FROM dp_int.caller_total))`)
	}
	if now := rests(); now != "1 5; 2 2 2 2 1 1 0 0; 1 5" {
		t.Errorf("at first: %s", now)
	}
	for at := install.Latest(); at > 45; {
		if at, err = install.Down(context.Background(), config); err != nil {
			t.Fatal(err)
		}
	}
	if before := rests(); before != "1 4; 1 1 2 2 1 1 0 0; 1 4" {
		t.Errorf("down: %s", before)
	}
	// About what an older program proves of normal noise.
	h.exec(h.super, `UPDATE dp_int.account SET proven_epsilon = proven_epsilon * 1.08; UPDATE dp_int.caller_total SET proven_epsilon = proven_epsilon * 1.08`)
	h.upgrade()
	if again := rests(); again != "1 5; 2 2 2 2 1 1 0 0; 1 5" {
		t.Errorf("up again: %s", again)
	}
	if wrong := h.verify(); len(wrong) > 0 {
		t.Error(wrong)
	}
}

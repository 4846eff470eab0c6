package tests

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"dpsidecar/internal/dev"
	"dpsidecar/internal/install"
	"dpsidecar/internal/job"
	"dpsidecar/internal/ledger"
	"dpsidecar/internal/localpg"
)

// tool returns a program of Postgres of the server's version.
func (w *world) tool(name string) string {
	w.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		w.Skip(name + " is not installed")
	}
	major := one[string](w, w.super, `SELECT current_setting('server_version_num')::int / 10000 || '.'`)
	if version, err := exec.Command(path, "--version").Output(); err != nil || !strings.Contains(string(version), " "+major) {
		w.Skipf("%s is not of the server's version, %s", name, major)
	}
	return path
}

func (w *world) run(name string, args ...string) string {
	w.Helper()
	var errors strings.Builder
	cmd := exec.Command(w.tool(name), args...)
	cmd.Stderr = &errors
	out, err := cmd.Output()
	if err != nil {
		w.Fatalf("%s: %v\n%s", name, err, errors.String())
	}
	return string(out)
}

// copied is a database that was restored from a dump of a world's.
type copied struct {
	*world
	url func(person string) string
}

// restore dumps the world's database and restores it under another name, in a cluster
// that knows the same roles.
func (w *world) restore(c *localpg.Cluster, database string) *copied {
	w.Helper()
	dump := filepath.Join(w.TempDir(), "dump.sql")
	w.run("pg_dump", "-f", dump, w.system.SuperuserURL())
	c.Exec(w, "postgres", "CREATE DATABASE "+database)
	w.run("psql", "-qX", "-v", "ON_ERROR_STOP=1", "-f", dump, c.SuperuserURL(database))
	return w.at(func(person string) string {
		if person == localpg.Superuser {
			return c.SuperuserURL(database)
		}
		return strings.Replace(w.system.URL(person), fmt.Sprintf(":%d/%s?", w.system.Cluster.Port(), dev.Database), fmt.Sprintf(":%d/%s?", c.Port(), database), 1)
	})
}

// at is the same world at another address.
func (w *world) at(url func(person string) string) *copied {
	w.Helper()
	other := *w
	other.super, other.steward, other.analyst = w.connect(url(localpg.Superuser)), w.connect(url("steward")), w.connect(url(w.person))
	return &copied{&other, url}
}

func (c *copied) config() install.Config {
	c.Helper()
	admin, err := pgx.ParseConfig(c.url(localpg.Superuser))
	if err != nil {
		c.Fatal(err)
	}
	return install.Config{Admin: admin}
}

func (c *copied) adopt(originalGone bool) []install.Adopted {
	c.Helper()
	r, adopted, err := install.Adopt(context.Background(), c.config(), originalGone)
	if err != nil {
		c.Fatalf("%v: %s", err, hint(err))
	}
	for _, check := range r.Checks {
		if !check.OK && check.Item != "a dpsidecar is connected" {
			c.Errorf("%s: %s", check.Item, check.Detail)
		}
	}
	return adopted
}

// serve runs a sidecar on the copy until the test ends.
func (c *copied) serve() {
	c.Helper()
	c.sidecar(func(s *job.Config) {
		conn, err := pgx.ParseConfig(c.url("dp_sidecar"))
		if err != nil {
			c.Fatal(err)
		}
		s.Database.ConnConfig = conn
	})
	c.eventually("a sidecar serves the copy", func() bool { return one[int](c.world, c.super, `SELECT dp_int.sidecars_alive()`) > 0 })
}

// A restored database asks nobody anything, least of all the original, to which its
// loopback still points; installed anew it has a loopback of its own; adopted beside
// its original it has nothing left to spend, until a steward gives it a share.
func TestARestoredCopyIsNotItsOriginal(t *testing.T) {
	t.Parallel()
	w := lonelyWorld(t, 2, 0)
	if _, err := w.system.Serve(context.Background()); err != nil {
		t.Fatal(err)
	}
	first := w.mustRegress(w.analyst, ask, w.dataset, 0.5)
	c := w.restore(w.system.Cluster, "copy")
	before := w.entries()
	requests := map[string]string{
		"a kept one": `SELECT * FROM dp_l1_regress('` + w.dataset + `', 0.5)`, "a new one": `SELECT * FROM dp_l1_regress('` + w.dataset + `', 0.25)`,
		"dp_submit": `SELECT dp_submit('l1', '` + w.dataset + `', 0.25)`, "dp_explain": `SELECT * FROM dp_explain('l1', '` + w.dataset + `', 0.25)`,
	}
	for what, sql := range requests {
		_, err := c.analyst.Exec(context.Background(), sql)
		if what == "a kept one" && err == nil {
			t.Error("a copy answers before it is adopted")
		}
		c.wantError(err, "DP003", "dpsidecar adopt")
	}
	// Even one that takes itself for the original is refused at the other end.
	c.exec(c.super, `UPDATE dp_int.location SET database = (SELECT oid FROM pg_database WHERE datname = current_database()), anchor = 'dp_int.location'::regclass`)
	for _, what := range []string{"a new one", "dp_explain"} {
		_, err := c.analyst.Exec(context.Background(), requests[what])
		c.wantError(err, "DP003", "reaches another database of this cluster")
	}
	c.exec(c.super, `UPDATE dp_int.location SET database = 1`)
	if w.entries() != before {
		t.Fatalf("the original was charged: %d entries, before %d", w.entries(), before)
	}
	c.wantError(c.try(c.super, `SELECT dp_int.worker_beat(gen_random_uuid(), 1, '')`), "DP003", "dpsidecar adopt")
	for _, said := range all[string](c.world, c.super, `SELECT item || ': ' || detail FROM dp_check_install() WHERE NOT ok AND item <> 'a dpsidecar is connected'`) {
		if !strings.Contains(said, "dpsidecar adopt") || strings.Contains(said, "migrate up") || strings.Contains(said, "run dpsidecar install") {
			t.Errorf("what a copy needs is to be adopted, and it says %s", said)
		}
	}
	for _, sql := range []string{`SELECT dp_grant('` + w.dataset + `', 'steward')`, `SELECT dp_revoke('` + w.dataset + `', '` + w.person + `')`, `SELECT dp_abandon(id) FROM dp.jobs`,
		`SELECT dp_set_budget('` + w.dataset + `', 1, 0)`, // adopt would set another one
		`SELECT dp_register('x', 'public.` + w.dataset + `', 'amount', '{age}', 1)`} {
		c.wantError(c.try(c.steward, sql), "DP003", "dpsidecar adopt")
	}

	r, err := install.Run(context.Background(), c.config())
	if err != nil {
		t.Fatal(err)
	}
	for _, check := range r.Checks {
		if copy := strings.Contains(check.Item, "no copy of it"); strings.HasPrefix(check.Item, "the loopback") && !check.OK || copy && check.OK {
			t.Errorf("%s: %s", check.Item, check.Detail)
		}
	}
	w.mustRegress(w.connect(w.system.URL(w.person)), ask, w.dataset, 0.125)

	if adopted := c.adopt(false); len(adopted) != 1 || adopted[0].Remaining != 0 {
		t.Errorf("adopted %+v", adopted)
	}
	c.serve()
	if again := c.mustRegress(c.analyst, ask, w.dataset, 0.5); !reflect.DeepEqual(again, first) {
		t.Errorf("the copy says %v, what was released is %v", again, first)
	}
	_, err = regress(c.analyst, ask, w.dataset, 0.25)
	c.wantError(err, "DP002", "dp_set_budget")
	c.exec(c.steward, `SELECT dp_set_budget($1, 1, 0)`, w.dataset)
	c.mustRegress(c.analyst, ask, w.dataset, 0.25)
	if c.spent() != 0.75 || w.spent() != 0.625 {
		t.Errorf("spent %g in the copy, %g in the original", c.spent(), w.spent())
	}
	for _, w := range []*world{w, c.world} {
		if wrong := w.verify(); len(wrong) > 0 {
			t.Error(wrong)
		}
	}
	if _, _, err := install.Adopt(context.Background(), c.config(), true); err == nil {
		t.Error("what is no copy is adopted")
	} else {
		c.wantError(err, "55000", "--this-is-a-copy")
	}
}

// try returns the error of a statement.
func (w *world) try(conn *pgx.Conn, sql string, args ...any) error {
	_, err := conn.Exec(context.Background(), sql, args...)
	return err
}

// In another cluster relations have other OIDs, and some of them those that others had.
// Whoever takes the original's place goes on with what is left, and pays again for what
// was charged when the dump was made and not released.
func TestACopyInAnotherClusterTakesTheOriginalsPlace(t *testing.T) {
	t.Parallel()
	w := lonelyWorld(t, 2, 0)
	stop, err := w.system.Serve(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	first := w.mustRegress(w.analyst, ask, w.dataset, 0.5)
	stop()
	w.exec(w.analyst, `SELECT dp_submit('l1', $1, 0.25)`, w.dataset)
	claim := one[string](w, w.super, `SELECT dp_int.job_claim(gen_random_uuid(), '30 s', NULL)::text`)
	w.exec(w.super, `SELECT dp_int.job_charge((c ->> 'id')::uuid, (c ->> 'token')::uuid, 1000, '{"bounded_range": {"epsilon": 0.25}}', 0.25, 0.0078125, 0, '{}') FROM (SELECT $1::jsonb AS c) AS claim`, claim)
	waiting := one[string](w, w.analyst, `SELECT dp_submit('l1', $1, 0.125)::text`, w.dataset)

	other, err := localpg.Start(context.Background(), localpg.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { other.Stop() })
	for line := range strings.Lines(w.run("pg_dumpall", "--roles-only", "-d", w.system.SuperuserURL())) {
		if strings.Contains(line, " ROLE ") && !strings.Contains(line, localpg.Superuser+";") && !strings.Contains(line, localpg.Superuser+" WITH") || strings.HasPrefix(line, "GRANT dp_") {
			other.Exec(t, "postgres", strings.ReplaceAll(line, " GRANTED BY "+localpg.Superuser, ""))
		}
	}
	c := w.restore(other, "restored")
	_, err = regress(c.analyst, ask, w.dataset, 0.5)
	c.wantError(err, "DP003", "dpsidecar adopt")
	if claimed := one[bool](c.world, c.super, `SELECT dp_int.job_claim(gen_random_uuid(), '30 s', NULL) IS NOT NULL`); claimed {
		t.Error("a job of the original can be claimed in the copy")
	}
	if adopted := c.adopt(true); len(adopted) != 1 || adopted[0].Remaining != 1.25 {
		t.Errorf("adopted %+v", adopted)
	}
	c.exec(c.analyst, `SELECT dp_cancel($1)`, waiting)
	c.serve()
	if again := c.mustRegress(c.analyst, ask, w.dataset, 0.5); !reflect.DeepEqual(again, first) {
		t.Errorf("the copy says %v, what was released is %v", again, first)
	}
	c.mustRegress(c.analyst, ask, w.dataset, 0.25)
	if c.spent() != 1 || w.spent() != 0.75 {
		t.Errorf("spent %g in the copy, %g in the original", c.spent(), w.spent())
	}
	if wrong := c.verify(); len(wrong) > 0 {
		t.Error(wrong)
	}
	if status := one[string](c.world, c.analyst, `SELECT status FROM dp.jobs WHERE id = ($1::jsonb ->> 'id')::uuid`, claim); status != "abandoned" {
		t.Errorf("the job of the original is %s", status)
	}
	if event := one[string](c.world, c.steward, `SELECT event #>> '{adopt,original}' FROM dp.ledger WHERE event ? 'adopt'`); event != "gone" {
		t.Errorf("the ledger says that the original is %s", event)
	}
	// A new name for the same table is the same people.
	c.exec(c.steward, `SELECT dp_register('again', 'public.`+w.dataset+`', 'amount', '{age}', 2)`)
	if left := one[float64](c.world, c.steward, `SELECT epsilon_remaining FROM dp.budget WHERE dataset = 'again'`); left != 1 {
		t.Errorf("a second name has %g left", left)
	}
}

// What is registered must be in the copy as it was; the refusal changes nothing.
func TestACopyThatLacksSomethingIsNotAdopted(t *testing.T) {
	t.Parallel()
	w := lonelyWorld(t, 2, 0)
	w.exec(w.super, `CREATE VIEW public.seen AS SELECT amount, age FROM public.`+w.dataset)
	w.exec(w.super, `GRANT SELECT ON public.seen TO dp_sidecar`)
	w.exec(w.steward, `SELECT dp_register('seen', 'public.seen', 'amount', '{age}', 1)`)
	for _, gone := range []string{"gone1", "gone2"} { // what is dropped and no longer registered is not missed
		w.exec(w.super, `CREATE TABLE public.`+gone+` (amount float8, age float8)`)
		w.exec(w.super, `GRANT SELECT ON public.`+gone+` TO dp_sidecar`)
		w.exec(w.steward, `SELECT dp_register($1, $2::text::regclass, 'amount', '{age}', 1)`, gone, "public."+gone)
		w.exec(w.steward, `SELECT dp_unregister($1)`, gone)
		w.exec(w.super, `DROP TABLE public.`+gone)
	}
	c := w.restore(w.system.Cluster, "lacking")
	for what, change := range map[string]struct{ sql, says string }{
		"the relation is gone":    {`DROP TABLE public.{t} CASCADE`, "there is no relation"},
		"a column is gone":        {`ALTER TABLE public.{t} DROP COLUMN region`, "region"},
		"dp_sidecar may not read": {`REVOKE SELECT ON public.{t} FROM dp_sidecar`, "may not read"},
		"a view of others":        {`DROP VIEW public.seen; CREATE TABLE public.others (amount float8, age float8); CREATE VIEW public.seen AS SELECT * FROM public.others; GRANT SELECT ON public.seen TO dp_sidecar`, "reads relations that it did not read"},
		"a table for a view":      {`DROP VIEW public.seen; CREATE TABLE public.seen (amount float8, age float8); GRANT SELECT ON public.seen TO dp_sidecar`, "is no view, and was one"},
		"a view for a table":      {`ALTER TABLE public.{t} RENAME TO base; CREATE VIEW public.{t} AS SELECT * FROM public.base; GRANT SELECT ON public.{t} TO dp_sidecar`, "is a view, and was none"},
		"two accounts":            {`INSERT INTO dp_int.account (accounting, epsilon, delta, cap) VALUES ('pure', 1, 0, 1); INSERT INTO dp_int.account_relation (account, relid, relation) SELECT max(a.id), d.relid, 'public.{t}' FROM dp_int.account a, dp_int.dataset d WHERE d.name = '{t}' GROUP BY d.relid`, "several accounts"},
	} {
		c.exec(c.super, `BEGIN`)
		for _, statement := range splitStatements(change.sql) {
			c.exec(c.super, strings.ReplaceAll(statement, "{t}", w.dataset))
		}
		c.exec(c.super, `SET LOCAL ROLE dp_owner`)
		err := c.try(c.super, `SELECT * FROM dp_int.adopt(true)`)
		if err == nil {
			t.Errorf("%s: adopted", what)
		} else if c.wantError(err, "DP004", change.says); !strings.Contains(hint(err), "Nothing was changed") {
			t.Errorf("%s: %s", what, hint(err))
		}
		c.exec(c.super, `ROLLBACK`)
	}
	if !one[bool](c.world, c.super, `SELECT dp_int.is_copy()`) {
		t.Error("it is no copy any more")
	}
	c.adopt(true)
	if wrong := c.verify(); len(wrong) > 0 {
		t.Error(wrong)
	}
}

// A copy of the cluster's files cannot know that it is one; but it asks nobody else:
// where its loopback names the original's address, the call is refused there.
func TestACopyOfTheFilesDoesNotReachItsOriginal(t *testing.T) {
	t.Parallel()
	w := lonelyWorld(t, 2, 0)
	w.tool("pg_basebackup")
	if _, err := w.system.Serve(context.Background()); err != nil {
		t.Fatal(err)
	}
	c := w.on(w.clone("-d", w.system.Cluster.SuperuserURL("postgres")))
	before := w.entries()
	_, err := regress(c.analyst, ask, w.dataset, 0.5)
	c.wantError(err, "DP003", "another server, with a copy of this one's files")
	if w.entries() != before {
		t.Error("the original was charged")
	}
	c.adopt(false)
	c.serve()
	_, err = regress(c.analyst, ask, w.dataset, 0.5)
	c.wantError(err, "DP002", "dp_set_budget")
	w.mustRegress(w.analyst, ask, w.dataset, 0.5)
}

// The newest entries, cut off with their jobs and releases and the heads set back, or an
// older backup, are sound in themselves. Heads that were kept outside show it.
func TestHeadsNoticeACutLedger(t *testing.T) {
	t.Parallel()
	w := lonelyWorld(t, 10, 0)
	w.serve()
	w.mustRegress(w.analyst, ask, w.dataset, 0.5)
	w.mustRegress(w.analyst, ask, w.dataset, 0.25)
	ctx := context.Background()
	heads, err := ledger.Heads(ctx, w.super)
	if err != nil {
		t.Fatal(err)
	}
	account := one[int64](w, w.super, `SELECT account FROM dp_int.dataset WHERE name = $1`, w.dataset)
	var kept []ledger.Head
	for _, h := range heads {
		if h.Account == account {
			kept = append(kept, h)
		}
	}
	told := func(kept []ledger.Head) (wrong []string) {
		findings, err := ledger.Verify(ctx, w.super, kept...)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range findings {
			if !f.OK {
				wrong = append(wrong, f.Detail)
			}
		}
		return wrong
	}
	within := func(kept []ledger.Head) string {
		return one[string](w, w.super, `SELECT coalesce(string_agg(detail, '; '), '') FROM dp_verify($1) WHERE NOT ok`, kept)
	}
	if wrong := told(kept); len(kept) != 1 || len(wrong) > 0 || within(kept) != "" {
		t.Fatalf("%v %v %s", kept, wrong, within(kept))
	}
	for what, forged := range map[string]struct {
		head ledger.Head
		says string
	}{
		"another hash":  {ledger.Head{Account: account, Entry: 1, Hash: strings.Repeat("0", 64)}, "is another one"},
		"a gone one":    {ledger.Head{Account: 1 << 40, Entry: 1, Hash: kept[0].Hash}, "is gone"},
		"a later entry": {ledger.Head{Account: account, Entry: 1000, Hash: kept[0].Hash}, "is an older copy"},
	} {
		if wrong := told([]ledger.Head{forged.head}); len(wrong) != 1 || !strings.Contains(wrong[0], forged.says) {
			t.Errorf("%s: %q", what, wrong)
		}
		if said := within([]ledger.Head{forged.head}); !strings.Contains(said, forged.says) {
			t.Errorf("%s: dp_verify says %q", what, said)
		}
	}
	script := strings.ReplaceAll(`BEGIN; SET LOCAL session_replication_role = replica;
		CREATE TEMP TABLE cut ON COMMIT DROP AS SELECT id, job FROM dp_int.ledger WHERE account = {a} AND kind = 'charge' ORDER BY seq DESC LIMIT 1;
		DELETE FROM dp_int.coefficient WHERE release IN (SELECT id FROM dp_int.release WHERE charge IN (SELECT id FROM cut));
		DELETE FROM dp_int.release WHERE charge IN (SELECT id FROM cut);
		DELETE FROM dp_int.job WHERE id IN (SELECT job FROM cut);
		DELETE FROM dp_int.ledger WHERE id IN (SELECT id FROM cut);
		UPDATE dp_int.account SET spent = 0.5, spent_epsilon = 0.5, proven_epsilon = 0.5, spends = spends - 1, entries = entries - 1,
		       head = (SELECT hash FROM dp_int.ledger WHERE account = {a} ORDER BY seq DESC LIMIT 1) WHERE id = {a};
		UPDATE dp_int.caller_total SET spent = 0.5, spent_epsilon = 0.5, proven_epsilon = 0.5 WHERE account = {a}`, "{a}", fmt.Sprint(account))
	if _, err := w.super.PgConn().Exec(ctx, script).ReadAll(); err != nil {
		t.Fatal(err)
	}
	if wrong := told(nil); len(wrong) > 0 {
		t.Errorf("the cut ledger is not sound in itself: %v", wrong)
	}
	if wrong := told(kept); len(wrong) != 1 || !strings.Contains(wrong[0], "it was cut") {
		t.Errorf("the cut is not noticed: %v", wrong)
	}
	if said := within(kept); !strings.Contains(said, "was cut") {
		t.Errorf("dp_verify does not notice the cut: %q", said)
	}
	w.exec(w.super, `ROLLBACK`)
}

// The sidecar's log holds a head with every charge, as text and as JSON, and what it
// holds is what the ledger is held against.
func TestTheLogKeepsHeads(t *testing.T) {
	t.Parallel()
	w := lonelyWorld(t, 10, 0)
	var text, object bytes.Buffer
	for log, handler := range map[*bytes.Buffer]slog.Handler{&text: slog.NewTextHandler(&text, nil), &object: slog.NewJSONHandler(&object, nil)} {
		config, err := pgxpool.ParseConfig(w.system.URL("dp_sidecar"))
		if err != nil {
			t.Fatal(err)
		}
		ctx, end := context.WithCancel(context.Background())
		ended := make(chan error)
		go func() { ended <- job.New(job.Config{Database: config, Log: slog.New(handler)}).Run(ctx) }()
		w.eventually("a sidecar is there", func() bool { return one[int](w, w.super, `SELECT dp_int.sidecars_alive()`) > 0 })
		w.mustRegress(w.analyst, `SELECT * FROM dp_l1_regress($1, 0.25, options => '{"fresh": true}')`, w.dataset)
		end()
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
		heads, err := ledger.ReadHeads(bytes.NewReader(log.Bytes()))
		if err != nil || len(heads) != 1 {
			t.Fatalf("%v %v\n%s", heads, err, log)
		}
		if want := one[string](w, w.super, `SELECT format('account=%s entry=%s head=%s', id, entries, encode(head, 'hex')) FROM dp_int.account`); heads[0].String() != want {
			t.Errorf("the log holds %v, the account %s", heads[0], want)
		}
	}
}

// A sidecar that finds itself in a copy, in the midst of a job, goes on with nothing.
func TestAJobUnderWayDoesNotEndInACopy(t *testing.T) {
	t.Parallel()
	w := lonelyWorld(t, 10, 0)
	hand := w.worker()
	w.submit(0.5, `{}`)
	job, token := hand.claim()
	hand.read(job, token)
	w.submit(0.25, `{}`)
	w.abandon(charged)
	entries := w.entries()
	w.exec(w.super, `UPDATE dp_int.location SET database = 0`)
	_, err := hand.conn.Exec(context.Background(), `SELECT dp_int.job_publish($1, $2, 'by hand', '{x}', '{1}')`, job, token)
	w.wantError(err, "DP003", "is a copy")
	// Nor does it claim one that the original may release by now, and give its charge back.
	if !one[bool](w, hand.conn, `SELECT dp_int.job_claim(gen_random_uuid(), '30 s', NULL) IS NULL`) || w.entries() != entries {
		t.Error("a job is claimed in a copy")
	}
}

// Names that have gone over to another relation bind what they name now, not what had
// them before: a view in the place of its table, and two tables that exchanged names.
func TestACopyBindsNamesAsTheyAreNow(t *testing.T) {
	t.Parallel()
	w := lonelyWorld(t, 2, 0)
	w.exec(w.super, fmt.Sprintf(`ALTER TABLE public.%[1]s RENAME TO raw; CREATE VIEW public.%[1]s AS SELECT amount, age FROM public.raw; GRANT SELECT ON public.%[1]s TO dp_sidecar`, w.dataset))
	w.exec(w.steward, `SELECT dp_unregister($1)`, w.dataset)
	w.exec(w.super, `CREATE TABLE public.a (amount float8, age float8); CREATE TABLE public.b (amount float8, age float8)`)
	for _, relation := range []string{w.dataset, "a", "b"} {
		if err := w.register(relation, "{}"); err != nil {
			t.Fatal(err)
		}
	}
	const accounts = `SELECT DISTINCT format('%s %s', r.relid::regclass, r.account) FROM dp_int.account_relation r WHERE r.current ORDER BY 1`
	w.exec(w.super, `ALTER TABLE public.a RENAME TO c; ALTER TABLE public.b RENAME TO a; ALTER TABLE public.c RENAME TO b`)
	for _, relation := range []string{"a", "b"} {
		w.exec(w.steward, `SELECT dp_unregister($1)`, relation)
	}
	for _, relation := range []string{"a", "b"} {
		if err := w.register(relation, "{}"); err != nil {
			t.Fatal(err)
		}
	}
	before := all[string](w, w.super, accounts)
	c := w.restore(w.system.Cluster, "renamed")
	c.adopt(true)
	if after := all[string](c.world, c.super, accounts); !reflect.DeepEqual(after, before) {
		t.Errorf("bound %v, in the original %v", after, before)
	}
	if wrong := c.verify(); len(wrong) > 0 {
		t.Error(wrong)
	}
}

// A step back below where locations are noted would let a copy forget that it is one.
func TestACopyKeepsItsLocation(t *testing.T) {
	t.Parallel()
	w := lonelyWorld(t, 2, 0)
	c := w.restore(w.system.Cluster, "stepping")
	var err error
	for version := install.Latest(); err == nil; {
		if version < 17 {
			t.Fatalf("down to version %d", version)
		}
		version, err = install.Down(context.Background(), c.config().Admin)
	}
	if !strings.Contains(err.Error(), "is a copy") {
		t.Error(err)
	}
	if _, err := install.Up(context.Background(), c.config().Admin); err != nil {
		t.Fatal(err)
	}
	c.adopt(true)
}

// A copy that was restored without its location spends nothing either, before it is adopted.
func TestACopyWithoutItsLocationIsOne(t *testing.T) {
	t.Parallel()
	w := lonelyWorld(t, 2, 0)
	c := w.restore(w.system.Cluster, "nowhere")
	c.exec(c.super, `DELETE FROM dp_int.location`) // as with --exclude-table-data
	for _, sql := range []string{`SELECT dp_submit('l1', '` + w.dataset + `', 0.25)`, `SELECT * FROM dp_l1_regress('` + w.dataset + `', 0.25)`} {
		_, err := c.analyst.Exec(context.Background(), sql)
		c.wantError(err, "DP003", "dpsidecar adopt")
	}
	c.adopt(true)
	c.serve()
	c.mustRegress(c.analyst, ask, c.dataset, 0.25)
	if wrong := all[string](w, c.steward, `SELECT item || ': ' || detail FROM dp_verify() WHERE NOT ok`); len(wrong) > 0 {
		t.Error(wrong)
	}
}

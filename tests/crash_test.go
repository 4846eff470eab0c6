package tests

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/jackc/pgx/v5"

	"dpsidecar/internal/dev"
	"dpsidecar/internal/ledger"
)

// crashKills is how often the long form kills a sidecar; `make crash` sets it.
const crashKills = "DPSIDECAR_CRASH"

// Whatever ends, breaks or lies in the way, at whatever moment of a job: the
// ledger stays whole, every release is charged exactly once, nothing is stuck,
// callers are told the truth, and who asks again gets the kept result.
func TestCrashes(t *testing.T) {
	c := newCrash(t, sidecarBinary(t))
	least, _ := strconv.Atoi(os.Getenv(crashKills))
	if least == 0 {
		c.short()
	} else {
		c.long(least)
	}
	c.print()
}

// short kills at every moment, with one, two and four sidecars, and tries some
// other faults, not the same each time.
func (c *crash) short() {
	c.round(killed, moments, 1)
	c.round(killed, some(moments, 5), 2)
	c.round(killed, some(moments, 3), 4)
	for i, f := range some(c.faults(), 4) {
		c.round(f, some(f.moments, 1), []int{2, 1, 4}[i%3])
	}
}

// long is every fault at some of its moments, with one, two and four sidecars,
// and from then on until there are so many kills.
func (c *crash) long(kills int) {
	for all := false; !all || c.kills.Load() < int64(kills); all = true {
		for _, f := range append(c.faults(), gone, killed, killed, killed, killed) {
			for _, sidecars := range []int{1, 2, 4} {
				for _, at := range some(f.moments, 3) {
					if c.Failed() || all && c.kills.Load() >= int64(kills) {
						return
					}
					c.round(f, []moment{at, at, at}, sidecars)
				}
			}
		}
	}
}

// The invariants notice what they are there for.
func TestCrashesAreNoticed(t *testing.T) {
	binary := sidecarBinary(t)
	for name, mutant := range map[string]struct{ function, old, new string }{
		"results are not kept":        {"dp_int.kept_release(bigint, bytea)", "RETURN (", "RETURN NULL; RETURN ("},
		"what was read is given back": {"dp_int.refund_job(dp_int.job)", "j.state = 'charged'", "j.state IN ('charged', 'reading')"},
		"a charge is forgotten":       {"dp_int.refund_job(dp_int.job)", "PERFORM dp_int.ledger_refund(j.charge);", ""},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCrash(t, binary)
			c.mutate(mutant.function, mutant.old, mutant.new)
			if name == "what was read is given back" {
				c.mutate("dp_int.job_claim(uuid, interval, text)", "IF j.state <> 'reading' THEN", "IF true THEN")
			}
			c.tolerant = true
			defer func() { t.Logf("%d violations, the first: %.200s", len(c.violations), append(c.violations, "none")[0]) }()
			c.round(killed, []moment{atCharged, atCopying, atCharged}, 1)
			if len(c.violations) == 0 {
				t.Error("not noticed")
			}
		})
	}
}

const (
	callers   = 16
	patience  = 2 * time.Minute // for a job to end once nothing is broken any more
	longest   = 4 * time.Minute // that a call may take, whatever happens
	crashSeed = `
		CREATE TABLE public.few AS SELECT (5 + 2 * x + random())::float8 AS y, x, random() AS z FROM (SELECT random() AS x FROM generate_series(1, 300)) AS r;
		CREATE TABLE public.more AS SELECT (5 + 2 * x + random())::float8 AS y, x, random() AS z, date '2026-01-01' + i % 10 AS day FROM (SELECT i, random() AS x FROM generate_series(1, 2000) AS i) AS r;
		CREATE TABLE public.many AS SELECT (5 + 2 * x + random())::float8 AS y, x, random() AS z FROM (SELECT random() AS x FROM generate_series(1, 200000)) AS r;
		GRANT SELECT ON public.few, public.more, public.many TO dp_sidecar;

		-- charges under which somebody may have read
		CREATE TABLE public.read_under (charge bigint);
		CREATE FUNCTION public.note_read() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
		BEGIN INSERT INTO public.read_under VALUES (NEW.charge); RETURN NULL; END $$;
		CREATE TRIGGER note_read AFTER UPDATE ON dp_int.job FOR EACH ROW WHEN (NEW.state = 'reading') EXECUTE FUNCTION public.note_read();

		CREATE TABLE public.disk AS SELECT false AS full;
		CREATE FUNCTION public.refuse_write() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
		BEGIN
		  IF (SELECT "full" FROM public.disk) THEN RAISE 'could not extend file: No space left on device' USING ERRCODE = '53100'; END IF;
		  RETURN NEW;
		END $$;
		CREATE TRIGGER refuse_write BEFORE INSERT ON dp_int.ledger FOR EACH ROW EXECUTE FUNCTION public.refuse_write();
		CREATE TRIGGER refuse_write BEFORE INSERT ON dp_int.release FOR EACH ROW EXECUTE FUNCTION public.refuse_write();
		CREATE TRIGGER refuse_write BEFORE INSERT ON dp_int.coefficient FOR EACH ROW EXECUTE FUNCTION public.refuse_write()`
)

// crash is a system of its own, 16 people who ask and up to four sidecars that
// are disturbed.
type crash struct {
	*testing.T
	system   *dev.System
	sidecars []*process
	people   []*caller
	serial   int
	kills    atomic.Int64
	restart  sync.Mutex     // one at a time
	healing  []func()       // what a fault did and the round's end undoes
	healed   sync.Mutex     // guards healing, and the beginning of what happens against the round's end
	under    sync.WaitGroup // faults that happen now
	soon     sync.WaitGroup // what a fault has left to do

	tolerant   bool // violations are collected, not reported
	violations []string
	lines      map[string]*tally
}

func newCrash(t *testing.T, binary string) *crash {
	t.Helper()
	s, err := dev.Start(t.Context(), dev.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Stop() })
	c := &crash{T: t, system: s, lines: map[string]*tally{}}
	for range 4 {
		c.sidecars = append(c.sidecars, newProcess(t, binary, s))
	}
	c.admin(crashSeed)
	for _, d := range []string{"few", "more", "many"} {
		accounting := map[bool]string{true: "1e6, 0", false: "1e4, 1e-6"}[d == "few"]
		blocks := map[bool]string{true: `, block => 'day', block_width => '1 day', block_origin => '2026-01-01', block_is_fixed => 'nothing updates it', placement => 'database'`}[d == "more"]
		c.as(s.StewardURL(), fmt.Sprintf(`SELECT dp_register('%[1]s', 'public.%[1]s', 'y', '{x,z}', %[2]s%[3]s)`, d, accounting, blocks))
		c.as(s.StewardURL(), fmt.Sprintf(`SELECT dp_grant('%s', 'dp_analyst')`, d))
	}
	for i := range callers {
		name := fmt.Sprintf("crash%d", i)
		if err := s.Login(t.Context(), name, "dp_analyst"); err != nil {
			t.Fatal(err)
		}
		c.people = append(c.people, &caller{name: name, url: s.URL(name)})
	}
	return c
}

// admin runs statements as the superuser, as runs them as somebody else.
func (c *crash) admin(sql string) { c.Helper(); c.as(c.system.SuperuserURL(), sql) }

func (c *crash) as(url, sql string) {
	c.Helper()
	if err := runAs(url, sql); err != nil {
		c.Fatalf("%v\n%s", err, sql)
	}
}

func runAs(url, sql string) error {
	ctx, cancel := context.WithTimeout(context.Background(), longest)
	defer cancel()
	conn, err := connected(ctx, url)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	_, err = conn.PgConn().Exec(ctx, sql).ReadAll()
	return err
}

// connected waits for a server that restarts or recovers.
func connected(ctx context.Context, url string) (conn *pgx.Conn, err error) {
	for deadline := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		if conn, err = pgx.Connect(ctx, url); err == nil || time.Now().After(deadline) {
			return conn, err
		}
	}
}

func (c *crash) mutate(function, old, new string) {
	c.Helper()
	definition := c.queryText(`SELECT pg_get_functiondef($1::regprocedure)`, function)
	mutant := strings.Replace(definition, old, new, 1)
	if mutant == definition {
		c.Fatalf("%s has no %q", function, old)
	}
	c.admin(mutant)
}

func (c *crash) queryText(sql string, args ...any) string {
	c.Helper()
	return strings.Join(c.queryTexts(sql, args...), "\n")
}

// queryTexts returns the first column of a query as text.
func (c *crash) queryTexts(sql string, args ...any) []string {
	c.Helper()
	ctx := context.Background()
	conn, err := connected(ctx, c.system.SuperuserURL())
	if err != nil {
		c.Fatal(err)
	}
	defer conn.Close(ctx)
	rows, _ := conn.Query(ctx, sql, args...)
	out, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		c.Fatalf("%v\n%s", err, sql)
	}
	return out
}

func (c *crash) violated(format string, args ...any) {
	c.Helper()
	c.violations = append(c.violations, fmt.Sprintf(format, args...))
	if !c.tolerant {
		c.Errorf(format, args...)
	}
}

// round disturbs the sidecars while everybody asks, each at the given moments one
// after the other, then checks.
func (c *crash) round(f fault, at []moment, sidecars int) {
	c.Helper()
	started := time.Now()
	for i, p := range c.sidecars {
		if i < sidecars {
			if err := p.start(); err != nil {
				c.Fatal(err)
			}
		} else {
			p.kill()
		}
	}
	c.until("sidecars are there", func() bool { return c.queryText(`SELECT dp_int.sidecars_alive()::text`) == fmt.Sprint(sidecars) })
	hits := new(atomic.Int64)
	over := make(chan struct{})
	for i, p := range c.sidecars[:sidecars] {
		if i == 0 || f.everywhere {
			c.set(f, at, p, hits, over)
		}
	}
	c.serial++
	var asking sync.WaitGroup
	outcomes := make([]outcome, callers)
	for i, person := range c.people {
		asking.Go(func() { outcomes[i] = person.ask(i, c.request(f, i)) })
	}
	asking.Wait()
	c.healed.Lock()
	close(over)
	c.healed.Unlock()
	for _, p := range c.sidecars {
		p.set("", nil)
	}
	c.repair(sidecars)
	c.check(fmt.Sprintf("%s at %s, %d sidecars", f.name, at, sidecars), c.line(f, at), outcomes)
	c.line(f, at).hits += hits.Load()
	c.Logf("%s at %s, %d sidecars: hits %d, %v", f.name, at, sidecars, hits.Load(), time.Since(started).Round(time.Millisecond))
}

// set has the fault happen when one sidecar reaches the first moment, or at a random time,
// and then sets the next moment.
func (c *crash) set(f fault, at []moment, p *process, hits *atomic.Int64, over <-chan struct{}) {
	happen := func() {
		c.healed.Lock()
		select {
		case <-over:
			c.healed.Unlock()
			return
		default:
		}
		c.under.Add(1)
		c.healed.Unlock()
		defer c.under.Done()
		hits.Add(1)
		f.happen(c, p)
		if f.everywhere && len(at) > 1 {
			c.set(f, at[1:], p, hits, over)
		}
	}
	if at[0] == atAnyTime {
		time.AfterFunc(time.Duration(rand.Int64N(int64(400*time.Millisecond))), happen)
		return
	}
	p.set(at[0], happen)
}

// some chooses k of a list.
func some[T any](list []T, k int) []T {
	list = slices.Clone(list)
	rand.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	return list[:min(k, len(list))]
}

// until waits for what must come once nothing is broken any more.
func (c *crash) until(what string, ok func() bool) {
	c.Helper()
	for deadline := time.Now().Add(patience); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			c.violated("not within %v: %s", patience, what)
			return
		}
	}
}

// after has a fault do something a little later, before the round ends.
func (c *crash) after(wait time.Duration, do func()) {
	c.soon.Go(func() { time.Sleep(wait); do() })
}

// repair undoes what a fault did to the database, and sees that the sidecars run. What
// happens now ends first.
func (c *crash) repair(sidecars int) {
	c.Helper()
	c.under.Wait()
	c.soon.Wait()
	c.restart.Lock()
	defer c.restart.Unlock()
	c.healed.Lock()
	healing := c.healing
	c.healing = nil
	c.healed.Unlock()
	for _, undo := range slices.Backward(healing) {
		undo()
	}
	for _, p := range c.sidecars[:sidecars] {
		if err := p.start(); err != nil {
			c.Fatal(err)
		}
	}
}

func (c *crash) later(undo func()) {
	c.healed.Lock()
	defer c.healed.Unlock()
	c.healing = append(c.healing, undo)
}

// check asks everything again and then looks for violated invariants.
func (c *crash) check(round string, line *tally, outcomes []outcome) {
	c.Helper()
	c.until("sidecars are back", func() bool { return c.queryText(`SELECT (dp_int.sidecars_alive() > 0)::text`) == "true" })
	var asking sync.WaitGroup
	kept, errs := make([][]term, callers), make([]error, callers)
	for i := range outcomes {
		asking.Go(func() { kept[i], errs[i] = c.people[i].askUntilAnswered(outcomes[i].request) })
	}
	asking.Wait()
	c.until("every job has ended", func() bool {
		return c.queryText(`SELECT count(*)::text FROM dp_int.job WHERE finished_at IS NULL`) == "0"
	})
	line.rounds++
	for i, o := range outcomes {
		switch {
		case errs[i] != nil:
			c.violated("%s: %s asked again: %v (%s)", round, o.request, errs[i], hint(errs[i]))
		case o.err == nil && o.result != nil && !slices.Equal(kept[i], o.result):
			c.violated("%s: %s was %v and is %v", round, o.request, o.result, kept[i])
		}
		c.checkTold(line, o)
	}
	for what, wrong := range invariants {
		if found := c.queryText(wrong); found != "" {
			c.violated("%s: %s: %s", round, what, found)
		}
	}
	c.verify(round)
}

func (c *crash) verify(round string) {
	c.Helper()
	ctx := context.Background()
	steward, err := connected(ctx, c.system.StewardURL())
	if err != nil {
		c.Fatal(err)
	}
	defer steward.Close(ctx)
	findings, err := ledger.Verify(ctx, steward)
	if err != nil {
		c.Fatal(err)
	}
	for _, f := range findings {
		if !f.OK {
			c.violated("%s: %s: %s", round, f.Item, f.Detail)
		}
	}
}

// invariants are queries that find nothing once all jobs have ended.
var invariants = map[string]string{
	"a request was released twice": `SELECT request_hash::text FROM dp_int.release GROUP BY dataset, request_hash HAVING count(*) > 1`,
	"a charge stands and bought nothing": `SELECT c.id::text FROM dp_int.ledger c WHERE c.kind = 'charge'
		AND NOT EXISTS (SELECT FROM dp_int.ledger b WHERE b.refunds = c.id) AND NOT EXISTS (SELECT FROM dp_int.release r WHERE r.charge = c.id)`,
	"a release has no charge that stands": `SELECT r.id::text FROM dp_int.release r WHERE NOT EXISTS (SELECT FROM dp_int.ledger c WHERE c.id = r.charge
		AND c.kind = 'charge' AND c.job = r.job AND NOT EXISTS (SELECT FROM dp_int.ledger b WHERE b.refunds = c.id))`,
	"a job released on several charges": `SELECT job::text FROM dp_int.ledger WHERE kind <> 'budget' GROUP BY job
		HAVING count(*) FILTER (WHERE kind = 'charge') - count(*) FILTER (WHERE kind = 'refund') NOT IN (0, 1)`,
	"data were read and the charge was given back": `SELECT b.id::text FROM dp_int.ledger b JOIN public.read_under u ON u.charge = b.refunds`,
	"a release has not all its coefficients":       `SELECT r.id::text FROM dp_int.release r WHERE (SELECT count(*) FROM dp_int.coefficient k WHERE k.release = r.id) <> 3`,
	"a job has ended and follows another":          `SELECT id::text FROM dp_int.job WHERE follows IS NOT NULL`,
}

// tally is what happened in the rounds of one fault at one moment.
type tally struct {
	rounds, hits                         int64
	answered, refused, broken, unhelpful int64
}

func (c *crash) line(f fault, at []moment) *tally {
	key := f.name + "\t" + string(at[0])
	if len(at) > 3 {
		key = f.name + "\tall of them"
	}
	if c.lines[key] == nil {
		c.lines[key] = new(tally)
	}
	return c.lines[key]
}

// print shows the counts of all rounds.
func (c *crash) print() {
	var text strings.Builder
	t := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "fault\tat\trounds\tsprung\tanswered\ttold why\tcut off\ttold little")
	var keys []string
	for k := range c.lines {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	for _, k := range keys {
		l := c.lines[k]
		fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%d\t%d\t%d\n", k, l.rounds, l.hits, l.answered, l.refused, l.broken, l.unhelpful)
	}
	t.Flush()
	c.Logf("\n%s\n%d kills; %s; %d violations", &text, c.kills.Load(), c.queryText(`
		SELECT format('%s jobs, %s charges, %s given back, %s releases', (SELECT count(*) FROM dp_int.job),
		  count(*) FILTER (WHERE kind = 'charge'), count(*) FILTER (WHERE kind = 'refund'), (SELECT count(*) FROM dp_int.release))
		  FROM dp_int.ledger`), len(c.violations))
}

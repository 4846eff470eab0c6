package tests

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"dpsidecar/internal/ledger"
	"dpsidecar/internal/privacy"
)

// admissions registers a table of 200 days with 40 rows each, the last of them yesterday, with a
// budget for every day, and returns the data set's name. In the first 100 days the target is larger by 20.
func (w *world) admissions(epsilon, delta float64) string {
	w.Helper()
	w.awayFromMidnight()
	name := "admissions_" + w.dataset
	w.exec(w.super, `CREATE TABLE public.`+name+` AS
		SELECT (now() AT TIME ZONE 'UTC')::date - 200 + i / 40 AS admitted_on, 2 * x + random() + CASE WHEN i < 4000 THEN 20 ELSE 0 END AS cost, x AS age, i % 900 AS patient FROM (SELECT i, random() AS x FROM generate_series(0, 7999) AS i) AS r`)
	w.exec(w.super, `GRANT SELECT ON public.`+name+` TO dp_sidecar`)
	w.exec(w.steward, `SELECT dp_register($1, $2::text::regclass, 'cost', '{age}', $3, $4, '{"cost": 2, "age": 1}', block => 'admitted_on', block_width => '1 day',
		block_origin => (now() AT TIME ZONE 'UTC')::date - 200, block_is_fixed => 'nobody may update it')`, name, "public."+name, epsilon, delta)
	w.exec(w.steward, `SELECT dp_grant($1, $2)`, name, w.person)
	return name
}

// awayFromMidnight waits for the next day where this one, in UTC, ends within two minutes: days are counted from the present one, and a test
// that midnight came upon would ask about others than it began with. Such tests take some 40 s together, so that it was one run of 2,000.
func (w *world) awayFromMidnight() {
	w.Helper()
	const day = 24 * time.Hour
	if left := day - time.Duration(time.Now().UnixNano()%int64(day)); left < 2*time.Minute {
		time.Sleep(left + time.Second)
	}
}

// day is one so many days ago, in UTC; window the range of two, the second not in it.
func (w *world) day(back int) string {
	w.Helper()
	return one[string](w, w.super, `SELECT to_char((now() AT TIME ZONE 'UTC')::date - $1::int, 'YYYY-MM-DD')`, back)
}

func (w *world) window(from, to int) string { return "[" + w.day(from) + "," + w.day(to) + ")" }

// A table that grows, from its registration to a window's release: each day has the budget to
// itself, the same window is the same release, and verify holds all of it.
func TestWindowsOfBlocks(t *testing.T) {
	w := newWorld(t, 1, 0)
	name := w.admissions(1, 1e-6)
	const ask = `SELECT * FROM dp_linear_regress($1, 0.4, over => $2::text::daterange)`
	day, window := w.day, w.window
	first := w.mustRegress(w.analyst, ask, name, window(40, 10))
	if again := w.mustRegress(w.analyst, ask, name, window(40, 10)); !slices.Equal(again, first) {
		t.Error("the same window is another release")
	}
	// Rows of other blocks show where there is next to no noise: at eps 0.4 the intercept, about .5, was 22 in one of 1,700 fits.
	rich := newWorld(t, 1, 0)
	if fit := rich.mustRegress(rich.analyst, `SELECT * FROM dp_linear_regress($1, 100, over => $2::text::daterange)`, rich.admissions(1000, 1e-6), window(40, 10)); math.Abs(fit[0].Coef) > 8 {
		t.Errorf("rows of other blocks are read: %v", fit)
	}
	if last := one[string](w, w.analyst, `SELECT dp_last($1, 30)::text`, name); last != window(30, 0) {
		t.Errorf("the last 30 blocks: %s", last)
	}
	if rows := one[float64](w, w.analyst, `SELECT (parameters ->> 'rows')::float8 FROM dp.releases WHERE dataset = $1`, name); rows != 30*40 {
		t.Errorf("%v rows are read of 1200", rows)
	}
	w.mustRegress(w.analyst, `SELECT * FROM dp_linear_regress($1, 0.4, over => dp_last($1, 30))`, name)
	runs := all[string](w, w.analyst, `SELECT concat("from", ' ', "to", ' ', round(epsilon_spent::numeric, 1)) FROM dp.blocks WHERE dataset = $1`, name)
	want := []string{day(200) + " " + day(40) + " 0.0", day(40) + " " + day(30) + " 0.4", day(30) + " " + day(10) + " 0.6", day(10) + " " + day(0) + " 0.4", day(0) + " " + day(-1) + " 0.0"}
	if !slices.Equal(runs, want) {
		t.Errorf("blocks: %q, want %q", runs, want)
	}
	said := w.explain(w.analyst, `SELECT * FROM dp_explain('linear', $1, 0.9, over => $2::text::daterange)`, name, window(50, 20))
	if !strings.HasPrefix(said["affordable"], "no") || said["rows"] != "1200" || said["over"] != day(50)+" until before "+day(20) {
		t.Errorf("explained: %v", said)
	}
	_, err := regress(w.analyst, `SELECT * FROM dp_linear_regress($1, 0.9, over => $2::text::daterange)`, name, window(50, 20))
	w.wantError(err, "DP002", "until before "+day(29)+" is among the fullest")
	_, err = regress(w.analyst, `SELECT * FROM dp_linear_regress($1, 0.1, over => $2::text::daterange)`, name, window(0, -1))
	w.wantError(err, "DP005", "a steward registers block_rows")
	w.mustRegress(w.analyst, `SELECT * FROM dp_linear_regress($1, 0.9, over => $2::text::daterange)`, name, window(80, 40))
	if wrong := w.verify(); len(wrong) > 0 {
		t.Error(wrong)
	}
}

// An answer that was read while its window ran serves until that is over. Then the same request, as a schedule makes it, is
// about all rows of the window, and is charged once more.
func TestAWindowThatWasReadEarlyIsReadAgain(t *testing.T) {
	w := newWorld(t, 1, 0)
	name := w.admissions(3, 1e-6)
	const ask, early = `SELECT * FROM dp_linear_regress($1, 0.4, over => $2::text::daterange)`, "the window is not over"
	analyst, heard := w.listening(w.person)
	for _, c := range []struct {
		window  string
		running bool
	}{{w.window(30, -1), true}, {w.window(31, 1), false}} {
		before := len(heard())
		first := w.mustRegress(analyst, ask, name, c.window)
		if said := strings.Join(heard()[before:], "\n"); strings.Contains(said, early) != c.running {
			t.Errorf("%s: %q", c.window, said)
		}
		if again := w.mustRegress(analyst, ask, name, c.window); !slices.Equal(again, first) {
			t.Errorf("%s: %v and %v", c.window, again, first)
		}
	}
	window := w.window(31, 1)
	w.exec(w.super, `UPDATE dp_int.release SET read_at = read_at - interval '2 days' WHERE id IN (SELECT id FROM dp.releases WHERE dataset = $1)`, name) // that of the other window ran then, too
	charged := func() int64 {
		return one[int64](w, w.super, `SELECT count(*) FROM dp.ledger WHERE dataset = $1 AND kind = 'charge'`, name)
	}
	for i, want := range []int64{3, 3} {
		if i == 0 {
			w.exec(w.analyst, `CALL dp_run('linear', $1, 0.4, over => $2::text::daterange)`, name, window)
		} else {
			w.mustRegress(analyst, ask, name, window)
		}
		w.mustRegress(analyst, ask, name, w.window(30, -1))
		if got := charged(); got != want {
			t.Errorf("%d charges, want %d", got, want)
		}
	}
}

// A request that waits for an identical one, which read the window while it ran, has that answer if it was asked for then, too; one
// that was asked for when the window was over goes on by itself.
func TestWhoAsksOnceAWindowIsOverIsNotGivenAnEarlyAnswer(t *testing.T) {
	w := lonelyWorld(t, 1, 0)
	name, window := w.admissions(3, 1e-6), w.window(31, 1)
	stop, err := w.system.Serve(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	const submit = `SELECT dp_submit('linear', $1, 0.4, over => $2::text::daterange)::text`
	w.mustRegress(w.analyst, `SELECT * FROM dp_linear_regress($1, 0.4, over => $2::text::daterange)`, name, window)
	stop()
	w.exec(w.super, `UPDATE dp_int.release SET read_at = read_at - interval '2 days'`)
	leader, release := one[string](w, w.super, `SELECT job::text FROM dp_int.release`), one[string](w, w.super, `SELECT id::text FROM dp_int.release`)
	before, after := one[string](w, w.analyst, submit, name, window), one[string](w, w.analyst, submit, name, window)
	w.exec(w.super, `UPDATE dp_int.job SET created_at = created_at - interval '2 days' WHERE id = $1::text::uuid`, before)
	w.exec(w.super, `UPDATE dp_int.job SET follows = $1::text::uuid WHERE state = 'queued'`, leader)
	w.exec(w.super, `SELECT dp_int.complete_job($1::text::uuid, $2::text::uuid)`, leader, release)
	const became = `SELECT concat_ws(' ', state, release, follows) FROM dp_int.job WHERE id = $1::text::uuid`
	if got := one[string](w, w.super, became, before); got != "done "+release {
		t.Errorf("who asked while the window ran: %s", got)
	}
	if got := one[string](w, w.super, became, after); got != "queued" {
		t.Errorf("who asked once it was over: %s", got)
	}
	if _, err := w.system.Serve(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.exec(w.analyst, `CALL dp_run('linear', $1, 0.4, over => $2::text::daterange)`, name, window)
	if n := one[int64](w, w.super, `SELECT count(*) FROM dp.ledger WHERE dataset = $1 AND kind = 'charge'`, name); n != 2 {
		t.Errorf("%d charges, want 2", n)
	}
	if got := one[string](w, w.super, became, after); !strings.HasPrefix(got, "done ") || got == "done "+release {
		t.Errorf("who asked once it was over: %s", got)
	}
}

// How names and types are written in a session is no matter: a type is known again by its name without quotes.
func TestBlocksInASessionThatQuotes(t *testing.T) {
	w := newWorld(t, 1, 0)
	w.exec(w.steward, `SET quote_all_identifiers = on`)
	name := w.admissions(1, 1e-6)
	w.mustRegress(w.analyst, `SELECT * FROM dp_linear_regress($1, 0.4, over => $2::text::daterange)`, name, w.window(40, 10))
	w.exec(w.super, `SET quote_all_identifiers = on`)
	w.exec(w.super, `SELECT dp_int.recheck_dataset(id) FROM dp_int.dataset WHERE name = $1`, name)
	if relation := one[string](w, w.super, `SELECT event #>> '{budget,relation}' FROM dp_int.ledger WHERE dataset = $1 AND event ? 'budget' LIMIT 1`, name); relation != "public."+name {
		t.Errorf("the ledger names %s", relation)
	}
}

// What is no window of blocks is refused and says what to do, whatever asks; with a unit a window
// has as many persons as were registered.
func TestWhatBlocksRefuse(t *testing.T) {
	w := newWorld(t, 1, 1e-6)
	name := w.admissions(4, 1e-6)
	for _, c := range []struct{ over, says string }{
		{"NULL", "needs a window"}, {`'[,2030-01-01)'`, "two ends"}, {`'empty'`, "two ends"}, {`daterange('-infinity', now()::date)`, "two ends"}, {`daterange('2026-03-01 BC', '2026-03-02')`, "of the years 1 to 9999"},
		{"'" + w.window(201, 100) + "'", "Earlier rows are never read"}, {"'" + w.window(3, -2) + "'", "A window may end on " + w.day(-1)},
	} {
		for _, ask := range []string{`SELECT * FROM dp_linear_regress('%s', 0.1, over => %s)`, `SELECT dp_submit('l1', '%s', 0.1, over => %s)::text, 1.0::float8`,
			`SELECT column_name, value FROM dp_describe('%s', 0.1, over => %s)`, `SELECT column_name, suggested_scale FROM dp_scales('%s', 0.1, over => %s)`,
			`SELECT property, 1.0::float8 FROM dp_explain('linear', '%s', 0.1, over => %s)`} {
			_, err := regress(w.analyst, fmt.Sprintf(ask, name, c.over))
			w.wantError(err, "22023", c.says)
		}
	}
	for _, options := range []string{`{"over": ["2026-01-01"]}`, `{"over": ["2026-01-01", "2026-02-30"]}`, `{"over": ["2026-02-01", "2026-01-01"]}`, `{"over": "2026"}`, `{"over": ["01.02.2026", "02.02.2026"]}`} {
		_, err := regress(w.analyst, `SELECT * FROM dp_linear_regress($1, 0.1, options => $2)`, name, options)
		w.wantError(err, "22023", "a list of two days")
	}
	_, err := regress(w.analyst, `SELECT * FROM dp_linear_regress($1, 0.1, over => dp_last($2, 1))`, w.dataset, name)
	w.wantError(err, "22023", "has no blocks")
	for call, want := range map[string][2]string{
		`SELECT dp_last($1, 1)`:           {"22023", "has no blocks"},
		`SELECT dp_last($1 || '_', 1)`:    {"42501", "does not exist or is not granted"},
		`SELECT * FROM dp_blocks('none')`: {"42501", "does not exist or is not granted"},
		`SELECT dp_last($2, 0)`:           {"22023", "from 1 to 10000"},
		`SELECT dp_last($2, NULL)`:        {"22023", "from 1 to 10000, not NULL"},
	} {
		_, err = w.analyst.Exec(context.Background(), strings.NewReplacer("$1", "'"+w.dataset+"'", "$2", "'"+name+"'").Replace(call))
		w.wantError(err, want[0], want[1])
		w.wantError(err, want[0], "No privacy budget was spent.")
	}

	register := func(dataset, relation, more string) error {
		_, err := w.steward.Exec(context.Background(), fmt.Sprintf(`SELECT dp_register('%s', '%s', 'cost', '{age}', 4, 1e-6%s)`, dataset, relation, more))
		return err
	}
	const days = `, block => 'admitted_on', block_width => '%s', block_origin => '%s'%s`
	word := `, block_is_fixed => 'a test'`
	other := "other_" + w.dataset
	w.exec(w.super, `CREATE TABLE public.`+other+` AS SELECT * FROM public.`+name)
	w.exec(w.super, `GRANT SELECT ON public.`+other+` TO dp_sidecar`)
	for _, c := range []struct{ relation, more, says string }{
		{name, "", "charged to none"},
		{name, fmt.Sprintf(days, "2 days", w.day(200), word), "has a budget for every block of 1 day"},
		{name, fmt.Sprintf(days, "1 day", w.day(199), word), "has a budget for every block"},
		{other, fmt.Sprintf(days, "1 day", w.day(200), ""), "dp_freeze('public." + other + "', 'admitted_on')"},
		{other, fmt.Sprintf(days, "12 hours", w.day(200), word), "whole days or whole months"},
		{other, fmt.Sprintf(days, "1 month 1 day", w.day(200), word), "whole days or whole months"},
		{other, fmt.Sprintf(days, "1 month", "2026-01-31", word), "one of the first 28 days"},
		{other, fmt.Sprintf(days, "1 day", w.day(200), word+`, unit => 'patient'`), "need persons"},
		{other, fmt.Sprintf(days, "1 day", w.day(200), word+`, unit => 'patient', persons => 30, block_rows => 30`), "give persons"},
		{other, `, block => 'age', block_width => '1 day', block_origin => '2026-01-01'` + word, "tells no day"},
		{other, `, block_width => '1 day'`, "without a block"},
		{other, fmt.Sprintf(days, "101 years", "2026-01-01", word), "100 years at most"},
		{other, fmt.Sprintf(days, "1 day", w.day(200), word+`, block_rows => 9000000000000000`), "block_rows must be at most"},
		{other, fmt.Sprintf(days, "1 day", w.day(200), word+`, unit => 'patient', persons => 9000000000000000`), "persons must be at most"},
		{other, `, options => '{"one_block_a_person": "it is the day of enrolment"}'`, "about a unit and blocks"},
	} {
		w.wantError(register("refused_"+w.dataset, c.relation, c.more), "22023", c.says)
	}
	w.exec(w.super, fmt.Sprintf(`SELECT dp_freeze('public.%s', 'admitted_on')`, other))
	if err := register(other, other, fmt.Sprintf(days, "7 days", w.day(200), `, unit => 'patient', persons => 250, scales => '{"cost": 2}'`)); err != nil {
		t.Fatalf("%v: %s", err, hint(err))
	}
	w.exec(w.steward, `SELECT dp_grant($1, $2)`, other, w.person)
	_, err = regress(w.analyst, `SELECT * FROM dp_linear_regress($1, 0.4, over => $2::text::daterange)`, other, w.window(20, 3))
	w.wantError(err, "22023", "The nearest window around it is daterange('"+w.day(25)+"', '"+w.day(-3)+"')")
	w.mustRegress(w.analyst, `SELECT * FROM dp_linear_regress($1, 0.4, over => dp_last($1, 3))`, other)
	if rows := one[float64](w, w.analyst, `SELECT (parameters ->> 'rows')::float8 FROM dp.releases WHERE dataset = $1`, other); rows != 3*250 {
		t.Errorf("%v persons in three blocks of 250", rows)
	}
	if said := one[string](w, w.analyst, `SELECT concat(protects, ', ', block_is_fixed) FROM dp.datasets WHERE dataset = $1`, other); said != "all rows that a person has in one block, trigger" {
		t.Error(said)
	}
	again := "again_" + w.dataset
	if err := register(again, other, fmt.Sprintf(days, "7 days", w.day(200), `, unit => 'patient', persons => 250, options => '{"one_block_a_person": "the day of enrolment"}'`)); err != nil {
		t.Fatalf("%v: %s", err, hint(err))
	}
	if said := one[string](w, w.steward, `SELECT protects FROM dp.datasets WHERE dataset = $1`, again); said != "all rows of a person" {
		t.Error(said)
	}
	// The column is held against what was registered before anything is charged.
	for change, says := range map[string]string{
		`ALTER TABLE public.%s DISABLE TRIGGER ALL`:                                              "can change now",
		`ALTER TABLE public.%s RENAME COLUMN admitted_on TO was`:                                 "does not exist",
		`UPDATE dp_int.dataset SET block_type = 'timestamp without time zone' WHERE name = '%s'`: "another column",
	} {
		w.exec(w.super, `BEGIN`)
		if _, err := w.super.PgConn().Exec(context.Background(), fmt.Sprintf(change, other)).ReadAll(); err != nil {
			t.Fatal(err)
		}
		_, err := w.super.Exec(context.Background(), `SELECT dp_int.recheck_dataset(id) FROM dp_int.dataset WHERE name = $1`, other)
		w.wantError(err, "DP004", says)
		w.exec(w.super, `ROLLBACK`)
	}
	if wrong := w.verify(); len(wrong) > 0 {
		t.Error(wrong)
	}
}

// tryCharge makes a claimed job about a window of blocks from 2020-01-01 on and charges it, as a worker
// does. It returns the entry, NULL where the budget does not cover it.
const tryCharge = `CREATE FUNCTION public.try_charge(p_dataset text, p_caller name, lo int, hi int, p_event jsonb, p_epsilon text, p_rho text, p_renyi text[], p_delta text) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
  e dp_int.ledger;
  d bigint := (SELECT id FROM dp_int.dataset WHERE name = p_dataset AND unregistered_at IS NULL);
BEGIN
  INSERT INTO dp_int.job (id, principal, caller, dataset, model, eps, delta, request, request_hash, fresh, waited, state, attempt, token, lease_until)
  VALUES (gen_random_uuid(), dp_int.admit_principal(p_caller), p_caller, d, 'linear', 1, 0,
          jsonb_build_object('over', jsonb_build_array('2020-01-01'::date + lo, '2020-01-01'::date + hi)), '', true, false, 'claimed', 1, gen_random_uuid(), now() + interval '1 day')
  RETURNING id INTO e.job;
  e.event := p_event;
  e.epsilon := p_epsilon::numeric;
  e.rho := p_rho::numeric;
  e.renyi := p_renyi::numeric[];
  e.renyi_grid := CASE WHEN p_renyi IS NOT NULL THEN 1 END;
  e.delta := p_delta::numeric;
  e.id := dp_int.ledger_charge(d, e);
  UPDATE dp_int.job SET state = 'charged', charge = e.id, row_count = 1, plan = '{}' WHERE id = e.job;
  RETURN e.id;
EXCEPTION WHEN SQLSTATE 'DP002' THEN
  RETURN NULL;
END $$`

// blockCharge is one charge of a history: some blocks, an event, its price, and who asked.
type blockCharge struct {
	id     int64
	lo, hi int
	event  privacy.Event
	price  privacy.Cost
	spent  float64 // in the unit of the accounting
	person int
}

// blockHistory plays charges, refunds and budgets on overlapping windows against a model that adds
// up, for each block, the prices of the charges that stand.
type blockHistory struct {
	*world
	rng        *rand.Rand
	accounting string
	renyi      *privacy.Renyi
	order      float64 // of Renyi divergences
	stand      []blockCharge
	admitted   int
	refused    int
	byDelta    int // refused for their deltas alone
}

// limit is a budget as its filters have it. Without a delta there is none to hold.
type blockLimit struct{ epsilon, delta, cap, order float64 }

// limit is the budget of (epsilon, delta). order under rdp is the account's.
func (h *blockHistory) limit(epsilon, delta float64) blockLimit {
	switch h.accounting {
	case "zcdp":
		return blockLimit{epsilon, delta, privacy.ZCDPRho(epsilon, .9*delta), privacy.ZCDPOrder(epsilon, .9*delta)}
	case "rdp":
		return blockLimit{epsilon, delta, epsilon - privacy.RenyiEpsilon(0, h.order, .9*delta), 0}
	}
	return blockLimit{epsilon, delta, epsilon, 0}
}

// filled says how much of a limit the filter that is filled least has of some charges, 1 being all.
func (l blockLimit) filled(charges []blockCharge, deltas bool) float64 {
	var pure, spent, restRho, delta, alone float64
	for _, c := range charges {
		spent += c.spent
		delta += c.price.Delta
		if math.IsInf(c.price.Epsilon, 1) {
			alone = math.Inf(1)
			restRho += c.price.Rho
		} else {
			pure += c.price.Epsilon
		}
	}
	best := min(max(alone, pure/l.epsilon), spent/l.cap)
	if l.order > 0 {
		best = min(best, (pure/l.order+restRho)/l.cap)
	}
	if l.order > 0 && len(charges) == 1 && isOnly(charges[0].event) {
		best = min(best, privacy.NoiseEpsilon(2*restRho, .9*l.delta)/l.epsilon)
	}
	if deltas && delta > 0 {
		best = max(best, delta/(.1*l.delta))
	}
	return best
}

// of are the charges that are of a block.
func of(charges []blockCharge, block int) (some []blockCharge) {
	for _, c := range charges {
		if c.lo <= block && block < c.hi {
			some = append(some, c)
		}
	}
	return some
}

// next draws a charge of a size that fits some times into a block.
func (h *blockHistory) next(epsilon, taste float64) blockCharge {
	c := blockCharge{lo: h.rng.IntN(40), person: h.rng.IntN(2)}
	c.hi = c.lo + 1 + h.rng.IntN(1+h.rng.IntN(20))
	size := epsilon * math.Exp(-3.5*h.rng.Float64())
	rho := privacy.ZCDPRho(epsilon, 1e-6) * math.Exp(-3.5*h.rng.Float64())
	switch {
	case h.accounting == "zcdp" && h.rng.IntN(6) == 0:
		c.event = privacy.Approx{Epsilon: size / 8, Delta: 5e-8 * h.rng.Float64()}
	case h.accounting == "pure" || h.rng.Float64() < taste:
		c.event = privacy.Pure{Epsilon: size}
	default:
		c.event = privacy.Gaussian{NoiseMultiplier: 1 / math.Sqrt(2*rho)}
		if h.rng.IntN(2) == 0 { // some fit only where they are alone
			c.event = privacy.Only{Event: privacy.Gaussian{NoiseMultiplier: 1 / math.Sqrt(2*rho*1.3)}}
		}
	}
	price, err := privacy.Price(c.event)
	if err != nil {
		h.Fatal(err)
	}
	c.price, c.spent = price, map[string]float64{"pure": price.Epsilon, "zcdp": price.Rho}[h.accounting]
	if h.accounting == "rdp" {
		curve, err := h.renyi.Curve(c.event)
		if err != nil {
			h.Fatal(err)
		}
		c.spent = curve[slices.Index(privacy.Orders(), h.order)]
	}
	return c
}

// charge has the database charge c, and reports whether it does.
func (h *blockHistory) charge(c *blockCharge) bool {
	text, err := privacy.MarshalEvent(c.event)
	if err != nil {
		h.Fatal(err)
	}
	cost, err := ledger.Price(c.event)
	if err != nil {
		h.Fatal(err)
	}
	var id *int64
	if err := h.super.QueryRow(context.Background(), `SELECT public.try_charge($1, $2, $3, $4, $5, $6, $7, $8, $9)`,
		h.dataset, h.people()[c.person], c.lo, c.hi, text, cost.Epsilon, cost.Rho, cost.Renyi, cost.Delta).Scan(&id); err != nil {
		h.Fatal(err)
	}
	if id != nil {
		c.id = *id
	}
	return id != nil
}

func (h *blockHistory) people() []string { return []string{h.person, h.person + "_b"} }

// begin gives the data set new people and a budget for every day of them.
func (h *blockHistory) begin(epsilon, delta float64) {
	h.Helper()
	h.exec(h.steward, `SELECT dp_unregister($1)`, h.dataset)
	h.exec(h.steward, `SELECT dp_register($1, $2::text::regclass, 'amount', '{age}', $3, $4, accounting => $5, options => '{"new_population": "another history"}',
		block => 'day', block_width => '1 day', block_origin => '2020-01-01', block_is_fixed => 'a test')`, h.dataset, "public."+h.dataset, epsilon, delta, h.accounting)
	h.exec(h.steward, `SELECT dp_grant($1, $2)`, h.dataset, h.people()[0])
	h.stand = nil
}

// run plays a history of so many steps on new people, and returns the first thing about which
// database and model differ.
func (h *blockHistory) run(steps int) string {
	epsilon, taste, delta := []float64{.4, 1, 4}[h.rng.IntN(3)], []float64{1, .9, .5, .1}[h.rng.IntN(4)], 1e-6
	if h.accounting == "pure" {
		delta = 0
	}
	h.begin(epsilon, delta)
	h.exec(h.steward, `SELECT dp_grant($1, $2, $3)`, h.dataset, h.people()[1], 3*epsilon)
	if h.accounting == "rdp" {
		h.order = one[float64](h.world, h.super, `SELECT renyi_order FROM dp.datasets WHERE dataset = $1`, h.dataset)
	}
	set, largest := epsilon, epsilon
	budget, personal := h.limit(set, delta), h.limit(3*epsilon, delta)
	for step := range steps {
		switch k := h.rng.IntN(20); {
		case k < 4 && len(h.stand) > 0:
			i := h.rng.IntN(len(h.stand))
			h.exec(h.super, `SELECT dp_int.refund_job(j) FROM dp_int.job j WHERE j.charge = $1`, h.stand[i].id)
			h.stand = slices.Delete(h.stand, i, i+1)
		case k == 4 && (h.accounting != "rdp" || len(h.stand) > 0):
			set = epsilon * (.8 + .4*h.rng.Float64())
			largest, budget = max(largest, set), h.limit(set, delta)
			h.exec(h.steward, `SELECT dp_set_budget($1, $2, $3)`, h.dataset, set, delta)
		default:
			c := h.next(set, taste)
			worst, costs := 0.0, 0.0
			for block := c.lo; block < c.hi; block++ {
				charges := append(of(h.stand, block), c)
				worst, costs = max(worst, budget.filled(charges, true)), max(costs, budget.filled(charges, false))
			}
			if costs <= 1 && worst > 1 {
				h.byDelta++
			}
			if c.person == 1 {
				own := []blockCharge{c}
				for _, s := range h.stand {
					if s.person == 1 {
						own = append(own, s)
					}
				}
				worst = max(worst, personal.filled(own, false))
			}
			switch ok := h.charge(&c); {
			case math.Abs(worst-1) < 1e-9:
			case ok != (worst <= 1):
				return fmt.Sprintf("%s, epsilon %v, step %d, blocks %d to %d: the model fills %v, the database charges: %v", h.accounting, set, step, c.lo, c.hi, worst, ok)
			case ok:
				h.admitted++
			default:
				h.refused++
			}
			if c.id != 0 {
				h.stand = append(h.stand, c)
			}
		}
	}
	if proven := one[float64](h.world, h.super, `SELECT proven_epsilon::float8 FROM dp_int.account WHERE id = (SELECT account FROM dp_int.dataset WHERE name = $1 AND unregistered_at IS NULL)`, h.dataset); proven > largest {
		return fmt.Sprintf("%v is proven of budgets up to %v", proven, largest)
	}
	if wrong := h.verify(); len(wrong) > 0 {
		return strings.Join(wrong, "; ")
	}
	return ""
}

func newBlockHistory(t *testing.T, accounting string, seed uint64) *blockHistory {
	w := lonelyWorld(t, 1, 0)
	w.exec(w.super, `ALTER TABLE public.`+w.dataset+` ADD COLUMN day date`)
	w.exec(w.super, tryCharge)
	h := &blockHistory{world: w, rng: rand.New(rand.NewPCG(41, seed)), accounting: accounting, renyi: new(privacy.Renyi)}
	if err := w.system.Login(context.Background(), h.people()[1], "dp_analyst"); err != nil {
		t.Fatal(err)
	}
	return h
}

// The database charges what a model charges that adds up every block by itself, whatever windows
// are asked, given back, and whatever budgets are set meanwhile. DPSIDECAR_HISTORIES is how many
// histories of 450 steps there are.
func TestBlocksAgreeWithTheModel(t *testing.T) {
	t.Parallel()
	n := 3
	if v, err := strconv.Atoi(os.Getenv("DPSIDECAR_HISTORIES")); err == nil {
		n = v
	}
	h := newBlockHistory(t, "zcdp", 1)
	for k := range n {
		h.accounting = []string{"zcdp", "pure", "rdp"}[k%3]
		if wrong := h.run(450); wrong != "" {
			t.Fatal(wrong)
		}
	}
	if t.Logf("%d charged, %d refused, %d for their deltas alone", h.admitted, h.refused, h.byDelta); h.admitted < 80*n || h.refused < 80*n || h.byDelta == 0 {
		t.Error("histories ask for too little or too much")
	}
}

// Many sidecars charge at once, and no block is charged beyond its budget. Whoever changes what is
// kept of blocks, or the entries, is found out; what a copy is adopted with covers nothing more.
func TestVerifyNoticesChangedBlocks(t *testing.T) {
	t.Parallel()
	h := newBlockHistory(t, "zcdp", 3)
	h.begin(1, 1e-6)
	var working sync.WaitGroup
	for k := range 6 {
		other := *h.world
		other.super = h.connect(h.system.SuperuserURL())
		one := &blockHistory{world: &other, rng: rand.New(rand.NewPCG(47, uint64(k))), accounting: "zcdp", renyi: new(privacy.Renyi)}
		working.Go(func() {
			for range 25 {
				c := one.next(1, .5)
				c.person = 0
				one.charge(&c)
			}
		})
	}
	working.Wait()
	if wrong := h.verify(); len(wrong) > 0 {
		t.Fatal(wrong)
	}
	const wide = `(SELECT min(id) FROM dp_int.ledger WHERE kind = 'charge' AND upper(blocks) - lower(blocks) > 1)`
	const full = `(account, block) = (SELECT account, block FROM dp_int.account_block ORDER BY spent DESC LIMIT 1)`
	for what, sql := range map[string]string{
		"a range that is shorter":           `UPDATE dp_int.ledger SET blocks = int8range(lower(blocks), upper(blocks) - 1) WHERE id = ` + wide,
		"a range that is gone":              `UPDATE dp_int.ledger SET blocks = NULL WHERE id = ` + wide,
		"half of what a block has spent":    `UPDATE dp_int.account_block SET spent = spent / 2 WHERE ` + full,
		"half of its pure epsilons":         `UPDATE dp_int.account_block SET spent_epsilon = spent_epsilon + 1 WHERE ` + full,
		"a block that is gone":              `DELETE FROM dp_int.account_block WHERE ` + full,
		"a block nobody asked about":        `INSERT INTO dp_int.account_block SELECT account, 999 FROM dp_int.account_block LIMIT 1`,
		"what is proven of the fullest one": `UPDATE dp_int.account SET proven_epsilon = proven_epsilon / 2 WHERE block_width IS NOT NULL`,
		"another origin":                    `UPDATE dp_int.account SET block_origin = block_origin + 1 WHERE block_width IS NOT NULL`,
		"another window of a job":           `UPDATE dp_int.job SET request = '{"over": ["2020-01-01", "2021-01-01"]}' WHERE id = (SELECT job FROM dp_int.ledger WHERE id = ` + wide + `)`,
		"no blocks any more":                `UPDATE dp_int.account SET block_width = NULL, block_origin = NULL`,
	} {
		h.exec(h.super, "BEGIN")
		h.exec(h.super, "SET LOCAL session_replication_role = replica")
		h.exec(h.super, sql)
		if len(h.verify()) == 0 {
			t.Errorf("%s: not noticed", what)
		}
		h.exec(h.super, "ROLLBACK")
	}
	// Whoever writes the whole chain anew has the budget that was in force against him.
	h.exec(h.super, "BEGIN")
	h.exec(h.super, "SET LOCAL session_replication_role = replica")
	h.exec(h.super, `UPDATE dp_int.ledger SET rho = rho * 4, epsilon = epsilon * 4 WHERE kind = 'charge'`)
	if wrong := strings.Join(h.verify(), "; "); !strings.Contains(wrong, "no charge went beyond the budget that was in force:") || !strings.Contains(wrong, "computed outside the database") {
		t.Error(wrong)
	}
	h.exec(h.super, "ROLLBACK")
	h.handsBack()
	h.exec(h.super, "BEGIN")
	h.exec(h.super, "SELECT dp_int.adopt(false)")
	for _, event := range []privacy.Event{privacy.Pure{Epsilon: 1e-6}, privacy.Gaussian{NoiseMultiplier: 1e4}} {
		price, err := privacy.Price(event)
		if err != nil {
			t.Fatal(err)
		}
		if h.charge(&blockCharge{lo: 500, hi: 501, event: event, price: price}) {
			t.Errorf("a copy charges %v to a block that nobody asked about", event)
		}
	}
	h.exec(h.super, "ROLLBACK")
}

// handsBack has a worker claim, charge and hand back a job about a window, and another one after it: every
// block of the window is charged, given back, and charged again.
func (h *blockHistory) handsBack() {
	h.Helper()
	h.begin(1, 1e-6)
	job := one[string](h.world, h.analyst, `SELECT dp_submit('linear', $1, 0.5, over => '[2020-01-11,2020-01-21)')::text`, h.dataset)
	spent := func() string {
		return one[string](h.world, h.steward, `SELECT string_agg(concat(block_from, ' ', block_to), ', ' ORDER BY block_from) FILTER (WHERE epsilon_spent > 0.4) FROM dp_blocks($1)`, h.dataset)
	}
	for attempt := range 2 {
		var o ledger.Owner
		if err := h.super.QueryRow(context.Background(), `SELECT c ->> 'id', c ->> 'token' FROM dp_int.job_claim(gen_random_uuid(), '1 h', NULL) AS c`).Scan(&o.Job, &o.Token); err != nil || o.Job != job {
			h.Fatalf("claimed %q, not %s: %v", o.Job, job, err)
		}
		if _, err := ledger.Charge(context.Background(), h.super, o, ledger.Entry{Event: privacy.Pure{Epsilon: .5}, Rows: 10}); err != nil {
			h.Fatal(err)
		}
		if got := spent(); got != "2020-01-11 2020-01-21" {
			h.Errorf("attempt %d charges blocks %s", attempt, got)
		}
		if attempt == 0 {
			h.exec(h.super, `SELECT dp_int.job_hand_back($1, $2, true)`, o.Job, o.Token)
			if got := one[int](h.world, h.super, `SELECT count(*)::int FROM dp_int.account_block WHERE spent > 0 AND account = (SELECT account FROM dp_int.dataset WHERE name = $1 AND unregistered_at IS NULL)`, h.dataset); got != 0 {
				h.Errorf("%d blocks are charged for a job that was handed back", got)
			}
		}
	}
	if wrong := h.verify(); len(wrong) > 0 {
		h.Error(wrong)
	}
}

// An account keeps the blocks, and the persons, that it was charged for: neither an interval that
// the server takes for equal nor a column that comes by the name of another makes others of them.
func TestBlocksOfAChargedAccountStay(t *testing.T) {
	w := newWorld(t, 1, 1e-6)
	table := "visits_" + w.dataset
	w.exec(w.super, `CREATE TABLE public.`+table+` AS SELECT '2026-01-01'::date + i / 10 AS day, '2026-01-01'::date + (i * 7 % 1200) / 10 AS other, x AS age, x AS cost, i % 300 AS patient, i % 7 AS ward
		FROM (SELECT i, random() AS x FROM generate_series(0, 1199) AS i) AS r`)
	w.exec(w.super, `GRANT SELECT ON public.`+table+` TO dp_sidecar`)
	register := func(name, width, more string) error {
		_, err := w.steward.Exec(context.Background(), fmt.Sprintf(`SELECT dp_register('%s', 'public.%s', 'cost', '{age}', 1, 1e-6, block => 'day', block_width => '%s', block_origin => '2026-01-01',
			block_is_fixed => 'a test'%s)`, name, table, width, more))
		return err
	}
	const persons = `, unit => 'patient', persons => 100`
	if err := register(table, "30 days", persons); err != nil {
		t.Fatal(err)
	}
	w.exec(w.steward, `SELECT dp_grant($1, $2)`, table, w.person)
	w.mustRegress(w.analyst, `SELECT * FROM dp_linear_regress($1, 0.5, over => '[2026-01-01,2026-01-31)')`, table)
	w.wantError(register("months_"+table, "1 month", persons), "22023", "has a budget for every block of 30 days")
	w.exec(w.steward, `SELECT dp_unregister($1)`, table)
	w.wantError(register("weeks_"+table, "7 days", persons), "22023", "has a budget for every block of 30 days")
	w.wantError(register("rows_"+table, "30 days", ""), "22023", "protects all rows of a person")
	for _, swap := range [][2]string{{"day", "other"}, {"patient", "ward"}} {
		rename := func(from, to string) {
			w.exec(w.super, fmt.Sprintf(`ALTER TABLE public.%s RENAME %s TO %s`, table, from, to))
		}
		rename(swap[0], "former")
		rename(swap[1], swap[0])
		w.wantError(register(table, "30 days", persons), "22023", "was another column")
		rename(swap[0], swap[1])
		rename("former", swap[0])
	}
	w.exec(w.super, `ALTER TABLE public.`+table+` ALTER day TYPE timestamp`)
	w.wantError(register(table, "30 days", persons), "22023", "had another type")
	w.exec(w.super, `ALTER TABLE public.`+table+` ALTER day TYPE date`)
	if err := register(table, "30 days", persons); err != nil {
		t.Errorf("%v: %s", err, hint(err))
	}
	// A table that was loaded anew may have its columns in another order.
	w.exec(w.steward, `SELECT dp_unregister($1)`, table)
	w.exec(w.super, fmt.Sprintf(`CREATE TABLE public.copy_%[1]s AS SELECT cost, age, patient, day FROM public.%[1]s; DROP TABLE public.%[1]s; ALTER TABLE public.copy_%[1]s RENAME TO %[1]s; GRANT SELECT ON public.%[1]s TO dp_sidecar`, table))
	if err := register(table, "30 days", persons); err != nil {
		t.Errorf("%v: %s", err, hint(err))
	}
}

// Of a view that can show a row beside the block of another no other relation has the account: by
// the statements about both every row would have the budget twice.
func TestARowHasOneBlock(t *testing.T) {
	w := newWorld(t, 1, 1e-6)
	table := "rows_" + w.dataset
	w.exec(w.super, fmt.Sprintf(`CREATE TABLE public.%[1]s AS SELECT i AS id, date '2026-01-05' AS day, random() AS amount, random() AS age FROM generate_series(1, 1000) AS i; GRANT SELECT ON public.%[1]s TO dp_sidecar`, table))
	register := func(relation string) error {
		_, err := w.steward.Exec(context.Background(), `SELECT dp_register($1, ('public.' || $1)::regclass, 'amount', '{age}', 1, 1e-6, options => '{"total": true}',
			block => 'day', block_width => '1 day', block_origin => '2026-01-01', block_is_fixed => 'a test')`, relation)
		return err
	}
	if err := register(table); err != nil {
		t.Fatal(err)
	}
	w.exec(w.super, fmt.Sprintf(`CREATE FUNCTION public.later_%[1]s(i int) RETURNS boolean STABLE SECURITY DEFINER LANGUAGE sql BEGIN ATOMIC SELECT EXISTS (SELECT FROM public.%[1]s WHERE id = i - 1); END`, table))
	// A cast to json that the owner made: to_json calls it, and no dependency says so.
	w.exec(w.super, fmt.Sprintf(`CREATE TYPE public.range_%[1]s AS RANGE (subtype = int4);
		CREATE FUNCTION public.next_%[1]s(r public.range_%[1]s) RETURNS json STABLE SECURITY DEFINER LANGUAGE sql BEGIN ATOMIC SELECT to_json(amount) FROM public.%[1]s WHERE id = lower(r) + 1; END;
		CREATE CAST (public.range_%[1]s AS json) WITH FUNCTION public.next_%[1]s(public.range_%[1]s)`, table))
	const mixing = 14
	for k, view := range []string{"SELECT a.amount, a.age, b.day FROM %[1]s a JOIN %[1]s b ON b.id = a.id + 1", "SELECT a.amount, a.age, b.day FROM %[1]s a, LATERAL (SELECT day FROM %[1]s LIMIT 1) b",
		"SELECT (SELECT b.amount FROM %[1]s b WHERE b.id = a.id + 1) AS amount, age, day FROM %[1]s a", "SELECT lag(amount) OVER () AS amount, age, day FROM %[1]s",
		"SELECT DISTINCT ON (id / 2) amount, age, day FROM %[1]s ORDER BY id / 2, day", "SELECT DISTINCT amount, age, day FROM %[1]s", "SELECT amount, age, day FROM %[1]s ORDER BY id LIMIT 500", "SELECT amount, age, day FROM %[1]s OFFSET 3",
		"SELECT amount, age, day FROM %[1]s TABLESAMPLE SYSTEM (50)", "SELECT amount, age, day FROM %[1]s GROUP BY 1, 2, 3", "SELECT amount, age, day FROM %[1]s WHERE NOT public.later_" + table + "(id)",
		"SELECT amount, age, day FROM %[1]s WHERE ctid < '(2,1)'",
		"SELECT (to_json(format('[%%s,%%s)', id, id + 1)::public.range_" + table + ") #>> '{}')::float8 AS amount, age, day FROM %[1]s", "SELECT amount, age, day FROM %[1]s OFFSET 1",
		"SELECT 2 * amount AS amount, age, day FROM %[1]s", "SELECT amount, age, day FROM %[1]s WHERE (amount, age) < (1e6, 1e6)",
		"SELECT CASE WHEN age > 0.5 THEN amount ELSE coalesce(amount, 1) END AS amount, greatest(age, 0.1) AS age, day FROM %[1]s WHERE id IN (1, 2, 3) AND age IS NOT NULL AND NOT age < 0 AND to_json(age) IS NOT NULL ORDER BY day"} {
		name := fmt.Sprintf("view%d_%s", k, w.dataset)
		w.exec(w.super, "CREATE VIEW public."+name+" AS "+fmt.Sprintf(view, "public."+table)+"; GRANT SELECT ON public."+name+" TO dp_sidecar")
		if err := register(name); k < mixing {
			w.wantError(err, "22023", "a row could have another block")
		} else if err != nil {
			t.Errorf("%v: %s", err, hint(err))
		}
		w.exec(w.steward, `SELECT dp_unregister(d.dataset) FROM dp.datasets d WHERE d.dataset = $1`, name)
	}
	// Nor has it one when the view is gone.
	w.exec(w.steward, `SELECT dp_unregister($1)`, table)
	view := "view0_" + w.dataset
	if err := register(view); err != nil {
		t.Fatal(err)
	}
	w.exec(w.steward, `SELECT dp_grant($1, $2)`, view, w.person)
	w.mustRegress(w.analyst, `SELECT * FROM dp_linear_regress($1, 0.5, over => '[2026-01-05,2026-01-06)')`, view)
	w.exec(w.steward, `SELECT dp_unregister($1)`, view)
	w.exec(w.super, `DROP VIEW public.`+view)
	w.wantError(register(table), "22023", "a view joined or combined rows")
}

// A job that was queued before its table was given blocks is refused, and holds nobody up.
func TestAJobFromBeforeTheBlocksIsRefused(t *testing.T) {
	w := newWorld(t, 1, 1e-6)
	ctx := context.Background()
	tx, err := w.analyst.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	var job string
	if err := tx.QueryRow(ctx, `SELECT dp_submit('linear', $1, 0.1)::text`, w.dataset).Scan(&job); err != nil {
		t.Fatal(err)
	}
	w.exec(w.super, `ALTER TABLE public.`+w.dataset+` ADD day date DEFAULT '2026-01-05'`)
	w.exec(w.steward, `SELECT dp_unregister($1)`, w.dataset)
	w.exec(w.steward, `SELECT dp_register($1, $2::text::regclass, 'amount', '{age}', 1, 1e-6, block => 'day', block_width => '1 day', block_origin => '2026-01-01', block_is_fixed => 'a test')`, w.dataset, "public."+w.dataset)
	if err := tx.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	w.eventually("the job ends", func() bool {
		return one[bool](w, w.analyst, `SELECT status = 'failed' AND sqlstate = '42501' FROM dp.jobs WHERE id = $1::text::uuid`, job)
	})
	// The data set without blocks, which is gone and was never charged, is no reason against others
	// with these blocks once the account is charged.
	w.exec(w.steward, `SELECT dp_grant($1, $2)`, w.dataset, w.person)
	w.mustRegress(w.analyst, `SELECT * FROM dp_linear_regress($1, 0.5, over => '[2026-01-05,2026-01-06)')`, w.dataset)
	const again = `SELECT dp_register('again_' || $1, $2::text::regclass, 'amount', '{age}', 1, 1e-6`
	w.exec(w.steward, again+`, block => 'day', block_width => '1 day', block_origin => '2026-01-01', block_is_fixed => 'a test')`, w.dataset, "public."+w.dataset)
	w.exec(w.steward, `SELECT dp_unregister(d) FROM unnest(ARRAY[$1, 'again_' || $1]) AS d`, w.dataset)
	_, err = w.steward.Exec(ctx, again+`)`, w.dataset, "public."+w.dataset)
	w.wantError(err, "22023", "charged to none")
}

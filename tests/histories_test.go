package tests

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"dpsidecar/internal/dev"
	"dpsidecar/internal/ledger"
	"dpsidecar/internal/privacy"
)

const chargers = 16

// TestRandomHistories runs random histories under every accounting: sixteen
// chargers charge, give back, roll back, and lose their connections between
// charge and commit, while the budget is changed. DPSIDECAR_HISTORIES=10000 is
// the long form.
func TestRandomHistories(t *testing.T) {
	t.Parallel()
	n := 6
	if v, err := strconv.Atoi(os.Getenv("DPSIDECAR_HISTORIES")); err == nil {
		n = (v + 2) / 3
	}
	for _, accounting := range []string{"pure", "zcdp", "rdp"} {
		t.Run(accounting, func(t *testing.T) {
			for _, wrong := range newHistories(t, lonelyWorld(t, 1, 0).system, accounting).run(n) {
				t.Error(wrong)
			}
		})
	}
}

// A filter that reads the total without its lock, and one that lets deltas pass,
// are found out.
func TestHistoriesCatchMutants(t *testing.T) {
	t.Parallel()
	for name, m := range map[string]struct{ accounting, was, is string }{
		"no lock":  {"pure", "WHERE id = d.account FOR UPDATE", "WHERE id = d.account"},
		"no delta": {"zcdp", "a, e), e.delta) LIMIT 1", "a, e), '-Infinity') LIMIT 1"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHistories(t, lonelyWorld(t, 1, 0).system, m.accounting)
			body := one[string](h.world, h.super, `SELECT pg_get_functiondef('dp_int.ledger_charge'::regproc)`)
			mutant := strings.Replace(body, m.was, m.is, 1)
			if mutant == body {
				t.Fatal("the filter has another text by now")
			}
			h.exec(h.super, mutant)
			for range 60 { // most are caught by the first three
				if wrong := h.run(1); len(wrong) > 0 {
					t.Log(wrong[0])
					return
				}
			}
			t.Error("histories do not catch it")
		})
	}
}

// histories are histories of one data set, one after the other, each of new people.
type histories struct {
	*world
	accounting string
	renyi      *privacy.Renyi
	people     []*charger
	count      int // of histories so far

	mutex sync.Mutex
	wrong []string
}

func newHistories(t *testing.T, s *dev.System, accounting string) *histories {
	h := &histories{world: worldIn(t, s, 1, 0), accounting: accounting, renyi: new(privacy.Renyi)}
	for i := range chargers {
		h.people = append(h.people, &charger{histories: h, rng: rand.New(rand.NewPCG(17, uint64(i))), admin: h.connect(h.system.SuperuserURL())})
	}
	h.Cleanup(func() {
		for _, c := range h.people {
			c.worker.Close(context.Background())
		}
	})
	return h
}

func (h *histories) find(format string, args ...any) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	h.wrong = append(h.wrong, fmt.Sprintf(format, args...))
}

// run runs n histories and returns what was wrong.
func (h *histories) run(n int) []string {
	for range n {
		b := privacy.Budget{Epsilon: []float64{.3, 1, 3}[h.count%3]}
		h.count++
		if h.accounting != "pure" {
			b.Delta = 1e-6
		}
		h.one(b)
	}
	findings, err := ledger.Verify(context.Background(), h.super)
	if err != nil {
		h.Fatal(err)
	}
	for _, f := range findings {
		if !f.OK {
			h.find("%s: %s", f.Item, f.Detail)
		}
	}
	return h.wrong
}

// one lets all chargers loose on a new account and holds what is left against
// the largest budget it had.
func (h *histories) one(b privacy.Budget) {
	h.exec(h.steward, `SELECT dp_unregister($1)`, h.dataset)
	h.exec(h.steward, `SELECT dp_register($1, $2::text::regclass, 'amount', '{age}', $3, $4, accounting => $5, options => '{"new_population": "another history"}')`,
		h.dataset, "public."+h.dataset, b.Epsilon, b.Delta, h.accounting)
	h.exec(h.steward, `SELECT dp_grant($1, $2)`, h.dataset, h.person)

	var working sync.WaitGroup
	var left atomic.Int64
	left.Store(chargers)
	for _, c := range h.people {
		working.Go(func() { c.work(b.Epsilon); left.Add(-1) })
	}
	largest := b.Epsilon
	for rng := rand.New(rand.NewPCG(23, uint64(h.count))); left.Load() > 0; {
		epsilon := b.Epsilon * (.5 + rng.Float64())
		h.exec(h.steward, `SELECT dp_set_budget($1, $2, $3)`, h.dataset, epsilon, b.Delta)
		largest = math.Max(largest, epsilon)
		h.proven(largest)
		time.Sleep(5 * time.Millisecond)
	}
	working.Wait()
	h.proven(largest)
	h.recompute(largest, b.Delta)
	for _, c := range h.people {
		c.account()
	}
}

const account = `(SELECT account FROM dp_int.dataset WHERE name = $1 AND unregistered_at IS NULL)`

// proven holds what the database proves against the largest budget so far.
func (h *histories) proven(largest float64) {
	if v := one[float64](h.world, h.super, `SELECT proven_epsilon::float8 FROM dp_int.account WHERE id = `+account, h.dataset); v > largest {
		h.find("epsilon %v is proven of a budget of %v", v, largest)
	}
}

// recompute does the same with package privacy and the events that stand.
func (h *histories) recompute(largest, delta float64) {
	var history privacy.Compose
	for _, text := range all[string](h.world, h.super, `
		SELECT c.event::text FROM dp_int.ledger c
		 WHERE c.account = `+account+` AND c.kind = 'charge' AND NOT EXISTS (SELECT FROM dp_int.ledger b WHERE b.refunds = c.id)`, h.dataset) {
		e, err := privacy.UnmarshalEvent([]byte(text))
		if err != nil {
			h.Fatal(err)
		}
		history = append(history, e)
	}
	if eps, err := h.epsilon(history, delta, largest); err != nil || eps > largest*(1+1e-9) && len(history) > 0 {
		h.find("%d events prove %v, %v of a budget of %v", len(history), eps, err, largest)
	}
}

// epsilon is the least that one of the filters of a budget proves for a history.
func (h *histories) epsilon(history privacy.Compose, delta, largest float64) (float64, error) {
	pure, err := privacy.PureSum{}.Epsilon(history, delta)
	if errors.Is(err, privacy.ErrUnsupported) {
		pure, err = math.Inf(1), nil
	}
	if h.accounting == "pure" || err != nil {
		return pure, err
	}
	if h.accounting == "rdp" {
		order := one[float64](h.world, h.super, `SELECT renyi_order::float8 FROM dp_int.account WHERE id = `+account, h.dataset)
		eps, err := privacy.AtOrder{Order: order, Renyi: h.renyi}.Epsilon(history, delta)
		return math.Min(pure, eps), err
	}
	eps, err := privacy.Concentrated{}.Epsilon(history, delta)
	if err != nil {
		return 0, err
	}
	mixture, order := 0.0, privacy.ZCDPOrder(largest, .9*delta)
	for _, e := range history {
		c, err := privacy.Price(e)
		if err != nil {
			return 0, err
		}
		if math.IsInf(c.Epsilon, 1) {
			c.Epsilon = order * c.Rho
		}
		mixture += c.Epsilon
	}
	return math.Min(math.Min(pure, eps), privacy.RenyiEpsilon(mixture, order, .9*delta)), nil
}

// charger is one of sixteen. Its connection admin makes jobs, kills and looks; its worker charges
// and may be killed at any time.
type charger struct {
	*histories
	rng           *rand.Rand
	admin, worker *pgx.Conn

	standing []ledger.Owner // charges that were acknowledged and not given back
	undone   []ledger.Owner // charges that were rolled back before any commit
}

// work is a charger's part of a history.
func (c *charger) work(epsilon float64) {
	c.standing, c.undone = nil, nil
	for range 3 {
		if err := c.act(context.Background(), epsilon); err != nil {
			c.find("%v", err)
		}
	}
}

func (c *charger) act(ctx context.Context, epsilon float64) (err error) {
	if c.worker == nil || c.worker.IsClosed() {
		if c.worker, err = pgx.Connect(ctx, c.system.URL("dp_sidecar")); err != nil {
			return err
		}
	}
	if c.rng.IntN(4) == 0 && len(c.standing) > 0 {
		return c.giveBack(ctx)
	}
	tx, err := c.worker.Begin(ctx)
	if err != nil {
		return err
	}
	defer tx.Rollback(ctx)
	o, err := chargeAs(ctx, c.admin, tx, c.dataset, c.person, ledger.Entry{Event: c.event(epsilon), Rows: 1000})
	var no *ledger.Refusal
	if errors.As(err, &no) && (no.SQLSTATE == "DP002" || no.SQLSTATE == "DP005") {
		c.undone = append(c.undone, o)
		return nil
	}
	if err != nil {
		return err
	}
	if c.rng.IntN(4) == 0 { // let others queue for the account
		time.Sleep(2 * time.Millisecond)
	}
	switch c.rng.IntN(10) {
	case 0:
		c.undone = append(c.undone, o)
		return tx.Rollback(ctx)
	case 1: // its machine is gone
		c.undone = append(c.undone, o)
		return c.worker.PgConn().Conn().Close()
	case 2: // killed while it commits: who knows
		if _, err := c.admin.Exec(ctx, `SELECT pg_terminate_backend($1)`, c.worker.PgConn().PID()); err != nil {
			return err
		}
		if tx.Commit(ctx) == nil {
			c.standing = append(c.standing, o)
		}
		return nil
	}
	c.standing = append(c.standing, o)
	return tx.Commit(ctx)
}

// giveBack gives the last standing charge back; its connection may be killed meanwhile.
func (c *charger) giveBack(ctx context.Context) error {
	tx, err := c.worker.Begin(ctx)
	if err != nil {
		return err
	}
	defer tx.Rollback(ctx)
	o := c.standing[len(c.standing)-1]
	if _, err := tx.Exec(ctx, giveBack, o.Job, o.Token); err != nil {
		return err
	}
	if c.rng.IntN(4) == 0 {
		return c.worker.PgConn().Conn().Close()
	}
	c.standing = c.standing[:len(c.standing)-1]
	c.undone = append(c.undone, o)
	return tx.Commit(ctx)
}

// event is worth about a twentieth of a budget of epsilon, so that a history
// spends it all.
func (c *charger) event(epsilon float64) privacy.Event {
	share := epsilon * (.01 + .08*c.rng.Float64())
	z := math.Round(30 / epsilon * (.5 + c.rng.Float64()))
	switch c.rng.IntN(6) {
	case 0:
		return privacy.Pure{Epsilon: share}
	case 1:
		return privacy.BoundedRange{Epsilon: share}
	case 2:
		return privacy.Approx{Epsilon: share, Delta: 6e-8 * c.rng.Float64()}
	case 3:
		return privacy.Gaussian{NoiseMultiplier: z}
	case 4:
		return privacy.Repeat{Count: 1 + c.rng.IntN(30), Event: privacy.Sampled{Rate: .02, Event: privacy.Gaussian{NoiseMultiplier: 6}}}
	}
	return privacy.Compose{privacy.Pure{Epsilon: share / 3}, privacy.Parallel{Event: privacy.BoundedRange{Epsilon: share / 2}}}
}

// account sees that what was acknowledged is kept, and what was undone is not.
func (c *charger) account() {
	net := `SELECT coalesce(sum(CASE kind WHEN 'charge' THEN 1 ELSE -1 END), 0) FROM dp_int.ledger WHERE job = $1`
	for _, o := range c.standing {
		if one[int64](c.world, c.admin, net, o.Job) != 1 {
			c.find("a charge that was acknowledged is lost")
		}
	}
	for _, o := range c.undone {
		if one[int64](c.world, c.admin, net, o.Job) != 0 {
			c.find("a charge that was undone stands")
		}
	}
}

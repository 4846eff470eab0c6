package privacy

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"regexp"
	"strconv"
	"testing"
)

// golden is one row of testdata/accounting.json as a history: its epsilon at
// delta must be at least real, at most 1.15 times renyi and, where exact, real.
type golden struct {
	name         string
	history      Event
	delta        float64
	real, renyi  float64
	exact, noise bool // noise: a change of the noise must show
}

type goldenFile struct {
	Gaussian []struct{ Sigma, T, Delta, Eps_exact, Eps_rdp float64 } `json:"gaussian_forward"`
	Inverse  []struct{ Eps, Delta, T, Sigma_exact float64 }          `json:"gaussian_inverse"`
	Sampled  []struct {
		Q, Sigma, T, Delta, Eps_rdp_wbk, Eps_pld_extrap float64
	} `json:"wor_replace_one"`
	Mixtures []struct {
		Case                           string
		Delta, Eps_pld_extrap, Eps_rdp float64
	}
	Ledger []struct {
		K, Sigma, Rdp, Pld_exact         float64
		Pure_eps0, Rdp_randresp, Pld_KOV float64
	} `json:"ledger_scenarios"`
}

func readGolden(t *testing.T) (file goldenFile) {
	t.Helper()
	text, err := os.ReadFile("testdata/accounting.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Gaussian) == 0 || len(file.Inverse) == 0 || len(file.Sampled) == 0 || len(file.Mixtures) == 0 || len(file.Ledger) == 0 {
		t.Fatal("testdata/accounting.json lacks a table")
	}
	return file
}

func (f goldenFile) rows() (rows []golden) {
	for _, r := range f.Gaussian {
		rows = append(rows, golden{"gaussian", Repeat{int(r.T), Gaussian{r.Sigma}}, r.Delta, r.Eps_exact, r.Eps_rdp, true, true})
	}
	for _, r := range f.Sampled {
		e := Repeat{int(r.T), Sampled{r.Q, Gaussian{r.Sigma}}}
		rows = append(rows, golden{"sampled", e, r.Delta, r.Eps_pld_extrap, r.Eps_rdp_wbk, false, true})
	}
	for _, r := range f.Mixtures {
		rows = append(rows, golden{"mixture", parseMixture(r.Case), r.Delta, r.Eps_pld_extrap, r.Eps_rdp, false, true})
	}
	for _, r := range f.Ledger {
		if r.Sigma > 0 {
			rows = append(rows, golden{"ledger", Repeat{int(r.K), Gaussian{r.Sigma}}, 1e-5, r.Pld_exact, r.Rdp, true, true})
		} else {
			rows = append(rows, golden{"ledger", Repeat{int(r.K), Pure{r.Pure_eps0}}, 1e-5, r.Pld_KOV, r.Rdp_randresp, false, false})
		}
	}
	return rows
}

var mixturePart = regexp.MustCompile(`(\d+)x (pure|Gauss|Laplace) (?:sigma=|b=)?([\d.]+)`)

// parseMixture reads "5x pure .2 + 100x Gauss sigma=20"; Laplace noise of scale
// b is a Pure event of 1/b.
func parseMixture(text string) Event {
	var history Compose
	for _, part := range mixturePart.FindAllStringSubmatch(text, -1) {
		count, _ := strconv.Atoi(part[1])
		v, _ := strconv.ParseFloat(part[3], 64)
		e := map[string]Event{"pure": Pure{v}, "Gauss": Gaussian{v}, "Laplace": Pure{1 / v}}[part[2]]
		history = append(history, Repeat{count, e})
	}
	return history
}

// check compares an accountant with a row; the reference has six digits or more.
func (g golden) check(a Accountant) error {
	eps, err := a.Epsilon(g.history, g.delta)
	switch {
	case err != nil:
		return err
	case eps < g.real*(1-1e-6):
		return fmt.Errorf("%s: %v: epsilon %.8g is below the real one, %v", g.name, g.history, eps, g.real)
	case eps > 1.15*g.renyi:
		return fmt.Errorf("%s: %v: epsilon %.8g is above 1.15 x %v", g.name, g.history, eps, g.renyi)
	case g.exact && eps > g.real*(1+1e-6):
		return fmt.Errorf("%s: %v: epsilon %.8g is not exactly %v", g.name, g.history, eps, g.real)
	}
	return nil
}

func TestBestMatchesTheReference(t *testing.T) {
	best := new(Best)
	for _, g := range readGolden(t).rows() {
		if err := g.check(best); err != nil {
			t.Error(err)
		}
	}
}

// Each theorem alone must be safe, and no better than Best.
func TestEveryAccountantIsSafe(t *testing.T) {
	best, renyi := new(Best), new(Renyi)
	for _, g := range readGolden(t).rows() {
		least, err := best.Epsilon(g.history, g.delta)
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range []Accountant{PureSum{}, Concentrated{}, renyi, exactGaussian{}} {
			eps, err := a.Epsilon(g.history, g.delta)
			if errors.Is(err, ErrUnsupported) {
				continue
			}
			if err != nil || eps < g.real*(1-1e-6) || eps < least {
				t.Errorf("%T: %v: %v, %v; really %v, Best %v", a, g.history, eps, err, g.real, least)
			}
		}
	}
}

// altered is an accountant that misreads some events.
type altered struct {
	Accountant
	event func(Event) Event
}

func (a altered) Epsilon(history Event, delta float64) (float64, error) {
	return a.Accountant.Epsilon(a.rewrite(history), delta)
}

func (a altered) rewrite(e Event) Event {
	switch e := e.(type) {
	case Repeat:
		return a.event(Repeat{e.Count, a.rewrite(e.Event)})
	case Sampled:
		return a.event(Sampled{e.Rate, a.rewrite(e.Event)})
	case Compose:
		var events Compose
		for _, inner := range e {
			events = append(events, a.rewrite(inner))
		}
		return events
	}
	return a.event(e)
}

func onGaussian(scale float64) func(Event) Event {
	return func(e Event) Event {
		if g, ok := e.(Gaussian); ok {
			return Gaussian{scale * g.NoiseMultiplier}
		}
		return e
	}
}

// A mutant must fail in every row with noise, not just in one.
func TestReferenceCatchesMutants(t *testing.T) {
	best := new(Best)
	for name, c := range map[string]struct {
		event func(Event) Event
		kind  string // of rows that must catch it
	}{
		"noise halved: half of what is claimed":           {onGaussian(2), "gaussian"},
		"sensitivity C instead of 2C":                     {onGaussian(2), "ledger"},
		"sensitivity C instead of 2C, sampled":            {onGaussian(2), "sampled"},
		"rho instead of rho/2":                            {onGaussian(1 / math.Sqrt2), "gaussian"},
		"rho/4 instead of rho/2":                          {onGaussian(math.Sqrt2), "gaussian"},
		"sampling with a rate squared":                    {squareRate, "sampled"},
		"counting only once":                              {ignoreCount, "mixture"},
		"counting only once, as dp_accounting 0.6.0 does": {ignoreCount, "gaussian"},
	} {
		rows, caught := 0, 0
		for _, g := range readGolden(t).rows() {
			if repeat, ok := g.history.(Repeat); g.name != c.kind || !g.noise || ok && repeat.Count == 1 {
				continue
			}
			rows++
			if g.check(altered{best, c.event}) != nil {
				caught++
			}
		}
		if limit := rows * 3 / 10; caught <= limit || rows == 0 || c.kind == "gaussian" && caught < rows {
			t.Errorf("%s: caught by %d of %d rows %q", name, caught, rows, c.kind)
		}
	}
}

func squareRate(e Event) Event {
	if s, ok := e.(Sampled); ok {
		return Sampled{s.Rate * s.Rate, s.Event}
	}
	return e
}

func ignoreCount(e Event) Event {
	if r, ok := e.(Repeat); ok {
		return r.Event
	}
	return e
}

// What ledger accounting buys: k fits, each (0.5, 1e-8) by Gaussian noise, alone
// and with one pure entry among them, at delta 1e-5.
func TestLedgerOfGaussianFits(t *testing.T) {
	best := new(Best)
	z, err := Calibrate(best, Budget{.5, 1e-8}, func(z float64) (Event, error) { return Gaussian{z}, nil })
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		k            int
		renyi, exact float64
	}{{5, .910, .832}, {20, 1.944, 1.787}, {100, 4.804, 4.447}} {
		eps, err := best.Epsilon(Repeat{c.k, Gaussian{z}}, 1e-5)
		if err != nil || math.Abs(eps-c.exact) > 5e-4 {
			t.Errorf("%d fits: %v, %v; want %v", c.k, eps, err, c.exact)
		}
		mixed, err := best.Epsilon(Compose{Repeat{c.k - 1, Gaussian{z}}, Pure{.01}, Gaussian{z}}, 1e-5)
		if err != nil || mixed > 1.01*c.renyi+.01 || mixed <= eps {
			t.Errorf("%d fits and a pure entry: %v, %v; alone %v", c.k, mixed, err, eps)
		}
	}
}

func TestBestTakesTheSmallestBound(t *testing.T) {
	best := new(Best)
	for _, c := range []struct {
		history    Event
		delta, eps float64
	}{
		{Compose{}, 0, 0},
		{Compose{}, 1e-6, 0},
		{Repeat{10, Pure{.5}}, 0, 5}, // exact sums stay exact
		{Repeat{10, BoundedRange{.5}}, 0, 5},
		{Gaussian{1}, 0, none},
		{Gaussian{1}, 1, 0},
		{Approx{1, 1e-6}, 1e-6, 1}, // the whole delta is the event's
		{Approx{1, 1e-6}, 1e-7, none},
		{Compose{Approx{1, 1e-6}, Gaussian{1}}, 1e-6, none},
		{Compose{Approx{0, 1e-6}, Gaussian{1}}, 1.1e-5, 4.377178}, // a surcharge takes its delta only
		{Sampled{1, Gaussian{1}}, 1e-5, 4.377178},
		{Parallel{Gaussian{1}}, 1e-5, 4.377178},
		{ZCDP{.1}, 1e-6, 2.141939},
		{Compose{Pure{.01}, Gaussian{1}}, 1e-5, 4.387178}, // the pure event apart
		{Repeat{100, BoundedRange{.1}}, 1e-5, 2.165716},   // all as one
	} {
		eps, err := best.Epsilon(c.history, c.delta)
		if err != nil || eps != c.eps && math.Abs(eps-c.eps) > 1e-6*c.eps+1e-9 {
			t.Errorf("Epsilon(%#v, %v) = %v, %v; want %v", c.history, c.delta, eps, err, c.eps)
		}
	}
}

// What mechanisms spend of delta is not there for the conversion: a history with an event that is one of delta
// alone costs what it costs without it at what is left of delta.
func TestDeltasOfEventsAreTakenOff(t *testing.T) {
	const delta, own = 1e-6, 3e-7
	renyi := new(Renyi)
	for _, a := range []Accountant{Concentrated{}, renyi, AtOrder{16, renyi}, new(Best)} {
		for _, e := range []Event{Gaussian{2}, Repeat{10, Sampled{.01, Gaussian{1}}}, ZCDP{.1}} {
			without, err := a.Epsilon(e, delta-own)
			with, err2 := a.Epsilon(Compose{Approx{0, own}, e}, delta)
			all, err3 := a.Epsilon(e, delta)
			if errors.Join(err, err2, err3) != nil || math.Abs(with/without-1) > 1e-9 || !(with > all) {
				t.Errorf("%T: %#v: %v with a delta of its own, %v at what is left, %v at all of delta, %v", a, e, with, without, all, errors.Join(err, err2, err3))
			}
		}
	}
}

func TestAccountantsNeverGuess(t *testing.T) {
	for _, a := range []Accountant{PureSum{}, Concentrated{}, new(Renyi), exactGaussian{}, new(Best)} {
		for _, e := range []Event{strange{}, &Pure{1}, Compose{Pure{1}, strange{}}, Sampled{.5, strange{}}, Repeat{2, Parallel{strange{}}}} {
			if _, err := a.Epsilon(e, 1e-6); !errors.Is(err, ErrUnsupported) {
				t.Errorf("%T: %#v: %v; want ErrUnsupported", a, e, err)
			}
		}
		for _, e := range []Event{nil, Pure{-1}, Repeat{0, Pure{1}}, Compose{nil}, Sampled{2, Gaussian{1}}, hugeRepeat(20)} {
			if _, err := a.Epsilon(e, 1e-6); !errors.Is(err, ErrEvent) {
				t.Errorf("%T: %#v: %v; want ErrEvent", a, e, err)
			}
		}
		for _, delta := range []float64{-1e-9, 1.5, math.NaN(), none} {
			if _, err := a.Epsilon(Compose{}, delta); !errors.Is(err, ErrBudget) {
				t.Errorf("%T: delta %v: %v; want ErrBudget", a, delta, err)
			}
		}
	}
	if _, err := (PureSum{}).Epsilon(Gaussian{1}, 1e-6); !errors.Is(err, ErrUnsupported) {
		t.Errorf("PureSum of a Gaussian: %v", err)
	}
	if _, err := (exactGaussian{}).Epsilon(Compose{Gaussian{1}, Pure{1}}, 1e-6); !errors.Is(err, ErrUnsupported) {
		t.Errorf("ExactGaussian of a mixture: %v", err)
	}
}

func hugeRepeat(depth int) Event {
	if depth == 0 {
		return ZCDP{0}
	}
	return Repeat{math.MaxInt, hugeRepeat(depth - 1)}
}

// More of anything costs more, more noise less.
func TestEpsilonIsMonotone(t *testing.T) {
	best := new(Best)
	history := func(count int, z, rate, pure float64) Event {
		return Compose{Repeat{count, Sampled{rate, Gaussian{z}}}, Pure{pure}}
	}
	for name, vary := range map[string]func(k int) (Event, float64){
		"count":      func(k int) (Event, float64) { return history(1<<k, 2, .05, .01), 1e-5 },
		"less noise": func(k int) (Event, float64) { return history(10, 8*math.Pow(.8, float64(k)), .05, .01), 1e-5 },
		"rate":       func(k int) (Event, float64) { return history(10, 2, math.Pow(.7, float64(15-k)), .01), 1e-5 },
		"pure":       func(k int) (Event, float64) { return history(10, 2, .05, .01*float64(k)), 1e-5 },
		"less delta": func(k int) (Event, float64) { return history(10, 2, .05, .01), math.Pow(.1, float64(k+1)) },
	} {
		last := 0.0
		for k := range 16 {
			eps, err := best.Epsilon(vary(k))
			if err != nil || eps < last*(1-1e-9) {
				t.Errorf("%s: step %d: %v fell from %v, %v", name, k, eps, last, err)
			}
			last = eps
		}
	}
}

func BenchmarkBest(b *testing.B) {
	for name, e := range map[string]Event{
		"gaussian": Repeat{10, Gaussian{2}},
		"mixture":  Compose{Repeat{10, Gaussian{2}}, Pure{.1}, BoundedRange{.1}},
		"sampled":  Repeat{1000, Sampled{.01, Gaussian{2}}},
	} {
		b.Run(name, func(b *testing.B) {
			best := new(Best)
			for b.Loop() {
				if _, err := best.Epsilon(e, 1e-5); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

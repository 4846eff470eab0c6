package privacy

import (
	"errors"
	"math"
	"slices"
	"sync"
	"testing"
)

// The grid is stored in ledgers: a change needs another OrdersVersion.
func TestOrderGridIsFixed(t *testing.T) {
	if OrdersVersion != 1 || len(orders) != 126 || !slices.IsSorted(orders) || len(slices.Compact(slices.Clone(orders))) != 126 {
		t.Fatalf("grid %d has %d orders", OrdersVersion, len(orders))
	}
	for i, want := range map[int]float64{0: 1.25, 1: 1.5, 35: 10, 36: 11, 89: 64, 90: 69, 91: 75, 107: 256, 124: 948, 125: 1024} {
		if orders[i] != want {
			t.Errorf("order %d of the grid is %v; want %v", i, orders[i], want)
		}
	}
}

// The design's value: the line .1 a, on a coarser grid.
func TestRenyiConversionMatchesTheDesign(t *testing.T) {
	best, at := none, 0.0
	for _, order := range []float64{2, 3, 4, 8, 16, 32, 64} {
		if eps := RenyiEpsilon(.1*order, order, 1e-6); eps < best {
			best, at = eps, order
		}
	}
	if !near(best, 2.2716563) || at != 16 {
		t.Errorf("epsilon %v at order %v", best, at)
	}
}

func TestRenyiConversionIsSafeAtTheEdges(t *testing.T) {
	nan := math.NaN()
	for _, c := range []struct{ divergence, order, delta, eps float64 }{
		{0, 2, 1, 0}, {0, 2, .9, 0}, {1, 2, 0, none}, {none, 2, 1e-6, none}, {nan, 2, 1e-6, none}, {-1, 2, 1e-6, none},
		{1, 1, 1e-6, none}, {1, nan, 1e-6, none}, {1, 2, nan, none}, {1, 2, -1, none},
	} {
		if got := RenyiEpsilon(c.divergence, c.order, c.delta); got != c.eps {
			t.Errorf("RenyiEpsilon(%v, %v, %v) = %v; want %v", c.divergence, c.order, c.delta, got, c.eps)
		}
	}
}

// Between orders 1 and infinity randomised response goes from eps tanh(eps/2) a
// to eps. The textbook formula gives the same where it does not cancel.
func TestPureCurve(t *testing.T) {
	for _, eps := range []float64{0, 5e-324, 1e-200, 1e-9, .01, .1, 1, 3, 20, 400, 1e300} {
		last := 0.0
		for _, a := range orders {
			got := pureRenyi(eps, a)
			if got > eps || got < last*(1-1e-12) {
				t.Errorf("pureRenyi(%v, %v) = %v after %v", eps, a, got, last)
			}
			if limit := a * eps * math.Tanh(eps/2); eps > 1e-100 && got > limit*(1+1e-12) {
				t.Errorf("pureRenyi(%v, %v) = %v is above %v", eps, a, got, limit)
			}
			want := eps - (math.Log1p(math.Exp(-eps))-math.Log1p(math.Exp(-(2*a-1)*eps)))/(a-1)
			if eps >= .01 && math.Abs(got-want) > 1e-12*(1+want) {
				t.Errorf("pureRenyi(%v, %v) = %v; want %v", eps, a, got, want)
			}
			last = got
		}
	}
	if got, want := pureRenyi(1e-9, 2)/1e-18, 1.0; math.Abs(got-want) > 1e-8 {
		t.Errorf("pureRenyi(1e-9, 2) = %v e-18; want %v e-18", got, want)
	}
}

func TestCurveAddsWhatItsLeavesCost(t *testing.T) {
	r := new(Renyi)
	e := Compose{Repeat{3, Gaussian{2}}, BoundedRange{.5}, Parallel{ZCDP{.01}}, Approx{.2, 1e-7}, Repeat{2, Repeat{5, Sampled{.1, Gaussian{1}}}}}
	curve, err := r.Curve(e)
	if err != nil || len(curve) != len(orders) {
		t.Fatal(err)
	}
	for i, a := range orders {
		want := 3*a/8 + min(a*.25/8, pureRenyi(.5, a)) + .01*a + pureRenyi(.2, a) + 10*sampledRenyi(.1, 1, a)
		if curve[i] < want*(1-1e-15) || curve[i] > want*(1+1e-14) {
			t.Errorf("order %v: %v; want %v", a, curve[i], want)
		}
	}
	if _, err := r.Curve(strange{}); !errors.Is(err, ErrUnsupported) {
		t.Errorf("the curve of an unknown event: %v", err)
	}
}

// Epsilon leaves out orders that cannot matter; it must find the same minimum.
func TestRenyiFindsTheBestOrder(t *testing.T) {
	r := new(Renyi)
	for _, e := range []Event{Gaussian{.1}, Gaussian{1}, Gaussian{300}, Repeat{100, Sampled{.01, Gaussian{1}}}, Pure{1}, Compose{Pure{.1}, Sampled{.5, Gaussian{4}}}} {
		for _, delta := range []float64{1e-12, 1e-5, .1, .9} {
			curve, err := r.Curve(e)
			if err != nil {
				t.Fatal(err)
			}
			best := none
			for i, a := range orders {
				best = min(best, RenyiEpsilon(curve[i], a, delta))
			}
			if got, err := r.Epsilon(e, delta); err != nil || got != best {
				t.Errorf("%#v at %v: %v, %v; want %v", e, delta, got, err, best)
			}
		}
	}
}

func TestRenyiServesManyAtOnce(t *testing.T) {
	r := new(Renyi)
	want, err := new(Renyi).Curve(Sampled{.1, Gaussian{3}})
	if err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			if got, err := r.Curve(Sampled{.1, Gaussian{3}}); err != nil || !slices.Equal(got, want) {
				t.Errorf("%v, %v", got, err)
			}
		})
	}
	group.Wait()
}

func TestRenyiMemoryIsBounded(t *testing.T) {
	r := &Renyi{cache: map[sampledOrder]float64{}}
	for k := range maxCached {
		r.cache[sampledOrder{rate: float64(k)}] = 1
	}
	if r.sampledGaussian(sampledOrder{.1, 3, 2}); len(r.cache) != 1 {
		t.Errorf("%d divergences are kept", len(r.cache))
	}
}

package privacy

import (
	"encoding/json"
	"errors"
	"math"
	"math/big"
	"math/rand/v2"
	"os"
	"testing"
)

var none = math.Inf(1)

func TestPriceFollowsTheTheorems(t *testing.T) {
	tanh := func(eps float64) float64 { return eps * math.Tanh(eps/2) }
	for _, c := range []struct {
		event Event
		want  Cost
	}{
		{Gaussian{2}, Cost{none, 0.125, 0}},
		{Gaussian{1e-200}, Cost{none, none, 0}},
		{Pure{0}, Cost{0, 0, 0}},
		{Pure{.1}, Cost{.1, .0049958375, 0}}, // eps tanh(eps/2): golden values of the design
		{Pure{1}, Cost{1, .462117, 0}},
		{Pure{3}, Cost{3, 2.715445, 0}},
		{Pure{10}, Cost{10, 9.999092, 0}},
		{BoundedRange{1}, Cost{1, 0.125, 0}},
		{BoundedRange{20}, Cost{20, tanh(20), 0}},
		{ZCDP{0.3}, Cost{none, 0.3, 0}},
		{Approx{1, 1e-6}, Cost{1, .462117, 1e-6}},
		{Repeat{100, Approx{0.5, 1e-7}}, Cost{50, 100 * tanh(.5), 1e-5}},
		{Repeat{8, Gaussian{2}}, Cost{none, 1, 0}},
		{Sampled{0.01, Pure{1}}, Cost{1, .462117, 0}},
		{Sampled{0.01, Gaussian{2}}, Cost{none, 0.125, 0}},
		{Parallel{BoundedRange{1}}, Cost{1, 0.125, 0}},
		{Only{Repeat{2, Gaussian{2}}}, Cost{none, 0.25, 0}},
		{Compose{}, Cost{}},
		{Compose{Pure{0.5}, BoundedRange{1}, Approx{1, 1e-6}}, Cost{2.5, tanh(.5) + .125 + tanh(1), 1e-6}},
		{Compose{Pure{0.5}, Gaussian{1}}, Cost{none, tanh(.5) + .5, 0}},
	} {
		got, err := Price(c.event)
		if err != nil || !near(got.Epsilon, c.want.Epsilon) || !near(got.Rho, c.want.Rho) || !near(got.Delta, c.want.Delta) {
			t.Errorf("Price(%#v) = %v, %v; want %v", c.event, got, err, c.want)
		}
	}
}

func near(got, want float64) bool { return got == want || math.Abs(got-want) <= 1e-6*want }

type strange struct{ Pure }

func (strange) kind() string { return "strange" }

func TestPriceNeverGuesses(t *testing.T) {
	for _, e := range []Event{strange{}, &Pure{1}, Compose{Pure{1}, strange{}}, Repeat{2, strange{}}, Sampled{.5, strange{}}} {
		if c, err := Price(e); !errors.Is(err, ErrUnsupported) || c != (Cost{}) {
			t.Errorf("Price(%#v) = %v, %v; want ErrUnsupported", e, c, err)
		}
	}
}

// Exact results stay exact: a ledger of ten times 0.5 reads 5, not 5.000000000000001.
func TestDirectedRoundingIsTightAndSafe(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	value := func() float64 {
		switch rng.IntN(4) {
		case 0:
			return float64(rng.IntN(100)) / 8
		case 1:
			return math.Float64frombits(rng.Uint64() & (1<<63 - 1) % (0x7ff << 52)) // any finite
		}
		return rng.Float64()
	}
	check := func(name string, a, b, got float64, exact *big.Rat, upward bool) {
		if math.IsInf(got, 1) && upward {
			return
		}
		safe, closer := new(big.Rat).SetFloat64(got).Cmp(exact), math.Nextafter(got, math.Inf(-1))
		if !upward {
			safe, closer = -safe, math.Nextafter(got, math.Inf(1))
		}
		if safe < 0 {
			t.Fatalf("%s(%v, %v) = %v is on the wrong side", name, a, b, got)
		}
		if closer < 2*tiny || a < tiny || math.IsInf(closer, 1) {
			return // tightness is promised above tiny only
		}
		if side := new(big.Rat).SetFloat64(closer).Cmp(exact); side == 0 || (side > 0) == upward {
			t.Fatalf("%s(%v, %v) = %v; %v was safe too", name, a, b, got, closer)
		}
	}
	rat := func(v float64) *big.Rat { return new(big.Rat).SetFloat64(v) }
	for range 20_000 {
		a, b := value(), value()
		check("addUp", a, b, addUp(a, b), new(big.Rat).Add(rat(a), rat(b)), true)
		check("mulUp", a, b, mulUp(a, b), new(big.Rat).Mul(rat(a), rat(b)), true)
		check("mulDown", a, b, mulDown(a, b), new(big.Rat).Mul(rat(a), rat(b)), false)
		if b > 0 {
			check("divUp", a, b, divUp(a, b), new(big.Rat).Quo(rat(a), rat(b)), true)
		}
	}
}

func TestConversionMatchesTheReference(t *testing.T) {
	var golden struct {
		Forward []struct {
			Rho, Delta float64
			Eps        float64 `json:"eps_tight_CKS20"`
		} `json:"zcdp_forward"`
		Inverse []struct {
			Eps, Delta float64
			Rho        float64 `json:"rho_tight"`
		} `json:"zcdp_inverse"`
	}
	text, err := os.ReadFile("testdata/zcdp.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &golden); err != nil || len(golden.Forward) == 0 || len(golden.Inverse) == 0 {
		t.Fatalf("testdata/zcdp.json: %v", err)
	}
	for _, r := range golden.Forward {
		if got := ZCDPEpsilon(r.Rho, r.Delta); !near(got, r.Eps) {
			t.Errorf("ZCDPEpsilon(%v, %v) = %.8g; want %v", r.Rho, r.Delta, got, r.Eps)
		}
	}
	for _, r := range golden.Inverse {
		if got := ZCDPRho(r.Eps, r.Delta); !near(got, r.Rho) {
			t.Errorf("ZCDPRho(%v, %v) = %.8g; want %v", r.Eps, r.Delta, got, r.Rho)
		}
	}
}

// The design's own values have six decimals.
func TestConversionMatchesTheDesign(t *testing.T) {
	if got := ZCDPEpsilon(.1, 1e-6); math.Abs(got-2.141939) > 1e-6 {
		t.Errorf("ZCDPEpsilon(.1, 1e-6) = %v", got)
	}
	for _, c := range []struct{ eps, delta, rho float64 }{
		{1, 1e-6, .024356}, {.5, 1e-6, .006642}, {.1, 1e-6, .000321}, {3, 1e-6, .185070}, {1, 1e-5, .030557},
	} {
		if got := ZCDPRho(c.eps, c.delta); math.Abs(got-c.rho) > 1e-6 {
			t.Errorf("ZCDPRho(%v, %v) = %v; want %v", c.eps, c.delta, got, c.rho)
		}
	}
}

func TestConversionIsSafeAtTheEdges(t *testing.T) {
	nan := math.NaN()
	for _, c := range []struct{ rho, delta, eps float64 }{
		{0, 1e-6, 0}, {0, 0, 0}, {1, 0, none}, {1, 1, 0}, {none, 1e-6, none}, {nan, 1e-6, none}, {1, nan, none}, {-1, 1e-6, none}, {1, -1, none},
	} {
		if got := ZCDPEpsilon(c.rho, c.delta); got != c.eps {
			t.Errorf("ZCDPEpsilon(%v, %v) = %v; want %v", c.rho, c.delta, got, c.eps)
		}
	}
	for _, c := range []struct{ eps, delta, rho float64 }{
		{0, 1e-6, 0}, {1, 0, 0}, {nan, 1e-6, 0}, {1, nan, 0}, {-1, 1e-6, 0}, {1, 1, none}, {none, 1e-6, none},
	} {
		if got := ZCDPRho(c.eps, c.delta); got != c.rho {
			t.Errorf("ZCDPRho(%v, %v) = %v; want %v", c.eps, c.delta, got, c.rho)
		}
	}
}

// The returned epsilon must be at least the infimum, hence at most slightly
// above the bound at every order; and the inverse must never exceed its budget.
func TestConversionIsTightAndMonotone(t *testing.T) {
	for _, delta := range []float64{1e-300, 1e-12, 1e-6, 1e-2, 0.5, 0.99} {
		last := 0.0
		for k := -300; k <= 300; k += 7 {
			rho := math.Pow(10, float64(k)/20)
			eps := ZCDPEpsilon(rho, delta)
			if eps < last*(1-1e-12) {
				t.Errorf("ZCDPEpsilon(%v, %v) = %v fell from %v", rho, delta, eps, last)
			}
			last = eps
			for x := 1e-8; x < 1e12; x *= 1.5 {
				if bound := rho*(1+x) - math.Log1p(1/x) - (math.Log1p(x)+math.Log(delta))/x; eps > math.Max(bound, 0)*(1+1e-12)+1e-12 {
					t.Fatalf("ZCDPEpsilon(%v, %v) = %v above the bound %v at order 1+%v", rho, delta, eps, bound, x)
				}
			}
			if back := ZCDPRho(eps, delta); ZCDPEpsilon(back, delta) > eps || eps > 1e-6 && back < rho*(1-1e-6) {
				t.Errorf("ZCDPRho(%v, %v) = %v; came from %v", eps, delta, back, rho)
			}
		}
	}
}

package mech

import (
	"errors"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"dpsidecar/internal/privacy"

	"gonum.org/v1/gonum/stat/distuv"
)

// largest returns the supremum over y >= 0 of |f|, even or odd, whose second
// derivative is below 50: the best of a grid, then of a finer one around it. It
// is at most 50 (1e-5)^2 / 8 < 1e-9 below. Beyond y = 40/sigma f is flat or gone.
func largest(sigma float64, f func(y float64) float64) float64 {
	search := func(from, to, step float64) (sup, at float64) {
		for y := from; y < to; y += step {
			if v := math.Abs(f(y)); v > sup {
				sup, at = v, y
			}
		}
		return sup, at
	}
	_, at := search(0, 40/sigma, 1e-3)
	sup, _ := search(at-1e-3, at+1e-3, 1e-5)
	return sup
}

// arsinhCosts computes K and c of smooth.md.
func arsinhCosts(s float64) (dilation, shift float64) {
	sech := func(y float64) float64 { return 1 / math.Cosh(s*y) }
	tanh := func(y float64) float64 { return math.Tanh(s * y) }
	dilation = largest(s, func(y float64) float64 {
		return tanh(y)/s + y*sech(y)*sech(y) + 2*s*tanh(y)*sech(y)*sech(y)
	})
	slope := largest(s, func(y float64) float64 { return sech(y) * (1 - s*y*tanh(y) + s*s*(1-2*tanh(y)*tanh(y))) })
	size := largest(s, func(y float64) float64 { return y*sech(y) + s*tanh(y)*sech(y) })
	return dilation, math.Min(slope, size)
}

// The table is the numbers rounded upward in the fourth decimal (to 1e-9, the
// error of the search).
func TestArsinhTableIsRoundedUpward(t *testing.T) {
	for _, a := range arsinhShapes {
		dilation, shift := arsinhCosts(a.sigma)
		for _, v := range [][2]float64{{a.dilation, dilation}, {a.shift, shift}} {
			if v[0] < v[1]-1e-9 || v[0] > v[1]+1e-4 {
				t.Errorf("sigma = %v: table %v, computed %.7f", a.sigma, v[0], v[1])
			}
		}
	}
}

// arsinhPair is the law of shift + e^dilation Z against that of Z, in units of
// the second law's scale.
type arsinhPair struct{ sigma, dilation, shift float64 }

// logDensity returns the logarithm of the density of sinh(sigma Y)/sigma, up to
// a constant.
func logDensity(sigma, x float64) float64 {
	y := math.Asinh(sigma*x) / sigma
	return -y*y/2 - math.Log(math.Cosh(sigma*y))
}

// renyi returns the divergences of order a in both directions, by the trapezoid
// rule, which for smooth integrands that vanish at both ends is far better
// than the 1e-6 that the test leaves.
func (p arsinhPair) renyi(a float64) (forth, back float64) {
	scale := math.Exp(p.dilation)
	const step, edge = 1. / 16, 40.
	for y := -edge; y <= edge; y += step {
		weight := math.Exp(-y*y/2) / math.Sqrt(2*math.Pi) * step
		z := math.Sinh(p.sigma*y) / p.sigma
		// x ~ shift + scale Z against Z
		x := p.shift + scale*z
		forth += weight * math.Exp((a-1)*(logDensity(p.sigma, z)-p.dilation-logDensity(p.sigma, x)))
		// x ~ Z against shift + scale Z
		back += weight * math.Exp((a-1)*(logDensity(p.sigma, z)+p.dilation-logDensity(p.sigma, (z-p.shift)/scale)))
	}
	return math.Log(forth) / (a - 1), math.Log(back) / (a - 1)
}

// divergenceShare returns the largest Renyi divergence between neighbours, over
// what rho allows, among shapes, budgets and splits between dilation and shift.
func divergenceShare() float64 {
	worst := 0.0
	for _, a := range arsinhShapes {
		for _, epsilon := range []float64{.1, 1} {
			for _, split := range []float64{.02, .25, .5, .9} {
				t := split * epsilon / a.dilation
				s := (1 - split) * epsilon / a.shift
				for _, p := range []arsinhPair{{a.sigma, t, s}, {a.sigma, -t, s * math.Exp(-t)}, {a.sigma, t, 0}, {a.sigma, 0, s}} {
					for _, order := range []float64{1.2, 2, 8} {
						forth, back := p.renyi(order)
						worst = math.Max(worst, math.Max(forth, back)/(order*epsilon*epsilon/2))
					}
				}
			}
		}
	}
	return worst
}

// Neighbours move the centre by at most S and S by a factor of at most e^t: no
// Renyi divergence is above order * rho, and one is above half of that, so a
// charge of rho/2 would be refuted.
func TestArsinhDivergenceIsWithinRhoButNotHalf(t *testing.T) {
	worst := divergenceShare()
	t.Logf("largest divergence: %.4f of order * rho", worst)
	if worst > 1+1e-6 {
		t.Errorf("divergence is %v times what is charged", worst)
	}
	if worst < .5 {
		t.Errorf("divergence is at most %v of what is charged: the test has no power against rho/2", worst)
	}
}

// What is charged is what the noise was proved for.
func TestSmoothChargesWhatTheNoiseCosts(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for range 1000 {
		epsilon := math.Exp(4*r.Float64() - 3)
		m := Smooth{epsilon, epsilon * r.Float64() / 1.85} // some use almost all for the dilation
		if m.Check() != nil {
			continue
		}
		a, s := m.calibrate()
		cost := new(big.Rat).Mul(rational(a.dilation*m.Smoothness), big.NewRat(1e9+1, 1e9))
		cost.Add(cost, new(big.Rat).Mul(rational(a.shift), rational(s)))
		cost.Mul(cost, cost).Mul(cost, big.NewRat(1, 2))
		rho := rational(m.Event().(privacy.ZCDP).Rho)
		if cost.Cmp(rho) > 0 {
			t.Fatalf("%+v costs %v, charged %v", m, cost.FloatString(20), rho.FloatString(20))
		}
		if half := new(big.Rat).Mul(rho, big.NewRat(1, 2)); cost.Cmp(half) < 0 {
			t.Fatalf("%+v is charged twice its cost", m)
		}
	}
}

// Noise over S/Epsilon at some smoothnesses, as designed.
func TestSmoothTuning(t *testing.T) {
	for _, c := range []struct{ smoothness, want float64 }{{.05, 1.44}, {.1, 1.86}, {.15, 2.38}, {.2, 2.87}, {.25, 3.45}} {
		if got := (Smooth{1, c.smoothness}).Std(); math.Abs(got-c.want) > .01 {
			t.Errorf("smoothness %v: noise %v, want %v", c.smoothness, got, c.want)
		}
	}
	for _, m := range []Smooth{{1, .6}, {1, 0}, {1, math.NaN()}, {0, 0}, {math.NaN(), .1}, {1, math.Inf(1)}, {math.Inf(1), 1}} {
		if err := m.Check(); !errors.Is(err, ErrParams) {
			t.Errorf("%+v: %v", m, err)
		}
	}
	if (Smooth{}).Arithmetic() != "float64-grid" {
		t.Error("a smooth release must be marked")
	}
}

func TestSmoothReleaseHasItsLaw(t *testing.T) {
	m, src := Smooth{1, .1}, testSource(t, 1)
	a, s := m.calibrate()
	const value, bound, grid = 3, .25, 0x1p-30
	all := make([]float64, 6000)
	for i := range all {
		all[i] = m.Release(NewSmoothed(value, bound, .1, grid), src)
		if steps := all[i] / grid; steps != math.Trunc(steps) {
			t.Fatalf("%v is off the grid", all[i])
		}
	}
	law := func(bound float64) func(float64) float64 {
		return func(x float64) float64 {
			return distuv.UnitNormal.CDF(math.Asinh(a.sigma*(x-value)/bound*s) / a.sigma)
		}
	}
	if !fitsLaw(all, law(bound)) {
		t.Error("wrong law")
	}
	for name, mutant := range map[string]float64{"half the noise": 2 * bound, "20% less noise": 1.2 * bound} {
		if fitsLaw(all, law(mutant)) {
			t.Errorf("the test has no power against %s", name)
		}
	}
}

// The same draw to more digits stays in the enclosure, whose width shrinks.
func TestArsinhEnclosureHoldsTheNumber(t *testing.T) {
	src, a := testSource(t, 2), arsinhShapes[3]
	for range 200 {
		y := src.Normal()
		low, high := a.enclose(y, 1)
		nearLow, nearHigh := a.enclose(y, 3)
		if low.Cmp(nearLow) > 0 || nearLow.Cmp(nearHigh) > 0 || nearHigh.Cmp(high) > 0 {
			t.Fatal("enclosures are not nested")
		}
		if width, _ := new(big.Rat).Sub(nearHigh, nearLow).Float64(); width > 0x1p-150 {
			t.Fatalf("192 digits leave a width of %g", width)
		}
		v, _ := y.Value(2).Float64()
		want := math.Sinh(a.sigma*v) / a.sigma
		if got, _ := low.Float64(); math.Abs(got-want) > 1e-13*(1+math.Abs(want)) {
			t.Fatalf("sinh(%v y)/%v = %v, want %v", a.sigma, a.sigma, got, want)
		}
	}
}

// A grid so fine that 64 digits do not decide draws more of them.
func TestSmoothRoundsToAnyGrid(t *testing.T) {
	src := testSource(t, 3)
	for _, grid := range []float64{5e-324, 0x1p-200, 1e-3, 1, 1e300} {
		v := Smooth{1, .1}.Release(NewSmoothed(1, 1e-3, .1, grid), src)
		if math.IsNaN(v) || math.IsInf(v, 0) || math.Abs(v-1) > 1+grid/2 {
			t.Errorf("grid %g: %v", grid, v)
		}
	}
}

func TestMisuseOfSmoothPanics(t *testing.T) {
	src := testSource(t, 4)
	once := NewSmoothed(1, 1, .1, 1)
	Smooth{1, .1}.Release(once, src)
	for name, f := range map[string]func(){
		"a second release":  func() { Smooth{1, .1}.Release(once, src) },
		"too little smooth": func() { Smooth{1, .1}.Release(NewSmoothed(1, 1, .11, 1), src) },
		"bad parameters":    func() { Smooth{1, .6}.Release(NewSmoothed(1, 1, .1, 1), src) },
		"a bound of zero":   func() { NewSmoothed(1, 0, .1, 1) },
		"an infinite bound": func() { NewSmoothed(1, math.Inf(1), .1, 1) },
		"a value of NaN":    func() { NewSmoothed(math.NaN(), 1, .1, 1) },
		"no grid":           func() { NewSmoothed(1, 1, .1, 0) },
	} {
		if !panics(f) {
			t.Errorf("%s: no panic", name)
		}
	}
}

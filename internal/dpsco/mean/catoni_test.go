package mean

import (
	"math"
	"math/rand/v2"
	"testing"

	"dpsidecar/internal/mech/mechtest"
)

// The printed closed form, in float64 and without a clamp, lets one record move the
// sum without bound; the implementation keeps to the bound with the same record.
func TestClosedFormNeedsTheClamp(t *testing.T) {
	const beta = 4.605170185988092 // ln 100
	m := Catoni{Scale: 1, Beta: beta}
	for _, a := range []float64{1e8, 1e300, math.Inf(1)} {
		if v := math.Abs(closedForm(a, beta)); v <= m.bound() {
			t.Errorf("the closed form at %v is %v: this test shows nothing", a, v)
		}
		record := design{x: [][]float64{{a}}, c: []float64{1}}
		sum := at(t, m, 1, 1, 1).(*catoniEstimator).sum(record.rows(1, 1))
		bound, _ := mechtest.SquaredSensitivity(t, sum).Float64()
		if v := float64(mechtest.Totals(t, sum)[0]); !(math.Abs(v) <= math.Sqrt(bound)/2) || v < .999*math.Sqrt(bound)/2 {
			t.Errorf("a record of %v adds %v of %v", a, v, math.Sqrt(bound)/2)
		}
	}
}

// The integer clamp holds whatever the influence function returns.
func TestClampHoldsForAnyInfluence(t *testing.T) {
	for _, v := range []float64{34e6, 1e300, math.Inf(1), math.Inf(-1), math.NaN()} {
		e := at(t, Catoni{Scale: 1, Beta: 5}, 1, 1, 1).(*catoniEstimator)
		e.h = broken(v)
		sum := e.sum(zeros(1, 1).rows(1, 1))
		bound, _ := mechtest.SquaredSensitivity(t, sum).Float64()
		if got := float64(mechtest.Totals(t, sum)[0]); math.Abs(got) > math.Sqrt(bound)/2 {
			t.Errorf("an influence of %v adds %v of %v", v, got, math.Sqrt(bound)/2)
		}
	}
}

type broken float64

func (v broken) apply(dst, _, _ []float64, _ float64) {
	for i := range dst {
		dst[i] = float64(v)
	}
}

func TestCatoniScale(t *testing.T) {
	// d = 10, 50 steps at rho = 0.0208 in all: the figure of the design, up to H.
	z := math.Sqrt(50 / (2 * .0208))
	if s := CatoniScale(5, math.Inf(1), z, 1e5, 10); math.Abs(s-26.5) > 2.5 {
		t.Errorf("scale %v, want about 26 to 28", s)
	}
	// It is a minimum of bias^2 + noise^2.
	risk := func(s float64) float64 {
		return math.Pow(5*(1+1./5)/(4*phiLimit*s), 2) + math.Pow(2*s*influenceLimit(5)*z*math.Sqrt(10)/1e5, 2)
	}
	best := CatoniScale(5, 5, z, 1e5, 10)
	if risk(best) > risk(best*1.01) || risk(best) > risk(best/1.01) {
		t.Errorf("%v is no minimum", best)
	}
}

// Estimates of heavy-tailed gradients are within bias and noise of the mean.
func TestCatoniIsAccurate(t *testing.T) {
	const n, d, z = 50_000, 3, 2
	r := rand.New(rand.NewPCG(4, 4))
	a := zeros(n, d)
	for i := range a.c {
		a.c[i] = 1
		for _, x := range a.x { // mean 1.5, second moment 3: Pareto with shape 3
			x[i] = math.Pow(r.Float64(), -1./3)
		}
	}
	for _, beta := range []float64{5, math.Inf(1)} {
		m := Catoni{CatoniScale(3, beta, z, n, d), beta}
		dst := make([]float64, d)
		at(t, m, z, n, d).Estimate(dst, a.rows(2048, 2), Hints{}, mechtest.Source(t, 1))
		allowed := 3*(1+1/beta)/(4*phiLimit*m.Scale) + 6*2*m.Scale*z*math.Sqrt(d)/n + 6/math.Sqrt(n)
		for j, v := range dst {
			if math.Abs(v-1.5) > allowed {
				t.Errorf("beta = %v: coordinate %d is %v, want 1.5 within %v", beta, j, v, allowed)
			}
		}
	}
}

package dpsco

import (
	"math"
	"math/rand/v2"
	"testing"

	"dpsidecar/internal/mech/mechtest"

	"gonum.org/v1/gonum/mat"
)

// deltaOfLastStep fits 20,000 rows of two normal features and returns the delta of the last step, for residuals
// drawn by e and a delta of 1.
func deltaOfLastStep(t *testing.T, z float64, e func(r *rand.Rand) float64) float64 {
	t.Helper()
	const n = 20_000
	r := rand.New(rand.NewPCG(7, 7))
	x := Data{Shape: Shape{N: n, D: 3, Intercept: true}, X: [][]float64{make([]float64, n), make([]float64, n)}, Y: make([]float64, n)}
	for i := range n {
		x.X[0][i], x.X[1][i] = r.NormFloat64(), r.NormFloat64()
		x.Y[i] = 0.5 + 0.2*x.X[0][i] - 0.1*x.X[1][i] + e(r)
	}
	releases, err := Newton{Curve: huberCurve{delta: 1, cut: 4}, Bound: 2}.releases(x.Shape, z)
	if err != nil {
		t.Fatal(err)
	}
	a, src := newNewtonParts(releases, x), mechtest.Source(t, 1)
	a.fits[0].first(x, src)
	for step := range newtonSteps {
		a.step(step, src)
	}
	return a.fits[0].Curve.(huberCurve).delta
}

// Where residuals are far below delta, the last step has a smaller one that still takes nearly nothing; where
// they exceed it, also where many of them are equal, it has the one asked for.
func TestDeltaFollowsSmallResiduals(t *testing.T) {
	small := func(r *rand.Rand) float64 { return 0.02 * r.NormFloat64() }
	if delta := deltaOfLastStep(t, 5, small); delta < 0.05 || delta > 0.3 {
		t.Errorf("residuals of .02: a delta of %g", delta)
	}
	for name, e := range map[string]func(r *rand.Rand) float64{
		"as large as delta": func(r *rand.Rand) float64 { return r.NormFloat64() },
		"small but for one in ten": func(r *rand.Rand) float64 {
			if r.Float64() < 0.1 {
				return 3
			}
			return small(r)
		},
		"just below delta for one in twenty": func(r *rand.Rand) float64 { // the middle of their bin is .84
			if r.Float64() < 0.05 {
				return 0.97
			}
			return small(r)
		},
		"small but for the costs of one in a hundred": func(r *rand.Rand) float64 { // no bin of theirs stands out alone
			if r.Float64() < 0.01 {
				return math.Exp(1.5 * r.NormFloat64())
			}
			return small(r)
		},
	} {
		if delta := deltaOfLastStep(t, 0.5, e); delta != 1 {
			t.Errorf("residuals %s: a delta of %g", name, delta)
		}
	}
}

// Second moments of nearly redundant features have no part in directions that noise hides; a feature whose own
// moment is hidden, such as a rare flag, counts for as much as noise allows.
func TestHiddenDirectionsOfRedundantFeatures(t *testing.T) {
	s := &newtonStart{hidden: 0.05, longer: 1, moments: mat.NewSymDense(3, []float64{
		1, 0.99, 0,
		0.99, 1, 0,
		0, 0, 0.01,
	})}
	_, seen := s.readMoments()
	apart := []float64{1, -1, 0}
	along := func(v []float64) float64 { u := mat.NewVecDense(3, v); return mat.Inner(u, seen, u) }
	if got := along(apart); math.Abs(got) > 1e-9 {
		t.Errorf("the difference of two nearly equal features has a moment of %g", got)
	}
	if got := along([]float64{1, 1, 0}); math.Abs(got-3.98) > 1e-9 {
		t.Errorf("their sum has %g", got)
	}
	if got := along([]float64{0, 0, 1}); got != s.hidden {
		t.Errorf("a rare feature has %g, and noise allows %g", got, s.hidden)
	}
}

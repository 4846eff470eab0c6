package dpsco

import (
	"math"
	"math/rand/v2"
	"testing"

	"dpsidecar/internal/dpsco/linalg"
	"dpsidecar/internal/dpsco/table"

	"gonum.org/v1/gonum/mat"
)

// A step from a fit with known noise is as good as the mean of both by their noises, or nearly, and where
// the fit is off by more than its noise, as good as the step. Of 20,000 fits of 8 directions the
// mean square lies within 10 % of its expectation: more than 20 deviations.
func TestGainsCombineAFitWithAStep(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 11))
	for _, c := range []struct{ fit, step, drift, most float64 }{
		{1, 1, 0, 0.6},  // alone 1; the best mean has .5
		{3, 1, 0, 0.8},  // .75
		{1, 3, 0, 0.95}, // .75
		{1, 1, 30, 1.01},
		{0, 1, 0, 0.15}, // the fit is exact
	} {
		const fits, d = 20_000, 8
		square2 := 0.0
		for range fits {
			var v, before, noise, off []float64
			for range d {
				error := math.Sqrt(c.fit)*r.NormFloat64() + c.drift*r.NormFloat64() // of the fit
				v, off = append(v, math.Sqrt(c.step)*r.NormFloat64()-error), append(off, error)
				before, noise = append(before, c.fit), append(noise, c.step)
			}
			keeps, _ := gains(v, before, noise)
			for k, keep := range keeps {
				square2 += square(off[k]+keep*v[k]) / fits / d
			}
		}
		if !(square2 <= c.most) {
			t.Errorf("%+v: mean square error %v", c, square2)
		}
	}
}

// What is known of a fit need not be a number: then all is drift.
func TestGainsAreNumbers(t *testing.T) {
	for _, before := range []float64{math.NaN(), math.Inf(1), -1, 0} {
		if keep, _ := gains([]float64{3, -2}, []float64{before, 1}, []float64{1, 1}); !(keep[0] >= 0 && keep[0] <= 1 && keep[1] >= 0 && keep[1] <= 1) {
			t.Errorf("with a variance of %v: %v", before, keep)
		}
	}
	values, vectors := linalg.Eigen(mat.NewSymDense(2, []float64{1, math.NaN(), math.NaN(), 1}))
	if values[0] != 0 || values[1] != 0 || math.Abs(vectors.At(0, 0)) > 1 {
		t.Errorf("of no matrix: %v", values)
	}
}

// More of the budget for second moments is taken from the step and the intercept's step, in one ratio, and all
// of it is spent: from shape, rows and budget alone.
func TestMoreForMomentsIsLessForTheStep(t *testing.T) {
	s := table.Shape{N: 10_000, D: 4, Intercept: true}
	for _, whiten := range []float64{0, 1, 1.5, maxWhiten} {
		r, err := JointMoments{Bound: 3, Scale: 1, Meat: true, Whiten: whiten}.releases(s, 1)
		if err != nil {
			t.Fatal(err)
		}
		spent := 0.0
		for _, noise := range r.all() {
			spent += 1 / square(noise.NoiseMultiplier)
		}
		if math.Abs(spent-1) > 1e-9 {
			t.Errorf("with %v for moments: %v of the budget is spent", whiten, spent)
		}
		if got, want := square(r.momentNoise[1].NoiseMultiplier), 1/(0.11*max(1, whiten)); math.Abs(got-want) > 1e-9 {
			t.Errorf("with %v for moments: variance %v, want %v", whiten, got, want)
		}
		if got, want := square(r.interceptNoise.NoiseMultiplier/r.stepNoise.NoiseMultiplier), 0.445/0.08; math.Abs(got-want) > 1e-9 {
			t.Errorf("with %v for moments: %v as much noise on the intercept's step as on the step, want %v", whiten, got, want)
		}
	}
}

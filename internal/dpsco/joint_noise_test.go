package dpsco

import (
	"math"
	"slices"
	"testing"

	"dpsidecar/internal/dpsco/loss"
	"dpsidecar/internal/mech/mechtest"
	"dpsidecar/internal/privacy"

	"gonum.org/v1/gonum/stat"
)

// The noise that a release tells of lies within a factor of two of the deviation that is
// seen, in the median of draws, on laws with skewed rows, a rare flag and features that are
// nearly redundant, and follows rare and redundant features. Where there are intervals it is a part of
// their standard errors. Seeds are fixed.
func TestReleasesTellTheirNoise(t *testing.T) {
	const draws = 20
	for _, c := range []struct {
		kind string
		a    Regression
		draw func(kind string, n, d int, seed uint64) Data
	}{
		{"gauss", Regression{Loss: loss.Squared{}}, drawLaw}, {"skew", Regression{Loss: loss.Squared{}}, drawLaw}, {"flags", Regression{Loss: loss.Squared{}}, drawLaw}, {"cond", Regression{Loss: loss.Squared{}}, drawLaw},
		{"gauss", Regression{Loss: loss.Logistic{}, Labels: true}, labelLaw}, {"skew", Regression{Loss: loss.Logistic{}, Labels: true}, labelLaw}, {"gauss", Regression{Loss: loss.Huber{}}, drawLaw},
	} {
		kind := c.kind
		x := c.draw(kind, 30_000, 5, 1)
		fits, told := make([][]float64, x.D), make([][]float64, x.D)
		src := mechtest.Source(t, 3)
		for range draws {
			p, err := c.a.Plan(x.Shape, privacy.Budget{Epsilon: 1, Delta: 1e-6}, privacy.Concentrated{})
			if err != nil {
				t.Fatal(err)
			}
			r, err := p.Run(t.Context(), cloned(x), src)
			if err != nil {
				t.Fatal(err)
			}
			noise := r.Noise()
			for j, w := range r.Coefficients {
				fits[j] = append(fits[j], w)
				if noise == nil {
					continue
				}
				told[j] = append(told[j], noise[j])
				if r.StdErr != nil && noise[j] > r.StdErr[j]*(1+1e-9) {
					t.Errorf("%s: noise %v of a standard error of %v", kind, noise[j], r.StdErr[j])
				}
			}
		}
		if len(told[0]) < draws/2 {
			t.Errorf("%s: only %d releases tell", kind, len(told[0]))
			continue
		}
		for j := range fits {
			seen := math.Sqrt(stat.Variance(fits[j], nil))
			if ratio := medianOf(told[j]) / seen; !(ratio > 0.5 && ratio < 2) {
				t.Errorf("%s, coefficient %d: told %v, seen %v", kind, j, medianOf(told[j]), seen)
			}
		}
		if kind != "flags" {
			continue
		}
		if flag := medianOf(told[4]) / medianOf(told[1]); !(flag > 5) {
			t.Errorf("the noise of a flag that holds for .5 %% of rows is %v times another's", flag)
		}
	}
}

func medianOf(v []float64) float64 {
	sorted := slices.Sorted(slices.Values(v))
	return sorted[len(sorted)/2]
}

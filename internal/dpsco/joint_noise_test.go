package dpsco

import (
	"math"
	"slices"
	"testing"

	"dpsidecar/internal/dpsco/loss"
	"dpsidecar/internal/mech/mechtest"
	"dpsidecar/internal/privacy"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat"
)

// The noise that a release tells of lies within a factor of two of the deviation that is
// seen, in the median of draws, on laws with skewed rows, a rare flag and features that are
// nearly redundant, and follows rare and redundant features. Where there are intervals of a Newton
// fit it is a part of their standard errors; those of joint moments are of the mean cut at the outer
// length alone. Seeds are fixed.
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
				if _, joint := c.a.Loss.(loss.Squared); !joint && r.StdErr != nil && noise[j] > r.StdErr[j]*(1+1e-9) {
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

// Where no histogram moves the cuts, repeats have the noise of both sums if what lies between them is
// kept. If it is taken for noise they have more than that of the inner one, for now and then some
// of it is kept, and less than that of both. Where cuts move they have more.
func TestRepeatsFollowTheirReleases(t *testing.T) {
	const deviation, doubt = 0.01, 1.2
	counts := make([]float64, magnitudeBins)
	for k := 10; k < 30; k++ {
		counts[k] = 10_000 * math.Exp2(-float64(k-10)/2)
	}
	choose := func(m *magnitudes) cuts { return newCuts(m, 3, deviation, 0.2, 0.8) }
	variance := func(sd float64, signal []float64) (told, kept, outer float64) {
		seen := readMagnitudes(slices.Clone(counts), sd, 1, math.Inf(1), floats.Sum(counts)).run()
		c := choose(seen)
		m := c.means(append(make([]float64, 3), signal...), 0, deviation, doubt)
		r := &repeatedMean{seen: seen, choose: choose, deviation: deviation, doubt: doubt}
		return mat.Trace(r.between(c, m).covariance()) / 3, square(m.kept.deviation), square(m.outer.deviation)
	}
	none, far := make([]float64, 3), []float64{1, 1, 1}
	if told, kept, outer := variance(1e-6, none); !(told > kept && told < outer) {
		t.Errorf("taken for noise: told %v, kept %v, outer %v", told, kept, outer)
	}
	still, _, outer := variance(1e-6, far)
	if !(still > 0.7*outer && still < 1.4*outer) {
		t.Errorf("kept: told %v, outer %v", still, outer)
	}
	if moving, _, _ := variance(30, far); !(moving > 1.5*still) {
		t.Errorf("told %v where cuts move, %v where not", moving, still)
	}
}

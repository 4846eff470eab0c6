package dpsco

import (
	"math"
	"math/rand/v2"
	"testing"

	"dpsidecar/internal/dpsco/loss"
	"dpsidecar/internal/dpsco/plan/plantest"
	"dpsidecar/internal/dpsco/score"
	"dpsidecar/internal/dpsco/table"
	"dpsidecar/internal/privacy"

	"gonum.org/v1/gonum/floats"
)

// What a model of counts explains is told beside a rate, and not where that is noise: of exposures in days without a scale .45 was explained, in
// all 12 scores, and .02 is. With the scale it is told, but where noise leaves too much unknown. Seeds are fixed.
func TestAScoreBesideARateThatIsNoise(t *testing.T) {
	x := unscaledCounts(40_000, .07, 365, 3)
	x.Exposure = make([]float64, x.N)
	for i, v := range x.Offset {
		x.Exposure[i] = math.Exp(v)
	}
	w, _ := best(loss.Poisson{}, x)
	alone := []float64{math.Log(floats.Sum(x.Y) / floats.Sum(x.Exposure)), 0, 0, 0}
	exact := 1 - meanDeviance(x, w)/meanDeviance(x, alone)
	x.Offset = nil
	for scale, least := range map[float64]int{1: 0, 365: 6} {
		a, told := score.Metrics{Coefficients: w, Counts: true, Exposure: scale}, 0
		for seed := range uint64(12) {
			for _, m := range plantest.Run(t, a, x, privacy.Budget{Epsilon: 1, Delta: 1e-6}, seed).Metrics {
				if m.Name != "deviance_explained" {
					continue
				}
				if m.Value == nil {
					continue
				}
				if told++; math.Abs(*m.Value-exact) > .12 {
					t.Errorf("%v is explained, of %v", *m.Value, exact)
				}
			}
		}
		if told < least || least == 0 && told > 0 {
			t.Errorf("scale %g: told in %d of 12", scale, told)
		}
	}
}

// What a model explains has no value where neither an interval is known nor the value itself: of counts with a long tail
// of which .05 is explained, -.4 to .5 was told. Seeds are fixed.
func TestVagueSharesOfWhatIsExplainedAreWithheld(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 9))
	const n = 20_000
	x := table.Data{Shape: table.Shape{N: n, D: 2, Intercept: true}, X: table.NewColumns(1, n), Y: make([]float64, n)}
	for i := range x.Y {
		x.X[0][i] = r.NormFloat64()
		x.Y[i] = math.Floor(math.Exp(0.2*x.X[0][i] + 1.5*r.NormFloat64()))
	}
	w, _ := best(loss.Poisson{}, x)
	given, vague := 0, 0
	for seed := range uint64(20) {
		for _, m := range plantest.Run(t, score.Metrics{Coefficients: w, Counts: true}, x, privacy.Budget{Epsilon: 0.3, Delta: 1e-6}, seed).Metrics {
			if m.Name == "deviance_explained" && m.Value != nil {
				given++
				if m.Low == nil && math.Abs(*m.Value) > 0.3 {
					vague++
				}
			}
		}
	}
	t.Logf("%d of 20 have a value, %d a vague one", given, vague)
	if vague > 0 {
		t.Errorf("%d values are vague", vague)
	}
}

// scores are one of every kind, for coefficients of two terms.
func scores() map[string]score.Metrics {
	return map[string]score.Metrics{
		"regression": {Coefficients: []float64{0.3, 0.9}, Scale: 2},
		"centred":    {Coefficients: []float64{0.3, 0.9}, Scale: 2, Centre: 2.5},
		"unscaled":   {Coefficients: []float64{0.3, 0.9}, TargetUnscaled: true},
		"labels":     {Coefficients: []float64{-0.2, 1.4}, Labels: true},
		"counts":     {Coefficients: []float64{-0.3, 0.5}, Counts: true},
	}
}

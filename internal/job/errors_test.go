package job_test

import (
	"math"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"dpsidecar/internal/dpsco"
	"dpsidecar/internal/job"
)

// What is not finite anywhere, or no standard error, leaves a reason and no interval: JSON
// could not hold it, and the job would fail after its rows were read.
func TestErrorsThatAreNotFiniteAreWithheld(t *testing.T) {
	for _, bad := range []float64{1, 0, math.NaN(), math.Inf(1), math.Inf(-1)} {
		for _, c := range []struct {
			spoil    func(*dpsco.Result)
			positive bool
		}{
			{func(r *dpsco.Result) { r.StdErr[0] = bad }, true},
			{func(r *dpsco.Result) { r.DF[1] = bad }, true},
			{func(r *dpsco.Result) { r.Low[1] = bad }, false},
			{func(r *dpsco.Result) { r.Covariance.SetSym(0, 0, bad) }, false},
			{func(r *dpsco.Result) { r.Bias.SetSym(0, 0, bad) }, false},
		} {
			r := dpsco.Result{
				Coefficients: []float64{1, 2}, StdErr: []float64{1, 1}, DF: []float64{9, 9}, Low: []float64{-1, 1}, High: []float64{3, 3},
				Covariance: mat.NewSymDense(2, []float64{1, 1, 1, 1}), Bias: mat.NewSymDense(2, []float64{0, 0, 0, 1}),
			}
			c.spoil(&r)
			text, err := job.KnownErrors(r)
			if err != nil {
				t.Fatal(err)
			}
			want := `[1,1]],"bias":[[`
			if bad != 1 && (bad != 0 || c.positive) {
				want = `{"why_null":"the noise has left no finite interval"}`
			}
			if !strings.Contains(string(text), want) {
				t.Errorf("%v: %s", bad, text)
			}
		}
	}
}

// A feature that noise hides may be one whose labels are all alike, which is said of labels alone.
func TestWhyAFeatureIsHiddenFitsTheModel(t *testing.T) {
	for model, want := range map[string]string{"linear": "", "huber": "", "logistic": "labels nearly all alike", "poisson": "counts nearly all 0"} {
		why := job.WhyNull(dpsco.Result{Hidden: []int{1}, WhyNull: "hidden"}, model, []string{"(intercept)", "icu"})
		if !strings.Contains(why, `how "icu" varies`) || !strings.Contains(why, "a scale that fit") || !strings.Contains(why, want) || strings.Contains(why, "alike") != (model == "logistic") || strings.Contains(why, "counts") != (model == "poisson") {
			t.Errorf("%s: %s", model, why)
		}
	}
}

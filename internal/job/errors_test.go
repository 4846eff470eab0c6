package job_test

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"dpsidecar/internal/dpsco/release"
	"dpsidecar/internal/job"
)

// What is not finite anywhere, or no standard error, leaves a reason and no interval: JSON
// could not hold it, and the job would fail after its rows were read.
func TestErrorsThatAreNotFiniteAreWithheld(t *testing.T) {
	for _, bad := range []float64{1, 0, math.NaN(), math.Inf(1), math.Inf(-1)} {
		for _, c := range []struct {
			spoil    func(*release.Result)
			positive bool
		}{
			{func(r *release.Result) { r.StdErr[0] = bad }, true},
			{func(r *release.Result) { r.DF[1] = bad }, true},
			{func(r *release.Result) { r.Low[1] = bad }, false},
			{func(r *release.Result) { r.Covariance.SetSym(0, 0, bad) }, false},
			{func(r *release.Result) { r.Bias.SetSym(0, 0, bad) }, false},
		} {
			r := release.Result{
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

// No release of finite numbers fails its job, however long its intervals are. A failed job is tried again with other noise, under
// the same charge: what is released in the end would be a draw of those that do not fail, which costs more than was charged.
func TestNoFiniteReleaseFailsItsJob(t *testing.T) {
	r, withheld := rand.New(rand.NewPCG(1, 1)), 0
	for range 20_000 {
		number := func() float64 {
			return math.Pow(10, []float64{-323 + 631*r.Float64(), 300 + 8.25*r.Float64(), 2 * r.Float64()}[r.IntN(3)])
		}
		middle, half := (2*r.Float64()-1)*number(), number()
		release := release.Result{Coefficients: []float64{middle}, StdErr: []float64{number()}, DF: []float64{number()}, Low: []float64{middle - half}, High: []float64{middle + half}}
		text, err := job.KnownErrors(release)
		if err != nil {
			t.Fatalf("%+v: %v", release, err)
		}
		if strings.Contains(string(text), "no finite interval") {
			withheld++
		}
	}
	if withheld < 100 || withheld > 10_000 {
		t.Errorf("%d of 20,000 are withheld", withheld)
	}
}

// A feature that noise hides may be one whose labels are all alike, which is said of labels alone.
func TestWhyAFeatureIsHiddenFitsTheModel(t *testing.T) {
	for model, want := range map[string]string{"linear": "", "huber": "", "logistic": "labels nearly all alike", "poisson": "counts nearly all 0"} {
		why := job.WhyNull(release.Result{Hidden: []int{1}, WhyNull: "hidden"}, model, []string{"(intercept)", "icu"}, nil)
		if !strings.Contains(why, `how "icu" varies`) || !strings.Contains(why, "a scale that fit") || !strings.Contains(why, want) || strings.Contains(why, "alike") != (model == "logistic") || strings.Contains(why, "counts") != (model == "poisson") {
			t.Errorf("%s: %s", model, why)
		}
	}
}

// Where the last step moves single coefficients too far, these and the intercept alone have no interval, each with a reason
// of its own.
func TestUnsettledCoefficientsHaveAReasonEach(t *testing.T) {
	ones := []float64{1, 1, 1, 1}
	r := release.Result{Coefficients: ones, StdErr: ones, DF: ones, Low: make([]float64, 4), High: ones, Unsettled: []int{0, 1, 3}}
	why := job.WhyNulls(r, []string{"(intercept)", "age", "icu", "home=own"}, []string{"icu", "home=own"})
	for j, says := range []string{"intercept, or a coefficient that it depends on", `"age" too far to say how much is left: do a few rows`, "", `"home=own" too far to say how much is left: are labels nearly all alike`} {
		switch {
		case says == "" && why[j] != nil, says != "" && why[j] == nil:
			t.Errorf("coefficient %d: %v", j, why[j])
		case says != "" && !strings.Contains(why[j].(string), says):
			t.Errorf("coefficient %d: %q does not say %q", j, why[j], says)
		}
	}
}

// A flag or a level has neither center nor scale, and nobody is told to give it one. Features that are left out are named.
func TestWhyNullNamesItsFeaturesAndWhatServesThem(t *testing.T) {
	terms := []string{"(intercept)", "age", "icu", "home=own"}
	for _, c := range []struct {
		hidden, unseen []int
		says, not      []string
	}{
		{[]int{1}, nil, []string{`how "age" varies`, "give it a center and a scale that fit"}, nil},
		{[]int{2}, nil, []string{`how "icu" varies: is it rare`, "Leave it out, or ask for more eps"}, []string{"center", "scale"}},
		{[]int{3}, nil, []string{`how "home=own" varies: is it rare`}, []string{"center", "scale"}},
		{[]int{3, 2}, nil, []string{`a direction of "home=own" and "icu"`}, []string{"center", "scale"}},
		{[]int{1, 3}, nil, []string{`a direction of "age" and "home=own"`, "give numbers scales that fit"}, nil},
		{nil, []int{1}, []string{`the values of "age" are, which has no scale`, "Its coefficient is 0"}, []string{"column without"}},
		{nil, []int{1, 3}, []string{`the values of "age" and "home=own" are, which have no scale`, "Their coefficients are 0"}, nil},
	} {
		why := job.WhyNull(release.Result{Hidden: c.hidden, LeftOut: c.unseen, WhyNull: "hidden"}, "linear", terms, terms[2:])
		for _, part := range c.says {
			if !strings.Contains(why, part) {
				t.Errorf("%v, %v: %q does not say %q", c.hidden, c.unseen, why, part)
			}
		}
		for _, part := range c.not {
			if strings.Contains(why, part) {
				t.Errorf("%v, %v: %q says %q", c.hidden, c.unseen, why, part)
			}
		}
	}
}

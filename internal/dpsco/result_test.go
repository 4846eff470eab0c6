package dpsco

import (
	"dpsidecar/internal/dpsco/release"
	"slices"
	"testing"
)

// coefficients are those of a run.
func coefficients(r release.Result, err error) ([]float64, error) { return r.Coefficients, err }

// Coefficients of features that are far larger than their scales say are large, and so are those of a column that noise hides, as
// a constant one: that they are cut is told, and why. None has an interval.
func TestWhyARadiusCuts(t *testing.T) {
	for _, c := range []struct {
		before string
		hidden []int
		want   string
	}{{"", nil, cutByRadius}, {farFromScales, nil, farFromScales}, {hiddenDirection, []int{1}, hiddenDirection}} {
		r := release.Result{Coefficients: []float64{1, 100}, WhyNull: c.before, Hidden: c.hidden}
		if c.before != farFromScales {
			r.Low = []float64{0, 0}
		}
		if checkEdge(&r, 100, 100); !r.Cut || r.Low != nil || r.WhyNull != c.want || !slices.Equal(r.Hidden, c.hidden) {
			t.Errorf("%+v: %+v", c, r)
		}
	}
}

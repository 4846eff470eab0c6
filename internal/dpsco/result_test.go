package dpsco

import (
	"math"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"
)

// coefficients are those of a run.
func coefficients(r Result, err error) ([]float64, error) { return r.Coefficients, err }

// With many degrees of freedom p values are those of the normal law, however many they are.
func TestPValuesOfManyDegrees(t *testing.T) {
	for _, df := range []float64{1e6, 5e12, 1e15, 1e25, 1e300} {
		for _, x := range []float64{0.1, 1, 3, 5} {
			r := Result{Low: []float64{x}, High: []float64{x}, StdErr: []float64{1}, DF: []float64{df}}
			if p, want := r.PValues()[0], 2*distuv.UnitNormal.Survival(x); !(math.Abs(p-want) <= 1e-3*want) {
				t.Errorf("%v degrees, t = %v: p = %v, of the normal law %v", df, x, p, want)
			}
		}
	}
}

package release

import (
	"math"
	"testing"

	"dpsidecar/internal/dpsco/numeric"

	"gonum.org/v1/gonum/stat/distuv"
)

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

// A p value is below .05 where the interval leaves 0 out, whatever it allows for bias, and
// that of a t test where it allows for none.
func TestPValuesAgreeWithIntervals(t *testing.T) {
	for _, df := range []float64{1, 5, 30, 1e9} {
		for _, bias := range []float64{0, 0.3, 1, 4} {
			half := numeric.HalfWidth(2, df, 2*bias)
			for _, part := range []float64{0.2, 0.99, 1.01, 3} {
				r := Result{Low: []float64{part*half - half}, High: []float64{part*half + half}, StdErr: []float64{2}, DF: []float64{df}}
				p := r.PValues()[0]
				if (p < 0.05) != (part > 1) {
					t.Errorf("%v degrees, bias %v: p = %v, 0 is at %v half widths", df, bias, p, part)
				}
				want := 2 * distuv.StudentsT{Sigma: 1, Nu: min(df, numeric.MaxDegrees)}.Survival(part*half/2)
				if bias == 0 && math.Abs(p-want) > 1e-6*want || p < want*(1-1e-6) {
					t.Errorf("%v degrees, bias %v: p = %v, without bias %v", df, bias, p, want)
				}
			}
		}
	}
}

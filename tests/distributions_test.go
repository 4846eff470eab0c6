package tests

import (
	"math"
	"testing"

	"gonum.org/v1/gonum/mathext"
	"gonum.org/v1/gonum/stat/distuv"
)

// The database's own distributions agree with those of another library.
func TestDistributionsAgree(t *testing.T) {
	w := newWorld(t, 1, 0)
	close := func(name string, got, want float64) {
		t.Helper()
		if !(math.Abs(got-want) <= 1e-9*math.Abs(want)+1e-300) {
			t.Errorf("%s is %.15g, want %.15g", name, got, want)
		}
	}
	for _, df := range []float64{1, 1.7, 3, 9.5, 30, 200, 5000.3, 1e6} {
		want := distuv.StudentsT{Sigma: 1, Nu: df}.Quantile(0.975)
		close("t quantile", one[float64](w, w.super, `SELECT dp_int.t_quantile($1)`, df), want)
		for _, terms := range []float64{1, 2, 3, 7, 40} {
			for _, f := range []float64{1e-6, 0.1, 0.7, 1, 1.3, 3, 20, 300, 1e8} {
				want := mathext.RegIncBeta(df/2, terms/2, df/(df+terms*f)) // with the digits of a small tail
				if f < 1 {                                                 // with those of f
					want = 1 - mathext.RegIncBeta(terms/2, df/2, terms*f/(df+terms*f))
				}
				got := one[float64](w, w.super, `SELECT dp_int.f_survival($1, $2, $3)`, f, terms, df)
				if want > 1e-290 {
					close("F", got, want)
				} else if !(got >= 0 && got < 1e-289) {
					t.Errorf("F(%v; %v, %v) is %v, want %v", f, terms, df, got, want)
				}
			}
		}
	}
	for _, bias := range []float64{0, 1e-9, 0.01, 0.3, 1, 2.5, 7.9, 8.1, 1000} {
		c := one[float64](w, w.super, `SELECT dp_int.biased_quantile($1)`, bias)
		close("the covered share", distuv.UnitNormal.CDF(c-bias)-distuv.UnitNormal.CDF(-c-bias), 0.95)
	}
	if p := one[float64](w, w.super, `SELECT dp_int.f_survival(0, 3, 9)`); p != 1 {
		t.Errorf("F exceeds 0 with probability %v", p)
	}
}

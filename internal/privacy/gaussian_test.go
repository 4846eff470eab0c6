package privacy

import (
	"fmt"
	"math"
	"math/big"
	"testing"
)

// e^(x^2) erfc(x) from the continued fraction and, below 2, from the series of
// erf, both in 300 bits.
func TestScaledErfc(t *testing.T) {
	for x := 0.0; x < 400; x = x*1.07 + .01 {
		want := fractionErfc(x)
		if x < 2 {
			want = math.Exp(x*x) * math.Erfc(x)
		}
		if got := scaledErfc(x); math.Abs(got-want) > 0x1p-44*want {
			t.Errorf("scaledErfc(%v) = %v; want %v", x, got, want)
		}
	}
}

// fractionErfc is Laplace's continued fraction, 1/(x + (1/2)/(x + 1/(x + (3/2)/...))) / sqrt pi.
func fractionErfc(x float64) float64 {
	number := func(v float64) *big.Float { return new(big.Float).SetPrec(300).SetFloat64(v) }
	f := number(x)
	for k := 400.0; k >= 1; k-- {
		f.Quo(number(k/2), f)
		f.Add(f, number(x))
	}
	v, _ := f.Quo(number(1), f).Float64()
	return v / math.Sqrt(math.Pi)
}

// exactGaussian is the part of Best for histories of Gaussian events alone, as an
// accountant.
type exactGaussian struct{}

func (exactGaussian) Epsilon(history Event, delta float64) (float64, error) {
	leaves, err := checkedLeaves(history, delta)
	if err != nil {
		return 0, err
	}
	mu2, ok := gaussianSquare(leaves)
	if !ok {
		return 0, fmt.Errorf("%w: exactly, as it is not Gaussian alone", ErrUnsupported)
	}
	return gaussianEpsilon(mu2, delta), nil
}

func TestExactGaussianMatchesTheReference(t *testing.T) {
	for _, r := range readGolden(t).Inverse {
		eps, err := exactGaussian{}.Epsilon(Repeat{int(r.T), Gaussian{r.Sigma_exact}}, r.Delta)
		if err != nil || !near(eps, r.Eps) {
			t.Errorf("%v Gaussians of %v at %v: %v, %v; want %v", r.T, r.Sigma_exact, r.Delta, eps, err, r.Eps)
		}
	}
}

// Over all sizes: below the zCDP bound, above nothing that leaves more than delta,
// and falling as delta grows.
func TestExactGaussianIsConsistent(t *testing.T) {
	for k := -60; k <= 30; k++ {
		mu := math.Pow(10, float64(k)/10)
		last := none
		for _, delta := range []float64{1e-280, 1e-100, 1e-12, 1e-6, 1e-3, .1, .5, .999} {
			eps := gaussianEpsilon(mu*mu, delta)
			if bound := ZCDPEpsilon(mu*mu/2, delta); !(eps <= bound) || eps > last*(1+1e-9) {
				t.Errorf("mu %v, delta %v: %v; zCDP %v, before %v", mu, delta, eps, bound, last)
			}
			if eps > 0 && mu > 1e-4 && gaussianDelta(mu*(1-1e-9), eps*(1-1e-6)) <= delta*(1-1e-3) {
				t.Errorf("mu %v, delta %v: %v is not tight", mu, delta, eps)
			}
			last = eps
		}
	}
}

func TestExactGaussianAtTheEdges(t *testing.T) {
	for _, c := range []struct{ mu2, delta, eps float64 }{
		{0, 0, 0}, {0, 1e-6, 0}, {1, 1, 0}, {1, 0, none}, {1, 1e-300, none}, {none, 1e-6, none}, {1, math.NaN(), none},
	} {
		if got := gaussianEpsilon(c.mu2, c.delta); got != c.eps {
			t.Errorf("gaussianEpsilon(%v, %v) = %v; want %v", c.mu2, c.delta, got, c.eps)
		}
	}
	if eps, err := (exactGaussian{}).Epsilon(Gaussian{1e-200}, 1e-6); err != nil || !math.IsInf(eps, 1) {
		t.Errorf("without noise: %v, %v", eps, err)
	}
	if eps, err := (exactGaussian{}).Epsilon(Gaussian{1e200}, 1e-6); err != nil || eps != 0 {
		t.Errorf("with endless noise: %v, %v", eps, err)
	}
}

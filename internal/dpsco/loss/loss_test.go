package loss

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
)

var losses = []Loss{
	Squared{}, Huber{Delta: 1.5}, Logistic{}, Poisson{},
}

var extreme = []float64{
	0, math.Copysign(0, -1), 1, -1, .5, 5e-324, 1e-300, 700, -700, 701, -745, 1e8, 1e10, -1e10, 1e155, 1e300, -1e300,
	math.MaxFloat64, -math.MaxFloat64, math.Inf(1), math.Inf(-1), math.NaN(),
}

// target returns a random target of the kind that the loss is for.
func target(l Loss, r *rand.Rand) float64 {
	if _, labels := l.(Logistic); labels {
		return float64(r.IntN(2))
	}
	if _, counts := l.(Poisson); counts {
		return float64(r.IntN(5))
	}
	return r.NormFloat64()
}

func TestDerivIsTheSlope(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for _, l := range losses {
		for range 2000 {
			z, y, h := 3*r.NormFloat64(), target(l, r), 1e-6
			left, right := l.Deriv(z-h, y), l.Deriv(z+h, y)
			slope := (l.Value(z+h, y) - l.Value(z-h, y)) / (2 * h)
			if off := 1e-8 * max(1, math.Abs(slope)); slope < left-off || slope > right+off {
				t.Fatalf("%T: slope %v at z = %v, y = %v; derivatives beside it %v, %v", l, slope, z, y, left, right)
			}
		}
	}
}

// A subgradient: the tangent lies below the loss.
func TestLossesAreConvex(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 2))
	for _, l := range losses {
		for range 2000 {
			a, b, y := 3*r.NormFloat64(), 3*r.NormFloat64(), target(l, r)
			if r.IntN(4) == 0 {
				a = y
			}
			if off := 1e-12 * max(1, math.Abs(l.Value(a, y)), math.Abs(l.Value(b, y))); l.Value(b, y) < l.Value(a, y)+l.Deriv(a, y)*(b-a)-off {
				t.Fatalf("%T: tangent at %v above the loss at %v, y = %v", l, a, b, y)
			}
		}
	}
}

func TestBoundsHoldAndAreReached(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	for _, l := range losses {
		slope, curvature := 0.0, 0.0
		for range 20000 {
			z, y := 20*r.NormFloat64(), target(l, r)
			if r.IntN(2) == 0 {
				z /= 100
			}
			d := l.Deriv(z, y)
			slope = max(slope, math.Abs(d))
			curvature = max(curvature, (l.Deriv(z+1e-4, y)-d)/1e-4)
		}
		if bound := l.Lipschitz(); slope > bound || !math.IsInf(bound, 1) && slope < .97*bound {
			t.Errorf("%T: Lipschitz %v, seen %v", l, bound, slope)
		}
		if bound := l.Smoothness(); curvature > bound*(1+1e-9) || !math.IsInf(bound, 1) && curvature < .97*bound {
			t.Errorf("%T: Smoothness %v, seen %v", l, bound, curvature)
		}
	}
}

func TestDerivIsFiniteForEveryInput(t *testing.T) {
	for _, l := range losses {
		for _, z := range extreme {
			for _, y := range extreme {
				d := l.Deriv(z, y)
				if math.IsNaN(d) || math.IsInf(d, 0) {
					t.Errorf("%T.Deriv(%v, %v) = %v", l, z, y, d)
				}
				if (z != z || y != y) && d != 0 {
					t.Errorf("%T.Deriv(%v, %v) = %v, want 0", l, z, y, d)
				}
			}
		}
	}
}

func TestTargetsThatAreNoLabelsAreIgnored(t *testing.T) {
	l := Logistic{}
	for _, y := range []float64{-1, .5, 2, 1 + 1e-15, math.Inf(1), math.NaN()} {
		if l.Deriv(.3, y) != 0 || l.Value(.3, y) != 0 {
			t.Errorf("target %v has derivative %v and value %v", y, l.Deriv(.3, y), l.Value(.3, y))
		}
	}
}

func TestSaturatedDerivatives(t *testing.T) {
	for _, c := range []struct {
		l          Loss
		z, y, want float64
	}{
		{Huber{2}, math.Inf(1), 0, 2}, {Huber{2}, 0, 1e300, -2},
		{Logistic{}, 1e300, 0, 1}, {Logistic{}, -1e300, 1, -1},
		{Squared{}, math.Inf(1), 0, 0}, {Squared{}, 1e308, -1e308, 0}, {Squared{}, 1e300, 0, 1e300},
	} {
		if got := c.l.Deriv(c.z, c.y); got != c.want {
			t.Errorf("%T.Deriv(%v, %v) = %v, want %v", c.l, c.z, c.y, got, c.want)
		}
	}
}

func TestDerivsEqualsDeriv(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	z, y := append([]float64(nil), extreme...), make([]float64, len(extreme))
	for range 1000 {
		z, y = append(z, 10*r.NormFloat64()), append(y, 0)
	}
	for _, l := range losses {
		for i := range y {
			y[i] = target(l, r)
		}
		dst := append([]float64(nil), z...)
		Derivs(l, dst, dst, y)
		for i, d := range dst {
			if d != l.Deriv(z[i], y[i]) {
				t.Fatalf("%T: Derivs %v, Deriv %v at z = %v", l, d, l.Deriv(z[i], y[i]), z[i])
			}
		}
	}
}

// The reference is 1/(1+e^z) from a 200-bit series.
func TestLogisticIsAccurate(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	for k := range 3000 {
		z := r.NormFloat64() * math.Pow(10, float64(k%5)-2)
		if math.Abs(z) > maxExponent {
			continue
		}
		one := big.NewFloat(1).SetPrec(200)
		want, _ := new(big.Float).Quo(one, new(big.Float).Add(one, bigExp(z))).Float64()
		if got := -(Logistic{}).Deriv(z, 1); math.Abs(got-want) > 1e-15*want {
			t.Fatalf("z = %v: %v, want %v: off by %.2g", z, got, want, got/want-1)
		}
	}
}

// bigExp returns e^z: the series at z/2^20, squared 20 times.
func bigExp(z float64) *big.Float {
	const halvings, prec = 20, 300
	x := new(big.Float).SetPrec(prec).SetFloat64(math.Ldexp(z, -halvings))
	sum, term := big.NewFloat(1).SetPrec(prec), big.NewFloat(1).SetPrec(prec)
	for k := range 60 {
		term.Mul(term, x)
		term.Quo(term, big.NewFloat(float64(k+1)))
		sum.Add(sum, term)
	}
	for range halvings {
		sum.Mul(sum, sum)
	}
	return sum
}

func BenchmarkDerivs(b *testing.B) {
	r := rand.New(rand.NewPCG(6, 6))
	const n = 1024
	z, y, dst := make([]float64, n), make([]float64, n), make([]float64, n)
	for i := range z {
		z[i], y[i] = 2*r.NormFloat64(), float64(r.IntN(2))
	}
	for _, l := range losses {
		b.Run(fmt.Sprintf("%T", l), func(b *testing.B) {
			for b.Loop() {
				Derivs(l, dst, z, y)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/row")
		})
		b.Run(fmt.Sprintf("%T/each", l), func(b *testing.B) {
			for b.Loop() {
				for i := range dst {
					dst[i] = l.Deriv(z[i], y[i])
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/row")
		})
	}
	b.Run("math.Exp", func(b *testing.B) {
		for b.Loop() {
			for i := range dst {
				dst[i] = 1/(1+math.Exp(-z[i])) - y[i]
			}
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/row")
	})
}

package mean

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// simpson computes E phi(a (1 + xi / sqrt(beta))) by brute force, between the
// kinks of phi.
func simpson(a, beta float64) (sum float64) {
	root := math.Sqrt(beta)
	low, high := root*(-math.Sqrt2/a-1), root*(math.Sqrt2/a-1)
	f := func(xi float64) float64 { return phi(a*(1+xi/root)) * math.Exp(-xi*xi/2) / math.Sqrt(2*math.Pi) }
	for _, piece := range [][2]float64{{-10, min(max(low, -10), 10)}, {max(low, -10), min(high, 10)}, {min(max(high, -10), 10), 10}} {
		const steps = 2000
		h := (piece[1] - piece[0]) / steps
		if !(h > 0) {
			continue
		}
		part := f(piece[0]) + f(piece[1])
		for k := 1; k < steps; k++ {
			part += f(piece[0]+float64(k)*h) * float64(2+2*(k%2))
		}
		sum += part * h / 3
	}
	return sum
}

// closedForm is h as printed, which cancels for large a.
func closedForm(a, beta float64) float64 {
	b := a / math.Sqrt(beta)
	below, above := (math.Sqrt2-a)/b, (math.Sqrt2+a)/b
	fb, fa := math.Erfc(below/math.Sqrt2)/2, math.Erfc(above/math.Sqrt2)/2
	eb, ea := math.Exp(-below*below/2), math.Exp(-above*above/2)
	c := phiLimit * (fb - fa)
	c -= (a - a*a*a/6) * (fb + fa)
	c += b / math.Sqrt(2*math.Pi) * (1 - a*a/2) * (ea - eb)
	c += a * b * b / 2 * (fa + fb + (above*ea+below*eb)/math.Sqrt(2*math.Pi))
	c += b * b * b / (6 * math.Sqrt(2*math.Pi)) * ((2+below*below)*eb - (2+above*above)*ea)
	return a*(1-b*b/2) - a*a*a/6 + c
}

func value(h influence, a float64) float64 {
	dst := make([]float64, 1)
	h.apply(dst, []float64{a}, []float64{1}, 1)
	return dst[0]
}

func TestInfluenceMatchesQuadrature(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, beta := range []float64{minBeta, .3, 1, math.Log(100), 2 * math.Log(100), 30, maxBeta} {
		h := newInfluence(beta)
		worst := 0.0
		for k := range 300 {
			a := math.Exp(10 * r.NormFloat64() / 3)
			if k%3 == 0 {
				a = math.Sqrt2 * (1 + .3*r.NormFloat64())
			}
			a = math.Abs(a)
			worst = math.Max(worst, math.Abs(value(h, a)-simpson(a, beta)))
			if a > 1e-3 && a < 8 {
				worst = math.Max(worst, math.Abs(value(h, a)-closedForm(a, beta)))
			}
		}
		if worst > 1e-10 {
			t.Errorf("beta = %v: error %v", beta, worst)
		}
	}
}

func TestInfluenceGoldenValues(t *testing.T) {
	h := newInfluence(math.Log(100))
	for a, want := range map[float64]float64{1: 0.7415079346, 10: 0.9112617513, 1e3: 0.9127562048, 1e6: 0.9127563535} {
		if got := value(h, a); math.Abs(got-want) > 1.5e-10 {
			t.Errorf("h(%v) = %.10f, want %.10f", a, got, want)
		}
	}
	for beta, want := range map[float64]float64{1: 0.643646, math.Log(100): 0.912756, 2 * math.Log(100): 0.940540, math.Inf(1): 0.942809} {
		if got := influenceLimit(beta); math.Abs(got-want) > 1e-6 {
			t.Errorf("sup h = %v for beta = %v, want %v", got, beta, want)
		}
	}
}

// Odd, never above its limit by more than the contract allows for, and total.
func TestInfluenceIsTotal(t *testing.T) {
	for _, beta := range []float64{minBeta, 5, maxBeta, math.Inf(1)} {
		h, limit := newInfluence(beta), influenceLimit(beta)*(1+1e-8)
		last := 0.0
		for a := 1e-4; a < 1e5; a *= 1.001 {
			v := value(h, a)
			if v < last-1e-9 || v > limit || value(h, -a) != -v {
				t.Fatalf("beta = %v: h(%v) = %v after %v", beta, a, v, last)
			}
			last = v
		}
		for _, a := range []float64{0, 5e-324, 1e-300, 1e300, math.MaxFloat64, math.Inf(1)} {
			v := value(h, a)
			if !(v >= 0 && v <= limit) || value(h, -a) != -v || a >= 1e300 && v < limit*(1-3e-8) || a < 1e-200 && v > 1e-12 {
				t.Errorf("beta = %v: h(%v) = %v", beta, a, v)
			}
		}
		if v := value(h, math.NaN()); !(math.Abs(v) < 1e-15) { // less than a grid step, which is cut off
			t.Errorf("h(NaN) = %v", v)
		}
	}
}

func BenchmarkInfluence(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 2))
	x, c, dst := make([]float64, 4096), make([]float64, 4096), make([]float64, 4096)
	for i := range x {
		x[i], c[i] = r.NormFloat64(), r.NormFloat64()
	}
	for _, beta := range []float64{5, math.Inf(1)} {
		b.Run(fmt.Sprint(beta), func(b *testing.B) {
			h := newInfluence(beta)
			for b.Loop() {
				h.apply(dst, x, c, .3)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/4096, "ns/coordinate")
		})
	}
	b.Run("build", func(b *testing.B) {
		for b.Loop() {
			newInfluence(5)
		}
	})
}

package mech

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"dpsidecar/internal/privacy"

	"gonum.org/v1/gonum/integrate/quad"
)

// gammaDifference is the distribution function of X - Y for independent Gamma numbers of
// an integer shape m: X is above Y + t when, in a Poisson process of rate 1, fewer than m
// points lie below Y + t.
func gammaDifference(m int) func(t float64) float64 {
	above := func(t float64) (p float64) {
		for i := range m {
			for l := range i + 1 {
				ways := math.Gamma(float64(m+l)) / math.Gamma(float64(m)) / math.Gamma(float64(l+1))
				p += math.Pow(t, float64(i-l)) / math.Gamma(float64(i-l+1)) * ways * math.Pow(2, -float64(m+l))
			}
		}
		return p * math.Exp(-t)
	}
	return func(t float64) float64 {
		if t < 0 {
			return above(-t)
		}
		return 1 - above(t)
	}
}

// The noise is that of the theorem: with one column it is Laplace noise of scale 2
// Bound^2/Epsilon; for any number, entries off the diagonal and half the difference of two on
// it are Bound^2/Epsilon times the difference of two Gamma(D+1). A comparison fails by chance with
// probability 1e-8, were the seeds not fixed; there are five.
func TestMatrixLaplaceHasItsLaw(t *testing.T) {
	const n, bound, epsilon = 3, 1.5, .7
	for _, d := range []int{1, 2, 4} {
		unit := bound * bound / epsilon / n
		src := testSource(t, uint64(d))
		var off, on []float64
		for range 20_000 {
			m, h := NewMoments(MomentContract{bound, n, d}), make([]float64, d*d)
			m.Release(h, MatrixLaplace{epsilon}, src)
			if d == 1 {
				on = append(on, h[0]/(2*unit))
				continue
			}
			off = append(off, h[1]/unit)
			on = append(on, (h[0]-h[d+1])/(2*unit))
		}
		shape := d + 1
		if d == 1 {
			shape = 1
		}
		for name, draws := range map[string][]float64{"on": on, "off": off} {
			if len(draws) == 0 {
				continue
			}
			if !fitsLaw(draws, gammaDifference(shape)) {
				t.Errorf("d = %d, %s the diagonal: wrong noise", d, name)
			}
			half := gammaDifference(shape)
			if fitsLaw(draws, func(v float64) float64 { return half(2 * v) }) {
				t.Errorf("d = %d, %s the diagonal: the test has no power against half the noise", d, name)
			}
			if d > 1 && fitsLaw(draws, gammaDifference(d)) {
				t.Errorf("d = %d, %s the diagonal: the test has no power against d degrees of freedom", d, name)
			}
		}
	}
	if e := (MatrixLaplace{epsilon}).Event(); e != (privacy.Pure{Epsilon: epsilon}) {
		t.Errorf("event %v", e)
	}
}

// logMatrixDensity is the logarithm, up to a constant, of the density of 2 by 2 noise with scale s
// at a matrix of eigenvalues high >= low: the integral of exp(-tr(M + 2V)/s) over the V for which
// V and M + V are positive semidefinite. If M is definite, one of the two follows from the other;
// else V is (p, q; q, r) with r >= -low and |q| below the root of both determinants.
func logMatrixDensity(s, high, low float64) float64 {
	if low >= 0 || high <= 0 {
		return -math.Abs(high+low)/s + math.Log(math.Pi*math.Pow(s/2, 3)/2)
	}
	beyond := -low / s // in units of s; V's corner is at (0, beyond)
	h := high / s
	inner := func(p float64) float64 {
		return quad.Fixed(func(u float64) float64 { // r - beyond = u^2 removes the root at the border
			r := u * u
			return 2 * u * 2 * math.Sqrt(math.Min(p*(r+beyond), (p+h)*r)) * math.Exp(-2*r)
		}, 0, 4.5, 48, nil, 0)
	}
	v := quad.Fixed(func(u float64) float64 { return 2 * u * inner(u*u) * math.Exp(-2*u*u) }, 0, 4.5, 48, nil, 0)
	return math.Log(s*s*s*v) - 2*beyond - (high+low)/s
}

// largestLoss is the largest logarithm of a ratio of densities that a record replaced by
// another shows, rows of length 1 at most, D = 2, for noise of scale s.
func largestLoss(s float64) float64 {
	r := rand.New(rand.NewPCG(3, 3))
	type symmetric [3]float64 // entries (1,1), (1,2), (2,2)
	less := func(m symmetric, length, angle float64) symmetric {
		a, b := length*math.Cos(angle), length*math.Sin(angle)
		return symmetric{m[0] - a*a, m[1] - a*b, m[2] - b*b}
	}
	density := func(m symmetric) float64 {
		centre, radius := (m[0]+m[2])/2, math.Hypot((m[0]-m[2])/2, m[1])
		return logMatrixDensity(s, centre+radius, centre-radius)
	}
	worst := 0.0
	for range 1500 {
		size := s * math.Exp(2*r.NormFloat64())
		m := symmetric{size * r.NormFloat64(), size * r.NormFloat64(), size * r.NormFloat64()}
		angle, length := math.Pi*r.Float64(), 1.0
		other := angle + math.Pi/2
		switch r.IntN(4) {
		case 0:
			other, length = math.Pi*r.Float64(), r.Float64()
		case 1: // where it is most: far out along one row, far below along the other
			m, angle, other = symmetric{size, 0, -size}, 0, math.Pi/2
		}
		worst = math.Max(worst, math.Abs(density(less(m, 1, angle))-density(less(m, length, other))))
	}
	return worst
}

// The theorem by numbers, quadrature for the density. Half the noise is refuted.
func TestMatrixLaplaceDensitiesOfNeighboursAreNear(t *testing.T) {
	const rounding = 2e-3 // of the quadrature
	if d := logMatrixDensity(1, 1e-9, -1e-9) - logMatrixDensity(1, 1e-9, 1e-9); math.Abs(d) > rounding {
		t.Errorf("quadrature is off by %v", d)
	}
	for _, epsilon := range []float64{.3, 1, 3} {
		scale := 2 / epsilon // for Bound 1
		if loss := largestLoss(scale); loss > epsilon+rounding || loss < .85*epsilon {
			t.Errorf("eps = %v: the largest loss found is %v", epsilon, loss)
		}
		if loss := largestLoss(scale / 2); loss <= epsilon+rounding {
			t.Errorf("eps = %v: half the noise passes with %v", epsilon, loss)
		}
	}
}

// With D degrees of freedom for D+1 the density is infinite at 0. With one column it is
// that of a product of two normals, K0(|m|/s)/(pi s): no epsilon bounds its ratios.
func TestOneDegreeOfFreedomLessIsNotPure(t *testing.T) {
	k0 := func(x float64) float64 {
		return quad.Fixed(func(u float64) float64 { return math.Exp(-x * math.Cosh(u)) }, 0, 50, 4000, nil, 0)
	}
	if got := k0(1); math.Abs(got-.42102443824070833) > 1e-9 {
		t.Fatalf("K0(1) is %v", got)
	}
	for _, epsilon := range []float64{.1, 1, 3} {
		scale := 2 / epsilon
		// The sum is 0 or 1; 1e-12 was released, within a set as small as one likes.
		if loss := math.Log(k0(1e-12/scale) / k0(1/scale)); loss <= epsilon {
			t.Errorf("eps = %v: a loss of %v only", epsilon, loss)
		}
	}
}

// The integer below an entry does not depend on how many digits decided it, and a draw
// that needs more digits than the first finds them.
func TestMatrixLaplaceIsDecidedByDigits(t *testing.T) {
	for seed := range uint64(20) {
		few := wishartPair{plus: normals(3, testSource(t, seed)), minus: normals(3, testSource(t, seed+100))}
		for _, bits := range []uint{0, 20, 60, 100, 200} { // from 64 bits on the first digits cannot do
			few.scale = power(bits)
			for i := range 3 {
				for j := i; j < 3; j++ {
					many, _ := new(big.Float).SetPrec(1200).SetString("0")
					for k := range 4 {
						p := new(big.Float).SetPrec(1200).Mul(few.plus[i][k].Value(8), few.plus[j][k].Value(8))
						many.Add(many, p.Sub(p, new(big.Float).SetPrec(1200).Mul(few.minus[i][k].Value(8), few.minus[j][k].Value(8))))
					}
					want, _ := many.SetMantExp(many, int(bits)).Int(nil)
					if many.Sign() < 0 {
						want.Sub(want, big.NewInt(1))
					}
					if got := few.floor(i, j); got.Cmp(want) != 0 {
						t.Fatalf("%d bits, entry %d, %d: %v; with 512 digits %v", bits, i, j, got, want)
					}
				}
			}
		}
	}
}

// What one record does to the sums has a trace norm of at most 2 Bound^2, on awkward neighbours.
func TestTraceNormHoldsOnAwkwardNeighbours(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 1))
	most := 0.0
	for range 10_000 {
		n, d := 1+r.IntN(3), 1+r.IntN(4)
		a := awkwardTable(r, n, d, r.IntN(3) == 0)
		b := a.neighbour(r)
		c := MomentContract{[]float64{1, .3, 1e-100, 7e100}[r.IntN(4)], n, a.rows.dimension()}
		l := MatrixLaplace{1}
		share := l.statistic(c, momentsOf(c, a)).Share(l.statistic(c, momentsOf(c, b)))
		most = max(most, share)
	}
	if most > 1+1e-12 || most < .99 {
		t.Errorf("a record moved the sums by %v of what the noise hides", most)
	}
}

package prox

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// mirrored is a Mirror with what its documentation names, written down once
// more: h, its gradient, psi, and where D(u, .) is bounded by reach.
type mirrored struct {
	Mirror
	h      func(u []float64) float64
	slope  func(u []float64, j int) float64
	psi    Operator
	centre []float64
	reach  float64
}

const radius = 1.5

func mirrors(n int) []mirrored {
	q := 1 + 1/max(1, math.Log(float64(n)))
	c := math.Pow(float64(n), 2-2/q) / (q - 1)
	pNorm := func(u []float64) (sum float64) {
		for _, v := range u {
			sum += math.Pow(math.Abs(v), q)
		}
		return math.Pow(sum, 1/q)
	}
	hP := func(u []float64) float64 { v := pNorm(u); return c * v * v / 2 }
	slopeP := func(u []float64, j int) float64 {
		if u[j] == 0 {
			return 0
		}
		return c * math.Copysign(math.Pow(math.Abs(u[j]), q-1), u[j]) * math.Pow(pNorm(u), 2-q)
	}
	b := radius / float64(n)
	hH := func(u []float64) (sum float64) {
		for _, v := range u {
			sum += 2 * radius * (v*math.Asinh(v/b) - math.Sqrt(v*v+b*b))
		}
		return sum
	}
	slopeH := func(u []float64, j int) float64 { return 2 * radius * math.Asinh(u[j]/b) }
	hE := func(u []float64) (sum float64) {
		for _, v := range u {
			if v > 0 {
				sum += radius * v * math.Log(v)
			}
		}
		return sum
	}
	slopeE := func(u []float64, j int) float64 { return radius * (math.Log(u[j]) + 1) }
	p, free, hyper, entropy := PNorm{.3, radius}, PNorm{.3, math.Inf(1)}, Hypentropy{.3, radius}, Entropy{radius}
	zero, even := make([]float64, n), make([]float64, n)
	for j := range even {
		even[j] = radius / float64(n)
	}
	return []mirrored{
		{p, hP, slopeP, Sum{L1{.3}, L1Ball{radius}}, zero, p.Reach(n)},
		{free, hP, slopeP, L1{.3}, zero, math.Inf(1)},
		{hyper, hH, slopeH, Sum{L1{.3}, L1Ball{radius}}, zero, hyper.Reach(n)},
		{entropy, hE, slopeE, Simplex{radius}, even, entropy.Reach(n)},
	}
}

// divergence is D(u, z).
func (m mirrored) divergence(u, z []float64) float64 {
	sum := m.h(u) - m.h(z)
	for j := range z {
		sum -= m.slope(z, j) * (u[j] - z[j])
	}
	return sum
}

func (m mirrored) point(r *rand.Rand, n int) []float64 {
	z := random(r, n, 1)
	if _, ok := m.Mirror.(Entropy); ok {
		for j := range z {
			z[j] = math.Abs(r.NormFloat64()) + .01
		}
		scale(z, radius/norm1(z))
		return z
	}
	m.psi.Prox(z, 1e-3)
	return z
}

// checkStep tests what makes u the minimiser of eta <g,u> + eta psi(u) + D(u,z):
// every v is worse by D(v,u).
func checkStep(m mirrored, r *rand.Rand, n int) error {
	z, g, eta := m.point(r, n), random(r, n, 1), math.Exp(r.NormFloat64())
	u := slices.Clone(z)
	m.Step(u, g, eta)
	if math.IsInf(m.psi.Value(u), 1) {
		return fmt.Errorf("%v is outside the set", u)
	}
	objective := func(v []float64) float64 {
		sum := eta*m.psi.Value(v) + m.divergence(v, z)
		for j := range v {
			sum += eta * g[j] * v[j]
		}
		return sum
	}
	for range 20 {
		v := m.point(r, n)
		by := math.Pow(10, -3*r.Float64())
		for j := range v {
			v[j] = u[j] + by*(v[j]-u[j])
		}
		apart := m.divergence(v, u)
		if lost := objective(u) + apart - objective(v); lost > 1e-9*(1+math.Abs(objective(u))) {
			return fmt.Errorf("step from %v along %v by %v: %v, but %v is better by %v", z, g, eta, u, v, lost)
		}
	}
	return nil
}

func TestMirrorStepIsTheMinimiser(t *testing.T) {
	for _, n := range []int{2, 3, 8} {
		for _, m := range mirrors(n) {
			r := rand.New(rand.NewPCG(5, 6))
			for range 200 {
				if err := checkStep(m, r, n); err != nil {
					t.Fatalf("%T in R^%d: %v", m.Mirror, n, err)
				}
			}
		}
	}
}

// projected is the Euclidean habit of stepping first and projecting then, which
// is not the mirror step.
type projected struct{ Mirror }

func (m projected) Step(z, g []float64, eta float64) {
	free := m.Mirror.(PNorm)
	free.Radius = math.Inf(1)
	free.Step(z, g, eta)
	L1Ball{m.Mirror.(PNorm).Radius}.Prox(z, 1)
}

func TestTheCheckCatchesAWrongStep(t *testing.T) {
	m := mirrors(8)[0]
	m.Mirror = projected{m.Mirror}
	r := rand.New(rand.NewPCG(5, 6))
	for range 200 {
		if checkStep(m, r, 8) != nil {
			return
		}
	}
	t.Error("passes")
}

// In the plane every point of a fine grid is tried.
func TestMirrorStepByBruteForce(t *testing.T) {
	const cells, half = 100, 2 * radius
	for _, m := range mirrors(2) {
		r := rand.New(rand.NewPCG(7, 8))
		for range 5 {
			z, g := m.point(r, 2), random(r, 2, 1)
			u := slices.Clone(z)
			m.Step(u, g, 1)
			objective := func(v []float64) float64 {
				return g[0]*v[0] + g[1]*v[1] + m.psi.Value(v) + m.divergence(v, z)
			}
			best, arg := math.Inf(1), []float64{0, 0}
			for i := -cells; i <= cells; i++ {
				for j := -cells; j <= cells; j++ {
					v := []float64{half * float64(i) / cells, half * float64(j) / cells}
					if value := objective(v); value < best {
						best, arg = value, v
					}
				}
			}
			if objective(u) > best+1e-6 || distance(u, arg) > .1 {
				t.Errorf("%T: %v with %v; grid %v with %v", m.Mirror, u, objective(u), arg, best)
			}
		}
	}
}

func TestDivergenceBoundsTheDistanceAndStaysInReach(t *testing.T) {
	for _, n := range []int{2, 3, 8, 40} {
		for _, m := range mirrors(n) {
			r := rand.New(rand.NewPCG(9, 10))
			for range 300 {
				u, z := m.point(r, n), m.point(r, n)
				apart := 0.0
				for j := range u {
					apart += math.Abs(u[j] - z[j])
				}
				if got := m.divergence(u, z); got < apart*apart/2*(1-1e-9)-1e-12 {
					t.Fatalf("%T in R^%d: D = %v at l1 distance %v", m.Mirror, n, got, apart)
				}
				if got := m.divergence(u, m.centre); got > m.reach*(1+1e-9) {
					t.Fatalf("%T in R^%d: D from the centre %v, reach %v", m.Mirror, n, got, m.reach)
				}
			}
		}
	}
}

func TestEntropyStartsAtTheCentre(t *testing.T) {
	z := make([]float64, 4)
	Entropy{2}.Step(z, make([]float64, 4), 1)
	if !slices.Equal(z, []float64{.5, .5, .5, .5}) {
		t.Error(z)
	}
}

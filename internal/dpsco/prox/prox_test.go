package prox

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"
)

const d = 6

func random(r *rand.Rand, n int, size float64) []float64 {
	v := make([]float64, n)
	for j := range v {
		v[j] = size * r.NormFloat64()
		if r.IntN(5) == 0 {
			v[j] = 0
		}
	}
	return v
}

// positive returns the eigenvectors of a matrix and its eigenvalues, from 1 down to 1/spread.
func positive(r *rand.Rand, n int, spread float64) (vectors *mat.Dense, values []float64) {
	square := mat.NewDense(n, n, nil)
	for i := range n {
		for j := range n {
			square.Set(i, j, r.NormFloat64())
		}
	}
	var qr mat.QR
	qr.Factorize(square)
	vectors = new(mat.Dense)
	qr.QTo(vectors)
	for k := range n {
		values = append(values, math.Pow(spread, -float64(k)/float64(n-1)))
	}
	return vectors, values
}

func metric(psi Operator, r *rand.Rand, n int, spread float64) *Metric {
	vectors, values := positive(r, n, spread)
	return NewMetric(psi, vectors, values)
}

// box is the set of w with every coordinate in [low, high]: unlike a ball it is
// neither round nor centred, so that sums with it take many rounds.
type box struct{ low, high float64 }

func (b box) Value(w []float64) float64 {
	for _, v := range w {
		if room := setTolerance * (b.high - b.low); !(v >= b.low-room && v <= b.high+room) {
			return math.Inf(1)
		}
	}
	return 0
}

func (b box) Prox(w []float64, _ float64) {
	for j, v := range w {
		w[j] = max(b.low, min(v, b.high))
	}
}

var groups = [][]int{{0, 3}, {1, 2, 5}}

func operators() []Operator {
	r := rand.New(rand.NewPCG(9, 9))
	simple := []Operator{
		Zero{}, L1{.7}, L2{.7}, ElasticNet{.4, .9}, GroupL1{.5, groups},
		box{-.5, 1}, L2Ball{1.2},
	}
	all := append(slices.Clone(simple),
		ExceptFirst{L1{.7}}, ExceptFirst{L2Ball{.6}}, ExceptFirst{box{-.2, 2}},
		Sum{L1{.7}, L2Ball{.8}}, Sum{GroupL1{.5, groups}, L2Ball{.8}}, Sum{ExceptFirst{L2{2}}, L2Ball{.7}}, Sum{L1{.3}, box{-.2, .4}},
		Sum{box{-.1, .4}, L2Ball{.6}}, Sum{L2{.4}, box{-1, .3}}, Sum{ExceptFirst{L2Ball{.3}}, L2Ball{.5}},
	)
	for _, psi := range append(simple, ExceptFirst{L1{.7}}) {
		all = append(all, metric(psi, r, d, 30))
	}
	return all
}

func name(psi Operator) string {
	if m, ok := psi.(*Metric); ok {
		return "Metric" + name(m.psi)
	}
	return fmt.Sprintf("%T%v", psi, psi)
}

// checkProx tests what makes u the minimiser of the 1-strongly convex t psi +
// |.-w|^2/2: every v is worse by half its squared distance to u. That v is a
// point near u, or far, brought into the set by one more prox.
func checkProx(psi Operator, r *rand.Rand, tolerance float64) error {
	w, t := random(r, d, math.Exp(r.NormFloat64())), math.Exp(r.NormFloat64())
	u := slices.Clone(w)
	psi.Prox(u, t)
	if value := psi.Value(u); math.IsInf(value, 1) || math.IsNaN(value) {
		return fmt.Errorf("psi(prox(%v)) = %v at %v", w, value, u)
	}
	objective := func(v []float64) float64 { far := distance(v, w); return t*psi.Value(v) + far*far/2 }
	for k := range 30 {
		v := random(r, d, math.Pow(10, -float64(k%6)))
		for j := range v {
			v[j] += u[j]
		}
		if k%3 > 0 {
			psi.Prox(v, .1)
		}
		apart := distance(u, v)
		if lost := objective(u) + apart*apart/2 - objective(v); lost > tolerance*(1+objective(u)) {
			return fmt.Errorf("prox(%v, %v) = %v; %v is better by %v", w, t, u, v, lost)
		}
	}
	return nil
}

func TestProxIsTheMinimiser(t *testing.T) {
	for _, psi := range operators() {
		t.Run(name(psi), func(t *testing.T) {
			r := rand.New(rand.NewPCG(1, 2))
			for range 60 {
				if err := checkProx(psi, r, 2e-9); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// wrong are operators that are nearly right.
type (
	halfThreshold struct{ L1 }
	unweighted    struct{ GroupL1 }
	clampedBall   struct{ L2Ball }
	noRounds      struct{ Sum }
)

func (p halfThreshold) Prox(w []float64, t float64) { p.L1.Prox(w, t/2) }
func (p unweighted) Prox(w []float64, t float64)    { p.GroupL1.Prox(w, t/math.Sqrt2) }
func (p clampedBall) Prox(w []float64, _ float64) {
	side := p.Radius / math.Sqrt(float64(len(w)))
	box{-side, side}.Prox(w, 1)
}
func (p noRounds) Prox(w []float64, t float64) { p.A.Prox(w, t); p.B.Prox(w, t) }

func TestTheCheckCatchesWrongOperators(t *testing.T) {
	for _, psi := range []Operator{
		halfThreshold{L1{.7}}, unweighted{GroupL1{.5, groups}}, clampedBall{L2Ball{1.2}}, noRounds{Sum{box{-.1, .4}, L2Ball{.6}}},
	} {
		r, caught := rand.New(rand.NewPCG(1, 2)), false
		for range 60 {
			caught = caught || checkProx(psi, r, 2e-9) != nil
		}
		if !caught {
			t.Errorf("%T passes", psi)
		}
	}
}

func TestProxClosedForms(t *testing.T) {
	for _, c := range []struct {
		psi     Operator
		t       float64
		w, want []float64
	}{
		{L1{2}, .5, []float64{3, -.5, -4}, []float64{2, 0, -3}},
		{L2{3}, 1, []float64{4, -8}, []float64{1, -2}},
		{ElasticNet{1, 1}, 1, []float64{5, .5}, []float64{2, 0}},
		{GroupL1{math.Sqrt2, [][]int{{0, 1}}}, 1, []float64{3, 4, 7}, []float64{1.8, 2.4, 7}},
		{L2Ball{1}, 1, []float64{3, 4}, []float64{.6, .8}},
		{ExceptFirst{L2Ball{1}}, 1, []float64{9}, []float64{9}},
		{ExceptFirst{L2Ball{1}}, 1, []float64{9, 3, 4}, []float64{9, .6, .8}},
	} {
		got := slices.Clone(c.w)
		c.psi.Prox(got, c.t)
		if distance(got, c.want) > 1e-15 {
			t.Errorf("%s: prox(%v) = %v, want %v", name(c.psi), c.w, got, c.want)
		}
	}
}

func TestSetsKnowTheirPoints(t *testing.T) {
	for _, c := range []struct {
		set         Operator
		in, outside []float64
	}{
		{L2Ball{1}, []float64{.6, .8}, []float64{.7, .8}},
		{ExceptFirst{L2Ball{1}}, []float64{9, .6, .8}, []float64{9, .7, .8}},
		{Sum{L2Ball{2}, L2Ball{1}}, []float64{.6, .8}, []float64{.7, .8}},
	} {
		if c.set.Value(c.in) != 0 || !math.IsInf(c.set.Value(c.outside), 1) {
			t.Errorf("%s: %v, %v", name(c.set), c.set.Value(c.in), c.set.Value(c.outside))
		}
	}
}

// Nothing hangs or panics where a solver has diverged.
func TestOperatorsAreTotal(t *testing.T) {
	w := []float64{math.NaN(), math.Inf(1), math.Inf(-1), 1e300, -math.MaxFloat64, 0}
	for _, psi := range operators() {
		psi.Prox(slices.Clone(w), 1)
	}
}

// A badly conditioned metric of the size of a wide table.
func TestMetricConvergesWhenBadlyConditioned(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	const n, step, lambda = 40, .5, 1.
	m := metric(L1{lambda}, r, n, 100)
	u := random(r, n, 1)
	v := slices.Clone(u)
	m.Prox(u, step)
	// Optimal where -P^-1 (u - v) / step is a subgradient of lambda |.|_1 at P u.
	w, s := make([]float64, n), make([]float64, n)
	multiply(w, m.p, u)
	for j := range v {
		v[j] = (v[j] - u[j]) / step
	}
	multiply(s, m.inverse, v)
	zeros := 0
	for j := range w {
		if math.Abs(w[j]) < 1e-9 {
			zeros++
			if math.Abs(s[j]) > lambda+1e-7 {
				t.Errorf("coordinate %d is 0 with subgradient %v", j, s[j])
			}
		} else if math.Abs(s[j]-math.Copysign(lambda, w[j])) > 1e-7 {
			t.Errorf("coordinate %d is %v with subgradient %v", j, w[j], s[j])
		}
	}
	if zeros == 0 || zeros == n {
		t.Errorf("%d zeros of %d: the test says nothing", zeros, n)
	}
}

func BenchmarkMetric(b *testing.B) {
	for _, lambda := range []float64{.02, 1} {
		for _, n := range []int{10, 280} {
			r := rand.New(rand.NewPCG(4, 4))
			m := metric(L1{lambda}, r, n, 100)
			v := random(r, n, 1)
			b.Run(fmt.Sprint(n, "/", lambda), func(b *testing.B) {
				for b.Loop() {
					m.Prox(slices.Clone(v), .5)
				}
			})
		}
	}
}

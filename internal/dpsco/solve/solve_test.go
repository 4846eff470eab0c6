package solve

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"

	"dpsidecar/internal/dpsco/prox"
)

// exact is the oracle of least squares without noise: it counts its calls and
// panics beyond what was declared. Batches are drawn without replacement.
type exact struct {
	x       [][]float64 // by rows
	y       []float64
	uses    []Use
	calls   []int
	norms   []float64 // of the queries at an anchor
	clipped int       // row gradients that a query's norm made shorter
	r       *rand.Rand
}

func (o *exact) declare(s Solver) {
	o.uses = s.Uses()
	o.calls, o.norms, o.clipped = make([]int, len(o.uses)), nil, 0
}

func (o *exact) Gradient(dst []float64, q Query) {
	use := o.uses[q.Use]
	o.calls[q.Use]++
	switch {
	case o.calls[q.Use] > use.Calls:
		panic(fmt.Sprintf("call %d of use %d, %d were declared", o.calls[q.Use], q.Use, use.Calls))
	case use.Diff != (q.Anchor != nil):
		panic("an anchor, or none, against what was declared")
	}
	if q.Anchor != nil {
		o.norms = append(o.norms, q.Norm)
	}
	rows := o.r.Perm(len(o.x))
	if use.Batch > 0 {
		rows = rows[:use.Batch]
	}
	clear(dst)
	for _, i := range rows {
		c, length := dot(o.x[i], q.W)-o.y[i], math.Sqrt(dot(o.x[i], o.x[i]))
		if q.Anchor != nil {
			c = dot(o.x[i], q.W) - dot(o.x[i], q.Anchor)
		}
		if q.Norm > 0 && math.Abs(c)*length > q.Norm*(1+1e-9) {
			c *= q.Norm / (math.Abs(c) * length)
			o.clipped++
		}
		for j, v := range o.x[i] {
			dst[j] += c * v / float64(len(rows))
		}
	}
}

func (o *exact) value(w []float64) (sum float64) {
	for i, x := range o.x {
		r := dot(x, w) - o.y[i]
		sum += r * r / 2
	}
	return sum / float64(len(o.x))
}

// smoothness is that of a row gradient, which bounds that of their mean.
func (o *exact) smoothness() (largest float64) {
	for _, x := range o.x {
		largest = max(largest, dot(x, x))
	}
	return largest
}

// curvature returns the second derivative of the mean loss and its eigenvalues, ascending.
func (o *exact) curvature() (*mat.SymDense, []float64) {
	d := len(o.x[0])
	h := mat.NewSymDense(d, nil)
	for _, x := range o.x {
		h.SymRankOne(h, 1/float64(len(o.x)), mat.NewVecDense(d, x))
	}
	var eigen mat.EigenSym
	eigen.Factorize(h, false)
	return h, eigen.Values(nil)
}

// ridge solves (H + lambda) w = X'y/n.
func (o *exact) ridge(lambda float64) []float64 {
	h, _ := o.curvature()
	d := len(o.x[0])
	b, w := mat.NewVecDense(d, nil), mat.NewVecDense(d, nil)
	for i, x := range o.x {
		b.AddScaledVec(b, o.y[i]/float64(len(o.x)), mat.NewVecDense(d, x))
	}
	for j := range d {
		h.SetSym(j, j, h.At(j, j)+lambda)
	}
	if err := w.SolveVec(h, b); err != nil {
		panic(err)
	}
	return w.RawVector().Data
}

func dot(a, b []float64) (sum float64) {
	for j := range a {
		sum += a[j] * b[j]
	}
	return sum
}

func distance(a, b []float64) (sum float64) {
	for j := range a {
		sum = math.Hypot(sum, a[j]-b[j])
	}
	return sum
}

// table has n rows of d correlated features and a sparse truth.
func table(n, d int, noise float64) *exact {
	r := rand.New(rand.NewPCG(11, 12))
	o := &exact{r: r}
	for range n {
		x, common := make([]float64, d), r.NormFloat64()
		for j := range x {
			x[j] = r.NormFloat64() + common/2
		}
		o.x = append(o.x, x)
		o.y = append(o.y, x[0]-2*x[1]+noise*r.NormFloat64())
	}
	return o
}

func run(t *testing.T, s Solver, o *exact, psi prox.Operator) []float64 {
	t.Helper()
	o.declare(s)
	w := make([]float64, len(o.x[0]))
	if err := s.Solve(t.Context(), w, o, psi); err != nil {
		t.Fatal(err)
	}
	return w
}

// convergent are solvers that reach the optimum of any composite problem.
func convergent(o *exact) map[string]Solver {
	l := o.smoothness()
	_, values := o.curvature()
	full := 1 / values[len(values)-1]
	return map[string]Solver{
		"GD":         GD{Steps: 400, Rate: full},
		"GD average": GD{Steps: 800, Rate: full, Average: 0.5},
		"SVRG":       SVRG{Epochs: 40, Inner: 600, Growth: 1, Rate: 1 / (4 * l), Batch: 20, Smoothness: l, Norm: 1e3},
		"SVRG++":     SVRG{Epochs: 8, Inner: 100, Growth: 2, Rate: 1 / (4 * l), Batch: 20, Smoothness: l, Norm: 1e3},
	}
}

func TestLeastSquaresAndRidge(t *testing.T) {
	o := table(120, 5, .3)
	for name, s := range convergent(o) {
		for _, lambda := range []float64{0, .5} {
			if w := run(t, s, o, prox.L2{Lambda: lambda}); distance(w, o.ridge(lambda)) > 1e-8 {
				t.Errorf("%s, lambda %v: %v, want %v", name, lambda, w, o.ridge(lambda))
			}
		}
	}
}

// A lasso is solved where -gradient is a subgradient of lambda |w|_1.
func checkLasso(t *testing.T, o *exact, w []float64, lambda, tolerance float64) {
	t.Helper()
	o.declare(GD{Steps: 1})
	g := make([]float64, len(w))
	o.Gradient(g, Query{W: w})
	zeros := 0
	for j, v := range w {
		switch {
		case v == 0:
			zeros++
			if math.Abs(g[j]) > lambda+tolerance {
				t.Errorf("coordinate %d is 0 with gradient %v", j, g[j])
			}
		case math.Abs(g[j]+math.Copysign(lambda, v)) > tolerance:
			t.Errorf("coordinate %d is %v with gradient %v", j, v, g[j])
		}
	}
	if zeros == 0 || zeros == len(w) {
		t.Errorf("%d zeros: the test says nothing", zeros)
	}
}

func TestLasso(t *testing.T) {
	o := table(120, 5, .3)
	for name, s := range convergent(o) {
		w := run(t, s, o, prox.L1{Lambda: .2})
		for j, v := range w { // a mean of iterates is not exactly sparse
			if math.Abs(v) < 1e-9 {
				w[j] = 0
			}
		}
		t.Run(name, func(t *testing.T) { checkLasso(t, o, w, .2, 1e-7) })
	}
}

// On a ball that binds, the gradient points at the optimum from outside.
func TestProjection(t *testing.T) {
	o := table(120, 5, .3)
	for name, s := range convergent(o) {
		w := run(t, s, o, prox.L2Ball{Radius: 1})
		o.declare(GD{Steps: 1})
		g := make([]float64, len(w))
		o.Gradient(g, Query{W: w})
		if distance(w, make([]float64, len(w))) < 1-1e-8 || dot(w, g) > -(1-1e-12)*math.Sqrt(dot(w, w)*dot(g, g)) {
			t.Errorf("%s: %v with gradient %v", name, w, g)
		}
	}
}

// The lasso of the coordinates w = P u, solved in u.
func TestLassoInAMetric(t *testing.T) {
	o := table(120, 5, .3)
	h, values := o.curvature()
	var eigen mat.EigenSym
	eigen.Factorize(h, true)
	var vectors mat.Dense
	eigen.VectorsTo(&vectors)
	p := mat.NewSymDense(5, nil)
	for k, v := range values {
		values[k] = 1 / math.Sqrt(v)
		p.SymRankOne(p, values[k], vectors.ColView(k))
	}
	white := &exact{y: o.y, r: o.r}
	for _, x := range o.x {
		u := mat.NewVecDense(5, nil)
		u.MulVec(p, mat.NewVecDense(5, x))
		white.x = append(white.x, u.RawVector().Data)
	}
	u := run(t, GD{Steps: 60, Rate: .9}, white, prox.NewMetric(prox.L1{Lambda: .2}, &vectors, values))
	w := mat.NewVecDense(5, nil)
	w.MulVec(p, mat.NewVecDense(5, u))
	got := w.RawVector().Data
	for j, v := range got {
		if math.Abs(v) < 1e-8 {
			got[j] = 0
		}
	}
	checkLasso(t, o, got, .2, 1e-6)
}

// Without noise in y every batch has the same optimum.
func TestBatchesConvergeWhereTheyAgree(t *testing.T) {
	o := table(120, 5, 0)
	s := GD{Steps: 3000, Rate: 1 / o.smoothness(), Batch: 10}
	if w := run(t, s, o, prox.Zero{}); distance(w, o.ridge(0)) > 1e-8 {
		t.Errorf("%v, want %v", w, o.ridge(0))
	}
}

// The loss is within 4 D(w*, start) / (Rate T^2) of the optimum, D half the squared
// distance. The answer of GD serves as the optimum of problems without a closed form.
func TestAcceleratedDescentReachesTheOptimum(t *testing.T) {
	o := table(120, 5, .3)
	_, values := o.curvature()
	const steps = 3000
	rate := 1 / (2 * values[len(values)-1])
	for _, c := range []struct {
		name       string
		psi        prox.Operator
		divergence float64
	}{
		{"plain", prox.Zero{}, 3},
		{"ridge", prox.L2{Lambda: .5}, 3},
		{"lasso", prox.L1{Lambda: .2}, 3},
		{"ball", prox.L2Ball{Radius: 1}, 1},
	} {
		best := run(t, GD{Steps: 3000, Rate: 2 * rate}, o, c.psi)
		w := run(t, AccMD{Steps: steps, Rate: rate}, o, c.psi)
		bound := 4 * c.divergence / (rate * steps * steps)
		if gap := o.value(w) + c.psi.Value(w) - o.value(best) - c.psi.Value(best); !(gap < bound) {
			t.Errorf("%s: %v above the optimum, %v allowed", c.name, gap, bound)
		}
	}
}

// In a valley whose curvature is 1/(2T) of the largest one, T steps of descent
// are left with more than the bound of acceleration allows.
func TestAcceleration(t *testing.T) {
	const steps = 300
	o := &exact{x: [][]float64{{math.Sqrt2, 0}, {0, math.Sqrt(1. / steps)}}, y: []float64{0, math.Sqrt(1. / steps)}, r: rand.New(rand.NewPCG(1, 1))}
	const bound = 4 * .5 / (.5 * steps * steps)
	for _, c := range []struct {
		s    Solver
		fast bool
	}{
		{AccMD{Steps: steps, Rate: .5}, true},
		{GD{Steps: steps, Rate: 1}, false},
	} {
		if gap := o.value(run(t, c.s, o, prox.Zero{})); (gap <= bound) != c.fast {
			t.Errorf("%+v: %v above the optimum, bound %v", c.s, gap, bound)
		}
	}
}

func TestCallsAreThoseDeclared(t *testing.T) {
	o := table(120, 5, .3)
	l := o.smoothness()
	for _, c := range []struct {
		s              Solver
		declared, made []int
	}{
		{GD{Steps: 7, Rate: .1, Decay: .05, Batch: 30, Average: 0.5}, []int{7}, []int{7}},
		{SVRG{Epochs: 3, Inner: 5, Growth: 1, Rate: .01, Batch: 10, Smoothness: l, Norm: 9}, []int{3, 12}, []int{3, 12}},
		{SVRG{Epochs: 3, Inner: 5, Growth: 2, Rate: .01, Batch: 10, Smoothness: l, Norm: 9}, []int{3, 70}, []int{3, 69}},
		{AccMD{Steps: 4, Rate: .1}, []int{4}, []int{4}},
	} {
		run(t, c.s, o, prox.Zero{})
		for k, u := range o.uses {
			if u.Calls != c.declared[k] {
				t.Errorf("%+v declares %v", c.s, o.uses)
			}
		}
		if !slices.Equal(o.calls, c.made) {
			t.Errorf("%+v makes %v calls, want %v", c.s, o.calls, c.made)
		}
	}
}

func TestTheOracleCatchesACallTooMany(t *testing.T) {
	o := table(120, 5, .3)
	o.declare(GD{Steps: 6, Rate: .1})
	defer func() {
		if recover() == nil {
			t.Error("7 calls of 6 pass")
		}
	}()
	GD{Steps: 7, Rate: .1}.Solve(t.Context(), make([]float64, 5), o, prox.Zero{})
}

// With true bounds the norm that differences are clipped to shortens none of them; it
// shrinks, and is never above 2 Norm.
func TestTheDifferenceNormShrinksAndClipsNothing(t *testing.T) {
	o := table(120, 5, .3)
	s := SVRG{Epochs: 30, Inner: 400, Growth: 1, Rate: 1 / (4 * o.smoothness()), Batch: 20, Smoothness: o.smoothness(), Norm: 1e3}
	run(t, s, o, prox.Zero{})
	if o.clipped > 0 {
		t.Errorf("%d row gradients clipped", o.clipped)
	}
	if first, last := o.norms[0], o.norms[len(o.norms)-1]; last > 1e-5*first {
		t.Errorf("norm from %v to %v", first, last)
	}
	s.Smoothness /= 20 // a mutant: smoothness of no row
	run(t, s, o, prox.Zero{})
	if o.clipped == 0 {
		t.Error("a wrong smoothness clips nothing")
	}
	s.Smoothness, s.Norm = math.Inf(1), .5
	run(t, s, o, prox.Zero{})
	if slices.Max(o.norms) != 1 {
		t.Errorf("a norm of %v, want 2 Norm", slices.Max(o.norms))
	}
}

func TestADivergedRunKeepsItsDifferenceNorm(t *testing.T) {
	s := SVRG{Smoothness: 1, Norm: 3}
	for _, v := range []float64{math.NaN(), math.Inf(1), 1e300} {
		if c := s.differenceNorm([]float64{v}, []float64{0}); c != 6 {
			t.Errorf("norm %v at %v", c, v)
		}
	}
	if c := s.differenceNorm([]float64{2}, []float64{2}); c != 0 {
		t.Errorf("norm %v at the anchor", c)
	}
}

// A run that overflows asks for no more than it declared.
func TestADivergedRunEnds(t *testing.T) {
	o := table(120, 5, .3)
	for _, s := range []Solver{
		GD{Steps: 50, Rate: 1e200, Average: 0.5}, AccMD{Steps: 50, Rate: 1e200},
		SVRG{Epochs: 9, Inner: 3, Growth: 1, Rate: 1e200, Batch: 9, Smoothness: 1, Norm: 1e200},
		SVRG{Epochs: 4, Inner: 3, Growth: 2, Rate: 1e200, Batch: 9, Smoothness: math.Inf(1), Norm: 1e200},
	} {
		if w := run(t, s, o, prox.Zero{}); !math.IsNaN(w[0]) {
			t.Errorf("%+v: %v: the test says nothing", s, w)
		}
	}
}

// slope is the oracle of a linear loss: w moves by -Rate a step.
type slope struct{ calls int }

func (o *slope) Gradient(dst []float64, _ Query) {
	o.calls++
	for j := range dst {
		dst[j] = 1
	}
}

func TestAverageIsOfTheLastIterates(t *testing.T) {
	for _, c := range []struct {
		s    GD
		want float64
	}{
		{GD{Steps: 1, Rate: 1, Average: 0.5}, -1},
		{GD{Steps: 4, Rate: 1, Average: 0.5}, -3.5},
		{GD{Steps: 5, Rate: 1, Average: 0.5}, -4},
		{GD{Steps: 5, Rate: 1}, -5},
		{GD{Steps: 4, Rate: 1, Decay: 1.5}, -(1 + 1 + 1.5/math.Sqrt(3) + 1.5/2)},
	} {
		w := []float64{0}
		if err := c.s.Solve(t.Context(), w, &slope{}, prox.Zero{}); err != nil || math.Abs(w[0]-c.want) > 1e-15 {
			t.Errorf("%+v: %v, %v, want %v", c.s, w[0], err, c.want)
		}
	}
}

// stopping ends a context at a call.
type stopping struct {
	slope
	at     int
	cancel func()
}

func (o *stopping) Gradient(dst []float64, q Query) {
	o.slope.Gradient(dst, q)
	if o.calls == o.at {
		o.cancel()
	}
}

func TestAnEndedContextEndsTheRun(t *testing.T) {
	for _, s := range []Solver{
		GD{Steps: 50, Rate: .1}, AccMD{Steps: 50, Rate: .1},
		SVRG{Epochs: 9, Inner: 3, Growth: 1, Rate: .1, Smoothness: 1, Norm: 1},
		SVRG{Epochs: 4, Inner: 3, Growth: 2, Rate: .1, Smoothness: 1, Norm: 1},
	} {
		for _, at := range []int{1, 2, 5} {
			ctx, cancel := context.WithCancel(t.Context())
			o := &stopping{at: at, cancel: cancel}
			if err := s.Solve(ctx, []float64{0}, o, prox.Zero{}); !errors.Is(err, context.Canceled) || o.calls != at {
				t.Errorf("%+v: %v after %d calls, cancelled at %d", s, err, o.calls, at)
			}
		}
	}
}

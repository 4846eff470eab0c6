package expmech

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"dpsidecar/internal/mech/mechtest"
)

// The theorem in expmech.md has two premises: every point of W is proposed by
// exactly one box under exactly one index, and the probability to accept it is at
// most 1. On a W of some hundred points both can be checked at each of them, with
// exact scores. The tests here do so on random tables made to break them.

// indexOf returns the index under which box b proposes k, if it does. There is at
// most one: given the later k_m, point raises k_j by index_j.
func indexOf(s *sampler, b *box, k []int64) (index []int64, ok bool) {
	index, at := make([]int64, len(k)), make([]int64, len(k))
	for j := len(k) - 1; j >= 0; j-- {
		s.lattice.point(at, b.low, index)
		index[j] = k[j] - at[j]
		if index[j] < 0 || index[j] >= b.size[j] {
			return nil, false
		}
	}
	return index, true
}

// note notes the odds of given steps, as odds.steps does for those it draws.
func (o *odds) note(rate float64, size, steps int64) {
	digit := func(rate float64, count int, value int64) {
		if count == 1 {
			return
		}
		var weights []uint64
		var sum uint64
		for i := range count {
			weights = append(weights, digitOne)
			if i > 0 {
				weights[i] = uint64(digitOne*math.Exp(-rate*float64(i))) + 1
			}
			sum += weights[i]
		}
		o.taken = append(o.taken, weights[value])
		o.sums = append(o.sums, sum)
	}
	low, padded := digits(size)
	digit(math.Ldexp(rate, low), int(padded>>low), steps>>low)
	for b := range low {
		digit(math.Ldexp(rate, b), 2, steps>>b&1)
	}
}

func TestNotedOddsAreThoseOfADraw(t *testing.T) {
	src := mechtest.Source(t, 3)
	for _, size := range []int64{1, 2, 31, 33, 1000, 123456} {
		for _, rate := range []float64{0, 1e-3, 0.1, 1, 40} {
			for range 20 {
				var drawn, noted odds
				steps := drawn.steps(src, rate, size)
				noted.note(rate, size, steps)
				if !slices.Equal(drawn.taken, noted.taken) || !slices.Equal(drawn.sums, noted.sums) {
					t.Fatalf("size %d rate %g: %d steps have odds %v, noted %v", size, rate, steps, drawn, noted)
				}
			}
		}
	}
}

// logAcceptance returns the logarithm of target/(weight*odds). Where that is near
// 0, no term is above 1000, so it is known within 1e-11; weights have 2^-30 to spare.
func logAcceptance(s *sampler, b *box, index []int64, total *big.Int) float64 {
	var o odds
	for j, steps := range index {
		if b.falls[j] {
			steps = b.size[j] - 1 - steps
		}
		o.note(b.rate[j], b.size[j], steps)
	}
	exponent := new(big.Rat).SetInt(total)
	exponent.Mul(exponent, s.unit)
	exponent.Sub(new(big.Rat).SetFloat64(s.level), exponent)
	target, _ := exponent.Float64()
	return target - math.Log(float64(s.weight(b))) - o.log()
}

// flaws returns what is wrong with the boxes of s at any point of W.
func flaws(s *sampler) (found []string) {
	for _, k := range grid(s.target) {
		proposals := 0
		for _, b := range s.boxes {
			index, ok := indexOf(s, b, k)
			if !ok {
				continue
			}
			proposals++
			if a := logAcceptance(s, b, index, s.total(k)); !(a <= 1e-11) {
				found = append(found, fmt.Sprintf("point %v is accepted with probability exp(%g)", k, a))
			}
		}
		if proposals != 1 {
			found = append(found, fmt.Sprintf("point %v has %d proposals", k, proposals))
		}
	}
	return found
}

// smallProblem returns parameters with which W has at most a few hundred points,
// and a table on which the envelope has to be careful.
func smallProblem(rng *rand.Rand) (p Params, x [][]float64, y []float64) {
	if rng.IntN(4) == 0 {
		return cancelling(rng)
	}
	d := 1 + rng.IntN(3)
	p = Params{
		Epsilon:   min(9e3, math.Exp(3*rng.NormFloat64())),
		Theta:     [...]float64{2, 1.9, 1.5, 1.05}[rng.IntN(4)],
		Radius:    math.Exp(3 * rng.NormFloat64()),
		Set:       Set(rng.IntN(2)),
		Intercept: rng.IntN(2) == 0,
	}
	if rng.IntN(4) == 0 {
		p.Radius *= math.Exp(60*rng.Float64() - 30)
	}
	p.Iota = math.Exp(2*rng.NormFloat64()) / p.Radius
	p.Pitch = p.Radius / ([...]float64{60, 9, 4}[d-1]*rng.Float64() + 0.3)

	few, some := 1+rng.IntN(60), 200+rng.IntN(800)
	n := [...]int{few, few, few, some, some, 3000}[rng.IntN(6)]
	value := awkward(rng, d)
	if p.Intercept {
		d--
	}
	x, y = make([][]float64, d), make([]float64, n)
	for j := range x {
		x[j] = make([]float64, n)
		for i := range n {
			x[j][i] = value(j)
		}
	}
	if d >= 2 && rng.IntN(3) == 0 { // nearly collinear
		for i, v := range x[0] {
			x[1][i] = 1000*v + 1e-9*rng.NormFloat64()
		}
	}
	for i := range y {
		y[i] = value(d)
		if d > 0 && rng.IntN(2) == 0 {
			y[i] += 0.5 * x[0][i]
		}
	}
	return p, x, y
}

// hostile are values that round, overflow, tie or are missing.
var hostile = []float64{0, 1, -1, 1e-300, 5e-324, 1e300, -1e100, math.NaN(), math.Inf(1), 1e8, -1e12, 1e16, 0.1, 3, 1e5, 1e-8, 0x1p333, -0x1p332}

// awkward returns a source of values for column j.
func awkward(rng *rand.Rand, d int) func(j int) float64 {
	sizes := make([]float64, d+1)
	for j := range sizes {
		sizes[j] = math.Exp(6 * float64(rng.IntN(3)) * rng.NormFloat64())
	}
	any := func() float64 { return hostile[rng.IntN(len(hostile))] }
	return [...]func(j int) float64{
		func(int) float64 { return rng.NormFloat64() },
		func(j int) float64 { return sizes[j] * rng.NormFloat64() },
		func(int) float64 { return any() },
		func(int) float64 { return rng.NormFloat64() / rng.NormFloat64() / (0.01 + rng.Float64()) },
		func(int) float64 {
			if rng.IntN(5) == 0 {
				return any()
			}
			return rng.NormFloat64()
		},
		func(int) float64 { return float64(rng.IntN(3) - 1) },
	}[rng.IntN(6)]
}

// cut splits boxes, the heaviest and random ones, at most rounds times.
func cut(s *sampler, rng *rand.Rand, rounds int) {
	for range rounds {
		if s.heaviest() < 0 {
			return
		}
		if rng.IntN(2) == 0 {
			s.split()
		} else if b := rng.IntN(len(s.boxes)); s.boxes[b].axis >= 0 {
			s.add(s.refine([]*box{s.take(b)})...)
		}
	}
}

// smallSampler returns a sampler of the problem, with the same boxes however many
// cores there are.
func smallSampler(tb testing.TB, p Params, x [][]float64, y []float64) *sampler {
	d := len(x)
	if p.Intercept {
		d++
	}
	if err := p.Validate(len(y), d); err != nil {
		tb.Fatal(err)
	}
	target := newTarget(p, len(y), d)
	target.workers = 2
	return newSampler(target, x, y, never)
}

func TestEveryPointIsProposedOnceAndAcceptedAtMostSurely(t *testing.T) {
	rng := rand.New(rand.NewPCG(78, 1))
	fenced, imprecise := 0, 0
	for trial := range 350 {
		p, x, y := smallProblem(rng)
		s := smallSampler(t, p, x, y)
		if len(s.boxes) > 1 {
			fenced++
		}
		if slices.ContainsFunc(s.view.noise, func(noise float64) bool { return !(noise <= plainNoise) }) {
			imprecise++
		}
		cut(s, rng, rng.IntN(60))
		if found := flaws(s); len(found) > 0 {
			t.Errorf("trial %d, %d rows, %+v: %d flaws: %s", trial, len(y), p, len(found), found[0])
		}
	}
	if fenced < 20 || imprecise < 100 {
		t.Errorf("%d samplers have a fence and %d imprecise rows: the test says little", fenced, imprecise)
	}
}

// What floating point leaves open, once in some 2^38 proposals, exact numbers decide: about the same number, and with the
// same probability. Here they decide all of them.
func TestExactDecisionsHaveTheProbability(t *testing.T) {
	rng := rand.New(rand.NewPCG(79, 1))
	src := mechtest.Source(t, 79)
	const draws, cases = 2000, 5
	for seen := 0; seen < cases; {
		p, x, y := smallProblem(rng)
		s := smallSampler(t, p, x, y)
		cut(s, rng, 1+rng.IntN(40))
		b := s.pick(src)
		points := grid(s.target)
		k := points[rng.IntN(len(points))]
		index, ok := indexOf(s, b, k)
		if !ok {
			continue
		}
		logProbability := logAcceptance(s, b, index, s.total(k))
		if probability := math.Exp(logProbability); probability < 0.05 || probability > 0.95 {
			continue
		}
		seen++
		var o odds
		for j, steps := range index {
			if b.falls[j] {
				steps = b.size[j] - 1 - steps
			}
			o.note(b.rate[j], b.size[j], steps)
		}
		accepted := 0.0
		for range draws {
			u := src.Uniform()
			below, above := u.SurelyBelowExp(logProbability-1e-9), u.SurelyAboveExp(logProbability+1e-9)
			decided := s.decide(u, s.weight(b), &o, k)
			if decided {
				accepted++
			}
			if below && !decided || above && decided {
				t.Fatalf("%+v: %v is accepted: %t", p, k, decided)
			}
		}
		q := math.Exp(logProbability)
		if math.Abs(accepted-draws*q) > 6.5*math.Sqrt(draws*q*(1-q)) { // below 1e-10
			t.Errorf("%+v: %v is accepted %g times of %d, want %g", p, k, accepted, draws, draws*q)
		}
	}
}

// What a sample makes of boxes is no bound of all rows: none of it is left in those that are bounded anew.
func TestASampleLeavesNoBound(t *testing.T) {
	x, y := lognormal(4, 2*sampleRows+1000, 3)
	p := attackParams(2, Ball)
	p.Iota = 0.1
	s := newSampler(newTarget(p, len(y), 3), x, y, never)
	plain := everyNth(s.boxes[0].list.plain, len(y))
	root := &box{list: &list{plain: plain, middle: make([]float64, 3), expansion: newExpansion(3)}, model: unitModel(3)}
	root.low, root.size = s.lattice.root(s.target)
	parts := s.splitBySample(root)
	for _, b := range parts {
		if b.plane != nil || b.inner != nil || b.list != root.list {
			t.Fatalf("of %d boxes one has a plane %v, or rows of its own", len(parts), b.plane)
		}
	}
	if len(parts) < 10 {
		t.Errorf("%d boxes: the test says little", len(parts))
	}
}

// Nor is a fence where the rows of the sample, and they alone, would have one.
func TestASampleMakesNoFence(t *testing.T) {
	const n = 2*sampleRows + 1000
	x, y := [][]float64{make([]float64, n)}, make([]float64, n)
	for i := range n {
		if i%3 == 0 || i%5 == 0 {
			x[0][i] = 1
		}
	}
	p := attackParams(2, Box)
	p.Intercept = false
	s := newSampler(newTarget(p, n, 1), x, y, never)
	var score, none []int32
	for i := range int32(n) {
		if s.view.row(i)[1] != 0 {
			score = append(score, i)
		} else {
			none = append(none, i)
		}
	}
	take := func(rows *[]int32) (first int32) {
		first, *rows = (*rows)[0], (*rows)[1:]
		return first
	}
	share := float64(len(score)) / n
	chosen := make([]int32, n)
	for i := range chosen {
		if i%3 == 0 || i%5 == 0 { // every third is the sample of faces, every fifth that of the cube's size
			chosen[i] = take(&score)
		} else {
			chosen[i] = take(&none)
		}
	}
	calls := 0
	s.envelope.stop = func() bool { // what fails takes all surveys that there may be
		calls++
		return calls > 60
	}
	if q := s.fence(chosen, 1.3*share*s.psi.top*n); !math.IsInf(q, 1) {
		t.Errorf("a fence of %g for more than all rows score", q)
	}
}

// Mutants: the heaviest box of a right envelope is lost, comes twice, is a cell too
// wide, or weighs too little.
func TestFlawsOfWrongBoxesAreFound(t *testing.T) {
	x, y := small(1, 40, 2)
	p := Params{Epsilon: 2, Theta: 2, Iota: 0.3, Radius: 1, Pitch: 1. / 9, Set: Box}
	for name, mutate := range map[string]func(s *sampler, heaviest int){
		"right": func(*sampler, int) {},
		"lost":  func(s *sampler, i int) { s.take(i) },
		"twice": func(s *sampler, i int) { s.add(s.boxes[i]) },
		"wide":  func(s *sampler, i int) { s.boxes[i].size[0]++ },
		"light": func(s *sampler, i int) { s.boxes[i].logMass -= 0.5 },
	} {
		s := smallSampler(t, p, x, y)
		cut(s, rand.New(rand.NewPCG(1, 1)), 20)
		mutate(s, s.heaviest())
		if found := flaws(s); (len(found) > 0) != (name != "right") {
			t.Errorf("%s: %d flaws: %v", name, len(found), found)
		}
	}
}

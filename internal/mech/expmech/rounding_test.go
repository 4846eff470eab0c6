package expmech

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
)

// A row's share of the slack pays for the rounding of its residual and its score,
// for mixed planes, and for what sums lose: (2^15 + n/256) roundings of at most 2^-53 of lowestBound.
// The proof is in expmech.md, section 4.
func TestRowSlackPaysForRounding(t *testing.T) {
	for n := 1; n <= maxRows; n = 2*n + 1 {
		slack := newTarget(Params{Epsilon: 1, Theta: 2, Iota: 1, Radius: 1, Pitch: 1}, n, 1).rowSlack()
		sums := lowestBound * 0x1p-53 * (1<<15 + float64(n)/256)
		if row := 1.1*plainNoise + 0x1p-37 + 0x1p-40 + 0x1p-48; slack < sums+row {
			t.Errorf("%d rows: slack %g, a row loses %g and its sums %g", n, slack, row, sums)
		}
	}
}

// magnitude returns how large the terms of a bound become in a box.
func magnitude(s *sums, places []place) float64 {
	size := math.Abs(s.constant)
	for _, e := range []*expansion{&s.live, &s.frozen} {
		size += math.Abs(e.f)
		for j, g := range e.g {
			h := places[j].half
			size += math.Abs(g)*h + math.Abs(e.m[j][j])*h*h/2
			for k, v := range e.m[j][:j] {
				size += math.Abs(v) * h * places[k].half
			}
		}
	}
	return size
}

// rounded returns a sampler whose only row has large a and V, far from z = 0, and a
// residual on places that a bound has to be careful with.
func rounded(tb testing.TB, rng *rand.Rand, n int) (s *sampler, places []place) {
	p := Params{Epsilon: 1, Theta: [...]float64{2, 1.5, 1.05}[rng.IntN(3)], Iota: 1, Radius: 1, Pitch: 0x1p-20}
	s = smallSampler(tb, p, [][]float64{{1}, {1}}, []float64{0})
	s.target.n, s.target.workers = n, 1
	row, rho := s.view.row(0), 2*plainNoise
	row[0] = 0
	for j := range 2 {
		half := math.Exp(rng.NormFloat64())
		middle := math.Exp(9*rng.Float64()) * half
		places = append(places, place{middle, half, middle})
		row[1+j] = math.Exp(-4*rng.Float64()) * rng.NormFloat64() / half
		row[0] += row[1+j] * middle
		rho += math.Abs(row[1+j]) * half
	}
	row[0] += rho * [...]float64{0, rng.NormFloat64(), 1 + math.Exp2(-30*rng.Float64()), 3 * rng.NormFloat64()}[rng.IntN(4)]
	return s, places
}

// The terms that a row adds, whatever bound they belong to, are at most lowestBound
// all over the box; and a sum of n such rows loses at most (520 + n/480) 2^-53 of that
// a row. Here the rows are equal, so that rounding has a direction, and n is a power
// of 2, so that n times one row is known.
func TestTermsOfRowsAreSmallAndTheirSumsLoseLittle(t *testing.T) {
	const n = 1 << 17
	lost := lowestBound * n * (520 + n/480) * 0x1p-53
	rng := rand.New(rand.NewPCG(17, 1))
	for range 60 {
		s, places := rounded(t, rng, n)
		by := &bounder{s.view, s.psi, places, freezeLoss / (n * s.gain)}
		for name, sum := range map[string]func(total *sums, rows []int32){
			"plain": func(total *sums, rows []int32) { s.collectPlain(total, by, rows) },
			"imprecise": func(total *sums, rows []int32) {
				b := *s.boxes[0]
				b.list = &list{imprecise: rows}
				s.collectImprecise(total, by, &b)
			},
			"fence": func(total *sums, rows []int32) { total.add((&fencer{s.view, s.psi, rows}).sum(places, 0, len(rows))) },
		} {
			one, all := newSums(2), newSums(2)
			sum(one, make([]int32, 1))
			sum(all, make([]int32, n))
			if size := magnitude(one, places); !(size <= lowestBound+2*usableNoise) {
				t.Errorf("%s: the terms of a row add up to %g", name, size)
			}
			one.scale(-n)
			all.add(one)
			if loss := magnitude(all, places); !(loss <= lost) {
				t.Errorf("%s: %d rows lose %g, want at most %g", name, n, loss, lost)
			}
		}
	}
}

// Whatever the axes, NaN and infinities included, s stays in its range and z finite.
func TestAnyAxesAreSafe(t *testing.T) {
	rng := rand.New(rand.NewPCG(41, 1))
	values := []float64{0, 1, -1, 1e-320, 1e-200, 1e200, 1e308, -1e308, math.NaN(), math.Inf(1), math.Inf(-1)}
	for range 2000 {
		d := 1 + rng.IntN(4)
		l := newMatrix(d)
		for j := range l {
			for k := range l[j][:j+1] {
				l[j][k] = values[rng.IntN(len(values))]
			}
		}
		target := newTarget(Params{Epsilon: 1, Theta: 2, Iota: 1, Radius: 1, Pitch: 0x1p-28}, 10, d)
		g := newLattice(target, l, make([]int64, d))
		for j, row := range g.shear {
			norm := 0.0
			for _, v := range row {
				norm += math.Abs(float64(v))
			}
			if !(norm*float64(target.reach+1) <= 0x1p61) || !(g.scale[j] > 0) || !(g.extent[j] < math.MaxFloat64) {
				t.Fatalf("axes %v: shear %v, scale %g, extent %g", l, row, g.scale[j], g.extent[j])
			}
		}
	}
}

// A box may take over the plane of the box it is part of, whole, and so may those
// inside it: the plane must not be rounded each time.
func TestAPlaneTakenOverWholeIsNotRounded(t *testing.T) {
	own := &plane{middle: []float64{0.1}, f: 1, g: []float64{0.3}}
	other := &plane{middle: []float64{1e3}, f: 300, g: []float64{0.7}}
	if got := own.mix(other, 1); got != other {
		t.Errorf("%v becomes %v", other, got)
	}
}

// A cell of a fence may be much wider than W. The line of a row holds all the same at
// its corner near 0, where V z is a small difference of large numbers.
func TestLineOfAWideCellHoldsAtItsCorner(t *testing.T) {
	rng := rand.New(rand.NewPCG(19, 1))
	psi := newPsi(2)
	exact := func(v float64) *big.Float { return new(big.Float).SetPrec(300).SetFloat64(v) }
	for range 1000 {
		q, half := 8+rng.Float64(), math.Exp2(20*rng.Float64())
		places := []place{{middle: q, touch: q}, {middle: half + rng.Float64(), half: half}}
		v := []float64{rng.Float64(), math.Exp2(10 * rng.Float64())}
		corner := exact(places[1].middle)
		corner.Sub(corner, exact(half))
		at := exact(v[0])
		at.Mul(at, exact(q))
		at.Add(at, corner.Mul(corner, exact(v[1])))
		a, _ := at.Float64()
		a -= 1e-3 * rng.Float64()
		sum := (&fencer{&view{d: 2, v: append([]float64{a}, v...)}, psi, make([]int32, 1)}).sum(places, 0, 1)
		r, _ := at.Sub(at, exact(a)).Float64()
		if excess := sum.live.f - sum.live.g[1]*half - psi.at(r); excess > 0x1p-31 {
			t.Fatalf("a cell %g wide and V = %v: the line is %g above the score", half, v, excess)
		}
	}
}

// The rounding that rows are charged for is what extent bounds: no point of W is farther along an axis, nor
// are the terms of its coordinate, whatever their signs.
func TestExtentHoldsTheSet(t *testing.T) {
	rng := rand.New(rand.NewPCG(45, 1))
	for trial := range 500 {
		d := 1 + rng.IntN(4)
		target := newTarget(Params{Epsilon: 1, Theta: 2, Iota: 1, Radius: 1, Pitch: math.Exp2(-1 - 12*rng.Float64()), Set: Box}, 1, d)
		l := newMatrix(d)
		for j, row := range l {
			for m := range j + 1 {
				row[m] = math.Exp(3*rng.NormFloat64()) * float64(2*rng.IntN(2)-1)
			}
			row[j] = math.Abs(row[j])
		}
		corner := func() []int64 {
			k := make([]int64, d)
			for j := range k {
				k[j] = target.reach * int64(2*rng.IntN(2)-1)
			}
			return k
		}
		centre := corner()
		g := newLattice(target, l, centre)
		z := make([]float64, d)
		for range 20 {
			k := corner()
			g.whitened(z, k)
			for j, row := range g.shear {
				terms := 0.0
				for m, v := range row {
					terms += math.Abs(float64(v)*float64(k[m]-centre[m])) * g.scale[j]
				}
				if !(terms <= g.extent[j]) || !(math.Abs(z[j]) <= g.extent[j]) {
					t.Fatalf("trial %d: coordinate %d is %g, its terms %g, and the extent %g", trial, j, z[j], terms, g.extent[j])
				}
			}
		}
	}
}

package expmech

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"dpsidecar/internal/mech/mechtest"
)

// hard returns tables made to break bounds: every kind of value that rounds,
// overflows, ties or is missing.
func hard() map[string]struct {
	x [][]float64
	y []float64
} {
	rng := rand.New(rand.NewPCG(5, 5))
	values := []float64{0, 1, -1, 1e-300, -1e-300, 5e-324, 1e300, -1e300, math.MaxFloat64, math.NaN(), math.Inf(1), math.Inf(-1), 1e8, -1e12, 1e16, 0.1, 3}
	fill := func(n, d int, value func(i, j int) float64) (t struct {
		x [][]float64
		y []float64
	}) {
		for j := range d {
			t.x = append(t.x, make([]float64, n))
			for i := range n {
				t.x[j][i] = value(i, j)
			}
		}
		t.y = make([]float64, n)
		for i := range n {
			t.y[i] = value(i, d)
		}
		return t
	}
	any := func(int, int) float64 { return values[rng.IntN(len(values))] }
	normal := func(int, int) float64 { return rng.NormFloat64() }
	tables := map[string]struct {
		x [][]float64
		y []float64
	}{
		"any":      fill(200, 2, any),
		"one":      fill(1, 3, normal),
		"missing":  fill(20, 2, func(int, int) float64 { return math.NaN() }),
		"zero":     fill(50, 2, func(int, int) float64 { return 0 }),
		"ties":     fill(500, 3, func(int, int) float64 { return float64(rng.IntN(3)) }),
		"tiny":     fill(50, 2, func(int, int) float64 { return 1e-300 * rng.NormFloat64() }),
		"huge":     fill(50, 2, func(int, int) float64 { return 1e300 * rng.NormFloat64() }),
		"big":      fill(300, 2, func(int, int) float64 { return 1e7 * rng.NormFloat64() }),
		"cauchy":   fill(1000, 3, func(int, int) float64 { return rng.NormFloat64() / rng.NormFloat64() }),
		"constant": fill(300, 3, func(i, j int) float64 { return float64(j) }),
	}
	mixed := fill(400, 2, normal)
	for i := range 40 {
		mixed.x[i%2][i] = any(0, 0)
		mixed.y[2*i] = any(0, 0)
	}
	tables["mixed"] = mixed
	collinear := fill(2000, 3, normal)
	for i, v := range collinear.x[0] {
		collinear.x[1][i] = v * (1 + 1e-9*rng.NormFloat64())
		collinear.y[i] = 3*v + math.Exp(rng.NormFloat64())
	}
	tables["collinear"] = collinear
	spread := fill(3000, 2, func(i, _ int) float64 { return math.Exp(4 * rng.NormFloat64()) })
	tables["spread"] = spread
	return tables
}

func never() bool { return false }

// gap returns, exactly, how far the target's exponent lies above the envelope at
// a point of a box.
func gap(s *sampler, b *box, index []int64) (k []int64, gap *big.Rat) {
	k = make([]int64, len(index))
	s.lattice.point(k, b.low, index)
	gap = new(big.Rat).Mul(s.unit, new(big.Rat).SetInt(s.total(k)))
	gap.Sub(gap, new(big.Rat).SetFloat64(b.alpha))
	for j, size := range b.size {
		steps := index[j]
		if b.falls[j] {
			steps = size - 1 - steps
		}
		gap.Sub(gap, new(big.Rat).Mul(new(big.Rat).SetInt64(steps), new(big.Rat).SetFloat64(b.rate[j])))
	}
	return k, gap
}

// violations attacks one box: from a random point or corner it walks to where
// the envelope is tightest. Points of W must not score below the envelope, nor
// below the bound that the box hands down.
func violations(s *sampler, rng *rand.Rand, b *box) (found []string) {
	index := make([]int64, len(b.size))
	for j, size := range b.size {
		index[j] = [...]int64{0, size - 1, rng.Int64N(size), rng.Int64N(size)}[rng.IntN(4)]
	}
	k, least := gap(s, b, index)
	for try := range 24 {
		next := append([]int64(nil), index...)
		j := rng.IntN(len(next))
		reach := max(1, b.size[j]>>(try/3))
		next[j] = max(0, min(b.size[j]-1, next[j]+rng.Int64N(2*reach+1)-reach))
		if to, g := gap(s, b, next); g.Cmp(least) < 0 && s.contains(to) {
			index, k, least = next, to, g
		}
	}
	if !s.contains(k) {
		return nil
	}
	if least.Sign() < 0 {
		miss, _ := least.Float64()
		found = append(found, fmt.Sprintf("point %v scores %g below the envelope", k, -miss))
	}
	psi, _ := new(big.Rat).SetFrac(s.total(k), big.NewInt(scoreOne)).Float64()
	if b.inner != nil && s.atLeast(b.inner, k) > psi {
		found = append(found, fmt.Sprintf("point %v scores %g, the list says %g", k, psi, s.atLeast(b.inner, k)))
	}
	if math.Abs(s.estimate(k)-psi) > s.estimateSlack() {
		found = append(found, fmt.Sprintf("point %v scores %g, the estimate says %g", k, psi, s.estimate(k)))
	}
	return found
}

// attack splits a sampler's boxes, the heaviest and random ones, and looks for
// violations on the way.
func attack(tb testing.TB, s *sampler, rng *rand.Rand, rounds, points int) (found []string) {
	src := mechtest.Source(tb, 4)
	for range rounds {
		for range points {
			found = append(found, violations(s, rng, s.boxes[rng.IntN(len(s.boxes))])...)
			found = append(found, violations(s, rng, s.pick(src))...)
		}
		for range 5 {
			s.split()
			if b := rng.IntN(len(s.boxes)); s.boxes[b].axis >= 0 {
				s.add(s.refine([]*box{s.take(b)})...)
			}
		}
	}
	return found
}

func attackParams(theta float64, set Set) Params {
	return Params{Epsilon: 1, Theta: theta, Iota: 0.3, Radius: 10, Pitch: 0.01, Set: set, Intercept: true}
}

func TestEnvelopeIsBelowTheScore(t *testing.T) {
	for name, table := range hard() {
		for _, theta := range []float64{2, 1.3} {
			for _, set := range []Set{Ball, Box} {
				rng := rand.New(rand.NewPCG(9, uint64(set)))
				p := attackParams(theta, set)
				s := newSampler(newTarget(p, len(table.y), len(table.x)+1), table.x, table.y, never)
				if found := attack(t, s, rng, 6, 3); len(found) > 0 {
					t.Errorf("%s theta=%g set=%d: %d violations: %s", name, theta, set, len(found), found[0])
				}
			}
		}
	}
	x, y := lognormal(3, 10000, 4)
	p := attackParams(2, Ball)
	p.Iota = 0.1
	s := newSampler(newTarget(p, len(y), 4), x, y, never)
	if len(s.boxes) < 5 {
		t.Error("no fence on an easy table")
	}
	if found := attack(t, s, rand.New(rand.NewPCG(1, 1)), 10, 4); len(found) > 0 {
		t.Errorf("fenced: %d violations: %s", len(found), found[0])
	}
	// so many rows that a sample of them decides the first splits
	x, y = lognormal(4, 2*sampleRows+1000, 3)
	s = newSampler(newTarget(p, len(y), 3), x, y, never)
	if found := attack(t, s, rand.New(rand.NewPCG(1, 1)), 2, 8); len(found) > 0 {
		t.Errorf("drafted: %d violations: %s", len(found), found[0])
	}
}

// Mutants: envelopes that are slightly wrong must be caught by the same attack.
func TestAttackCatchesWrongEnvelopes(t *testing.T) {
	x, y := lognormal(3, 1000, 2)
	run := func(splits int, before func(*target), after func(*sampler)) bool {
		p := attackParams(2, Ball)
		p.Iota = 0.05
		target := newTarget(p, len(y), 2)
		before(target)
		s := newSampler(target, x, y, never)
		for range splits {
			s.split()
		}
		after(s)
		return len(attack(t, s, rand.New(rand.NewPCG(2, 2)), 4, 60)) > 0
	}
	every := func(mutate func(*box)) func(*sampler) {
		return func(s *sampler) {
			for _, b := range s.boxes {
				mutate(b)
			}
		}
	}
	right, untouched := func(*target) {}, func(*sampler) {}
	for _, c := range []struct {
		name   string
		splits int
		before func(*target)
		after  func(*sampler)
		caught bool
	}{
		{"right", 200, right, untouched, false},
		{"chords too steep", 30, func(t *target) {
			for i := range t.psi.chords {
				t.psi.chords[i] *= 1.2
			}
		}, untouched, true},
		{"curvature of the rows handed down forgotten", 200, right, every(func(b *box) {
			if b.inner != nil {
				b.inner.m.clear()
			}
		}), true},
		{"planes a little high", 200, right, every(func(b *box) { b.alpha += 0.1 }), true},
		{"steps counted from the wrong side", 20, right, every(func(b *box) {
			for j := range b.falls {
				b.falls[j] = !b.falls[j]
			}
		}), true},
	} {
		if caught := run(c.splits, c.before, c.after); caught != c.caught {
			t.Errorf("%s: caught is %t", c.name, caught)
		}
	}
}

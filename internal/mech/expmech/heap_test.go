package expmech

import (
	"math"
	"math/rand/v2"
	"testing"

	"dpsidecar/internal/mech"
	"dpsidecar/internal/mech/mechtest"
)

// Whatever order boxes of wildly different mass come and go in, the sums are
// those of the weights, every weight exceeds its mass, nothing overflows, and the
// heaviest box that can be split is at hand.
func TestForestKeepsItsWeights(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	var f boxHeap
	for step := range 3000 {
		if len(f.boxes) > 1 && rng.IntN(3) == 0 {
			f.take(rng.IntN(len(f.boxes)))
		} else {
			f.add(&box{logMass: 400 * rng.NormFloat64(), axis: rng.IntN(3) - 1})
		}
		if step%50 != 0 {
			continue
		}
		var sum uint64
		best := -1
		for i, b := range f.boxes {
			w := f.weight(b)
			if float64(w) < math.Exp(b.logMass+f.level) || w > 1<<(maxWeight+1) {
				t.Fatalf("weight %d for mass exp(%g)", w, b.logMass+f.level)
			}
			sum += w
			if b.axis >= 0 && (best < 0 || b.logMass > f.boxes[best].logMass) {
				best = i
			}
		}
		if sum != f.sum[1] || f.heaviest() != best {
			t.Fatalf("step %d: sum %d, want %d; heaviest %d, want %d", step, f.sum[1], sum, f.heaviest(), best)
		}
	}
}

// picks counts how often each box is picked.
func picks(f *boxHeap, n int, src *mech.Source) map[*box]float64 {
	counts := map[*box]float64{}
	for range n {
		counts[f.pick(src)]++
	}
	return counts
}

func TestPickFollowsTheWeights(t *testing.T) {
	var f boxHeap
	for i := range 5 {
		f.add(&box{logMass: -float64(i), axis: 0})
	}
	const n = 100000
	counts := picks(&f, n, mechtest.Source(t, 1))
	for _, b := range f.boxes { // 6.5 standard deviations: below 1e-10
		p := float64(f.weight(b)) / float64(f.sum[1])
		if math.Abs(counts[b]-n*p) > 6.5*math.Sqrt(n*p*(1-p)) {
			t.Errorf("mass exp(%g): %g of %d, want %g", b.logMass, counts[b], n, n*p)
		}
	}
}

// Where weights are 1 each number that is drawn stands for another box.
func TestPickOfWeightsOfOne(t *testing.T) {
	var f boxHeap
	for range 5 {
		f.add(&box{axis: 0})
	}
	f.level = -100 // masses are next to nothing
	for i := range f.boxes {
		f.update(i)
	}
	if f.sum[1] != 5 {
		t.Fatalf("5 boxes weigh %d", f.sum[1])
	}
	const n = 10000
	counts := picks(&f, n, mechtest.Source(t, 2))
	for i, b := range f.boxes { // 6.5 standard deviations: below 1e-10
		if math.Abs(counts[b]-n/5) > 6.5*math.Sqrt(n*.2*.8) {
			t.Errorf("box %d: %g of %d", i, counts[b], n)
		}
	}
}

// The digits never propose a number of steps with less than its share of the
// geometric mass, up to the 2^-30 that weights make good; and their notes are
// the probabilities they draw with.
func TestDigitsCoverTheGeometricLaw(t *testing.T) {
	src := mechtest.Source(t, 2)
	for _, size := range []int64{1, 2, 7, 31, 32, 33, 100, 1000, 12345} {
		for _, rate := range []float64{0, 1e-12, 1e-3, 0.1, 1, 40, 1000} {
			_, padded := digits(size)
			if padded < size || float64(padded) > 1.07*float64(size) {
				t.Fatalf("%d steps padded to %d", size, padded)
			}
			mass := logGeometric(rate, padded)
			for range 20 {
				var o odds
				steps := o.steps(src, rate, size)
				if steps < 0 || steps >= padded {
					t.Fatalf("%d steps of %d", steps, padded)
				}
				if got, least := o.log(), -rate*float64(steps)-mass; got < least-0x1p-31 {
					t.Fatalf("size %d rate %g: %d steps with log probability %g, want at least %g", size, rate, steps, got, least)
				}
				inverse, _ := o.inverse().Float64()
				if math.Abs(math.Log(inverse)+o.log()) > 1e-11*max(1, -o.log()) && inverse < math.MaxFloat64 {
					t.Fatalf("1/probability %g, logarithm %g", inverse, o.log())
				}
			}
		}
	}
}

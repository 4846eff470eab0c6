package mean

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"dpsidecar/internal/mech"
	"dpsidecar/internal/mech/mechtest"
	"dpsidecar/internal/privacy"
)

func (e *medianEstimator) statistics(r Rows, hints Hints, src *mech.Source) []mech.Bounded {
	bound, centre := e.interval(hints)
	return []mech.Bounded{e.sealedMedians(r, bound, centre, src)}
}

// One block is a mean, whose rows may come in any order.
func TestMedianOfMeans(t *testing.T) { testMethod(t, MedianOfMeans{Blocks: 1, Range: 2}) }

// Awkward neighbours in the same random blocks, with and without rows left over:
// medians reach the stated bound and do not pass it.
func TestMedianOfMeansSensitivity(t *testing.T) {
	r, largest := rand.New(rand.NewPCG(2, 2)), 0.
	for k := range 6000 {
		blocks := 1 + 2*r.IntN(3)
		a, b := pair(r, blocks+r.IntN(8), 1+r.IntN(3))
		p, q := a.rows(3, 2), b.rows(2, 1)
		hints := Hints{Norm: []float64{0, 0, .1, 9}[r.IntN(4)], Centre: []float64{.3, -.2, 1e9, 0}[:p.D]}
		m, seed := MedianOfMeans{blocks, 2}, uint64(k)
		before := at(t, m, 1, p.N, p.D).(statistician).statistics(p, hints, mechtest.Source(t, seed))
		after := at(t, m, 1, p.N, p.D).(statistician).statistics(q, hints, mechtest.Source(t, seed))
		largest = max(largest, share(t, before[0], after[0]))
	}
	if largest != 1 {
		t.Errorf("a record moves medians by %v of the stated bound", largest)
	}
}

// Infinite variance, and an outlier in every hundredth row: most blocks are fine.
func TestMedianOfMeansIsRobust(t *testing.T) {
	const n, d = 50_000, 3
	r := rand.New(rand.NewPCG(1, 1))
	x := make([][]float64, d)
	for j := range x {
		x[j] = make([]float64, n)
		for i := range x[j] {
			x[j][i] = 5 + float64(j) + r.NormFloat64()/math.Sqrt(r.Float64())
			if i%5000 == j {
				x[j][i] = []float64{1e300, math.Inf(-1), math.NaN()}[j]
			}
		}
	}
	e, err := MedianOfMeans{Blocks: 27, Range: 60}.At(1, n, d)
	if err != nil {
		t.Fatal(err)
	}
	src, got := mechtest.Source(t, 1), make([]float64, d)
	rows := design{x: x, c: onesOf(n)}.rows(777, 2)
	for _, hints := range []Hints{{}, {Centre: []float64{5, 6, 7}}} {
		e.Estimate(got, rows, hints, src)
		for j, v := range got {
			if want := 5 + float64(j); math.Abs(v-want) > .25 {
				t.Errorf("coordinate %d: %v, want %v", j, v, want)
			}
		}
	}
	e.Estimate(got, rows, Hints{Norm: .01, Centre: []float64{5, 6, 7}}, src)
	for j, v := range got {
		if math.Abs(v) > .02 {
			t.Errorf("coordinate %d: %v with a norm of 0.01", j, v)
		}
	}
}

// The noise is z Range sqrt(d) / floor(n/Blocks), normal: the share of 4,000
// coordinates within one standard deviation is within five standard errors of
// its probability, a false alarm in 1.7 million seeds.
func TestMedianOfMeansNoise(t *testing.T) {
	const n, d, q, z, length = 32, 4000, 3, 1.5, 4.
	e, err := MedianOfMeans{q, length}.At(z, n, d)
	if err != nil {
		t.Fatal(err)
	}
	x, got := make([][]float64, d), make([]float64, d)
	for j := range x {
		x[j] = onesOf(n)
	}
	e.Estimate(got, design{x: x, c: onesOf(n)}.rows(n, 1), Hints{}, mechtest.Source(t, 2))
	fits := func(std float64) bool {
		share, want := 0., math.Erf(1/math.Sqrt2)
		for _, v := range got {
			if math.Abs(v-1) < std {
				share += 1. / d
			}
		}
		return math.Abs(share-want) < 5*math.Sqrt(want*(1-want)/d)
	}
	std := z * length * math.Sqrt(d) / 10
	if !fits(std) {
		t.Error("wrong noise")
	}
	for name, mutant := range map[string]float64{"half the noise": 2, "the sensitivity of the print, q/n for 1/floor(n/q), and 10% less": 10 / (32. / 3) * .9} {
		if fits(mutant * std) {
			t.Errorf("the test has no power against %s", name)
		}
	}
	if e.Begin() != nil || e.Event() != (privacy.Gaussian{NoiseMultiplier: z}) {
		t.Errorf("events %v, %v", e.Begin(), e.Event())
	}
}

func TestMedianOfMeansChecksItsParameters(t *testing.T) {
	for _, c := range []struct {
		MedianOfMeans
		z    float64
		n, d int
	}{
		{MedianOfMeans{4, 1}, 1, 100, 1}, {MedianOfMeans{0, 1}, 1, 100, 1}, {MedianOfMeans{-1, 1}, 1, 100, 1}, {MedianOfMeans{101, 1}, 1, 100, 1},
		{MedianOfMeans{5, 0}, 1, 100, 1}, {MedianOfMeans{5, math.NaN()}, 1, 100, 1}, {MedianOfMeans{5, 1}, 0, 100, 1}, {MedianOfMeans{5, 1}, 1, 100, 0},
	} {
		if e, err := c.At(c.z, c.n, c.d); !errors.Is(err, mech.ErrParams) || e != nil {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

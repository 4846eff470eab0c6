package mech

import (
	"errors"
	"io"
	"math"
	"math/big"
	"testing"

	"dpsidecar/internal/privacy"

	"gonum.org/v1/gonum/stat/distuv"
)

// noiseOf returns what a mechanism adds to a mean of 0.25 in every coordinate,
// over scale.
func noiseOf(t *testing.T, c Contract, release func(dst []float64, b Bounded, src *Source), scale float64) []float64 {
	s := NewSum(c)
	v := make([]float64, c.D)
	for j := range v {
		v[j] = .25
	}
	for range c.N {
		s.Add(v)
	}
	released := make([]float64, c.D)
	release(released, s.Bounded(), TestSource(t, uint64(c.D)))
	for j := range released {
		released[j] = (released[j] - .25) / scale
	}
	return released
}

// The noise of a release, in the units of the mean, is the multiplier times the
// replace-one l2 sensitivity 2 Bound/N, or 2 Bound sqrt(D)/N.
func TestGaussianReleaseAddsTheNoiseOfItsEvent(t *testing.T) {
	const n, d, z = 4, 60_000, 1.5
	for _, c := range []Contract{{L2, 100, n, d}, {LInf, 2, n, d}} {
		sigma := z * 2 * c.Bound / n
		if c.Norm == LInf {
			sigma *= math.Sqrt(d)
		}
		got := noiseOf(t, c, Gaussian{z}.Release, sigma)
		if !fitsLaw(got, distuv.UnitNormal.CDF) {
			t.Errorf("%s: wrong noise", c.Norm)
		}
		for name, mutant := range map[string]float64{"half the noise, or the sensitivity of adding a record": 2, "5% less noise": 1.05} {
			if fitsLaw(got, distuv.Normal{Sigma: mutant}.CDF) {
				t.Errorf("%s: the test has no power against %s", c.Norm, name)
			}
		}
	}
	if e := (Gaussian{z}).Event(); e != (privacy.Gaussian{NoiseMultiplier: z}) {
		t.Errorf("event %v", e)
	}
}

// The scale of a release is the l1 sensitivity 2 Bound D/N, or 2 Bound ceil(sqrt(D))/N,
// over epsilon.
func TestLaplaceReleaseAddsTheNoiseOfItsEvent(t *testing.T) {
	const n, d, epsilon = 4, 60_000, 1.5
	for _, c := range []Contract{{L2, 100, n, d}, {LInf, 2, n, d}} {
		scale := 2 * c.Bound / n / epsilon * d
		if c.Norm == L2 {
			scale = 2 * c.Bound / n / epsilon * math.Ceil(math.Sqrt(d))
		}
		got := noiseOf(t, c, Laplace{epsilon}.Release, scale)
		if !fitsLaw(got, distuv.Laplace{Scale: 1}.CDF) {
			t.Errorf("%s: wrong noise", c.Norm)
		}
		if fitsLaw(got, distuv.Laplace{Scale: 1.08}.CDF) {
			t.Errorf("%s: the test has no power against 8%% less noise", c.Norm)
		}
	}
	if e := (Laplace{epsilon}).Event(); e != (privacy.Pure{Epsilon: epsilon}) {
		t.Errorf("event %v", e)
	}
}

// flipLaw returns permute-and-flip's probabilities from those of its coins, by
// the recursion over the first candidate of the random order.
func flipLaw(heads []float64, left []int, weight float64, p []float64) {
	for k, j := range left {
		w := weight / float64(len(left))
		p[j] += w * heads[j]
		rest := append(append([]int{}, left[:k]...), left[k+1:]...)
		if len(rest) > 0 {
			flipLaw(heads, rest, w*(1-heads[j]), p)
		}
	}
}

// One record of score c at Bound c/2 is the whole sensitivity, so heads come up
// with probability exp(-epsilon/2) a record.
func TestPermuteAndFlipHasItsLaw(t *testing.T) {
	const epsilon, runs = 1.2, 40_000
	src := TestSource(t, 1)
	// Two records: scores 0, 1, 2 and 2 times c in four candidates.
	c := Contract{LInf, .5, 2, 4}
	counts := make([]int, 4)
	for range runs {
		s := NewSum(c)
		s.Add([]float64{-.5, -.5, .5, .5})
		s.Add([]float64{-.5, .5, .5, .5})
		counts[PermuteAndFlip{epsilon}.Release(s.Bounded(), src)]++
	}
	law := func(epsilon float64) []float64 {
		heads, p := make([]float64, 4), make([]float64, 4)
		for j, records := range []float64{0, 1, 2, 2} {
			heads[j] = math.Exp(-epsilon / 2 * records)
		}
		flipLaw(heads, []int{0, 1, 2, 3}, 1, p)
		return p
	}
	if !fits(counts, law(epsilon)) {
		t.Errorf("wrong law: %v, want shares %v", counts, law(epsilon))
	}
	for name, mutant := range map[string]float64{"twice the rate": epsilon / 2, "10% more epsilon": epsilon / 1.1} {
		if fits(counts, law(mutant)) {
			t.Errorf("the test has no power against %s", name)
		}
	}
	if e := (PermuteAndFlip{epsilon}).Event(); e != (privacy.Pure{Epsilon: epsilon}) {
		t.Errorf("event %v", e)
	}
}

// counter counts what is read.
type counter struct {
	r     io.Reader
	bytes int
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.bytes += n
	return n, err
}

// All coins are flipped whichever comes up first: the randomness used is the
// same for every order.
func TestPermuteAndFlipFlipsAllCoins(t *testing.T) {
	read := map[int]int{}
	for seed := range 200 {
		c := &counter{r: TestSource(t, uint64(seed)).r}
		s := NewSum(Contract{LInf, 1, 1, 5})
		s.Add([]float64{0, 1, -1, 1, .5})
		PermuteAndFlip{1}.Release(s.Bounded(), &Source{r: c})
		read[c.bytes]++
	}
	if len(read) != 1 {
		t.Errorf("bytes read, and how often: %v", read)
	}
}

// Scores far apart are no trouble.
func TestPermuteAndFlipTakesAnyScores(t *testing.T) {
	src := TestSource(t, 2)
	s := NewSum(Contract{LInf, 1, 1 << 40, 2})
	s.totals = []int64{1 << 60, -1 << 60}
	if j := (PermuteAndFlip{0x1p20}).Release(s.Bounded(), src); j != 1 {
		t.Errorf("selected %d", j)
	}
}

func TestMechanismsCheckTheirParameters(t *testing.T) {
	if !panics(func() { TestSource(t, 1).DiscreteLaplace(new(big.Rat)) }) {
		t.Error("a discrete Laplace law of scale 0")
	}
	type mechanism interface{ Check() error }
	for _, m := range []mechanism{Gaussian{1}, Laplace{1}, PermuteAndFlip{1}, Smooth{1, .1}} {
		if err := m.Check(); err != nil {
			t.Error(err)
		}
	}
	for _, v := range []float64{0, -1, math.NaN(), math.Inf(1), 0x1p60} {
		for _, m := range []mechanism{Gaussian{v}, Laplace{v}, PermuteAndFlip{v}, Smooth{v, .1}} {
			if err := m.Check(); !errors.Is(err, ErrParams) {
				t.Errorf("%#v: %v", m, err)
			}
		}
		one := Contract{L2, 1, 1, 1}
		for name, f := range map[string]func(){
			"gaussian": func() { Gaussian{v}.Release(make([]float64, 1), NewSum(one).Bounded(), nil) },
			"laplace":  func() { Laplace{v}.Release(make([]float64, 1), NewSum(one).Bounded(), nil) },
			"flip":     func() { PermuteAndFlip{v}.Release(NewSum(one).Bounded(), nil) },
		} {
			if !panics(f) {
				t.Errorf("%s with %v: no panic", name, v)
			}
		}
	}
}

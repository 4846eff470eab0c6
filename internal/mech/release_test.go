package mech

import (
	"errors"
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
	release(released, s.Bounded(), testSource(t, uint64(c.D)))
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

func TestMechanismsCheckTheirParameters(t *testing.T) {
	if !panics(func() { testSource(t, 1).DiscreteLaplace(new(big.Rat)) }) {
		t.Error("a discrete Laplace law of scale 0")
	}
	type mechanism interface{ Check() error }
	for _, m := range []mechanism{Gaussian{1}, Smooth{1, .1}} {
		if err := m.Check(); err != nil {
			t.Error(err)
		}
	}
	for _, v := range []float64{0, -1, math.NaN(), math.Inf(1), 0x1p60} {
		for _, m := range []mechanism{Gaussian{v}, Smooth{v, .1}} {
			if err := m.Check(); !errors.Is(err, ErrParams) {
				t.Errorf("%#v: %v", m, err)
			}
		}
		one := Contract{L2, 1, 1, 1}
		for name, f := range map[string]func(){
			"gaussian": func() { Gaussian{v}.Release(make([]float64, 1), NewSum(one).Bounded(), nil) },
		} {
			if !panics(f) {
				t.Errorf("%s with %v: no panic", name, v)
			}
		}
	}
}

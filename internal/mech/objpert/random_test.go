package objpert

import (
	"math"
	"math/big"
	"testing"

	"dpsidecar/internal/mech/mechtest"

	"gonum.org/v1/gonum/stat/distuv"
)

// Every chi-square test here fails by chance with probability 1e-8: with the
// dozen of them in this package, less than 1e-6 a run. Expected counts are above
// 500, where the chi-square tail is accurate enough for that.
const chance = 1e-8

// fits compares counts with probabilities that sum to 1.
func fits(counts []int, probability []float64) bool {
	total := 0
	for _, c := range counts {
		total += c
	}
	square := 0.0
	for i, c := range counts {
		expected := probability[i] * float64(total)
		square += (float64(c) - expected) * (float64(c) - expected) / expected
	}
	return square <= distuv.ChiSquared{K: float64(len(counts) - 1)}.Quantile(1-chance)
}

// fitsLaw tests draws against a distribution function in 32 equally likely bins.
func fitsLaw(draws []float64, cdf func(float64) float64) bool {
	const bins = 32
	counts, probability := make([]int, bins), make([]float64, bins)
	for i := range probability {
		probability[i] = 1.0 / bins
	}
	for _, v := range draws {
		counts[min(int(cdf(v)*bins), bins-1)]++
	}
	return fits(counts, probability)
}

// The radius is Gamma(d) and, independently of it, the direction uniform: the
// share of the first coordinate in the squared length is Beta(1/2, (d-1)/2).
func TestRadialNoiseHasItsLaw(t *testing.T) {
	src := mechtest.Source(t, 2)
	for _, d := range []int{1, 2, 5} {
		const n, scale = 20_000, 3.0
		radii, shares, signs := make([]float64, n), make([]float64, n), [2]int{}
		for i := range n {
			v := toFloats(newRadialNoise(src, d, scale).value(1e-9))
			radii[i] = norm(v) / scale
			shares[i] = v[0] * v[0] / (radii[i] * radii[i] * scale * scale)
			if v[0] < 0 {
				signs[0]++
			} else {
				signs[1]++
			}
		}
		if !fitsLaw(radii, distuv.Gamma{Alpha: float64(d), Beta: 1}.CDF) {
			t.Errorf("d = %d: wrong radius", d)
		}
		if fitsLaw(radii, distuv.Gamma{Alpha: float64(d), Beta: 1.1}.CDF) {
			t.Errorf("d = %d: the test has no power against 10%% less noise", d)
		}
		if d > 1 && !fitsLaw(shares, distuv.Beta{Alpha: .5, Beta: float64(d-1) / 2}.CDF) {
			t.Errorf("d = %d: wrong direction", d)
		}
		if !fits(signs[:], []float64{.5, .5}) {
			t.Errorf("d = %d: signs %v", d, signs)
		}
	}
}

// The same draw to more digits never leaves the stated error.
func TestRadialNoiseErrorIsBounded(t *testing.T) {
	src := mechtest.Source(t, 3)
	for range 300 {
		b := newRadialNoise(src, 7, 1e3)
		far, _ := b.cut(4)
		for digits := 1; digits < 4; digits++ {
			v, err := b.cut(digits)
			gap := new(big.Float)
			for j := range v {
				diff := new(big.Float).SetPrec(512).Sub(v[j], far[j])
				gap.Add(gap, diff.Mul(diff, diff))
			}
			if size, _ := gap.Sqrt(gap).Float64(); size > err || err > math.Ldexp(1e6, -64*digits) {
				t.Fatalf("%d digits: off by %g, stated %g", digits, size, err)
			}
		}
		const tolerance = 1e-60
		near := b.value(tolerance)
		for j := range near {
			if diff, _ := new(big.Float).Sub(near[j], far[j]).Float64(); math.Abs(diff) > tolerance {
				t.Fatalf("coordinate %d is off by %g", j, diff)
			}
		}
	}
}

package mech

import (
	"errors"
	"math"
	"testing"
)

// variation sums the total variation between the discrete normal law of variance
// s2 and the normal law rounded to integers.
func variation(s2 float64) float64 {
	s := math.Sqrt(s2)
	reach := int(12*s) + 2
	total := 0.0
	for k := -reach; k <= reach; k++ {
		total += math.Exp(-float64(k*k) / (2 * s2))
	}
	sum := 0.0
	for k := 0; k <= reach; k++ {
		a, b := (float64(k)-0.5)/s, (float64(k)+0.5)/s
		rounded := (math.Erfc(a/math.Sqrt2) - math.Erfc(b/math.Sqrt2)) / 2
		gap := math.Abs(math.Exp(-float64(k*k)/(2*s2))/total - rounded)
		if k > 0 {
			gap *= 2
		}
		sum += gap
	}
	return sum / 2
}

func TestDiscreteNoiseIsNearRoundedNormalNoise(t *testing.T) {
	for _, s2 := range []float64{4, 5, 7.3, 10, 40, 100, 1000, 1e4} {
		d := variation(s2) * s2
		if d > 0.021 {
			t.Errorf("variance %v: distance %v / variance", s2, d)
		}
		if d < 0.015 { // a bound of a hundredth would be caught
			t.Errorf("variance %v: distance %v / variance is too small to be right", s2, d)
		}
	}
}

func TestRoundingDeltaCountsEveryCoordinateOfEveryCall(t *testing.T) {
	one := RoundingDelta(1, 1000, 1, 1)
	if want := (1 + math.Exp(20)) * 0.0211 / math.Exp2(82); math.Abs(one/want-1) > 1e-12 {
		t.Errorf("got %v, want %v", one, want)
	}
	for name, got := range map[string]float64{
		"coordinates": RoundingDelta(1, 1000, 10, 1) / 10, "calls": RoundingDelta(1, 1000, 1, 50) / 50,
		"noise": RoundingDelta(3, 1000, 1, 1) * 9, "a coarser grid for more records": RoundingDelta(1, 1<<25, 1, 1) / 256,
	} {
		if math.Abs(got/one-1) > 1e-12 {
			t.Errorf("%s: %v for %v", name, got, one)
		}
	}
}

// Releases about so many coordinates that discrete noise may matter are refused before anything is charged, and no
// mechanism makes one.
func TestFewEnoughCoordinates(t *testing.T) {
	const many = 1 << 40
	for _, c := range []struct {
		what string
		ok   bool
		err  error
	}{
		{"2,048 coordinates of 2^40 sums", true, Contract{Norm: L2, Bound: 1, N: many, D: 2048}.Check()},
		{"one more", false, Contract{Norm: L2, Bound: 1, N: many, D: 2049}.Check()},
		{"all of 2^35 sums", true, Contract{Norm: L2, Bound: 1, N: 1 << 35, D: maxDimension}.Check()},
		{"all bounded by themselves", true, Contract{Norm: LInf, Bound: 1, N: many, D: maxDimension}.Check()},
		{"15 columns of 2^40 rows", true, MomentContract{Bound: 1, N: many, D: 15}.Check()},
		{"16 of them", false, MomentContract{Bound: 1, N: many, D: 16}.Check()},
		{"4,000 columns of a billion rows", true, MomentContract{Bound: 1, N: 1 << 30, D: 4000}.Check()},
		{"15 columns of two parts of 2^40 rows", false, CheckParts(many, 15, 2)},
		{"a thousand parts of 100 columns of two billion rows", true, CheckParts(1<<31, 100, 1000)},
		{"4,096 bins of 2^40 records", true, CheckHistogram(Bins{Width: 1, Half: 2048}, many, 1)},
		{"two more", false, CheckHistogram(Bins{Width: 1, Half: 2049}, many, 1)},
	} {
		if (c.err == nil) != c.ok || c.err != nil && !errors.Is(c.err, ErrParams) {
			t.Errorf("%s: %v", c.what, c.err)
		}
	}
	refuses := func(what string, release func()) {
		defer func() {
			if recover() == nil {
				t.Errorf("%s are released", what)
			}
		}()
		release()
	}
	sums := make([]Bounded, 3)
	for k := range sums {
		sums[k] = NewSum(Contract{Norm: L2, Bound: 1, N: many, D: 1000}).Bounded()
	}
	refuses("parts of a sum", func() { Gaussian{1}.Release(make([]float64, 3000), Disjoint(sums), testSource(t, 1)) })
	moments := []*Moments{NewMoments(MomentContract{Bound: 1, N: many, D: 15}), NewMoments(MomentContract{Bound: 1, N: many, D: 15})}
	refuses("parts of moments", func() { ReleaseDisjoint(make([]float64, 450), moments, Gaussian{1}, testSource(t, 1)) })
}

// What discrete noise loses of rounded normal noise around two neighbouring sums, by summation, is at most what
// rounding.md bounds it by, and not much less where they are one.
func TestDiscreteNoiseLosesLittle(t *testing.T) {
	for _, s := range []float64{4, 7.3, 30, 100} {
		for _, shift := range []float64{0, 1, 3, 20} {
			total, lost := 0.0, 0.0
			reach := int(12*s) + 2
			for k := -reach; k <= reach; k++ {
				total += math.Exp(-float64(k*k) / (2 * s * s))
			}
			rounded := func(k float64) float64 {
				return (math.Erfc((math.Abs(k)-.5)/s/math.Sqrt2) - math.Erfc((math.Abs(k)+.5)/s/math.Sqrt2)) / 2
			}
			missing := func(k float64) float64 {
				if p := rounded(k); p > 0 {
					return math.Max(0, 1-math.Exp(-k*k/(2*s*s))/total/p)
				}
				return 1
			}
			for k := -float64(reach) + shift; k <= float64(reach)-shift; k++ {
				lost += rounded(k) * math.Max(missing(k), missing(k+shift))
			}
			bound := (2*(s+.5)*(s+.5) + shift*shift) / (24 * s * s * s * s)
			if lost > bound || shift == 0 && lost < bound/6 {
				t.Errorf("deviation %v, shift %v: %v lost, bound %v", s, shift, lost, bound)
			}
		}
	}
}

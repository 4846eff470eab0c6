package mech

import (
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

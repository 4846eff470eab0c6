package magnitude

import (
	"math"
	"testing"

	"dpsidecar/internal/mech"
	"dpsidecar/internal/mech/mechtest"
)

func TestHalfOctavesAreThoseOfMagnitudes(t *testing.T) {
	for k, middle := range Middles {
		h := mech.NewHistogram(HalfOctaves, 1, 1)
		h.AddRows(mech.Rows{Intercept: true}, []float64{Position(middle)})
		for bin, count := range mechtest.Totals(t, h.Bounded()) {
			if (count > 0) != (bin == k) {
				t.Errorf("%v counts in bin %d, want %d", middle, bin, k)
			}
		}
	}
	for v, want := range map[float64]int{0: 0, 5e-324: 0, 1e-200: 0, 1e200: Bins - 1, math.MaxFloat64: Bins - 1} {
		h := mech.NewHistogram(HalfOctaves, 1, 1)
		h.AddRows(mech.Rows{Intercept: true}, []float64{Position(v)})
		if counts := mechtest.Totals(t, h.Bounded()); counts[want] == 0 {
			t.Errorf("%v does not count in bin %d: %v", v, want, counts)
		}
	}
	if !math.IsNaN(Position(math.NaN())) {
		t.Error("NaN has a place")
	}
}

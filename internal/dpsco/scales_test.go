package dpsco

import (
	"math"
	"slices"
	"testing"

	"dpsidecar/internal/dpsco/loss"
	"dpsidecar/internal/mech"
)

// Scales of features that are guessed a hundred times too small, or of one feature a thousand times, cost little: the first
// pass shortens all rows to next to nothing, and says by how much. Without that the excess with all features is 1.4 % of
// least squares, 0.05 % of labels and 93 % of Huber's loss. Least squares sees scales that are 25 times too small as well. There is no interval. Seeds are fixed.
func TestScalesThatAreFarTooSmallCostLittle(t *testing.T) {
	for _, a := range []Regression{{Loss: loss.Squared{}}, {Loss: loss.Logistic{}, Labels: true}, {Loss: loss.Huber{Delta: 1}}} {
		cases := map[float64][]int{1000: {1}, 100: {0, 1, 2, 3}}
		if _, squares := a.Loss.(loss.Squared); squares {
			cases[25] = []int{0, 1, 2, 3}
		}
		for times, features := range cases {
			x := drawLaw("gauss", 30_000, 5, 1)
			if a.Labels {
				x = labelLaw("gauss", 30_000, 5, 1)
			}
			x.X = cloned(x).X
			for _, j := range features {
				for i := range x.X[j] {
					x.X[j][i] *= times
				}
			}
			least := 0.0
			if _, squares := a.Loss.(loss.Squared); squares {
				least = meanLoss(a.Loss, x, exactLeastSquares(x).w)
			} else {
				_, least = best(a.Loss, x)
			}
			e := excessLosses(t, a, x, least, 1, 9)
			t.Logf("%T, %d features, %g times: median excess %.4f%%", a.Loss, len(features), times, e[len(e)/2])
			if e[len(e)/2] > 0.015 {
				t.Errorf("expected at most 0.015%%")
			}
			if r := resultOf(t, a, x, 1, 1); r.Low != nil || r.WhyNull != farFromScales || r.NoiseCovariance != nil {
				t.Errorf("an interval, or %q", r.WhyNull)
			}
		}
	}
}

// What rows are shortened by is read where at least half of them are; long rows among short ones, and noise, are not taken
// for it. Directions that are short beside the longest are as long as their scales say.
func TestLengthsSayHowFarMostRowsAreShortened(t *testing.T) {
	const rows, bound = 1e5, 3
	noise := mech.Gaussian{NoiseMultiplier: 10}
	counts := func(shares map[float64]float64) []float64 {
		noisy := make([]float64, magnitudeBins)
		for length, share := range shares {
			k := 0
			for k < len(magnitudeEdges) && length >= magnitudeEdges[k] {
				k++
			}
			noisy[k] += share * rows
		}
		return noisy
	}
	for _, c := range []struct {
		shares         map[float64]float64
		tooLong, times float64
	}{
		{map[float64]float64{2: 1}, 10, 1}, {map[float64]float64{2: .6, 5000: .4}, 10, 1}, {map[float64]float64{2: .4, 3000: .6}, 30, 1000},
		{map[float64]float64{60: 1}, 30, 1}, {map[float64]float64{60: 1}, 10, 20}, {map[float64]float64{20: 1}, 10, 1}, {map[float64]float64{3000: .45}, 10, 1}, {nil, 10, 1},
	} {
		if _, times := readLengths(counts(c.shares), noise, 4, bound, c.tooLong, rows); times < c.times/1.3 || times > c.times*1.3 {
			t.Errorf("%v: %v times, want %v", c.shares, times, c.times)
		}
	}
	w := whitener{values: []float64{1, 1 / math.Sqrt(5), 1 / math.Sqrt(1000)}}
	var moments []float64
	for _, v := range w.atScales(10).values {
		moments = append(moments, math.Round(1000/(v*v))/1000)
	}
	if !slices.Equal(moments, []float64{1, 1, 1000}) {
		t.Errorf("second moments of 1, 5 and 1000, shortened 10 times, are taken for %v", moments)
	}
	if same := w.atScales(1).values; !slices.Equal(same, w.values) {
		t.Errorf("where nothing is shortened %v becomes %v", w.values, same)
	}
}

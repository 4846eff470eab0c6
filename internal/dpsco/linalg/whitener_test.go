package linalg

import (
	"math"
	"slices"
	"testing"
)

// Where rows were shortened, directions that are short beside the longest are as long as their scales say.
func TestShortDirectionsAreAsLongAsTheirScalesSay(t *testing.T) {
	w := Whitener{Values: []float64{1, 1 / math.Sqrt(5), 1 / math.Sqrt(1000)}}
	var moments []float64
	for _, v := range w.AtScales(10).Values {
		moments = append(moments, math.Round(1000/(v*v))/1000)
	}
	if !slices.Equal(moments, []float64{1, 1, 1000}) {
		t.Errorf("second moments of 1, 5 and 1000, shortened 10 times, are taken for %v", moments)
	}
	if same := w.AtScales(1).Values; !slices.Equal(same, w.Values) {
		t.Errorf("where nothing is shortened %v becomes %v", w.Values, same)
	}
}

package table

import (
	"math"
	"reflect"
	"slices"
	"testing"
)

// A row belongs to the group that its level says, and to no other.
func TestRowsAreSortedByGroup(t *testing.T) {
	x := Data{Shape: Shape{N: 7, D: 1, GroupCount: 3}, X: [][]float64{{0, 1, 2, 3, 4, 5, 6}}, Y: []float64{0, 10, 20, 30, 40, 50, 60}, Group: []float64{2, 0, math.NaN(), 2, 0, 3, 0.5}}
	parts := x.ByGroup()
	for g, want := range [][]float64{{1, 4, 6}, {}, {0, 3}} {
		if !slices.Equal(parts[g].X[0], want) || parts[g].N != len(want) {
			t.Errorf("group %d: %v, want %v", g, parts[g].X[0], want)
		}
		for i, v := range want {
			if parts[g].Y[i] != 10*v {
				t.Errorf("group %d: targets %v", g, parts[g].Y)
			}
		}
	}
}

// ByGroup sorts all that rows hold: what it left behind would belong to another row then, and
// one that changes its group would move many. Where records begin is told anew.
func TestByGroupKnowsAllThatRowsHold(t *testing.T) {
	for f := range reflect.TypeFor[Data]().Fields() {
		if f.Type.Kind() == reflect.Slice && !slices.Contains([]string{"X", "Y", "Offset", "Weight", "Exposure", "Group", "First"}, f.Name) {
			t.Errorf("ByGroup does not sort %s", f.Name)
		}
	}
}

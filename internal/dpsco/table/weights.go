package table

import "math"

// A weight is a function of its row (proof: ../weights.md).

// auxiliaryColumns returns the columns besides features, target and group.
func (x *Data) auxiliaryColumns() [3]*[]float64 {
	return [3]*[]float64{&x.Offset, &x.Weight, &x.Exposure}
}

// SetAuxiliary sets each column besides features, target and group that other has to of(x's column, other's column).
func (x *Data) SetAuxiliary(other Data, of func(old, column []float64) []float64) {
	from := other.auxiliaryColumns()
	for k, column := range x.auxiliaryColumns() {
		if *from[k] != nil {
			*column = of(*column, *from[k])
		}
	}
}

// WeightOf is the weight of row i.
func (x Data) WeightOf(i int) float64 {
	if x.Weight == nil {
		return 1
	}
	return x.Weight[i]
}

// ScaleWeights divides weights by a public largest one and clips the ratios at 1. A row whose weight is no finite
// number above 0 becomes unusable.
func (x Data) ScaleWeights(most float64) {
	for i, v := range x.Weight {
		if x.Weight[i] = min(v/most, 1); !(v <= math.MaxFloat64 && x.Weight[i] > 0) {
			x.Weight[i], x.Y[i] = 0, math.NaN()
		}
	}
}

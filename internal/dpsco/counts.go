package dpsco

import "math"

// Counts have a mean whose logarithm is linear. A unit of the target, or of exposures, moves
// its constant; where there is none, it becomes a part of every row's offset.

// constant is what the units of target and exposures add to the logarithm of a mean.
func (a Scaled) constant() float64 {
	if a.Exposure == 0 {
		return math.Log(a.Y)
	}
	return math.Log(a.Y / a.Exposure)
}

// offset writes offsets in scaled units, of exposures too. An exposure that is not a positive
// number is none: its row says nothing.
func (a Scaled) offset(x *Data) {
	shiftBy(x.Offset, a.CentreOffset)
	if !a.Counts {
		divide(x.Offset, a.Y)
		return
	}
	a.addExposures(x)
	constant := a.constant()
	if x.Offset == nil && !x.Intercept && constant != 0 {
		x.Offset = x.numbers(len(x.Y))
		shiftBy(x.Offset, constant)
		return
	}
	if x.Intercept {
		constant = 0
	}
	for i := range x.Offset {
		if x.Offset[i] -= constant; math.IsInf(x.Offset[i], 0) {
			x.Offset[i] = math.NaN()
		}
	}
}

// addExposures puts offsets in the place of exposures.
func (a Scaled) addExposures(x *Data) {
	if x.Exposure == nil {
		return
	}
	for i, v := range x.Exposure {
		x.Exposure[i] = math.Log(v / a.Exposure)
	}
	for i, v := range x.Offset {
		x.Exposure[i] += v
	}
	x.Offset, x.Exposure = x.Exposure, nil
}

// moveConstant brings the intercept, and the ends of its interval, into the table's units.
func (a Scaled) moveConstant(r *Result) {
	if !a.Counts {
		return
	}
	for _, w := range [][]float64{r.Coefficients, r.Low, r.High} {
		if len(w) > len(a.X) {
			w[0] += a.constant()
		}
	}
}

// countTargets leaves what is no count: a target below zero says nothing.
func countTargets(y []float64) {
	for i, v := range y {
		if !(v >= 0) {
			y[i] = math.NaN()
		}
	}
}

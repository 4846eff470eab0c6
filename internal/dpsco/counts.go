package dpsco

import (
	"math"

	"dpsidecar/internal/dpsco/release"
	"dpsidecar/internal/dpsco/table"
)

// Count models have a mean whose logarithm is linear in the features. Scaling the target or the
// exposures therefore shifts the intercept; without an intercept the shift becomes part of every
// row's offset.

// constant returns the logarithm of the target's scale over that of the exposures, the shift of the
// intercept.
func (a Scaled) constant() float64 {
	if a.Exposure == 0 {
		return math.Log(a.Y)
	}
	return math.Log(a.Y / a.Exposure)
}

// offset converts offsets and exposures into offsets in scaled units. A row whose exposure is not a
// positive finite number gets a NaN offset and is unusable.
func (a Scaled) offset(x *table.Data) {
	shiftBy(x.Offset, a.CentreOffset)
	if !a.Counts {
		divide(x.Offset, a.Y)
		return
	}
	a.addExposures(x)
	constant := a.constant()
	if x.Offset == nil && !x.Intercept && constant != 0 {
		x.Offset = x.NewColumn(len(x.Y))
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

// addExposures replaces x.Offset by the logarithm of the scaled exposures plus the offsets.
func (a Scaled) addExposures(x *table.Data) {
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

// moveConstant converts the intercept and the ends of its interval into the table's units, for count
// models.
func (a Scaled) moveConstant(r *release.Result) {
	if !a.Counts {
		return
	}
	for _, w := range [][]float64{r.Coefficients, r.Low, r.High} {
		if len(w) > len(a.X) {
			w[0] += a.constant()
		}
	}
}

// countTargets replaces targets that are negative by NaN, so that their rows are unusable.
func countTargets(y []float64) {
	for i, v := range y {
		if !(v >= 0) {
			y[i] = math.NaN()
		}
	}
}

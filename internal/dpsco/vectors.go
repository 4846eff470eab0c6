package dpsco

import "math"

// divide divides a column by its scale.
func divide(column []float64, scale float64) {
	for i := range column {
		column[i] /= scale
	}
}

// powerOfTwo returns the largest power of two that is at most v.
func powerOfTwo(v float64) float64 {
	_, exponent := math.Frexp(v)
	return math.Ldexp(1, exponent-1)
}

func square(v float64) float64 { return v * v }

// roundOff is the largest coefficient, as a fraction of the radius, that counts as the rounding error of 0.
const roundOff = 1e-13

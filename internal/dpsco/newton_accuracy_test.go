package dpsco

import (
	"math"
	"math/rand/v2"
)

// labelLaw has the features of drawLaw and labels of a logistic model. Flags raise the
// log-odds by 2; labels "rare" are few.
func labelLaw(kind string, n, d int, seed uint64) Data {
	constant, features := -1.0, kind
	if kind == "rare" {
		constant, features = -5, "gauss"
	}
	x := drawLaw(features, n, d, seed)
	r := rand.New(rand.NewPCG(seed, 98))
	for i := range x.Y {
		odds := constant
		for j, column := range x.X {
			slope := 1.5 / math.Sqrt(float64(d-1))
			if j%2 == 1 {
				slope = -slope
			}
			if kind == "flags" && j == len(x.X)-1 {
				slope = 2
			}
			odds += slope * column[i]
		}
		x.Y[i] = 0
		if r.Float64() < sigmoid(odds) {
			x.Y[i] = 1
		}
	}
	return x
}

package prox

import "math"

// L1 is Lambda |w|_1: the lasso.
//
// Source: Tibshirani 1996; the prox is soft thresholding.
type L1 struct{ Lambda float64 }

// Value returns Lambda |w|_1.
func (p L1) Value(w []float64) float64 { return p.Lambda * norm1(w) }

// Prox moves every coordinate toward 0 by t Lambda.
func (p L1) Prox(w []float64, t float64) {
	for j, v := range w {
		w[j] = softThreshold(v, t*p.Lambda)
	}
}

// L2 is Lambda |w|_2^2 / 2: ridge.
type L2 struct{ Lambda float64 }

// Value returns Lambda |w|_2^2 / 2.
func (p L2) Value(w []float64) float64 {
	length := norm2(w)
	return p.Lambda / 2 * length * length
}

// Prox divides by 1 + t Lambda.
func (p L2) Prox(w []float64, t float64) { scale(w, 1/(1+t*p.Lambda)) }

// ElasticNet is L1 |w|_1 + L2 |w|_2^2 / 2.
//
// Source: Zou & Hastie 2005, the naive form.
type ElasticNet struct{ L1, L2 float64 }

// Value returns L1 |w|_1 + L2 |w|_2^2 / 2.
func (p ElasticNet) Value(w []float64) float64 { return L1{p.L1}.Value(w) + L2{p.L2}.Value(w) }

// Prox thresholds, then shrinks.
func (p ElasticNet) Prox(w []float64, t float64) {
	L1{p.L1}.Prox(w, t)
	L2{p.L2}.Prox(w, t)
}

// GroupL1 is the group lasso: Lambda times the sum over groups g of sqrt|g| |w_g|_2.
// A group is a list of positions in w. Groups are disjoint; a coordinate in no group
// is not penalised.
//
// Source: Yuan & Lin 2006.
type GroupL1 struct {
	Lambda float64
	Groups [][]int
}

// Value returns the weighted sum of the groups' norms.
func (p GroupL1) Value(w []float64) (sum float64) {
	for _, group := range p.Groups {
		sum += math.Sqrt(float64(len(group))) * groupNorm(w, group)
	}
	return p.Lambda * sum
}

// Prox shortens every group by t Lambda sqrt|g|.
func (p GroupL1) Prox(w []float64, t float64) {
	for _, group := range p.Groups {
		length := groupNorm(w, group)
		factor := 0.0
		if shortened := softThreshold(length, t*p.Lambda*math.Sqrt(float64(len(group)))); shortened > 0 {
			factor = shortened / length
		}
		for _, j := range group {
			w[j] *= factor
		}
	}
}

func groupNorm(w []float64, group []int) (length float64) {
	for _, j := range group {
		length = math.Hypot(length, w[j])
	}
	return length
}

package dpsco

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"
)

// normalNodes are quantiles of the standard normal distribution at equally spaced probabilities.
var normalNodes = func() (nodes [64]float64) {
	for i := range nodes {
		nodes[i] = distuv.UnitNormal.Quantile((float64(i) + 0.5) / float64(len(nodes)))
	}
	return nodes
}()

// bisect returns the number between low and high at which below changes from true to false.
func bisect(low, high float64, below func(v float64) bool) float64 {
	for range 60 {
		if middle := (low + high) / 2; below(middle) {
			low = middle
		} else {
			high = middle
		}
	}
	return (low + high) / 2
}

// empiricalBayesShrinkage returns the share of signal in each v_i, of distribution N(0, values_i t^2 + variances_i), with
// the most likely t of a grid.
func empiricalBayesShrinkage(v, values, variances []float64) []float64 {
	unit := math.Inf(1)
	for i, s := range variances {
		unit = min(unit, math.Sqrt(s/values[i]))
	}
	best := likeliestSpread(v, unit, func(i int, t float64) float64 { return values[i]*t*t + variances[i] })
	keep := make([]float64, len(v))
	for i := range keep {
		signal := values[i] * best * best
		keep[i] = signal / (signal + variances[i])
	}
	return keep
}

// likeliestSpread returns the most likely t of a grid, given v_i ~ N(0, variance(i, t)): 0, or unit times a power of
// sqrt 2, from a quarter on.
func likeliestSpread(v []float64, unit float64, variance func(i int, t float64) float64) float64 {
	best, least := 0.0, math.Inf(1)
	for k := -5; k < 40; k++ {
		t, cost := 0.0, 0.0
		if k >= -4 {
			t = unit * math.Exp2(float64(k)/2)
		}
		for i, x := range v {
			total := variance(i, t)
			cost += math.Log(total) + x*x/total
		}
		if cost < least {
			best, least = t, cost
		}
	}
	return best
}

// minimiseOnGrid returns unit times 2^(k/4) for the k between from and to that has the least cost.
func minimiseOnGrid(unit float64, from, to int, cost func(v float64) float64) float64 {
	best, least := unit, math.Inf(1)
	for k := from; k <= to; k++ {
		v := unit * math.Exp2(float64(k)/4)
		if c := cost(v); c < least {
			best, least = v, c
		}
	}
	return best
}

// isFinite reports whether v is neither NaN, which stands for a missing value, nor infinite.
func isFinite(v float64) bool { return math.Abs(v) <= math.MaxFloat64 }

// allFinite reports whether all numbers are finite.
func allFinite(all []float64) bool {
	return !slices.ContainsFunc(all, func(v float64) bool { return !isFinite(v) })
}

// clampBetween moves v into [low, high].
func clampBetween(v, low, high float64) float64 { return max(low, min(v, high)) }

// clampTo moves v into [-limit, limit]; NaN remains NaN.
func clampTo(v, limit float64) float64 {
	switch {
	case v > limit:
		return limit
	case v < -limit:
		return -limit
	}
	return v
}

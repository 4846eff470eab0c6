// Package numeric has what fits compute on few numbers, which are released or public: searches on an interval or a
// grid, quantiles of the normal law for sums over it, shrinkage, and limits. No function returns an error.
package numeric

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"
)

// NormalNodes are quantiles of the standard normal distribution at equally spaced probabilities, in ascending order:
// a mean over them is one over that law.
var NormalNodes = func() (nodes [64]float64) {
	for i := range nodes {
		nodes[i] = distuv.UnitNormal.Quantile((float64(i) + 0.5) / float64(len(nodes)))
	}
	return nodes
}()

// Bisect returns the number between low and high at which below changes from true to false, to 2^-60 of their
// distance; an end where it does not change.
func Bisect(low, high float64, below func(v float64) bool) float64 {
	for range 60 {
		if middle := (low + high) / 2; below(middle) {
			low = middle
		} else {
			high = middle
		}
	}
	return (low + high) / 2
}

// SignalShares returns the share of signal, from 0 to 1, in each v_i, of distribution N(0, values_i t^2 + variances_i),
// with the most likely t of a grid: the factors of empirical Bayes shrinkage. values are positive.
func SignalShares(v, values, variances []float64) []float64 {
	unit := math.Inf(1)
	for i, s := range variances {
		unit = min(unit, math.Sqrt(s/values[i]))
	}
	best := LikeliestSpread(v, unit, func(i int, t float64) float64 { return values[i]*t*t + variances[i] })
	keep := make([]float64, len(v))
	for i := range keep {
		signal := values[i] * best * best
		keep[i] = signal / (signal + variances[i])
	}
	return keep
}

// LikeliestSpread returns the most likely t of a grid, given v_i ~ N(0, variance(i, t)): 0, or unit times a power of
// sqrt 2, from a quarter on.
func LikeliestSpread(v []float64, unit float64, variance func(i int, t float64) float64) float64 {
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

// MinimiseOnGrid returns unit times 2^(k/4) for the k between from and to that has the least cost.
func MinimiseOnGrid(unit float64, from, to int, cost func(v float64) float64) float64 {
	best, least := unit, math.Inf(1)
	for k := from; k <= to; k++ {
		v := unit * math.Exp2(float64(k)/4)
		if c := cost(v); c < least {
			best, least = v, c
		}
	}
	return best
}

// IsFinite reports whether v is neither NaN, which stands for a missing value, nor infinite.
func IsFinite(v float64) bool { return math.Abs(v) <= math.MaxFloat64 }

// AllFinite reports whether all numbers are finite.
func AllFinite(all []float64) bool {
	return !slices.ContainsFunc(all, func(v float64) bool { return !IsFinite(v) })
}

// ClampBetween moves v into [low, high]; NaN remains NaN.
func ClampBetween(v, low, high float64) float64 { return max(low, min(v, high)) }

// ClampTo moves v into [-limit, limit]; NaN remains NaN.
func ClampTo(v, limit float64) float64 {
	switch {
	case v > limit:
		return limit
	case v < -limit:
		return -limit
	}
	return v
}

package dpsco

import (
	"cmp"
	"slices"

	"dpsidecar/internal/dpsco/linalg"
	"dpsidecar/internal/dpsco/numeric"
	"dpsidecar/internal/dpsco/release"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
)

// withhold removes all errors from the result.
func withhold(r *release.Result, why string) {
	hidden := r.Hidden
	if *r = (release.Result{Coefficients: r.Coefficients, NoiseCovariance: r.NoiseCovariance, NoiseUnknown: r.NoiseUnknown, WhyNull: why, Cut: r.Cut, HuberDelta: r.HuberDelta}); why == hiddenDirection {
		r.Hidden = hidden
	}
}

// withholdUnlessFinite removes all errors if one of them is no number.
func withholdUnlessFinite(r *release.Result) {
	if !numeric.AllFinite(slices.Concat(r.StdErr, r.DF, r.Low, r.High)) {
		withhold(r, "the noise leaves no numbers")
	}
}

// hide sets Hidden to the features of the given number of directions masked by noise. It returns why no
// coefficient has a known error, if a direction is made of many features or uncertain returns a reason, and
// otherwise nothing. a is the matrix from whitened coordinates to those of the features.
func hide(r *release.Result, a *mat.Dense, intercept bool, directions int, uncertain func() string) (why string) {
	if directions == 0 {
		return uncertain()
	}
	r.Hidden, r.Intercept, r.WhyNull = hiddenFeatures(a, intercept, directions), intercept, hiddenDirection
	if r.Hidden == nil || uncertain() != "" {
		return hiddenDirection
	}
	return ""
}

// cutFraction is the fraction of a radius from which on coefficients count as cut by it: a mean of projected
// iterates lies slightly inside.
const cutFraction = 0.99

// cutByRadius is why there are no errors where the radius cuts the coefficients.
const cutByRadius = "the coefficients are as large as the radius allows; ask for a larger one, or give scales that fit"

// farFromScales is why there are no errors where half of the rows are far too long for their scales.
const farFromScales = "rows are more than a dozen times as long as the scales of the features say; give scales that fit"

// namedShare is the share of a hidden direction that its named features make up.
const namedShare = 0.9

// hiddenDirection is why there are no errors where noise masks a direction of the features.
const hiddenDirection = "noise hides some direction of the features: are some rare, nearly redundant, or far from 0 without a center, or do few rows have a value in every column? Leave such features out, give numbers centers, or ask for more eps"

// maxNamed is the largest number of features of a hidden direction for which these are named.
const maxNamed = 3

// hiddenFeatures returns the coefficients of the features that make up the given number of directions in
// which rows vary least, the largest of each direction first; nil if one of the directions is made of many
// features. a is the matrix from whitened coordinates to those of the features, so that the directions are
// the longest axes of A A'. It is post-processing of released moments.
func hiddenFeatures(a *mat.Dense, intercept bool, directions int) (hidden []int) {
	var gram mat.SymDense
	gram.SymOuterK(1, a)
	d, axes := gram.SymmetricDim(), linalg.NewWhitener(&gram, 0).Vectors
	for k := range min(directions, d) {
		features := featuresOf(mat.Col(nil, d-1-k, axes), intercept)
		if features == nil {
			return nil
		}
		for _, j := range features {
			if !slices.Contains(hidden, j) {
				hidden = append(hidden, j)
			}
		}
	}
	return hidden
}

// featuresOf returns the coefficients of the features that make up a direction; nil if they are many. The
// constant is left out: a feature that does not vary is a multiple of it.
func featuresOf(direction []float64, intercept bool) []int {
	d := len(direction)
	if intercept {
		direction[0] = 0
	}
	order := make([]int, d)
	for j, v := range direction {
		order[j], direction[j] = j, v*v
	}
	slices.SortFunc(order, func(i, j int) int { return cmp.Compare(direction[j], direction[i]) })
	all, named := floats.Sum(direction), 0.0
	for k, j := range order[:min(maxNamed, d)] {
		if named += direction[j]; named > 0 && named >= namedShare*all {
			return order[:k+1]
		}
	}
	return nil
}

// checkEdge sets Cut if the radius may have cut the coefficients, whose norm is size, and then removes
// their errors.
func checkEdge(r *release.Result, size, radius float64) {
	if size >= cutFraction*radius {
		r.Cut = true
		switch { // keep a more specific reason
		case r.WhyNull == farFromScales, r.WhyNull == lowInformation:
		case r.Hidden != nil:
			withhold(r, hiddenDirection)
		default:
			withhold(r, cutByRadius)
		}
	}
}

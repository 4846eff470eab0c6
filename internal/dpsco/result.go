package dpsco

import (
	"cmp"
	"math"
	"slices"

	"dpsidecar/internal/dpsco/linalg"
	"dpsidecar/internal/dpsco/numeric"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat/distuv"
)

// Result is the release of a fit: a coefficient for the constant, if there is one, and for each column, and
// their errors, due to sampling and noise together. Where no errors are given, WhyNull says why and the
// slices of errors are nil.
type Result struct {
	Coefficients []float64
	Metrics      []Metric         // of a Score, which releases nothing else
	Figures      []Figure         // of a Describe
	Scales       []SuggestedScale // of a SuggestScales
	Moments      *Moments         // of a SecondMoments

	StdErr, DF []float64
	// Low to High covers 95 %. It is not centred at the coefficient, which may be shrunk, and is wider than StdErr and
	// DF alone imply where there may be a bias.
	Low, High  []float64
	Covariance *mat.SymDense // of the middles of the intervals, with the squares of StdErr on its diagonal
	Bias       *mat.SymDense // the bias of a sum of middles with weights c is at most sqrt(c' Bias c); nil: none
	WhyNull    string        // where some coefficients have intervals, about those that Withholds reports

	// Hidden lists the coefficients of features that make up directions masked by noise; nil if there are none, or if
	// a direction is made of many features.
	Hidden []int
	// Unsettled lists the coefficients of labels, and then the constant, that the last step moves so far that it may leave
	// an error of any size in them; nil: none.
	Unsettled []int
	// LeftOut lists the coefficients of features that were left out because noise hides how large their values are;
	// WhyNull is about that then.
	LeftOut   []int
	Intercept bool // whether the first coefficient is the constant; set where Hidden is
	Cut       bool // a radius may have cut the coefficients

	// HuberDelta is the delta of the Huber loss that the coefficients and intervals are about, in scaled units of the
	// target: the one asked for, or a smaller one that a fit has chosen by its releases. It is 0 for other losses and
	// for descents, which have the one asked for, unless they find the target's scale.
	HuberDelta float64

	Groups          []Group       // of a fit by groups, which has no coefficients of its own
	NoiseCovariance *mat.SymDense // of the coefficients due to noise alone, by the releases; nil: it cannot be estimated

	rareTarget bool // most targets are about 0, and noise hides how large the others are

	found *Scaled // scales that a standardised fit has found, as released; nil: none
	moved *Scaled // the units, in these, of everything above; nil: those of the problem
}

// Noise is the standard deviation of each coefficient due to noise alone; nil if it cannot be estimated
// from the releases.
func (r Result) Noise() (deviations []float64) {
	if r.NoiseCovariance == nil {
		return nil
	}
	for j := range r.NoiseCovariance.SymmetricDim() {
		deviations = append(deviations, math.Sqrt(r.NoiseCovariance.At(j, j)))
	}
	return deviations
}

// Withholds reports whether the error of a coefficient is unknown: of all coefficients without intervals,
// and otherwise of those in Unsettled, of those in Hidden and of the constant, which absorbs the mean of their features.
func (r Result) Withholds(j int) bool {
	return r.Low == nil || r.hides(j) || slices.Contains(r.Unsettled, j)
}

// hides reports whether a coefficient belongs to a direction masked by noise.
func (r Result) hides(j int) bool {
	return r.Hidden != nil && (slices.Contains(r.Hidden, j) || j == 0 && r.Intercept)
}

// each calls f with the result or, of a fit by groups, with the result of each group.
func (r *Result) each(f func(*Result)) {
	if r.Groups == nil {
		f(r)
	}
	for g := range r.Groups {
		f(&r.Groups[g].Result)
	}
}

// PValues tests that coefficients are 0, each two-sided by the middle of its interval
// over its standard error, at the least favourable of the biases that the interval allows
// for: it is below .05 where the interval leaves 0 out. Nil where there are no intervals.
func (r Result) PValues() (p []float64) {
	for j, low := range r.Low {
		student := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: min(r.DF[j], maxDegrees)}
		beyond := func(t, bias float64) float64 { return student.Survival(t-bias) + student.Survival(t+bias) }
		half := (r.High[j] - low) / 2 / r.StdErr[j]
		bias := numeric.Bisect(0, half, func(bias float64) bool { return beyond(half, bias) < 0.05 })
		p = append(p, beyond(math.Abs(low+r.High[j])/2/r.StdErr[j], bias))
	}
	return p
}

// withhold removes all errors from the result.
func (r *Result) withhold(why string) {
	hidden := r.Hidden
	if *r = (Result{Coefficients: r.Coefficients, NoiseCovariance: r.NoiseCovariance, WhyNull: why, Cut: r.Cut, HuberDelta: r.HuberDelta}); why == hiddenDirection {
		r.Hidden = hidden
	}
}

// withholdUnlessFinite removes all errors if one of them is no number.
func (r *Result) withholdUnlessFinite() {
	if !numeric.AllFinite(slices.Concat(r.StdErr, r.DF, r.Low, r.High)) {
		r.withhold("the noise leaves no numbers")
	}
}

// hide sets Hidden to the features of the given number of directions masked by noise. It returns why no
// coefficient has a known error, if a direction is made of many features or uncertain returns a reason, and
// otherwise nothing. a is the matrix from whitened coordinates to those of the features.
func (r *Result) hide(a *mat.Dense, intercept bool, directions int, uncertain func() string) (why string) {
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
func (r *Result) checkEdge(size, radius float64) {
	if size >= cutFraction*radius {
		r.Cut = true
		switch { // keep a more specific reason
		case r.WhyNull == farFromScales:
		case r.Hidden != nil:
			r.withhold(hiddenDirection)
		default:
			r.withhold(cutByRadius)
		}
	}
}

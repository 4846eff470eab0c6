package dpsco

import (
	"cmp"
	"context"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat/distuv"

	"dpsidecar/internal/mech"
)

// Result is what a fit releases: a coefficient for the constant, if there is one, and
// for each column, and what is known of their errors, sampling and noise together.
// Where nothing is, WhyNull says why and the other slices are nil.
//
// Low to High covers 95 %. It is not centred at the coefficient, which may be
// shrunk, and is wider than StdErr and DF alone make it where there may be a bias.
// Covariance is that of the middles of the intervals, with the squares of StdErr on its
// diagonal. The bias of a sum of middles with weights c is at most sqrt(c' Bias c); nil
// for none. Cut says that a radius may have cut the coefficients, and Hidden which of them noise hides
// directions of; nil where it hides none, or one of many. The others may have intervals then: WhyNull is about those that
// Withholds reports. NoiseCovariance is what noise alone gives the coefficients, as far as the releases tell; nil where they do not.
type Result struct {
	Coefficients []float64
	Metrics      []Metric         // of a Score, which releases nothing else
	Figures      []Figure         // of a Describe
	Scales       []SuggestedScale // of a SuggestScales
	Moments      *Moments         // of a SecondMoments
	StdErr, DF   []float64
	Low, High    []float64
	Covariance   *mat.SymDense
	Bias         *mat.SymDense
	WhyNull      string
	Hidden       []int
	Intercept    bool // whether the first coefficient is the constant; known where Hidden is
	Cut          bool
	Groups       []Group // of a fit by groups, which has no coefficients of its own

	NoiseCovariance *mat.SymDense
}

// Noise is the standard deviation that noise alone gives each coefficient; nil where the
// releases do not tell.
func (r Result) Noise() (deviations []float64) {
	if r.NoiseCovariance == nil {
		return nil
	}
	for j := range r.NoiseCovariance.SymmetricDim() {
		deviations = append(deviations, math.Sqrt(r.NoiseCovariance.At(j, j)))
	}
	return deviations
}

// Withholds reports whether nothing is known of the error of a coefficient: of all without intervals, and
// else of those of which noise hides a direction. Then nothing is known of the constant either, which takes up what the features of
// these are in the mean.
func (r Result) Withholds(j int) bool { return r.Low == nil || r.hides(j) }

// hides reports whether noise hides a direction that a coefficient is about.
func (r Result) hides(j int) bool {
	return r.Hidden != nil && (slices.Contains(r.Hidden, j) || j == 0 && r.Intercept)
}

// each calls f with the result or, of a fit by groups, with that of each of them.
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
		student := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: min(r.DF[j], mostDegrees)}
		beyond := func(t, bias float64) float64 { return student.Survival(t-bias) + student.Survival(t+bias) }
		half := (r.High[j] - low) / 2 / r.StdErr[j]
		bias := bisect(0, half, func(bias float64) bool { return beyond(half, bias) < 0.05 })
		p = append(p, beyond(math.Abs(low+r.High[j])/2/r.StdErr[j], bias))
	}
	return p
}

// run computes and releases a fit of x.
type run = func(ctx context.Context, x Data, src *mech.Source) (Result, error)

// noErrors is why most methods release coefficients alone.
const noErrors = "this method releases no standard errors"

// estimates is a run that releases coefficients alone.
func estimates(fit func(ctx context.Context, x Data, src *mech.Source) ([]float64, error)) run {
	return func(ctx context.Context, x Data, src *mech.Source) (Result, error) {
		w, err := fit(ctx, x, src)
		return Result{Coefficients: w, WhyNull: noErrors}, err
	}
}

// withhold takes back what is known of the errors.
func (r *Result) withhold(why string) {
	hidden := r.Hidden
	if *r = (Result{Coefficients: r.Coefficients, NoiseCovariance: r.NoiseCovariance, WhyNull: why, Cut: r.Cut}); why == hiddenDirection {
		r.Hidden = hidden
	}
}

// hide says of which features noise hides so many directions, and returns why nothing is known of any error: where these are
// many features, or uncertain says why not. a takes whitened coordinates to those of the features.
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

// edge is the share of a radius from which on coefficients count as cut by it: the mean of
// iterates that were projected stays a little inside.
const edge = 0.99

// cutByRadius is why nothing is known of errors then.
const cutByRadius = "the coefficients are as large as the radius allows; ask for a larger one, or give scales that fit"

// farFromScales is why nothing is known of errors where half of the rows are far too long for their scales.
const farFromScales = "rows are more than a dozen times as long as the scales of the features say; give scales that fit"

// namedShare is the share of a hidden direction that its named features make up.
const namedShare = 0.9

// hiddenDirection is why nothing is known of errors where noise hides a direction of the
// features.
const hiddenDirection = "noise hides some direction of the features; ask for more eps, or leave out rare or nearly redundant features"

// mostNamed is how many features a hidden direction may be made of to be told by their names.
const mostNamed = 3

// hiddenFeatures returns the coefficients of the features that the directions, of a number, are made of in which rows vary
// least, most of each first; nil if those of one are many. a takes whitened coordinates to those of the
// features, so that these are the longest axes of A A'. It is post-processing of released moments.
func hiddenFeatures(a *mat.Dense, intercept bool, directions int) (hidden []int) {
	var gram mat.SymDense
	gram.SymOuterK(1, a)
	d, axes := gram.SymmetricDim(), newWhitener(&gram, 0).vectors
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

// featuresOf returns the coefficients of the features that a direction is made of; nil if they are many. The constant does not
// count: a feature that does not vary is a multiple of it.
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
	for k, j := range order[:min(mostNamed, d)] {
		if named += direction[j]; named > 0 && named >= namedShare*all {
			return order[:k+1]
		}
	}
	return nil
}

// checkEdge says so where the radius may have cut the coefficients, of which size is the
// norm, and takes back what is then not known of their errors.
func (r *Result) checkEdge(size, radius float64) {
	if size >= edge*radius {
		r.Cut = true
		switch { // why they are so large, where that is known
		case r.WhyNull == farFromScales:
		case r.Hidden != nil:
			r.withhold(hiddenDirection)
		default:
			r.withhold(cutByRadius)
		}
	}
}

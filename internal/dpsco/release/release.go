// Package release has what plans release: results of fits, by groups as well, and figures, metrics, scales and moments.
// All of it is public, and what is computed from it is post-processing.
package release

import (
	"math"
	"slices"

	"dpsidecar/internal/dpsco/numeric"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat/distuv"
)

// Result is the release of a fit: a coefficient for the constant, if there is one, and for each column, and
// their errors, due to sampling and noise together. Where no errors are given, WhyNull says why and the
// slices of errors are nil.
type Result struct {
	Coefficients []float64
	Metrics      []Metric // of a score, which releases nothing else
	Figures      []Figure // of a description
	Scales       []Scale  // of suggested scales
	Moments      *Moments // of second moments

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
	NoiseUnknown    []int         // the coefficients of which NoiseCovariance tells too little; nil: none

	RareTarget bool // most targets are about 0, and noise hides how large the others are
}

// Noise is the standard deviation of each coefficient due to noise alone, NaN for those in NoiseUnknown; nil if it
// cannot be estimated from the releases.
func (r Result) Noise() (deviations []float64) {
	if r.NoiseCovariance == nil {
		return nil
	}
	for j := range r.NoiseCovariance.SymmetricDim() {
		deviations = append(deviations, math.Sqrt(r.NoiseCovariance.At(j, j)))
	}
	for _, j := range r.NoiseUnknown {
		deviations[j] = math.NaN()
	}
	return deviations
}

// Withholds reports whether the error of a coefficient is unknown: of all coefficients without intervals,
// and otherwise of those in Unsettled, of those in Hidden and of the constant, which absorbs the mean of their features.
func (r Result) Withholds(j int) bool {
	return r.Low == nil || r.Hides(j) || slices.Contains(r.Unsettled, j)
}

// Hides reports whether a coefficient belongs to a direction masked by noise.
func (r Result) Hides(j int) bool {
	return r.Hidden != nil && (slices.Contains(r.Hidden, j) || j == 0 && r.Intercept)
}

// Each calls f with the result or, of a fit by groups, with the result of each group.
func (r *Result) Each(f func(*Result)) {
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
		student := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: min(r.DF[j], numeric.MaxDegrees)}
		beyond := func(t, bias float64) float64 { return student.Survival(t-bias) + student.Survival(t+bias) }
		half := (r.High[j] - low) / 2 / r.StdErr[j]
		bias := numeric.Bisect(0, half, func(bias float64) bool { return beyond(half, bias) < 0.05 })
		p = append(p, beyond(math.Abs(low+r.High[j])/2/r.StdErr[j], bias))
	}
	return p
}

// Figure is one statistic of a column, or of all columns if Column is empty. Low to High is a 95 %
// confidence interval that allows for sampling and noise. Unknown numbers are nil, and WhyNull gives
// the reason.
type Figure struct {
	Column    string   `json:"column,omitempty"`
	Statistic string   `json:"statistic"`
	Value     *float64 `json:"value"`
	Low       *float64 `json:"ci_low"`
	High      *float64 `json:"ci_high"`
	WhyNull   string   `json:"why_null,omitempty"`
}

// Metric is a measure of how well a model predicts, with an interval that covers 95 % of sampling and
// noise. Unknown values are nil, and WhyNull says why.
type Metric struct {
	Name    string   `json:"metric"`
	Value   *float64 `json:"value"`
	Low     *float64 `json:"ci_low"`
	High    *float64 `json:"ci_high"`
	WhyNull string   `json:"why_null,omitempty"`
}

// Scale is a scale and a centre for a column, nil where the noise hides them.
type Scale struct {
	Column string   `json:"column"`
	Scale  *float64 `json:"scale"`
	Center *float64 `json:"center"`
	Note   string   `json:"note"`
}

// Moments are released second moments, in the units of Scaled.
type Moments struct {
	Sums  []float64 // for i <= j, row by row of the upper triangle: the constant, the features, the target
	Noise float64   // standard deviation of a sum on the diagonal; off the diagonal that over sqrt(2)
	Bound float64   // length to which longer rows are shortened

	// A row that is shortened counts in Sums with a weight below 1. Lost is the sum over rows without a missing value of
	// what their weights are below 1, and LostNoise the standard deviation of its noise.
	Lost, LostNoise float64
}

// Group is the fit of one group and the group's released share of the rows, clamped to [0, 1].
type Group struct {
	Share float64
	Result
}

// Finite returns a pointer to a number, nil if it is NaN or infinite.
func Finite(v float64) *float64 {
	if !numeric.IsFinite(v) {
		return nil
	}
	return &v
}

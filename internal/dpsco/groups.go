package dpsco

import (
	"fmt"
	"math"
	"slices"

	"dpsidecar/internal/catalogue"
	"dpsidecar/internal/dpsco/internal/hook"
	"dpsidecar/internal/dpsco/linalg"
	"dpsidecar/internal/dpsco/magnitude"
	"dpsidecar/internal/dpsco/numeric"
	"dpsidecar/internal/dpsco/plan"
	"dpsidecar/internal/dpsco/prox"
	"dpsidecar/internal/dpsco/release"
	"dpsidecar/internal/dpsco/table"
	"dpsidecar/internal/mech"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
)

// Fits by groups. Every record belongs to one of Shape.GroupCount groups or to none, by a value of its
// (first) row. The first passes use all rows; after the split each group has a fit of its own. A
// pass runs over all groups together, and the sums of all groups are released together, at the cost
// of one release (mech/disjoint.md). The sizes of the groups are private: they are released once,
// with noise, and every computation that needs a size uses the released one.

// errWeightsOfGroups is the error for a fit by groups with weights.
var errWeightsOfGroups = fmt.Errorf("%w: fits by groups take no weights; leave the weight out, or fit one group at a time with where_level", plan.ErrInfeasible)

// groupShare is the share of the zCDP budget that the release of the group sizes takes.
const groupShare = 0.03

// A group's size is taken to be at least minGroupDeviations standard deviations of its noise and
// at least minShare of the mean group size: a lower size would multiply noise without bound.
const (
	minGroupDeviations = 3
	minShare           = 0.05
)

// checkGroups returns an error if groups are requested and the fit does not support them.
func (p *problem) checkGroups(f fit) error {
	if p.GroupCount == 0 {
		return nil
	}
	inner, _ := withoutStandardising(f, 0)
	switch inner.(type) {
	case JointMoments, Newton:
		return nil
	}
	return whyNoGroups(p.Shape, p.Method)
}

// whyNoGroups returns the error for a method that does not fit by groups. With method auto it means
// that there are too few rows for the methods that do.
func whyNoGroups(s table.Shape, method string) error {
	if method == catalogue.MethodAuto {
		return fmt.Errorf("%w: too few rows for this budget to fit %d groups of %d coefficients; ask for more eps, or fit one model with the groups' column among its features", plan.ErrInfeasible, s.GroupCount, s.D)
	}
	return fmt.Errorf("%w: method %q does not fit by groups; leave it out", plan.ErrParameter, method)
}

// groupBins returns one bin per group.
func groupBins(groups int) mech.Bins { return mech.Bins{Width: 1, Half: (groups + 1) / 2} }

// checkGroupSizes reports whether the group sizes can be released, if there are groups.
func checkGroupSizes(s table.Shape) error {
	if s.GroupCount == 0 {
		return nil
	}
	if err := mech.CheckHistogram(groupBins(s.GroupCount), s.N, 1); err != nil {
		return plan.Infeasible(err)
	}
	return nil
}

// groups holds the parts of the rows that are fitted: all rows or, after the split, one part per group.
type groups struct {
	parts  []table.Data // sensitive
	common *commonFit   // the fit of all rows; nil before the split
}

// commonFit is the fit of all rows from which the fits of groups start.
type commonFit struct {
	w      []float64
	p      *mat.Dense
	shares []float64
}

// groupSize holds the number of records that a group is taken to have, a lower bound on it that
// allows for the noise, and whether the size is small beside its noise.
type groupSize struct {
	rows, least float64
	small       bool
}

// passesOfSplit returns the number of passes that release group sizes: 1 with groups, else 0.
func passesOfSplit(s table.Shape) int { return min(s.GroupCount, 1) }

// split releases the group sizes, sorts the records by group and stores the common fit.
func (a *groups) split(noise mech.Gaussian, w []float64, p *mat.Dense, src *mech.Source) []groupSize {
	x := a.parts[0]
	shares, sizes := groupSizes(x, noise, src)
	a.common = &commonFit{w: slices.Clone(w), p: mat.DenseCopyOf(p), shares: shares}
	a.parts = x.ByGroup()
	return sizes
}

// groupSizes releases the group sizes and returns the shares of the rows and the sizes to be used.
func groupSizes(x table.Data, noise mech.Mechanism, src *mech.Source) (shares []float64, sizes []groupSize) {
	released, deviation := releaseGroupSizes(x, noise, src), magnitude.CountStdDev(noise, 1, magnitude.LaplaceTail)
	for g, rows := range sizesToUse(released, x.N, deviation) {
		shares = append(shares, numeric.ClampBetween(released[g]/float64(x.N), 0, 1))
		sizes = append(sizes, groupSize{rows, numeric.ClampBetween(released[g]-sizeDoubt*deviation, 0, rows), released[g] < minKnownGroup*deviation})
	}
	return shares, sizes
}

// pooled returns the results of all groups, shrunk toward their mean if asked. Coefficients that a
// penalty has set to 0 stay 0.
func (a *groups) pooled(results []release.Result, estimates []estimate, asked bool, psi prox.Operator) release.Result {
	out := make([]release.Group, len(results))
	for g, r := range results {
		out[g] = release.Group{Share: a.common.shares[g], Result: r}
	}
	if !asked {
		return release.Result{Groups: out}
	}
	_, penalised := psi.(prox.Sum)
	for g, w := range pool(estimates, a.common.p, a.common.w) {
		for j, own := range results[g].Coefficients {
			if penalised && math.Abs(own) < roundOff {
				w[j] = 0
			}
		}
		out[g].Coefficients = w
	}
	return release.Result{Groups: out}
}

// sizeDoubt is the number of standard deviations of noise by which groupSize.least is below the
// released size.
const sizeDoubt = 0.7

// minKnownGroup is the number of standard deviations of noise that a group's size must reach for
// intervals, which take the released size for the number of rows.
const minKnownGroup = 10

// smallGroup is the reason why a smaller group has no intervals.
const smallGroup = "too few rows of this group for this budget"

// releaseGroupSizes releases the number of records of each group.
func releaseGroupSizes(x table.Data, noise mech.Mechanism, src *mech.Source) (sizes []float64) {
	hook.OnPass(x.N)
	bins := groupBins(x.GroupCount)
	counts, place := mech.NewHistogram(bins, x.N, 1), make([]float64, x.N)
	for u := range place {
		first, _ := x.Span(u, u+1)
		place[u] = x.Group[first] + 0.5 - float64(bins.Half)
	}
	counts.AddRows(mech.Rows{Intercept: true}, place)
	noisy := make([]float64, 2*bins.Half)
	noise.Release(noisy, counts.Bounded(), src)
	return noisy[:x.GroupCount]
}

// sizesToUse raises released sizes to a public minimum and cuts them at rows; deviation is that of
// their noise.
func sizesToUse(released []float64, rows int, deviation float64) []float64 {
	least := max(minGroupDeviations*deviation, minShare*float64(rows)/float64(len(released)), 1)
	sizes := make([]float64, len(released))
	for g, v := range released {
		sizes[g] = numeric.ClampBetween(v, min(least, float64(rows)), float64(rows))
	}
	return sizes
}

// estimate is the estimate from one group's rows: coefficients and their covariance. The covariance
// is nil if it is unknown, which counts as infinite.
type estimate struct {
	w          []float64
	covariance *mat.SymDense
}

// pool shrinks the estimates of groups toward their weighted mean (empirical Bayes), each coordinate
// separately, in the coordinates u = P^-1 w in which features are uncorrelated. An estimate with
// unknown covariance is replaced by the mean, or by common if all are unknown.
//
// Source: the moment estimator of the variance between groups is that of Paule & Mandel 1982.
func pool(estimates []estimate, p *mat.Dense, common []float64) [][]float64 {
	d := len(common)
	pooled := make([][]float64, len(estimates))
	values, variances := make([][]float64, d), make([][]float64, d)
	for _, e := range estimates {
		u := linalg.SolveTriangular(p, common)
		var own *mat.SymDense
		if e.covariance != nil {
			u, own = linalg.SolveTriangular(p, e.w), inCoordinates(p, e.covariance)
		}
		for j := range d {
			variance := math.Inf(1)
			if own != nil && own.At(j, j) > 0 {
				variance = own.At(j, j)
			}
			values[j], variances[j] = append(values[j], u[j]), append(variances[j], variance)
		}
	}
	start := linalg.SolveTriangular(p, common)
	for j := range d {
		towardTheMean(values[j], variances[j], start[j])
	}
	for g := range pooled {
		u := make([]float64, d)
		for j := range u {
			u[j] = values[j][g]
		}
		pooled[g] = linalg.Times(p, u)
	}
	return pooled
}

// inCoordinates returns the covariance of P^-1 w.
func inCoordinates(p *mat.Dense, covariance *mat.SymDense) *mat.SymDense {
	d := covariance.SymmetricDim()
	inverse := mat.NewDense(d, d, nil)
	for j := range d {
		unit := make([]float64, d)
		unit[j] = 1
		inverse.SetCol(j, linalg.SolveTriangular(p, unit))
	}
	return linalg.Sandwich(inverse, covariance)
}

// towardTheMean shrinks values whose errors have the given variances toward their weighted mean; if
// no variance is finite all become common.
func towardTheMean(values, variances []float64, common float64) {
	between, known := varianceBetween(values, variances), false
	mean := weightedMean(values, variances, between)
	for _, v := range variances {
		known = known || !math.IsInf(v, 1)
	}
	if !known {
		mean = common
	}
	for g, v := range variances {
		keep := 0.0
		if !math.IsInf(v, 1) {
			keep = between / (between + v)
		}
		values[g] = mean + keep*(values[g]-mean)
	}
}

// varianceBetween estimates the variance of the true values behind the estimates: at the returned
// value the sum of squared distances from the weighted mean, each over its total variance, equals
// its expectation.
func varianceBetween(values, variances []float64) float64 {
	finite, largest := -1.0, 0.0
	for g, v := range variances {
		if !math.IsInf(v, 1) {
			finite++
			largest = max(largest, v, square(values[g]))
		}
	}
	if finite < 1 {
		return 0
	}
	return numeric.Bisect(0, 4*largest*float64(len(values)), func(between float64) bool {
		mean, sum := weightedMean(values, variances, between), 0.0
		for g, v := range variances {
			if !math.IsInf(v, 1) {
				sum += square(values[g]-mean) / (v + between)
			}
		}
		return sum > finite
	})
}

// weightedMean returns the mean of values weighted by 1/(variance + between).
func weightedMean(values, variances []float64, between float64) float64 {
	weights := make([]float64, len(values))
	for g, v := range variances {
		if !math.IsInf(v, 1) {
			weights[g] = 1 / (v + between + math.SmallestNonzeroFloat64)
		}
	}
	total := floats.Sum(weights)
	if total == 0 || math.IsInf(total, 1) {
		return floats.Sum(values) / float64(len(values))
	}
	return floats.Dot(weights, values) / total
}

// shrinkToward shrinks the matrix h, whose noise has the given standard deviation on the diagonal,
// toward other (James-Stein). It returns the standard deviation of the noise that is left in h, and
// that of h as an estimate of the true matrix.
func shrinkToward(h, other *mat.SymDense, deviation float64) (noise, errors float64) {
	d := h.SymmetricDim()
	pairs := float64(d*(d+1)) / 2
	distance := 0.0
	for i := range d {
		for j := range d {
			distance += square(h.At(i, j) - other.At(i, j))
		}
	}
	keep := 0.0
	if expected := square(deviation) * pairs; distance > expected {
		keep = 1 - expected/distance
	}
	for i := range d {
		for j := i; j < d; j++ {
			h.SetSym(i, j, other.At(i, j)+keep*(h.At(i, j)-other.At(i, j)))
		}
	}
	return keep * deviation, deviation * math.Sqrt(max(keep, min(1, math.Sqrt2/math.Sqrt(pairs))))
}

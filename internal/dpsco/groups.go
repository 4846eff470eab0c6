package dpsco

import (
	"fmt"
	"math"
	"slices"

	"dpsidecar/internal/catalogue"
	"dpsidecar/internal/dpsco/prox"
	"dpsidecar/internal/mech"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
)

// Fits by groups: every record belongs to one of Shape.Levels groups, by a value of its own,
// or to none; of several rows by that of its first. The first passes see all rows; then each group has a fit of its own. Passes
// over groups are made together, and what they release is released together, at the cost of
// one release (mech/disjoint.md). How many rows a group has is not public: it is released
// with noise, once, and everything that wants that number takes the released one.

// Group is a fit of one group, and the share of rows that it was taken to have.
type Group struct {
	Share float64
	Result
}

// errWeightsOfGroups is why a plan is none.
var errWeightsOfGroups = fmt.Errorf("%w: fits by groups take no weights; leave the weight out, or fit one group at a time with where_level", ErrInfeasible)

// groupShare is the part of the budget, of zCDP, that the sizes of groups take.
const groupShare = 0.03

// Groups are taken to have so many deviations of the noise on their size at least, and
// less than leastShare of the rows divided by the number of groups is taken for that.
const (
	leastGroupDeviations = 3
	leastShare           = 0.05
)

// checkGroups reports whether a fit can be made by groups, if that is asked for.
func (p *problem) checkGroups(f fit) error {
	if p.Levels == 0 {
		return nil
	}
	switch f.(type) {
	case JointMoments, Newton:
		return nil
	}
	return whyNoGroups(p.Shape, p.Method)
}

// whyNoGroups is why a method makes no fit by groups: auto, because it would take another one than
// those that do.
func whyNoGroups(s Shape, method string) error {
	if method == catalogue.MethodAuto {
		return fmt.Errorf("%w: too few rows for this budget to fit %d groups of %d coefficients; ask for more eps, or fit one model with the groups' column among its features", ErrInfeasible, s.Levels, s.D)
	}
	return fmt.Errorf("%w: method %q does not fit by groups; leave it out", ErrParameter, method)
}

// groupBins has a bin for each group.
func groupBins(groups int) mech.Bins { return mech.Bins{Width: 1, Half: (groups + 1) / 2} }

// checkGroupSizes reports whether the sizes of groups, if there are any, can be released.
func checkGroupSizes(s Shape) error {
	if s.Levels == 0 {
		return nil
	}
	if err := mech.CheckHistogram(groupBins(s.Levels), s.N, 1); err != nil {
		return infeasible(err)
	}
	return nil
}

// groups are the parts of the rows that fits under way are of: all rows or, once they are
// split, those of each group.
type groups struct {
	parts  []Data     // sensitive
	common *commonFit // of all rows, once they are split
}

// commonFit is that of all rows, from which those of groups start.
type commonFit struct {
	w      []float64
	p      *mat.Dense
	shares []float64
}

// groupSize is how many records a group is taken to have, how many it has at least, to a few
// deviations of the noise, and whether that nearly hides them.
type groupSize struct {
	rows, least float64
	small       bool
}

// passesOfSplit is how many releases about groups are made of passes of their own.
func passesOfSplit(s Shape) int { return min(s.Levels, 1) }

// split releases the sizes of groups, sorts the records by group and notes the fit of all.
func (a *groups) split(noise mech.Gaussian, w []float64, p *mat.Dense, src *mech.Source) []groupSize {
	x := a.parts[0]
	shares, sizes := x.groupSizes(noise, src)
	a.common = &commonFit{w: slices.Clone(w), p: mat.DenseCopyOf(p), shares: shares}
	a.parts = x.byGroup()
	return sizes
}

// groupSizes releases the sizes of groups, and says what they are taken for.
func (x Data) groupSizes(noise release, src *mech.Source) (shares []float64, sizes []groupSize) {
	released, deviation := releaseGroupSizes(x, noise, src), countDeviation(noise)
	for g, rows := range sizesToUse(released, x.N, deviation) {
		shares = append(shares, clampBetween(released[g]/float64(x.N), 0, 1))
		sizes = append(sizes, groupSize{rows, clampBetween(released[g]-sizeDoubt*deviation, 0, rows), released[g] < leastKnownGroup*deviation})
	}
	return shares, sizes
}

// pooled are the results of groups, moved toward their mean if that was asked for. What a penalty has made 0
// stays 0.
func (a *groups) pooled(results []Result, estimates []estimate, asked bool, psi prox.Operator) Result {
	out := make([]Group, len(results))
	for g, r := range results {
		out[g] = Group{a.common.shares[g], r}
	}
	if !asked {
		return Result{Groups: out}
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
	return Result{Groups: out}
}

// sizeDoubt is how many deviations of the noise a group may have fewer records than released.
const sizeDoubt = 0.7

// leastKnownGroup is how many deviations of the noise on its size a group must have for
// intervals: they take the size for the number of its rows.
const leastKnownGroup = 10

// smallGroup is why there are none then.
const smallGroup = "too few rows of this group for this budget"

// releaseGroupSizes releases how many records each group has.
func releaseGroupSizes(x Data, noise release, src *mech.Source) (sizes []float64) {
	onPass(x.N)
	bins := groupBins(x.Levels)
	counts, place := mech.NewHistogram(bins, x.N, 1), make([]float64, x.N)
	for u := range place {
		first, _ := x.span(u, u+1)
		place[u] = x.Level[first] + 0.5 - float64(bins.Half)
	}
	counts.AddRows(mech.Rows{Intercept: true}, place)
	noisy := make([]float64, 2*bins.Half)
	noise.Release(noisy, counts.Bounded(), src)
	return noisy[:x.Levels]
}

// sizesToUse are what released sizes, with noise of a deviation, are taken for.
func sizesToUse(released []float64, rows int, deviation float64) []float64 {
	least := max(leastGroupDeviations*deviation, leastShare*float64(rows)/float64(len(released)), 1)
	sizes := make([]float64, len(released))
	for g, v := range released {
		sizes[g] = clampBetween(v, min(least, float64(rows)), float64(rows))
	}
	return sizes
}

// byGroup sorts records by group, in place, and returns those of each group. A record of no
// group is in none of them. All rows of a record are of one group: see inGroups.
func (x Data) byGroup() []Data {
	starts := make([]int, x.Levels+2) // the last is for rows of no group
	for i := range x.Level {
		starts[x.groupOf(i)+1]++
	}
	for g := range x.Levels + 1 {
		starts[g+1] += starts[g]
	}
	at, next := make([]int32, len(x.Y)), slices.Clone(starts)
	for i := range x.Level {
		g := x.groupOf(i)
		at[i] = int32(next[g])
		next[g]++
	}
	scratch := make([]float64, len(x.Y))
	for _, column := range x.rowColumns() {
		for i, v := range column {
			scratch[at[i]] = v
		}
		copy(column, scratch)
	}
	parts := make([]Data, x.Levels)
	for g := range parts {
		parts[g] = x.rows(starts[g], starts[g+1])
	}
	x.markRecords(parts)
	return parts
}

// rowColumns are all columns but Level.
func (x Data) rowColumns() [][]float64 {
	columns := append(slices.Clone(x.X), x.Y)
	for _, column := range x.beside() {
		if *column != nil {
			columns = append(columns, *column)
		}
	}
	return columns
}

// markRecords says where in the parts of x records of several rows begin.
func (x Data) markRecords(parts []Data) {
	if x.First == nil {
		return
	}
	for g := range parts {
		parts[g].N, parts[g].MaxRows, parts[g].First = 0, x.MaxRows, []int{0}
	}
	for u := range x.N {
		if g := x.groupOf(x.First[u]); g < x.Levels {
			part := &parts[g]
			part.First = append(part.First, part.First[part.N]+x.First[u+1]-x.First[u])
			part.N++
		}
	}
}

// groupOf is the group of row i, or Groups for none.
func (x Data) groupOf(i int) int {
	if g := x.Level[i]; g >= 0 && g < float64(x.Levels) {
		return int(g)
	}
	return x.Levels
}

// rows returns rows from one to before another, of no groups.
func (x Data) rows(from, to int) Data {
	part := Data{Shape: Shape{N: to - from, D: x.D, Intercept: x.Intercept}, Y: x.Y[from:to]}
	for _, column := range x.X {
		part.X = append(part.X, column[from:to])
	}
	part.besides(x, func(_, column []float64) []float64 { return column[from:to] })
	return part
}

// inGroups is x, in place, with each record in one group at most: that of its first row. Its rows
// of other levels are left out. A record of no group says nothing.
func (x Data) inGroups() Data {
	if x.Levels == 0 {
		return x
	}
	if x.First != nil {
		x = x.likeFirstRows()
	}
	for i := range x.Level {
		if x.groupOf(i) == x.Levels {
			x.Y[i] = math.NaN()
		}
	}
	return x
}

// likeFirstRows keeps, in place, the rows of each record that are of the group of its first row.
func (x Data) likeFirstRows() Data {
	kept, first := make([]int, 0, len(x.Y)), make([]int, 1, len(x.First))
	for u := range x.N {
		group := x.groupOf(x.First[u])
		for i := x.First[u]; i < x.First[u+1]; i++ {
			if x.groupOf(i) == group {
				kept = append(kept, i)
			}
		}
		first = append(first, len(kept))
	}
	for _, column := range append(x.rowColumns(), x.Level) {
		gather(column, column, kept) // kept[i] >= i: what is read was not overwritten
	}
	all := x.rows(0, len(kept))
	all.Shape, all.Level, all.First, all.MaxRows = x.Shape, x.Level[:len(kept)], first, x.MaxRows
	return all
}

// estimate is what one group's rows say: coefficients and their covariance, nil where
// they are not known, which counts for nothing.
type estimate struct {
	w          []float64
	covariance *mat.SymDense
}

// pool moves estimates toward their mean as far as their errors explain that they differ
// (empirical Bayes), in the coordinates u = P^-1 w in which rows are uncorrelated. One that
// is not known becomes the mean, or common where none is known.
//
// Source: the moment estimate of the variance between groups is Paule & Mandel 1982.
func pool(estimates []estimate, p *mat.Dense, common []float64) [][]float64 {
	d := len(common)
	pooled := make([][]float64, len(estimates))
	values, variances := make([][]float64, d), make([][]float64, d)
	for _, e := range estimates {
		u := solveTriangular(p, common)
		var own *mat.SymDense
		if e.covariance != nil {
			u, own = solveTriangular(p, e.w), inCoordinates(p, e.covariance)
		}
		for j := range d {
			variance := math.Inf(1)
			if own != nil && own.At(j, j) > 0 {
				variance = own.At(j, j)
			}
			values[j], variances[j] = append(values[j], u[j]), append(variances[j], variance)
		}
	}
	start := solveTriangular(p, common)
	for j := range d {
		towardTheMean(values[j], variances[j], start[j])
	}
	for g := range pooled {
		u := make([]float64, d)
		for j := range u {
			u[j] = values[j][g]
		}
		pooled[g] = times(p, u)
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
		inverse.SetCol(j, solveTriangular(p, unit))
	}
	return sandwich(inverse, covariance)
}

// towardTheMean shrinks values with errors of the given variances toward their mean; where
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

// varianceBetween is that of what the values are estimates of: with it the squared distances
// from the weighted mean are as large as they are expected to be.
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
	return bisect(0, 4*largest*float64(len(values)), func(between float64) bool {
		mean, sum := weightedMean(values, variances, between), 0.0
		for g, v := range variances {
			if !math.IsInf(v, 1) {
				sum += square(values[g]-mean) / (v + between)
			}
		}
		return sum > finite
	})
}

// weightedMean is the mean of values weighted by precision.
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

// shrinkToward moves a matrix with noise of a deviation on its diagonal toward another as far
// as noise explains that they differ. It returns the deviation of the noise that is left, and
// that of what the matrix is an estimate of.
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

package dpsco

import (
	"context"
	"math"
	"slices"

	"dpsidecar/internal/dpsco/linalg"
	"dpsidecar/internal/dpsco/numeric"
	"dpsidecar/internal/dpsco/plan"
	"dpsidecar/internal/dpsco/release"
	"dpsidecar/internal/dpsco/table"
	"dpsidecar/internal/mech"
	"dpsidecar/internal/mech/objpert"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
)

// findScales divides columns without a scale by the scales that it finds, and returns these, nil if it does not look,
// and the features that noise hides.
func (f staged) findScales(x table.Data, src *mech.Source) (found *Scaled, hidden []int) {
	if f.shares.scales == 0 {
		return nil, nil
	}
	return f.scales.find(x, mech.Laplace{Epsilon: plan.JustBelow(f.shares.scales)}, src)
}

// place shifts and scales columns that lie together far from zero, and returns how; nil if there are none.
func (f staged) place(x table.Data, src *mech.Source) *Scaled {
	if f.shares.position == 0 {
		return nil
	}
	moved := placement(x, f.columns, mech.Laplace{Epsilon: plan.JustBelow(f.shares.position)}, mech.Laplace{Epsilon: plan.JustBelow(f.shares.detail)}, src)
	if moved != nil {
		moved.scale(x)
	}
	return moved
}

// fit runs the stages on x, which it overwrites.
func (f staged) fit(ctx context.Context, x table.Data, src *mech.Source) (release.Result, error) {
	x = x.FirstRows()
	columns := x.FeatureColumns() // without the constant, which start adds
	found, hidden := f.findScales(x, src)
	moved := f.place(x, src)
	weights := slices.Clone(x.Weight)
	u, x, t, usable, err := f.start(ctx, unweighted(x), weights, src)
	if err != nil {
		return release.Result{}, err
	}
	f = f.among(usable.known)
	unit := f.typicalResidual(x.Y, src)
	quantileShift := f.shiftToQuantile(x.Y, weights, t, unit, f.shiftLevel(), f.shares.quantileShift, src)
	if f.shares.refinement.fit > 0 {
		smoothing, further, err := f.refine(ctx, u, x, weights, t, unit, src)
		if err != nil {
			return release.Result{}, err
		}
		quantileShift += further
		unit = smoothing
	}
	f = f.measured(x, src)
	last := f.perturbation(f.shares.last, f.width(x.Y, unit, src), f.short, f.clip, f.tilt())
	if err := f.step(ctx, u, x, last, f.level, src); err != nil {
		return release.Result{}, err
	}
	w := f.toTableUnits(t, quantileShift, u)
	moved.restore(w)
	found.restore(w)
	return f.resultOf(w, usable, hidden, columns), nil
}

// resultOf is the release with the given coefficients, of about the given share of usable rows, without features, of the
// given number of columns, that noise hides.
func (f staged) resultOf(w []float64, usable usableShares, hidden []int, columns int) release.Result {
	r := f.result(w)
	if moments := f.shares.moments; usable.seen <= minUsable && eigenvalueFloor(f.shape, moments[len(moments)-1]) < minUsable {
		r.WhyNull = fewUsableRows
	}
	leaveOut(&r, hidden, columns)
	return r
}

// fewUsableRows is what is said of a fit of hardly any rows.
const fewUsableRows = "noise hides how large the share of rows is that have a value in every column, at most one in a hundred: coefficients may be of any size; leave out columns that are mostly NULL, as dp_describe tells"

// rowCoordinates is the matrix from coefficients of transformed rows to coefficients of the rows of the
// table, and its inverse.
type rowCoordinates struct{ matrix, inverse *mat.Dense }

// start runs the stages up to the rough fit. It returns that fit, the rows with residuals in place of
// targets, the coordinates of these rows, and the approximate share of them that is usable. x has been multiplied
// by its weights, if there are any.
func (f staged) start(ctx context.Context, x table.Data, weights []float64, src *mech.Source) (u []float64, rows table.Data, t rowCoordinates, usable usableShares, err error) {
	t = f.bringBack(x, src)
	if len(f.Levels) > 0 { // a public map of each row
		p := levelCoordinates(table.Shape{D: f.shape.D, Intercept: f.constant}, f.Levels)
		var inverse mat.Dense
		_ = inverse.Inverse(p) // far from singular
		x = times(x, p.T())
		t.matrix.Mul(t.matrix, p)
		t.inverse.Mul(&inverse, t.inverse)
	}
	constant := 0.
	for i, epsilon := range f.shares.moments {
		bound := f.bounds()[i]
		h := secondMoments(x, f.contract(bound), mech.MatrixLaplace{Epsilon: plan.JustBelow(epsilon)}, src)
		floor := square(bound) * eigenvalueFloor(x.Shape, epsilon)
		if i == 0 {
			constant = h.At(0, 0)
		} else { // either whitening makes usable rows longer by the root of 1 over their share
			usable = f.usableShares(constant, mat.Trace(h)/square(bound))
			h.ScaleSym(1/square(usable.known), h)
			floor /= square(usable.known)
		}
		p := linalg.NewWhitener(h, floor)
		x = times(x, p.Matrix)
		t.matrix.Mul(t.matrix, p.Matrix)
		t.inverse.Mul(p.Inverse().Matrix, t.inverse)
	}
	divide(x.Y, f.ResidualScale)
	u = make([]float64, f.shape.D)
	weight := f.typicalWeight(t)
	rough := f.perturbation(f.shares.rough, roughSmoothing*weight, f.firstClip(), f.firstClip(), f.roughTilt())
	lower := f.lower()
	shift(x.Y, -lower, weights)
	if x, err = f.stepWhereRare(ctx, u, x, t, usable.seen/usable.known, rough, roughQuantile*usable.seen, src); err != nil {
		return nil, x, t, usable, err
	}
	shift(x.Y, lower, weights)
	return u, x, t, usable, nil
}

// shift adds a constant to targets or residuals, multiplied by their weights where the rows have been.
func shift(y []float64, constant float64, weights []float64) {
	if weights == nil {
		floats.AddConst(constant, y)
		return
	}
	floats.AddScaled(y, constant, weights)
}

// typicalWeight estimates the root mean square of the weights that rows have been multiplied by: the rows
// are whitened by t, from which the second moment of the constant follows.
func (f staged) typicalWeight(t rowCoordinates) float64 {
	if f.MaxWeight == 0 || !f.constant {
		return 1
	}
	return numeric.ClampBetween(mat.Norm(t.inverse.ColView(0), 2), minTypicalWeight, 1)
}

// minTypicalWeight keeps the smoothing of the rough fit within the range that check has covered.
const minTypicalWeight = 0x1p-10

// toTableUnits converts a fit of the rows that start returned, and the shift of the residuals to the quantile, to
// coefficients of the table.
func (f staged) toTableUnits(t rowCoordinates, quantileShift float64, u []float64) []float64 {
	w := mat.NewVecDense(f.shape.D, nil)
	w.MulVec(t.matrix, mat.NewVecDense(f.shape.D, u))
	if quantileShift != 0 {
		w.SetVec(0, w.AtVec(0)+quantileShift)
	}
	w.ScaleVec(f.ResidualScale, w)
	f.project(w.RawVector().Data)
	return w.RawVector().Data
}

// bringBack divides each feature by its reach.
func (f staged) bringBack(x table.Data, src *mech.Source) rowCoordinates {
	t := rowCoordinates{linalg.Identity(x.D), linalg.Identity(x.D)}
	if f.shares.reach == 0 {
		return t
	}
	q := mech.Quantile{Epsilon: plan.JustBelow(f.shares.reach), Level: .75, Most: .75, Prior: 2, Upward: true}
	for j, column := range x.X {
		counts := mech.NewMagnitudes(mech.MagnitudeContract{Highest: maxMagnitude, N: x.N})
		counts.Add(column)
		reach := q.Release(counts, src)
		divide(column, reach)
		k := x.D - len(x.X) + j
		t.matrix.Set(k, k, 1/reach)
		t.inverse.Set(k, k, reach)
	}
	return t
}

// usableShares are approximate shares of usable rows, or 1 if these are many. What moments say is at most the share, but
// for noise.
type usableShares struct {
	seen  float64 // by the mean square of rows that are whitened and shortened: less than the share where a few rows are much longer than the others
	known float64 // the larger one of seen and the second moment of the constant; 1 with weights or without an intercept, where nothing tells unusable rows from short ones
}

// usableShares follow from the second moment of the constant and the mean square of whitened rows as a share of the squared
// bound to which they are shortened. Where few rows are usable, whitening makes all of them longer than that bound, and
// their mean square over all rows gives the share.
func (f staged) usableShares(constant, length float64) usableShares {
	s := usableShares{allIfMany(max(length, minUsable)), 1}
	if f.constant && f.MaxWeight == 0 {
		s.known = allIfMany(max(constant, s.seen))
	}
	return s
}

// allIfMany is that share of usable rows, or 1 if it is large.
func allIfMany(share float64) float64 {
	if share > manyUsable {
		return 1
	}
	return share
}

// eigenvalueFloor is the value to which eigenvalues of second moments are raised, as a share of the squared bound of rows: about
// the deviation of their noise.
func eigenvalueFloor(s table.Shape, epsilon float64) float64 {
	d := float64(s.D)
	return .6 / (epsilon * float64(s.N)) * math.Sqrt(2*d*(d+1))
}

// A share of usable rows above manyUsable counts as 1, since the mean square of rows that are whitened and
// shortened is about .8 bound^2 if all are usable; a share below minUsable counts as minUsable.
const (
	manyUsable = .6
	minUsable  = .01
)

// minMoment is the value to which the second moment of a feature, in units of its scale, is raised for
// the rough fit and the refinement.
const minMoment = .03

// rare returns the matrix that whitened rows are multiplied by for these fits, and whether it is needed.
// A feature that is 0 in most rows, such as a rare flag, is whitened as if its second moment were
// minMoment, for rows with the typical weight. Its few rows are shortened to the clip in any case: the
// longer they were, the more the noise of its coefficient is magnified, and where the coefficient is far
// off, the ridge of the last fit keeps it there. The rows are whitened by t.
func (f staged) rare(t rowCoordinates, usable, weight float64) (w linalg.Whitener, found bool) {
	raised := mat.NewSymDense(f.shape.D, nil)
	for j := range f.shape.D {
		raised.SetSym(j, j, 1/usable)
	}
	for j := range f.shape.D {
		if f.constant && j == 0 {
			continue
		}
		column := t.inverse.ColView(j)
		if missing := minMoment*square(weight) - mat.Dot(column, column); missing > 0 {
			raised.SymRankOne(raised, missing, t.matrix.RowView(j))
			found = true
		}
	}
	return linalg.NewWhitener(raised, 1), found || usable < 1 // no eigenvalue is below 1
}

// roughTilt is the tilt of the rough fit. Where the stage quantileShift follows, the rough fit goes only a part of the
// way to another quantile than the median: the farther beyond most rows it aims, the fewer of them determine it.
func (f staged) roughTilt() float64 {
	if f.shares.quantileShift == 0 || f.shape.GroupCount > 0 {
		return f.tilt()
	}
	return .6 * f.tilt()
}

// lower is the distance by which the rough fit of another quantile than the median aims below it: the
// minimum of the smoothed loss lies that far beyond residuals that are all equal. The stage quantileShift estimates
// the way back.
func (f staged) lower() float64 {
	if f.shares.quantileShift == 0 {
		return 0
	}
	return roughSmoothing * beyondEqual(f.roughTilt())
}

// beyondEqual is how far beyond residuals that are all equal the minimum of a smoothed loss lies, in units of the
// smoothing.
func beyondEqual(tilt float64) float64 { return tilt / math.Sqrt(1-tilt*tilt) }

// typicalResidual is the median absolute residual of the rough fit.
func (f staged) typicalResidual(residuals []float64, src *mech.Source) float64 {
	if f.shares.typicalResidual == 0 {
		return 1
	}
	return f.sizeOf(residuals, 1, mech.Quantile{Epsilon: plan.JustBelow(f.shares.typicalResidual), Level: .5, Most: .5, Prior: 1}, src)
}

// shiftLevel is the level that the stage quantileShift looks for, 0 without that stage.
func (f staged) shiftLevel() float64 {
	return attainableLevel(f.Tau, f.shares.quantileShift, f.shape.N, f.MaxWeight > 0)
}

// shiftToQuantile subtracts from residuals the distance of their quantile of that level from zero, on either side, and
// returns it. It is looked for near unit: where many targets equal their largest or smallest one, all numbers beyond
// are quantiles. Weights count as ratios to twice the typical weight, so that the noise is a number of rows of
// typical weight, whatever MaxWeight is.
func (f staged) shiftToQuantile(residuals, weights []float64, t rowCoordinates, unit, level, epsilon float64, src *mech.Source) float64 {
	if epsilon == 0 {
		return 0
	}
	typical := f.typicalWeight(t)
	away, full := slices.Clone(residuals), min(1, 2*typical)
	unit /= typical
	for i, weight := range weights {
		away[i] /= weight
	}
	divide(away, unit)
	counts := mech.NewSignedMagnitudes(mech.MagnitudeContract{Lowest: -maxMagnitude, Highest: maxMagnitude, N: len(residuals)})
	counts.Add(away, mapSlice(weights, func(weight float64) float64 { return weight / full }))
	quantileShift := unit * mech.SignedQuantile{Epsilon: plan.JustBelow(epsilon), Level: level, Prior: 1}.Release(counts, src)
	shift(residuals, -quantileShift, weights)
	return quantileShift
}

// refine adds to u a fit of the residuals in x to the quantile, with a smoothing that spans half of those that the
// last one may span, and returns the distance of the quantile from there, which it subtracts from the residuals. From
// the rough fit coefficients may be farther from those of the quantile than the last fit, with its small smoothing,
// can go.
func (f staged) refine(ctx context.Context, u []float64, x table.Data, weights []float64, t rowCoordinates, unit float64, src *mech.Source) (smoothing, quantileShift float64, err error) {
	level := f.maxLevel() / 2
	smoothing = f.sizeOf(x.Y, unit, mech.Quantile{Epsilon: plan.JustBelow(f.shares.refinement.width), Level: level * f.usable, Most: f.maxLevel(), Prior: 1}, src)
	lower := smoothing / f.typicalWeight(t) * beyondEqual(f.tilt())
	shift(x.Y, -lower, weights)
	if x, err = f.stepWhereRare(ctx, u, x, t, 1, f.perturbation(f.shares.refinement.fit, smoothing, f.firstClip(), f.firstClip(), f.tilt()), level, src); err != nil {
		return 0, 0, err
	}
	shift(x.Y, lower, weights)
	return smoothing, f.shiftToQuantile(x.Y, weights, t, smoothing, f.Tau, f.shares.refinement.shift, src), nil
}

// width is the smoothing of the last fit. It is looked for near unit.
func (f staged) width(residuals []float64, unit float64, src *mech.Source) float64 {
	return f.sizeOf(residuals, unit, mech.Quantile{Epsilon: plan.JustBelow(f.shares.width), Level: f.level * f.usable, Most: f.maxLevel(), Prior: 1}, src)
}

// sizeOf is a quantile of the absolute residuals, within the magnitudes that check covers. It is looked for near unit.
func (staged) sizeOf(residuals []float64, unit float64, q mech.Quantile, src *mech.Source) float64 {
	scaled := slices.Clone(residuals)
	divide(scaled, unit)
	counts := mech.NewMagnitudes(mech.MagnitudeContract{Lowest: -maxMagnitude, Highest: maxMagnitude, N: len(residuals)})
	counts.Add(scaled)
	return numeric.ClampBetween(unit*q.Release(counts, src), math.Exp2(-maxMagnitude/2), math.Exp2(maxMagnitude/2))
}

// stepWhereRare makes a step on rows in which rare features are kept small, and returns them as they were.
func (f staged) stepWhereRare(ctx context.Context, u []float64, x table.Data, t rowCoordinates, usable float64, p objpert.Params, quantile float64, src *mech.Source) (table.Data, error) {
	rare, found := f.rare(t, usable, f.typicalWeight(t))
	if !found {
		return x, f.step(ctx, u, x, p, quantile, src)
	}
	x = times(x, rare.Matrix)
	v := make([]float64, len(u))
	if err := f.step(ctx, v, x, p, quantile, src); err != nil {
		return x, err
	}
	floats.Add(u, rare.Apply(v))
	return times(x, rare.Inverse().Matrix), nil
}

// step adds to u a fit of the targets in x and replaces these by its residuals. The fit is lengthened to
// make up for the ridge, assuming that the share quantile of the usable rows has residuals within the smoothing.
func (f staged) step(ctx context.Context, u []float64, x table.Data, p objpert.Params, quantile float64, src *mech.Source) error {
	columns := make([][]float64, len(x.X))
	for j, column := range x.X {
		columns[j] = slices.Clone(column)
	}
	v, err := objpert.Draw(ctx, p, columns, slices.Clone(x.Y), src)
	if err != nil {
		return err
	}
	longer := 1 + min(maxLengthening, heldBack(p, f.usable*float64(x.N), quantile), farthestLengthening(p)/floats.Norm(v, 2))
	for j := range v {
		u[j] += longer * v[j]
		floats.AddScaled(x.Y, -longer*v[j], x.X[j])
	}
	return nil
}

// maxLengthening is the largest relative lengthening of a fit.
const maxLengthening = .5

// farthestLengthening is the length that a fit of medians may be lengthened by: one that moves the residual of no row as
// long as Short by more than six smoothings. Where far rows make most of the curvature along a long move, as codes for
// missing values do, the ridge hardly shortens it, and lengthened by heldBack it goes too far whatever the budget. Other
// quantiles far out have less curvature than heldBack supposes.
func farthestLengthening(p objpert.Params) float64 {
	if p.Tilt != 0 {
		return math.Inf(1)
	}
	return 6 * p.Smoothing / p.Short
}

// heldBack is the approximate relative shortening of a fit by its ridge, if the share quantile of the rows
// has residuals within the smoothing.
func heldBack(p objpert.Params, rows, quantile float64) float64 {
	return 2 * p.Short * p.Short * (1 + math.Abs(p.Tilt)) / (p.Epsilon * rows * quantile)
}

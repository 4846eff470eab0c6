package dpsco

import (
	"context"
	"math"
	"slices"

	"dpsidecar/internal/dpsco/histogram"
	"dpsidecar/internal/dpsco/linalg"
	"dpsidecar/internal/dpsco/numeric"
	"dpsidecar/internal/dpsco/plan"
	"dpsidecar/internal/dpsco/release"
	"dpsidecar/internal/dpsco/table"
	"dpsidecar/internal/mech"
	"dpsidecar/internal/privacy"

	"gonum.org/v1/gonum/mat"
)

// Scaled runs Algorithm in scaled units: before the fit the public centre of every column is
// subtracted and the difference divided by the column's public scale; results are converted back to
// the table's units.
//
// The coefficients of count models are those of a logarithm, so the target's scale shifts the
// intercept only. An exposure enters as the logarithm of its ratio to the typical value Exposure. An
// offset has the unit of the prediction: that of the target, or of log-odds or logarithms for labels
// and counts. A weight enters as its ratio to the largest allowed one, at most 1.
//
// Privacy: that of Algorithm; before it, scaling is a function of one row and public numbers, after
// it, post-processing.
type Scaled struct {
	Algorithm plan.Algorithm
	X         []float64      // one scale per stored column
	Y         float64        // the target's scale
	CentreX   []float64      // nil: none. A centre requires an intercept, which absorbs it
	CentreY   float64        // 0: none
	Flags     []int          // the stored columns that hold only 0 and 1
	FlagY     bool           // the target holds only 0 and 1
	UnscaledX []int          // stored numbers with neither a registered scale nor a centre, which a fit may look for
	UnscaledY bool           // the same of the target
	NoScales  bool           // no scale was registered
	Memory    int64          // as L1.Memory
	Sources   int            // as Regression.Sources
	Levels    []LevelColumns // as in Regression
	MaxRows   int            // as Data.MaxRows
	Counts    bool
	Exposure  float64 // 0: no exposures

	CentreOffset float64 // public, as CentreX
}

// publicFactsUser is an algorithm whose plan also depends on whether any scale is registered, on the memory
// that it may use, or on the number of columns that features are made from.
type publicFactsUser interface {
	withPublicFacts(Scaled) plan.Algorithm
}

// sourcesUser is such an algorithm of another package, whose plan depends on the number of columns alone.
type sourcesUser interface {
	WithSources(n int) plan.Algorithm
}

// Inner returns Algorithm with the public facts that its plan depends on filled in.
func (a Scaled) Inner() plan.Algorithm {
	switch f := a.Algorithm.(type) {
	case publicFactsUser:
		return f.withPublicFacts(a)
	case sourcesUser:
		return f.WithSources(a.Sources)
	}
	return a.Algorithm
}

// Plan plans Algorithm and adds the scales to the plan's parameters.
func (a Scaled) Plan(s table.Shape, b privacy.Budget, accountant privacy.Accountant) (*plan.Plan, error) {
	if len(a.X) != s.Columns() || a.CentreX != nil && len(a.CentreX) != len(a.X) {
		panic("dpsco: one scale per stored column, and one centre or none")
	}
	if a.centred() && !s.Intercept {
		panic("dpsco: a centre without an intercept")
	}
	p, err := a.Inner().Plan(s, b, accountant)
	if err != nil {
		return nil, err
	}
	p.Parameters["target_scale"], p.Parameters["feature_scales"] = a.Y, a.X
	if err := p.SeveralRows(a.MaxRows); err != nil {
		return nil, err
	}
	if a.Exposure != 0 {
		p.Parameters["exposure_scale"] = a.Exposure
	}
	if a.CentreOffset != 0 {
		p.Parameters["offset_center"] = a.CentreOffset
	}
	if a.centred() {
		p.Parameters["target_center"], p.Parameters["feature_centers"] = a.CentreY, a.centres()
	}
	a.unscaleBand(p.Band)
	p.Wrap(func(inner plan.RunFunc) plan.RunFunc {
		return func(ctx context.Context, x table.Data, src *mech.Source) (release.Result, error) {
			if x.Pushdown != nil {
				a.express(x.Pushdown, s, p.MaxWeight)
			} else {
				x.ScaleWeights(p.MaxWeight)
				a.scale(x)
				a.offset(&x)
			}
			r, err := inner(ctx, x, src)
			r.Each(a.withholdBesideNumbers)
			r.Each(a.withholdOfRareTarget)
			r.Each(a.unscaleResult)
			r.Each(a.moveConstant)
			return r, err
		}
	})
	return p, nil
}

// Conversion of a fit of scaled columns to the table's units. With centres c and scales s of columns and
// c_y, s_y of the target, a fit v of
//
//	(y - c_y) / s_y = v_0 + sum of v_j (x_j - c_j) / s_j
//
// gives w_j = v_j s_y / s_j, and w_0 = s_y v_0 + c_y - sum of w_j c_j. So everything is first multiplied by
// its units, and then the intercept absorbs the centres: a linear map that is the identity except for its
// first row, (1, -c_1, -c_2, ...), and a public shift by c_y.

// An offset o is subtracted from the target, so that with offsets c_y above is c_y - c_o.

// centred reports whether any centre is not 0.
func (a Scaled) centred() bool {
	return a.CentreY != 0 || a.CentreOffset != 0 || slices.ContainsFunc(a.CentreX, func(c float64) bool { return c != 0 })
}

// centres are the centres of the stored columns.
func (a Scaled) centres() []float64 {
	if a.CentreX == nil {
		return make([]float64, len(a.X))
	}
	return a.CentreX
}

// numericColumns returns the stored columns that are neither flags nor levels, and the target.
func (a Scaled) numericColumns() (columns []numericColumn, y numericColumn) {
	for j, scale := range a.X {
		if !slices.Contains(a.Flags, j) {
			columns = append(columns, numericColumn{column: j, zero: -a.centres()[j] / scale, unscaled: slices.Contains(a.UnscaledX, j)})
		}
	}
	return columns, numericColumn{column: histogram.Target, zero: -a.CentreY / a.Y, unscaled: a.UnscaledY}
}

// scale converts columns and target to scaled units. Missing values remain missing.
func (a Scaled) scale(x table.Data) {
	for j, column := range x.X {
		shiftBy(column, a.centres()[j])
		divide(column, a.X[j])
	}
	shiftBy(x.Y, a.CentreY)
	divide(x.Y, a.Y)
}

// shiftBy subtracts a centre from every value.
func shiftBy(column []float64, centre float64) {
	if centre == 0 {
		return
	}
	for i := range column {
		column[i] -= centre
	}
}

// withholdBesideNumbers removes all intervals where noise masks a column that is no flag: the fit is then
// as if that column were left out, and its correlation with the others is unknown (proof:
// joint_moments.md).
func (a Scaled) withholdBesideNumbers(r *release.Result) {
	isNumber := func(j int) bool { return !slices.Contains(a.Flags, j-(len(r.Coefficients)-len(a.X))) }
	if r.Low != nil && slices.ContainsFunc(r.Hidden, isNumber) {
		withhold(r, hiddenDirection)
	}
}

// withholdOfRareTarget removes all intervals where noise hides how large the few targets are that are not
// about 0, unless they are all 1.
func (a Scaled) withholdOfRareTarget(r *release.Result) {
	if r.Low != nil && r.RareTarget && !a.FlagY {
		withhold(r, rareTarget)
	}
}

// unscaleResult converts a release to the table's units.
func (a Scaled) unscaleResult(r *release.Result) {
	for _, part := range [][]float64{r.Coefficients, r.StdErr, r.Low, r.High} {
		a.unscale(part)
	}
	for _, m := range []*mat.SymDense{r.Covariance, r.Bias, r.NoiseCovariance} {
		a.unscaleProducts(m)
	}
	if !a.centred() || r.Coefficients == nil {
		return
	}
	a.moveIntercept(r.Coefficients)
	for _, m := range []*mat.SymDense{r.Covariance, r.Bias, r.NoiseCovariance} {
		a.moveProducts(m)
	}
	if slices.ContainsFunc(r.NoiseUnknown, func(j int) bool { return j > 0 && a.centres()[j-1] != 0 }) && !slices.Contains(r.NoiseUnknown, 0) {
		r.NoiseUnknown = append([]int{0}, r.NoiseUnknown...) // the constant now has a part of that coefficient's noise
	}
	if r.Low != nil {
		a.moveInterval(r)
	}
}

// restore converts coefficients to the table's units; with nil they have them.
func (a *Scaled) restore(w []float64) {
	if a != nil {
		a.unscaleResult(&release.Result{Coefficients: w})
	}
}

// unscale multiplies numbers, one for each coefficient, by the units of the coefficients; nil remains nil.
func (a Scaled) unscale(w []float64) {
	first := len(w) - len(a.X)
	for j := range w {
		if !a.Counts { // a unit of counts moves the constant alone
			w[j] *= a.Y
		}
		if j >= first {
			w[j] /= a.X[j-first]
		}
	}
}

// unscaleProducts does that with a matrix of products of two coefficients.
func (a Scaled) unscaleProducts(m *mat.SymDense) {
	if m == nil {
		return
	}
	units := table.Repeat(1, m.SymmetricDim())
	a.unscale(units)
	for i, u := range units {
		for k, v := range units[:i+1] {
			m.SetSym(i, k, m.At(i, k)*u*v)
		}
	}
}

// unscaleBand converts bands to the table's units. All coefficients lie within their bands at once, so that
// the intercept lies within the sum of the bands of its parts.
func (a Scaled) unscaleBand(band []float64) {
	a.unscale(band)
	if a.centred() && band != nil {
		for j, c := range a.centres() {
			band[0] += math.Abs(c) * band[1+j]
		}
	}
}

// unscaleDeviations does so with the standard deviations of independent coefficients.
func (a Scaled) unscaleDeviations(deviations []float64) {
	a.unscale(deviations)
	if a.centred() && deviations != nil {
		for j, c := range a.centres() {
			deviations[0] = math.Hypot(deviations[0], c*deviations[1+j])
		}
	}
}

// moveIntercept adds the effect of the centres to the intercept.
func (a Scaled) moveIntercept(w []float64) {
	w[0] += a.CentreY - a.CentreOffset
	for j, c := range a.centres() {
		w[0] -= c * w[1+j]
	}
}

// moveProducts does that with a matrix of products of two coefficients; nil remains nil.
func (a Scaled) moveProducts(m *mat.SymDense) {
	if m == nil {
		return
	}
	move := linalg.Identity(m.SymmetricDim())
	for j, c := range a.centres() {
		move.Set(0, 1+j, -c)
	}
	m.CopySym(linalg.Sandwich(move, m))
}

// moveInterval computes the interval of the intercept from a covariance and a bias that were converted
// already. Its degrees of freedom are the least of those of its parts.
func (a Scaled) moveInterval(r *release.Result) {
	middles, df := make([]float64, len(r.Low)), r.DF[0]
	for j, low := range r.Low {
		middles[j] = (low + r.High[j]) / 2
	}
	a.moveIntercept(middles)
	for j, c := range a.centres() {
		if c != 0 {
			df = min(df, r.DF[1+j])
		}
	}
	deviation, bias := math.Sqrt(r.Covariance.At(0, 0)), 0.0
	if r.Bias != nil {
		bias = math.Sqrt(max(0, r.Bias.At(0, 0)))
	}
	half := numeric.HalfWidth(deviation, df, bias)
	r.StdErr[0], r.DF[0], r.Low[0], r.High[0] = deviation, df, middles[0]-half, middles[0]+half
}

package dpsco

import (
	"context"
	"math"
	"slices"

	"dpsidecar/internal/catalogue"
	"dpsidecar/internal/dpsco/histogram"
	"dpsidecar/internal/dpsco/loss"
	"dpsidecar/internal/dpsco/numeric"
	"dpsidecar/internal/dpsco/prox"
	"dpsidecar/internal/dpsco/release"
	"dpsidecar/internal/dpsco/table"
	"dpsidecar/internal/mech"
	"dpsidecar/internal/privacy"
	"dpsidecar/internal/sqlsum"
)

// standardised runs Fit on columns in units that histograms show. Columns without a registered scale are divided by
// the size that most of their values have (Scales). Then columns are shifted and scaled to where most of their values
// lie: a year without a registered center is 1 give or take .003, in units of a scale of 2000, and its slope would
// be lost beside the constant. Columns whose values spread over their scales, lie about 0, or are mostly one value
// remain as they are. Coefficients are converted back by Regression.
//
// Privacy: the composition of the histograms and Fit (proof: standardise.md).
type standardised struct {
	Fit     fit
	Centres centreSearch
	Scales  scaleSearch
}

// centreSearch is a search for columns that lie together far from zero.
type centreSearch struct {
	Columns          []numericColumn // that may be moved
	Position, Detail float64         // shares of the zCDP budget of both histograms; without Detail there is no second. Unused by medians, which have shares of epsilon
}

// numericColumn is a column of numbers: not a flag, level or label. All of it is public.
type numericColumn struct {
	column   int     // of X; histogram.Target: of Y
	unit     bool    // the scale remains as it is, unless it is to be found
	zero     float64 // the value 0 of the table, in scaled units
	unscaled bool    // no scale is registered: it counts as 1
}

// Shares of the zCDP budget of both histograms.
const (
	positionShare = 0.01
	detailShare   = 0.02
)

// A descent, which serves where information is low, looks where its target lies, by the first histogram alone. That
// has targetShare of the budget, or as much less as leaves a deviation of targetNoise of the rows. Where the deviation
// would be above hopelessTarget nobody looks.
const (
	targetShare    = 0.05
	targetNoise    = 0.02
	hopelessTarget = 0.05
)

// positionBins are those of the first histogram, in scaled units: up to 2 of one width, and from there to 128 a sixteenth of an
// octave each. detailBins are those of the second, about the position that the first shows; its outermost bins hold the
// values that lie far from there.
var (
	positionBins = histogram.Bins{Bins: mech.Bins{Width: 0x1p-7, Half: 256 + farBins}, Far: farBins}
	detailBins   = histogram.Bins{Bins: mech.Bins{Width: 0x1p-11, Half: 256}}
	targetBins   = histogram.Bins{Bins: mech.Bins{Width: 0x1p-5, Half: 64 + farBins}, Far: farBins} // without a second histogram
)

// farBins is the number of bins beyond 2 scales, on either side.
const farBins = 96

// A column is moved if an interval no longer than longestInterval surely holds most rows. It remains as it is if that
// interval is within a bin of 0, if the count of values far from it stands out, or if one bin of the second seems to
// hold maxInOneBin of the rows. Where 0 or another single value is
// that frequent, the others are few, may lie anywhere, and would become very long.
//
// Without a second histogram such a target is moved, but keeps its unit, and others have a unit of minOfTarget at
// least: the rows beyond the interval may be a quarter of all, and gradients are clipped in that unit.
const (
	longestInterval = 0x1p-3
	longestOfTarget = 1    // without a second histogram
	minOfTarget     = 0.25 // the least unit, without a second histogram
)

// standardise returns the fit that the problem's public facts allow to make on standardised columns. The slope
// of a moved column has another unit than the options penalty and radius speak of; where residual_scale or, of
// Huber's loss, huber_delta is given, the target keeps its unit.
func (p *problem) standardise(f fit) fit {
	if p.radiusAsked || p.Penalty != catalogue.PenaltyNone || p.Method != catalogue.MethodAuto && !standardises(f) {
		return f
	}
	a := standardised{Fit: f, Centres: p.movable(f), Scales: p.seeks()}
	if a.Centres.Columns == nil && a.Scales.Columns == nil {
		return f
	}
	return a
}

// standardises reports whether a method finds out where columns lie.
func standardises(f fit) bool {
	switch f.(type) {
	case Newton, JointMoments:
		return true
	}
	return false
}

// movable returns the search for columns that may be moved: none if there are none, or more than a histogram takes.
func (p *problem) movable(f fit) centreSearch {
	y := p.target
	_, newton := f.(Newton)
	y.unit = newton || p.scaleAsked // Newton's delta is in the unit of the target
	targetMoves := y.column == histogram.Target && !p.Labels && !p.counts() && p.Offset == "" && p.MaxWeight == 0
	switch {
	case !p.Intercept:
		return centreSearch{}
	case !standardises(f):
		if !targetMoves || y.zero != 0 {
			return centreSearch{}
		}
		return centreOfTarget(y, math.Sqrt(1/p.rho)/float64(p.N))
	}
	columns := slices.Clone(p.numericColumns)
	if targetMoves && len(columns) > 0 {
		columns = append(columns, y)
	}
	if mech.CheckHistogram(positionBins.Bins, p.N, len(columns)) != nil {
		return centreSearch{}
	}
	return centreSearch{columns, positionShare, detailShare}
}

// centreOfTarget is the search of a descent, where noise is the deviation of a count if the histogram had the whole
// budget, relative to the rows.
func centreOfTarget(y numericColumn, noise float64) centreSearch {
	share := numeric.ClampBetween(square(noise/targetNoise), positionShare, targetShare)
	if noise > hopelessTarget*math.Sqrt(share) {
		return centreSearch{}
	}
	return centreSearch{Columns: []numericColumn{y}, Position: share}
}

// seeks returns the search for the scales of columns that have none, but for that of a target whose unit an option
// speaks of.
func (p *problem) seeks() scaleSearch {
	columns := slices.Clone(p.numericColumns)
	if p.Offset == "" && !p.scaleAsked && !p.deltaAsked && !p.Labels && !p.counts() {
		columns = append(columns, p.target)
	}
	s := unscaled(columns, p.unknown)
	s.Share = shareForScales(math.Sqrt(float64(len(s.Columns))/p.rho) / float64(p.N))
	if mech.CheckHistogram(histogram.SizeBins.Bins, p.N, len(s.Columns)) != nil || s.Share == 0 {
		return scaleSearch{}
	}
	return s
}

// findsTargetScale reports whether the fit is about a target in a scale that it finds.
func findsTargetScale(f fit) bool {
	s, ok := f.(standardised)
	return ok && slices.ContainsFunc(s.Scales.Columns, func(c numericColumn) bool { return c.column == histogram.Target })
}

// finds says which units of columns a fit looks for where none is registered: public facts.
type finds struct{ scales, centres bool }

func findsOf(f fit) finds {
	s, _ := f.(standardised)
	return finds{len(s.Scales.Columns) > 0, slices.ContainsFunc(s.Centres.Columns, func(c numericColumn) bool { return c.zero == 0 })}
}

// withoutStandardising returns the fit that a fit makes on its columns, and the noise multiplier that it has there.
// That of a descent is the noise of one of its estimates, to which what histograms cost is added.
func withoutStandardising(f fit, z float64) (fit, float64) {
	s, ok := f.(standardised)
	if !ok {
		return f, z
	}
	if !standardises(s.Fit) {
		return s.Fit, z
	}
	return s.Fit, z / math.Sqrt(1-s.share())
}

// share is that of the zCDP budget which the histograms have.
func (a standardised) share() (all float64) {
	if len(a.Centres.Columns) > 0 {
		all += a.Centres.Position + a.Centres.Detail
	}
	if len(a.Scales.Columns) > 0 {
		all += a.Scales.Share
	}
	return all
}

func (a standardised) at(s table.Shape, z float64) (*stage, error) {
	f, left := withoutStandardising(a, z)
	inner, err := f.at(s, left)
	if err != nil {
		return nil, err
	}
	if !standardises(f) { // the multiplier of a Gaussian that costs what the whole fit does
		cost, err := privacy.Price(inner.event)
		if err != nil {
			return nil, err
		}
		z = math.Sqrt((1 - a.share()) / (2 * cost.Rho))
	}
	h := a.histograms(z)
	if err := checkReleases(s.N, h.all); err != nil {
		return nil, err
	}
	var event privacy.Compose
	for _, noise := range h.all {
		event = append(event, noise.Event())
	}
	return &stage{
		event:            append(event, inner.event.(privacy.Compose)...),
		arithmetic:       inner.arithmetic,
		seconds:          inner.seconds + secondsOfCount*float64(s.N)*float64(h.statements),
		passes:           inner.passes + len(h.all),
		statements:       h.statements,
		sums:             inner.sums,
		findsTargetScale: findsTargetScale(a),
		run: func(ctx context.Context, x table.Data, src *mech.Source) (fitted, error) {
			found, moved, hidden := a.move(x, h, src)
			run := inner.run
			if moved != nil && moved.Y != 1 {
				if within, err := inUnit(f, moved.Y).at(s, left); err == nil { // as of inner: a ball makes no plan fail
					run = within.run
				}
			}
			r, err := run(ctx, x, src)
			r.Each(func(r *release.Result) { leaveOut(r, hidden, x.FeatureColumns()) })
			r.found, r.moved = found, moved
			return r, err
		},
	}, nil
}

// histogramNoises is the noise of the histograms of a standardised fit.
type histogramNoises struct {
	size, position mech.Gaussian
	detail         mech.Mechanism  // nil: there is no second histogram of positions
	all            []mech.Gaussian // of those that are released, in their order
	statements     int             // as Plan.Statements
}

// histograms returns the noise of the histograms at noise multiplier z for their share of 1.
func (a standardised) histograms(z float64) (h histogramNoises) {
	noise := func(share float64) mech.Gaussian { return mech.Gaussian{NoiseMultiplier: z / math.Sqrt(share)} }
	h.size, h.position = noise(a.Scales.Share), noise(a.Centres.Position)
	if n := len(a.Scales.Columns); n > 0 {
		h.all, h.statements = append(h.all, h.size), n
	}
	if n := len(a.Centres.Columns); n > 0 {
		h.all, h.statements = append(h.all, h.position), h.statements+n
		if a.Centres.Detail > 0 {
			second := noise(a.Centres.Detail)
			h.all, h.detail, h.statements = append(h.all, second), second, h.statements+n
		}
	}
	return h
}

// move releases the histograms, and scales and moves the columns as they show. It returns the scales that it finds, the
// centres and scales of the columns that it moves, and the features that noise hides; nil where there are none.
func (a standardised) move(x table.Data, h histogramNoises, src *mech.Source) (found, moved *Scaled, hidden []int) {
	if len(a.Scales.Columns) > 0 {
		found, hidden = a.Scales.find(x, h.size, src)
	}
	if len(a.Centres.Columns) > 0 {
		moved = placement(x, a.Centres.Columns, h.position, h.detail, src)
	}
	if moved != nil && x.Pushdown != nil {
		moved.expressAgain(x.Pushdown)
	} else if moved != nil {
		moved.scale(x)
	}
	return found, moved, hidden
}

// inUnit returns a fit with its ball and its delta in another unit of the target. A centred or whitened descent has no
// ball: that of Regression follows it.
func inUnit(f fit, y float64) fit {
	within := func(psi prox.Operator) prox.Operator {
		if ball, only := psi.(prox.L2Ball); only {
			return prox.L2Ball{Radius: ball.Radius / y}
		}
		return psi
	}
	switch f := f.(type) {
	case JointMoments:
		f.Psi = within(f.Psi)
		return f
	case Descent:
		f.Psi = within(f.Psi)
		if huber, is := f.Loss.(loss.Huber); is {
			f.Loss = loss.Huber{Delta: huber.Delta / y}
		}
		return f
	case Centred:
		f.Descent = inUnit(f.Descent, y).(Descent)
		return f
	case Whitened:
		f.Descent = inUnit(f.Descent, y).(Descent)
		return f
	}
	return f
}

// placement releases both histograms of columns, the first alone where detail is nil, and returns the centers and scales
// that they show, in scaled units; nil if no column is to be moved. A target beyond the bins of one width, or at their edge, is shifted
// by what the first shows and keeps its scale, so that no second one needs to tell whether some of its values are
// elsewhere; features all of which lie there stay. Where no other column is moved there is no second.
func placement(x table.Data, columns []numericColumn, position, detail mech.Mechanism, src *mech.Source) *Scaled {
	moved := Scaled{X: table.Repeat(1, x.FeatureColumns()), Y: 1, CentreX: make([]float64, x.FeatureColumns())}
	var near []numericColumn
	far := false
	first, longest := positionBins, longestInterval
	if detail == nil {
		first, longest = targetBins, longestOfTarget
	}
	for k, counts := range histogram.Count(x, first, positionsOf(columns), moved.centresOf(columns), position, src) {
		c := columns[k]
		low, high, ok := counts.Interval(longest)
		if ok && (high+first.Width < c.zero || c.zero < low-first.Width) {
			centre, scale := moved.of(c)
			switch target := c.column == histogram.Target; {
			case target && counts.IsFar(low, high):
				*centre, far = (low+high)/2, true
				continue
			case counts.IsBeyond(low, high):
				continue
			}
			*centre = (low + high) / 2
			near = append(near, c)
			switch *scale = max(high-low, 2*first.Width) / 2; {
			case detail != nil: // the second histogram says more
			case counts.MostlyOne():
				*scale = 1
			default:
				*scale = max(*scale, minOfTarget)
			}
		}
	}
	refined := near != nil && (detail == nil || moved.refinePositions(x, near, detail, src))
	if !refined && !far {
		return nil
	}
	for _, c := range near {
		if _, scale := moved.of(c); c.unit {
			*scale = 1
		}
	}
	return &moved
}

// refinePositions releases the second histogram and moves columns to where it shows their values, or back where these
// do not lie together. It reports whether a column is still moved.
func (a *Scaled) refinePositions(x table.Data, near []numericColumn, detail mech.Mechanism, src *mech.Source) (some bool) {
	for k, counts := range histogram.Count(x, detailBins, positionsOf(near), a.centresOf(near), detail, src) {
		centre, scale := a.of(near[k])
		if !counts.Together() {
			*centre, *scale = 0, 1
			continue
		}
		some = true
		if low, high, ok := counts.Interval(longestInterval); ok {
			*centre, *scale = *centre+(low+high)/2, max(high-low, 2*detailBins.Width)/2
		}
	}
	return some
}

// of returns the center and the scale of a column.
func (a *Scaled) of(c numericColumn) (centre, scale *float64) {
	if c.column == histogram.Target {
		return &a.CentreY, &a.Y
	}
	return &a.CentreX[c.column], &a.X[c.column]
}

// centresOf returns the centers of columns.
func (a *Scaled) centresOf(columns []numericColumn) (centres []float64) {
	for _, c := range columns {
		centre, _ := a.of(c)
		centres = append(centres, *centre)
	}
	return centres
}

// positionsOf returns the positions of columns among those of a design.
func positionsOf(columns []numericColumn) (positions []int) {
	for _, c := range columns {
		positions = append(positions, c.column)
	}
	return positions
}

// expressAgain changes the expressions of the columns as scale changes stored ones.
func (a Scaled) expressAgain(x *table.Pushdown) {
	again := func(v sqlsum.Expr, centre, scale float64) sqlsum.Expr {
		if centre == 0 && scale == 1 {
			return v
		}
		return sqlsum.Mul(sqlsum.Snap(sqlsum.Sub(v, sqlsum.Number(centre)), tiny), sqlsum.Number(1/scale))
	}
	for j, v := range x.Row.X {
		x.Row.X[j] = again(v, a.CentreX[j], a.X[j])
	}
	x.Row.Y = again(x.Row.Y, a.CentreY, a.Y)
}

package score

import (
	"context"
	"math"

	"dpsidecar/internal/dpsco/histogram"
	"dpsidecar/internal/dpsco/magnitude"
	"dpsidecar/internal/dpsco/numeric"
	"dpsidecar/internal/dpsco/release"
	"dpsidecar/internal/dpsco/table"
	"dpsidecar/internal/mech"
)

// scoredRows holds, for every row, the residual and the target less its centre, or the margin of a label
// and the label. Both are NaN in an unusable row.
type scoredRows struct{ table.Data }

// newScoredRows predicts every row. A row is unusable if a value is missing or infinite, if its prediction
// overflows, if its target is no label, or if it is of no group.
func (g *scoring) newScoredRows(x table.Data) scoredRows {
	if g.Counts {
		return g.newCountedRows(x)
	}
	rows := scoredRows{table.Data{Shape: table.Shape{N: x.N, D: 1}, X: [][]float64{x.NewColumn(len(x.Y))}, Y: x.Y, First: x.First, MaxRows: x.MaxRows, Weight: x.Weight}}
	if g.Labels {
		table.Label(x.Y, g.Negative, g.Positive)
	}
	g.predictRows(rows.X[0], x)
	return rows
}

// predict writes the predictions of rows, with the coefficients of each row's group if there are groups;
// NaN for a row of no group.
func (g *scoring) predict(dst []float64, b table.Data) {
	if b.GroupCount == 0 {
		table.Predict(dst, b, g.Coefficients)
		return
	}
	for i := range dst {
		group := b.GroupOf(i)
		if group == b.GroupCount {
			dst[i] = math.NaN()
			continue
		}
		w := g.Coefficients[group*b.D : (group+1)*b.D]
		if dst[i] = 0; b.Intercept {
			dst[i], w = w[0], w[1:]
		}
		for j, column := range b.X {
			dst[i] += float64(w[j] * column[i])
		}
		if b.Offset != nil {
			dst[i] += b.Offset[i]
		}
	}
}

// predictRows writes the residuals, or margins of labels, of rows.
func (g *scoring) predictRows(residuals []float64, x table.Data) {
	x.Flat().Blocks(func() func(int, table.Data) {
		return func(first int, b table.Data) {
			e := residuals[first : first+b.N]
			g.predict(e, b)
			for i, y := range b.Y {
				if g.Labels {
					e[i] *= 2*y - 1
				} else {
					e[i] = y - e[i]
					b.Y[i] -= g.Centre
				}
				if !numeric.IsFinite(e[i]) || !numeric.IsFinite(b.Y[i]) {
					e[i], b.Y[i] = math.NaN(), math.NaN()
				}
			}
		}
	})
}

// size is the quantity in the histogram of sizes.
func (g *scoring) size(e float64) float64 {
	if g.Labels {
		return logLoss(e)
	}
	return math.Abs(e)
}

// logLoss is the loss of a label with the given margin, the log-odds that the model gives it.
func logLoss(margin float64) float64 {
	return math.Max(-margin, 0) + math.Log1p(math.Exp(-math.Abs(margin)))
}

// otherProbability is the probability of the other label under the model.
func otherProbability(margin float64) float64 {
	if margin < -700 {
		return 1
	}
	return 1 / (1 + math.Exp(margin))
}

// isCorrect is 1 if the label is the likelier one; of two equally likely labels the model predicts the
// positive one.
func isCorrect(margin, label float64) float64 {
	if margin > 0 || margin == 0 && label == 1 {
		return 1
	}
	return 0
}

// measure makes the releases and computes the metrics.
func (g *scoring) measure(ctx context.Context, x table.Data, src *mech.Source) ([]release.Metric, error) {
	rows := g.newScoredRows(x)
	m, rare := &measured{scoring: g, scale: g.Scale, unit: g.Scale}, g.pure
	if noise, looks := g.noises[scalesRelease]; looks && m.findScales(rows, noise, src) {
		rare = false
	}
	m.sizes = g.histogram(sizesRelease, rows, m.unit, src, func(e, _ float64) float64 { return g.size(e) })
	if !g.pure && !g.Labels {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		m.targets = g.histogram(targetsRelease, rows, m.scale, src, func(_, y float64) float64 { return math.Abs(y) })
		if g.Counts {
			m.compareWithRate(rows, src)
		} else {
			m.centre = g.mean(rows, m.targets.Edge(), src)
			m.deviations = g.histogram(deviationsRelease, rows, m.unit, src, func(_, y float64) float64 { return math.Abs(y - m.centre) })
			rare = m.targets.RarelyAsLargeAs(m.scale)
		}
		m.mayHide(m.deviations, rare)
	}
	m.mayHide(m.sizes, rare)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.chooseCuts()
	m.means = m.release(rows, src)
	return m.metrics(), nil
}

// scaledOfScore are the columns of scoredRows whose scales are looked for: the target and the residual.
var scaledOfScore = []int{histogram.Target, 0}

// findScales releases the octaves of residuals and of targets, and reads from them how large most of both are. Where
// noise hides those of residuals, they count as large as targets. It reports whether targets are seen to be often about as
// large as their scale.
func (m *measured) findScales(rows scoredRows, noise mech.Mechanism, src *mech.Source) (typical bool) {
	counts := histogram.Count(rows.Data, histogram.SizeBins, scaledOfScore, nil, noise, src)
	targets, residuals := counts[0], counts[1]
	size, seen := targets.Size(noise)
	if m.unknown = m.TargetUnscaled && !seen; m.TargetUnscaled && seen {
		m.scale, m.unit = size, size
	}
	typical = seen && targets.Between(magnitude.TypicalPart*m.scale, 4*m.scale) >= magnitude.TypicalShare*float64(rows.N)
	if size, seen := residuals.Size(noise); seen {
		m.unit = max(size, minUnit*m.scale)
	}
	return typical
}

// minUnit is the least unit of residuals, in scales of the target: few residuals may be as large as targets while most
// are tiny, and the histogram ends at 2^16 units.
const minUnit = 0x1p-11

// beyondTypical is how many times as large as the target's scale, a typical target, a residual may be where noise hides
// it: where few rows have a target at all, such as a claim, some are far larger than a typical one.
const beyondTypical = 8

// mayHide extends the range in which the histogram's noise may hide rows. For labels, it extends to the
// losses that visible rows would have with the other label, and for counts to the deviances that rows with
// a small deviance would have with the least count that is not visible. For other targets it extends beyond
// the target's scale if rare: a residual may be as large as the target if targets are rarely about as large
// as their scale, or if they are not seen. Otherwise the visible residuals are smaller because the model
// predicts well.
func (m *measured) mayHide(h *magnitude.Histogram, rare bool) {
	switch {
	case m.Labels:
		h.Reach(h.ReachOf(func(loss float64) float64 { return -math.Log(-math.Expm1(-loss)) }))
	case m.Counts:
		h.Reach(h.ReachOf(func(deviance float64) float64 { return devianceBeyond(deviance/2, h.Edge()) }))
	case rare:
		h.Reach(beyondTypical * m.scale)
	}
	h.SetBounded(m.Labels || m.Counts && h.Index(tailAssumption) >= heavyCounts)
}

// heavyCounts is the tail index below which deviances of counts are not taken to be bounded: few of those that noise
// hides may be far larger than that of the least hidden count.
const heavyCounts = 1.3

// histogram releases the magnitudes of a number of every row, in half octaves of unit.
func (g *scoring) histogram(name string, rows scoredRows, unit float64, src *mech.Source, size func(e, y float64) float64) *magnitude.Histogram {
	counts := table.Parts[*mech.Histogram]{Total: mech.NewHistogram(magnitude.HalfOctaves, rows.N, 1)}
	rows.FirstRows().Pass(func() func(int, table.Data) {
		h, v, bins := counts.Fork(), make([]float64, table.BlockRows), make([]int32, table.BlockRows)
		return func(_ int, b table.Data) {
			for i, y := range b.Y {
				v[i] = size(b.X[0][i], y) / unit
			}
			magnitude.Count(h, v[:b.N], bins)
		}
	})
	noisy := make([]float64, 2*magnitude.HalfOctaves.Half)
	g.noises[name].Release(noisy, counts.Merged().Bounded(), src)
	return magnitude.Read(noisy, magnitude.CountStdDev(g.noises[name], 1, magnitude.LaplaceTail), unit, math.Inf(1), float64(rows.N)).AsRun()
}

// mean releases the mean of clipped targets.
func (g *scoring) mean(rows scoredRows, cut float64, src *mech.Source) float64 {
	sums := table.Parts[*mech.Sum]{Total: mech.NewSum(g.centreContract())}
	rows.Pass(func() func(int, table.Data) {
		s, v, ones, starts := sums.Fork(), make([]float64, table.BlockRows), make([]float64, table.BlockRows), make([]int, 0, table.BlockRows)
		return func(_ int, b table.Data) {
			for i, y := range b.Y {
				v[i], ones[i] = numeric.ClampTo(y, cut)/cut, 1
				if math.IsNaN(y) {
					v[i], ones[i] = 0, 0
				}
			}
			table.AverageUsable([][]float64{v}, ones, b.Starts(starts))
			s.AddRows(mech.Rows{X: [][]float64{v[:b.N]}, Intercept: true}, ones[:b.N])
		}
	})
	total := make([]float64, 2)
	g.noises[centreRelease].Release(total, sums.Merged().Bounded(), src)
	if !(total[0] > 0) {
		return 0
	}
	return numeric.ClampTo(total[1]/total[0], 1) * cut
}

// numbers writes the columns that are averaged over a block, each in [-1, 1] and nonnegative ones in
// [0, 1], and ones: 1 for a usable row, otherwise 0. Columns are multiplied by the row's weight, which is
// the last column.
func (m *measured) numbers(dst [][]float64, ones []float64, b table.Data) {
	for i, e := range b.X[0] {
		y := b.Y[i]
		if ones[i] = 1; math.IsNaN(e) {
			ones[i] = 0
			for _, column := range dst {
				column[i] = 0
			}
			continue
		}
		size := m.size(e)
		dst[0][i] = min(size/m.cut, 1)
		switch {
		case m.Counts && m.pure:
		case m.Counts:
			dst[1][i] = min(b.X[1][i]/m.deviationCut, 1)
		case m.Labels:
			dst[1][i] = isCorrect(e, y)
			if !m.pure {
				dst[2][i] = square(otherProbability(e))
			}
		case !m.pure:
			away := numeric.ClampTo(y-m.centre, m.deviationCut) / m.deviationCut
			dst[1][i], dst[2][i], dst[3][i] = square(min(size/m.squareCut, 1)), away, square(away)
		}
		if m.MaxWeight > 0 {
			m.weighNumbers(dst, i, b.Weight[i])
		}
	}
}

// weighNumbers multiplies the columns of row i by its weight, and writes the weight.
func (m *measured) weighNumbers(dst [][]float64, i int, weight float64) {
	last := m.measures()
	for _, column := range dst[:last] {
		column[i] *= weight
	}
	dst[last][i] = weight
}

// release releases the means of the columns and their second moments.
func (m *measured) release(rows scoredRows, src *mech.Source) (means *scoreMeans) {
	if m.pure {
		means = m.releaseSums(rows, src)
	} else {
		means = m.releaseMoments(rows, src)
	}
	if means.weighted = m.MaxWeight > 0; means.weighted && m.pure {
		means.doubtWeights()
	}
	return means
}

// releaseMoments releases them with normal noise, in one matrix. Values are rounded to the nearest step of
// the grid rather than toward zero.
func (m *measured) releaseMoments(rows scoredRows, src *mech.Source) *scoreMeans {
	contract, k, weight := m.momentContract(), m.columns(), m.weight()
	total := table.Parts[*mech.Moments]{Total: mech.NewMoments(contract)}
	half := contract.Step() / 2
	rows.Pass(func() func(int, table.Data) {
		part, block, starts := total.Fork(), table.NewColumns(k+1, table.BlockRows), make([]int, 0, table.BlockRows)
		return func(_ int, b table.Data) {
			m.numbers(block[1:], block[0], b)
			table.AverageUsable(block[1:], block[0], b.Starts(starts))
			for _, column := range block[1:] {
				for i, v := range column[:b.N] {
					column[i] = v*weight + math.Copysign(min(half, math.Abs(v)), v)
				}
			}
			part.AddRows(mech.Rows{X: table.Heads(block, b.N)}, b.N)
		}
	})
	noise := m.noises[momentsRelease].(mech.Gaussian)
	released := make([]float64, (k+1)*(k+1))
	total.Merged().Release(released, noise, src)
	return gaussianMeans(released, k, noise, contract)
}

// releaseSums releases 1, every column and its square with Laplace noise. A value u of a usable row enters
// as 2u - 1, which uses all of [-1, 1].
func (m *measured) releaseSums(rows scoredRows, src *mech.Source) *scoreMeans {
	k := m.columns()
	total := table.Parts[*mech.Sum]{Total: mech.NewSum(m.sumContract())}
	rows.Pass(func() func(int, table.Data) {
		part, block, units, starts := total.Fork(), table.NewColumns(1+2*k, table.BlockRows), table.Repeat(1, table.BlockRows), make([]int, 0, table.BlockRows)
		return func(_ int, b table.Data) {
			ones := block[0]
			m.numbers(block[1:1+k], ones, b)
			table.AverageUsable(block[1:1+k], ones, b.Starts(starts))
			for j, column := range block[1 : 1+k] {
				squares := block[1+k+j]
				for i, u := range column[:b.N] {
					column[i], squares[i] = (2*u-1)*ones[i], (2*u*u-1)*ones[i]
				}
			}
			part.AddRows(mech.Rows{X: table.Heads(block, b.N)}, units[:b.N])
		}
	})
	noise := m.noises[momentsRelease].(mech.Laplace)
	released := make([]float64, 1+2*k)
	noise.Release(released, total.Merged().Bounded(), src)
	return laplaceMeans(released, k, noise, m.sumContract())
}

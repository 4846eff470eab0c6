package score

import (
	"cmp"
	"math"

	"dpsidecar/internal/dpsco/linalg"
	"dpsidecar/internal/dpsco/magnitude"
	"dpsidecar/internal/dpsco/numeric"
	"dpsidecar/internal/dpsco/release"
	"dpsidecar/internal/dpsco/table"
	"dpsidecar/internal/mech"
)

// Models of counts are scored by deviances: twice the difference between the largest possible
// log-likelihood of a row and its actual one. The reference for the deviance explained is a model with the
// same rate for every row, which is released privately.

// unitDeviance is the deviance of a count with a given mean, neither of them negative.
func unitDeviance(y, mean float64) float64 {
	d := 2 * (mean - y)
	if y > 0 {
		d += 2 * y * math.Log(y/mean)
	}
	return max(0, d) // rounding can make it negative
}

// devianceBeyond is the deviance of the least count, with a mean whose zeros have deviances up to edge, that has a
// larger one. Deviances of counts are far apart where their mean is small: with a mean of .1 they are .2, 2.8 and 8.2.
func devianceBeyond(mean, edge float64) float64 {
	low, high := 0., 1.
	for unitDeviance(high, mean) <= edge {
		low, high = high, 2*high
	}
	between := func() float64 { return math.Floor(low + (high-low)/2) }
	for k := between(); low < k && k < high; k = between() {
		if unitDeviance(k, mean) <= edge {
			low = k
		} else {
			high = k
		}
	}
	return unitDeviance(high, mean)
}

// newCountedRows writes the deviance of every row and its exposure (1 if there is none) times the
// exponential of its offset less the typical offset: the exponential of an offset of hundreds alone would
// overflow. A row without a count or a positive exposure, or whose deviance overflows, is unusable. A
// record of several rows is represented by its first row, which was drawn at random.
func (g *scoring) newCountedRows(x table.Data) scoredRows {
	x = x.FirstRows()
	rows := scoredRows{table.Data{Shape: table.Shape{N: x.N, D: 2}, X: [][]float64{x.NewColumn(x.N), x.NewColumn(x.N)}, Y: x.Y, Weight: x.Weight}}
	usable := func(v float64) bool { return v >= 0 && v <= math.MaxFloat64 }
	x.Blocks(func() func(int, table.Data) {
		return func(first int, b table.Data) {
			deviance, exposure := rows.X[0][first:first+b.N], rows.X[1][first:first+b.N]
			g.predict(deviance, b)
			copy(exposure, b.Exposure)
			for i, y := range b.Y {
				if b.Exposure == nil {
					exposure[i] = 1
				}
				deviance[i] = unitDeviance(y, exposure[i]*math.Exp(deviance[i]))
				if b.Offset != nil {
					exposure[i] *= math.Exp(b.Offset[i] - g.CentreOffset)
				}
				if !(usable(deviance[i]) && usable(y) && usable(exposure[i]) && exposure[i] > 0) {
					deviance[i], exposure[i], b.Y[i] = math.NaN(), math.NaN(), math.NaN()
				}
			}
		}
	})
	return rows
}

// maxExposures is the largest exposure, as a multiple of the typical one, of a row with full weight in the
// rate.
const maxExposures = 4

// compareWithRate releases the rate of counts and the histogram of deviances with that rate, and replaces
// exposures by these deviances.
func (m *measured) compareWithRate(rows scoredRows, src *mech.Source) {
	m.centre, m.rateDoubt = m.rate(rows, m.targets.Edge(), src)
	rows.Blocks(func() func(int, table.Data) {
		return func(_ int, b table.Data) {
			for i, y := range b.Y {
				if b.X[1][i] = unitDeviance(y, b.X[1][i]*m.centre); !(b.X[1][i] <= math.MaxFloat64) {
					b.X[0][i], b.X[1][i], b.Y[i] = math.NaN(), math.NaN(), math.NaN()
				}
			}
		}
	})
	alone := scoredRows{table.Data{Shape: table.Shape{N: rows.N, D: 1}, X: rows.X[1:], Y: rows.Y}}
	m.deviations = m.histogram(deviationsRelease, alone, m.Scale, src, func(e, _ float64) float64 { return e })
}

// rate releases the mean count over the mean exposure; long exposures have lower weights, and counts are
// clipped. doubt is the standard deviation of the noise of the mean count, as a fraction of the released
// mean less two such deviations: if the mean is mostly noise, the released value is of the size of the
// noise.
func (g *scoring) rate(rows scoredRows, cut float64, src *mech.Source) (rate, doubt float64) {
	sums := table.Parts[*mech.Sum]{Total: mech.NewSum(g.centreContract())}
	longest := maxExposures * g.Exposure
	rows.Pass(func() func(int, table.Data) {
		s, v, exposures, ones := sums.Fork(), make([]float64, table.BlockRows), make([]float64, table.BlockRows), table.Repeat(1, table.BlockRows)
		return func(_ int, b table.Data) {
			for i, y := range b.Y {
				weight := min(1, longest/b.X[1][i]) * b.WeightOf(i)
				if v[i], exposures[i] = numeric.ClampTo(weight*y, cut)/cut, weight*b.X[1][i]/longest; math.IsNaN(y) {
					v[i], exposures[i] = 0, 0
				}
			}
			s.AddRows(mech.Rows{X: [][]float64{exposures[:b.N], v[:b.N]}}, ones[:b.N])
		}
	})
	total := make([]float64, 2)
	g.noises[centreRelease].Release(total, sums.Merged().Bounded(), src)
	least := 1 / float64(g.shape.N) // least value of a mean after noise
	count, contract := max(total[1], least), g.centreContract()
	deviation := 2 * math.Sqrt(float64(contract.D)) * contract.Bound * g.noises[centreRelease].(mech.Gaussian).NoiseMultiplier / float64(contract.N)
	return count * cut / (max(total[0], least) * longest), deviation / max(count-2*deviation, least)
}

// maxOfRate is the largest share of the deviance with one rate that may be due to the noise of the rate. A
// small relative error of the rate raises the mean deviance by its square times the mean count. Exposures
// that are many times as large as their scale make the counts of rows small.
const maxOfRate = 0.03

const whyNoRate = "noise hides the rate of counts: ask for more eps, or give the exposure a scale that fits"

// rateIsNoise reports whether the noise of the rate has a larger share of the deviance than maxOfRate.
func (m *measured) rateIsNoise() bool {
	return square(m.rateDoubt)*m.targets.Excess(0) > maxOfRate*m.deviations.Excess(0)
}

// devianceExplained is 1 less the mean deviance over the mean deviance with one rate for all rows. Clipping
// one or the other moves the ratio in opposite directions.
func (m *measured) devianceExplained() release.Metric {
	const name = "deviance_explained"
	switch {
	case !m.sizes.Seen():
		return release.Metric{Name: name, WhyNull: whyNoSize}
	case !m.deviations.Seen():
		return release.Metric{Name: name, WhyNull: whyNoSpread}
	case m.rateIsNoise():
		return release.Metric{Name: name, WhyNull: whyNoRate}
	}
	far := cmp.Or(spreads(m.sizes, surelyOfSquares, whyHeavyTail), spreads(m.deviations, surelyOfSquares, whyHeavyY))
	why := cmp.Or(magnitude.Heavy(m.sizes, magnitude.MeanIndex.Coarse, whyHeavyTail), magnitude.Heavy(m.deviations, magnitude.MeanIndex.Coarse, whyHeavyY), far)
	deviance := m.number(0, m.cut)
	return m.metric(quotient{
		name: name, above: linalg.Minus(make([]float64, len(m.means.first)), 1, deviance), below: m.number(1, m.deviationCut), why: why, whyNoValue: whyNoSpread, far: far != "", vague: true,
		off: func(q float64) float64 {
			return max(m.sizes.PowerTail(m.cut, 1, tailAssumption), -q*m.deviations.PowerTail(m.deviationCut, 1, tailAssumption))
		},
		to: func(q float64) float64 { return min(1, 1+q) },
	})
}

package describe

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"

	"dpsidecar/internal/dpsco/magnitude"
	"dpsidecar/internal/dpsco/numeric"
	"dpsidecar/internal/dpsco/release"
	"dpsidecar/internal/dpsco/table"
	"dpsidecar/internal/mech"
)

// Reasons why a figure has no value or no interval.
const (
	whyFewValues = "there are too few values for this eps: ask for more, or for fewer columns"
	whyHidden    = "noise hides how values lie about it: ask for more eps, or for fewer columns"
	whyFewDiffer = "nearly all values are equal, and noise hides the others: ask for more eps, or for fewer columns"
	whyFewCarry  = "a few extreme values may carry it: more eps shows whether they do"
	whyFewHidden = "noise may hide a few extreme values, which would carry the mean: ask for more eps, or for fewer columns, or use the median"
	whyFewLevels = "noise may hide a few larger values, which would carry the mean: have a column of 0 and 1 registered as a category, or shown as a boolean by a view, for shares have intervals; or ask for more eps, or for fewer columns"
	whyBeyond    = "values are beyond 1e18 or -1e18, and none is looked for there: divide the column in a view"
)

// described holds the released means of a description. All its methods are post-processing.
type described struct {
	*describing
	means []float64
	layout
	noise float64 // standard deviation of the noise of a mean
}

// read combines the released means with their layout and noise.
func (g *describing) read(means []float64) described {
	return described{g, means, g.layout(), meanNoise(g.averages, g.contract())}
}

// meanNoise returns the standard deviation of the noise of a mean. For Laplace noise it is the
// standard deviation of the normal law with the same 95 % interval.
func meanNoise(noise mech.Mechanism, c mech.Contract) float64 {
	if noise, pure := noise.(mech.Laplace); pure {
		return noise.MeanScale(c) * math.Log(20) / 1.96
	}
	return noise.(mech.Gaussian).NoiseMultiplier * 2 * c.Bound * math.Sqrt(float64(c.D)) / float64(c.N)
}

// interval returns a figure with value and its 95 % interval for a normal error with the given
// standard deviation. Value and ends are mapped into the range of the statistic by within.
func interval(value, deviation float64, within func(float64) float64) release.Figure {
	value = within(value)
	return release.Figure{Value: release.Finite(value), Low: release.Finite(within(value - 1.96*deviation)), High: release.Finite(within(value + 1.96*deviation))}
}

func toShare(v float64) float64 { return numeric.ClampBetween(v, 0, 1) }

// shareOf returns the share of rows with a property, from the mean of an indicator that is 1 or -1.
func (d described) shareOf(mean float64) release.Figure {
	p := (1 + mean) / 2
	return interval(p, math.Hypot(d.noise/2, math.Sqrt(toShare(p)*(1-toShare(p))/float64(d.shape.N))), toShare)
}

// usable returns the released share of rows with a value in the column, and the standard deviation
// of its noise.
func (d described) usable(column int) (share, deviation float64) {
	return (1 + d.means[d.start[column]]) / 2, d.noise / 2
}

// values returns the estimated number of values in the column.
func (d described) values(column int) float64 {
	share, _ := d.usable(column)
	return share * float64(d.shape.N)
}

// trueShare returns the share of true among the values of a boolean column.
func (d described) trueShare(column int) release.Figure {
	m, noise := d.usable(column)
	if !(m > numeric.MinDenominator*noise) {
		return release.Figure{WhyNull: whyFewValues}
	}
	s := d.means[d.start[column]+1]
	p := (1 + s/m) / 2
	sampling := toShare(p) * (1 - toShare(p)) / m / float64(d.shape.N)
	return interval(p, math.Sqrt(sampling+square(d.noise/2/m)+square(s/2/m/m*noise)), toShare)
}

// levelShare returns the share, among the values of the column, of a level with the given released count.
func (d described) levelShare(column int, rows float64) release.Figure {
	m, noise := d.usable(column)
	if !(m > numeric.MinDenominator*noise) {
		return release.Figure{WhyNull: whyFewValues}
	}
	n := float64(d.shape.N)
	p := rows / n / m
	sampling := toShare(p) * (1 - toShare(p)) / m / n
	return interval(p, math.Sqrt(sampling+square(d.distanceStdDev()/n/m)+square(p*noise/m)), toShare)
}

// mean returns the mean of a column of numbers, whose values were clamped at c. The histogram of
// sizes bounds the bias from clamping.
func (d described) mean(column int, at place, c cutAt, sizes *magnitude.Histogram) release.Figure {
	m, noise := d.usable(column)
	switch {
	case !(m > numeric.MinDenominator*noise), !(d.values(column) > d.needs(column, 25, at.quartiles)): // centre and cut may be anywhere
		return release.Figure{WhyNull: whyFewValues}
	case slices.ContainsFunc(at.quartiles, d.quartiles.Beyond):
		return release.Figure{WhyNull: whyBeyond}
	case !sizes.Seen():
		return release.Figure{WhyNull: whyHidden}
	case sizes.Top() <= minEdge: // values other than the median are hidden, and the cut is far below the quartiles
		if at.quartiles[0] == at.quartiles[2] {
			return release.Figure{WhyNull: whyFewDiffer}
		}
		return release.Figure{WhyNull: whyHidden}
	case sizes.Top() == magnitude.Bins-1: // the last bin, which has no upper edge, is visible, as where a quartile lies between an atom and the other values
		return release.Figure{WhyNull: whyFewCarry}
	}
	n := float64(d.shape.N)
	t, squares := d.means[d.start[column]+1]/m, (d.means[d.start[column]+2]/m+1)/2
	f := release.Figure{Value: release.Finite(c.centre + c.cut*numeric.ClampTo(t, 1))}
	if why := magnitude.Heavy(sizes, magnitude.MeanIndex.Coarse, whyFewHidden); why != "" {
		if f.WhyNull = why; d.columns[column].Whole && at.quartiles[2]-at.quartiles[0] <= 1 {
			f.WhyNull = whyFewLevels
		}
		return f
	}
	sampling := max(0, squares-t*t) / m / n
	variance := sampling + square(d.noise/m) + square(t*noise/m)
	df := max(1, 2*square(variance/(d.noise/2/m/m/n)))
	half := numeric.HalfWidth(c.cut*math.Sqrt(variance), df, magnitude.BiasShare*sizes.PowerTail(c.cut, 1, magnitude.IndexTail)/m)
	f.Low, f.High = release.Finite(c.centre+c.cut*t-half), release.Finite(c.centre+c.cut*t+half)
	return f
}

// describe makes the releases and computes the figures from them.
func (g *describing) describe(ctx context.Context, x table.Data, src *mech.Source) ([]release.Figure, error) {
	x = allColumns(x)
	three, err := g.selectQuartiles(ctx, x, src)
	if err != nil {
		return nil, err
	}
	var counts [][]float64
	at, cuts, sizes := make([]place, len(three)), make([]cutAt, len(three)), make([]*magnitude.Histogram, len(three))
	for k, q := range three {
		at[k] = g.placeOf(g.numericColumns[k], q)
	}
	if g.distances != nil {
		counts = g.countDistances(x, at, src)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	for k := range at {
		sizes[k] = g.sizes(counts[k], at[k])
		cuts[k] = cutAt{at[k].median(), g.cheapest(sizes[k])}
	}
	d := g.read(g.average(x, cuts, src))
	return d.figures(at, counts, cuts, sizes), nil
}

// sizes returns the histogram of absolute distances from the median.
func (g *describing) sizes(counts []float64, at place) *magnitude.Histogram {
	either := make([]float64, magnitude.Bins)
	for bin := range at.bins() {
		low, high := at.ends(bin)
		either[at.sizeBin(low, high)] += counts[bin]
	}
	return magnitude.Read(either, math.Sqrt2*g.distanceStdDev(), at.unit, math.Inf(1), float64(g.shape.N)).AsRun()
}

// distanceStdDev returns magnitude.CountStdDev of the histograms of distances, which are released together.
func (g *describing) distanceStdDev() float64 {
	one, columns := magnitude.CountStdDev(g.distances, 1, magnitude.LaplaceTail), float64(g.histograms())
	if _, pure := g.distances.(mech.Laplace); pure {
		return one * columns
	}
	return one * math.Sqrt(columns)
}

// cheapest returns the cut that minimises the squared noise of the mean plus the squared bias from clamping.
func (g *describing) cheapest(sizes *magnitude.Histogram) float64 {
	deviation := meanNoise(g.averages, g.contract())
	return sizes.CheapestCut(func(cut float64) float64 {
		return square(deviation*cut) + square(sizes.PowerTail(cut, 1, magnitude.IndexTail))
	})
}

// figures lists all figures: those of the columns in their order, then the share of complete rows.
func (d described) figures(at []place, counts [][]float64, cuts []cutAt, sizes []*magnitude.Histogram) (all []release.Figure) {
	add := func(column, statistic string, f release.Figure) {
		f.Column, f.Statistic = column, statistic
		all = append(all, f)
	}
	k, counted := 0, len(d.numericColumns)
	for j, c := range d.columns {
		add(c.Name, "usable_share", d.shareOf(d.means[d.start[j]]))
		switch c.kind() {
		case flagColumn:
			add(c.Name, "true_share", d.trueShare(j))
			continue
		case categoryColumn:
			for i, level := range c.Levels {
				add(c.Name, "share of "+level, d.levelShare(j, counts[counted][i]))
			}
			counted++
			continue
		}
		add(c.Name, "mean", d.mean(j, at[k], cuts[k], sizes[k]))
		for i, name := range []string{"quartile_1", "median", "quartile_3"} {
			add(c.Name, name, d.quantile(j, i, at[k], counts[k]))
		}
		k++
	}
	add("", "complete_share", d.shareOf(d.means[0]))
	return all
}

// suggest makes the releases and computes the scales from them.
func (g *describing) suggest(ctx context.Context, x table.Data, src *mech.Source) (all []release.Scale, err error) {
	x = allColumns(x)
	three, err := g.selectQuartiles(ctx, x, src)
	if err != nil {
		return nil, err
	}
	d, k := g.read(g.average(x, nil, src)), 0
	for j, c := range g.columns {
		if kind := c.kind(); kind != numberColumn {
			note := map[bool]string{true: "boolean: it needs no scale", false: "a category: it needs no scale"}[kind == flagColumn]
			all = append(all, release.Scale{Column: c.Name, Scale: release.Finite(1), Center: release.Finite(0), Note: note})
			continue
		}
		all = append(all, d.scaleOf(j, three[k]))
		k++
	}
	return all, nil
}

// A column gets a centre if its median is more than farFromZero interquartile ranges away from zero
// and more than fewZeros of its values are not zero.
const (
	farFromZero = 4
	fewZeros    = 0.95
)

// scaleOf returns the scale of a column of numbers; q holds the quartiles of its nonzero values.
func (d described) scaleOf(column int, q []float64) release.Scale {
	s := release.Scale{Column: d.columns[column].Name}
	n := float64(d.shape.N)
	there, _ := d.usable(column)
	nonzero := (1 + d.means[d.start[column]+1]) / 2
	if needed := d.needs(column, 25, q); !(nonzero*n > needed) {
		s.Note = fmt.Sprintf("too few values that are not 0 to see how large they are: %.0f are needed at this eps and for so many columns; keep what is registered, or ask for more eps or fewer columns", math.Ceil(needed))
		return s
	}
	largest := max(math.Abs(q[0]), math.Abs(q[2]))
	if largest == 0 {
		s.Note = "its values are nearer to 0 than 1e-15: register a view that multiplies them"
		return s
	}
	if d.quartiles.Beyond(largest) {
		s.Note = "a quarter of its values or more are beyond 1e18 or -1e18: register a view that divides them"
		return s
	}
	digits := digitsToTell(q[0], q[2])
	if s.Note = fmt.Sprintf("half of its values%s lie between %s and %s", exceptZeros(nonzero/there), inDigits(q[0], digits), inDigits(q[2], digits)); q[0] == q[2] {
		s.Note = fmt.Sprintf("half of its values%s are %s", exceptZeros(nonzero/there), inDigits(q[0], digits))
	}
	if spread := q[2] - q[0]; spread > 0 && math.Abs(q[1]) > farFromZero*spread && nonzero > fewZeros*there {
		scale := roundScale(spread / 1.35) // the standard deviation of a normal law with this interquartile range
		s.Scale, s.Center = release.Finite(scale), release.Finite(math.Round(q[1]/scale)*scale)
		return s
	}
	s.Scale, s.Center = release.Finite(roundScale(largest)), release.Finite(0)
	return s
}

// exceptZeros returns a phrase for the note if fewer than about fewZeros of the values are nonzero.
func exceptZeros(nonzero float64) string {
	if nonzero > fewZeros {
		return ""
	}
	return fmt.Sprintf(" that are not 0, about %s %% of all,", strconv.FormatFloat(100*max(nonzero, 0), 'g', 2, 64))
}

// digitsToTell returns the number of significant digits, at least four, with which two numbers are formatted so
// that their difference has two.
func digitsToTell(low, high float64) int {
	if low == high {
		return 4
	}
	return max(4, 2+int(math.Ceil(math.Log10(max(math.Abs(low), math.Abs(high))/(high-low)))))
}

// inDigits formats a number with the given number of significant digits.
func inDigits(v float64, digits int) string {
	short, err := strconv.ParseFloat(strconv.FormatFloat(v, 'g', digits, 64), 64)
	if size := math.Abs(short); err != nil || size != 0 && (size < 1e-4 || size >= 1e15) {
		return strconv.FormatFloat(v, 'g', digits, 64)
	}
	return strconv.FormatFloat(short, 'f', -1, 64)
}

// roundScale returns the number nearest to v, by ratio, of the form 1, 2 or 5 times a power of ten.
func roundScale(v float64) float64 {
	best, off := 0.0, math.Inf(1)
	exponent := int(math.Floor(math.Log10(v)))
	for _, digit := range []int{1, 2, 5, 10} {
		u, err := strconv.ParseFloat(fmt.Sprintf("%de%d", digit, exponent), 64)
		if away := math.Abs(math.Log(u / v)); err == nil && away < off {
			best, off = u, away
		}
	}
	return best
}

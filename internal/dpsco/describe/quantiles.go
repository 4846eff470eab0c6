package describe

import (
	"cmp"
	"math"
	"slices"

	"dpsidecar/internal/dpsco/magnitude"
	"dpsidecar/internal/dpsco/release"
)

// quantile returns quartile number k. Its interval ends at the values that are as many rows away as
// sampling and selection may shift the quartile.
func (d described) quantile(column, k int, at place, counts []float64) release.Figure {
	values, percent, value := d.values(column), percents[k], at.quartiles[k]
	if !(values > d.needs(column, percent, at.quartiles)) {
		return release.Figure{WhyNull: whyFewValues}
	}
	if d.quartiles.Beyond(value) {
		return release.Figure{WhyNull: whyBeyond}
	}
	p, rows, selected := float64(percent)/100, d.rowsOff(percent, values, 0), float64(likelyOffRanks)
	w := walk{place: at, counts: counts, noise: d.distanceStdDev()}
	if w.seen(k, -1) > p*values+farOff*rows || w.seen(k, 1) > (1-p)*values+farOff*rows {
		return release.Figure{WhyNull: whyFewValues}
	}
	if math.Abs(value) < 2*max(at.gap(k, 1), at.gap(k, -1))*rows/(values/4) && counts[k] < rows {
		rows, selected = d.rowsOff(percent, values, zeroRanks), selected+zeroRanks
	}
	w.beside = counts[k] <= rows && slices.Max(counts[:len(percents)]) > rows
	end := func(beyond, side float64) float64 { return w.outward(k, rows, beyond, side, true) }
	if !w.atoms(rows, values) {
		end = func(beyond, side float64) float64 { // some of the rows may still be equal
			least := w.outward(k, selected/d.quartiles.Epsilon, beyond, side, true)
			return side * max(side*least, side*w.outward(k, rows, beyond, side, false))
		}
	}
	low, high := end(p*values, -1), end((1-p)*values, 1)
	if d.columns[column].Whole {
		value, low, high = math.Round(value), math.Floor(low), math.Ceil(high)
	}
	f := release.Figure{Value: release.Finite(value), Low: release.Finite(min(low, value)), High: release.Finite(max(high, value))}
	if f.Low == nil || f.High == nil {
		f.Low, f.High, f.WhyNull = nil, nil, whyHidden
	}
	return f
}

// offRanks / Epsilon bounds the rank error of a selected quantile in 95 of 100 cases. It exceeds likelyOffRanks = 2 ln
// 20, which would do if all numbers were as likely, because the selection gives more weight to numbers with few
// digits. The grid has numbers of 15 decades next to 0, which together weigh some 30 times those next to another
// quartile: 2 ln 30 = zeroRanks more, unless many values are 0.
const (
	offRanks       = 9
	likelyOffRanks = 6
	zeroRanks      = 7
)

// farOff times the rows that a quartile may be off are more than it is: where the histogram shows so many, it is no
// quartile.
const farOff = 2

// rowsOff returns by how many rows a quantile of so many values may be off: by sampling and by its selection, with
// more ranks than usual.
func (g *describing) rowsOff(percent int, values, more float64) float64 {
	p := float64(percent) / 100
	return math.Hypot(1.96*math.Sqrt(values*p*(1-p)), (offRanks+more)/g.quartiles.Epsilon)
}

// walk accumulates counts outward from a quartile.
type walk struct {
	place
	counts []float64
	noise  float64 // standard deviation of a count's noise
	beside bool    // a quartile is equal to many rows, and the one to walk from to few beyond those that others stand for: there may be a long stretch without rows between them
}

// atoms reports whether more rows than the given ones are equal: to a quartile, or as far as a count says that is
// far above that of so short a stretch of values that are spread evenly.
func (w walk) atoms(rows, values float64) bool {
	for k := range w.quartiles {
		if w.counts[k] > rows {
			return true
		}
	}
	heavy := func(first, last int) bool { // the values between two cuts, by number
		width, count := w.cuts[last]-w.cuts[first], 0.0
		for at := first; at < last; at++ {
			count += w.stretch(at)
		}
		even := max(values/4/w.gap(1, sign(w.cuts[first] >= w.median())), w.density(first, -1, width), w.density(last-1, 1, width))
		return count > 2*even*width+rows/2+3*w.noise
	}
	for at := range w.cuts[1:] {
		if heavy(at, at+1) || at > 0 && slices.Contains(w.quartiles[:], w.cuts[at]) && heavy(at-1, at+1) {
			return true // a quartile divides equal values in two stretches, neither of which is heavy beside the other
		}
	}
	return false
}

// stretch returns the count of the values between cut number at and the next.
func (w walk) stretch(at int) float64 { return w.counts[len(w.quartiles)+at+1] }

// density returns the rows by distance next to the values between cut number at and the next, on one side, in a
// stretch at least as wide, as far as there is one.
func (w walk) density(at, side int, width float64) float64 {
	rows, there := 0.0, 0.0
	for k := at + side; k >= 0 && k+1 < len(w.cuts) && there < width; k += side {
		rows, there = rows+w.stretch(k), there+w.cuts[k+1]-w.cuts[k]
	}
	return rows / max(there, width)
}

// surelyFarther is the number of standard deviations of noise that are allowed for in the number of all rows beyond a value.
const surelyFarther = 3

// manyBins is the number of bins from which on outward allows for twice the noise in a stretch that may hold no rows: the more
// of them it passes, the likelier the noise up to one of them is as large as the rows that are to be passed.
const manyBins = 16

// allowance returns what outward allows for the noise in the count of so many bins: one standard deviation, or up to two in a stretch that may hold no rows.
func (w walk) allowance(bins float64) float64 {
	deviation := w.noise * math.Sqrt(bins)
	if w.beside {
		deviation *= 1 + min(1, bins/manyBins)
	}
	return deviation
}

// outward returns the end of the interval of quartile k: the distance up to which the given number of rows lies with
// confidence, linearly within a bin, or the end of one if whole, as all rows of a bin may be equal to it; and beyond
// that what the grid takes. It returns the quartile itself, or what the grid takes from there, if, with confidence,
// fewer than beyond - rows rows lie beyond it, which means that many rows are equal to it, and an infinity if the
// noise hides the end. side is 1 for upward and -1 for downward.
func (w walk) outward(k int, rows, beyond, side float64, whole bool) float64 {
	q := w.quartiles[k]
	if w.beyond(q, side) < beyond-rows {
		return q
	}
	passed, bins, at := 0.0, 0.0, q
	for _, b := range w.outer(side, whole) {
		if side*(b.far-q) <= w.off[k] {
			continue
		}
		missing := rows + w.allowance(bins) - passed
		surely := b.count - w.allowance(b.bins)
		passed, bins = passed+b.count, bins+b.bins
		switch {
		case whole && passed-w.allowance(bins) >= rows:
			return b.far + side*w.off[k]
		case !whole && surely >= missing && !math.IsInf(b.far, 0):
			return at + (b.far-at)*max(missing/surely, 0) + side*w.off[k]
		}
		at = b.far
	}
	if passed+w.allowance(bins) < beyond-rows {
		return q + side*w.off[k]
	}
	return math.Inf(int(side))
}

// beyond returns an upper bound on the number of rows beyond v.
func (w walk) beyond(v, side float64) float64 {
	rows, bins := 0.0, 0.0
	for _, b := range w.outer(side, true) {
		if side*(b.far-v) > 0 {
			rows, bins = rows+b.count, bins+b.bins
		}
	}
	return rows + surelyFarther*w.noise*math.Sqrt(bins)
}

// seen returns a lower bound on the number of rows beyond quartile k, from the bins that stand out from the noise. It
// leaves out the bins next to it, whose rows may be equal to it but for the rounding to the grid.
func (w walk) seen(k int, side float64) float64 {
	rows, bins := 0.0, 0.0
	v, off := w.quartiles[k], w.off[k]
	for bin, count := range w.counts[:w.bins()] {
		low, high := w.ends(bin)
		if apart := side > 0 && low > v+off || side < 0 && high < v-off; apart && count > magnitude.SeenRun*w.noise {
			rows, bins = rows+count, bins+1
		}
	}
	return rows - surelyFarther*w.noise*math.Sqrt(bins)
}

// outerBin is a bin, or several next to each other, with its end that is farther out.
type outerBin struct{ far, count, bins float64 }

// outer returns the bins outward, for side 1 upward and for side -1 downward: each of them, or those
// between two edges together.
func (w walk) outer(side float64, each bool) (all []outerBin) {
	for bin := range w.bins() {
		low, high := w.ends(bin)
		b := outerBin{high, w.counts[bin], 1}
		if side < 0 {
			b.far = low
		}
		if !each {
			b.far = w.edge(b.far, side)
		}
		all = append(all, b)
	}
	slices.SortStableFunc(all, func(a, b outerBin) int { return cmp.Compare(side*a.far, side*b.far) })
	merged := all[:1]
	for _, b := range all[1:] {
		if last := &merged[len(merged)-1]; last.far == b.far {
			last.count, last.bins = last.count+b.count, last.bins+1
		} else {
			merged = append(merged, b)
		}
	}
	return merged
}

// edge returns the nearest edge from v outward.
func (w walk) edge(v, side float64) float64 {
	at, there := slices.BinarySearch(w.edges, v)
	switch {
	case there:
		return v
	case side > 0 && at < len(w.edges):
		return w.edges[at]
	case side < 0 && at > 0:
		return w.edges[at-1]
	}
	return math.Inf(int(side))
}

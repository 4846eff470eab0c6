package dpsco

import (
	"math"
	"slices"

	"dpsidecar/internal/mech"
)

// magnitudeBins is how many bins halfOctaves has.
const magnitudeBins = 50

// magnitudeEdges are the lower edges of all bins but the first, in units;
// magnitudeMiddles stand for what is in a bin.
var magnitudeEdges, magnitudeMiddles = func() (edges [magnitudeBins - 1]float64, middles [magnitudeBins]float64) {
	for k := range edges {
		edges[k] = math.Exp2(float64(lowestOctave+k) / 2)
		middles[k] = edges[k] * math.Exp2(-0.25)
	}
	middles[magnitudeBins-1] = edges[magnitudeBins-2] * math.Exp2(0.25)
	return edges, middles
}()

// magnitudes is what a released histogram of magnitudes says. Everything here is
// post-processing.
type magnitudes struct {
	unit     float64
	rows     float64                // of the table
	sd       float64                // of the noise on a count
	seen     bool                   // a bin stands out of the noise; else all rows are taken for one unit
	counted  float64                // rows in the bins that are seen, as a share of all
	share    [magnitudeBins]float64 // of the rows that are seen
	top      int                    // the highest bin that is seen
	last     float64                // its count
	above    float64                // noisy count of as many bins above as hide rows
	hides    int                    // how many that are: three, or more where reach says so
	far      float64                // size up to which rows may be hidden; 0: they lie beyond what is seen
	noisy    [magnitudeBins]float64 // counts as released
	quantity [magnitudeBins]float64 // middles of the bins, in the units of the data
}

// How many deviations of the noise a count must have to be seen: the fullest bin
// of all, one that continues a run of bins, and one that stands alone.
const (
	seenMode  = 4.5
	seenRun   = 3
	seenAlone = 3.5
)

// readMagnitudes reads a histogram of noisy counts whose noise has standard
// deviation sd, up to limit: what is larger is not looked at.
func readMagnitudes(noisy []float64, sd, unit, limit, rows float64) *magnitudes {
	m := &magnitudes{unit: unit, rows: rows, sd: sd, hides: 3}
	for k, middle := range magnitudeMiddles {
		m.quantity[k] = middle * unit
	}
	mode := 0
	for k, v := range noisy {
		if k > 0 && magnitudeEdges[k-1]*unit >= limit {
			noisy[k] = 0
		} else if v > noisy[mode] {
			mode = k
		}
	}
	m.seen = noisy[mode] > seenMode*sd
	if !m.seen {
		noisy, mode = make([]float64, magnitudeBins), 1-lowestOctave
		noisy[mode] = m.rows
	}
	copy(m.share[:], noisy)
	m.top = mode
	return m
}

// By how many times rows must be longer than a bound that fits their scales to show that these are far too small.
// Skewed features, and such as are far from 0, make most rows a few times longer; Newton's start makes up for those worse than JointMoments.
const (
	jointTooLong  = 10
	newtonTooLong = 30
)

// readLengths reads a histogram of the lengths of rows of d coordinates, and says how many times longer than bound
// half of all rows are at least, if that is more than tooLong, and 1 if not.
func readLengths(noisy []float64, noise mech.Gaussian, d int, bound, tooLong, rows float64) (lengths *magnitudes, longer float64) {
	sd := noise.NoiseMultiplier * math.Sqrt2
	limit, longer := longest(d), 1.0
	if all := readMagnitudes(slices.Clone(noisy), sd, 1, math.Inf(1), rows).apart(); all.seen && all.counted >= 0.5 {
		if typical := all.quantile(1 - 0.5/all.counted); typical > tooLong*bound {
			limit, longer = max(limit, 4*typical), typical/bound
		}
	}
	return readMagnitudes(noisy, sd, 1, limit, rows).apart(), longer
}

// beyond is what the histogram would say if the count above what is seen were by so many
// deviations of its noise larger.
func (m *magnitudes) beyond(deviations float64) *magnitudes {
	other := *m
	if m.seen {
		other.above = max(0, m.above+deviations*m.aboveDeviation())
	}
	return &other
}

// again is another release of the histogram, by fixed numbers for its noise: what is seen, and a tail of what may be hidden, without the
// noise that is taken for it, are taken for the rows. draw is one of as many as one likes.
func (m *magnitudes) again(draw int) *magnitudes {
	if !m.seen {
		return m
	}
	counts := make([]float64, magnitudeBins)
	for k, share := range m.share {
		counts[k] = share * m.counted * m.rows
	}
	rows, exponent := m.hidden(cutsHide)
	ratio, last := math.Exp2(-exponent/2), magnitudeBins
	if m.far > 0 {
		ratio, last = 1, min(m.top+1+m.hides, magnitudeBins)
	}
	// The rows that hidden tells are those of the bins that count for it.
	first := 0.0
	for k := range m.hides {
		first += math.Pow(ratio, float64(k))
	}
	for k := m.top + 1; k < last; k++ {
		counts[k] += rows / first * math.Pow(ratio, float64(k-m.top-1))
	}
	for k := range counts {
		counts[k] += m.sd * normalNodes[(draw*(2*k+1)*2+k*k)%len(normalNodes)]
	}
	other := readMagnitudes(counts, m.sd, m.unit, math.Inf(1), m.rows).run()
	other.reach(m.far)
	return other
}

// run keeps the bins around the mode, with gaps of one at most, and
// what stands out as the mode must, as an atom at zero does. It is for residuals, whose law has one piece
// but for such, and others where the target is rarely not zero.
func (m *magnitudes) run() *magnitudes {
	visible := func(k int) bool { return k >= 0 && k < magnitudeBins && m.share[k] > seenRun*m.sd }
	keep, mode := make([]bool, magnitudeBins), m.top
	keep[mode] = true
	for _, step := range []int{1, -1} {
		for k := mode + step; visible(k) || visible(k+step) && k >= 0 && k < magnitudeBins; k += step {
			keep[k] = m.share[k] > 0
		}
	}
	last := magnitudeBins
	for k := range keep {
		least := seenMode + seenFarther*float64(max(0, k-last-1))
		if keep[k] = keep[k] || m.share[k] > least*m.sd; keep[k] {
			last = k
		}
	}
	return m.keep(keep)
}

// seenFarther is by how many deviations more a bin must stand out for each half octave that
// lies between it and what is seen below: what noise makes of a far bin costs the most, for
// bounds go there.
const seenFarther = 0.1

// apart keeps the bins that stand out, wherever they are. It is for lengths of rows: a
// rare flag lies far from the others.
func (m *magnitudes) apart() *magnitudes {
	keep, last := make([]bool, magnitudeBins), m.top
	for k := range keep {
		least := seenAlone + seenFarther*float64(max(0, k-last-1))
		if keep[k] = k == m.top || m.share[k] > least*m.sd; keep[k] {
			last = max(last, k)
		}
	}
	return m.keep(keep)
}

// keep normalises what is kept, and notes what is above it.
func (m *magnitudes) keep(kept []bool) *magnitudes {
	counts := m.share
	m.noisy = counts
	total := 0.0
	for k := range m.share {
		if m.share[k] = 0; kept[k] && counts[k] > 0 {
			m.share[k], m.top = counts[k], k
			total += counts[k]
		}
	}
	m.counted, m.last = total/m.rows, max(counts[m.top], 1)
	for k := range m.share {
		m.share[k] /= total
	}
	if m.seen {
		m.countAbove()
	}
	return m
}

// countAbove counts what the bins above show that may hide rows.
func (m *magnitudes) countAbove() {
	m.above = 0
	for _, v := range m.noisy[m.top+1 : min(m.top+1+m.hides, magnitudeBins)] {
		m.above += v
	}
	m.above = max(0, m.above)
}

// aboveDeviation is the standard deviation of the noise in that.
func (m *magnitudes) aboveDeviation() float64 { return m.sd * math.Sqrt(float64(m.hides)) }

// reach says that rows may be hidden up to a size: a few that are far larger than all others, as where a
// label is rare, are no tail of what is seen, and lie in any bin between.
func (m *magnitudes) reach(size float64) {
	if m.seen && size > m.edge() {
		m.far = size
		m.hides = max(m.hides, min(sizeBin(size/m.unit), magnitudeBins-1)-m.top)
		m.countAbove()
	}
}

// reachOf is the mean of what other says of rows, of those for which that is beyond all that is seen; 0 where there are none.
func (m *magnitudes) reachOf(other func(v float64) float64) float64 {
	rows, sum := 0.0, 0.0
	for k, share := range m.share {
		if size := other(m.quantity[k]); share > 0 && size > m.edge() {
			rows, sum = rows+share, sum+share*size
		}
	}
	return sum / max(rows, math.SmallestNonzeroFloat64)
}

// How large a part of what is seen must be at least how large a part of a scale for that to be typical.
const (
	typicalShare = 0.25
	typicalPart  = 0.125
)

// rarelyAsLargeAs reports whether hardly anything that is seen is about as large as a scale.
func (m *magnitudes) rarelyAsLargeAs(scale float64) bool {
	return m.seen && 1-m.below(typicalPart*scale) < typicalShare
}

// hiddenFrom is where the tail of what may be hidden begins.
func (m *magnitudes) hiddenFrom() float64 { return max(m.edge(), m.far) }

// Noise hides some rows of any table: all are taken to say something unless more than
// mostUnseen of them are not seen, and mostUnseenByNoise deviations of a count.
const (
	mostUnseen        = 0.2
	mostUnseenByNoise = 20
)

// said is the share of rows that say something. What is seen is about those, and second moments
// are about all rows.
func (m *magnitudes) said() float64 {
	if 1-m.counted > mostUnseen+mostUnseenByNoise*m.sd/m.rows {
		return m.counted
	}
	return 1
}

// edge is the upper end of the highest bin that is seen.
func (m *magnitudes) edge() float64 { return magnitudeEdges[min(m.top, magnitudeBins-2)] * m.unit }

// quantile returns the middle of the bin in which the p-quantile lies.
func (m *magnitudes) quantile(p float64) float64 {
	sum := 0.0
	for k, share := range m.share {
		if sum += share; sum >= p {
			return m.quantity[k]
		}
	}
	return m.quantity[m.top]
}

// below returns the share of what is seen that lies below v.
func (m *magnitudes) below(v float64) float64 {
	return m.mean(func(u float64) float64 {
		if u < v {
			return 1
		}
		return 0
	})
}

// upTo is the share of what is seen up to v, with bins that are filled evenly by logarithm.
func (m *magnitudes) upTo(v float64) float64 {
	return m.mean(func(u float64) float64 { return clampBetween(0.5+2*math.Log2(v/u), 0, 1) })
}

// mean is that of f over what is seen.
func (m *magnitudes) mean(f func(v float64) float64) (sum float64) {
	for k, share := range m.share {
		if share > 0 {
			sum += share * f(m.quantity[k])
		}
	}
	return sum
}

// excess is the mean of (v - cut)+ of what is seen; excessSquare that of (v^2 - cut^2)+.
func (m *magnitudes) excess(cut float64) float64 {
	return m.mean(func(v float64) float64 { return max(0, v-cut) })
}

func (m *magnitudes) excessSquare(cut float64) float64 {
	return m.mean(func(v float64) float64 { return max(0, v*v-cut*cut) })
}

// standsOut is the count above what is seen in deviations of its noise.
func (m *magnitudes) standsOut() float64 { return m.above / m.aboveDeviation() }

// cautious says how much a histogram is taken to hide: rows, in deviations of its
// noise, and the largest exponent of their Pareto tail.
type cautious struct{ deviations, steepest float64 }

// hidden returns how many rows may lie beyond what is seen, and the exponent of
// their tail. It goes by the last rows that are seen; beyond a reach it is farExponent at least, for rows there do not continue these.
func (m *magnitudes) hidden(c cautious) (rows, exponent float64) {
	rows = min(m.above+c.deviations*m.aboveDeviation(), m.rows/4)
	least := 1.5
	if m.far > m.edge() {
		least = farExponent
	}
	return rows, clampBetween(2*math.Log2((m.last+rows)/rows), least, c.steepest)
}

const farExponent = 2.5

// tail is the mean of (v - cut)+: of what is seen, and of a Pareto tail of what
// may be hidden.
func (m *magnitudes) tail(cut float64, c cautious) float64 {
	rows, a := m.hidden(c)
	share, edge := rows/m.rows, m.hiddenFrom()
	if cut >= edge {
		return m.excess(cut) + share*math.Pow(cut/edge, -a)*cut/(a-1)
	}
	return m.excess(cut) + share*(edge-cut+edge/(a-1))
}

// spreadStandsOut is by how many deviations of their noise the counts stand out from three bins after the beginning of that tail
// on, over as many bins as show the most: a few rows in each of many bins are no tail that goes on falling.
func (m *magnitudes) spreadStandsOut() (most float64) {
	first, sum := sizeBin(m.hiddenFrom()/m.unit)+3, 0.0
	for k, v := range m.noisy[min(first, magnitudeBins):] {
		sum += v
		most = max(most, sum/(m.sd*math.Sqrt(float64(k+1))))
	}
	return most
}

// tailAlong is the same with what may be hidden as far away as lengths are, in units, that lie beyond all that is seen: of
// these rows the farthest, from any size on no more than the counts from there on, which may hide them, say. 0 where there are none.
func (m *magnitudes) tailAlong(lengths *magnitudes, unit, cut float64, c cautious) float64 {
	counts, bins, last, hidden, excess := 0.0, 0.0, 0, 0.0, 0.0
	for k := magnitudeBins - 1; k >= 0; k-- {
		size := lengths.quantity[k] * unit
		if !(lengths.share[k] > 0 && size > m.edge()) {
			continue
		}
		bin := sizeBin(size / m.unit)
		if bins == 0 {
			last = min(bin+1, magnitudeBins-1) // rows of a bin of lengths lie in two
		}
		for ; last >= bin; last-- {
			counts, bins = counts+m.noisy[last], bins+1
		}
		most := max(0, counts) + c.deviations*m.sd*math.Sqrt(bins)
		rows := clampBetween(most-hidden, 0, lengths.share[k]*lengths.counted*m.rows)
		hidden += rows
		excess += rows * max(0, size-cut)
	}
	if bins == 0 {
		return 0
	}
	return m.excess(cut) + excess/m.rows
}

// trimmed is the mean of (v - cut^2/v)+, what a weight (cut/v)^2 takes away, of what is seen
// and, at most, of a Pareto tail of what may be hidden.
func (m *magnitudes) trimmed(cut float64, c cautious) float64 {
	seen := m.mean(func(v float64) float64 { return max(0, v-cut*cut/max(v, cut)) })
	return seen + m.tail(cut, c) - m.excess(cut)
}

// index is the exponent of the tail over the last two octaves that are seen, with
// what may be hidden beyond.
func (m *magnitudes) index(c cautious) float64 {
	rows, _ := m.hidden(c)
	beyond := 0.0
	for _, share := range m.share[max(m.top-3, 0):] {
		beyond += share
	}
	return math.Log2((beyond*m.counted*m.rows+rows)/rows) / 2
}

// bulk is what is seen up to a gap beyond which lies a group of few rows: more of them than in the gap, by apartBy deviations, which is no
// tail of those below. m itself where there is none.
func (m *magnitudes) bulk() *magnitudes {
	last, below := -1, 0.0
	for k, share := range m.share {
		if share <= 0 {
			continue
		}
		if last >= 0 && k > last+1 && below > 0.5 && m.group(last, k) {
			own := *m
			clear(own.share[k:])
			own.top, own.hides, own.far = last, min(3, k-last-1), 0
			own.countAbove()
			own.hides = 3 // noise is as large as elsewhere
			return &own
		}
		last, below = k, below+share
	}
	return m
}

// group reports whether bin next, or the one after it, has more rows than the bins between last and next in the mean.
func (m *magnitudes) group(last, next int) bool {
	between := 0.0
	for _, v := range m.noisy[last+1 : next] {
		between += v / float64(next-last-1)
	}
	return slices.Max(m.noisy[next:min(next+2, magnitudeBins)])-max(0, between) > apartBy*m.sd
}

// apartBy is three deviations of the difference of two counts.
const apartBy = 3 * math.Sqrt2

// cheapestCut returns the edge with the least cost.
func (m *magnitudes) cheapestCut(cost func(cut float64) float64) float64 {
	best := magnitudeEdges[0] * m.unit
	least := cost(best)
	for _, edge := range magnitudeEdges[1:] {
		if c := cost(edge * m.unit); c < least {
			best, least = edge*m.unit, c
		}
	}
	return best
}

// clampBetween moves v into [low, high].
func clampBetween(v, low, high float64) float64 { return max(low, min(v, high)) }

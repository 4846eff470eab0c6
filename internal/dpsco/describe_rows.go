package dpsco

import (
	"context"
	"math"

	"dpsidecar/internal/mech"
)

// layout gives the positions of the means in the released vector: first the mean of the indicator of
// complete rows, then the means of each column.
type layout struct {
	size  int
	start []int // of each column: usable; then of numbers value and square, or for scales nonzero; of flags true
}

func (g *describing) layout() layout {
	l := layout{size: 1}
	for _, c := range g.columns {
		l.start = append(l.start, l.size)
		l.size++
		switch kind := c.kind(); {
		case kind == number && !g.nonzero:
			l.size += 2
		case kind == number || kind == flag && !g.nonzero:
			l.size++
		}
	}
	return l
}

// table returns a design whose features are all columns of the request, target first.
func table(x Data) Data {
	all := append([][]float64{x.Y}, x.X...)
	return Data{Shape: Shape{N: x.N, D: len(all)}, X: all, Y: x.Y}
}

// isUsable reports whether v is finite, that is, present.
func isUsable(v float64) bool { return math.Abs(v) <= math.MaxFloat64 }

// selectQuartiles releases the three quartiles of every column of numbers, in ascending order.
func (g *describing) selectQuartiles(ctx context.Context, x Data, src *mech.Source) (all [][]float64, err error) {
	for _, j := range g.numbers {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		ranks, three := mech.NewRanks(g.rankContract()), make([]float64, len(percents))
		values := x.X[j]
		if g.nonzero {
			values = withoutZeros(values)
		}
		ranks.Add(values)
		g.quartiles.Release(three, ranks, src)
		all = append(all, sorted(three))
	}
	return all, nil
}

// sorted returns three numbers in ascending order.
func sorted(v []float64) []float64 {
	low, high := min(v[0], v[1], v[2]), max(v[0], v[1], v[2])
	return []float64{low, max(min(v[0], v[1]), min(max(v[0], v[1]), v[2])), high}
}

// withoutZeros returns v with every zero replaced by NaN.
func withoutZeros(v []float64) []float64 {
	rest := make([]float64, len(v))
	for i, x := range v {
		if rest[i] = x; x == 0 {
			rest[i] = math.NaN()
		}
	}
	return rest
}

// signedHalfOctaves are the bins for distances from the median: those of halfOctaves for positive
// distances and their mirror images for negative ones. Distances below leastDistance go into the bin
// next to zero. This leaves bins unused, three of which count the values equal to a quartile: there
// may be many.
var signedHalfOctaves = mech.Bins{Width: 1, Half: 2 * halfOctaves.Half}

// leastDistance is magnitudeEdges[leastEdge].
const (
	leastEdge     = 10
	leastDistance = 0.125
)

// equalBins are the bins of values equal to the first, second and third quartile.
var equalBins = [3]float64{-1.5, 1.5, 2.5}

// place locates the values of a column: distances are from the median, in units of unit.
type place struct {
	unit      float64
	quartiles []float64
}

func (p place) median() float64 { return p.quartiles[1] }

// distance returns the signed distance of v from the median, in units.
func (p place) distance(v float64) float64 { return (v - p.median()) / p.unit }

// bin returns a position inside the bin of signedHalfOctaves that v belongs to; NaN for no bin.
func (p place) bin(v float64) float64 {
	for k, q := range p.quartiles {
		if math.Abs(v-q) <= 0x1p-16*math.Abs(q) {
			return equalBins[k]
		}
	}
	r := p.distance(v)
	switch size := math.Abs(r); {
	case math.IsNaN(r):
		return r
	case size < leastDistance:
		return math.Copysign(0.5, r)
	default:
		return math.Copysign(float64(sizeBin(size))+0.5, r)
	}
}

// sizeBin returns the number of the magnitude bin for a size in units.
func sizeBin(size float64) int {
	return int(clampBetween(math.Floor(halfOctave(size)+float64(halfOctaves.Half)), 0, magnitudeBins-1))
}

// histograms returns the number of histograms: one per column of numbers, then one per category.
func (g *describing) histograms() int { return len(g.numbers) + len(g.levels) }

// bins returns the common bins of all histograms. Positions of levels start at the lowest bin.
func (g *describing) bins() mech.Bins {
	b := signedHalfOctaves
	for _, j := range g.levels {
		b.Half = max(b.Half, (len(g.columns[j].Levels)+1)/2)
	}
	return b
}

// countDistances releases all histograms in one release and returns the counts of each.
func (g *describing) countDistances(x Data, at []place, src *mech.Source) [][]float64 {
	bins := g.bins()
	counts := merging[*mech.Histogram]{total: mech.NewHistogram(bins, x.N, g.histograms())}
	x.each(func() func(int, Data) {
		h, block, ones := counts.fork(), columns(g.histograms(), blockRows), repeat(1, blockRows)
		return func(_ int, b Data) {
			for k, j := range g.numbers {
				for i, v := range b.X[j] {
					block[k][i] = at[k].bin(v)
				}
			}
			for k, j := range g.levels {
				for i, v := range b.X[j] {
					block[len(g.numbers)+k][i] = v + 0.5 - float64(bins.Half)
				}
			}
			h.AddRows(mech.Rows{X: firstRows(block, b.N)}, ones[:b.N])
		}
	})
	size := 2 * bins.Half
	noisy := make([]float64, size*g.histograms())
	g.distances.Release(noisy, counts.merged().Bounded(), src)
	all := make([][]float64, g.histograms())
	for k := range all {
		all[k] = noisy[size*k : size*(k+1)]
		if k < len(g.numbers) {
			all[k] = all[k][bins.Half-signedHalfOctaves.Half : bins.Half+signedHalfOctaves.Half]
		}
	}
	return all
}

// cutAt says where the values of a column are clamped: to [centre-cut, centre+cut].
type cutAt struct{ centre, cut float64 }

// average releases the means. Values enter as (value - centre)/cut, clamped to [-1, 1].
func (g *describing) average(x Data, cuts []cutAt, src *mech.Source) []float64 {
	total, l := merging[*mech.Sum]{total: mech.NewSum(g.contract())}, g.layout()
	x.each(func() func(int, Data) {
		part, block, ones := total.fork(), columns(l.size, blockRows), repeat(1, blockRows)
		return func(_ int, b Data) {
			g.writeNumbers(block, l, b, cuts)
			part.AddRows(mech.Rows{X: firstRows(block, b.N)}, ones[:b.N])
		}
	})
	means := make([]float64, l.size)
	g.averages.Release(means, total.merged().Bounded(), src)
	return means
}

// writeNumbers writes the vectors to be averaged for a block. Indicators are 1 or -1. A missing
// value has -1 as its indicators of usable and, for scales, nonzero, and 0 in all other entries.
func (g *describing) writeNumbers(dst [][]float64, l layout, b Data, cuts []cutAt) {
	complete := dst[0]
	for i := range b.N {
		complete[i] = 1
	}
	column := 0 // index among the columns of numbers
	for j, c := range g.columns {
		kind := c.kind()
		own := dst[l.start[j]:]
		for i, v := range b.X[j] {
			there := isUsable(v)
			if own[0][i] = sign(there); !there {
				complete[i] = -1
			}
			switch {
			case kind == category || kind == flag && g.nonzero:
			case kind == flag:
				own[1][i] = either(there, sign(v != 0))
			case g.nonzero:
				own[1][i] = sign(there && v != 0)
			default:
				t := clampTo((v-cuts[column].centre)/cuts[column].cut, 1)
				own[1][i], own[2][i] = either(there, t), either(there, 2*t*t-1)
			}
		}
		if kind == number {
			column++
		}
	}
}

// sign returns 1 for true, -1 for false.
func sign(so bool) float64 {
	if so {
		return 1
	}
	return -1
}

// either returns v if there is true, else 0.
func either(there bool, v float64) float64 {
	if there {
		return v
	}
	return 0
}

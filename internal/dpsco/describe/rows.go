package describe

import (
	"context"
	"math"
	"slices"

	"dpsidecar/internal/dpsco/magnitude"
	"dpsidecar/internal/dpsco/numeric"
	"dpsidecar/internal/dpsco/table"
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
		case kind == numberColumn && !g.nonzero:
			l.size += 2
		case kind == numberColumn || kind == flagColumn && !g.nonzero:
			l.size++
		}
	}
	return l
}

// allColumns returns a design whose features are all columns of the request, target first.
func allColumns(x table.Data) table.Data {
	all := append([][]float64{x.Y}, x.X...)
	return table.Data{Shape: table.Shape{N: x.N, D: len(all)}, X: all, Y: x.Y}
}

// selectQuartiles releases the three quartiles of every column of numbers, in ascending order.
func (g *describing) selectQuartiles(ctx context.Context, x table.Data, src *mech.Source) (all [][]float64, err error) {
	for _, j := range g.numericColumns {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		ranks, three := mech.NewRanks(g.rankContract(j)), make([]float64, len(percents))
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

// A histogram of the values of a column has placeBins bins: three for the values that are equal to the first, second
// and third quartile, of which there may be many, and the stretches between the cuts of its place. These are the quartiles,
// less than 2 magnitude.Bins at half octaves, and up to 6 fineCuts: some bins stay unused.
const (
	placeBins = 256
	fineCuts  = 24
	fineRatio = 2 // of the distances of two fine cuts next to each other from their quartile
)

// minDistance is magnitude.Edges[minEdge]: below it no edges are cuts.
const (
	minEdge     = 10
	minDistance = 0.125
)

// place locates the values of a column. Its cuts are a public function of the released quartiles.
type place struct {
	unit      float64 // distances from the median are in units of it
	quartiles []float64
	off       []float64 // by how much each quartile may be off because numbers are rounded to the grid
	cuts      []float64 // ascending
	edges     []float64 // those of the cuts that are at half octaves from the median or at a quartile, ascending
}

func (p place) median() float64 { return p.quartiles[1] }

// distance returns the signed distance of v from the median, in units.
func (p place) distance(v float64) float64 { return (v - p.median()) / p.unit }

// bin returns the position of the bin that v belongs to: that of a quartile to which it is equal, or that of the stretch
// from one cut, without it, up to the next, with it. It is -1 if v is not finite.
func (p place) bin(v float64) int {
	if !numeric.IsFinite(v) {
		return -1
	}
	for k, q := range p.quartiles {
		if v == q {
			return k
		}
	}
	at, _ := slices.BinarySearch(p.cuts, v)
	return len(p.quartiles) + at
}

// ends returns the ends of a bin: its values are above low, unless it is that of a quartile, and at most high.
func (p place) ends(bin int) (low, high float64) {
	if bin < len(p.quartiles) {
		return p.quartiles[bin], p.quartiles[bin]
	}
	low, high, bin = math.Inf(-1), math.Inf(1), bin-len(p.quartiles)
	if bin > 0 {
		low = p.cuts[bin-1]
	}
	if bin < len(p.cuts) {
		high = p.cuts[bin]
	}
	return low, high
}

// sizeBin returns the number of the magnitude bin for the distances from the median of a stretch.
func (p place) sizeBin(low, high float64) int {
	size := math.Abs(p.distance((low + high) / 2))
	if size < minDistance {
		return 0
	}
	return magnitude.BinOf(size)
}

// gap returns the distance from quartile k to the next on one side (-1: below), or to that on the other side where
// there is none, between which lies a quarter of the values; half a unit where it is 0.
func (p place) gap(k int, side float64) float64 {
	gap := p.quartiles[1] - p.quartiles[0]
	if k == 2 || k == 1 && side > 0 {
		gap = p.quartiles[2] - p.quartiles[1]
	}
	if gap == 0 {
		gap = p.unit / 2
	}
	return gap
}

// bins returns the number of bins in use.
func (p place) bins() int { return len(p.quartiles) + len(p.cuts) + 1 }

// needs returns how many values a column needs for a quartile near its own: more than usual if the quartiles lie so close to
// each other, far from 0, that few numbers of the grid are near one. q holds the three.
func (g *describing) needs(column, percent int, q []float64) float64 {
	near := math.Inf(1)
	for k := range q[1:] {
		if gap := q[k+1] - q[k]; gap > 0 {
			near = min(near, gap/4)
		}
	}
	return g.quartiles.NeedsAbout(percent, g.rankContract(column), q[1]-near, q[1]+near)
}

// placeOf has the interquartile range as its unit, or the column's scale if that range is zero. It cuts at the quartiles,
// at distances of half octaves from the median, and finer around each quartile: the nearest cut is where as many
// rows as the quartile may be off would end if they were spread evenly between it and the next quartile. Of whole numbers the
// quartiles are: one that is selected between two of them, such as 1e-9 between zeros and ones, would be the unit otherwise.
func (g *describing) placeOf(column int, q []float64) place {
	if q = slices.Clone(q); g.columns[column].Whole {
		for k := range q {
			q[k] = math.Round(q[k])
		}
	}
	p := place{unit: q[2] - q[0], quartiles: q, cuts: slices.Clone(q)}
	if p.unit == 0 {
		p.unit = g.columns[column].Scale
	}
	for _, edge := range magnitude.Edges[minEdge:] {
		p.cuts = append(p.cuts, p.median()-p.unit*edge, p.median()+p.unit*edge)
	}
	slices.Sort(p.cuts)
	p.edges = slices.Compact(slices.Clone(p.cuts))
	for k, v := range q {
		off := g.rankContract(column).Step(v) / 2
		if g.columns[column].Whole && off <= 0.5 {
			off = 0
		}
		p.off = append(p.off, off)
		for _, side := range []float64{-1, 1} {
			gap := p.gap(k, side)
			size := max(off, gap*g.rowsOff(percents[k], float64(g.shape.N), 0)/(float64(g.shape.N)/4))
			for n := 0; n < fineCuts && size < gap; n++ {
				p.cuts = append(p.cuts, v+side*size)
				size *= fineRatio
			}
		}
	}
	slices.Sort(p.cuts)
	p.cuts = slices.Compact(p.cuts)
	return p
}

// histograms returns the number of histograms: one per column of numbers, then one per category.
func (g *describing) histograms() int { return len(g.numericColumns) + len(g.levels) }

// bins returns the common bins of all histograms. Positions of levels start at the lowest bin.
func (g *describing) bins() mech.Bins {
	b := mech.Bins{Width: 1, Half: placeBins / 2}
	for _, j := range g.levels {
		b.Half = max(b.Half, (len(g.columns[j].Levels)+1)/2)
	}
	return b
}

// countDistances releases all histograms in one release and returns the counts of each.
func (g *describing) countDistances(x table.Data, at []place, src *mech.Source) [][]float64 {
	bins := g.bins()
	counts := table.Parts[*mech.Histogram]{Total: mech.NewHistogram(bins, x.N, g.histograms())}
	x.Pass(func() func(int, table.Data) {
		h, block, ones := counts.Fork(), table.NewColumns(g.histograms(), table.BlockRows), table.Repeat(1, table.BlockRows)
		return func(_ int, b table.Data) {
			for k, j := range g.numericColumns {
				for i, v := range b.X[j] {
					block[k][i] = math.NaN()
					if bin := at[k].bin(v); bin >= 0 {
						block[k][i] = float64(bin) + 0.5 - float64(bins.Half)
					}
				}
			}
			for k, j := range g.levels {
				for i, v := range b.X[j] {
					block[len(g.numericColumns)+k][i] = v + 0.5 - float64(bins.Half)
				}
			}
			h.AddRows(mech.Rows{X: table.Heads(block, b.N)}, ones[:b.N])
		}
	})
	size := 2 * bins.Half
	noisy := make([]float64, size*g.histograms())
	g.distances.Release(noisy, counts.Merged().Bounded(), src)
	all := make([][]float64, g.histograms())
	for k := range all {
		all[k] = noisy[size*k : size*(k+1)]
		if k < len(g.numericColumns) {
			all[k] = all[k][:placeBins]
		}
	}
	return all
}

// cutAt says where the values of a column are clamped: to [centre-cut, centre+cut].
type cutAt struct{ centre, cut float64 }

// average releases the means. Values enter as (value - centre)/cut, clamped to [-1, 1].
func (g *describing) average(x table.Data, cuts []cutAt, src *mech.Source) []float64 {
	total, l := table.Parts[*mech.Sum]{Total: mech.NewSum(g.contract())}, g.layout()
	x.Pass(func() func(int, table.Data) {
		part, block, ones := total.Fork(), table.NewColumns(l.size, table.BlockRows), table.Repeat(1, table.BlockRows)
		return func(_ int, b table.Data) {
			g.writeNumbers(block, l, b, cuts)
			part.AddRows(mech.Rows{X: table.Heads(block, b.N)}, ones[:b.N])
		}
	})
	means := make([]float64, l.size)
	g.averages.Release(means, total.Merged().Bounded(), src)
	return means
}

// writeNumbers writes the vectors to be averaged for a block. Indicators are 1 or -1. A missing
// value has -1 as its indicators of usable and, for scales, nonzero, and 0 in all other entries.
func (g *describing) writeNumbers(dst [][]float64, l layout, b table.Data, cuts []cutAt) {
	complete := dst[0]
	for i := range b.N {
		complete[i] = 1
	}
	column := 0 // index among the columns of numbers
	for j, c := range g.columns {
		kind := c.kind()
		own := dst[l.start[j]:]
		for i, v := range b.X[j] {
			there := numeric.IsFinite(v)
			if own[0][i] = sign(there); !there {
				complete[i] = -1
			}
			switch {
			case kind == categoryColumn || kind == flagColumn && g.nonzero:
			case kind == flagColumn:
				own[1][i] = either(there, sign(v != 0))
			case g.nonzero:
				own[1][i] = sign(there && v != 0)
			default:
				t := numeric.ClampTo((v-cuts[column].centre)/cuts[column].cut, 1)
				own[1][i], own[2][i] = either(there, t), either(there, 2*t*t-1)
			}
		}
		if kind == numberColumn {
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

func square(v float64) float64 { return v * v }

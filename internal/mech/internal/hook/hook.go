// Package hook is the interface between package mech and package mechtest. The compiler lets only packages
// below mech import it.
package hook

import (
	"io"
	"math"
	"math/big"
	"slices"

	"gonum.org/v1/gonum/mat"
)

// Source holds the parts of a mech.Source: the origin of randomness, and the observer of releases.
type Source struct {
	Reader   io.Reader
	Observer Observer
}

// Observer is notified before and after every release.
type Observer interface {
	// Begin records the statistic that a mechanism is about to release with noise, and the contract of one
	// record. It returns the reader from which the noise is drawn.
	Begin(mechanism, contract any, hidden Statistic) (noise io.Reader)
	// End records the released values, and may replace them.
	End(released []float64)
}

// Statistic is the sensitive input of a mechanism.
type Statistic interface {
	Clone() Statistic
	// Share returns the distance to the statistic of a neighbour, divided by the largest distance that the
	// noise is calibrated for: above 1 exactly when the neighbours are too far apart.
	Share(neighbour Statistic) float64
}

// Totals are sums in grid steps whose squared l2 distance between neighbours is bounded. Entry k counts
// Weight(k) times.
type Totals struct {
	Steps        []int64
	SquaredBound *big.Int
	Weight       func(k int) int64
}

// Once is the weight of entries that count once.
func Once(int) int64 { return 1 }

// Clone implements Statistic.
func (v Totals) Clone() Statistic {
	v.Steps = slices.Clone(v.Steps)
	return v
}

// Share implements Statistic.
func (v Totals) Share(neighbour Statistic) float64 {
	square := new(big.Int)
	for k, total := range neighbour.(Totals).Steps {
		gap := new(big.Int).Sub(big.NewInt(total), big.NewInt(v.Steps[k]))
		square.Add(square, gap.Mul(gap, gap).Mul(gap, big.NewInt(v.Weight(k))))
	}
	share, _ := new(big.Rat).SetFrac(square, v.SquaredBound).Float64()
	if square.Cmp(v.SquaredBound) > 0 {
		return 1 + share
	}
	return min(1, math.Sqrt(share))
}

// Absolutes are sums in grid steps whose l1 distance between neighbours is bounded.
type Absolutes struct {
	Steps []int64
	Bound *big.Int
}

// Clone implements Statistic.
func (v Absolutes) Clone() Statistic {
	v.Steps = slices.Clone(v.Steps)
	return v
}

// Share implements Statistic.
func (v Absolutes) Share(neighbour Statistic) float64 {
	sum := new(big.Int)
	for k, total := range neighbour.(Absolutes).Steps {
		gap := new(big.Int).Sub(big.NewInt(total), big.NewInt(v.Steps[k]))
		sum.Add(sum, gap.Abs(gap))
	}
	share, _ := new(big.Rat).SetFrac(sum, v.Bound).Float64()
	if sum.Cmp(v.Bound) > 0 {
		return 1 + share
	}
	return share
}

// Smooth is a point with a smooth bound on how far one record moves it.
type Smooth struct {
	Point             []float64
	Bound, Smoothness float64
}

// Clone implements Statistic.
func (v Smooth) Clone() Statistic {
	v.Point = slices.Clone(v.Point)
	return v
}

// Share implements Statistic.
func (v Smooth) Share(neighbour Statistic) float64 {
	w, square := neighbour.(Smooth), 0.0
	for j := range v.Point {
		square += (v.Point[j] - w.Point[j]) * (v.Point[j] - w.Point[j])
	}
	return max(math.Sqrt(square)/min(v.Bound, w.Bound), math.Abs(math.Log(v.Bound/w.Bound))/v.Smoothness)
}

// Chosen is a point selected from several, at most one of which depends on any record.
type Chosen struct {
	Points [][]int64
	Smooth
}

// Clone implements Statistic.
func (v Chosen) Clone() Statistic {
	points := make([][]int64, len(v.Points))
	for i, p := range v.Points {
		points[i] = slices.Clone(p)
	}
	return Chosen{points, v.Smooth.Clone().(Smooth)}
}

// Share implements Statistic: it is above 1 also if several points differ.
func (v Chosen) Share(neighbour Statistic) float64 {
	w := neighbour.(Chosen)
	if moved := v.Moved(w); moved > 1 {
		return float64(moved)
	}
	return v.Smooth.Share(w.Smooth)
}

// Moved returns how many points differ.
func (v Chosen) Moved(w Chosen) (count int) {
	for i, p := range v.Points {
		if !slices.Equal(p, w.Points[i]) {
			count++
		}
	}
	return count
}

// Rows is a table by columns. Neighbours differ in one row, by any values, if no row is longer than Bound
// in its first Features columns.
type Rows struct {
	Columns  [][]float64
	Features int
	Bound    float64
}

// Clone implements Statistic.
func (v Rows) Clone() Statistic {
	columns := make([][]float64, len(v.Columns))
	for j, c := range v.Columns {
		columns[j] = slices.Clone(c)
	}
	v.Columns = columns
	return v
}

// Share implements Statistic: the length of the row that differs divided by its bound, or the number of
// rows that differ if there are several.
func (v Rows) Share(neighbour Statistic) float64 {
	w, moved, share := neighbour.(Rows), 0, 0.0
	for i := range v.Columns[0] {
		if v.sameAs(w, i, i) {
			continue
		}
		moved++
		share = max(share, v.length(i)/v.Bound, w.length(i)/w.Bound)
	}
	if moved > 1 {
		return float64(moved)
	}
	return share
}

// sameAs reports whether row i has the bits of another table's row k.
func (v Rows) sameAs(w Rows, i, k int) bool {
	for j, c := range v.Columns {
		if math.Float64bits(c[i]) != math.Float64bits(w.Columns[j][k]) {
			return false
		}
	}
	return true
}

func (v Rows) length(i int) float64 {
	size := 0.0
	for _, c := range v.Columns[:v.Features] {
		size = math.Hypot(size, c[i])
	}
	return size
}

// Parts are tables of disjoint parts of the rows. In a neighbour one row may belong to another part, or to
// none.
type Parts []Rows

// Clone implements Statistic.
func (v Parts) Clone() Statistic {
	parts := make(Parts, len(v))
	for g, rows := range v {
		parts[g] = rows.Clone().(Rows)
	}
	return parts
}

// Share implements Statistic: the length of the longest row that only one of the two tables has, divided by
// its bound, or the number of such rows in one table if there are several.
func (v Parts) Share(neighbour Statistic) float64 {
	w, left, entered, share := neighbour.(Parts), 0, 0, 0.0
	for g, rows := range v {
		gone, come, longest := rows.changes(w[g])
		left, entered, share = left+gone, entered+come, max(share, longest/rows.Bound)
	}
	if moved := max(left, entered); moved > 1 {
		return float64(moved)
	}
	return share
}

// changes compares the rows of two tables between their common start and their common end: gone and come
// are the numbers of rows only in v and only in w, longest is the length of the longest of these.
func (v Rows) changes(w Rows) (gone, come int, longest float64) {
	n, m := len(v.Columns[0]), len(w.Columns[0])
	first := 0
	for first < min(n, m) && v.sameAs(w, first, first) {
		first++
	}
	for n > first && m > first && v.sameAs(w, n-1, m-1) {
		n, m = n-1, m-1
	}
	for i := first; i < n; i++ {
		longest = max(longest, v.length(i))
	}
	for i := first; i < m; i++ {
		longest = max(longest, w.length(i))
	}
	return n - first, m - first, longest
}

// Symmetric are symmetric matrices of sums in grid steps, one after the other, each by rows of the upper
// triangle. The sum of the absolute eigenvalues of the change by one record is bounded.
type Symmetric struct {
	Steps []int64
	D     int
	Bound float64
}

// Clone implements Statistic.
func (v Symmetric) Clone() Statistic {
	v.Steps = slices.Clone(v.Steps)
	return v
}

// Share implements Statistic.
func (v Symmetric) Share(neighbour Statistic) float64 {
	size, sum := v.D*(v.D+1)/2, 0.0
	for at := 0; at < len(v.Steps); at += size {
		sum += v.traceNorm(neighbour.(Symmetric), at)
	}
	return sum / v.Bound
}

// traceNorm returns the trace norm of the difference of the matrices that begin at entry k.
func (v Symmetric) traceNorm(neighbour Symmetric, k int) (sum float64) {
	change := mat.NewSymDense(v.D, nil)
	for i := range v.D {
		for j := i; j < v.D; j++ {
			change.SetSym(i, j, float64(neighbour.Steps[k]-v.Steps[k]))
			k++
		}
	}
	var eigen mat.EigenSym
	if !eigen.Factorize(change, false) {
		return math.Inf(1)
	}
	for _, l := range eigen.Values(nil) {
		sum += math.Abs(l)
	}
	return sum
}

// Scores are integers; one record moves each by at most Bound.
type Scores struct {
	Values []int64
	Bound  int64
}

// Clone implements Statistic.
func (v Scores) Clone() Statistic { return Scores{slices.Clone(v.Values), v.Bound} }

// Share implements Statistic.
func (v Scores) Share(neighbour Statistic) float64 {
	most := int64(0)
	for k, u := range neighbour.(Scores).Values {
		most = max(most, u-v.Values[k], v.Values[k]-u)
	}
	return float64(most) / float64(v.Bound)
}

// DisjointScores are the scores of several parts. For each part, take the range of the changes that one
// record makes to its scores; Bound bounds the sum of these ranges. A change common to all scores of a part
// does not affect the selection.
type DisjointScores struct {
	Parts [][]int64
	Bound int64
}

// Clone implements Statistic.
func (v DisjointScores) Clone() Statistic {
	parts := make([][]int64, len(v.Parts))
	for g, scores := range v.Parts {
		parts[g] = slices.Clone(scores)
	}
	return DisjointScores{parts, v.Bound}
}

// Share implements Statistic.
func (v DisjointScores) Share(neighbour Statistic) float64 {
	spread := int64(0)
	for g, scores := range neighbour.(DisjointScores).Parts {
		lowest, highest := int64(math.MaxInt64), int64(math.MinInt64)
		for k, score := range scores {
			moved := score - v.Parts[g][k]
			lowest, highest = min(lowest, moved), max(highest, moved)
		}
		spread += highest - lowest
	}
	return float64(spread) / float64(v.Bound)
}

// Viewer receives the integers of a mech.Bounded, and the square of how far one record moves them in l2.
type Viewer func(totals []int64, squaredSensitivity *big.Int)

// Ranked are sorted points, and a function that computes scores from the numbers of points below, at and
// above a point. One record moves each score by at most Bound.
type Ranked struct {
	Points []int64
	Scores func(below, equal, above int64) []int64
	Bound  int64
}

// Clone implements Statistic.
func (v Ranked) Clone() Statistic {
	v.Points = slices.Clone(v.Points)
	return v
}

// Share implements Statistic: it compares scores at all points and at their neighbours on the grid.
func (v Ranked) Share(neighbour Statistic) float64 {
	w, most := neighbour.(Ranked), 0.0
	for _, p := range slices.Concat(v.Points, w.Points, []int64{0}) {
		for _, at := range []int64{p - 1, p, p + 1} {
			scores := w.at(at)
			for k, score := range v.at(at) {
				most = max(most, math.Abs(float64(score-scores[k]))/float64(v.Bound))
			}
		}
	}
	return most
}

// at returns the scores at a point.
func (v Ranked) at(point int64) []int64 {
	below, _ := slices.BinarySearch(v.Points, point)
	upTo, _ := slices.BinarySearch(v.Points, point+1)
	return v.Scores(int64(below), int64(upTo-below), int64(len(v.Points)-upTo))
}

package dpsco

import (
	"math"
	"slices"

	"dpsidecar/internal/mech"

	"gonum.org/v1/gonum/mat"
)

// scan passes all rows, in blocks of which first is the position of the first row, in the coordinates of an upper triangular P and with residuals
// of w, to visitors, one for each core.
func (x Data) scan(p *mat.Dense, w []float64, visitor func() func(first int, r *rowBlock)) {
	byColumn := make([][]float64, x.D)
	for j := range byColumn {
		for i := range j + 1 {
			byColumn[j] = append(byColumn[j], p.At(i, j))
		}
	}
	x.each(func() func(int, Data) {
		rows, visit := newRowBlock(x.D), visitor()
		return func(first int, b Data) {
			rows.load(b, byColumn, w)
			if b.First != nil {
				first = b.First[0]
			}
			visit(first, rows)
		}
	})
}

// merging collects the parts that visitors fill.
type merging[T interface {
	Fork() T
	Merge(T)
}] struct {
	total T
	parts []T
}

func (m *merging[T]) fork() T {
	part := m.total.Fork()
	m.parts = append(m.parts, part)
	return part
}

func (m *merging[T]) merged() T {
	for _, part := range m.parts {
		m.total.Merge(part)
	}
	return m.total
}

// magnitudeCounts are the counts of a histogram of magnitudes of n rows.
func magnitudeCounts(n int) *merging[*mech.Histogram] {
	return &merging[*mech.Histogram]{total: mech.NewHistogram(halfOctaves, n, 1)}
}

// of returns a field of every part.
func of[S, T any](parts []S, field func(S) T) []T {
	fields := make([]T, len(parts))
	for g, part := range parts {
		fields[g] = field(part)
	}
	return fields
}

// releaseSums releases sums of disjoint parts of the rows together, each over all rows.
func releaseSums(parts []*mech.Sum, c mech.Contract, noise mech.Gaussian, src *mech.Source) [][]float64 {
	all := make([]float64, c.D*len(parts))
	noise.Release(all, mech.Disjoint(of(parts, (*mech.Sum).Bounded)), src)
	return slices.Collect(slices.Chunk(all, c.D))
}

// releaseMoments does so with second moments.
func releaseMoments(parts []*mech.Moments, c mech.MomentContract, noise mech.Gaussian, src *mech.Source) [][]float64 {
	all := make([]float64, c.D*c.D*len(parts))
	mech.ReleaseDisjoint(all, parts, noise, src)
	return slices.Collect(slices.Chunk(all, c.D*c.D))
}

// releaseCounts does so with histograms of magnitudes, as counts.
func releaseCounts(parts []*mech.Histogram, noise mech.Gaussian, src *mech.Source) [][]float64 {
	all := make([]float64, magnitudeBins*len(parts))
	noise.Release(all, mech.Disjoint(of(parts, (*mech.Histogram).Bounded)), src)
	return slices.Collect(slices.Chunk(all, magnitudeBins))
}

// releaseMagnitudes releases a histogram of magnitudes of all n rows, in units, and reads
// it up to limit.
func releaseMagnitudes(h *mech.Histogram, noise mech.Gaussian, unit, limit float64, n int, src *mech.Source) *magnitudes {
	noisy := releaseCounts([]*mech.Histogram{h}, noise, src)
	return readMagnitudes(noisy[0], noise.NoiseMultiplier*math.Sqrt2, unit, limit, float64(n))
}

// longest is up to which length rows of d whitened coordinates are looked at.
func longest(d int) float64 { return 64 * (1 + math.Sqrt(float64(d))) }

// checkReleases reports whether releases with these noises, of second moments under these
// contracts and of histograms of n magnitudes, can be made.
func checkReleases(n int, noises []mech.Gaussian, moments ...mech.MomentContract) error {
	for _, noise := range noises {
		if err := noise.Check(); err != nil {
			return infeasible(err)
		}
	}
	for _, contract := range moments {
		if err := contract.Check(); err != nil {
			return infeasible(err)
		}
	}
	if err := mech.CheckHistogram(halfOctaves, n, 1); err != nil {
		return infeasible(err)
	}
	return nil
}

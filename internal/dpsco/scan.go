package dpsco

import (
	"math"
	"slices"

	"dpsidecar/internal/dpsco/magnitude"
	"dpsidecar/internal/dpsco/table"
	"dpsidecar/internal/mech"
	"dpsidecar/internal/privacy"

	"gonum.org/v1/gonum/mat"
)

// scan passes all rows in blocks to visitors, one for each core. Rows are in the coordinates of an upper
// triangular P, with the residuals of w; first is the position of a block's first row.
func scan(x table.Data, p *mat.Dense, w []float64, visitor func() func(first int, r *rowBlock)) {
	byColumn := make([][]float64, x.D)
	for j := range byColumn {
		for i := range j + 1 {
			byColumn[j] = append(byColumn[j], p.At(i, j))
		}
	}
	x.Pass(func() func(int, table.Data) {
		rows, visit := newRowBlock(x.D), visitor()
		return func(first int, b table.Data) {
			rows.load(b, byColumn, w)
			if b.First != nil {
				first = b.First[0]
			}
			visit(first, rows)
		}
	})
}

// mechanism is one that releases a mech.Bounded.
type mechanism interface {
	Check() error
	Event() privacy.Event
	Release(dst []float64, b mech.Bounded, src *mech.Source)
}

// countStdDev is the standard deviation of the noise on a count of a histogram of columns or, where a rule for normal
// noise reads it, laplaceTail times that under Laplace noise; 1: as it is.
func countStdDev(noise mechanism, columns int, laplaceTail float64) float64 {
	switch noise := noise.(type) {
	case mech.Laplace:
		return laplaceTail * (math.Sqrt2 * 2) * float64(columns) / noise.Epsilon
	case mech.Gaussian:
		return noise.NoiseMultiplier * math.Sqrt(2*float64(columns))
	}
	panic("dpsco: a histogram with another noise")
}

// laplaceTailOfMagnitudes is the ratio of the numbers of standard deviations that Laplace noise and normal noise exceed with the
// same probability, where that of normal noise is seenMode of magnitude: magnitudes are read by rules for normal noise.
const laplaceTailOfMagnitudes = 1.9

// magnitudeCounts is an empty histogram of the magnitudes of n rows.
func magnitudeCounts(n int) *table.Parts[*mech.Histogram] {
	return &table.Parts[*mech.Histogram]{Total: mech.NewHistogram(magnitude.HalfOctaves, n, 1)}
}

// mapSlice returns a field of every part.
func mapSlice[S, T any](parts []S, field func(S) T) []T {
	fields := make([]T, len(parts))
	for g, part := range parts {
		fields[g] = field(part)
	}
	return fields
}

// releaseSums releases the sums of disjoint parts of the rows together. Each is divided by the number of
// all rows.
func releaseSums(parts []*mech.Sum, c mech.Contract, noise mech.Gaussian, src *mech.Source) [][]float64 {
	all := make([]float64, c.D*len(parts))
	noise.Release(all, mech.Disjoint(mapSlice(parts, (*mech.Sum).Bounded)), src)
	return slices.Collect(slices.Chunk(all, c.D))
}

// releaseMoments releases second moments in the same way.
func releaseMoments(parts []*mech.Moments, c mech.MomentContract, noise mech.Gaussian, src *mech.Source) [][]float64 {
	all := make([]float64, c.D*c.D*len(parts))
	mech.ReleaseDisjoint(all, parts, noise, src)
	return slices.Collect(slices.Chunk(all, c.D*c.D))
}

// releaseCounts releases histograms of magnitudes in the same way, as counts.
func releaseCounts(parts []*mech.Histogram, noise mech.Gaussian, src *mech.Source) [][]float64 {
	all := make([]float64, magnitude.Bins*len(parts))
	noise.Release(all, mech.Disjoint(mapSlice(parts, (*mech.Histogram).Bounded)), src)
	return slices.Collect(slices.Chunk(all, magnitude.Bins))
}

// releaseMagnitudes releases a histogram of magnitudes, in units, of all n rows and reads it up to limit.
func releaseMagnitudes(h *mech.Histogram, noise mech.Gaussian, unit, limit float64, n int, src *mech.Source) *magnitude.Histogram {
	noisy := releaseCounts([]*mech.Histogram{h}, noise, src)
	return magnitude.Read(noisy[0], noise.NoiseMultiplier*math.Sqrt2, unit, limit, float64(n))
}

// checkReleases reports whether releases with the given noises, of second moments under the given contracts
// and of histograms of n magnitudes, can be made.
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
	if err := mech.CheckHistogram(magnitude.HalfOctaves, n, 1); err != nil {
		return infeasible(err)
	}
	return nil
}

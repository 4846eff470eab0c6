package dpsco

import (
	"math"
	"slices"

	"dpsidecar/internal/dpsco/magnitude"
	"dpsidecar/internal/dpsco/plan"
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

// composed is the event of releases with the given noises.
func composed(noises []mech.Gaussian) (event privacy.Compose) {
	for _, noise := range noises {
		event = append(event, noise.Event())
	}
	return event
}

// checkReleases reports whether releases with the given noises, of second moments under the given contracts
// and of histograms of n magnitudes, can be made.
func checkReleases(n int, noises []mech.Gaussian, moments ...mech.MomentContract) error {
	for _, noise := range noises {
		if err := noise.Check(); err != nil {
			return plan.Infeasible(err)
		}
	}
	for _, contract := range moments {
		if err := contract.Check(); err != nil {
			return plan.Infeasible(err)
		}
	}
	if err := mech.CheckHistogram(magnitude.HalfOctaves, n, 1); err != nil {
		return plan.Infeasible(err)
	}
	return nil
}

package dpsco

import (
	"math"

	"dpsidecar/internal/dpsco/linalg"
	"dpsidecar/internal/dpsco/table"

	"gonum.org/v1/gonum/mat"
)

// LevelColumns are Count stored columns from First on that tell the levels of one category: each is 1 in the rows
// of one level and 0 in others, and all are 0 in the rows of the first level.
type LevelColumns struct{ First, Count int }

// minLevels is the number of columns of a category from which fits begin in the coordinates of its levels.
const minLevels = 2

// levelCoordinates returns the coordinates z = P'x in which a fit with an intercept begins: those of x, except that
// all levels of a category are as far from each other, the first one included. In x the first level differs from all
// others by every coefficient of the category at once. That direction has a small second moment for its length, so
// that noise would hide it however many rows the level has, and all other levels would be shrunk to the first one.
//
// Column k of a category, with m levels that no column before it tells, the first level among them, is a multiple of
// x_k - (1 - sum of x_i over the columns i before k) / m: the Helmert contrasts, scaled so that a row of any level is
// as long as one with one feature at its scale. P is upper triangular. It is the identity without categories.
func levelCoordinates(s table.Shape, categories []LevelColumns) *mat.Dense {
	p := linalg.Identity(s.D)
	if !s.Intercept {
		return p
	}
	for _, c := range categories {
		if c.Count < minLevels {
			continue
		}
		for k := range c.Count {
			m, levels := float64(c.Count-k+1), float64(c.Count+1)
			column, scale := 1+c.First+k, math.Sqrt(m/(m-1)*levels/(levels-1))*(1+roundOff) // never shorter by rounding
			p.Set(column, column, scale)
			p.Set(0, column, -scale/m)
			for i := range k {
				p.Set(1+c.First+i, column, scale/m)
			}
		}
	}
	return p
}

// inFeatures returns second moments of rows in the coordinates P'x as those of the features. P is far from singular.
func inFeatures(p *mat.Dense, moments *mat.SymDense) *mat.SymDense {
	var back mat.Dense
	_ = back.Solve(p.T(), linalg.Identity(moments.SymmetricDim()))
	return linalg.Sandwich(&back, moments)
}

// firstLevel is the second moment of 1 less the columns of a category: the share of rows of its first level.
func firstLevel(moments *mat.SymDense, c LevelColumns) float64 {
	a := mat.NewVecDense(moments.SymmetricDim(), nil)
	a.SetVec(0, 1)
	for k := range c.Count {
		a.SetVec(1+c.First+k, -1)
	}
	return mat.Inner(a, moments, a)
}

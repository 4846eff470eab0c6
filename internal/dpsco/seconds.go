package dpsco

import (
	"math"

	"dpsidecar/internal/dpsco/mean"
	"dpsidecar/internal/dpsco/prox"
	"dpsidecar/internal/dpsco/table"
)

// Time that fits take on one core of an ordinary machine, from public facts: measured on ordinary tables
// with 300 to 100,000 rows and 2 to 20 features, rounded upward. With the hundreds of coefficients that
// categories have, eigenvalues take most of the time.

// pace is the time in seconds of an estimate for each number, and for the noise of each coordinate.
func pace(m mean.Method) (number, noise float64) {
	switch m.(type) {
	case mean.Catoni:
		return 4e-9, 1e-5
	case mean.TrimmedMean:
		return 17e-9, 1e-4
	}
	return 2.5e-9, 1e-5
}

func (d Descent) seconds(s table.Shape) float64 {
	rows, calls := 0, 0
	for _, u := range d.Solver.Uses() {
		n := s.N
		if u.Batch > 0 {
			n = u.Batch
		}
		rows += n * u.Calls
		calls += u.Calls
	}
	number, noise := pace(d.Mean)
	return number*float64(rows)*float64(s.D+1) + noise*float64(calls)*float64(s.D)
}

func (a Whitened) seconds(s table.Shape) float64 {
	products := float64(s.D) * float64(s.D)
	return a.Descent.seconds(s) + 5e-9*float64(s.N)*products + 1e-5*products
}

func (a Centred) seconds(s table.Shape) float64 {
	return a.Descent.seconds(s) + 1e-8*float64(s.N)*float64(s.D)
}

// seconds of blocks with a penalty include, for one block, the time that a row far from all others makes it
// take.
func (a SampleAggregate) seconds(s table.Shape) float64 {
	each, worst := 6e-5, 0. // of a block
	if a.Psi != (prox.Zero{}) {
		products := float64(s.D) * float64(s.D)
		each += 4e-4 * products
		worst = exactSteps * exactProxSteps * (4e-7 + 8e-9*products)
	}
	return 2.7e-7*float64(s.N)*float64(s.D+3) + each*float64(a.Blocks) + worst
}

// seconds of one exact draw include a tenth of a second for one row that is far from all others, which
// multiplies the time on small tables, and more for many coefficients, with which draws from the same table
// vary more.
func (a L1) seconds(s table.Shape, epsilon float64) float64 {
	return 0.1 + 1.25*a.samplerSeconds(s, epsilon)*math.Pow(1.5, float64(max(0, s.D-4)))
}

// seconds are those of second moments and whitening, twice, of the steps of two fits, most of which go over
// products of all pairs of columns, and of the noise and curvature of each group.
func (f staged) seconds() float64 {
	n, d, groups := float64(f.shape.N), float64(f.shape.D), float64(f.shape.GroupCount)
	steps := 1 + min(groups, 1) // groups are fitted twice
	if f.shares.refinement.fit > 0 {
		steps += .5 // a third fit of all rows
	}
	return 1e-3 + 2*secondsOfCount*n*float64(len(f.columns)) + steps*n*(3e-7+1e-7*d+5e-9*d*d) + 3e-5*d*d + 4e-7*d*d*d + steps*groups*(5e-4+5e-6*d*d)
}

// seconds are those of the passes, each over products of all pairs of columns, of the noise, and
// of the proximal points of a penalty. A processor without lanes takes twice as long for the passes.
func (a JointMoments) seconds(s table.Shape) float64 {
	d, products, fits := float64(s.D), float64(s.D+8)*float64(s.D+8), float64(max(1, s.GroupCount))
	seconds := 1e-9*float64(pilotPasses+1)*float64(s.N)*(21+1.3*d+0.13*d*d) + fits*(4e-6*products+3e-8*d*d*d) + 3e-4
	if _, ball := a.Psi.(prox.L2Ball); !ball {
		seconds += fits * (4e-5*products + 1e-2)
	}
	return seconds
}

// seconds are those of the passes and of the computations between them, as for JointMoments. A start of
// labels has a fixed cost, independent of the number of rows.
func (a Newton) seconds(s table.Shape) float64 {
	d, products, fits := float64(s.D), float64(s.D+8)*float64(s.D+8), float64(max(1, s.GroupCount))
	seconds := 1e-9*float64(1+a.Curve.shares().steps)*float64(s.N)*(44+1.6*d+0.17*d*d) + fits*(5e-6*products+5e-8*d*d*d) + 3e-3
	if _, ball := a.Psi.(prox.L2Ball); !ball {
		seconds += fits * (4e-5*products + 1e-2)
	}
	return seconds
}

// secondsOfCount is the time in which a number is counted in a histogram.
const secondsOfCount = 4e-9

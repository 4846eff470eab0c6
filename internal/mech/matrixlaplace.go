package mech

import (
	"math/big"

	"dpsidecar/internal/mech/internal/hook"
	"dpsidecar/internal/privacy"
)

// MatrixLaplace adds (Bound^2/Epsilon) (G G' - H H') to the sum of the products x x' of rows. G and H have
// D rows and D+1 columns of independent standard normals: the noise is a multiple of the difference of two
// Wishart matrices. Adding a positive semidefinite P changes its density by a factor of at most exp(tr P
// Epsilon/(2 Bound^2)). Replacing one record subtracts one such matrix and adds another, each of trace at
// most Bound^2.
//
// Privacy: Epsilon-DP under replace-one (proof: matrixlaplace.md). An entry off the diagonal has standard
// deviation Bound^2/Epsilon sqrt(2 (D+1)), one on it sqrt(2) times that.
type MatrixLaplace struct{ Epsilon float64 }

// Check reports whether epsilon can be used.
//
// Errors: wraps ErrParams.
func (l MatrixLaplace) Check() error { return checkEpsilon(l.Epsilon) }

// Event returns the cost of one Release.
func (l MatrixLaplace) Event() privacy.Event { return privacy.Pure(l) }

// statistic implements MomentNoise.
func (l MatrixLaplace) statistic(c MomentContract, totals []int64) hook.Statistic {
	traces, _ := new(big.Float).SetInt(new(big.Int).Lsh(big.NewInt(2), 2*c.bits())).Float64()
	return hook.Symmetric{Steps: totals, D: c.D, Bound: traces}
}

// entries implements MomentNoise. It returns the floors of the real entries: added to integer sums they
// give the floors of the noisy sums.
func (l MatrixLaplace) entries(c MomentContract, src *Source) func(i, j int) *big.Int {
	scale := new(big.Rat).Quo(power(2*c.bits()), rational(l.Epsilon))
	w := wishartPair{scale: scale, plus: normals(c.D, src), minus: normals(c.D, src)}
	return w.floor
}

// normals draws a matrix of standard normals with one more column than it has rows.
func normals(rows int, src *Source) [][]Normal {
	z := make([][]Normal, rows)
	for i := range z {
		for range rows + 1 {
			z[i] = append(z[i], src.Normal())
		}
	}
	return z
}

// wishartPair is the real matrix scale (G G' - H H'). Each normal is known to the number of digits that
// decisions have required.
type wishartPair struct {
	scale       *big.Rat
	plus, minus [][]Normal // rows of G and of H
	known       []cutPair  // the normals to n 64-bit digits, at index n-1
}

// cutPair holds the normals times 2^(64 digits), cut toward zero.
type cutPair struct{ plus, minus cutRows }

// cutRows are rows of integers, and the sum of the absolute values of each row.
type cutRows struct {
	rows [][]*big.Int
	size []*big.Int
}

func cut(z [][]Normal, digits int) cutRows {
	c := cutRows{rows: make([][]*big.Int, len(z))}
	for i, row := range z {
		size := new(big.Int)
		for _, v := range row {
			k := v.scaled(digits)
			c.rows[i] = append(c.rows[i], k)
			size.Add(size, new(big.Int).Abs(k))
		}
		c.size = append(c.size, size)
	}
	return c
}

// at returns the normals to the given number of digits.
func (w *wishartPair) at(digits int) cutPair {
	for len(w.known) < digits {
		next := len(w.known) + 1
		w.known = append(w.known, cutPair{cut(w.plus, next), cut(w.minus, next)})
	}
	return w.known[digits-1]
}

// floor returns the floor of entry (i, j). The product of two normals that are cut to integers a and b is
// off by less than |a| + |b| + 1 units: digits are added until that error cannot change the floor.
func (w *wishartPair) floor(i, j int) *big.Int {
	product := new(big.Int)
	for digits := 1; ; digits++ {
		z, sum, slack := w.at(digits), new(big.Int), big.NewInt(int64(2*len(w.plus[i])))
		for k := range w.plus[i] {
			sum.Add(sum, product.Mul(z.plus.rows[i][k], z.plus.rows[j][k]))
			sum.Sub(sum, product.Mul(z.minus.rows[i][k], z.minus.rows[j][k]))
		}
		for _, size := range []*big.Int{z.plus.size[i], z.plus.size[j], z.minus.size[i], z.minus.size[j]} {
			slack.Add(slack, size)
		}
		low := w.inSteps(new(big.Int).Sub(sum, slack), digits)
		if low.Cmp(w.inSteps(sum.Add(sum, slack), digits)) == 0 {
			return low
		}
	}
}

// inSteps returns the floor of scale times v 2^(-128 digits).
func (w *wishartPair) inSteps(v *big.Int, digits int) *big.Int {
	v.Mul(v, w.scale.Num())
	return v.Div(v, new(big.Int).Lsh(w.scale.Denom(), uint(128*digits))) // Div rounds downward, because the divisor is positive
}

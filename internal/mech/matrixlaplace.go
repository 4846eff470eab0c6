package mech

import (
	"math/big"

	"dpsidecar/internal/mech/internal/hook"
	"dpsidecar/internal/privacy"
)

// MatrixLaplace adds (Bound^2/Epsilon) (G G' - H H') to the sum of the products x x' of
// rows, G and H of D rows and D+1 columns, all their entries independent standard
// normals: the difference of two Wishart matrices. Its density changes by at most
// exp(tr P Epsilon/(2 Bound^2)) when it is moved by a positive semidefinite P, and what
// one record does is to take one such matrix away and to add another, of trace at most
// Bound^2 each.
//
// Privacy: Epsilon-DP under replace-one (proof: matrixlaplace.md). An entry off the
// diagonal has standard deviation Bound^2/Epsilon sqrt(2 (D+1)), one on it sqrt(2) times that.
type MatrixLaplace struct{ Epsilon float64 }

// Check reports whether epsilon can be used.
//
// Errors: wraps ErrParams.
func (l MatrixLaplace) Check() error { return checkEpsilon(l.Epsilon) }

// Event returns what one Release costs.
func (l MatrixLaplace) Event() privacy.Event { return privacy.Pure(l) }

// hides implements MomentNoise.
func (l MatrixLaplace) hides(c MomentContract, totals []int64) hook.Statistic {
	traces, _ := new(big.Float).SetInt(new(big.Int).Lsh(big.NewInt(2), 2*c.bits())).Float64()
	return hook.Symmetric{Steps: totals, D: c.D, Bound: traces}
}

// entries implements MomentNoise: the integers below the real entries, which added to
// integer sums are the integers below the noisy sums.
func (l MatrixLaplace) entries(c MomentContract, src *Source) func(i, j int) *big.Int {
	scale := new(big.Rat).Quo(power(2*c.bits()), rational(l.Epsilon))
	w := wishartPair{scale: scale, plus: normals(c.D, src), minus: normals(c.D, src)}
	return w.floor
}

// normals draws rows of one more standard normals than there are rows.
func normals(rows int, src *Source) [][]Normal {
	z := make([][]Normal, rows)
	for i := range z {
		for range rows + 1 {
			z[i] = append(z[i], src.Normal())
		}
	}
	return z
}

// wishartPair is the real matrix scale (G G' - H H'). Normals are known to as many digits
// as a decision needed.
type wishartPair struct {
	scale       *big.Rat
	plus, minus [][]Normal // rows of G and of H
	known       []cutPair  // by the number of 64-bit digits, less one
}

// cutPair holds the normals times 2^(64 digits), cut toward zero.
type cutPair struct{ plus, minus cutRows }

// cutRows are integers, and the sum of the absolute values of each row.
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

// at returns the normals to a number of digits.
func (w *wishartPair) at(digits int) cutPair {
	for len(w.known) < digits {
		next := len(w.known) + 1
		w.known = append(w.known, cutPair{cut(w.plus, next), cut(w.minus, next)})
	}
	return w.known[digits-1]
}

// floor returns the integer below entry (i, j). A product of two normals is off by less
// than |a| + |b| + 1 units when a and b stand for them: digits are added until that
// cannot matter.
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

// inSteps returns the integer below scale times v 2^(-128 digits).
func (w *wishartPair) inSteps(v *big.Int, digits int) *big.Int {
	v.Mul(v, w.scale.Num())
	return v.Div(v, new(big.Int).Lsh(w.scale.Denom(), uint(128*digits))) // the divisor is positive: Div rounds downward
}

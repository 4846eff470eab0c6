package mech

import (
	"fmt"
	"math"
	"math/big"

	"dpsidecar/internal/mech/internal/hook"
	"dpsidecar/internal/privacy"
)

// Smoothed is a sensitive number f together with a smooth bound S on its local
// sensitivity: for any neighbours S >= |f - f'| and |ln S - ln S'| <= Smoothness.
// It has no accessor; Smooth is the only way out, and only once.
type Smoothed struct{ *smoothed }

type smoothed struct {
	sensitive
	value, bound     float64
	smoothness, grid float64
	released         bool
}

// NewSmoothed seals value with its bound. The caller must prove that the bound is smooth for these float64
// numbers; this is not checked. smoothness > 0 and grid > 0, the spacing of the release, are public. It
// panics on numbers that are not finite and on a bound that is not positive, which a smooth bound never is.
func NewSmoothed(value, bound, smoothness, grid float64) Smoothed {
	for _, v := range []float64{bound, smoothness, grid} {
		if !(v > 0 && v <= math.MaxFloat64) {
			panic("mech: a smooth bound, its smoothness and the grid must be positive")
		}
	}
	if !(math.Abs(value) <= math.MaxFloat64) {
		panic("mech: a value that is not finite")
	}
	return Smoothed{&smoothed{value: value, bound: bound, smoothness: smoothness, grid: grid}}
}

// Smooth adds arsinh-normal noise in proportion to a smooth bound S on local sensitivity: (S/s) sinh(sigma
// Y)/sigma, with Y standard normal, where sigma and s follow from Epsilon and Smoothness alone.
//
// Privacy: rho-zCDP with rho = Epsilon^2/2, if the bound is Smoothness-smooth (proof: smooth.md). Noise and
// rounding are exact; the bound itself is computed in float64, see Arithmetic.
//
// Source: Bun & Steinke 2019, with better constants.
type Smooth struct{ Epsilon, Smoothness float64 }

// Float64Grid marks in the ledger a release that depends on float64 arithmetic, rounded to a public grid.
// Releases without a mark are exact.
const Float64Grid = "float64-grid"

// Arithmetic returns the mark of the release in the ledger.
func (m Smooth) Arithmetic() string { return Float64Grid }

// Check reports whether some shape of the noise satisfies m.
//
// Errors: wraps ErrParams.
func (m Smooth) Check() error {
	if err := checkEpsilon(m.Epsilon); err != nil {
		return err
	}
	if !(m.Smoothness >= m.Epsilon*0x1p-50) {
		return fmt.Errorf("%w: Smoothness = %v; it must be positive", ErrParams, m.Smoothness)
	}
	if _, s := m.calibrate(); !(s > 0) {
		return fmt.Errorf("%w: Smoothness = %v is too much for Epsilon = %v; it must be below Epsilon/2", ErrParams, m.Smoothness, m.Epsilon)
	}
	return nil
}

func checkEpsilon(epsilon float64) error {
	if !(epsilon >= 0x1p-50 && epsilon <= 0x1p20) {
		return fmt.Errorf("%w: Epsilon = %v; it must be in [2^-50, 2^20]", ErrParams, epsilon)
	}
	return nil
}

// Event returns the cost of one Release.
func (m Smooth) Event() privacy.Event {
	return privacy.ZCDP{Rho: math.Nextafter(m.Epsilon*m.Epsilon/2, math.Inf(1))}
}

// Std returns the ratio of the noise's standard deviation to the bound.
func (m Smooth) Std() float64 {
	a, s := m.calibrate()
	return a.std() / s
}

// arsinh is a shape of the noise with its cost: a dilation by e^t together with a shift by s has zCDP
// parameter (dilation t + shift s)^2 / 2.
type arsinh struct{ sigma, dilation, shift float64 }

// arsinhShapes holds the constants K(sigma) and c(sigma) of smooth.md, rounded upward
// in the fourth decimal.
var arsinhShapes = []arsinh{
	{0.30, 4.1591, 1.0900}, {0.40, 3.2196, 1.1600}, {0.45, 2.9182, 1.2025},
	{0.50, 2.6845, 1.2500}, {0.60, 2.3534, 1.3600}, {0.70, 2.1403, 1.2778},
	{0.75, 2.0633, 1.2392}, {0.80, 2.0013, 1.2087}, {1.00, 1.8573, 1.1425},
}

func (a arsinh) std() float64 { return math.Sqrt(math.Expm1(2*a.sigma*a.sigma)/2) / a.sigma }

// smoothSlack multiplies the smoothness in the accounting: it covers the rounding of the exponentials and
// subtractions in the computation of a smooth bound.
const smoothSlack = 1 + 1e-9

// calibrate chooses the shape with the least standard deviation, and the shift s that uses all of Epsilon
// except 2^-40 of it, which covers the rounding here; s <= 0 if no shape allows this smoothness.
func (m Smooth) calibrate() (best arsinh, s float64) {
	for _, a := range arsinhShapes {
		shift := (m.Epsilon*(1-0x1p-40) - a.dilation*m.Smoothness*smoothSlack) / a.shift
		if s <= 0 || shift > 0 && a.std()/shift < best.std()/s {
			best, s = a, shift
		}
	}
	return best, s
}

// Release returns the value in b plus noise, rounded to b's grid. It panics when
// m.Check refuses, b is less smooth than m allows, or was released before.
func (m Smooth) Release(b Smoothed, src *Source) float64 {
	if err := m.Check(); err != nil {
		panic(err.Error())
	}
	if b.smoothness > m.Smoothness {
		panic("mech: less smooth than the noise allows")
	}
	if b.released {
		panic("mech: nothing to release: a Smoothed is released once")
	}
	b.released = true
	hidden := hook.Smooth{Point: []float64{b.value}, Bound: b.bound, Smoothness: b.smoothness}
	noise := src.begin(m, [2]float64{b.smoothness, b.grid}, hidden)
	answer := []float64{m.noisy(b, noise.Normal())}
	src.end(answer)
	return answer[0]
}

// noisy returns the value in b plus noise, y transformed to arsinh-normal, on b's grid.
func (m Smooth) noisy(b Smoothed, y Normal) float64 {
	a, s := m.calibrate()
	for digits := 1; ; digits++ {
		low, high := a.enclose(y, digits)
		k := b.gridStep(low, s)
		if k.Cmp(b.gridStep(high, s)) == 0 {
			return multiple(k, b.grid)
		}
	}
}

// enclose returns bounds of sinh(sigma y)/sigma from the first digits of y.
func (a arsinh) enclose(y Normal, digits int) (low, high *big.Rat) {
	sigma := rational(a.sigma)
	near := new(big.Rat).Abs(fromFloat(y.Value(digits)))
	far := new(big.Rat).Add(near, new(big.Rat).Inv(power(uint(64*digits))))
	low, _ = sinh(near.Mul(near, sigma), digits)
	_, high = sinh(far.Mul(far, sigma), digits)
	low.Quo(low, sigma)
	high.Quo(high, sigma)
	if y.negative {
		return high.Neg(high), low.Neg(low)
	}
	return low, high
}

// sinh encloses sinh(x), x >= 0. It uses that (E - 1/E)/2 increases with E = exp(x).
func sinh(x *big.Rat, digits int) (low, high *big.Rat) {
	below, above := expAbs(x, uint(64*(digits+1)))
	return sinhOf(fromFloat(below)), sinhOf(fromFloat(above))
}

func sinhOf(exp *big.Rat) *big.Rat {
	v := new(big.Rat).Sub(exp, new(big.Rat).Inv(exp))
	return v.Mul(v, big.NewRat(1, 2))
}

// gridStep returns the grid point, as a multiple of grid, nearest to
// value + (bound / s) z.
func (b *smoothed) gridStep(z *big.Rat, s float64) *big.Int {
	v := new(big.Rat).Mul(z, rational(b.bound))
	v.Quo(v, rational(s))
	v.Add(v, rational(b.value))
	v.Quo(v, rational(b.grid))
	v.Add(v, big.NewRat(1, 2))
	return new(big.Int).Div(v.Num(), v.Denom()) // floor, because the denominator is positive
}

// multiple returns k times grid, correctly rounded.
func multiple(k *big.Int, grid float64) float64 {
	v := new(big.Rat).SetInt(k)
	f, _ := v.Mul(v, rational(grid)).Float64()
	return f
}

func rational(v float64) *big.Rat { return new(big.Rat).SetFloat64(v) }

func fromFloat(v *big.Float) *big.Rat {
	r, _ := v.Rat(nil)
	return r
}

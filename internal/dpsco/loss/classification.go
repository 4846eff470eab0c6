package loss

import "math"

// Logistic is the negative log-likelihood of a label y, 0 or 1, whose log-odds
// are z. Any other y has loss and derivative 0.
type Logistic struct{}

// Value returns log(1 + e^z) - y z.
func (Logistic) Value(z, y float64) float64 {
	s := labelSign(y)
	if s == 0 {
		return 0
	}
	v := s * z // log(1 + e^-v)
	return math.Log1p(math.Exp(-math.Abs(v))) + max(-v, 0)
}

// Deriv returns 1/(1 + e^-z) - y.
func (l Logistic) Deriv(z, y float64) float64 {
	d := [1]float64{z}
	l.Derivs(d[:], d[:], []float64{y})
	return d[0]
}

// Derivs implements Batch: -s / (1 + e^(s z)) with s = 2y-1. The relative error is
// below 1e-15; an exponent beyond 700 counts as 700. The exponential is computed in
// place from a table, because a call for each row would take most of the time.
func (Logistic) Derivs(dst, z, y []float64) {
	z, y = z[:len(dst)], y[:len(dst)]
	for i := range dst {
		s := 2*y[i] - 1
		if y[i]*(1-y[i]) != 0 { // not 0 or 1; a branch on the label itself would be mispredicted
			s = 0
		}
		v := s * z[i]
		if !(math.Abs(v) <= maxExponent) {
			v, s = saturate(v, s)
		}
		shifted := v*(expSteps/math.Ln2) + expShift
		k := math.Float64bits(shifted)
		steps := shifted - expShift
		r := v - steps*stepHigh - steps*stepLow
		p := 1 + r*(1+r*(1./2+r*(1./6+r*(1./24+r*(1./120)))))
		power := math.Float64frombits(expTable[k%expSteps] + k/expSteps<<52)
		dst[i] = -s / (1 + power*p)
	}
}

// saturate replaces an exponent v beyond maxExponent by the nearest one within, where
// the derivative is less than 1e-300 away from its limit. For NaN the sign becomes
// 0, and with it the derivative.
func saturate(v, s float64) (float64, float64) {
	if v != v {
		return 0, 0
	}
	return math.Copysign(maxExponent, v), s
}

// e^v is 2^(k/expSteps) e^r with k the integer nearest to v expSteps / ln 2, and |r|
// <= 0.0055. Adding expShift leaves k in the low bits of the sum. r is v less k
// ln 2 / expSteps, subtracted in two parts of which steps * stepHigh is exact. The
// first term left out of the series for e^r is below 4e-17.
//
// Source: Tang 1989, "Table-driven implementation of the exponential function".
const (
	maxExponent = 700
	expSteps    = 64
	expShift    = 0x1.8p52
	stepHigh    = 0x1.62e42fep-7 // ln 2 / 64 to 25 bits
	stepLow     = math.Ln2/expSteps - stepHigh
)

// expTable holds the bits of 2^(j/expSteps).
var expTable = func() (t [expSteps]uint64) {
	for j := range t {
		t[j] = math.Float64bits(math.Exp2(float64(j) / expSteps))
	}
	return t
}()

// Smoothness returns 1/4.
func (Logistic) Smoothness() float64 { return 1. / 4 }

// Lipschitz returns 1.
func (Logistic) Lipschitz() float64 { return 1 }

// labelSign returns 1 for y = 1, -1 for y = 0, and 0 for any other y.
func labelSign(y float64) float64 {
	if y*(1-y) != 0 {
		return 0
	}
	return 2*y - 1
}

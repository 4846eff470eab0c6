package loss

import "math"

// Logistic is the negative log-likelihood of a label y, 0 or 1, whose log-odds
// are z. Any other y has loss and derivative 0.
type Logistic struct{}

// Value returns log(1 + e^z) - y z.
func (Logistic) Value(z, y float64) float64 {
	s := sign(y)
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

// Derivs is Deriv by rows: -s / (1 + e^(s z)) with s = 2y-1, to a relative
// error of 1e-15 and without a call. An exponent beyond 700 counts as 700.
func (Logistic) Derivs(dst, z, y []float64) {
	z, y = z[:len(dst)], y[:len(dst)]
	for i := range dst {
		s := 2*y[i] - 1
		if y[i]*(1-y[i]) != 0 { // not 0 or 1; a branch on the label itself would be mispredicted
			s = 0
		}
		v := s * z[i]
		if !(math.Abs(v) <= maxExponent) {
			v, s = tame(v, s)
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

// tame returns an exponent and sign whose derivative is right for an exponent v
// beyond maxExponent, and 0 where v is NaN.
func tame(v, s float64) (float64, float64) {
	if v != v {
		return 0, 0
	}
	return math.Copysign(maxExponent, v), s
}

// e^v is 2^(k/expSteps) e^r with k the integer nearest to v expSteps / ln 2.
// Adding expShift leaves k in the low bits of the sum. What remains, |r| <=
// 0.0055, is subtracted in two parts, of which steps * stepHigh is exact, and
// the first term left out of the series for e^r is below 4e-17.
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

// Hinge is max(0, 1 - s z) for a label y, 0 or 1, with s = 2y-1: the loss of the
// support vector machine. Any other y has loss and derivative 0.
type Hinge struct{}

// Value returns max(0, 1 - s z).
func (Hinge) Value(z, y float64) float64 {
	s := sign(y)
	if s == 0 {
		return 0
	}
	return max(0, 1-s*z)
}

// Deriv returns -s inside the margin, else 0.
func (Hinge) Deriv(z, y float64) float64 {
	if s := sign(y); s*z < 1 {
		return -s
	}
	return 0
}

// Smoothness returns +Inf.
func (Hinge) Smoothness() float64 { return math.Inf(1) }

// Lipschitz returns 1.
func (Hinge) Lipschitz() float64 { return 1 }

// sign returns 1 for y = 1, -1 for y = 0, and 0 for what is no label.
func sign(y float64) float64 {
	if y*(1-y) != 0 {
		return 0
	}
	return 2*y - 1
}

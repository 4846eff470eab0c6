package privacy

import "math"

// sampledRenyi bounds the Renyi divergence of the given order > 1 between
// neighbours when Gaussian noise of multiplier z is added to a sum over a batch,
// rate < 1 times the rows, drawn without replacement. It is the smaller of two
// theorems and of the cost without amplification.
func sampledRenyi(rate, z, order float64) float64 {
	whole := mulUp(order, gaussianRho(z))
	m := mixture{rate, 1 / z, order}
	if !(rate*m.mu > 0x1p-300 && m.mu < 0x1p20) { // outside, moments may under- or overflow
		return whole
	}
	logMoment := math.Min(m.hockeyStick(), m.binomial())
	return math.Min(whole, softplus(logMoment)/(order-1)*(1+0x1p-48))
}

// mixture is a subsampled Gaussian at one order. X = 1 - rate + rate e^l is the
// likelihood ratio of its output when the batch holds the replaced record with
// probability rate, and l the log-likelihood ratio when it does.
type mixture struct{ rate, mu, order float64 }

// hockeyStick returns ln M, rounded upward, where 1 + M bounds the moment E_Q (P/Q)^a of order a. With y =
// mu/2 + s standard normal and l = mu s,
//
//	M = E[(X^a - 1)(1 - X^(1-a)); s > 0].
//
// The proof, and the errors that the slack added at the end covers, are in subsample.md. The result is +Inf
// if mu is so large that the integral would take too long.
func (m mixture) hockeyStick() float64 {
	width := 1 / math.Max(1, m.mu)
	var sum logSum
	for panel := range maxPanels {
		left := float64(panel) * width
		for k, x := range legendreNode {
			m.addDensity(&sum, left+width/2*(1-x), legendreWeight[k])
			m.addDensity(&sum, left+width/2*(1+x), legendreWeight[k])
		}
		// Beyond s the logarithm of the density falls at least at the rate y - slope,
		// so the rest of the integral is at most density(s) / (y - slope).
		s := left + width
		y, slope := m.mu/2+s, m.order*m.mu-2*m.mu/math.Expm1(-m.mu*s)
		if y-slope > 12 {
			m.addDensity(&sum, s, 2/width/(y-slope))
			return sum.log() + math.Log(width/2/math.Sqrt(2*math.Pi)) + 1e-9 + (m.order*m.mu+y)*y*0x1p-48
		}
	}
	return math.Inf(1)
}

const maxPanels = 4096

// addDensity adds the integrand of hockeyStick, times weight and sqrt(2 pi).
func (m mixture) addDensity(sum *logSum, s, weight float64) {
	y, u := m.mu/2+s, m.logRatio(m.mu*s)
	sum.add(m.order*u-y*y/2, weight*math.Expm1(-m.order*u)*math.Expm1((1-m.order)*u))
}

// logRatio returns ln X.
func (m mixture) logRatio(l float64) float64 {
	if l < 30 {
		return math.Log1p(m.rate * math.Expm1(l))
	}
	return l + math.Log(m.rate) + math.Log1p((1/m.rate-1)*math.Exp(-l))
}

// binomial is as hockeyStick for an integer order, +Inf for others:
//
//	M = rate^2 C(a,2) min(4 (e^(mu^2) - 1), 2 e^(mu^2)) + sum_{j=3}^a 2 rate^j C(a,j) e^(j(j-1) mu^2/2)
//
// Source: Wang, Balle & Kasiviswanathan 2019, Theorem 9, for sampling without
// replacement under replace-one, with the Renyi curve j mu^2/2 and no pure bound.
func (m mixture) binomial() float64 {
	a, square, logRate := m.order, m.mu*m.mu, math.Log(m.rate)
	if a != math.Trunc(a) {
		return math.Inf(1)
	}
	choose := math.Log(a*(a-1)/2) + 2*logRate // ln(rate^j C(a,j))
	var sum logSum
	sum.add(choose+square, math.Min(-4*math.Expm1(-square), 2))
	for j := 3.0; j <= a; j++ {
		choose += logRate + math.Log((a-j+1)/j)
		sum.add(choose+j*(j-1)*square/2, 2)
	}
	return sum.log() + (a*a*square-a*logRate+a)*0x1p-44
}

// logSum adds non-negative numbers that may be outside the range of float64. It
// holds sum e^shift; the zero value is an empty sum.
type logSum struct{ sum, shift float64 }

// add adds factor e^exponent.
func (s *logSum) add(exponent, factor float64) {
	switch {
	case s.sum == 0:
		s.shift = exponent
	case exponent > s.shift+500:
		s.sum *= math.Exp(s.shift - exponent)
		s.shift = exponent
	}
	s.sum += factor * math.Exp(exponent-s.shift)
}

func (s *logSum) log() float64 { return s.shift + math.Log(s.sum) }

// softplus returns ln(1 + e^v).
func softplus(v float64) float64 {
	if v > 0 {
		return v + math.Log1p(math.Exp(-v))
	}
	return math.Log1p(math.Exp(v))
}

// The positive nodes of Gauss and Legendre's rule with 16 points on [-1, 1], and
// their weights: Abramowitz & Stegun, table 25.4.
var (
	legendreNode = [8]float64{
		0.0950125098376374401853193, 0.2816035507792589132304605, 0.4580167776572273863424194, 0.6178762444026437484466718,
		0.7554044083550030338951012, 0.8656312023878317438804679, 0.9445750230732325760779884, 0.9894009349916499325961542,
	}
	legendreWeight = [8]float64{
		0.1894506104550684962853967, 0.1826034150449235888667637, 0.1691565193950025381893121, 0.1495959888165767320815017,
		0.1246289712555338720524763, 0.0951585116824927848099251, 0.0622535239386478928628438, 0.0271524594117540948517806,
	}
)

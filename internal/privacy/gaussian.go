package privacy

import "math"

// gaussianSquare returns mu^2, the sum of the 1/z^2, rounded upward, if all leaves are Gaussian. Under any
// adaptive composition they are, together, one Gaussian with this mu (Dong, Roth & Su 2022, Corollary 3.3),
// whose delta is known exactly. A subsampled Gaussian counts as its event: hockey-stick divergences are
// jointly convex.
func gaussianSquare(leaves []leaf) (mu2 float64, ok bool) {
	for _, l := range leaves {
		e := l.event
		if s, ok := e.(Sampled); ok {
			e = s.Event
		}
		g, ok := e.(Gaussian)
		if !ok {
			return 0, false
		}
		mu2 = addUp(mu2, mulUp(l.count, 2*gaussianRho(g.NoiseMultiplier)))
	}
	return mu2, true
}

// gaussianEpsilon returns the epsilon of a Gaussian with the given mu^2, rounded
// upward; +Inf for a delta too small for float64 arithmetic.
func gaussianEpsilon(mu2, delta float64) float64 {
	mu := up(math.Sqrt(mu2))
	switch {
	case mu2 == 0 || delta >= 1:
		return 0
	case !(delta > 1e-290) || math.IsInf(mu2, 1):
		return math.Inf(1)
	case gaussianDelta(mu, 0) <= delta:
		return 0
	}
	lo, hi := 0.0, ZCDPEpsilon(mu2/2, delta)
	if !(gaussianDelta(mu, hi) <= delta) {
		return math.Inf(1)
	}
	for hi-lo > 0x1p-48*hi {
		mid := lo + (hi-lo)/2
		if mid == lo || mid == hi {
			break
		}
		if gaussianDelta(mu, mid) <= delta {
			hi = mid
		} else {
			lo = mid
		}
	}
	return hi
}

// gaussianDelta returns, rounded upward,
//
//	Phi(-eps/mu + mu/2) - e^eps Phi(-eps/mu - mu/2),
//
// the delta of a Gaussian at eps: Balle & Wang 2018, Theorem 8. The second term
// is written with the scaled complementary error function, so that nothing
// overflows. slack covers the rounding errors of both terms, which grow with their
// arguments.
func gaussianDelta(mu, eps float64) float64 {
	a, b := eps/mu-mu/2, eps/mu+mu/2 // Phi(-a), Phi(-b); b^2/2 - eps = a^2/2
	first := math.Erfc(a/math.Sqrt2) / 2
	second := math.Exp(-a*a/2) * scaledErfc(b/math.Sqrt2) / 2
	slack := first * (1 + b) * (1 + math.Abs(a)) * 0x1p-46
	return first - second + slack
}

// scaledErfc returns e^(x^2) erfc(x) for x >= 0 with a relative error below
// 2^-44: beyond 10 by the asymptotic series, whose tenth term is below 1e-14
// there; the series alternates, so its remainder is smaller than that.
func scaledErfc(x float64) float64 {
	if x < 10 {
		return math.Exp(x*x) * math.Erfc(x)
	}
	sum, step := 1.0, 1.0
	for k := 1.0; k <= 10; k++ {
		step *= -(2*k - 1) / (2 * x * x)
		sum += step
	}
	return sum / (x * math.Sqrt(math.Pi))
}

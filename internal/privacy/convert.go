package privacy

import "math"

// ZCDPEpsilon returns an epsilon for which every rho-zCDP mechanism is
// (epsilon, delta)-DP: the infimum over a > 1 of
//
//	rho a + ln(1 - 1/a) - ln(a delta)/(a - 1),
//
// rounded upward. It is 0 for rho = 0 and +Inf for delta = 0 or arguments that
// are not non-negative numbers.
//
// Source: Canonne, Kamath & Steinke 2020, Proposition 12. With x = a - 1 the
// derivative of the bound has the sign of rho x^2 + ln(1+x) - ln(1/delta),
// which increases: one root, found by bisection. Any x gives a valid bound.
func ZCDPEpsilon(rho, delta float64) float64 {
	switch {
	case !(rho >= 0 && delta >= 0):
		return math.Inf(1)
	case rho == 0 || delta >= 1:
		return 0
	case delta == 0 || math.IsInf(rho, 1):
		return math.Inf(1)
	}
	l := -ln(delta)
	lo, hi := math.Log(tiny), math.Log(1/tiny) // of x
	for range 64 {
		mid := (lo + hi) / 2
		if x := math.Exp(mid); rho*x*x+math.Log1p(x) < l {
			lo = mid
		} else {
			hi = mid
		}
	}
	return zcdpBound(rho, l, math.Exp(hi))
}

// ln returns the logarithm of x > 0. That of the standard library is wrong for numbers below the smallest normal one, by up
// to 35 (Go 1.26 on amd64).
func ln(x float64) float64 {
	if x < 0x1p-1022 {
		return math.Log(x*0x1p60) - 60*math.Ln2
	}
	return math.Log(x)
}

// zcdpBound evaluates the bound at a = 1 + x from above: each term is a few
// correctly rounded operations and one logarithm, so 2^-44 of the terms' sizes
// covers their errors many times.
func zcdpBound(rho, l, x float64) float64 {
	grow, shrink, log := rho*(1+x), math.Log1p(1/x), math.Log1p(x)
	eps := grow - shrink + (l-log)/x
	slack := (grow + shrink + (l+log)/x) * 0x1p-44
	return math.Max(0, eps+slack)
}

// ZCDPRho returns the largest rho, to rounding on the safe side, for which
// ZCDPEpsilon(rho, delta) is at most eps; 0 when none is.
func ZCDPRho(eps, delta float64) float64 {
	if !(eps > 0 && delta > 0) {
		return 0
	}
	if delta >= 1 || math.IsInf(eps, 1) {
		return math.Inf(1)
	}
	lo, hi := math.Log(tiny), math.Log(1/tiny) // of rho
	for range 64 {
		if mid := (lo + hi) / 2; ZCDPEpsilon(math.Exp(mid), delta) <= eps {
			lo = mid
		} else {
			hi = mid
		}
	}
	if rho := math.Exp(lo); ZCDPEpsilon(rho, delta) <= eps {
		return rho
	}
	return 0
}

// ZCDPOrder returns the order a at which a rho of ZCDPRho(eps, delta) is converted; a - 1 is accurate to
// about 1e-13 of itself. At the best order, rho (a-1)^2 = ln(1/delta) - ln(a), and rho a is eps minus the
// conversion term at a.
func ZCDPOrder(eps, delta float64) float64 {
	lo, hi := math.Log(1e-9), math.Log(1e15) // of x = a - 1
	for range 64 {
		x := math.Exp((lo + hi) / 2)
		log := math.Log1p(x) + ln(delta)
		if rho := (eps + math.Log1p(1/x) + log/x) / (1 + x); rho+log/(x*x) < 0 {
			lo = (lo + hi) / 2
		} else {
			hi = (lo + hi) / 2
		}
	}
	return 1 + math.Exp(lo)
}

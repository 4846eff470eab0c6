package audit

import "gonum.org/v1/gonum/mathext"

// atLeast returns a lower confidence limit of a probability after hits in n runs: it exceeds the
// probability with probability at most falseAlarm.
//
// Source: Clopper & Pearson 1934.
func atLeast(hits, n int, falseAlarm float64) float64 {
	if hits == 0 {
		return 0
	}
	low, _ := bisect(func(p float64) bool { // P(Bin(n, p) >= hits) <= falseAlarm
		return mathext.RegIncBeta(float64(hits), float64(n-hits+1), p) <= falseAlarm
	})
	return low
}

// atMost returns the upper confidence limit.
func atMost(hits, n int, falseAlarm float64) float64 {
	if hits == n {
		return 1
	}
	_, high := bisect(func(p float64) bool { // P(Bin(n, p) <= hits) > falseAlarm
		return mathext.RegIncBeta(float64(n-hits), float64(hits+1), 1-p) > falseAlarm
	})
	return high
}

// bisect returns bounds of the point in [0, 1] up to which below is true.
func bisect(below func(p float64) bool) (low, high float64) {
	high = 1
	for range 60 {
		if middle := (low + high) / 2; below(middle) {
			low = middle
		} else {
			high = middle
		}
	}
	return low, high
}

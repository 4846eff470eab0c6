package audit

import "gonum.org/v1/gonum/mathext"

// atLeast returns a lower bound on a probability after hits in n runs, which is
// none with probability at most alarm.
//
// Source: Clopper & Pearson 1934.
func atLeast(hits, n int, alarm float64) float64 {
	if hits == 0 {
		return 0
	}
	low, _ := solve(func(p float64) bool { // P(Bin(n, p) >= hits) <= alarm
		return mathext.RegIncBeta(float64(hits), float64(n-hits+1), p) <= alarm
	})
	return low
}

// atMost returns an upper bound likewise.
func atMost(hits, n int, alarm float64) float64 {
	if hits == n {
		return 1
	}
	_, high := solve(func(p float64) bool { // P(Bin(n, p) <= hits) > alarm
		return mathext.RegIncBeta(float64(n-hits), float64(hits+1), 1-p) > alarm
	})
	return high
}

// solve encloses the point in [0, 1] up to which below is true.
func solve(below func(p float64) bool) (low, high float64) {
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

package mean

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// BenchmarkSums reports nanoseconds per record and coordinate on one core for
// the pass over the rows that an estimate makes, and the ratio to one that only
// sums the same columns.
func BenchmarkSums(b *testing.B) {
	const n, d = 1 << 17, 10
	a := normal(rand.New(rand.NewPCG(5, 5)), n, d)
	r, centre := a.rows(2048, 1), make([]float64, d)
	clipped := at(b, Clip{Norm: 3}, 1, n, d).(*clipEstimator)
	smooth := at(b, Catoni{Scale: 2, Beta: 5}, 1, n, d).(*catoniEstimator)
	unsmoothed := at(b, Catoni{Scale: 2, Beta: math.Inf(1)}, 1, n, d).(*catoniEstimator)
	ball := at(b, KSU{Radius: 3, Range: 10}, 1, n, d).(*ksuEstimator)
	box := at(b, KSU{Radius: 3, Range: 10, Axis: true}, 1, n, d).(*ksuEstimator)
	smooth.sum(r) // tabulates
	for name, pass := range map[string]func(){
		"clip":              func() { clipped.sum(r, Hints{}) },
		"catoni":            func() { smooth.sum(r) },
		"catoni-unsmoothed": func() { unsmoothed.sum(r) },
		"ksu":               func() { ball.sum(r, centre) },
		"ksu-axis":          func() { box.sum(r, centre) },
		"ksu-counts":        func() { ball.counts(r) },
	} {
		b.Run(name, func(b *testing.B) {
			own, floor := time.Hour, time.Hour // the fastest runs, in turn: the machine has other work
			for b.Loop() {
				start := time.Now()
				pass()
				middle := time.Now()
				sumColumns(a)
				own, floor = min(own, middle.Sub(start)), min(floor, time.Since(middle))
			}
			b.ReportMetric(float64(own.Nanoseconds())/n/d, "ns/coordinate")
			b.ReportMetric(float64(own)/float64(floor), "x-plain-sum")
		})
	}
}

var columnSum float64

// sumColumns sums the columns, with four sums at a time so that it does not wait
// for additions.
func sumColumns(a design) {
	var s0, s1, s2, s3 float64
	for _, x := range a.x {
		for ; len(x) >= 4; x = x[4:] {
			s0, s1, s2, s3 = s0+x[0], s1+x[1], s2+x[2], s3+x[3]
		}
	}
	columnSum = s0 + s1 + s2 + s3
}

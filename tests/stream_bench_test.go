package tests

import (
	"flag"
	"math"
	"math/rand/v2"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"gonum.org/v1/gonum/floats"

	"dpsidecar/internal/dpsco"
	"dpsidecar/internal/mech"
	"dpsidecar/internal/privacy"
)

var streamRows = flag.Int("stream-rows", 1_000_000, "rows of BenchmarkStreamsAPass")

// BenchmarkStreamsAPass reports the processor time that a pass of the default fit of least squares
// on ten features takes over that of one stream of memory, a sum of all eleven columns, both on
// all cores and on one. What else a fit does, such as noise, counts as part of its passes. Of fewer
// than a million rows much would stay in a large cache.
func BenchmarkStreamsAPass(b *testing.B) {
	x := normalRows(*streamRows, 10)
	for b.Loop() {
		cores := runtime.GOMAXPROCS(0)
		b.ReportMetric(streamsAPass(b, x), "streams/pass")
		runtime.GOMAXPROCS(1)
		b.ReportMetric(streamsAPass(b, x), "streams/pass-one-core")
		runtime.GOMAXPROCS(cores)
	}
}

// streamsAPass compares the least times of three fits and of a sum before each.
func streamsAPass(b *testing.B, x dpsco.Data) float64 {
	algorithm, err := dpsco.Recipe("linear", nil, nil)
	if err != nil {
		b.Fatal(err)
	}
	fit, sum, passes := time.Hour, time.Hour, 0
	for range 3 {
		p, err := algorithm.Plan(x.Shape, privacy.Budget{Epsilon: 1, Delta: 1e-6}, privacy.Concentrated{})
		if err != nil {
			b.Fatal(err)
		}
		sum = min(sum, processorTime(b, func() { sumColumns(b, x) }))
		fit = min(fit, processorTime(b, func() {
			if _, err := p.Run(b.Context(), x, mech.NewSource()); err != nil {
				b.Fatal(err)
			}
		}))
		passes = p.Passes
	}
	b.Logf("%d cores: nanoseconds a row: fit %.1f, sum %.2f", runtime.GOMAXPROCS(0), float64(fit)/float64(x.N), float64(sum)/float64(x.N))
	return float64(fit) / float64(sum) / float64(passes)
}

// processorTime is what f takes on all cores together, whatever else runs beside it.
func processorTime(b *testing.B, f func()) time.Duration {
	used := func() time.Duration {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			b.Fatal(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	before := used()
	f()
	return used() - before
}

// sumColumns adds up all columns, each core those of a part of the rows.
func sumColumns(b *testing.B, x dpsco.Data) {
	var all sync.WaitGroup
	cores := runtime.GOMAXPROCS(0)
	for c := range cores {
		low, high := x.N*c/cores, x.N*(c+1)/cores
		all.Go(func() {
			total := floats.Sum(x.Y[low:high])
			for _, column := range x.X {
				total += floats.Sum(column[low:high])
			}
			if math.IsNaN(total) {
				b.Error(total)
			}
		})
	}
	all.Wait()
}

// normalRows have standard normal features and a target that is their sum and as much noise.
func normalRows(n, features int) dpsco.Data {
	r := rand.New(rand.NewPCG(1, 2))
	x := dpsco.Data{Shape: dpsco.Shape{N: n, D: features + 1, Intercept: true}, Y: make([]float64, n)}
	for range features {
		x.X = append(x.X, make([]float64, n))
	}
	for i := range x.Y {
		for _, column := range x.X {
			column[i] = r.NormFloat64()
			x.Y[i] += column[i]
		}
		x.Y[i] += r.NormFloat64()
	}
	return x
}

package tests

import (
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"gonum.org/v1/gonum/floats"

	"dpsidecar/internal/dpsco"
	"dpsidecar/internal/dpsco/plan"
	"dpsidecar/internal/dpsco/table"
	"dpsidecar/internal/mech"
	"dpsidecar/internal/privacy"
	"dpsidecar/internal/spill"
)

var streamRows = flag.Int("stream-rows", 500_000, "rows of BenchmarkStreamsAPass; of fewer than a million a cache keeps a part")

// BenchmarkStreamsAPass reports the processor time of a pass of the default fit of least squares,
// and the same over that of one stream of memory, a sum of all columns: on all cores, on one,
// and of rows on disk for which there is room in memory. What else a fit does, such as noise,
// counts as part of its passes.
func BenchmarkStreamsAPass(b *testing.B) {
	for _, features := range []int{4, 10, 20} {
		b.Run(fmt.Sprintf("features=%d", features), func(b *testing.B) {
			for b.Loop() {
				memory := normalRows(*streamRows, features, func(n int) []float64 { return make([]float64, n) })
				pass, stream := passAndStream(b, memory)
				b.ReportMetric(pass/stream, "streams/pass")
				cores := runtime.GOMAXPROCS(1)
				pass, stream = passAndStream(b, memory)
				runtime.GOMAXPROCS(cores)
				b.ReportMetric(pass/stream, "one-core-streams/pass")
				b.ReportMetric(pass, "ns/row/pass")
				f, err := spill.New(os.TempDir(), spill.Bytes(features+1+plan.StreamColumns, int64(*streamRows)))
				if err != nil {
					b.Fatal(err)
				}
				pass, _ = passAndStream(b, normalRows(*streamRows, features, f.Make))
				if err := f.Close(); err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(pass, "disk-ns/row/pass")
			}
		})
	}
}

// passAndStream are nanoseconds a row: the least of three fits, over their passes, and of the sums
// before each.
func passAndStream(b *testing.B, x table.Data) (pass, stream float64) {
	algorithm, err := dpsco.Recipe("linear", nil, nil)
	if err != nil {
		b.Fatal(err)
	}
	pass, stream = math.Inf(1), math.Inf(1)
	made, makes := map[int][]float64{}, x.Make
	for range 3 {
		p, err := algorithm.Plan(x.Shape, privacy.Budget{Epsilon: 1, Delta: 1e-6}, privacy.Concentrated{})
		if err != nil {
			b.Fatal(err)
		}
		columns := 0
		x.Make = func(n int) []float64 { // a file has room for those of one fit
			if columns++; made[columns] == nil {
				made[columns] = makes(n)
			}
			return made[columns]
		}
		stream = min(stream, nanoseconds(b, func() { sumColumns(b, x) })/float64(x.N))
		pass = min(pass, nanoseconds(b, func() {
			if _, err := p.Run(b.Context(), x, mech.NewSource()); err != nil {
				b.Fatal(err)
			}
		})/float64(x.N*p.Passes))
	}
	return pass, stream
}

// nanoseconds is the processor time that f takes on all cores together, whatever else runs beside it.
func nanoseconds(b *testing.B, f func()) float64 {
	used := func() time.Duration {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			b.Fatal(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	before := used()
	f()
	return float64(used() - before)
}

// sumColumns adds up all columns, each core those of a part of the rows.
func sumColumns(b *testing.B, x table.Data) {
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
func normalRows(n, features int, numbers func(n int) []float64) table.Data {
	r := rand.New(rand.NewPCG(1, 2))
	x := table.Data{Shape: table.Shape{N: n, D: features + 1, Intercept: true}, Make: numbers, Y: numbers(n)}
	for range features {
		x.X = append(x.X, numbers(n))
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

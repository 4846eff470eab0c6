package tests

import (
	"context"
	"flag"
	"math/rand/v2"
	"os"
	"regexp"
	"strconv"
	"testing"
	"time"

	"dpsidecar/internal/dpsco"
	"dpsidecar/internal/dpsco/plan"
	"dpsidecar/internal/dpsco/table"
	"dpsidecar/internal/mech"
	"dpsidecar/internal/privacy"
	"dpsidecar/internal/spill"
)

var spillRows = flag.Int("spill-rows", 1_000_000, "rows of BenchmarkFitOnDisk")

// BenchmarkFitOnDisk is the default fit of least squares on 4 columns, in memory and on disk.
// Metrics: nanoseconds a row on disk, over those in memory, and how many MiB the fit on disk
// adds to the memory that is in no file. For a file that is larger than memory run it under
// a limit, such as MemoryMax of systemd-run; -spill-memory=false leaves out the fit in memory.
func BenchmarkFitOnDisk(b *testing.B) {
	n := *spillRows
	names := []string{"a", "b", "c"}
	algorithm, err := dpsco.Recipe("linear", nil, names)
	if err != nil {
		b.Fatal(err)
	}
	fit := func(numbers func(n int) []float64) time.Duration {
		x := table.Data{Shape: table.Shape{N: n, D: 4, Intercept: true}, Make: numbers, Y: numbers(n)}
		for range names {
			x.X = append(x.X, numbers(n))
		}
		r := rand.New(rand.NewPCG(1, 2))
		for i := range x.Y {
			for j := range x.X {
				x.X[j][i] = r.NormFloat64()
				x.Y[i] += x.X[j][i]
			}
			x.Y[i] += r.NormFloat64()
		}
		p, err := algorithm.Plan(x.Shape, privacy.Budget{Epsilon: 1, Delta: 1e-6}, privacy.Concentrated{})
		if err != nil {
			b.Fatal(err)
		}
		began := time.Now()
		if _, err := p.Run(context.Background(), x, mech.NewSource()); err != nil {
			b.Fatal(err)
		}
		return time.Since(began)
	}
	for b.Loop() {
		before := anonymous(b)
		f, err := spill.New(os.TempDir(), spill.Bytes(4+plan.StreamColumns, int64(n)))
		if err != nil {
			b.Fatal(err)
		}
		disk := fit(f.Make)
		b.ReportMetric(float64(anonymous(b)-before)/(1<<20), "anonymous-MiB")
		if err := f.Close(); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(disk.Nanoseconds())/float64(n), "disk-ns/row")
		if *spillMemory {
			memory := fit(func(n int) []float64 { return make([]float64, n) })
			b.ReportMetric(float64(disk)/float64(memory), "disk/memory")
		}
	}
}

var spillMemory = flag.Bool("spill-memory", true, "BenchmarkFitOnDisk fits in memory too")

var anonymousPages = regexp.MustCompile(`RssAnon:\s+(\d+) kB`)

// anonymous is how many bytes of this process's memory are in no file.
func anonymous(b *testing.B) int64 {
	status, err := os.ReadFile("/proc/self/status")
	found := anonymousPages.FindSubmatch(status)
	if err != nil || found == nil {
		b.Skip("this system does not say what memory is in no file")
	}
	kilobytes, err := strconv.ParseInt(string(found[1]), 10, 64)
	if err != nil {
		b.Fatal(err)
	}
	return kilobytes << 10
}

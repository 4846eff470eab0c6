package dpsco

import (
	"runtime"
	"slices"
	"testing"

	"dpsidecar/internal/catalogue"
	"dpsidecar/internal/mech/mechtest"
	"dpsidecar/internal/privacy"
)

// A plan that streams takes the same memory for any number of rows, but for the columns that
// it makes beside them; the others take more.
func TestWhatStreamsKeepsNoRows(t *testing.T) {
	const n = 100_000
	methods := append(slices.Clone(streaming), "trimmed", catalogue.MethodSampleAggregate)
	for _, model := range []string{"linear", "logistic", "huber", "poisson"} {
		m, err := catalogue.Find(model)
		if err != nil {
			t.Fatal(err)
		}
		option, _ := m.Option("method")
		for _, method := range methods {
			if !slices.Contains(option.Choices, method) {
				continue
			}
			few, more := allocated(t, model, method, n), allocated(t, model, method, 4*n)
			if kept := more.bytes - few.bytes; (kept < 8*3*n/2) != more.streams || more.columns > StreamColumns {
				t.Errorf("%s by %s: %d bytes more for %d rows more, and %d columns; it streams: %v", model, method, kept, 3*n, more.columns, more.streams)
			}
		}
	}
}

// taking is what a run takes.
type taking struct {
	bytes   int64 // of memory, in all
	columns int   // that Data.Make made
	streams bool
}

func allocated(t *testing.T, model, method string, n int) (took taking) {
	options := map[string]any{"method": method}
	if method == "gd" || method == "accmd" {
		options["steps"] = 3.
	}
	a, err := Recipe(model, options, []string{"a", "b", "c"})
	if err != nil {
		t.Fatal(err)
	}
	x := normalTable(1, n, 1, 4)
	for i, y := range x.Y {
		x.Y[i] = 0
		if y > 0 {
			x.Y[i] = 1
		}
	}
	p, err := a.Plan(x.Shape, privacy.Budget{Epsilon: 1, Delta: 1e-6}, privacy.Concentrated{})
	if err != nil {
		t.Fatal(err)
	}
	made := columns(2*StreamColumns, n)
	x.Make = func(n int) []float64 {
		took.columns++
		return made[took.columns-1][:n]
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, err := p.Run(t.Context(), x, mechtest.Source(t, 1)); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	took.bytes, took.streams = int64(after.TotalAlloc-before.TotalAlloc), p.Streams
	return took
}

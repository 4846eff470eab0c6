package dpsco

import (
	"maps"
	"runtime"
	"slices"
	"testing"

	"dpsidecar/internal/catalogue"
	"dpsidecar/internal/dpsco/plan"
	"dpsidecar/internal/dpsco/plan/plantest"
	"dpsidecar/internal/dpsco/score"
	"dpsidecar/internal/dpsco/table"
	"dpsidecar/internal/mech/mechtest"
	"dpsidecar/internal/privacy"
)

// A plan that streams takes the same memory for any number of rows, but for the columns that
// it makes beside them; the others take more.
func TestWhatStreamsKeepsNoRows(t *testing.T) {
	const n = 100_000
	options := []map[string]any{{"method": "gd", "whitening": catalogue.WhiteningOn}, {"method": "auto", "whitening": catalogue.WhiteningOff}}
	for _, method := range append(slices.Clone(streaming), "trimmed", catalogue.MethodSampleAggregate) {
		options = append(options, map[string]any{"method": method})
	}
	for _, model := range []string{"linear", "logistic", "huber", "poisson"} {
		m, err := catalogue.Find(model)
		if err != nil {
			t.Fatal(err)
		}
		option, _ := m.Option("method")
		for _, asked := range options {
			if _, whitens := asked["whitening"]; !slices.Contains(option.Choices, asked["method"].(string)) || whitens && m.Counts {
				continue
			}
			few, more := allocated(t, m, asked, n), allocated(t, m, asked, 4*n)
			if kept := more.bytes - few.bytes; (kept < 8*3*n/2) != more.streams || more.columns > plan.StreamColumns {
				t.Errorf("%s by %v: %d bytes more for %d rows more, and %d columns; it streams: %v", model, asked, kept, 3*n, more.columns, more.streams)
			}
		}
	}
}

func TestScoresKeepNoRows(t *testing.T) {
	const n = 50_000
	for name, a := range map[string]score.Metrics{"residuals": {}, "labels": {Labels: true}, "counts": {Counts: true}} {
		a.Coefficients = []float64{0, 1}
		few, more := ran(t, a, normalTable(1, n, 1, 4)), ran(t, a, normalTable(1, 4*n, 1, 4))
		if kept := more.bytes - few.bytes; kept > 8*3*n/2 || more.columns > plan.StreamColumns || !more.streams {
			t.Errorf("%s: %d bytes more for %d rows more, and %d columns; it streams: %v", name, kept, 3*n, more.columns, more.streams)
		}
	}
}

// taking is what a run takes.
type taking struct {
	bytes   int64 // of memory, in all
	columns int   // that Data.Make made
	streams bool
}

// allocated runs a plan in the units of a table, of counts without an intercept, which their unit
// moves then.
func allocated(t *testing.T, m catalogue.Model, asked map[string]any, n int) (took taking) {
	options := maps.Clone(asked)
	if method := options["method"]; method == "gd" || method == "accmd" || options["whitening"] == catalogue.WhiteningOff {
		options["steps"] = 3.
	}
	inner, err := Recipe(m.Name, options, []string{"a", "b", "c"})
	if err != nil {
		t.Fatal(err)
	}
	x := normalTable(1, n, 1, 4)
	a := Scaled{Algorithm: inner, X: []float64{1}, Y: 1}
	if m.Counts {
		a.Y, a.Counts, x.Intercept, x.D = 2, true, false, 1
	}
	return ran(t, a, x)
}

// ran is what a run takes on a table whose target is made 0 or 1.
func ran(t *testing.T, a plan.Algorithm, x table.Data) (took taking) {
	for i, y := range x.Y {
		x.Y[i] = 0
		if y > 0 {
			x.Y[i] = 1
		}
	}
	p := plantest.Plan(t, a, x.Shape, privacy.Budget{Epsilon: 1, Delta: 1e-6}, privacy.Concentrated{})
	made := table.NewColumns(2*plan.StreamColumns, x.N)
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

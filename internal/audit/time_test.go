package audit

import (
	"testing"
	"time"

	"dpsidecar/internal/dpsco/plan"
	"dpsidecar/internal/dpsco/table"
)

// The game sees a time that tells tables apart: that of the exact sampler for 300 and for
// 3,000 rows, were it shown as it is. With probability 1e-7 it is refuted though it does not.
func TestTheTimeOfAFitIsRefuted(t *testing.T) {
	f := timedFits[0]
	f.tables = func() (a, b table.Data) { return nearPlane(300), nearPlane(3000) }
	g, err := f.timingGame(func(_ plan.Ladder, took time.Duration) float64 { return took.Seconds() })
	if err != nil {
		t.Fatal(err)
	}
	r, err := g.Run(t.Context(), 1600, 1e-7, sources(t))
	if err != nil || !r.Refuted() {
		t.Errorf("it stands: at least %v, %v", r.Lower, err)
	}
}

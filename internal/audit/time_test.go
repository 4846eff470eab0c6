package audit

import (
	"testing"
	"time"

	"dpsidecar/internal/dpsco"
)

// The time that the exact sampler takes, were it shown as it is, tells an outlier. With
// probability 1e-7 it is refuted though it does not.
func TestTheTimeOfAFitIsRefuted(t *testing.T) {
	g, err := timedFits[0].timingGame(func(_ dpsco.Ladder, took time.Duration) float64 { return took.Seconds() })
	if err != nil {
		t.Fatal(err)
	}
	r, err := g.Run(t.Context(), 1600, 1e-7, sources(t))
	if err != nil || !r.Refuted() {
		t.Errorf("it stands: at least %v, %v", r.Lower, err)
	}
}

package plan

import (
	"math"
	"testing"
	"time"

	"dpsidecar/internal/dpsco/table"
)

// A ladder has a first step whatever the limit, grows by half, and ends within it.
func TestLaddersEndWithinTheirLimit(t *testing.T) {
	for _, seconds := range []float64{0, 1e-3, 1, 100, 1e12, math.Inf(1)} {
		for _, limit := range []time.Duration{time.Second, time.Hour} {
			l := NewLadder(&Plan{Seconds: seconds, Shape: table.Shape{N: 1000, D: 3}}, limit)
			if l.First <= 0 || l.End() > limit || float64(l.End())*ladderGrowth <= float64(limit) || l.Step(0) != l.First {
				t.Errorf("%v seconds within %v: %+v ends at %v", seconds, limit, l, l.End())
			}
			for k := range l.Last + 1 {
				if got := l.At(l.Step(k)); got != k {
					t.Errorf("step %d is %d", k, got)
				}
				if got := l.At(l.Step(k) + 1); got != min(k+1, l.Last) {
					t.Errorf("after step %d comes %d", k, got)
				}
			}
		}
	}
}

package dpsco

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"dpsidecar/internal/catalogue"
	"dpsidecar/internal/dpsco/loss"
	"dpsidecar/internal/dpsco/plan"
	"dpsidecar/internal/dpsco/plan/plantest"
	"dpsidecar/internal/dpsco/table"
	"dpsidecar/internal/privacy"
)

// A centred descent releases what it charges, and no release, the mean row's among them, moves by more than its noise
// hides: of single rows and of persons with several.
func TestReplaysOfCentredDescents(t *testing.T) {
	largest := 0.0
	for _, l := range []loss.Loss{loss.Squared{}, loss.Huber{}} {
		for k := range 12 {
			r, s := rand.New(rand.NewPCG(6, uint64(k))), table.Shape{N: 23, D: minCentred + k%2, Intercept: true}
			scaled := Scaled{Algorithm: Regression{Loss: l, Whitening: catalogue.WhiteningOff, Steps: 6, Radius: 2}, X: table.Repeat(0.5, s.Columns()), Y: 3}
			x, y := plantest.Neighbours(r, s, false)
			if k%3 == 0 {
				scaled.MaxRows = plantest.MaxFellows
				x, y = plantest.RecordNeighbours(r, s, false)
			}
			name := fmt.Sprintf("%T, pair %d", l, k)
			shares, err := plantest.Replay(t, func() *plan.Plan {
				p, err := scaled.Plan(s, plantest.Generous, privacy.Concentrated{})
				if err != nil || p.ChosenMethod != "centred descent" {
					t.Fatalf("%s: %+v, %v", name, p, err)
				}
				return p
			}, x, y)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			for _, share := range shares {
				largest = max(largest, share)
			}
		}
	}
	if largest <= 0.5 {
		t.Errorf("moved by %v of the bound at most; half the bound would pass", largest)
	}
}

// Rows that stay elsewhere give a centred descent what they give where they are, with weights and without. The first release is
// where the target lies, of rows without weights.
func TestCentredPushdownGivesTheSame(t *testing.T) {
	for _, model := range []string{"linear", "huber"} {
		for k := range 4 {
			x := weightedLaw(model, 3000, uint64(k))
			x.D, x.X = minCentred, append(x.X, make([]float64, x.N))
			for i := range x.X[2] {
				x.X[2][i] = 2 + math.Abs(x.X[0][i])
				if i%7 == 0 { // unusable rows, and far ones
					x.X[i%3][i] = []float64{math.NaN(), math.Inf(1), 30, -5e8, 40}[i/7%5]
				}
			}
			a := askedFor(t, model, "plain auto", k%2 == 0, &x)
			a.X, a.CentreX, a.Y = []float64{2, 0.3, 1}, []float64{0.1, -3, 0}, 3
			here := taped(t, a, plantest.Clone(x), nil)
			there := taped(t, a, pushedDown(x), here)
			releases := map[bool]int{true: 6, false: 7}[a.Algorithm.(Regression).MaxWeight > 0]
			if len(here.Releases) != len(there.Releases) || len(here.Releases) != releases {
				t.Fatalf("%s, %d: %d releases, elsewhere %d", model, k, len(here.Releases), len(there.Releases))
			}
			for r, release := range here.Releases {
				if share := release.Share(there.Releases[r]); !release.Matches(there.Releases[r]) || share > 0.02 {
					t.Errorf("%s, %d: release %d of %T differs by %.3f of what a row may change", model, k, r, release.Contract, share)
				}
			}
		}
	}
}

// Where features lie is nothing to a centred descent with little noise: the fit is that of centred ones, but for the intercept.
func TestCentredDescentsTakeOutMeans(t *testing.T) {
	fit := func(centre float64) []float64 {
		x := drawLaw("gauss", 20_000, minCentred, 1)
		for _, column := range x.X {
			shiftBy(column, -centre)
		}
		return resultOf(t, Regression{Loss: loss.Squared{}, Whitening: catalogue.WhiteningOff}, x, 20, 1).Coefficients
	}
	at, far := fit(0), fit(3)
	for j := range at {
		if j > 0 {
			at[0] -= 3 * at[j]
		}
	}
	for j := range at {
		if math.Abs(at[j]-far[j]) > 0.05 {
			t.Errorf("coefficient %d is %v, of features 3 farther to the right %v", j, at[j], far[j])
		}
	}
}

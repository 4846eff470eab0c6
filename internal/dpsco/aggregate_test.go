package dpsco

import (
	"context"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"dpsidecar/internal/dpsco/loss"
	"dpsidecar/internal/dpsco/plan"
	"dpsidecar/internal/dpsco/plan/plantest"
	"dpsidecar/internal/dpsco/prox"
	"dpsidecar/internal/dpsco/table"
	"dpsidecar/internal/mech"
	"dpsidecar/internal/mech/mechtest"
	"dpsidecar/internal/privacy"
)

// awkwardPoints are fits that spoil floating sums, bins or lengths.
func awkwardPoints(r *rand.Rand, m, d int) [][]float64 {
	points := make([][]float64, m)
	scale := math.Pow(10, float64(r.IntN(7)-3))
	for i := range points {
		points[i] = make([]float64, d)
		for j := range points[i] {
			points[i][j] = scale * r.NormFloat64()
			if r.IntN(4) == 0 {
				points[i][j] = plantest.Hostile(r)
			}
		}
	}
	return points
}

// moveOne replaces a point by another, far away on the other side in half of the cases.
func moveOne(r *rand.Rand, points [][]float64) [][]float64 {
	moved := slices.Clone(points)
	i, d := r.IntN(len(points)), len(points[0])
	if moved[i] = awkwardPoints(r, 1, d)[0]; r.IntN(2) == 0 {
		points[i], moved[i] = make([]float64, d), make([]float64, d)
		for j := range d {
			points[i][j] = []float64{1e9, 1e300}[r.IntN(2)]
			moved[i][j] = -points[i][j]
		}
	}
	return moved
}

// distanceOverBound compares integers with the bound that the noise is scaled to.
func distanceOverBound(t *testing.T, a, b mech.Bounded) float64 {
	square, bound := new(big.Int), mechtest.SquaredSensitivity(t, a)
	v, w := mechtest.Totals(t, a), mechtest.Totals(t, b)
	for k := range v {
		gap := new(big.Int).Sub(big.NewInt(v[k]), big.NewInt(w[k]))
		square.Add(square, gap.Mul(gap, gap))
	}
	share, _ := new(big.Rat).SetFrac(square, bound).Float64()
	if square.Cmp(bound) > 0 {
		return 1 + share
	}
	return min(1, math.Sqrt(share))
}

// One point moved moves both statistics of a RangeMean by at most their bounds, and
// by as much for some neighbours: half the bound would not do. Two points moved, and
// points that are not clipped, exceed it.
func TestAggregatesMoveByTheirBound(t *testing.T) {
	r := rand.New(rand.NewPCG(12, 8))
	largest := map[string]float64{}
	note := func(name string, share float64) { largest[name] = max(largest[name], share) }
	for range 4000 {
		m, d := 2+r.IntN(20), 1+r.IntN(4)
		a := RangeMean{Bins: mech.Bins{Width: []float64{1e-3, 0.5, 3}[r.IntN(3)], Half: 1 + r.IntN(9)}, Ratio: 1}
		windows, contract := make([]window, d), mech.Contract{Norm: mech.L2, Bound: math.Sqrt(float64(d)), N: m, D: d}
		for j := range windows {
			windows[j] = window{middle: r.NormFloat64(), half: []float64{1e-3, 1, 2}[r.IntN(3)]}
		}
		first := awkwardPoints(r, m, d)
		second := moveOne(r, first)
		third := moveOne(r, slices.Clone(second))
		note("counts", distanceOverBound(t, a.counts(first, d), a.counts(second, d)))
		note("differences", distanceOverBound(t, differences(first, windows, contract), differences(second, windows, contract)))
		note("two points, counts", distanceOverBound(t, a.counts(first, d), a.counts(third, d)))
		note("two points, differences", distanceOverBound(t, differences(first, windows, contract), differences(third, windows, contract)))
		note("no clip", unclippedGap(first, second, windows)/(2*contract.Bound))
	}
	t.Log(largest)
	for _, name := range []string{"counts", "differences"} {
		if s := largest[name]; s > 1 || s < 0.999 {
			t.Errorf("one point moved the %s by %v of their bound at most; it must be 1", name, s)
		}
		if s := largest["two points, "+name]; s <= 1 {
			t.Errorf("the test has no power: two points moved the %s by %v of the bound for one", name, s)
		}
	}
	if largest["no clip"] <= 1 {
		t.Errorf("the test has no power: without a clip one point moved the differences by %v of the bound", largest["no clip"])
	}
}

// unclippedGap is how far the sums of finite differences are apart without a clip.
func unclippedGap(a, b [][]float64, windows []window) float64 {
	gap := make([]float64, len(windows))
	for i := range a {
		for j, w := range windows {
			if v := (a[i][j] - b[i][j]) / w.half; math.Abs(v) < 1e200 {
				gap[j] += v
			}
		}
	}
	length := 0.0
	for _, v := range gap {
		length = math.Hypot(length, v)
	}
	return length
}

// brokenMean is a RangeMean that does wrong what how says.
type brokenMean struct {
	RangeMean
	how string
}

func (a brokenMean) at(points, d int, z float64) (*aggregation, error) {
	right, err := a.RangeMean.at(points, d, z)
	if err != nil {
		return nil, err
	}
	wrong := *right
	switch a.how {
	case "half the noise":
		half, err := a.RangeMean.at(points, d, z/2)
		if err != nil {
			return nil, err
		}
		wrong.release = half.release
	case "the histogram is not charged":
		wrong.event = privacy.Gaussian{NoiseMultiplier: z}
	case "windows are those of the counts without noise":
		wrong.release = func(dst []float64, points [][]float64, src *mech.Source) {
			counts := make([]float64, 2*a.Bins.Half*d)
			for _, p := range points {
				for j, v := range p {
					if k := v/a.Bins.Width + float64(a.Bins.Half); !math.IsNaN(k) {
						counts[2*a.Bins.Half*j+int(max(0, min(k, float64(2*a.Bins.Half-1))))]++
					}
				}
			}
			right.release(dst, points, src)
			for j, w := range a.windows(counts, len(points), d, 0) {
				dst[j] += w.middle
			}
		}
	case "no clip":
		wrong.release = func(dst []float64, points [][]float64, src *mech.Source) {
			right.release(dst, points, src)
			for _, p := range points {
				for j, v := range p {
					if !math.IsNaN(v) {
						dst[j] += v / float64(len(points))
					}
				}
			}
		}
	}
	return &wrong, nil
}

// Every way in which a RangeMean could break its promise is found by a replay.
func TestRangeMeanMutantsAreRefuted(t *testing.T) {
	s := table.Shape{N: 23, D: 2}
	for _, how := range []string{
		"nothing", "half the noise", "the histogram is not charged", "windows are those of the counts without noise", "no clip", "a record in two blocks",
	} {
		right := RangeMean{Bins: mech.Bins{Width: 0.5, Half: 5}, Ratio: math.Sqrt2}
		a := SampleAggregate{Blocks: 5, Loss: loss.Squared{}, Psi: prox.Zero{}, Aggregator: brokenMean{right, how}}
		plan := func() *plan.Plan {
			g, err := a.at(s, 1)
			if err != nil {
				t.Fatal(err)
			}
			if how == "a record in two blocks" {
				g.run = estimates(func(ctx context.Context, x table.Data, src *mech.Source) ([]float64, error) {
					return overlapping(ctx, a, x, src)
				})
			}
			return planOfStage(g, s)
		}
		var found error
		r := rand.New(rand.NewPCG(3, 3))
		for range 60 {
			x, y := plantest.Neighbours(r, s, false)
			if _, err := plantest.Replay(t, plan, x, y); err != nil {
				found = err
			}
		}
		t.Logf("%s: %v", how, found)
		if (found == nil) != (how == "nothing") {
			t.Errorf("%s: %v", how, found)
		}
	}
}

// overlapping aggregates the fits of blocks of which each holds the next one too.
func overlapping(_ context.Context, a SampleAggregate, x table.Data, src *mech.Source) ([]float64, error) {
	blocks := mech.NewPermutation(x.N, src).Blocks(a.Blocks)
	var points [][]float64
	for k, rows := range blocks {
		points = append(points, exact(a.Loss, a.Psi, x.Pick(slices.Concat(rows, blocks[(k+1)%len(blocks)]))))
	}
	aggregate, err := a.Aggregator.at(a.Blocks, x.D, 1)
	if err != nil {
		return nil, err
	}
	w := make([]float64, x.D)
	aggregate.release(w, points, src)
	return w, nil
}

// The window holds most of the points whatever their scale, within what noise allows:
// its half width is at most four spreads, or two bins, and its middle as near.
// False failures: noise is a hundredth of the points; none in any imaginable run.
func TestWindowsFollowThePoints(t *testing.T) {
	a := RangeMean{Bins: mech.Bins{Width: 0.1, Half: 101}, Ratio: 1}
	for _, spread := range []float64{0, 0.001, 0.1, 0.5, 2} {
		for _, middle := range []float64{0, -3, 3.14, 9} {
			r := rand.New(rand.NewPCG(1, 1))
			counts := make([]float64, 2*a.Bins.Half)
			for range 1000 {
				v := middle + spread*r.NormFloat64()
				counts[int(max(0, min(v/a.Bins.Width+float64(a.Bins.Half), float64(len(counts)-1))))]++
			}
			for k := range counts {
				counts[k] += 10 * r.NormFloat64()
			}
			w := a.windows(counts, 1000, 1, 10)[0]
			if w.half > max(4*spread, 2*a.Bins.Width) || math.Abs(w.middle-middle) > max(2*spread, a.Bins.Width) {
				t.Errorf("points at %v ± %v: window %v ± %v", middle, spread, w.middle, w.half)
			}
		}
	}
}

// From 10,000 rows, five features and eps 1 on, the answer is close: the excess risk,
// which is the squared distance for such features, is at most a tenth of the variance
// of the residuals; 0.039 is the worst of these eight draws, which are reproducible, so
// that chance fails no run.
func TestRangeMeanIsCloseFromTenThousandRows(t *testing.T) {
	want := []float64{1, 0.5, -0.5, 0.5, -0.5, 0.5}
	x := normalTable(7, 10_000, 1, want[1:]...)
	a := mustRecipe(t, "linear", "sample_aggregate")
	worst := 0.0
	for seed := range uint64(8) {
		p := plantest.Plan(t, a, x.Shape, privacy.Budget{Epsilon: 1, Delta: 1e-6}, privacy.Concentrated{})
		if p.Arithmetic != "" {
			t.Errorf("marked %q, but its sums are integers", p.Arithmetic)
		}
		w, err := coefficients(p.Run(t.Context(), plantest.Clone(x), mechtest.Source(t, seed)))
		if err != nil {
			t.Fatal(err)
		}
		excess := 0.0
		for j := range want {
			excess += (w[j] - want[j]) * (w[j] - want[j])
		}
		worst = max(worst, excess)
		if seed == 0 {
			t.Log(p.Parameters["blocks"], p.Parameters["noise_multiplier"])
		}
	}
	t.Logf("worst excess risk %.3g of the residuals' variance", worst)
	if worst > 0.1 {
		t.Errorf("excess risk %v", worst)
	}
}

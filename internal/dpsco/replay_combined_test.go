package dpsco

import (
	"encoding/json"
	"errors"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"dpsidecar/internal/catalogue"
	"dpsidecar/internal/dpsco/loss"
	"dpsidecar/internal/dpsco/moments"
	"dpsidecar/internal/dpsco/plan"
	"dpsidecar/internal/dpsco/plan/plantest"
	"dpsidecar/internal/dpsco/release"
	"dpsidecar/internal/dpsco/table"
	"dpsidecar/internal/mech"
	"dpsidecar/internal/mech/mechtest"
	"dpsidecar/internal/privacy"
)

// combined draws a request and the kind of table that it is about: any model and method, or
// stages of l1, or a score, or second moments, with scales, centres, weights, groups and persons
// as they come. labels and counts say what the target is.
func combined(r *rand.Rand, s *table.Shape, rows int) (request plan.Algorithm, b privacy.Budget, weights, labels, counts bool) {
	weights = r.IntN(2) == 0
	if r.IntN(3) == 0 {
		s.GroupCount = 1 + r.IntN(4)
	}
	most := 0.
	if weights {
		most = maxWeight
	}
	scaled := Scaled{X: make([]float64, s.Columns()), Y: 1, MaxRows: rows}
	for j := range scaled.X {
		scaled.X[j] = []float64{1, 0.1, 3, 1e-3, 1e100, 1e-100}[r.IntN(6)]
	}
	if s.Intercept && r.IntN(2) == 0 {
		scaled.CentreX = []float64{0.5, -2, 1e-3}[:s.Columns()]
	}
	b = privacy.Budget{Epsilon: []float64{0.05, 0.3, 1, 20, 300}[r.IntN(5)], Delta: 1e-6}
	switch r.IntN(8) {
	case 0, 1: // weights and groups together are for scores alone
		a := L1{Method: catalogue.MethodStaged, Tau: []float64{0.5, 0.1, 0.9}[r.IntN(3)], MaxWeight: most}
		if s.GroupCount > 0 {
			a.MaxWeight, weights = 0, false
		}
		scaled.Algorithm = a
		return scaled, privacy.Budget{Epsilon: []float64{5, 50, 300}[r.IntN(3)]}, weights, false, false
	case 2, 3:
		all := scores()
		a := all[slices.Sorted(maps.Keys(all))[r.IntN(len(all))]]
		a.Coefficients = slices.Repeat([]float64{0.3, 0.9, -2, 4}[:s.D], max(1, s.GroupCount))
		a.MaxRows, a.MaxWeight = rows, most
		if r.IntN(2) == 0 {
			b.Delta = 0
		}
		return a, b, weights, a.Labels, a.Counts
	case 4:
		s.GroupCount = 0
		scaled.Algorithm = moments.Sums{}
		return scaled, b, false, false, false
	}
	all := replays()
	a := all[slices.Sorted(maps.Keys(all))[r.IntN(len(all))]]
	if a.MaxWeight = most; s.GroupCount > 0 {
		a.Method, a.Whitening, a.Batch, a.Steps, a.Blocks, a.Aggregator = catalogue.MethodAuto, "", 0, 0, 0, ""
		a.By, a.MaxWeight, weights = "g", 0, false
	}
	if s.Columns() == 0 {
		a.Penalty, a.Groups = catalogue.PenaltyNone, nil
	}
	_, counts = a.Loss.(loss.Poisson)
	scaled.Algorithm, scaled.Counts = a, counts
	return scaled, b, weights, a.Labels, counts
}

// What other replays look at by itself is replayed together: persons with several rows, groups, weights, offsets,
// exposures, scales and centres, of budgets from nearly none to generous, of tables of less than one
// block of rows and of several. Whatever a record becomes in all of its columns at once, integers move by
// what noise hides, and given the answers nothing else differs.
func TestReplaysOfAllTogether(t *testing.T) {
	r, ran := rand.New(rand.NewPCG(12, 12)), 0
	for k := range 900 {
		s, rows := table.Shape{N: []int{1 + r.IntN(30), 60, 300, 700}[r.IntN(4)], D: 1 + r.IntN(4), Intercept: r.IntN(2) == 0}, 0
		if r.IntN(3) == 0 {
			rows = plantest.MaxFellows
		}
		a, b, weights, labels, counts := combined(r, &s, rows)
		var accountant privacy.Accountant = privacy.Concentrated{}
		if b.Delta == 0 {
			accountant = privacy.PureSum{}
		}
		if _, err := a.Plan(s, b, accountant); errors.Is(err, plan.ErrInfeasible) || errors.Is(err, plan.ErrParameter) {
			continue
		}
		x, y := plantest.Neighbours(r, s, labels)
		if rows > 0 {
			x, y = plantest.RecordNeighbours(r, s, labels)
		}
		extreme := func() float64 {
			return []float64{0, 1, -1, 5e-324, 1e300, math.Inf(1), math.NaN(), math.Inf(-1), 700, -700, maxWeight}[r.IntN(11)]
		}
		// The columns are made before any is given, so that all follow the same record.
		weight, otherWeight := plantest.AuxiliaryAlike(x, y, func() float64 { return maxWeight * r.Float64() }, extreme)
		offset, otherOffset := plantest.AuxiliaryAlike(x, y, r.NormFloat64, extreme)
		exposure, otherExposure := plantest.AuxiliaryAlike(x, y, func() float64 { return math.Exp(r.NormFloat64()) }, extreme)
		if weights {
			x.Weight, y.Weight = weight, otherWeight
		}
		if r.IntN(2) == 0 {
			x.Offset, y.Offset = offset, otherOffset
		}
		if counts && r.IntN(2) == 0 {
			x.Exposure, y.Exposure = exposure, otherExposure
		}
		if s.GroupCount > 0 {
			x, y = plantest.RecordsInGroups(r, x, y, s.GroupCount)
		}
		ran++
		_, err := plantest.Replay(t, func() *plan.Plan { return mayPlace(plantest.Plan(t, a, s, b, accountant)) }, x, y)
		if err != nil {
			t.Fatalf("pair %d, %+v of %+v, %+v: %v", k, a, s, b, err)
		}
	}
	if ran < 450 {
		t.Errorf("%d pairs", ran)
	}
}

// Whatever is released, however unlikely it is, becomes a result that can be written as JSON, and no panic: a job that fails is
// tried again with other noise, so that what is released in the end would depend on what fails.
func TestWhateverIsReleasedBecomesAResult(t *testing.T) {
	r, ran := rand.New(rand.NewPCG(13, 12)), 0
	for k := range 600 {
		s := table.Shape{N: []int{1 + r.IntN(30), 60, 300}[r.IntN(3)], D: 1 + r.IntN(4), Intercept: r.IntN(2) == 0}
		request, b, weights, labels, _ := combined(r, &s, 0)
		a := plan.Algorithm(request)
		if k%4 == 0 {
			kinds := []string{"n", "nfn", "nl", "lf"}[r.IntN(4)]
			two := describers(kinds)
			s, weights = table.Shape{N: s.N, D: len(kinds) - 1}, false
			a, b.Delta = two[r.IntN(len(two))], []float64{0, 1e-6}[r.IntN(2)]
		}
		if _, err := a.Plan(s, b, privacy.Concentrated{}); errors.Is(err, plan.ErrInfeasible) || errors.Is(err, plan.ErrParameter) {
			continue
		}
		x, _ := plantest.Neighbours(r, s, labels)
		if weights {
			x.Weight = make([]float64, s.N)
			for i := range x.Weight {
				x.Weight[i] = maxWeight * r.Float64()
			}
		}
		if s.GroupCount > 0 {
			x, _ = plantest.RecordsInGroups(r, x, x, s.GroupCount)
		}
		ran++
		run := func(earlier *mechtest.Tape) (release.Result, *mechtest.Tape) {
			src, tape := mechtest.NewTape(t, uint64(k), earlier)
			p := plantest.Plan(t, a, s, b, privacy.Concentrated{})
			result, err := p.Run(t.Context(), plantest.Clone(x), src)
			if err != nil {
				t.Fatal(err)
			}
			return result, tape
		}
		_, answers := run(nil)
		spoil(r, answers.Releases)
		result, _ := run(answers)
		if _, err := json.Marshal([]any{result.Metrics, result.Figures, result.Scales}); err != nil {
			t.Errorf("%+v of %+v, %+v: %v", a, s, b, err)
		}
	}
	if ran < 300 {
		t.Errorf("%d tables", ran)
	}
}

// spoil multiplies answers with noise of any size by numbers that make them huge, tiny, 0, or of the other sign, all of an answer or
// each by another.
func spoil(r *rand.Rand, releases []mechtest.Release) {
	for _, release := range releases {
		switch release.Mechanism.(type) {
		case mech.Gaussian, mech.Laplace, mech.MatrixLaplace:
		default:
			continue // numbers of a grid
		}
		factor := func() float64 {
			return []float64{1, 2, -1, 0, 0.5, 10, 1e-9, 1e-300, 1e6, -1e8, 1e30, 1e150}[r.IntN(12)]
		}
		all, alike := factor(), r.IntN(2) == 0
		for i := range release.Answer {
			if !alike {
				all = factor()
			}
			release.Answer[i] *= all
		}
	}
}

package dpsco

import (
	"context"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"dpsidecar/internal/catalogue"
	"dpsidecar/internal/dpsco/histogram"
	"dpsidecar/internal/dpsco/plan"
	"dpsidecar/internal/dpsco/plan/plantest"
	"dpsidecar/internal/dpsco/table"
	"dpsidecar/internal/mech"
	"dpsidecar/internal/mech/mechtest"
	"dpsidecar/internal/privacy"
)

// The shares add up to epsilon, as rational numbers, and so does what is charged, in every
// order; a zCDP account is charged about a sixth of epsilon^2.
func TestStagedSharesAddUp(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 6))
	for range 20_000 {
		s := table.Shape{N: 1 + int(math.Exp(20*r.Float64())), D: 1 + r.IntN(40), Intercept: r.IntN(2) == 0, GroupCount: []int{0, 3}[r.IntN(2)]}
		epsilon := math.Exp(30*r.Float64() - 20)
		if r.IntN(3) == 0 {
			epsilon = []float64{.1, .3, 1, 3, plan.MinEpsilon, plan.MaxEpsilon, 2, .5}[r.IntN(8)]
		}
		median := r.IntN(2) == 0
		tau := .5
		if !median {
			tau = []float64{.01, .3, .9}[r.IntN(3)]
		}
		columns, unscaled := r.IntN(4), r.IntN(4)
		weighted := r.IntN(4) == 0
		s.Intercept = s.Intercept && !weighted // a column represents it
		constant := s.Intercept || weighted
		p := newStagedShares(s, epsilon, tau, constant, unscaled, columns)
		sum := new(big.Rat).SetInt64(int64(s.Columns()))
		sum.Mul(sum, new(big.Rat).SetFloat64(p.reach))
		for _, share := range []float64{p.moments[0], p.moments[1], p.rough, p.width, p.last} {
			if !(share > 0) {
				t.Fatalf("%+v, eps %v: shares %+v", s, epsilon, p)
			}
			sum.Add(sum, new(big.Rat).SetFloat64(share))
		}
		informed := float64(s.N) * .06 * (epsilon - p.scales)
		itself := min(tau, 1-tau)*informed >= 20 // the shift looks for the quantile tau
		enough := s.GroupCount > 0 || itself || informed >= 56 && !weighted
		if (p.quantileShift > 0) != (!median && constant && enough) {
			t.Fatalf("%+v, eps %v: shares %+v", s, epsilon, p)
		}
		if (p.units > 0) != (!median && s.GroupCount > 0) {
			t.Fatalf("%+v, eps %v: shares %+v", s, epsilon, p)
		}
		seen := columns > 0 && 2*math.Sqrt2*float64(columns) <= .06*.09*(epsilon-p.scales)*float64(s.N)
		if (p.position > 0) != seen || (p.detail > 0) != seen || p.position > .06*epsilon || p.detail > .024*epsilon {
			t.Fatalf("%+v, eps %v, %d columns: shares %+v", s, epsilon, columns, p)
		}
		found := unscaled > 0 && 2*math.Sqrt2*float64(unscaled) <= .2*.03*epsilon*float64(s.N)
		if (p.scales > 0) != found || p.scales > .2*epsilon {
			t.Fatalf("%+v, eps %v, %d columns without a scale: shares %+v", s, epsilon, unscaled, p)
		}
		sum.Add(sum, new(big.Rat).SetFloat64(p.scales))
		sum.Add(sum, new(big.Rat).SetFloat64(p.position))
		sum.Add(sum, new(big.Rat).SetFloat64(p.detail))
		sum.Add(sum, new(big.Rat).SetFloat64(p.quantileShift))
		sum.Add(sum, new(big.Rat).SetFloat64(p.units))
		if (p.typicalResidual > 0) != (p.quantileShift > 0 && s.GroupCount == 0) {
			t.Fatalf("%+v, eps %v: shares %+v", s, epsilon, p)
		}
		sum.Add(sum, new(big.Rat).SetFloat64(p.typicalResidual))
		refined := p.quantileShift > 0 && s.GroupCount == 0 && itself && stagedInformation(s, epsilon)*2*min(tau, 1-tau)*math.Abs(2*tau-1) >= 200
		if long := s.GroupCount == 0 && 8 <= .25*.02*(epsilon-p.scales)*float64(s.N); (p.length > 0) != long {
			t.Fatalf("%+v, eps %v: shares %+v", s, epsilon, p)
		}
		sum.Add(sum, new(big.Rat).SetFloat64(p.length))
		for _, share := range []float64{p.refinement.width, p.refinement.fit, p.refinement.shift} {
			if (share > 0) != refined {
				t.Fatalf("%+v, eps %v: shares %+v", s, epsilon, p)
			}
			sum.Add(sum, new(big.Rat).SetFloat64(share))
		}
		for _, share := range []float64{p.sizes, p.spread, p.groupFit} {
			if (share > 0) != (s.GroupCount > 0) {
				t.Fatalf("%+v, eps %v: shares %+v", s, epsilon, p)
			}
			sum.Add(sum, new(big.Rat).SetFloat64(share))
		}
		if sum.Cmp(new(big.Rat).SetFloat64(epsilon)) != 0 {
			t.Fatalf("%+v: shares of %v add up to %v", s, epsilon, sum)
		}
		// What runs is below each share, and in all at most the decimal that is booked, which is half a digit below epsilon at most.
		runs, least := new(big.Rat), new(big.Rat).SetFloat64(epsilon)
		for _, e := range p.event(s.Columns()) {
			times := 1
			if many, ok := e.(privacy.Repeat); ok {
				times, e = many.Count, many.Event
			}
			for range times {
				runs.Add(runs, new(big.Rat).SetFloat64(plan.JustBelow(e.(privacy.Pure).Epsilon)))
			}
		}
		half := new(big.Rat).SetFloat64((math.Nextafter(epsilon, math.Inf(1)) - epsilon) / 2)
		if least.Sub(least, half); runs.Cmp(least) > 0 {
			t.Fatalf("%+v, eps %v: stages run at %v in all", s, epsilon, runs)
		}
		if p.reach > 0 != (stagedInformation(s, epsilon) >= enoughForReach && s.Columns() > 0) {
			t.Fatalf("%+v, eps %v: reach %v", s, epsilon, p.reach)
		}
		e := p.event(s.Columns())
		slices.Reverse(e)
		if cost, err := privacy.Price(e); err != nil || cost.Epsilon != epsilon || cost.Delta != 0 || cost.Rho > .19*epsilon*epsilon {
			t.Fatalf("%+v: %v costs %+v, %v", s, epsilon, cost, err)
		}
	}
}

// The shift to the quantile looks for tau where enough rows lie beyond it, else for the level that 28 rows over its epsilon lie beyond.
func TestShiftLevel(t *testing.T) {
	for _, c := range []struct {
		tau, epsilon float64
		n            int
		weighted     bool
		want         float64
	}{
		{.9, .1, 2001, false, .9}, {.1, .1, 2001, true, .1}, {.9, .1, 1000, false, .72}, {.1, .1, 1000, false, .28}, {.9, .1, 1000, true, 0},
		{.6, .0625, 1000, false, .6}, {.9, .0625, 1000, false, 1 - .448}, {.9, .055, 1000, false, 0},
	} {
		if got := attainableLevel(c.tau, c.epsilon, c.n, c.weighted); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// A plan on a table and on a neighbour that is given the same answers calls the same
// mechanisms, which differ by what they hide, through all stages.
func TestReplaysOfStaged(t *testing.T) {
	largest := map[string]float64{}
	r := rand.New(rand.NewPCG(2, 6))
	for k := range 250 {
		s := table.Shape{N: 23, D: 1 + k%3, Intercept: k%2 == 0}
		a, epsilon := L1{Method: catalogue.MethodStaged}, []float64{5, 200}[k/3%2]
		if k%7 == 0 {
			a.Tau = []float64{.1, .8}[k%2]
			if k%3 == 0 {
				epsilon = 60 // the shift to the quantile looks for a level nearer to the median
			}
		}
		if k%5 == 0 {
			a.Set, a.Radius, a.ResidualScale = catalogue.SetBox, 2, .1
		}
		var request plan.Algorithm = a
		if k%4 == 0 {
			request = Scaled{Algorithm: a, X: []float64{0.1, 3, 1e-3}[:s.Columns()], Y: 7}
			if s.Intercept {
				request = Scaled{Algorithm: a, X: []float64{0.1, 3, 1e-3}[:s.Columns()], Y: 7, CentreX: []float64{0.5, -2, 1e-3}[:s.Columns()], CentreY: 3}
			}
		}
		plan := func() *plan.Plan {
			return plantest.Plan(t, request, s, privacy.Budget{Epsilon: epsilon}, privacy.PureSum{})
		}
		x, y := plantest.Neighbours(r, s, false)
		if k%5 == 2 {
			hideMost(x, y)
		}
		shares, err := plantest.Replay(t, plan, x, y)
		if err != nil {
			t.Fatalf("pair %d, %+v: %v", k, s, err)
		}
		for kind, share := range shares {
			largest[kind] = max(largest[kind], share)
		}
	}
	if len(largest) != 4 {
		t.Errorf("mechanisms %v", largest)
	}
	plantest.ReachHalf(t, largest)
}

// hideMost makes three of four rows that two tables have in common unusable, so that the stages follow their share.
func hideMost(x, y table.Data) {
	for i := range x.Y {
		same := x.Y[i] == y.Y[i]
		for j := range x.X {
			same = same && x.X[j][i] == y.X[j][i]
		}
		if same && i%4 > 0 {
			plantest.SetRow(x, i, func(int) float64 { return nan })
			plantest.SetRow(y, i, func(int) float64 { return nan })
		}
	}
}

// placedMedians is the plan of medians, also by groups and with weights, of columns that may be moved. It may
// release less than it charges, as standardisedPlan.
func placedMedians(t *testing.T, a L1, s table.Shape, epsilon float64) *plan.Plan {
	t.Helper()
	a.Method = catalogue.MethodStaged
	a.numericColumns, a.target = Scaled{X: table.Repeat(1, s.Columns()), Y: 1}.numericColumns()
	p := plantest.Plan(t, a, s, privacy.Budget{Epsilon: epsilon}, privacy.PureSum{})
	p.Method = plantest.MayReleaseLess
	return p
}

// The same holds where columns are moved to where most rows lie.
func TestReplaysOfPlacedMedians(t *testing.T) {
	moved := replayMedians(t, 5, func(a L1, s table.Shape, epsilon float64) *plan.Plan { return placedMedians(t, a, s, epsilon) }, func(*rand.Rand, table.Data, table.Data) {}, func(a L1, epsilon float64, x table.Data) bool {
		a.numericColumns, a.target = Scaled{X: table.Repeat(1, x.FeatureColumns()), Y: 1}.numericColumns()
		return newStaged(a.withDefaults(x.Shape, epsilon), x.Shape, epsilon).place(plantest.Clone(x).FirstRows(), mechtest.Source(t, 1)) != nil
	})
	if moved < 40 {
		t.Errorf("columns were moved in %d of 240 pairs", moved)
	}
}

// replayMedians replays plans of medians, also by groups, with weights and of other quantiles, on 240 pairs of neighbours,
// after change, and counts those that shows holds for.
func replayMedians(t *testing.T, seed uint64, planned func(a L1, s table.Shape, epsilon float64) *plan.Plan, change func(r *rand.Rand, x, y table.Data), shows func(a L1, epsilon float64, x table.Data) bool) (count int) {
	t.Helper()
	largest := map[string]float64{}
	r := rand.New(rand.NewPCG(seed, 6))
	for k := range 240 {
		s := table.Shape{N: 23, D: 2 + k%3, Intercept: k%10 != 1}
		a, epsilon := L1{}, []float64{80, 3000}[k/3%2]
		if k%5 == 0 {
			a.Tau = .8
		}
		x, y := []func(*rand.Rand, table.Shape, bool) (table.Data, table.Data){nearNeighbours, plantest.Neighbours, nearNeighbours, nearRecords}[k%4](r, s, false)
		change(r, x, y)
		switch records := x.First != nil; {
		case k%3 == 0 && records:
			x, y = plantest.RecordsInGroups(r, x, y, 1+k/4%4)
		case k%3 == 0:
			x, y = plantest.InGroups(r, x, y, 1+k/4%4)
		case k%3 == 1:
			a.Weight, a.MaxWeight = "w", 2
			x.Weight, y.Weight = table.Repeat(.5, len(x.Y)), table.Repeat(.5, len(y.Y))
		}
		shares, err := plantest.Replay(t, func() *plan.Plan { return planned(a, x.Shape, epsilon) }, x, y)
		if err != nil {
			t.Fatalf("pair %d, %+v: %v", k, x.Shape, err)
		}
		for kind, share := range shares {
			largest[kind] = max(largest[kind], share)
		}
		if shows(a, epsilon, x) {
			count++
		}
	}
	plantest.ReachHalf(t, largest)
	return count
}

// Medians look for the positions of columns whose units no option speaks of, where there is a constant to take
// up a center and noise lets positions be seen.
func TestWhichColumnsOfMediansMove(t *testing.T) {
	for name, c := range map[string]struct {
		a         L1
		flags     []int
		centre    float64 // of the first column
		rows      int
		intercept bool
		columns   int
		looks     bool
	}{
		"numbers":          {L1{}, nil, 0, 20_000, true, 3, true},
		"a center":         {L1{}, nil, 5, 20_000, true, 2, true},
		"few rows":         {L1{}, nil, 0, 1_000, true, 3, false},
		"a flag":           {L1{}, []int{1}, 0, 20_000, true, 2, true},
		"flags alone":      {L1{}, []int{0, 1}, 0, 20_000, true, 0, false},
		"an offset":        {L1{Offset: "o"}, nil, 0, 20_000, true, 2, true},
		"weights":          {L1{Weight: "w", MaxWeight: 2}, nil, 0, 20_000, true, 2, true},
		"a residual scale": {L1{ResidualScale: 2}, nil, 0, 20_000, true, 3, true},
		"a radius":         {L1{Radius: 5}, nil, 0, 20_000, true, 0, false},
		"no intercept":     {L1{}, nil, 0, 20_000, false, 0, false},
	} {
		s := table.Shape{N: c.rows, D: 3, Intercept: c.intercept}
		if !c.intercept {
			s.D = 2
		}
		a := c.a.withPublicFacts(Scaled{X: []float64{1, 1}, Y: 1, Flags: c.flags, CentreX: []float64{c.centre, 0}}).(L1)
		f := newStaged(a.withDefaults(s, 1), s, 1)
		if len(f.columns) != c.columns || (f.shares.position > 0) != c.looks {
			t.Errorf("%s: columns %v, share %v", name, f.columns, f.shares.position)
		}
		for _, column := range f.columns {
			if column.column == histogram.Target && column.unit != (c.a.ResidualScale != 0) {
				t.Errorf("%s: the target keeps its unit: %v", name, column.unit)
			}
		}
	}
}

// A year without a center, and a target that hardly varies in its scale, are found by groups as well.
func TestMediansByGroupsFindAYear(t *testing.T) {
	x := yearly(rand.New(rand.NewPCG(8, 6)), 20_000, []float64{9000, 70, 4}, false)
	x.GroupCount, x.Group = 2, make([]float64, x.N)
	for i := range x.Group {
		x.Group[i] = float64(i % 2)
	}
	p := plantest.Plan(t, Scaled{Algorithm: L1{}, X: []float64{2000, 50}, Y: 9500}, x.Shape, privacy.Budget{Epsilon: 1}, privacy.PureSum{})
	r, err := p.Run(t.Context(), x, mechtest.Source(t, 1))
	if err != nil {
		t.Fatal(err)
	}
	for g, group := range r.Groups {
		w := group.Coefficients
		if at := w[0] + 2015*w[1] + 50*w[2]; math.Abs(at-9000) > 20 || math.Abs(w[1]-70) > 3 || math.Abs(w[2]-4) > 1 {
			t.Errorf("group %d: %v, %v in the middle", g, w, at)
		}
	}
}

// Every way to be wrong about positions is found by a replay.
func TestReplaysOfPlacedMediansRefuteMutants(t *testing.T) {
	s := table.Shape{N: 20, D: 3, Intercept: true}
	refutePlacements(t, s, func() *plan.Plan { return placedMedians(t, L1{}, s, 3000) }, func() *plan.Plan { return placedMedians(t, L1{}, s, 6000) })
}

// One person who changes groups, of one row or of several, moves nothing by more than noise hides,
// and the sizes of groups are in nothing else.
func TestReplaysOfStagedByGroups(t *testing.T) {
	largest := map[string]float64{}
	r := rand.New(rand.NewPCG(4, 6))
	for k := range 200 {
		s := table.Shape{N: 23, D: 1 + k%3, Intercept: k%2 == 0}
		a, epsilon := L1{Method: catalogue.MethodStaged, Pool: []string{catalogue.PoolShrink, catalogue.PoolNone}[k/2%2]}, []float64{5, 200}[k/3%2]
		if k%3 == 0 {
			a.Tau = []float64{.1, .8, .99}[k/3%3]
		}
		if k%7 == 0 {
			a.Set, a.Radius = catalogue.SetBox, 2
		}
		var x, y table.Data
		if k%4 == 0 {
			x, y = plantest.RecordNeighbours(r, s, false)
			x, y = plantest.RecordsInGroups(r, x, y, 1+k/4%4)
		} else {
			x, y = plantest.Neighbours(r, s, false)
			x, y = plantest.InGroups(r, x, y, 1+k/4%4)
			if k%5 == 2 {
				hideMost(x, y)
			}
		}
		shares, err := plantest.Replay(t, func() *plan.Plan {
			return plantest.Plan(t, a, x.Shape, privacy.Budget{Epsilon: epsilon}, privacy.PureSum{})
		}, x, y)
		if err != nil {
			t.Fatalf("pair %d, %+v: %v", k, s, err)
		}
		for kind, share := range shares {
			largest[kind] = max(largest[kind], share)
		}
	}
	plantest.ReachHalf(t, largest)
}

// breakStaged is a plan that does wrong what how says.
func breakStaged(how string, s table.Shape, epsilon float64) *plan.Plan {
	request := L1{Method: catalogue.MethodStaged}
	if strings.HasPrefix(how, "the quantile .8") {
		request.Tau = .8
	}
	f := newStaged(request.withDefaults(s, epsilon), s, epsilon)
	event := f.shares.event(s.Columns())
	switch how {
	case "the width is not charged":
		event = slices.Delete(event, len(event)-2, len(event)-1)
	case "the quantile .8: the shift to the quantile is not charged":
		event = slices.Delete(event, len(event)-7, len(event)-6)
	case "the length of long rows is not charged":
		event = slices.Delete(event, len(event)-3, len(event)-2)
	case "the quantile .8: the second shift to the quantile is not charged":
		event = slices.Delete(event, len(event)-4, len(event)-3)
	case "the moments cost half":
		event[len(event)-6] = privacy.Pure{Epsilon: f.shares.moments[0] / 2}
	}
	run := func(ctx context.Context, x table.Data, src *mech.Source) ([]float64, error) {
		largest, sum := 0.0, 0.0
		for _, y := range x.Y {
			if math.Abs(y) < 1e3 {
				largest = max(largest, math.Abs(y))
				sum += y
			}
		}
		switch how {
		case "targets are centred at their mean":
			for i := range x.Y {
				x.Y[i] -= sum / float64(x.N)
			}
		case "features are scaled by the largest target":
			for _, column := range x.X {
				divide(column, 1+largest)
			}
		case "the clip follows the data":
			f.clip *= 1 + largest
		case "the quantile follows the data":
			f.level = min(.9, f.level*(1+largest/100))
		case "draws depend on the data":
			for range int(largest) {
				src.Uint64()
			}
		case "where targets are small the last fit is left out":
			if largest < 2 {
				return make([]float64, s.D), nil
			}
		}
		r, err := f.fit(ctx, x, src)
		w := r.Coefficients
		if how == "the residuals' scale is told" {
			w[0] += 1e-6 * largest
		}
		return w, err
	}
	return (&plan.Plan{Event: event, Shape: s}).WithRun(L1{}.medians(run))
}

func TestReplaysOfStagedRefuteMutants(t *testing.T) {
	s := table.Shape{N: 23, D: 2, Intercept: true}
	for _, how := range []string{
		"nothing", "the quantile .8", "the width is not charged", "the length of long rows is not charged", "the quantile .8: the shift to the quantile is not charged", "the quantile .8: the second shift to the quantile is not charged", "the moments cost half", "targets are centred at their mean", "features are scaled by the largest target",
		"the clip follows the data", "the quantile follows the data", "draws depend on the data", "where targets are small the last fit is left out", "the residuals' scale is told",
	} {
		var found error
		r := rand.New(rand.NewPCG(3, 6))
		epsilon := 200.
		if strings.HasSuffix(how, "follows the data") {
			epsilon = 60 // too little to look for the length of long rows, from which clip and quantile would follow
		}
		for range 40 {
			a, b := plantest.Neighbours(r, s, false)
			if _, err := plantest.Replay(t, func() *plan.Plan { return breakStaged(how, s, epsilon) }, a, b); err != nil {
				found = err
			}
		}
		if right := how == "nothing" || how == "the quantile .8"; (found == nil) != right {
			t.Errorf("%s: %v", how, found)
		}
	}
}

// Any table is answered with finite numbers.
func TestStagedSurvivesAwkwardTables(t *testing.T) {
	for name, v := range map[string]float64{"missing": nan, "infinite": inf, "huge": 1e300, "tiny": 1e-300, "zero": 0, "one": 1} {
		for _, epsilon := range []float64{.3, 3} { // without and with a look at the reach
			const n = 2000
			x := table.Data{Shape: table.Shape{N: n, D: 4, Intercept: true}, X: table.NewColumns(3, n), Y: make([]float64, n)}
			for i := range n {
				sign := float64(1 - 2*(i%2))
				plantest.SetRow(x, i, func(j int) float64 { return v * []float64{sign, 1, 1, sign}[j+1] })
			}
			p := plantest.Plan(t, L1{Method: catalogue.MethodStaged}, x.Shape, privacy.Budget{Epsilon: epsilon}, privacy.PureSum{})
			w, err := coefficients(p.Run(t.Context(), x, mechtest.Source(t, 1)))
			for _, c := range w {
				if err != nil || math.IsNaN(c) || math.IsInf(c, 0) {
					t.Errorf("%s at eps %v: %v, %v", name, epsilon, w, err)
				}
			}
		}
	}
}

// Where hardly any row has a value in every column, a fit in stages says that its coefficients may be anything.
func TestStagedTellsOfHardlyAnyUsableRows(t *testing.T) {
	for few, rows := range map[bool]int{true: 10, false: 2000} {
		x := normalTable(1, 20_000, 1, 2)
		for i := rows; i < x.N; i++ {
			x.X[0][i] = nan
		}
		p := plantest.Plan(t, L1{Method: catalogue.MethodStaged}, x.Shape, privacy.Budget{Epsilon: 1}, privacy.PureSum{})
		r, err := p.Run(t.Context(), x, mechtest.Source(t, 1))
		if err != nil || (r.WhyNull == fewUsableRows) != few {
			t.Errorf("%d usable rows: %q, %v", rows, r.WhyNull, err)
		}
	}
}

// l1 has no intervals, and says so.
func TestMedianRegressionSaysWhyThereAreNoIntervals(t *testing.T) {
	for _, method := range []string{catalogue.MethodStaged, catalogue.MethodObjective, catalogue.MethodExponential} {
		x := normalTable(1, 50, 1, 2)
		p := plantest.Plan(t, L1{Method: method}, x.Shape, privacy.Budget{Epsilon: 1}, privacy.PureSum{})
		r, err := p.Run(t.Context(), x, mechtest.Source(t, 1))
		if err != nil || r.StdErr != nil || !strings.Contains(r.WhyNull, "sampling and noise") || !strings.Contains(r.WhyNull, "huber") {
			t.Errorf("%s: %+v, %v", method, r, err)
		}
	}
}

package moments

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"dpsidecar/internal/dpsco"
	"dpsidecar/internal/dpsco/plan"
	"dpsidecar/internal/dpsco/plan/plantest"
	"dpsidecar/internal/dpsco/release"
	"dpsidecar/internal/dpsco/table"
	"dpsidecar/internal/mech/mechtest"
	"dpsidecar/internal/privacy"
)

// momentsIn are second moments in scales that make rows of all lengths, some of them cut.
func momentsIn(s table.Shape, b privacy.Budget, maxRows int, t *testing.T) *plan.Plan {
	t.Helper()
	p, err := dpsco.Scaled{
		Algorithm: Sums{}, X: []float64{0.1, 3, 1e-3}[:s.Columns()], Y: 7, CentreX: []float64{0.5, -2, 1e-3}[:s.Columns()], CentreY: 3,
		Sources: s.D, MaxRows: maxRows,
	}.Plan(s, b, privacy.Concentrated{})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Second moments of a table and of a neighbour, of rows, of persons with several, or of rows that
// come from another block, do the same in public given the same answers, and what they hide differs by what the noise is scaled to.
func TestReplaysOfSecondMoments(t *testing.T) {
	largest := 0.0
	r := rand.New(rand.NewPCG(9, 9))
	for k := range 150 {
		s := table.Shape{N: 1 + r.IntN(23), D: 1 + k%4, Intercept: true}
		x, y := plantest.Neighbours(r, s, false)
		maxRows := 0
		if k%5 == 0 {
			x, y = plantest.ComingRows(r, s, false)
		} else if k%2 == 0 {
			x, y = plantest.RecordNeighbours(r, s, false)
			maxRows = plantest.MaxFellows
		}
		moved, err := plantest.Replay(t, func() *plan.Plan { return momentsIn(s, plantest.Generous, maxRows, t) }, x, y)
		if err != nil {
			t.Fatalf("pair %d: %v", k, err)
		}
		for _, share := range moved {
			largest = max(largest, share)
		}
	}
	if largest <= 0.5 { // half the bound would pass
		t.Errorf("moved by %v of the bound at most", largest)
	}
}

// They cost their budget, and no more.
func TestSecondMomentsCostTheirBudget(t *testing.T) {
	order := privacy.AtOrder{Order: 20, Renyi: new(privacy.Renyi)}
	for _, accountant := range []privacy.Accountant{privacy.Concentrated{}, order} {
		for _, b := range []privacy.Budget{{Epsilon: 1, Delta: 1e-6}, {Epsilon: 3, Delta: 1e-5}} {
			p := plantest.Plan(t, Sums{}, table.Shape{N: 500, D: 6, Intercept: true}, b, accountant)
			epsilon, err := accountant.Epsilon(p.Event, b.Delta-privacy.Reserve(b.Delta))
			if err != nil || epsilon > b.Epsilon || epsilon < b.Epsilon*(1-1e-6) {
				t.Errorf("%T: eps %v of %v, %v", accountant, epsilon, b.Epsilon, err)
			}
		}
	}
}

func TestWhatHasNoSecondMomentsIsRefused(t *testing.T) {
	s, b := table.Shape{N: 100, D: 2, Intercept: true}, privacy.Budget{Epsilon: 1, Delta: 1e-6}
	for name, c := range map[string]struct {
		table.Shape
		privacy.Budget
		privacy.Accountant
		error
	}{
		"no delta":           {s, privacy.Budget{Epsilon: 1}, privacy.Concentrated{}, plan.ErrParameter},
		"delta 1":            {s, privacy.Budget{Epsilon: 1, Delta: 1}, privacy.Concentrated{}, plan.ErrParameter},
		"eps 0":              {s, privacy.Budget{Delta: 1e-6}, privacy.Concentrated{}, plan.ErrParameter},
		"no constant":        {table.Shape{N: 100, D: 2}, b, privacy.Concentrated{}, plan.ErrParameter},
		"groups":             {table.Shape{N: 100, D: 2, Intercept: true, GroupCount: 2}, b, privacy.Concentrated{}, plan.ErrParameter},
		"too many terms":     {table.Shape{N: 100, D: maxTerms, Intercept: true}, b, privacy.Concentrated{}, plan.ErrInfeasible},
		"no rows":            {table.Shape{N: 0, D: 2, Intercept: true}, b, privacy.Concentrated{}, plan.ErrInfeasible},
		"delta on pure data": {s, b, privacy.PureSum{}, plan.ErrInfeasible},
	} {
		if _, err := (Sums{}).Plan(c.Shape, c.Budget, c.Accountant); !errors.Is(err, c.error) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// sumsOf releases second moments of x.
func sumsOf(t *testing.T, x table.Data, b privacy.Budget, seed uint64) *release.Moments {
	t.Helper()
	a := Sums{}
	p := plantest.Plan(t, a, x.Shape, b, privacy.Concentrated{})
	if err := p.SeveralRows(x.MaxRows); err != nil {
		t.Fatal(err)
	}
	r, err := p.Run(t.Context(), x, mechtest.Source(t, seed))
	if err != nil {
		t.Fatal(err)
	}
	return r.Moments
}

// With little noise sums are those of the rows, shortened where they are too long; a row with a
// missing value counts for nothing, and of a person's rows each for its part.
func TestSecondMomentsAreThoseOfTheRows(t *testing.T) {
	nan := math.NaN()
	x := table.Data{Shape: table.Shape{N: 4, D: 2, Intercept: true}, X: [][]float64{{1, nan, 0, 30}}, Y: []float64{2, 1, nan, 40}}
	m := sumsOf(t, plantest.Clone(x), privacy.Budget{Epsilon: 9000, Delta: 1e-3}, 1)
	bound := 1.5 * math.Sqrt(2)
	if m.Bound != bound {
		t.Errorf("rows are %v long", m.Bound)
	}
	cut := func(v float64) float64 { return v * bound * bound }
	f, g := cut(1./6), cut(1./2501) // the first row is too long as well
	want := []float64{f + g, f + 30*g, 2*f + 40*g, f + 900*g, 2*f + 1200*g, 4*f + 1600*g}
	for k, v := range m.Sums {
		if math.Abs(v-want[k]) > 8*m.Noise+1e-3 {
			t.Errorf("sum %d is %v, want %v (noise %v)", k, v, want[k], m.Noise)
		}
	}
	lost := 1 - 4.5/6 + 1 - 4.5/2501
	if math.Abs(m.Lost-lost) > 8*m.LostNoise+1e-3 {
		t.Errorf("lost is %v, want %v (noise %v)", m.Lost, lost, m.LostNoise)
	}
	persons := x
	persons.N, persons.First, persons.MaxRows = 2, []int{0, 2, 4}, 2
	of := sumsOf(t, persons, privacy.Budget{Epsilon: 9000, Delta: 1e-3}, 1)
	if math.Abs(of.Lost-lost/2) > 8*of.LostNoise+1e-3 {
		t.Errorf("of persons lost is %v, want %v", of.Lost, lost/2)
	}
	for k, v := range of.Sums {
		if math.Abs(v-want[k]/2) > 8*m.Noise+1e-3 {
			t.Errorf("of persons sum %d is %v, want %v", k, v, want[k]/2)
		}
	}
}

// What is published of the noise is its standard deviation. Of 900 squares of standard normal
// draws the mean is outside [0.75, 1.3] with a probability below 1e-6, and of 300 outside [0.6, 1.55]; seeds are fixed besides.
func TestSecondMomentsAddTheNoiseTheyTell(t *testing.T) {
	diagonal, off, lost, told := 0.0, 0.0, 0.0, 0.0
	const runs = 300
	for seed := range uint64(runs) {
		x := table.Data{Shape: table.Shape{N: 50, D: 2, Intercept: true}, X: [][]float64{table.Repeat(math.NaN(), 50)}, Y: table.Repeat(1, 50)}
		m := sumsOf(t, x, privacy.Budget{Epsilon: 1, Delta: 1e-6}, seed)
		told = m.Noise
		lost += m.Lost * m.Lost / (m.LostNoise * m.LostNoise) / runs
		for k, v := range m.Sums {
			if square := v * v / (told * told) / (3 * runs); k == 0 || k == 3 || k == 5 {
				diagonal += square
			} else {
				off += 2 * square
			}
		}
	}
	if diagonal < 0.75 || diagonal > 1.3 || off < 0.75 || off > 1.3 || lost < 0.6 || lost > 1.55 {
		t.Errorf("noise of %v has the variances %v and %v of what is told, and that of what is lost %v", told, diagonal, off, lost)
	}
}

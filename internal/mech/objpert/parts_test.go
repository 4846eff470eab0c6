package objpert

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"dpsidecar/internal/mech/mechtest"
)

// loss bounds the loss of a row that becomes another, of the same part or of another one: of the
// exact minimisers as in Lemma 2, and of as many gaps as change.
func (pl plan) loss(p Params, d, changed int) float64 {
	gap := math.Ldexp(float64(d), -int(pl.shift))
	return pl.excess(p, d) + pl.minimiserShare(p.Epsilon, d) + float64(changed)*gap
}

func TestPlanOfPartsPaysForTwoGaps(t *testing.T) {
	for _, eps := range []float64{1e-9, 1e-3, .1, 1, 5, 20, 1000} {
		for k, d := range []int{1, 4, 100, 1, 4} {
			p := Params{eps, 1.7, .3, 0x1p-26, true, []float64{0, 0, 0, .9, -.4}[k], 0}
			for changed := range 3 {
				if loss := p.planOf(d, movedFits).loss(p, d, changed); loss > eps {
					t.Errorf("eps = %v, d = %d, %d fits change: the loss is %v", eps, d, changed, loss)
				}
			}
			if eps <= 5 && p.newPlan(d).loss(p, d, 2) <= eps {
				t.Errorf("eps = %v, d = %d: the plan of one fit passes", eps, d)
			}
		}
	}
}

// worstMove searches tables of two parts, of one coefficient each, and outputs for the largest loss of
// a row of one part that becomes any row of the other.
func worstMove(p Params, pl plan) float64 {
	leaves, enters := 0.0, 0.0
	for _, w := range []float64{0, .1, 1, 10, 1000} {
		for _, common := range [][2][]float64{{nil, nil}, {{1}, {w}}, {{.3, -2, 1}, {1, 2, -5}}} {
			without := logDensity(p, pl, common[0], common[1], w)
			for _, x := range []float64{p.Clip, -p.Clip, p.Clip / 3, 5 * p.Clip} {
				for phi := -1.57; phi <= 1.57; phi += .05 {
					with := logDensity(p, pl, append(slices.Clone(common[0]), x), append(slices.Clone(common[1]), w*x+p.smoothingAt(x)*math.Tan(phi)), w)
					leaves, enters = max(leaves, with-without), max(enters, without-with)
				}
			}
		}
	}
	return leaves + enters // parts are independent: their worst cases go together
}

func TestAuditOfRowsThatMove(t *testing.T) {
	for k, eps := range []float64{.1, 1, 5, .1, 1, 1} {
		p := Params{eps, 1.5, .3, 0x1p-26, false, []float64{0, 0, 0, .8, -.8, 0}[k], []float64{0, 0, 0, 0, 0, .4}[k]}
		pl := p.planOf(1, movedFits)
		share := eps - 2*math.Ldexp(1, -int(pl.shift))
		if loss := worstMove(p, pl); loss > share || loss < .95*eps {
			t.Errorf("eps = %v, tilt %v: the worst loss found is %v of %v", eps, p.Tilt, loss, share)
		}
		for name, mutant := range map[string]plan{"half the noise": {pl.ridge, pl.noise / 2, pl.gap, pl.shift}, "half the ridge": {pl.ridge / 2, pl.noise, pl.gap, pl.shift}} {
			if loss := worstMove(p, mutant); loss <= eps {
				t.Errorf("eps = %v, tilt %v: %s passes with %v", eps, p.Tilt, name, loss)
			}
		}
	}
}

// A part has the law of its own rows, also one that has none, and no part tells of another's.
func TestPartsHaveTheAuditedLaw(t *testing.T) {
	p := Params{1, 1.5, .3, 0x1p-26, false, .3, 0}
	pl := p.planOf(1, movedFits)
	x, y := []float64{1, -.5, 3, math.NaN(), 1}, []float64{2, 1, 5, 1, -1e300}
	src := mechtest.Source(t, 9)
	const runs = 20_000
	draws := [3][]float64{}
	both := 0
	for range runs {
		w, err := DrawParts(background, p, 7, 1, []Part{{[][]float64{slices.Clone(x)}, slices.Clone(y)}, {[][]float64{{}}, nil}, {[][]float64{{1}}, []float64{4}}}, src)
		if err != nil {
			t.Fatal(err)
		}
		for g := range draws {
			draws[g] = append(draws[g], w[g][0])
		}
		if (w[1][0] > 0) == (w[2][0] > .5) {
			both++
		}
	}
	law := func(pl plan, x, y []float64) func(float64) float64 {
		o := objective{records: newRecords([][]float64{slices.Clone(x)}, slices.Clone(y), p), plan: pl, tilt: p.Tilt, bNear: []float64{0}}
		return func(w float64) float64 {
			z := o.at([]float64{w}, newton).g[0] / pl.noise
			if z < 0 {
				return math.Exp(z) / 2
			}
			return 1 - math.Exp(-z)/2
		}
	}
	less := pl
	less.noise *= 1.1
	for g, table := range [][2][]float64{{x, y}, {{}, {}}, {{1}, {4}}} {
		if !fitsLaw(draws[g], law(pl, table[0], table[1])) {
			t.Errorf("part %d does not have the audited law", g)
		}
		if fitsLaw(draws[g], law(less, table[0], table[1])) {
			t.Errorf("part %d: no power against other noise", g)
		}
	}
	q := law(pl, []float64{1}, []float64{4})(.5)
	if want := runs * .5; math.Abs(float64(both)-want) > 5*math.Sqrt(runs)/2 { // below 1e-6 where independent: P(w1 > 0) is 1/2, whatever q
		t.Errorf("%d of %d draws agree, expected %v (%v)", both, runs, want, q)
	}
}

// Parts are drawn with the plan that pays for two gaps.
func TestPartsHaveTheirPlan(t *testing.T) {
	p := Params{1, 1.5, .3, 0x1p-26, false, .3, 0}
	x, y := []float64{1, -.5, 3}, []float64{2, 1, 5}
	for changed, same := range map[int]bool{1: false, 2: true} {
		v, err := newRecords([][]float64{slices.Clone(x)}, slices.Clone(y), p).draw(background, p, p.planOf(1, changed), mechtest.Source(t, 5))
		if err != nil {
			t.Fatal(err)
		}
		w, err := DrawParts(background, p, 3, 1, []Part{{[][]float64{slices.Clone(x)}, slices.Clone(y)}}, mechtest.Source(t, 5))
		if err != nil || slices.Equal(v, w[0]) != same {
			t.Errorf("the plan of %d changed fits: %v and %v, %v", changed, v, w, err)
		}
	}
}

func TestPartsOfTooManyRowsPanic(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("parts with more rows than there are")
		}
	}()
	_, _ = DrawParts(background, Params{1, 1, .3, 0x1p-26, false, 0, 0}, 1, 1, []Part{{[][]float64{{1, 2}}, []float64{1, 2}}}, mechtest.Source(t, 1))
}

// A part is a set of rows: however they arrive, they are fitted in one order, so that the order, which may
// depend on rows of other parts, reaches no float64 sum. Missing values and zeros of either sign are told apart.
func TestRowsOfAPartHaveNoOrder(t *testing.T) {
	p := Params{Epsilon: 1, Clip: 2, Smoothing: 0.05, Pitch: 0x1p-49}
	r := rand.New(rand.NewPCG(1, 1))
	const n = 40
	draw := func(order []int) (Part, [][]float64) {
		part := Part{X: [][]float64{make([]float64, n), make([]float64, n)}, Y: make([]float64, n)}
		values := rand.New(rand.NewPCG(2, 2))
		for i := range n {
			at := order[i]
			part.Y[at], part.X[0][at], part.X[1][at] = values.NormFloat64(), values.NormFloat64(), math.Copysign(0, float64(i%2)-0.5)
			if i%7 == 0 {
				part.Y[at] = math.NaN()
			}
		}
		w, err := DrawParts(t.Context(), p, n, 2, []Part{part}, mechtest.Source(t, 3))
		if err != nil {
			t.Fatal(err)
		}
		return part, w
	}
	bits := func(part Part) (all []uint64) {
		for _, v := range slices.Concat(part.X[0], part.X[1], part.Y) {
			all = append(all, math.Float64bits(v))
		}
		return all
	}
	first, want := draw(r.Perm(n))
	for range 20 {
		again, got := draw(r.Perm(n))
		if !slices.Equal(got[0], want[0]) || !slices.Equal(bits(again), bits(first)) {
			t.Fatalf("another order: %v, want %v", got, want)
		}
	}
}

package dpsco

import (
	"math"
	"math/rand/v2"
	"testing"

	"dpsidecar/internal/dpsco/plan/plantest"
	"dpsidecar/internal/dpsco/table"
	"dpsidecar/internal/mech"
)

// randomCuts are ones that newCuts may choose.
func randomCuts(r *rand.Rand) cuts {
	inner := math.Exp(3 * r.NormFloat64())
	outer := inner * (math.Sqrt2 + r.ExpFloat64())
	return cuts{inner: inner, outer: outer, share: math.Pow(inner/outer, 0.3+0.5*r.Float64()), uncut: minUncut + (1-minUncut)*r.Float64()}
}

func (c cuts) splitOne(length float64) (inner, rest float64) {
	both := make([]float64, 2)
	c.split(both[:1], both[1:], []float64{length})
	return both[0], both[1]
}

// Both parts of a contribution are 1 long together at most, which long ones reach, and add up
// to the contribution cut at the outer length.
func TestBothPartsOfAStepKeepOneContract(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 8))
	longest := 0.0
	for range 2000 {
		c := randomCuts(r)
		length := c.outer * math.Exp(2*r.NormFloat64())
		inner, rest := c.splitOne(length)
		unit, unitRest := c.units()
		if got, want := (unit*inner+unitRest*rest)*length, min(length, c.outer); math.Abs(got-want) > 1e-9*want {
			t.Fatalf("%+v: %v is cut to %v, want %v", c, length, got, want)
		}
		both := math.Hypot(inner, rest) * length
		if both > 1+1e-9 {
			t.Fatalf("%+v: both parts of %v are %v long", c, length, both)
		}
		longest = max(longest, both)
	}
	if longest < 1-1e-9 {
		t.Errorf("no contribution is longer than %v", longest)
	}
	if inner, rest := (cuts{inner: 1, outer: 2, share: 0.5}).splitOne(math.NaN()); !math.IsNaN(inner) || !math.IsNaN(rest) {
		t.Errorf("a row without numbers gives %v and %v", inner, rest)
	}
}

// The noise of the mean cut at the outer length, of what is kept of it and of its extension is the one that is
// told, and a difference that noise does not explain is kept. Of 4,000 squares at each of 200
// settings the mean lies within 15 % of the variance: 6.7 deviations, 3e-8 a run.
func TestMeansTellTheirNoise(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 9))
	for range 200 {
		c, deviation := randomCuts(r), math.Exp(r.NormFloat64())
		unit, unitRest := c.units()
		for _, signal := range []float64{0, 1e9} { // the difference is taken for noise, or is none
			const draws = 4000
			truth, outer, kept, extended := unitRest*signal, noisyMean{}, noisyMean{}, noisyMean{}
			variance, keptVariance, extendedVariance := 0.0, 0.0, 0.0
			for range draws {
				m := c.means([]float64{deviation * r.NormFloat64(), signal + deviation*r.NormFloat64()}, 0, deviation, 1e3)
				outer, kept, extended = m.outer, m.kept, c.extended(m, 0, 0.7)
				variance += square(outer.mean[0]-truth) / draws
				keptVariance += square(kept.mean[0]-truth) / draws
				extendedVariance += square(extended.mean[0]-1.7*truth) / draws
			}
			if want := math.Hypot(unit, unitRest) * deviation; math.Abs(outer.deviation/want-1) > 1e-9 {
				t.Fatalf("%+v: outer deviation %v, want %v", c, outer.deviation, want)
			}
			if ratio := variance / square(outer.deviation); math.Abs(ratio-1) > 0.15 {
				t.Errorf("%+v: the outer mean's variance is %v of what is told", c, ratio)
			}
			if ratio := extendedVariance / square(extended.deviation); math.Abs(ratio-1) > 0.15 {
				t.Errorf("%+v, signal %v: the extended mean's variance is %v of what is told", c, signal, ratio)
			}
			if ratio := keptVariance / square(kept.deviation); math.Abs(ratio-1) > 0.15 {
				t.Errorf("%+v, signal %v: the kept mean's variance is %v of what is told", c, signal, ratio)
			}
		}
	}
}

// A row gives both parts of the step and of the intercept's step within their contracts.
func TestJointStepsKeepTheirContracts(t *testing.T) {
	r := rand.New(rand.NewPCG(10, 10))
	for range 500 {
		s := table.Shape{N: 1, D: 1 + r.IntN(4), Intercept: r.IntN(2) == 0}
		x, _ := plantest.Neighbours(r, s, false)
		rows, c := newRowBlock(s.D), randomCuts(r)
		p := make([][]float64, s.D)
		for j := range p {
			for range j + 1 {
				p[j] = append(p[j], r.NormFloat64())
			}
		}
		rows.load(x, p, make([]float64, s.D))
		if !(rows.length[0] > 1e-100 && rows.length[0] < 1e100) || math.Abs(rows.e[0]) > 1e100 {
			continue // says nothing: the mechanism has the last word
		}
		rows.addStep(mech.NewSum(mech.Contract{Norm: mech.L2, Bound: 1, N: 1, D: 2 * s.D}), []float64{0.7}, c)
		length := 0.0
		for j := range s.D {
			length += square(rows.joint[j][0]) + square(rows.rest[j][0])
		}
		if length > 1+1e-9 {
			t.Fatalf("a step of squared length %v", length)
		}
		rows.addIntercept(mech.NewSum(mech.Contract{Norm: mech.L2, Bound: 1, N: 1, D: 2}), c)
		if length := math.Hypot(rows.joint[0][0], rows.rest[0][0]); length > 1+1e-9 {
			t.Fatalf("an intercept's step of length %v", length)
		}
	}
}

package objpert

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
)

var wild = []float64{0, math.Copysign(0, -1), 5e-324, -5e-324, 1e-300, 1e-160, 1e-9, .3, 1, -1, 1, 2.5, -7, 1e3, -1e8, 1e19, 1e150, -1e150, 1e300, 1e308, -math.MaxFloat64,
	math.Inf(1), math.Inf(-1), math.NaN()}

func wildRow(rng *rand.Rand, d int) []float64 {
	row := make([]float64, d)
	for j := range row {
		switch rng.IntN(3) {
		case 0:
			row[j] = wild[rng.IntN(len(wild))]
		case 1:
			row[j] = math.Float64frombits(rng.Uint64())
		default:
			row[j] = 3 * rng.NormFloat64()
		}
	}
	return row
}

// wildTable has n rows of wild values: d stored columns and a target.
func wildTable(rng *rand.Rand, n, d int) (x [][]float64, y []float64) {
	x = make([][]float64, d)
	for range n {
		row := wildRow(rng, d+1)
		for j := range x {
			x[j] = append(x[j], row[j])
		}
		y = append(y, row[d])
	}
	return x, y
}

func rat(v float64) *big.Rat { return new(big.Rat).SetFloat64(v) }

// The bounds of the proof hold for the real numbers behind the float64, exactly.
// A shortened row keeps its direction, target included, and is not shorter than it must be.
func TestRowsAreShortEnough(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	shortened := 0
	for trial := range 20_000 {
		clip := []float64{1e-3, .7, 1, math.Sqrt(5), 1e6}[rng.IntN(5)]
		d, intercept := 1+rng.IntN(4), rng.IntN(2) == 0
		x, y := wildTable(rng, 1, d)
		row := []float64{y[0]}
		if intercept {
			row = append(row, 1)
		}
		for _, column := range x {
			row = append(row, column[0])
		}
		p := Params{Clip: clip, Smoothing: .3, Intercept: intercept, Short: clip * []float64{0, 1, .5, .01}[rng.IntN(4)]}
		r := newRecords(x, y, p)
		square, limit := new(big.Rat), new(big.Rat).Mul(rat(clip), rat(clip))
		for _, column := range r.x {
			square.Add(square, new(big.Rat).Mul(rat(column[0]), rat(column[0])))
		}
		if square.Cmp(limit) > 0 {
			t.Fatalf("trial %d: a row of squared length %v, allowed %v", trial, square, limit)
		}
		// The curvature of a row is at most that of a short one, and that of a long row is no smaller.
		curvature, most := new(big.Rat).Mul(square, rat(p.Smoothing)), new(big.Rat).Mul(rat(r.smoothing[0]), new(big.Rat).Mul(rat(p.short()), rat(p.short())))
		if curvature.Cmp(most) > 0 || r.smoothing[0] < p.Smoothing {
			t.Fatalf("trial %d: a row of squared length %v has the smoothing %v, with %+v", trial, square, r.smoothing[0], p)
		}
		if r.smoothing[0] > p.Smoothing && curvature.Mul(curvature, rat(1+1e-12)).Cmp(most) < 0 {
			t.Fatalf("trial %d: a row of squared length %v needs no smoothing of %v, with %+v", trial, square, r.smoothing[0], p)
		}
		factor := r.x[0][0] / row[1]
		if !(factor > 1e-20 && factor < 1 && math.Abs(row[1]) > 1e-280) {
			continue
		}
		shortened++
		if square.Mul(square, rat(1+1e-12)).Cmp(limit) < 0 {
			t.Fatalf("trial %d: the row is needlessly short", trial)
		}
		for j, v := range append([]float64{y[0]}, columnsOf(r)...) {
			if want := factor * row[j]; math.Abs(v-want) > 1e-12*math.Abs(want) && math.Abs(v) < hugeTarget && math.Abs(want) > 1e-300 {
				t.Fatalf("trial %d: %v became %v, the first feature %v times itself", trial, row[j], v, factor)
			}
		}
	}
	if shortened < 1000 {
		t.Errorf("only %d rows were shortened", shortened)
	}
}

func columnsOf(r records) (row []float64) {
	for _, column := range r.x {
		row = append(row, column[0])
	}
	return row
}

// A row that cannot be used is worth exactly a row of zeros.
func TestUnusableRowsContributeNothing(t *testing.T) {
	p := Params{Clip: 1, Smoothing: .3, Intercept: true}
	for _, bad := range [][]float64{
		{math.NaN(), 1, 1}, {1, math.Inf(1), 1}, {1, 1, math.NaN()}, {1, 1, math.Inf(-1)}, {1e300, 1, 1}, {1, -math.MaxFloat64, 1e308},
	} {
		r := newRecords([][]float64{{1, bad[0]}, {2, bad[1]}}, []float64{3, bad[2]}, p)
		o := &objective{records: r, bNear: make([]float64, 3)}
		with := o.at([]float64{.1, .2, .3}, newton)
		o.records = newRecords([][]float64{{1}, {2}}, []float64{3}, p)
		without := o.at([]float64{.1, .2, .3}, newton)
		for j := range with.g {
			if with.g[j] != without.g[j] || with.h.At(j, j) != without.h.At(j, j) {
				t.Errorf("row %v: gradient %v, without it %v", bad, with.g, without.g)
			}
		}
	}
}

// Replacing one row moves the gradient of the sum by at most 2 clip, and its
// second derivative is between 0 and short^2/smoothing, whatever the row.
func TestGradientSensitivityHoldsOnWildNeighbours(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 2))
	const clip, smoothing = 1.5, 0.2
	largest := 0.0
	for k := range 20_000 {
		short := []float64{clip, clip / 3}[k%2]
		x, y := wildTable(rng, 1, 2)
		o := &objective{records: newRecords(x, y, Params{Clip: clip, Smoothing: smoothing, Intercept: true, Short: short}), bNear: make([]float64, 3)}
		w := []float64{rng.NormFloat64(), 10 * rng.NormFloat64(), rng.NormFloat64()}
		p := o.at(w, newton)
		size := norm(p.g)
		trace := p.h.At(0, 0) + p.h.At(1, 1) + p.h.At(2, 2)
		if !(size <= clip*(1+1e-14)) || !(trace >= 0 && trace <= short*short/smoothing*(1+1e-14)) {
			t.Fatalf("row %v, %v at %v: gradient %v, curvature %v", x, y, w, size, trace)
		}
		largest = math.Max(largest, size)
	}
	if largest < clip*.999 {
		t.Errorf("the largest gradient seen is %v of %v: the fuzz does not reach the bound", largest, clip)
	}
}

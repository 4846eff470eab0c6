package mech

import (
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"
)

func keptOf(c Contract, a table) Bounded {
	k := NewKept(c)
	k.AddRows(a.rows, a.c)
	return k.Bounded()
}

// crowd is n rows of length d that point the same way, of which some are out of
// bounds: what moves a mean with a counted divisor most.
func crowd(r *rand.Rand, n, d int) table {
	a := table{Rows{}, make([]float64, n)}
	out := r.IntN(n)
	for i := range a.c {
		a.c[i] = []float64{1, 1, 1, 1 - 0x1p-40, .5, 0, -1}[r.IntN(7)]
		if i < out {
			a.c[i] = 1e300
		}
	}
	for range d {
		x := make([]float64, n)
		for i := range x {
			x[i] = (1 - 0x1p-41) / math.Sqrt(float64(d))
		}
		a.rows.X = append(a.rows.X, x)
	}
	return a
}

// keptShares returns the largest movement over the stated bound, in l2.
func keptShares(t *testing.T, pairs int) map[Norm]float64 {
	r := rand.New(rand.NewPCG(8, uint64(pairs)))
	shares := map[Norm]float64{}
	for k := range pairs {
		n, d, norm := 1+r.IntN(12), 1+r.IntN(3), []Norm{L2, LInf}[k%2]
		a := awkwardTable(r, n, d, false)
		if r.IntN(2) == 0 {
			a = crowd(r, n, d)
		}
		b := a.neighbour(r)
		if r.IntN(2) == 0 {
			b = a.flipped(r)
		}
		c := Contract{norm, 1, n, d}
		if norm == LInf {
			c.Bound = 1 / math.Sqrt(float64(d))
		}
		p, q := keptOf(c, a), keptOf(c, b)
		bound := p.contract.l2Squared()
		square, _ := distance(p.totals, q.totals)
		share, _ := new(big.Rat).SetFrac(square, bound).Float64()
		if square.Cmp(bound) > 0 {
			share += 1
		}
		shares[norm] = math.Max(shares[norm], math.Sqrt(share))
	}
	return shares
}

// A replaced record moves the mean by at most 8 Bound / (3N), exactly.
func TestKeptSensitivity(t *testing.T) {
	for norm, v := range keptShares(t, 20_000) {
		if v > 1 {
			t.Errorf("%s: moved by %v of the bound", norm, v)
		}
	}
}

// Some move it by nearly that: with 2N for N, the slip that halves of n rows
// invite, the bound would be exceeded twice.
func TestTwiceTheRowsAreRefuted(t *testing.T) {
	for norm, v := range keptShares(t, 5000) {
		if v < 1-1e-8 {
			t.Errorf("%s: the fuzz reaches only %v of the bound; it would miss 2N for N", norm, v)
		}
	}
}

func TestKeptAveragesWhatIsNear(t *testing.T) {
	k := NewKept(Contract{L2, 1, 5, 2})
	k.AddRows(Rows{X: [][]float64{{.6, .6, .6, .6, 30}, {.8, .2, .2, .2, 40}}}, []float64{.999, 1, 1, 1, 1})
	b := k.Bounded()
	for j, want := range []float64{(.6*.999 + 1.8) / 4, (.8*.999 + .6) / 4} {
		if got := b.contract.inUnits(big.NewInt(b.totals[j])); math.Abs(got-want) > 1e-9 {
			t.Errorf("coordinate %d: %v, want %v", j, got, want)
		}
	}
	k = NewKept(Contract{LInf, 1, 4, 2}) // three of four kept, then two: the divisor stays 3
	k.AddRows(Rows{X: [][]float64{{.5, .5, .5, 2}, {.5, .5, math.NaN(), 1e300}}}, []float64{1, 1, 1, 1})
	b = k.Bounded()
	for j, want := range []float64{.5, 1. / 3} {
		if got := b.contract.inUnits(big.NewInt(b.totals[j])); math.Abs(got-want) > 1e-9 {
			t.Errorf("coordinate %d: %v, want %v", j, got, want)
		}
	}
}

// Squares that would overflow 128 bits are not mistaken for small ones.
func TestKeptDropsWhatIsFarAway(t *testing.T) {
	for _, v := range []float64{2, 0x1p21, 0x1p30, 0x1p64, 1e300, math.Inf(1), math.NaN()} {
		k := NewKept(Contract{L2, 1, 1, 64})
		row := make([]float64, 64)
		for j := range row {
			row[j] = v
		}
		a := table{Rows{}, []float64{1}}
		for j := range row {
			a.rows.X = append(a.rows.X, row[j:j+1])
		}
		k.AddRows(a.rows, a.c)
		if k.kept[0] != 0 {
			t.Errorf("a row of %v is kept", v)
		}
	}
}

func TestKeptDoesNotDependOnOrderOrParts(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 9))
	const n, d = 600, 3
	for _, norm := range []Norm{L2, LInf} {
		a := awkwardTable(r, n, d, false)
		c := Contract{norm, 1, n, d}
		want := keptOf(c, a).totals
		whole := NewKept(c)
		for _, i := range r.Perm(n) {
			part, row := whole.Fork(), Rows{}
			for _, x := range a.rows.X {
				row.X = append(row.X, x[i:i+1])
			}
			part.AddRows(row, a.c[i:i+1])
			whole.Merge(part)
		}
		if got := whole.Bounded().totals; !slices.Equal(got, want) {
			t.Errorf("%s: shuffled and in parts: %v, want %v", norm, got, want)
		}
	}
}

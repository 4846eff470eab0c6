package histogram

import (
	"math"
	"math/rand/v2"
	"sort"
	"testing"

	"dpsidecar/internal/mech"
	"dpsidecar/internal/mech/mechtest"
)

// A position counts in the bin that edges say, as in a database, wherever it is. Edges ascend, and those of bins of one width
// are what they are without others.
func TestPositionsCountBetweenEdges(t *testing.T) {
	for _, bins := range []Bins{{mech.Bins{Width: 0x1p-7, Half: 40}, 24}, {mech.Bins{Width: 0x1p-5, Half: 64}, 0}, SizeBins} {
		edges, r := bins.edges(), rand.New(rand.NewPCG(1, 2))
		for k, edge := range edges {
			if k > 0 && !(edge > edges[k-1]) {
				t.Fatalf("%+v: edge %v follows %v", bins, edge, edges[k-1])
			}
			if math.Abs(edge) <= bins.near() && edge != float64(k+1-bins.Half)*bins.Width {
				t.Fatalf("%+v: edge %d is %v", bins, k, edge)
			}
		}
		values := []float64{0, math.Copysign(0, -1), bins.near(), -bins.near(), math.MaxFloat64, -math.MaxFloat64, math.Inf(1), math.Inf(-1), 5e-324}
		for _, edge := range edges {
			if values = append(values, edge); math.Abs(edge) > bins.near() { // elsewhere the bin of a neighbour is a matter of rounding
				values = append(values, math.Nextafter(edge, math.Inf(1)), math.Nextafter(edge, math.Inf(-1)))
			}
		}
		for range 1000 {
			values = append(values, math.Ldexp(2*r.Float64()-1, r.IntN(20)-12))
		}
		for _, v := range values {
			h := mech.NewHistogram(bins.Bins, 1, 1)
			h.AddRows(mech.Rows{Intercept: true}, []float64{bins.place(v, edges)})
			want := sort.Search(len(edges), func(k int) bool { return edges[k] > v })
			for bin, count := range mechtest.Totals(t, h.Bounded()) {
				if tiny := math.Abs(v) < 1e-15; (count > 0) != (bin == want) && !tiny { // beside 0 one bin is as good as the other
					t.Fatalf("%+v: %v counts in bin %d, not %d", bins, v, bin, want)
				}
			}
		}
		if !math.IsNaN(bins.place(math.NaN(), edges)) {
			t.Error("NaN has a place")
		}
	}
}

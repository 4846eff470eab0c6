package objpert

import (
	"math"
	"testing"

	"dpsidecar/internal/mech/mechtest"
)

// gridLaw returns the probabilities that the discrete Laplace law of a scale
// gives to the integers between edges, which are in units of unit.
func gridLaw(scale, unit float64, edges []float64) []float64 {
	p := make([]float64, len(edges)+1)
	total := 0.0
	last := math.Round(60 * scale)
	for k := -last; k <= last; k++ {
		v := math.Exp(-math.Abs(k) / scale)
		p[between(k/unit, edges)] += v
		total += v
	}
	for i := range p {
		p[i] /= total
	}
	return p
}

func between(v float64, edges []float64) (i int) {
	for i < len(edges) && v > edges[i] {
		i++
	}
	return i
}

// On a grid so coarse that every minimiser is cut to 0, what is released is the
// noise on the grid alone. Computed minimisers of one table are at most one step
// apart in each of d coordinates, so noise of scale s costs d/s; that must be
// no more than what the noise vector, of scale 2 Clip / (the rest of Epsilon),
// leaves. The law is what it should be (the chance of failure is that of fits),
// and neither half the noise nor a tenth less would pass.
func TestTheNoiseOnTheGridCostsWhatIsLeftForIt(t *testing.T) {
	edges := []float64{-2, -1, -.5, -.01, 0, .5, 1, 2}
	for _, c := range []struct {
		epsilon float64
		d       int
	}{{.5, 1}, {3, 2}, {40, 3}} {
		p := Params{Epsilon: c.epsilon, Clip: 1.5, Smoothing: .3, Pitch: 0x1p40}
		_, noise := p.Scales(c.d)
		scale := float64(c.d) / (c.epsilon - 2*p.Clip/noise)
		src, counts := mechtest.Source(t, 11), make([]int, len(edges)+1)
		for range 20_000 {
			x := make([][]float64, c.d)
			for j := range x {
				x[j] = []float64{1}
			}
			w, err := Draw(background, p, x, []float64{2}, src)
			if err != nil {
				t.Fatal(err)
			}
			for _, v := range w {
				counts[between(v/p.Pitch/scale, edges)]++
			}
		}
		if !fits(counts, gridLaw(scale, scale, edges)) {
			t.Errorf("eps = %v, d = %d: counts %v, expected shares %.3f", c.epsilon, c.d, counts, gridLaw(scale, scale, edges))
		}
		for name, mutant := range map[string]float64{"half the noise": scale / 2, "a tenth less noise": .9 * scale} {
			if fits(counts, gridLaw(mutant, scale, edges)) {
				t.Errorf("eps = %v, d = %d: the test has no power against %s", c.epsilon, c.d, name)
			}
		}
	}
}

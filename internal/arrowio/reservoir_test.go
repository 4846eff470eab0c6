package arrowio

import (
	"math"
	"testing"

	"dpsidecar/internal/mech"
)

func (s *reservoir) take(rows ...float64) {
	for _, v := range rows {
		s.add([]float64{v})
	}
}

// uniform reports whether 20,000 subsets of 3 out of 6 rows, as fill leaves
// them, look uniform over the 20 there are. Each is expected 1000 times. By
// Bernstein's inequality a Binomial(20000, 1/20) is more than 190 off with
// probability at most 2 exp(-190²/(2·950 + 2·190/3)) < 3.8e-8, so a uniform
// sample fails with probability below 20 · 3.8e-8 = 7.6e-7.
func uniform(fill func(s *reservoir)) bool {
	const draws, expected, slack = 20_000, 1000, 190
	src := mech.NewSource()
	counts := map[int]int{}
	for range draws {
		s := newReservoir(1, 3, nil, src)
		fill(s)
		subset := 0
		for _, v := range s.columns[0] {
			subset |= 1 << int(v)
		}
		counts[subset]++
	}
	for _, n := range counts {
		if n < expected-slack || n > expected+slack {
			return false
		}
	}
	return len(counts) == 20
}

func TestSampleCutsToAUniformSubset(t *testing.T) {
	if !uniform(func(s *reservoir) { s.take(0, 1, 2, 3, 4, 5) }) {
		t.Error("subsets are not uniform")
	}
}

// TestUniformityCatches shows the check wrong samples.
func TestUniformityCatches(t *testing.T) {
	for name, fill := range map[string]func(s *reservoir){
		"the first rows": func(s *reservoir) { s.take(0, 1, 2) },
		"the last rows":  func(s *reservoir) { s.take(3, 4, 5) },
		"an index drawn one too low": func(s *reservoir) {
			s.take(0, 1, 2, 3)
			for _, v := range []float64{4, 5} {
				s.seen--
				s.take(v)
				s.seen++
			}
		},
		"an index drawn one too high": func(s *reservoir) {
			s.take(0, 1, 2)
			s.seen++
			s.take(3, 4, 5)
		},
	} {
		if uniform(fill) {
			t.Errorf("%s: not caught", name)
		}
	}
}

func TestSamplePadsWithNaN(t *testing.T) {
	s := newReservoir(2, 4, nil, nil)
	s.add([]float64{1, 10})
	s.add([]float64{2, 20})
	s.pad()
	nan := math.NaN()
	if !same(s.columns[0], []float64{1, 2, nan, nan}) || !same(s.columns[1], []float64{10, 20, nan, nan}) {
		t.Errorf("%v", s.columns)
	}
}

func TestSampleOfNothing(t *testing.T) {
	s := newReservoir(1, 0, nil, mech.NewSource())
	s.take(1, 2, 3)
	s.pad()
	if len(s.columns[0]) != 0 {
		t.Errorf("%v", s.columns)
	}
}

func TestSampleKeepsRowsWhole(t *testing.T) {
	s := newReservoir(2, 10, nil, mech.NewSource())
	for i := range 100 {
		s.add([]float64{float64(i), float64(-i)})
	}
	for i := range s.columns[0] {
		if s.columns[0][i] != -s.columns[1][i] {
			t.Fatalf("row %d: %v %v", i, s.columns[0][i], s.columns[1][i])
		}
	}
}

package mech

import (
	"slices"
	"testing"
)

// Every sample is uniform, whatever was sampled before.
func TestSampleIsUniformAndFresh(t *testing.T) {
	const n, m = 5, 2
	d := NewPermutation(n, testSource(t, 1))
	last, counts := 0, make([]int, 400)
	for range 80_000 {
		rows := d.Sample(m)
		pair := rows[0]*(n-1) + rows[1]
		if rows[1] > rows[0] {
			pair--
		}
		counts[last*20+pair]++
		last = pair
	}
	uniform := make([]float64, len(counts))
	for i := range uniform {
		uniform[i] = 1. / 400
	}
	if !fits(counts, uniform) {
		t.Errorf("pairs of samples: %v", counts)
	}
}

func TestSamplesAreSets(t *testing.T) {
	d := NewPermutation(100, testSource(t, 2))
	for m := range 101 {
		rows := slices.Sorted(slices.Values(d.Sample(m)))
		if len(slices.Compact(rows)) != m || m > 0 && (rows[0] < 0 || rows[m-1] > 99) {
			t.Fatalf("sample of %d: %v", m, rows)
		}
	}
}

func TestBlocksCoverAllRowsEvenly(t *testing.T) {
	for n := 1; n < 30; n++ {
		d := NewPermutation(n, testSource(t, uint64(n)))
		for q := 1; q <= n; q++ {
			blocks := d.Blocks(q)
			all := slices.Concat(blocks...)
			slices.Sort(all)
			for i, row := range all {
				if row != i {
					t.Fatalf("%d rows in %d blocks: %v", n, q, blocks)
				}
			}
			if len(blocks) != q || len(all) != n || len(blocks[0])-len(blocks[q-1]) > 1 || len(blocks[q-1]) < n/q {
				t.Fatalf("%d rows in %d blocks: %v", n, q, blocks)
			}
		}
	}
}

// In which block a row lands is uniform: blocks by position, the mutant that
// does not shuffle, fail.
func TestBlocksAreShuffled(t *testing.T) {
	d := NewPermutation(6, testSource(t, 3))
	counts := make([]int, 3)
	for range 20_000 {
		for b, rows := range d.Blocks(3) {
			if slices.Contains(rows, 0) {
				counts[b]++
			}
		}
	}
	if !fits(counts, []float64{1. / 3, 1. / 3, 1. / 3}) {
		t.Errorf("row 0 by block: %v", counts)
	}
}

func TestMisuseOfPermutationsPanics(t *testing.T) {
	d := NewPermutation(3, testSource(t, 4))
	for name, f := range map[string]func(){
		"too many rows": func() { d.Sample(4) }, "fewer than none": func() { d.Sample(-1) },
		"more blocks than rows": func() { d.Blocks(4) }, "no blocks": func() { d.Blocks(0) },
	} {
		if !panics(f) {
			t.Errorf("%s: no panic", name)
		}
	}
}

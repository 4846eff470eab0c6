package expmech

import (
	"testing"

	"dpsidecar/internal/mech/mechtest"
)

// A hard draw stays within the memory it was given, boxes and lists, and ends.
func TestADrawKeepsToItsMemory(t *testing.T) {
	x, y := lognormal(1, 3000, 4)
	p := attackParams(2, Ball)
	p.Memory = 4 << 20
	s := newSampler(newTarget(p, len(y), len(x)+1), x, y, never)
	boxes, rows := p.limits(s.target.d)
	src := mechtest.Source(t, 1)
	splits := 0
	for ; !s.full() && s.heaviest() >= 0 && splits < 1<<16; splits++ {
		s.split()
	}
	if !s.full() || s.splitIsDue() {
		t.Fatalf("%d boxes after %d splits, room for %d", len(s.boxes), splits, boxes)
	}
	live := map[*list]bool{}
	for _, b := range s.boxes {
		live[b.list], live[b.inner] = true, true
	}
	held := int64(0)
	for l := range live {
		if l != nil {
			held += int64(len(l.plain) + len(l.imprecise))
		}
	}
	if most := rows + int64(s.rows); held > most || len(s.boxes) > boxes+int(s.workers) {
		t.Errorf("%d boxes and %d rows in lists, want at most %d and %d", len(s.boxes), held, boxes, most)
	}
	if s.listed.Load() <= rows {
		t.Errorf("%d rows listed of %d: the test says nothing", s.listed.Load(), rows)
	}
	for accepted := false; !accepted; {
		_, accepted = s.propose(src)
	}
}

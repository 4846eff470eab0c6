package job

import (
	"strconv"
	"testing"
)

// The newest answers are kept; of older ones it is known that they were drawn.
func TestDrawnAnswersAreKept(t *testing.T) {
	var d drawn
	if _, ok := d.find("0"); ok {
		t.Error("an answer of nobody")
	}
	for i := range mostDrawn + 3 {
		first := d.keep(strconv.Itoa(i), answer{})
		if again := d.keep(strconv.Itoa(i), answer{}); again != first {
			t.Errorf("answer %d is another", i)
		}
	}
	for i, kept := range map[int]bool{0: false, 2: false, 3: true, mostDrawn + 2: true} {
		if a, ok := d.find(strconv.Itoa(i)); !ok || (a != nil) != kept {
			t.Errorf("answer %d: %v, drawn %v", i, a, ok)
		}
	}
	d.forget("3")
	d.forget("0")
	if _, ok := d.find("3"); ok || len(d.order) != mostDrawn-1 || len(d.of) != mostDrawn+1 {
		t.Errorf("%d answers of %d jobs are left", len(d.order), len(d.of))
	}
}

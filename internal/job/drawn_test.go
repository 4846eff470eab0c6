package job

import (
	"strconv"
	"testing"

	"dpsidecar/internal/dpsco/plan"
	"dpsidecar/internal/dpsco/table"
	"dpsidecar/internal/privacy"
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

// An event may leave the number of rows out: an answer about other rows than were charged is none of that charge.
func TestAnAnswerIsForAsManyRowsAsWereCharged(t *testing.T) {
	event, err := privacy.MarshalEvent(privacy.ZCDP{Rho: .01})
	if err != nil {
		t.Fatal(err)
	}
	drawn := &answer{fitted: fitted{plan: &plan.Plan{Event: privacy.ZCDP{Rho: .01}, Shape: table.Shape{N: 20_000}}}}
	for rows, want := range map[int64]bool{20_000: true, 200_000: false} {
		if got := drawn.paidBy(&claim{Event: event, RowCount: &rows}); got != want {
			t.Errorf("drawn of 20000 rows, charged for %d: %v", rows, got)
		}
	}
}

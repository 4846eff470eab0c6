package mech

import (
	"errors"
	"strings"
	"testing"
)

// A panic on a goroutine of a group arrives where it is waited for, says where it was,
// and nothing of what it was about.
func TestAPanicGroupPassesOnWhereItPanicked(t *testing.T) {
	var caught *CaughtPanic
	func() {
		defer func() { caught = CatchPanic(recover()) }()
		var group PanicGroup
		group.Go(func() {})
		group.Go(secretlyBad)
		group.Wait()
	}()
	if !errors.As(error(caught), &caught) || !strings.Contains(caught.Error(), "secretlyBad") || strings.Contains(caught.Error(), "4711") {
		t.Errorf("it says %v", caught)
	}
	var well PanicGroup
	well.Go(func() {})
	well.Wait()
}

func secretlyBad() { panic("the value is 4711") }

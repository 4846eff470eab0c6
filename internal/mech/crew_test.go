package mech

import (
	"errors"
	"strings"
	"testing"
)

// A panic on a goroutine of a crew arrives where it is waited for, says where it was,
// and nothing of what it was about.
func TestACrewPassesOnWhereItBroke(t *testing.T) {
	var broken *Broken
	func() {
		defer func() { broken = Break(recover()) }()
		var crew Crew
		crew.Go(func() {})
		crew.Go(secretlyBad)
		crew.Wait()
	}()
	if !errors.As(error(broken), &broken) || !strings.Contains(broken.Error(), "secretlyBad") || strings.Contains(broken.Error(), "4711") {
		t.Errorf("it says %v", broken)
	}
	var well Crew
	well.Go(func() {})
	well.Wait()
}

func secretlyBad() { panic("the value is 4711") }

package simd

import "testing"

// What stands for lanes elsewhere gives the same.
func TestWithoutLanes(t *testing.T) {
	if !lanes {
		t.Skip("this processor has none")
	}
	lanes = false
	defer func() { lanes = true }()
	TestColumnsAreTheirRows(t)
	TestSumsAreExact(t)
}

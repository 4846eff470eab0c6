package mech

import (
	"math/big"
	"slices"
	"testing"
)

// TestValue returns the integers that b holds, before noise, and leaves them
// there. It panics outside a test binary.
func TestValue(tb testing.TB, b Bounded) []int64 {
	if !testing.Testing() || tb == nil {
		panic("mech: TestValue called outside a test")
	}
	return slices.Clone(b.totals)
}

// TestL2Squared returns the bound on how far one record moves those integers,
// squared. It panics outside a test binary.
func TestL2Squared(tb testing.TB, b Bounded) *big.Int {
	if !testing.Testing() || tb == nil {
		panic("mech: TestL2Squared called outside a test")
	}
	return b.contract.l2Squared()
}

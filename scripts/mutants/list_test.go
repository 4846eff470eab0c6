package main

import (
	"path/filepath"
	"testing"
)

// Each error can be made: the code that it changes stands once in its file, and has tests.
func TestTheCodeThatMutantsChangeIsThere(t *testing.T) {
	if err := checkAll(filepath.Join("..", "..")); err != nil {
		t.Error(err)
	}
}

// A mutant whose code is gone is found.
func TestAMutantWithoutItsCodeIsFound(t *testing.T) {
	was := mutants
	defer func() { mutants = was }()
	mutants = []mutant{{"gone", "scripts/mutants/main.go", "no such " + "code", "", was[0].tests}}
	if checkAll(filepath.Join("..", "..")) == nil {
		t.Error("it is not")
	}
}

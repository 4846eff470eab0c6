// Command mutants checks the tests of privacy themselves. It makes one error at a time in the code, those
// of list.go, and runs the tests that must fail for it. The working tree is not changed: the compiler reads
// the changed file from a temporary directory.
//
// It exits with status 1 if a mutant survives, and with 2 if one cannot be tried: because it does not
// compile, or its tests fail without it; or, before any is tried, if the code that a mutant changes does
// not exist.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// mutant is one error: in file, old is replaced by new. Old must occur exactly once.
type mutant struct {
	name     string
	file     string
	old, new string
	tests    []tests // each of which must fail
}

// tests are the tests of one package whose names match a regular expression.
type tests struct{ pkg, run string }

// Outcomes of a mutant.
const (
	killed   = "killed"
	survived = "SURVIVED"
	untried  = "NOT TRIED"
)

func main() {
	only := flag.String("run", "", "try the mutants whose names match this regular expression")
	flag.Parse()
	match, err := regexp.Compile(*only)
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(2)
	}
	if err := checkAll("."); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(2)
	}
	dir, err := os.MkdirTemp("", "mutants")
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(2)
	}
	count := tryAll(dir, match)
	_ = os.RemoveAll(dir) // remaining files are left to the system
	fmt.Printf("%d killed, %d survived, %d not tried\n", count[killed], count[survived], count[untried])
	switch {
	case count[untried] > 0:
		os.Exit(2)
	case count[survived] > 0:
		os.Exit(1)
	}
}

// checkAll returns an error for each mutant that cannot be applied to the code under root.
func checkAll(root string) (err error) {
	for _, m := range mutants {
		_, broken := m.change(root)
		if broken == nil && (m.old == m.new || len(m.tests) == 0) {
			broken = errors.New("it changes nothing, or nothing tests it")
		}
		if broken != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", m.name, broken))
		}
	}
	return err
}

// change returns the text of the mutant's file under root with the change.
func (m mutant) change(root string) (text string, err error) {
	original, err := os.ReadFile(filepath.Join(root, m.file))
	if err != nil {
		return "", err
	}
	if n := strings.Count(string(original), m.old); n != 1 {
		return "", fmt.Errorf("%s holds %d times, not once:\n%s", m.file, n, m.old)
	}
	return strings.Replace(string(original), m.old, m.new, 1), nil
}

// tryAll tries the mutants whose names match and counts their outcomes.
func tryAll(dir string, match *regexp.Regexp) map[string]int {
	count := map[string]int{}
	healthy := map[tests]bool{} // whether tests pass without a mutant
	for _, m := range mutants {
		if !match.MatchString(m.name) {
			continue
		}
		start := time.Now()
		outcome, why := m.try(dir, healthy)
		count[outcome]++
		fmt.Printf("%-9s %5.1fs  %s: %s\n", outcome, time.Since(start).Seconds(), m.name, why)
	}
	return count
}

// try runs the mutant's tests, with the mutant and, once for all mutants, without any. why names the tests
// that killed it, or the reason for another outcome.
func (m mutant) try(dir string, healthy map[tests]bool) (outcome, why string) {
	overlay, err := m.overlay(dir)
	if err != nil {
		return untried, err.Error()
	}
	for _, t := range m.tests {
		if _, known := healthy[t]; !known {
			passed, _, output := t.pass("")
			if healthy[t] = passed && !strings.Contains(output, "no tests to run"); !healthy[t] {
				return untried, "without the mutant:\n" + output
			}
		}
		passed, built, output := t.pass(overlay)
		switch {
		case !healthy[t]:
			return untried, "its tests fail without it"
		case !built:
			return untried, output
		case strings.Contains(output, "panic: test timed out"):
			return untried, "its tests timed out"
		case passed:
			return survived, fmt.Sprintf("%s passes in %s", t.run, t.pkg)
		}
		why = strings.TrimSpace(why + " " + failures(output))
	}
	return killed, why
}

// failed matches go test's line for a test that failed.
var failed = regexp.MustCompile(`(?m)^--- FAIL: (\S+)`)

// failures returns the names of the first tests that failed.
func failures(output string) string {
	var names []string
	for _, match := range failed.FindAllStringSubmatch(output, 3) {
		names = append(names, match[1])
	}
	return strings.Join(names, " ")
}

// overlay writes the changed file and the overlay file for the compiler, whose name it returns.
func (m mutant) overlay(dir string) (name string, err error) {
	text, err := m.change(".")
	if err != nil {
		return "", err
	}
	original, err := filepath.Abs(m.file)
	if err != nil {
		return "", err
	}
	changed := filepath.Join(dir, "changed.go")
	if err := os.WriteFile(changed, []byte(text), 0o600); err != nil {
		return "", err
	}
	replace, err := json.Marshal(map[string]any{"Replace": map[string]string{original: changed}})
	if err != nil {
		return "", err
	}
	name = filepath.Join(dir, "overlay.json")
	return name, os.WriteFile(name, replace, 0o600)
}

// pass runs the tests with an overlay, or without one if it is "".
func (t tests) pass(overlay string) (passed, built bool, output string) {
	args := []string{"test", "-vet=off", "-timeout", "4m", "-run", t.run}
	if overlay != "" {
		args = append(args, "-overlay", overlay)
	}
	text, err := exec.Command("go", append(args, t.pkg)...).CombinedOutput()
	output = string(text)
	return err == nil, !strings.Contains(output, "[build failed]"), output
}

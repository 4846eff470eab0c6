package main

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"dpsidecar/internal/privacy"
)

// account runs dpsidecar account as a process on the given input.
func account(t *testing.T, input string, args ...string) (out, log string, code int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], append([]string{"account"}, args...)...)
	var stdout, stderr bytes.Buffer
	cmd.Env = append(os.Environ(), mainVariable+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(input), &stdout, &stderr
	if err := cmd.Run(); err != nil && !errors.As(err, new(*exec.ExitError)) {
		t.Fatal(err)
	}
	return stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()
}

func TestAccountPrintsOneNumberALine(t *testing.T) {
	out, log, code := account(t, strings.Join([]string{
		`{"events":[{"gaussian":{"noise_multiplier":1}}]}`,
		``,
		"  \t\r",
		`{"events":[{"repeat":{"count":10,"event":{"sampled":{"rate":0.1,"event":{"gaussian":{"noise_multiplier":2}}}}}}]}`,
		`{"events":[]}`,
		`{"events":[{"repeat":{"count":4,"event":{"pure":{"epsilon":0.25}}}}]}`,
		`{"events":[{"approx":{"epsilon":1,"delta":0.001}}]}`, // no newline at the end
	}, "\n"), "--delta", "1e-5")
	if code != 0 || log != "" {
		t.Fatalf("exit %d: %s", code, log)
	}
	want := []float64{4.377178, .954099, 0, 1, math.Inf(1)}
	lines := strings.Fields(out)
	if len(lines) != len(want) {
		t.Fatalf("%q; want %v", out, want)
	}
	for i, line := range lines {
		if v, err := strconv.ParseFloat(line, 64); err != nil || v != want[i] && math.Abs(v-want[i]) > 1e-6*want[i] {
			t.Errorf("line %d: %q; want %v", i+1, line, want[i])
		}
	}
}

// The examples of the manual run as they stand, and every kind in it is one.
func TestAccountManual(t *testing.T) {
	kinds, examples, found := strings.Cut(accountManual, "\n  echo ")
	if !found {
		t.Fatal("there is no example")
	}
	cmd := exec.CommandContext(t.Context(), "sh", "-c", `dpsidecar() { "$SELF" "$@"; }`+"\necho "+examples)
	cmd.Env = append(os.Environ(), mainVariable+"=1", "SELF="+os.Args[0])
	out, err := cmd.CombinedOutput()
	if err != nil || len(strings.Fields(string(out))) != 2 {
		t.Errorf("%v: %s", err, out)
	}
	n := 0
	for line := range strings.Lines(kinds) {
		if text := strings.TrimSpace(line); strings.HasPrefix(text, "{") && !strings.HasPrefix(text, `{"events"`) {
			text = strings.ReplaceAll(text[:strings.LastIndex(text, "}")+1], "EVENT", `{"pure": {"epsilon": 1}}`)
			if strings.HasPrefix(text, `{"compose"`) {
				text = strings.ReplaceAll(text, ", ...", "")
			}
			if _, err := privacy.UnmarshalEvent([]byte(text)); err != nil {
				t.Errorf("%s: %v", text, err)
			}
			n++
		}
	}
	if n != 10 {
		t.Errorf("%d kinds", n)
	}
}

// The multiplier it prints fits, digit for digit, when it is read again.
func TestAccountCalibrates(t *testing.T) {
	history := `{"events":[{"pure":{"epsilon":0.01}},{"repeat":{"count":10,"event":{"gaussian":{%s}}}},{"gaussian":{"noise_multiplier":90}}]}` + "\n"
	out, log, code := account(t, fmt.Sprintf(history, ""), "--calibrate", "--epsilon", "1", "--delta", "1e-6")
	if code != 0 || log != "" {
		t.Fatalf("exit %d: %s", code, log)
	}
	out, _, _ = account(t, fmt.Sprintf(history, `"noise_multiplier":`+strings.TrimSpace(out)), "--delta", "1e-6")
	if eps, err := strconv.ParseFloat(strings.TrimSpace(out), 64); err != nil || eps > 1 || eps < 1-1e-8 {
		t.Errorf("it costs %q", out)
	}
}

func TestAccountNamesTheLine(t *testing.T) {
	good := `{"events":[{"pure":{"epsilon":1}}]}` + "\n"
	for _, c := range []struct {
		input, names string
		before       int // lines answered
		args         []string
	}{
		{good + "\n" + `{"events":[{"mystery":{}}]}` + "\n" + good, "line 3", 1, nil},
		{good + good + "{", "line 3", 2, nil},
		{`{"events":[{"gaussian":{}}]}`, "line 1", 0, nil},
		{good, "line 1", 0, []string{"--calibrate", "--epsilon", "1"}},
		{`{"events":[{"gaussian":{}},{"pure":{"epsilon":2}}]}`, "line 1", 0, []string{"--calibrate", "--epsilon", "1"}},
	} {
		out, log, code := account(t, c.input, append(c.args, "--delta", "1e-6")...)
		if code != 1 || !strings.Contains(log, c.names) || strings.Count(out, "\n") != c.before {
			t.Errorf("%q: exit %d, %q, %q", c.input, code, out, log)
		}
	}
	for _, args := range [][]string{
		{}, {"--delta", "2"}, {"--delta", "NaN"}, {"--delta", "x"}, {"--delta", "1e-6", "--epsilon", "1"}, {"--delta", "1e-6", "--calibrate"}, {"--delta", "1e-6", "more"},
	} {
		if _, log, code := account(t, good, args...); code != 2 || log == "" {
			t.Errorf("%q: exit %d, %q", args, code, log)
		}
	}
}

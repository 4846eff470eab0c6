package progress

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
)

// seen returns the text on a terminal of this many columns after the output, without
// trailing space.
func seen(t *testing.T, output string, columns int) string {
	t.Helper()
	lines, column, wrap := [][]rune{nil}, 0, true
	for output != "" {
		last := len(lines) - 1
		codes := map[string]func(){
			"\r":       func() { column = 0 },
			"\n":       func() { lines, column = append(lines, nil), 0 },
			"\x1b[K":   func() { lines[last] = lines[last][:min(column, len(lines[last]))] },
			"\x1b[?7l": func() { wrap = false },
			"\x1b[?7h": func() { wrap = true },
		}
		known := false
		for code, do := range codes {
			if rest, ok := strings.CutPrefix(output, code); ok {
				do()
				output, known = rest, true
				break
			}
		}
		if known {
			continue
		}
		r := []rune(output)[0]
		if r < ' ' {
			t.Fatalf("what is %q?", output)
		}
		output = strings.TrimPrefix(output, string(r))
		if column == columns && wrap {
			lines, column = append(lines, nil), 0
			last++
		}
		column = min(column, columns-1)
		lines[last] = slices.Replace(lines[last], column, min(column+1, len(lines[last])), r)
		column++
	}
	if !wrap {
		t.Error("the terminal no longer wraps lines")
	}
	var text []string
	for _, line := range lines {
		text = append(text, strings.TrimRight(string(line), " "))
	}
	return strings.TrimRight(strings.Join(text, "\n"), "\n")
}

const bar = "████████░░░░░░░░░░░░░░░░"

func TestOnlyTheLastBarIsSeenAndNoneInTheEnd(t *testing.T) {
	for columns, want := range map[int]string{80: bar + " 1/3  two", 32: bar + " 1/3  t", 10: "████████░"} {
		var out bytes.Buffer
		b := Bar{Total: 3, out: &out, terminal: true}
		b.Show(0, "the first of them")
		b.Show(1, "two")
		if got := seen(t, out.String(), columns); got != want {
			t.Errorf("%d columns: %q", columns, got)
		}
		fmt.Fprintln(&b, "done: 1")
		b.Show(3, "three")
		fmt.Fprintln(&b, "done: 2")
		fmt.Fprintln(&b, "done: 3")
		b.Show(3, "the end")
		fmt.Fprint(&out, "^C")
		b.Clear()
		if got := seen(t, out.String(), columns); got != "done: 1\ndone: 2\ndone: 3" {
			t.Errorf("%d columns: left on the screen:\n%s", columns, got)
		}
	}
}

// A command that does not know how much there is to do says what it does.
func TestABarOfUnknownLength(t *testing.T) {
	for _, total := range []int{0, 1} {
		var out bytes.Buffer
		b := Bar{Total: total, out: &out, terminal: true}
		b.Show(2, "two")
		if got := seen(t, out.String(), 80); got != "two" {
			t.Errorf("%d in all: %q", total, got)
		}
	}
}

func TestABarNeedsATerminal(t *testing.T) {
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0) // a device of characters, as terminals are
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	for term, want := range map[string]bool{"xterm": true, "dumb": false, "": false} {
		if t.Setenv("TERM", term); Terminal(null) != want {
			t.Errorf("TERM=%s: %v", term, !want)
		}
	}
	t.Setenv("TERM", "xterm")
	file, err := os.Create(t.TempDir() + "/out")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var buffer bytes.Buffer
	for _, out := range []io.Writer{&buffer, file} {
		b := New(out)
		b.Total = 1
		b.Show(0, "working")
		fmt.Fprintln(b, "done")
		b.Clear()
	}
	text, err := os.ReadFile(file.Name())
	if err != nil || buffer.String() != "done\n" || string(text) != "done\n" {
		t.Errorf("%v: %q, %q", err, &buffer, text)
	}
}

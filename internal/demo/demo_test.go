package demo

import (
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The demonstration checks itself: a replay that costs something, or a budget
// that is not refused, is an error of Run.
func TestDemo(t *testing.T) {
	temporary := openFolder(t)
	t.Setenv("TMPDIR", temporary)
	t.Setenv("TERM", "xterm")
	read, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	shown := make(chan string)
	go func() {
		text, _ := io.ReadAll(read)
		shown <- string(text)
	}()
	d := demo{screen: newScreen(out, waits)}
	err = d.run(t.Context())
	out.Close()
	text := <-shown
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if strings.ContainsAny(text, "\x1b\r") {
		t.Errorf("escape codes where there is no terminal: %q", text)
	}
	if d.waited != waits {
		t.Errorf("the bar would end at %d of %d", d.waited, waits)
	}
	for _, want := range []string{
		"100,000", "dp_register('claims'", "SELECT * FROM dp_l1_regress('claims', 0.1);", "(intercept)", "vehicle_value", "no privacy",
		"before        4       0           4", "after         4     3.1         0.9", "the same 4 rows", "DP002", "HINT:", "unit => 'patient'", "region=south", "region=*",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the demonstration does not show %q", want)
		}
	}
	for line := range strings.Lines(text) {
		if len(line) > 81 {
			t.Errorf("too wide: %s", line)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(temporary, "*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	if t.Failed() {
		t.Log(text)
	}
}

// openFolder makes a temporary folder that the server's user can use too.
func openFolder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "demo-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o777|os.ModeSticky); err != nil {
		t.Fatal(err)
	}
	return dir
}

// Moving any coefficient away from the fit must not help.
func TestLeastAbsoluteIsAMinimum(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	d := design{x: make([][]float64, 3)}
	truth := []float64{1, -2, 0.5}
	for range 4000 {
		x := []float64{1, r.NormFloat64(), math.Exp(r.NormFloat64())}
		y := math.Pow(1-r.Float64(), -1/1.5) // Pareto, as in the demonstration
		for j := range x {
			d.x[j] = append(d.x[j], x[j])
			y += truth[j] * x[j]
		}
		d.y = append(d.y, y)
	}
	w, err := d.leastAbsolute()
	if err != nil {
		t.Fatal(err)
	}
	best := d.meanAbsoluteError(w)
	for j := range w {
		for _, step := range []float64{-0.01, 0.01} {
			moved := append([]float64(nil), w...)
			moved[j] += step
			if worse := d.meanAbsoluteError(moved); worse < best {
				t.Errorf("moving coefficient %d by %v improves %v to %v", j, step, best, worse)
			}
		}
	}
}

func TestLeastAbsoluteOfConstantColumns(t *testing.T) {
	d := design{x: [][]float64{{1, 1, 1}, {0, 0, 0}}, y: []float64{1, 2, 3}}
	if _, err := d.leastAbsolute(); err == nil {
		t.Error("a singular design has a fit")
	}
}

func TestNumbers(t *testing.T) {
	for x, want := range map[float64]string{0: "0", 4: "4", 0.049934: "0.04993", 123456: "123456", 485.63: "485.6", -5.6971: "-5.697", 1.0e-7: "0.0000001"} {
		if got := number(x); got != want {
			t.Errorf("number(%v) = %q, want %q", x, got, want)
		}
	}
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", -123456: "-123,456", 1234567: "1,234,567"} {
		if got := grouped(n); got != want {
			t.Errorf("grouped(%d) = %q, want %q", n, got, want)
		}
	}
}

func TestWrap(t *testing.T) {
	if got := wrap("one two  three", 7); strings.Join(got, "|") != "one two|three" {
		t.Errorf("got %q", got)
	}
}

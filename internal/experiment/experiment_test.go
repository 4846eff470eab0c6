package experiment

import (
	"bytes"
	"errors"
	"image/png"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Every study runs on small tables, and leaves a table and a plot.
func TestEveryFigure(t *testing.T) {
	c := Config{Out: t.TempDir(), Data: os.Getenv("DPSIDECAR_DATA"), Draws: 1, brief: true}
	if c.Data == "" {
		t.Log("DPSIDECAR_DATA names no folder: without the real tables")
	}
	var log bytes.Buffer
	if err := Run(t.Context(), c, &log); err != nil {
		t.Fatal(err)
	}
	figures, err := c.Figures()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range figures {
		table, err := os.ReadFile(filepath.Join(c.Out, f.Name+".md"))
		if err != nil || !strings.Contains(string(table), "dpsidecar experiments --only "+f.Name+" --draws 1\n") {
			t.Errorf("%s: %v\n%s", f.Name, err, table)
		}
		if f.Study != nil {
			continue // a table alone
		}
		plot, err := os.Open(filepath.Join(c.Out, f.Name+".png"))
		if err != nil {
			t.Error(err)
			continue
		}
		if picture, err := png.Decode(plot); err != nil || picture.Bounds().Dx() < 300 {
			t.Errorf("%s: no plot: %v", f.Name, err)
		}
		plot.Close()
		if !strings.Contains(log.String(), f.Name+".png") {
			t.Errorf("%s is not announced", f.Name)
		}
	}
}

func TestAnUnknownFigureIsAnError(t *testing.T) {
	_, err := Config{Only: "icml-9"}.Figures()
	if !errors.Is(err, ErrUnknown) || !strings.Contains(err.Error(), "icml-1") {
		t.Errorf("got %v", err)
	}
}

func TestACellIsAMeanWithItsStandardError(t *testing.T) {
	var c Cell
	for _, v := range []float64{1, 2, 3, 6} {
		c.add(v, 0)
	}
	if want := math.Sqrt(14. / 3 / 4); c.Mean != 3 || math.Abs(c.Error-want) > 1e-15 {
		t.Errorf("%v ± %v, not 3 ± %v", c.Mean, c.Error, want)
	}
}

// What does not reach its bound is seen in the table.
func TestATableTellsWhatMisses(t *testing.T) {
	g := Grid{Chart: Chart{At: []float64{.5, 1}, Lines: []Line{{Name: "auto", Most: []float64{.1, .1}}}}, Cells: [][]Cell{{{Mean: .1}, {Mean: .1001}}}}
	if met, missed := g.score(0, 0), g.score(0, 1); met != "0.1 (≤ 0.1)" || missed != "**0.1** (misses 0.1)" {
		t.Errorf("%q and %q", met, missed)
	}
}

// Without privacy, no coefficients near the fit are better.
func TestExactFitsAreLeast(t *testing.T) {
	for _, task := range []*Task{
		Linear(500, dense(3), true, logNormal, 6),
		Logistic(500, dense(3), true, logLogistic(.2, .5)),
	} {
		table, _, err := task.Draw(1)
		if err != nil {
			t.Fatal(err)
		}
		w, _, err := withoutPrivacy(t.Context(), task, table)
		if err != nil {
			t.Fatal(err)
		}
		loss := table.meanSquare
		if task.Model == "logistic" {
			loss = table.logLoss
		}
		least := loss(w)
		for j := range w {
			for _, step := range []float64{-1e-3, 1e-3} {
				w[j] += step
				if loss(w) < least {
					t.Errorf("%s: coefficient %d moved by %g does better", task.Model, j, step)
				}
				w[j] -= step
			}
		}
	}
}

// The mean of a million draws lies within 6 standard errors of 0, as the noise
// of the papers is centred; where the variance is not finite, the mean of signs.
// False failures: 2 Phi(-6) = 2e-9 each were the means normal; the seed is fixed.
func TestNoiseIsCentred(t *testing.T) {
	const n = 1_000_000
	for name, e := range map[string]noise{
		"lognormal":   logNormal,
		"loglogistic": logLogistic(.2, .2),
		"pareto":      func(r *rand.Rand) float64 { return math.Copysign(1, pareto(1.4)(r)) },
	} {
		r := rand.New(rand.NewPCG(1, 20))
		var sum, square float64
		for range n {
			v := e(r)
			sum, square = sum+v, square+v*v
		}
		if z := sum / math.Sqrt(square); math.Abs(z) > 6 {
			t.Errorf("%s: mean %v, %v standard errors from 0", name, sum/n, z)
		}
	}
}

package experiment

import (
	"context"
	"fmt"
	"math"
	"time"
)

// Figure is one figure of a paper, or an additional one.
type Figure struct {
	Name   string // base name of its files
	Title  string
	Charts []Chart
	Study  study // instead of charts
}

// Chart plots a measure against one public quantity, with a line for every method.
type Chart struct {
	Title   string
	X, Y    string // labels of the axes, with units
	LogX    bool
	LogY    bool
	Top     float64 // above 0: the plot leaves out higher values
	Seconds bool    // the time of a fit is tabled and plotted too
	Note    string  // below the table: the figures printed in the paper, and limits of the comparison
	At      []float64
	Task    func(x float64) *Task
	Lines   []Line
}

// Line is one method, for every x.
type Line struct {
	Name string
	Fit  func(x float64) Fit
	Most []float64 // acceptance: upper bound of the measure at every x; nil: no claim
}

// always returns a function whose fit does not depend on x.
func always(f Fit) func(float64) Fit { return func(float64) Fit { return f } }

// onTask returns a function whose task does not depend on x.
func onTask(t *Task) func(float64) *Task { return func(float64) *Task { return t } }

// Cell is the mean over several draws of the measure of one line at one x.
type Cell struct {
	Mean, Error float64 // and its standard error
	Time        time.Duration
	Refused     error // the reason why the plan refused to fit at all
	values      []float64
	silent      int // number of draws without a value
}

// add adds a draw. A NaN counts as a draw without a value.
func (c *Cell) add(value float64, spent time.Duration) {
	if math.IsNaN(value) {
		c.silent++
		return
	}
	c.values = append(c.values, value)
	n := float64(len(c.values))
	c.Time += (spent - c.Time) / time.Duration(len(c.values))
	c.Mean += (value - c.Mean) / n
	square := 0.0
	for _, v := range c.values {
		square += (v - c.Mean) * (v - c.Mean)
	}
	c.Error = math.Sqrt(square/math.Max(1, n-1)) / math.Sqrt(n)
}

// mute reports whether all draws are without a value.
func (c Cell) mute() bool { return c.silent > 0 && len(c.values) == 0 }

// Grid holds the measurements of a chart: a row of cells for each of its lines.
type Grid struct {
	Chart
	Cells [][]Cell
}

// measure fits every line at every x on the same draws, and calls did with the name of each fit once it is
// done.
func (c Chart) measure(ctx context.Context, draws int, did func(what string)) (*Grid, error) {
	g := &Grid{Chart: c, Cells: make([][]Cell, len(c.Lines))}
	for i := range g.Cells {
		g.Cells[i] = make([]Cell, len(c.At))
	}
	tasks := make([]*Task, len(c.At))
	for k, x := range c.At {
		tasks[k] = c.Task(x)
	}
	for draw := 1; draw <= draws; draw++ {
		for k, x := range c.At {
			table, judge, err := tasks[k].Draw(draw)
			if err != nil {
				return nil, err
			}
			for i, line := range c.Lines {
				w, spent, err := line.Fit(x)(ctx, tasks[k], table)
				switch {
				case refused(err):
					g.Cells[i][k].Refused = err
				case err != nil:
					return nil, fmt.Errorf("%s, %s at %g: %w", c.Title, line.Name, x, err)
				default:
					g.Cells[i][k].add(judge(w), spent)
				}
				did(fmt.Sprintf("%s: %s at %g", c.Title, line.Name, x))
			}
			if k > 0 && tasks[k] != tasks[k-1] {
				tasks[k-1].forget()
			}
		}
		tasks[len(tasks)-1].forget()
	}
	return g, nil
}

// fits is the number of fits in one draw.
func (c Chart) fits() int { return len(c.Lines) * len(c.At) }

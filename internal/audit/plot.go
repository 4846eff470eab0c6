package audit

import (
	"errors"
	"fmt"
	"image/color"
	"math"
	"os"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
)

var (
	claimed = color.RGBA{0x1b, 0x5e, 0x9b, 0xff}
	shown   = color.RGBA{0xd6, 0x4a, 0x1e, 0xff}
	pale    = color.RGBA{0xdd, 0xe8, 0xf2, 0xff}
)

// Plot draws, as PNG, the claim of each result as a bar and its bound as a dot.
func Plot(file, title string, results []Result) error {
	p := plot.New()
	p.Title.Text, p.X.Label.Text = title, "epsilon at the claim's delta"
	p.X.Min = 0
	names := make([]string, len(results))
	bars, dots := make(plotter.Values, len(results)), make(plotter.XYs, len(results))
	for i, r := range results {
		row := len(results) - 1 - i
		names[row], bars[row] = label(r, results), r.Claim.Epsilon
		dots[row] = plotter.XY{X: r.Lower, Y: float64(row)}
	}
	bar, err := plotter.NewBarChart(bars, 9)
	if err != nil {
		return err
	}
	bar.Horizontal, bar.Color, bar.LineStyle.Width = true, pale, 0
	dot, err := plotter.NewScatter(dots)
	if err != nil {
		return err
	}
	dot.GlyphStyle = draw.GlyphStyle{Color: shown, Radius: 3, Shape: draw.CircleGlyph{}}
	p.Add(bar, dot, plotter.NewGrid())
	p.Legend.Add("claimed", bar)
	p.Legend.Add("shown to be at least", dot)
	p.Legend.Top, p.Legend.XOffs = true, -8
	p.NominalY(names...)
	p.Y.Max = float64(len(names)) + 1 // the legend's place
	return p.Save(9*vg.Inch, vg.Length(len(results))*0.2*vg.Inch+1.2*vg.Inch, file)
}

// label is the name of a result, with its neighbours if another has the same.
func label(r Result, results []Result) string {
	same := 0
	for _, other := range results {
		if other.Name == r.Name {
			same++
		}
	}
	if same > 1 {
		return r.Name + ": " + r.Pair
	}
	return r.Name
}

// Curves draws, as PNG, how well each result's tables can be told apart: how often
// a guess is right against how often it is wrong. A claim allows what is below
// the line e^epsilon x + delta, and what is above refutes it.
func Curves(file string, results []Result) (err error) {
	const columns = 3
	rows := (len(results) + columns - 1) / columns
	canvas := vgimg.New(columns*2.7*vg.Inch, vg.Length(rows)*2.5*vg.Inch)
	grid := make([][]*plot.Plot, rows)
	for i := range grid {
		grid[i] = make([]*plot.Plot, columns)
		for j := range grid[i] {
			if k := i*columns + j; k < len(results) {
				if grid[i][j], err = results[k].curve(); err != nil {
					return err
				}
			}
		}
	}
	tiles := draw.Tiles{Cols: columns, Rows: rows, PadX: 10, PadY: 10, PadTop: 5, PadBottom: 5, PadLeft: 5, PadRight: 10}
	for i, row := range plot.Align(grid, tiles, draw.New(canvas)) {
		for j, c := range row {
			if grid[i][j] != nil {
				grid[i][j].Draw(c)
			}
		}
	}
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	_, err = vgimg.PngCanvas{Canvas: canvas}.WriteTo(f)
	return errors.Join(err, f.Close())
}

// decades are ticks of which every second one has a label.
var decades = plot.ConstantTicks{{Value: 1e-4, Label: "0.0001"}, {Value: 1e-3}, {Value: 1e-2, Label: "0.01"}, {Value: 1e-1}, {Value: 1, Label: "1"}}

func (r Result) curve() (*plot.Plot, error) {
	least := 0.5 / float64(r.Runs)
	p := plot.New()
	p.Title.Text = fmt.Sprintf("%s\nclaimed %.3g, at least %.3g", r.Name, r.Claim.Epsilon, r.Lower)
	p.Title.Padding = 4
	p.Title.TextStyle.Font.Size, p.X.Label.Text, p.Y.Label.Text = 9, "wrong", "right"
	p.X.Scale, p.Y.Scale, p.X.Tick.Marker, p.Y.Tick.Marker = plot.LogScale{}, plot.LogScale{}, decades, decades
	p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = least, 1, least, 1
	allowed := plotter.NewFunction(func(x float64) float64 {
		return min(1, math.Exp(r.Claim.Epsilon)*x+r.Claim.Delta)
	})
	allowed.Color, allowed.Width, allowed.Samples = claimed, 1.5, 200
	var points plotter.XYs
	for _, e := range r.Errors {
		if e.Right < e.Wrong {
			continue
		}
		points = append(points, plotter.XY{X: max(least, e.Wrong), Y: max(least, e.Right)})
	}
	dots, err := plotter.NewScatter(points)
	if err != nil {
		return nil, err
	}
	dots.GlyphStyle = draw.GlyphStyle{Color: shown, Radius: 1.5, Shape: draw.CircleGlyph{}}
	p.Add(allowed, dots)
	return p, nil
}

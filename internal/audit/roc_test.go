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

// rocCurve is a result with the answers that it follows from.
type rocCurve struct {
	Result
	answers
}

// drawROC draws how well the tables of each game can be told apart, in a PNG file: the
// rate of true positives of every distinguisher against that of false ones. A claim
// allows what is below the line e^epsilon x + delta, and what is above refutes it.
func drawROC(file string, curves []rocCurve) (err error) {
	const columns = 3
	rows := (len(curves) + columns - 1) / columns
	canvas := vgimg.New(columns*2.7*vg.Inch, vg.Length(rows)*2.5*vg.Inch)
	grid := make([][]*plot.Plot, rows)
	for i := range grid {
		grid[i] = make([]*plot.Plot, columns)
		for j := range grid[i] {
			if k := i*columns + j; k < len(curves) {
				if grid[i][j], err = curves[k].plot(); err != nil {
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

// decades are ticks of a logarithmic axis, every second one with a label.
var decades = plot.ConstantTicks{{Value: 1e-4, Label: "0.0001"}, {Value: 1e-3}, {Value: 1e-2, Label: "0.01"}, {Value: 1e-1}, {Value: 1, Label: "1"}}

func (r rocCurve) plot() (*plot.Plot, error) {
	least := 0.5 / float64(r.Runs)
	p := plot.New()
	p.Title.Text = fmt.Sprintf("%s\nclaimed %.3g, at least %.3g", r.Name, r.Claim.Epsilon, r.Lower)
	p.Title.Padding = 4
	p.Title.TextStyle.Font.Size, p.X.Label.Text, p.Y.Label.Text = 9, "false positives", "true positives"
	p.X.Scale, p.Y.Scale, p.X.Tick.Marker, p.Y.Tick.Marker = plot.LogScale{}, plot.LogScale{}, decades, decades
	p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = least, 1, least, 1
	allowed := plotter.NewFunction(func(x float64) float64 {
		return min(1, math.Exp(r.Claim.Epsilon)*x+r.Claim.Delta)
	})
	allowed.Color, allowed.Width, allowed.Samples = color.RGBA{0x1b, 0x5e, 0x9b, 0xff}, 1.5, 200
	var points plotter.XYs
	n := float64(len(r.first))
	for d := range r.distinguishers() {
		falsePositives, truePositives := d.count(r.answers)
		if truePositives >= falsePositives {
			points = append(points, plotter.XY{X: max(least, float64(falsePositives)/n), Y: max(least, float64(truePositives)/n)})
		}
	}
	dots, err := plotter.NewScatter(points)
	if err != nil {
		return nil, err
	}
	dots.GlyphStyle = draw.GlyphStyle{Color: boundColor, Radius: 1.5, Shape: draw.CircleGlyph{}}
	p.Add(allowed, dots)
	return p, nil
}

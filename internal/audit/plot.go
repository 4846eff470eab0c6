package audit

import (
	"errors"
	"image/color"
	"os"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

var (
	claimColor = color.RGBA{0xdd, 0xe8, 0xf2, 0xff}
	boundColor = color.RGBA{0xd6, 0x4a, 0x1e, 0xff}
)

const margin vg.Length = 8 // points

// Plot draws the claim of each result as a bar and its lower bound as a dot, in a PNG file.
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
	bar.Horizontal, bar.Color, bar.LineStyle.Width = true, claimColor, 0
	dot, err := plotter.NewScatter(dots)
	if err != nil {
		return err
	}
	dot.GlyphStyle = draw.GlyphStyle{Color: boundColor, Radius: 3, Shape: draw.CircleGlyph{}}
	p.Add(bar, dot, plotter.NewGrid())
	p.Legend.Add("claimed", bar)
	p.Legend.Add("shown to be at least", dot)
	p.Legend.Top, p.Legend.XOffs = true, -8
	p.NominalY(names...)
	p.Y.Max = float64(len(names)) + 1 // room for the legend
	p.Title.Padding = margin
	return save(p, 9*vg.Inch, vg.Length(len(results))*0.2*vg.Inch+1.4*vg.Inch, file)
}

// save draws a plot with a margin, which gonum's own Save leaves out, into a PNG file.
func save(p *plot.Plot, width, height vg.Length, file string) (err error) {
	canvas, err := draw.NewFormattedCanvas(width, height, "png")
	if err != nil {
		return err
	}
	p.Draw(draw.Crop(draw.New(canvas), margin, -margin, margin, -margin))
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	_, err = canvas.WriteTo(f)
	return err
}

// label returns the name of a result, with its neighbours if another result has the same name.
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

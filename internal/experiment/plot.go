package experiment

import (
	"image/color"
	"io"
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
)

// Sizes of a plot.
const (
	panelWidth  = 4.2 * vg.Inch
	panelHeight = 2.8 * vg.Inch
	entryHeight = 0.2 * vg.Inch
	entries     = 4 // entries of the legend in a row
	labelSize   = 9
	dpi         = 84
)

// plot writes a figure as PNG: its panels, one legend and the command that makes it.
func (f Figure) plot(w io.Writer, grids []*Grid, command string) error {
	var panels []*plot.Plot
	var legend legend
	for _, g := range grids {
		panels = append(panels, g.panel(g.Y, &legend, func(c Cell) (mean, deviation float64) { return c.Mean, c.Error }))
		if g.Seconds {
			panels = append(panels, g.panel("seconds of a fit", &legend, func(c Cell) (mean, deviation float64) { return c.Time.Seconds(), 0 }))
		}
	}
	columns := min(2, len(panels))
	rows := (len(panels) + columns - 1) / columns
	foot := vg.Length(legend.rows()+1) * entryHeight
	canvas := vgimg.NewWith(vgimg.UseWH(vg.Length(columns)*panelWidth, vg.Length(rows)*panelHeight+foot), vgimg.UseDPI(dpi))
	whole := draw.New(canvas)
	whole.FillPolygon(color.White, whole.ClipPolygonXY(corners(whole)))
	tiles := draw.Tiles{Cols: columns, Rows: rows, PadX: 12, PadY: 12, PadTop: 6, PadLeft: 6, PadRight: 12}
	grid := make([][]*plot.Plot, rows)
	for i := range grid {
		grid[i] = make([]*plot.Plot, columns)
		copy(grid[i], panels[i*columns:min(len(panels), (i+1)*columns)])
	}
	top := draw.Crop(whole, 0, 0, foot, 0)
	for i, row := range plot.Align(grid, tiles, top) {
		for j, c := range row {
			if grid[i][j] != nil {
				grid[i][j].Draw(c)
			}
		}
	}
	legend.draw(draw.Crop(whole, 12, -12, 0, foot-whole.Max.Y), command)
	_, err := vgimg.PngCanvas{Canvas: canvas}.WriteTo(w)
	return err
}

func corners(c draw.Canvas) []vg.Point {
	return []vg.Point{c.Min, {X: c.Max.X, Y: c.Min.Y}, c.Max, {X: c.Min.X, Y: c.Max.Y}}
}

// panel draws a line for every method, with a band of one standard error.
func (g *Grid) panel(y string, l *legend, value func(Cell) (mean, deviation float64)) *plot.Plot {
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = g.Title, g.X, y
	p.X.Label.TextStyle.Font.Size, p.Y.Label.TextStyle.Font.Size = labelSize, labelSize
	if g.LogX {
		p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, plot.ConstantTicks(ticks(g.At))
	}
	show := func(y float64) float64 { return y }
	if g.LogY { // logarithms are taken here, because plot.LogScale misplaces the label
		show, p.Y.Tick.Marker = math.Log10, plot.TickerFunc(decades)
	}
	p.Add(plotter.NewGrid())
	for i, line := range g.Lines {
		var middle, upper, lower plotter.XYs
		for k, x := range g.At {
			c := g.Cells[i][k]
			mean, deviation := value(c)
			if c.Refused != nil || c.mute() || math.IsNaN(mean) || g.LogY && mean <= 0 || g.Top > 0 && mean > g.Top {
				continue
			}
			low := mean - deviation
			if g.LogY {
				low = max(low, mean/3)
			}
			middle = append(middle, plotter.XY{X: x, Y: show(mean)})
			upper = append(upper, plotter.XY{X: x, Y: show(mean + deviation)})
			lower = append(lower, plotter.XY{X: x, Y: show(low)})
		}
		k := l.index(line.Name)
		if len(middle) > 0 {
			l.add(k, p, middle, append(upper, reversed(lower)...))
		}
	}
	if p.X.Min > p.X.Max { // no line has a point
		p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = g.At[0], g.At[len(g.At)-1], 0, 1
	}
	p.X.Min, p.X.Max = widened(p.X.Min, p.X.Max)
	p.Y.Min, p.Y.Max = widened(p.Y.Min, p.Y.Max)
	return p
}

// widened enlarges a range of at most one value, which an axis cannot show.
func widened(low, high float64) (float64, float64) {
	switch {
	case low > high:
		return 1, 10
	case low == high && low > 0:
		return low / 2, 2 * high
	case low == high:
		return low - 1, high + 1
	}
	return low, high
}

// ticks returns ticks at the measured values.
func ticks(at []float64) []plot.Tick {
	var all []plot.Tick
	for _, x := range at {
		all = append(all, plot.Tick{Value: x, Label: short(x)})
	}
	return all
}

// decades returns marks, between two logarithms, at 1 to 9 times every power of ten. It labels 1 and, if
// they span at most two powers, 2 and 5; it labels all if otherwise there could be only one label.
func decades(low, high float64) (all []plot.Tick) {
	const slack = 1e-9
	for power := math.Floor(low); power <= high; power++ {
		for digit := 1.; digit < 10; digit++ {
			t := plot.Tick{Value: power + math.Log10(digit)}
			if digit == 1 || high-low <= 2 && (digit == 2 || digit == 5) || high-low <= 0.7 {
				t.Label = short(digit * math.Pow(10, power))
			}
			if low-slack <= t.Value && t.Value <= high+slack {
				all = append(all, t)
			}
		}
	}
	return all
}

func reversed(points plotter.XYs) plotter.XYs {
	turned := make(plotter.XYs, 0, len(points))
	for i := len(points) - 1; i >= 0; i-- {
		turned = append(turned, points[i])
	}
	return turned
}

// legend assigns every method one colour for all panels, and collects the methods' names.
type legend struct {
	names []string
	marks [][]plot.Thumbnailer
}

// colours are plotutil's soft colours, with its second red replaced.
var colours = slices.Replace(slices.Clone(plotutil.SoftColors), 5, 6, color.Color(color.Gray{90}))

// add draws a method's line and band in a panel.
func (l *legend) add(k int, p *plot.Plot, middle, around plotter.XYs) {
	colour := colours[k%len(colours)]
	line := &plotter.Line{XYs: middle, LineStyle: draw.LineStyle{Color: colour, Width: 1.5, Dashes: plotutil.Dashes(k / len(colours))}}
	points := &plotter.Scatter{XYs: middle, GlyphStyle: draw.GlyphStyle{Color: colour, Radius: 2.5, Shape: plotutil.Shape(k)}}
	r, g, b, _ := colour.RGBA()
	band := &plotter.Polygon{XYs: []plotter.XYs{around}, Color: color.NRGBA{uint8(r >> 8), uint8(g >> 8), uint8(b >> 8), 50}}
	p.Add(band, line, points)
	if l.marks[k] == nil {
		l.marks[k] = []plot.Thumbnailer{line, points}
	}
}

func (l *legend) index(name string) int {
	for k, known := range l.names {
		if known == name {
			return k
		}
	}
	l.names, l.marks = append(l.names, name), append(l.marks, nil)
	return len(l.names) - 1
}

func (l *legend) rows() int { return (len(l.names) + entries - 1) / entries }

// draw writes the legend and, under it, the command that makes the figure.
func (l *legend) draw(c draw.Canvas, command string) {
	tiles := draw.Tiles{Cols: entries, Rows: l.rows() + 1}
	for k, name := range l.names {
		one := plot.NewLegend()
		one.Left, one.TextStyle.Font.Size = true, labelSize+1
		if l.marks[k] == nil {
			name += ": off scale"
		}
		one.Add(name, l.marks[k]...)
		one.Draw(tiles.At(c, k%entries, k/entries))
	}
	style := text.Style{Color: color.Gray{110}, Font: plot.DefaultFont, Handler: plot.DefaultTextHandler, YAlign: text.YBottom}
	style.Font.Size = 9
	c.FillText(style, vg.Point{X: c.Min.X, Y: c.Min.Y + 3}, command)
}

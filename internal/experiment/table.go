package experiment

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"
)

// write writes a figure's tables in Markdown.
func (f Figure) write(w io.Writer, grids []*Grid, command string) error {
	text := &strings.Builder{}
	fmt.Fprintf(text, "## %s\n\n    %s\n", f.Title, command)
	for _, g := range grids {
		fmt.Fprintf(text, "\n**%s**: %s, mean ± standard error, %d draws\n\n", g.Title, g.Y, g.draws())
		g.table(text, Grid.score)
		if g.Seconds {
			fmt.Fprintf(text, "\n%s: time of a fit\n\n", g.Title)
			g.table(text, Grid.time)
		}
		if g.Note != "" {
			fmt.Fprintf(text, "\n%s\n", g.Note)
		}
		for i, row := range g.Cells {
			if last := row[len(row)-1]; last.Refused != nil {
				fmt.Fprintf(text, "\n%s refused: %v\n", g.Lines[i].Name, last.Refused)
			}
		}
	}
	_, err := io.WriteString(w, text.String())
	return err
}

// draws returns the largest number of draws of a cell.
func (g *Grid) draws() (most int) {
	for _, row := range g.Cells {
		for _, c := range row {
			most = max(most, len(c.values))
		}
	}
	return most
}

func (g *Grid) table(w io.Writer, cell func(g Grid, line, k int) string) {
	fmt.Fprintf(w, "| %s |", g.X)
	for _, x := range g.At {
		fmt.Fprintf(w, " %s |", short(x))
	}
	fmt.Fprintf(w, "\n|---|%s\n", strings.Repeat("---|", len(g.At)))
	for i, line := range g.Lines {
		fmt.Fprintf(w, "| %s |", line.Name)
		for k := range g.At {
			fmt.Fprintf(w, " %s |", cell(*g, i, k))
		}
		fmt.Fprintln(w)
	}
}

// score formats the measure, compared with the line's acceptance bound.
func (g Grid) score(line, k int) string {
	c := g.Cells[line][k]
	if c.Refused != nil {
		return "refused"
	}
	if c.mute() {
		return "none"
	}
	text := short(c.Mean)
	if c.Error > 0 {
		text += " ± " + strconv.FormatFloat(c.Error, 'g', 1, 64)
	}
	if most := g.Lines[line].Most; most != nil && !math.IsInf(most[k], 1) {
		if c.Mean <= most[k] {
			return text + " (≤ " + short(most[k]) + ")"
		}
		return "**" + text + "** (misses " + short(most[k]) + ")"
	}
	return text
}

func (g Grid) time(line, k int) string {
	c := g.Cells[line][k]
	switch {
	case c.Refused != nil:
		return "refused"
	case c.Time < time.Second:
		return c.Time.Round(time.Millisecond).String()
	}
	return c.Time.Round(100 * time.Millisecond).String()
}

// short formats three significant digits, and whole numbers in full.
func short(x float64) string {
	if x == float64(int64(x)) {
		return strconv.FormatInt(int64(x), 10)
	}
	return strconv.FormatFloat(x, 'g', 3, 64)
}

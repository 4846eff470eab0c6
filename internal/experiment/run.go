package experiment

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"dpsidecar/internal/progress"
)

// ErrUnknown reports a name that no figure has.
var ErrUnknown = errors.New("experiment: no such figure")

// Config selects the figures to run.
type Config struct {
	Out   string // folder for tables and plots
	Data  string // folder of the real tables; empty: leave out the figures that need them
	Only  string // prefix of the names of figures; empty: all
	Draws int    // draws of every cell; 0: 5, or 20 with Full
	Full  bool   // tables as large as the papers'

	brief bool // for tests: small tables, and only the first point of every chart
}

// briefRows is the size of every table when brief.
const briefRows = 1000

func (c Config) folder() Folder {
	if c.brief {
		return Folder{c.Data, briefRows}
	}
	return Folder{Dir: c.Data}
}

// Command returns the command line that runs c again.
func (c Config) Command() string {
	text := "dpsidecar experiments"
	if c.Only != "" {
		text += " --only " + c.Only
	}
	if c.Draws > 0 {
		text += fmt.Sprintf(" --draws %d", c.Draws)
	}
	if c.Full {
		text += " --full"
	}
	return text
}

func (c Config) draws() int {
	switch {
	case c.Draws > 0:
		return c.Draws
	case c.Full:
		return 20
	}
	return 5
}

// n returns the number of rows of a generated table: usual, or full with Full.
func (c Config) n(usual, full int) int {
	if c.Full {
		usual = full
	}
	if c.brief {
		return briefRows
	}
	return usual
}

// Figures returns the figures that c selects.
func (c Config) Figures() ([]Figure, error) {
	all := append(c.baselines(), c.icml()...)
	all = append(all, c.sinica()...)
	all = append(all, c.nips()...)
	all = append(all, c.l1())
	all = append(all, c.papers()...)
	all = append(all, c.comparisons()...)
	all = append(append(all, c.forecasts()...), c.coverage()...)
	all = append(append(all, c.scores()...), c.descriptions()...)
	all = append(all, c.windows())
	var chosen []Figure
	var names []string
	for _, f := range all {
		names = append(names, f.Name)
		if strings.HasPrefix(f.Name, c.Only) {
			chosen = append(chosen, f)
		}
	}
	if len(chosen) == 0 {
		return nil, fmt.Errorf("%w: %q; there are %s", ErrUnknown, c.Only, strings.Join(names, ", "))
	}
	return chosen, nil
}

// Run measures the figures of c and writes a table and a plot of each. It writes its progress to w.
func Run(ctx context.Context, c Config, w io.Writer) error {
	figures, err := c.Figures()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(c.Out, 0o777); err != nil {
		return err
	}
	p := &tally{Bar: progress.New(w), start: time.Now()}
	defer p.Clear()
	for _, f := range figures {
		for i := range f.Charts {
			if c.brief {
				f.Charts[i].At = f.Charts[i].At[:1]
			}
			p.Total += f.Charts[i].fits() * c.draws()
		}
	}
	for _, f := range figures {
		if err := f.run(ctx, c, p); err != nil {
			return fmt.Errorf("%s: %w", f.Name, err)
		}
	}
	return nil
}

// tally counts finished fits, and shows progress.
type tally struct {
	*progress.Bar
	start time.Time
	done  int
}

func (t *tally) did(what string) {
	t.done++
	t.Show(t.done, what)
}

// wrote reports the files of a finished figure.
func (t *tally) wrote(names ...string) {
	fmt.Fprintf(t, "%s  (%d of %d fits, %s)\n", strings.Join(names, "  "), t.done, t.Total, time.Since(t.start).Round(time.Second))
}

func (f Figure) run(ctx context.Context, c Config, p *tally) error {
	if f.Study != nil {
		return f.runStudy(ctx, c, p)
	}
	var grids []*Grid
	for _, chart := range f.Charts {
		g, err := chart.measure(ctx, c.draws(), p.did)
		if err != nil {
			return err
		}
		grids = append(grids, g)
	}
	own := c
	own.Only = f.Name
	table, plot := filepath.Join(c.Out, f.Name+".md"), filepath.Join(c.Out, f.Name+".png")
	if err := f.save(table, func(w io.Writer) error { return f.write(w, grids, own.Command()) }); err != nil {
		return err
	}
	if err := f.save(plot, func(w io.Writer) error { return f.plot(w, grids, own.Command()) }); err != nil {
		return err
	}
	p.wrote(table, plot)
	return nil
}

// runStudy runs a study, which writes tables only.
func (f Figure) runStudy(ctx context.Context, c Config, p *tally) error {
	own := c
	own.Only = f.Name
	table := filepath.Join(c.Out, f.Name+".md")
	err := f.save(table, func(w io.Writer) error {
		if _, err := fmt.Fprintf(w, "## %s\n\n    %s\n", f.Title, own.Command()); err != nil {
			return err
		}
		return f.Study(ctx, c, w, func(what string) { p.Show(p.done, what) })
	})
	p.wrote(table)
	return err
}

func (f Figure) save(name string, write func(io.Writer) error) error {
	file, err := os.Create(name)
	if err != nil {
		return err
	}
	return errors.Join(write(file), file.Close())
}

package experiment

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// progress is a bar on a terminal, and a line for every figure elsewhere.
type progress struct {
	out         io.Writer
	terminal    bool
	start       time.Time
	done, total int // fits
}

func newProgress(w io.Writer) *progress {
	p := &progress{out: w, start: time.Now()}
	if f, ok := w.(*os.File); ok {
		info, err := f.Stat()
		p.terminal = err == nil && info.Mode()&os.ModeCharDevice != 0
	}
	return p
}

const (
	barWidth  = 24
	textWidth = 44
)

// did counts a fit.
func (p *progress) did(what string) {
	p.done++
	if !p.terminal {
		return
	}
	full := barWidth * p.done / p.total
	if len(what) > textWidth {
		what = what[:textWidth]
	}
	fmt.Fprintf(p.out, "\r\x1b[K%s%s %d/%d  %s", strings.Repeat("█", full), strings.Repeat("░", barWidth-full), p.done, p.total, what)
}

// wrote names the files of a figure.
func (p *progress) wrote(names ...string) {
	if p.terminal {
		fmt.Fprint(p.out, "\r\x1b[K")
	}
	fmt.Fprintf(p.out, "%s  (%d of %d fits, %s)\n", strings.Join(names, "  "), p.done, p.total, time.Since(p.start).Round(time.Second))
}

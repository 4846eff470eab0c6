// Package progress shows the progress of a long command on a terminal.
package progress

import (
	"fmt"
	"io"
	"os"
	"strings"
)

// Bar is a progress bar on the last line of the output of a command. All other output of the command is
// written through the Bar, which clears itself first. If the output is not a terminal the bar is never
// shown.
type Bar struct {
	Total int // number of steps; 0 if unknown

	out             io.Writer
	terminal, shown bool
}

// New returns a bar that is not shown yet.
func New(out io.Writer) *Bar { return &Bar{out: out, terminal: Terminal(out)} }

// Terminal reports whether w is a terminal that understands escape codes.
func Terminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if term := os.Getenv("TERM"); !ok || term == "" || term == "dumb" {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

const (
	barWidth  = 24
	eraseLine = "\r\x1b[K"

	// Without wrapping, a line that is too long is cut off at the last column.
	// eraseLine would leave the rest of a wrapped line behind.
	noWrap = "\x1b[?7l"
	// On a line that is cut off, the terminal writes all further text over the last
	// column; the space clears it. The cursor returns to the left, because the echo
	// of ^C at the right edge would wrap.
	wrapAgain = " \x1b[?7h\r"
)

// Show shows that done of Total steps are done, and the current activity.
func (b *Bar) Show(done int, what string) {
	if !b.terminal {
		return
	}
	fmt.Fprint(b.out, eraseLine+noWrap+b.steps(done)+what+wrapAgain)
	b.shown = true
}

// steps returns a drawing of the share of Total that is done; empty if it is unknown.
func (b *Bar) steps(done int) string {
	if b.Total == 0 || done > b.Total {
		return ""
	}
	full := barWidth * done / b.Total
	return fmt.Sprintf("%s%s %d/%d  ", strings.Repeat("█", full), strings.Repeat("░", barWidth-full), done, b.Total)
}

// Clear removes the bar until the next Show.
func (b *Bar) Clear() {
	if b.shown {
		io.WriteString(b.out, eraseLine)
		b.shown = false
	}
}

// Write implements io.Writer: it clears the bar and prints text in its place.
func (b *Bar) Write(text []byte) (int, error) {
	b.Clear()
	return b.out.Write(text)
}

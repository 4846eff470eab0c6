// Package progress tells a person at a terminal how far a long command is.
package progress

import (
	"fmt"
	"io"
	"os"
	"strings"
)

// Bar is the last line of what a command prints, for as long as the command
// works. Everything else is written through it, so that no bar stays behind.
// Where there is no terminal it is never shown.
type Bar struct {
	Total int // of what is counted

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
	width = 24
	erase = "\r\x1b[K"
	// What is too long is cut, for erase would leave the rest of a wrapped line.
	// A space covers the last column, where the cut text ends up, and the cursor
	// goes back, lest an echoed ^C wraps.
	cut = "\x1b[?7l"
	end = " \x1b[?7h\r"
)

// Show shows how much is done, of Total, and what is going on.
func (b *Bar) Show(done int, what string) {
	if !b.terminal {
		return
	}
	full := width * done / b.Total
	fmt.Fprintf(b.out, erase+cut+"%s%s %d/%d  %s"+end, strings.Repeat("█", full), strings.Repeat("░", width-full), done, b.Total, what)
	b.shown = true
}

// Clear takes the bar away until it is shown again.
func (b *Bar) Clear() {
	if b.shown {
		io.WriteString(b.out, erase)
		b.shown = false
	}
}

// Write writes where the bar is, without it.
func (b *Bar) Write(text []byte) (int, error) {
	b.Clear()
	return b.out.Write(text)
}

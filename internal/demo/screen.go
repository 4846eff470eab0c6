package demo

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"dpsidecar/internal/progress"
)

// screen writes text for people: plain, or with bold, colour and a progress bar on a terminal.
type screen struct {
	out    *progress.Bar
	styled bool
	steps  int
	waited int
}

const (
	bold = "1"
	dim  = "2"
	red  = "31"
	cyan = "36"

	indent      = "   "
	width       = 76 // of text, without the indent
	promptWidth = len("analyst=>")
)

// newScreen returns a screen that uses styles on a terminal, unless NO_COLOR is set, and anywhere if
// CLICOLOR_FORCE is; the bar has no colour.
// waits is the expected number of waits.
func newScreen(out io.Writer, waits int) screen {
	bar := progress.New(out)
	bar.Total = waits
	return screen{out: bar, styled: os.Getenv("CLICOLOR_FORCE") != "" || progress.Terminal(out) && os.Getenv("NO_COLOR") == ""}
}

// wait shows the current activity until the next line.
func (s *screen) wait(format string, args ...any) {
	s.out.Show(s.waited, fmt.Sprintf(format, args...))
	s.waited++
}

func (s *screen) style(code, text string) string {
	if !s.styled {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

func (s *screen) line(text string) { fmt.Fprintln(s.out, text) }

func (s *screen) title(text string) { s.line(s.style(bold, text)) }

// heading starts the next step.
func (s *screen) heading(text string) {
	s.steps++
	s.line("\n" + s.style(bold, fmt.Sprintf("%d. %s", s.steps, text)))
}

// say writes a paragraph, after an empty line.
func (s *screen) say(format string, args ...any) {
	s.line("")
	for _, line := range wrap(fmt.Sprintf(format, args...), width) {
		s.line(indent + line)
	}
}

// sql writes a statement as it would be typed in psql.
func (s *screen) sql(who, statement string) {
	prompt := fmt.Sprintf("%-*s ", promptWidth, who+"=>")
	statement = strings.ReplaceAll(statement, "\n", "\n"+indent+strings.Repeat(" ", len(prompt)))
	s.line(indent + s.style(dim, prompt) + s.style(cyan, statement+";"))
}

// note writes the outcome of a statement below it.
func (s *screen) note(format string, args ...any) {
	s.line(indent + strings.Repeat(" ", promptWidth+1) + fmt.Sprintf(format, args...))
}

// refusal writes an error as psql shows it.
func (s *screen) refusal(code, message, hint string) {
	s.line("")
	for _, part := range [][2]string{{"ERROR:  ", code + ": " + message}, {"HINT:   ", hint}} {
		for i, line := range wrap(part[1], width-len(part[0])) {
			label := part[0]
			if i > 0 {
				label = strings.Repeat(" ", len(label))
			}
			s.line(indent + s.style(red, label) + line)
		}
	}
}

// wrap breaks a text between words into lines of at most width bytes; a longer word gets a line of its own.
func wrap(text string, width int) (lines []string) {
	for word := range strings.FieldsSeq(text) {
		if last := len(lines) - 1; last >= 0 && len(lines[last])+1+len(word) <= width {
			lines[last] += " " + word
		} else {
			lines = append(lines, word)
		}
	}
	return lines
}

// table writes rows under a header row, after an empty line: the first column aligned to the left, the
// others to the right.
func (s *screen) table(rows [][]string) {
	s.line("")
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for j, cell := range row {
			widths[j] = max(widths[j], utf8.RuneCountInString(cell))
		}
	}
	for i, row := range rows {
		var b strings.Builder
		for j, cell := range row {
			width := widths[j] + 3
			if j == 0 {
				width = -widths[j]
			}
			fmt.Fprintf(&b, "%*s", width, cell)
		}
		if text := b.String(); i == 0 {
			s.line(indent + s.style(dim, text))
		} else {
			s.line(indent + text)
		}
	}
}

// number formats four significant digits, and whole numbers in full.
func number(x float64) string {
	if x == float64(int64(x)) {
		return strconv.FormatFloat(x, 'f', -1, 64)
	}
	short, _ := strconv.ParseFloat(strconv.FormatFloat(x, 'g', 4, 64), 64) // cannot fail: it was just formatted
	return strconv.FormatFloat(short, 'f', -1, 64)
}

// brief formats a duration with a precision that suits people.
func brief(d time.Duration) string {
	if d < time.Second {
		return d.Round(time.Millisecond).String()
	}
	return d.Round(100 * time.Millisecond).String()
}

// grouped formats a whole number with commas between thousands.
func grouped(n int) string {
	digits := strconv.Itoa(n)
	for i := len(digits) - 3; i > 0 && digits[i-1] != '-'; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

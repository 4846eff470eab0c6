// Command demosvg draws steps of the demonstration as an SVG picture. It reads what the demonstration
// writes with CLICOLOR_FORCE=1, and draws the lines from one heading to before another.
//
// usage: CLICOLOR_FORCE=1 bin/dpsidecar demo | go run ./scripts/demosvg 3 5 > picture.svg
package main

import (
	"bufio"
	"errors"
	"fmt"
	"html"
	"io"
	"os"
	"regexp"
	"strings"
	"unicode/utf8"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: demosvg FIRST END < OUTPUT > SVG")
		os.Exit(2)
	}
	lines, err := steps(os.Stdin, os.Args[1], os.Args[2])
	if err == nil {
		_, err = io.WriteString(os.Stdout, draw(lines))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "demosvg:", err)
		os.Exit(1)
	}
}

// escape is a style that begins, or ends with code 0.
var escape = regexp.MustCompile(`\x1b\[(\d*)m`)

// steps returns the lines from the heading of step first to before that of step end.
func steps(in io.Reader, first, end string) (lines []string, err error) {
	scanner := bufio.NewScanner(in)
	ended := false
	for scanner.Scan() {
		text := escape.ReplaceAllString(scanner.Text(), "")
		ended = ended || strings.HasPrefix(text, end+". ")
		if !ended && (len(lines) > 0 || strings.HasPrefix(text, first+". ")) {
			lines = append(lines, scanner.Text())
		}
	}
	for len(lines) > 0 && lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	if err := scanner.Err(); err != nil {
		return nil, err
	}
	if len(lines) == 0 || !ended {
		return nil, errors.New("the demonstration did not reach these steps")
	}
	return lines, nil
}

// fills are colours by style; a style that stays on at the end of a line goes on in the next one.
var fills = map[string]string{
	"":   "#e6e6e6",
	"0":  "#e6e6e6",
	"1":  `#7fd1ff" font-weight="bold`,
	"2":  "#9aa4ad",
	"31": "#ff8a80",
	"36": "#b5e08b",
}

const (
	charWidth, lineHeight = 7.8, 18 // of a font of 13 pixels
	margin                = 16
)

// draw returns lines as a picture: every piece of text in one style is an element as wide as its characters,
// so that columns stay in line in any font.
func draw(lines []string) string {
	columns, style := 0, ""
	var texts strings.Builder
	for i, line := range lines {
		column := 0
		piece := func(text string) {
			if strings.TrimSpace(text) != "" {
				lead := len(text) - len(strings.TrimLeft(text, " "))
				shown := strings.Trim(text, " ")
				fmt.Fprintf(&texts, "<text x=\"%.1f\" y=\"%d\" fill=\"%s\" xml:space=\"preserve\" textLength=\"%.1f\">%s</text>\n",
					margin+charWidth*float64(column+lead), margin+13+lineHeight*i, fills[style], charWidth*float64(utf8.RuneCountInString(shown)), html.EscapeString(shown))
			}
			column += utf8.RuneCountInString(text)
		}
		rest := line
		for at := escape.FindStringSubmatchIndex(rest); at != nil; at = escape.FindStringSubmatchIndex(rest) {
			piece(rest[:at[0]])
			style, rest = rest[at[2]:at[3]], rest[at[1]:]
		}
		piece(rest)
		columns = max(columns, column)
	}
	return fmt.Sprintf("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%d\" font-family=\"ui-monospace,SFMono-Regular,Menlo,Consolas,DejaVu Sans Mono,monospace\" font-size=\"13\">\n"+
		"<rect width=\"100%%\" height=\"100%%\" rx=\"8\" fill=\"#16191d\"/>\n%s</svg>\n", 2*margin+charWidth*float64(columns), 2*margin+lineHeight*len(lines), texts.String())
}

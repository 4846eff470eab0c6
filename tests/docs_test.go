package tests

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// filesOf are the texts of the files below root whose names end so, by their paths.
func filesOf(t *testing.T, root, suffix string) map[string]string {
	t.Helper()
	texts := map[string]string{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == ".git" || d.Name() == "bin" || d.Name() == "dist") {
			return filepath.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(path, suffix) {
			return nil
		}
		text, err := os.ReadFile(path)
		texts[path] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return texts
}

// The tests that pages name exist; a pattern of `go test -run` may name their beginning.
func TestPagesNameRealTests(t *testing.T) {
	declared, named := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark)\w+)\(`), regexp.MustCompile(`\b(?:Test|Fuzz)[A-Z]\w+`)
	var real []string
	for _, text := range filesOf(t, "..", "_test.go") {
		for _, m := range declared.FindAllStringSubmatch(text, -1) {
			real = append(real, m[1])
		}
	}
	count := 0
	for path, text := range filesOf(t, "..", ".md") {
		for _, name := range named.FindAllString(text, -1) {
			count++
			if !slices.ContainsFunc(real, func(test string) bool { return strings.HasPrefix(test, name) }) {
				t.Errorf("%s names %s", path, name)
			}
		}
	}
	if count < 50 {
		t.Errorf("pages name %d tests", count)
	}
}

// Links from page to page, and to headings, lead somewhere.
func TestLinksOfPagesLead(t *testing.T) {
	pages := filesOf(t, "..", ".md")
	link, heading := regexp.MustCompile(`\]\(([^)\s]+)\)`), regexp.MustCompile(`(?m)^#+ +(.*)$`)
	notInAnchors := regexp.MustCompile(`[^\p{L}\p{N}_\- ]`)
	anchors := func(text string) map[string]bool {
		found := map[string]bool{}
		for _, m := range heading.FindAllStringSubmatch(text, -1) {
			found[strings.ReplaceAll(notInAnchors.ReplaceAllString(strings.ToLower(strings.TrimSpace(m[1])), ""), " ", "-")] = true
		}
		return found
	}
	count := 0
	for path, text := range pages {
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			if strings.Contains(m[1], "://") || strings.HasPrefix(m[1], "mailto:") {
				continue
			}
			count++
			file, anchor, _ := strings.Cut(m[1], "#")
			target := path
			if file != "" {
				target = filepath.Join(filepath.Dir(path), file)
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s links to %s: %v", path, m[1], err)
			} else if text, ok := pages[target]; anchor != "" && ok && !anchors(text)[anchor] {
				t.Errorf("%s links to %s, which has no such heading", path, m[1])
			}
		}
	}
	if count < 100 {
		t.Errorf("pages have %d links", count)
	}
}

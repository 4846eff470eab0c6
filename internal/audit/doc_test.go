package audit

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The tests that the documents name exist.
func TestDocumentsNameRealTests(t *testing.T) {
	root := filepath.Join("..", "..")
	real := map[string]bool{}
	declared := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, m := range declared.FindAllSubmatch(text, -1) {
			real[string(m[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"threat-model.md", "audit.md"} {
		text, err := os.ReadFile(filepath.Join(root, "docs", "explanation", name))
		if err != nil {
			t.Fatal(err)
		}
		named := regexp.MustCompile("`((?:Test|Fuzz)\\w+)`").FindAllSubmatch(text, -1)
		for _, m := range named {
			if !real[string(m[1])] {
				t.Errorf("%s names %s", name, m[1])
			}
		}
		if len(named) < 3 {
			t.Errorf("%s names %d tests", name, len(named))
		}
	}
}

package tests

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"dpsidecar/internal/catalogue"
)

func document(t testing.TB, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "docs", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// catalog lists what people can call, read and give, as the database has it: the
// name of each thing and the words that its place in the reference must hold.
func catalog(w *world) map[string][]string {
	w.Helper()
	rows, _ := w.super.Query(context.Background(), `
		SELECT proname || '(', coalesce(proargnames, '{}') FROM pg_proc WHERE pronamespace = 'public'::regnamespace AND proname LIKE 'dp\_%' AND proname <> 'dp_run'
		UNION ALL SELECT 'CALL dp_run(', '{job}'
		UNION ALL SELECT '`+"`' || name || '`"+`', '{}' FROM dp_int.option
		UNION ALL SELECT '`+"`' || s || '`"+`', '{}' FROM unnest('{DP001,DP002,DP003,DP004,DP005,22023,25006,2D000,42501,42703,53300,53400,55000}'::text[]) s`)
	things := map[string][]string{}
	var name string
	var words []string
	if _, err := pgx.ForEachRow(rows, []any{&name, &words}, func() error {
		things[name] = append(things[name], words...)
		return nil
	}); err != nil {
		w.Fatal(err)
	}
	return things
}

// missing lists what a reference does not hold.
func missing(reference string, things map[string][]string) (gaps []string) {
	for name, words := range things {
		if !strings.Contains(reference, name) {
			gaps = append(gaps, name)
		}
		for _, word := range words {
			if !strings.Contains(reference, word) {
				gaps = append(gaps, name+" "+word)
			}
		}
	}
	return gaps
}

// viewsOf returns the columns of the views that people read, as the database has them.
func viewsOf(w *world) map[string][]string {
	w.Helper()
	views := map[string][]string{}
	for _, name := range all[string](w, w.super, `SELECT relname || '.' || attname FROM pg_attribute a JOIN pg_class c ON c.oid = attrelid WHERE relnamespace = 'dp'::regnamespace AND relkind = 'v' AND attnum > 0`) {
		view, column, _ := strings.Cut(name, ".")
		views[view] = append(views[view], column)
	}
	return views
}

var (
	tableOfAView = regexp.MustCompile("(?m)^\\| `dp\\.([a-z_]+)` \\|.*\n((?:\\|.*\n)+)") // up to the first line that is no row
	nameOfColumn = regexp.MustCompile("`([a-z_]+)`")
)

// documentedViews returns the columns of views that the first cells of a reference's tables name.
func documentedViews(reference string) map[string][]string {
	views := map[string][]string{}
	for _, table := range tableOfAView.FindAllStringSubmatch(reference, -1) {
		for row := range strings.Lines(table[2]) {
			for _, name := range nameOfColumn.FindAllStringSubmatch(strings.Split(row, "|")[1], -1) {
				views[table[1]] = append(views[table[1]], name[1])
			}
		}
	}
	return views
}

// different lists the columns of views that only one of the two has, or one of them twice.
func different(a, b map[string][]string) (names []string) {
	count := map[string]int{}
	for sign, views := range map[int]map[string][]string{1: a, -1: b} {
		for view, columns := range views {
			for _, column := range columns {
				count[view+"."+column] += sign
			}
		}
	}
	for name, n := range count {
		if n != 0 {
			names = append(names, name)
		}
	}
	return names
}

// The tables of the reference have the columns of every view, and no others.
func TestTheReferenceHasTheColumnsOfViews(t *testing.T) {
	w := newWorld(t, 1, 0)
	reference, views := document(t, "reference/sql.md"), viewsOf(w)
	if wrong := different(documentedViews(reference), views); len(views) < 12 || len(wrong) > 0 {
		t.Errorf("docs/reference/sql.md and the %d views of the database differ in %q", len(views), wrong)
	}
	for _, c := range [][3]string{
		{"a column too many", "| `block_is_fixed` text |", "| `block_is_fixed` text, `block_fixed_by` text |"},
		{"a column that another table has too", "| `caller` text | who asked first |\n", ""},
		{"a view that is not there", "| `dp.scores` |", "| `dp.score` |"},
	} {
		if !strings.Contains(reference, c[1]) || len(different(documentedViews(strings.Replace(reference, c[1], c[2], 1)), views)) == 0 {
			t.Errorf("%s is not noticed", c[0])
		}
	}
}

// Every public function with its arguments, option and SQLSTATE has a place in the
// reference.
func TestTheReferenceHoldsTheCatalog(t *testing.T) {
	w := newWorld(t, 1, 0)
	reference, things := document(t, "reference/sql.md"), catalog(w)
	if gaps := missing(reference, things); len(things) < 50 || len(gaps) > 0 {
		t.Errorf("of %d things, docs/reference/sql.md lacks %q", len(things), gaps)
	}
	// The check notices what is not there.
	w.exec(w.super, `CREATE FUNCTION public.dp_undocumented(x int) RETURNS int LANGUAGE sql AS 'SELECT 1'`)
	defer w.exec(w.super, `DROP FUNCTION public.dp_undocumented`)
	if gaps := missing(reference, catalog(w)); len(gaps) == 0 {
		t.Error("a function without documentation is not noticed")
	}
}

var update = flag.Bool("update", false, "write what is generated into the documentation")

// The tables of options are those of the catalogue: go test ./tests -run Generated -update
// writes them.
func TestGeneratedTablesAreTheCatalogue(t *testing.T) {
	const page, begin, end = "reference/sql.md", "<!-- options: begin -->\n", "<!-- options: end -->"
	text := document(t, page)
	before, rest, found := strings.Cut(text, begin)
	_, after, ended := strings.Cut(rest, end)
	if !found || !ended {
		t.Fatal("no place for the tables")
	}
	whole := before + begin + optionTables() + end + after
	if *update {
		if err := os.WriteFile(filepath.Join(root, "docs", page), []byte(whole), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if whole != text {
		t.Errorf("docs/%s is not what the catalogue says: go test ./tests -run Generated -update", page)
	}
}

// optionTables are the options of all models: first those of the gradient models, which
// they share, and with each model those that it has alone or with another default.
func optionTables() string {
	var b strings.Builder
	seen := map[string]bool{} // the default of an option
	for _, m := range catalogue.Models() {
		title := "all gradient models"
		switch {
		case m.Delta == 0:
			title = "dp_" + m.Name + "_regress"
		case len(seen) > 0:
			title = "dp_" + m.Name + "_regress also"
		}
		var rows strings.Builder
		for _, o := range m.Options {
			row := fmt.Sprintf("| `%s` | %s | %s |\n", o.Name, described(o), fallback(o))
			if m.Delta > 0 && seen[row] {
				continue
			}
			rows.WriteString(row)
			if m.Delta > 0 {
				seen[row] = true
			}
		}
		if rows.Len() > 0 {
			fmt.Fprintf(&b, "| %s | meaning | default |\n|---|---|---|\n%s\n", title, rows.String())
		}
	}
	return b.String()
}

func described(o catalogue.Option) string {
	allowed := ""
	switch o.Kind {
	case catalogue.String:
		if o.Choices == nil { // any column
			break
		}
		allowed = "; `" + strings.Join(o.Choices, "`, `") + "`"
	case catalogue.Number:
		allowed = fmt.Sprintf("; %g to %g", o.Minimum, o.Maximum)
	case catalogue.Integer:
		allowed = fmt.Sprintf("; a whole number, %g to %g", o.Minimum, o.Maximum)
	}
	return o.Description + allowed
}

func fallback(o catalogue.Option) string {
	switch {
	case o.DefaultText != "":
		return "from " + o.DefaultText
	case o.Default == nil:
		return ""
	}
	return fmt.Sprintf("`%v`", o.Default)
}

// Every property that dp_explain gives of its own, and every metric, is described.
func TestTheReferenceHoldsPropertiesAndMetrics(t *testing.T) {
	for page, sources := range map[string]map[string]string{
		"reference/explain.md": {"internal/job/explain.go": `e\.add\("([a-z_0-9]+)`, "sql/functions/explain.sql": `property := '([a-z_]+)'`},
		"reference/metrics.md": {"internal/admin/admin.go": `"(dpsidecar_[a-z_]+)"`},
	} {
		text := document(t, page)
		for file, pattern := range sources {
			source, err := os.ReadFile(filepath.Join(root, file))
			if err != nil {
				t.Fatal(err)
			}
			found := regexp.MustCompile(pattern).FindAllStringSubmatch(string(source), -1)
			if len(found) == 0 {
				t.Errorf("%s holds nothing like %s", file, pattern)
			}
			for _, m := range found {
				if !strings.Contains(text, "`"+m[1]) {
					t.Errorf("%s lacks %s", page, m[1])
				}
			}
		}
	}
}

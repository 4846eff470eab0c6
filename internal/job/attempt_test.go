package job

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"dpsidecar/internal/arrowio"
	"dpsidecar/internal/dpsco"
	"dpsidecar/internal/dpsco/plan"
	"dpsidecar/internal/dpsco/table"
)

// A server that ends a statement or a session fails no job: it is tried again.
func TestASessionThatEndsFailsNoJob(t *testing.T) {
	for code, fails := range map[string]bool{
		"57P01": false, "57014": false, "08006": false, // shut down, canceled, connection failure
		"25P03": false, "25P04": false, // idle in its transaction for too long, in it for too long
		"42501": true, "42P01": true, "22012": true, "55P03": true,
	} {
		var fail *failure
		err := relationFailure(fmt.Errorf("count: %w", &pgconn.PgError{Code: code}))
		if errors.As(err, &fail) != fails {
			t.Errorf("%s: %v", code, err)
		}
	}
}

// A fault in an explanation is an answer, and ends nothing.
func TestAPanicIsAnAnswer(t *testing.T) {
	e, err := New(Config{Log: slog.New(slog.DiscardHandler)}).answer(t.Context(), nil)
	if err != nil || !slices.Contains(e.Properties, property{"sqlstate", "DP004"}) || e.Cost != nil {
		t.Errorf("%v %v", e, err)
	}
}

// What a job's memory leaves beside the columns is the exact sampler's.
func TestTheSamplerGetsTheRestOfTheMemory(t *testing.T) {
	c := new(claim)
	c.Request.Target, c.Request.Features = "y", []string{"x"}
	need := int64(footprint(1000, 2))
	for memory, want := range map[int64]int64{0: 0, 1 << 30: 1<<30 - need, need: 64 << 20} {
		if got := New(Config{Memory: memory}).samplerMemory(c, 1000); got != want {
			t.Errorf("of %d: %d, want %d", memory, got, want)
		}
	}
}

// A job of persons needs memory for as many rows as may be kept of each, however many they
// have; with so many that rows cannot be numbered it is refused without a limit too.
func TestMemoryOfPersons(t *testing.T) {
	c := new(claim)
	c.Request.Target, c.Request.Features, c.Dataset.MaxRows = "y", []string{"x"}, 8
	need := int64(footprint(8000, 2)) + 100_000
	for memory, fits := range map[int64]bool{0: true, need: true, need - 1: false} {
		if _, err := New(Config{Memory: memory}).place(c, new(plan.Plan), 1000); (err == nil) != fits {
			t.Errorf("of %d: %v", memory, err)
		}
	}
	if _, err := New(Config{}).place(c, new(plan.Plan), 1<<29); err == nil {
		t.Error("more rows than can be numbered are read")
	}
}

// Rows go to disk when they do not fit into memory, there is a folder, and nothing else needs
// memory for each of them.
func TestWhereRowsGo(t *testing.T) {
	c := new(claim)
	c.Request.Target, c.Request.Features = "y", []string{"x"}
	for _, k := range []struct {
		memory  int64
		dir     string
		streams bool
		maxRows int
		want    placement
	}{
		{0, "/spill", true, 0, inMemory},
		{1 << 20, "/spill", true, 0, inMemory},
		{1 << 10, "/spill", true, 0, onDisk},
		{1 << 10, "", true, 0, ""},
		{1 << 10, "/spill", false, 0, ""},
		{1 << 10, "/spill", true, 2, ""},
	} {
		c.Dataset.MaxRows = k.maxRows
		at, err := New(Config{Memory: k.memory, SpillDir: k.dir}).place(c, &plan.Plan{Streams: k.streams}, 1000)
		if at != k.want || (err == nil) != (k.want != "") {
			t.Errorf("%+v: %q, %v", k, at, err)
		}
	}
}

// Rows stay in the database where they must, or may and fit nowhere else; what takes more than sums of them is refused then.
func TestWhoseRowsStay(t *testing.T) {
	rows := int64(5)
	for name, k := range map[string]struct {
		registered string
		memory     int64
		dir        string
		change     func(*claim, *plan.Plan)
		want       placement
	}{
		"must":                  {"database", 0, "/spill", func(*claim, *plan.Plan) {}, inDatabase},
		"fit":                   {"auto", 1 << 20, "", func(*claim, *plan.Plan) {}, inMemory},
		"of a job of before":    {"", 1 << 20, "", func(*claim, *plan.Plan) {}, inMemory},
		"fit on disk":           {"auto", 1 << 10, "/spill", func(*claim, *plan.Plan) {}, onDisk},
		"fit nowhere":           {"auto", 1 << 10, "", func(*claim, *plan.Plan) {}, inDatabase},
		"fit nowhere, may not":  {"memory", 1 << 10, "", func(*claim, *plan.Plan) {}, ""},
		"other methods":         {"database", 0, "", func(_ *claim, p *plan.Plan) { p.Sums = false }, ""},
		"too many sums":         {"database", 0, "", func(_ *claim, p *plan.Plan) { p.Sums, p.TooWide = false, true }, ""},
		"fit nowhere, others":   {"auto", 1 << 10, "", func(_ *claim, p *plan.Plan) { p.Sums = false }, ""},
		"a unit":                {"database", 0, "", func(c *claim, _ *plan.Plan) { c.Dataset.MaxRows = 1 }, ""},
		"groups":                {"database", 0, "", func(c *claim, _ *plan.Plan) { c.Request.Options["by"] = "x" }, ""},
		"a sample":              {"database", 0, "", func(c *claim, _ *plan.Plan) { c.Request.Options["sample_rows"] = 5. }, ""},
		"a sample that fits":    {"auto", 1 << 20, "", func(c *claim, _ *plan.Plan) { c.Request.Options["sample_rows"] = 5. }, inMemory},
		"a registered number":   {"database", 0, "", func(c *claim, _ *plan.Plan) { c.Dataset.Rows = &rows }, ""},
		"a number, fit nowhere": {"auto", 1 << 10, "", func(c *claim, _ *plan.Plan) { c.Dataset.Rows = &rows }, ""},
		"a window": {"database", 0, "", func(c *claim, _ *plan.Plan) {
			c.Dataset.Block = new(string)
			c.Request.Over = []string{"2026-01-01", "2026-01-02"}
		}, inDatabase},
	} {
		c := new(claim)
		c.Request.Target, c.Request.Features, c.Request.Options, c.Dataset.Placement = "y", []string{"x"}, map[string]any{}, k.registered
		p := &plan.Plan{Streams: true, Sums: true}
		k.change(c, p)
		at, err := New(Config{Memory: k.memory, SpillDir: k.dir}).place(c, p, 1000)
		if (err == nil) != (k.want != "") || err == nil && at != k.want {
			t.Errorf("%s: %q, %v", name, at, err)
		}
	}
}

// The columns of a design are those of the request in its order.
func TestADesignNamesItsColumns(t *testing.T) {
	c := new(claim)
	c.Model, c.Request.Target, c.Request.Features = "linear", "y", []string{"age", "region", "km"}
	c.Request.Categories = map[string][]string{"region": {"north", "south", "*"}}
	c.Request.Options = map[string]any{"weight": "w", "max_weight": 2., "offset": "o", "exposure": "e"}
	x := c.design()
	if columns := c.columns(); columns[x.Weight] != "w" || columns[x.Offset] != "o" || columns[x.Exposure] != "e" || columns[x.Target] != "y" {
		t.Errorf("%v of %v", x, columns)
	}
	if want := []table.Term{{Column: 1}, {Column: 2, Level: 1}, {Column: 2, Level: 2}, {Column: 3}}; !slices.Equal(x.Features, want) {
		t.Errorf("features %v, want %v", x.Features, want)
	}
}

// A request that names a column twice, as for groups and as an offset, is refused before its charge, however it came
// into the queue.
func TestAColumnIsReadOnce(t *testing.T) {
	c := new(claim)
	c.Model, c.Request.Target, c.Request.Features = "linear", "y", []string{"age"}
	c.Request.Options = map[string]any{"offset": "flag"}
	if twice := c.namedTwice(); twice != "" {
		t.Errorf("%q is named once", twice)
	}
	c.Request.Options["by"] = "flag"
	_, _, err := new(Sidecar).check(c, 1000)
	if f := new(failure); !errors.As(err, &f) || f.sqlstate != "22023" || !strings.Contains(f.message, `"flag"`) {
		t.Errorf("%v", err)
	}
}

// What a claim says of a category is by its levels that count: terms, scales, groups, labels,
// what is read and how much memory that takes.
func TestAClaimCountsLevels(t *testing.T) {
	c := new(claim)
	err := json.Unmarshal([]byte(`{"model": "logistic", "dataset": {"scales": {"age": 50}}, "request": {"target": "outcome", "features": ["age", "region"], "intercept": true, "eps": 1, "delta": 1e-6,
		"categories": {"outcome": ["won", "drawn", "lost"], "region": ["north", "south", "east", "*"], "ward": ["a", "b"]}, "where_level": {"region": ["north", "east", "*"], "ward": ["b"]},
		"options": {"negative_label": "lost", "positive_label": "won", "penalty": "group_l1", "lambda": 0.1, "groups": [["region"], ["age"]]}}}`), c)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := c.terms(), []string{"(intercept)", "age", "region=east", "region=*"}; !slices.Equal(got, want) {
		t.Errorf("terms %q, want %q", got, want)
	}
	a, err := c.algorithm()
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(a.X, []float64{50, 1, 1}) || a.Sources != 3 || !slices.Equal(a.Levels, []dpsco.LevelColumns{{First: 1, Count: 2}}) {
		t.Errorf("scales %v, %d sources, levels %v", a.X, a.Sources, a.Levels)
	}
	r := a.Algorithm.(dpsco.Regression)
	if !reflect.DeepEqual(r.Groups, [][]int{{1, 2}, {0}}) || r.Negative != 2 || r.Positive != 0 {
		t.Errorf("groups %v, labels %v and %v", r.Groups, r.Negative, r.Positive)
	}
	if name := c.Request.Options["positive_label"]; name != "won" {
		t.Errorf("the request names %v now", name)
	}
	if p := c.pull(7); !slices.Equal(p.Columns, []string{"outcome", "age", "region", "ward"}) || p.Filters != 1 || p.Rows != 7 {
		t.Errorf("%+v is read", p)
	}
	if c.width() != 1+3+1+1 { // target, slopes, region and ward
		t.Errorf("%d columns are held", c.width())
	}
}

// A claim with blocks reads, and counts, the rows of its window and no others; without blocks all rows.
func TestAClaimReadsItsWindow(t *testing.T) {
	want := arrowio.Window{Column: "admitted_on", Type: "date", From: "2026-01-02", To: "2026-02-01"}
	for _, unit := range []string{"null", `"patient"`} {
		c := new(claim)
		err := json.Unmarshal([]byte(`{"dataset": {"unit": `+unit+`, "block": "admitted_on", "block_type": "date"},
			"request": {"target": "cost", "features": ["age"], "over": ["2026-01-02", "2026-02-01"]}}`), c)
		if err != nil {
			t.Fatal(err)
		}
		if read, counted := c.pull(7).Where, c.persons().window; read == nil || *read != want || counted == nil || *counted != want {
			t.Errorf("unit %s: %+v is read and %+v counted", unit, read, counted)
		}
		c.Dataset.Block = nil
		if read, counted := c.pull(7).Where, c.persons().window; read != nil || counted != nil {
			t.Errorf("unit %s, without blocks: %+v is read and %+v counted", unit, read, counted)
		}
	}
}

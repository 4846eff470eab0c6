package job

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"dpsidecar/internal/dpsco"
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
		if _, err := New(Config{Memory: memory}).place(c, new(dpsco.Plan), 1000); (err == nil) != fits {
			t.Errorf("of %d: %v", memory, err)
		}
	}
	if _, err := New(Config{}).place(c, new(dpsco.Plan), 1<<29); err == nil {
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
		at, err := New(Config{Memory: k.memory, SpillDir: k.dir}).place(c, &dpsco.Plan{Streams: k.streams}, 1000)
		if at != k.want || (err == nil) != (k.want != "") {
			t.Errorf("%+v: %q, %v", k, at, err)
		}
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
	if !slices.Equal(a.X, []float64{50, 1, 1}) || a.Sources != 3 {
		t.Errorf("scales %v, %d sources", a.X, a.Sources)
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

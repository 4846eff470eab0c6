package job

import (
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
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
		if err := New(Config{Memory: memory}).checkMemory(c, 1000); (err == nil) != fits {
			t.Errorf("of %d: %v", memory, err)
		}
	}
	if err := New(Config{}).checkMemory(c, 1<<29); err == nil {
		t.Error("more rows than can be numbered are read")
	}
}

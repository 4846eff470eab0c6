package job

import (
	"encoding/json"
	"testing"
	"time"
)

// Who fits a sample reads all rows: of the time that it takes to read them the ladder knows, and a job whose
// table takes longer than a job may is refused.
func TestASampleIsReadWithAllRows(t *testing.T) {
	c := new(claim)
	text := `{"model": "linear", "dataset": {"accounting": "zcdp"}, "request": {"target": "y", "features": ["x"], "intercept": true, "eps": 1, "delta": 1e-6, "options": {"sample_rows": 1000}}}`
	if err := json.Unmarshal([]byte(text), c); err != nil {
		t.Fatal(err)
	}
	s := New(Config{JobTime: time.Minute})
	for rows, fits := range map[int64]bool{500: true, 1_000_000: true, 1_000_000_000: false} {
		plan, _, err := s.check(c, c.sampled(rows))
		if (err == nil) != fits {
			t.Errorf("%d rows: %v", rows, err)
		}
		if least := time.Duration(rows) * 2 * 50 * time.Nanosecond; plan.Duration() < least {
			t.Errorf("%d rows take %v, reading alone %v", rows, plan.Duration(), least)
		}
	}
}

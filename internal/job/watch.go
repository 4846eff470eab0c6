package job

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
)

// Watcher is told what happens to jobs. How long pulls and fits take depends on
// the data: it is for operators, who may see it anyway, and for nobody else.
type Watcher interface {
	Ended(outcome string) // done, failed, refused, dropped, parked, panicked, out_of_time or handed_back
	Pulled(took time.Duration)
	Ran(took time.Duration)
}

type noWatcher struct{}

func (noWatcher) Ended(string)         {}
func (noWatcher) Pulled(time.Duration) {}
func (noWatcher) Ran(time.Duration)    {}

// Ready returns nil while the database believes this sidecar to be alive: its last
// heartbeat is younger than livesFor. A connection that is lost once is back before that.
func (s *Sidecar) Ready() error {
	if since := time.Since(time.Unix(0, s.lastBeat.Load())); since > livesFor {
		return fmt.Errorf("the database has not heard of this sidecar for %d s", int(livesFor.Seconds()))
	}
	return nil
}

// Figures are what operators watch in the database.
type Figures struct {
	Budgets map[string]float64 `json:"budgets"` // share of its epsilon that is left, by data set
	Queued  int                `json:"queued"`  // jobs that wait
	Oldest  float64            `json:"oldest"`  // how long the oldest of them has, in seconds

	Running  int            `json:"running"`  // jobs that a worker has
	Parked   int            `json:"parked"`   // jobs that are charged and could not be read or fitted, and will be tried again
	Failures map[string]int `json:"failures"` // jobs that have failed, by SQLSTATE; refused budgets are none
	Sidecars int            `json:"sidecars"` // that the database believes to be alive
	Verified *Verified      `json:"verified"` // nil: never
}

// Verified is what the last dpsidecar verify found.
type Verified struct {
	OK  bool    `json:"ok"`
	Age float64 `json:"age"` // in seconds
}

// Figures asks the database. It needs a sidecar that is Ready.
func (s *Sidecar) Figures(ctx context.Context) (f Figures, err error) {
	if err := s.Ready(); err != nil {
		return f, err
	}
	var text []byte
	if err := s.autocommit.QueryRow(ctx, "SELECT dp_int.figures()").Scan(&text); err != nil {
		return f, err
	}
	return f, json.Unmarshal(text, &f)
}

package job

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
)

// Watcher receives events of jobs. The durations of pulls and fits depend on the data: they are for
// operators, who can observe them anyway, and for nobody else.
type Watcher interface {
	Ended(outcome string) // done, failed, refused, dropped, parked, panicked, out_of_time or handed_back
	Pulled(took time.Duration)
	Ran(took time.Duration)
}

type noWatcher struct{}

func (noWatcher) Ended(string)         {}
func (noWatcher) Pulled(time.Duration) {}
func (noWatcher) Ran(time.Duration)    {}

// Ready returns nil while the database takes this sidecar to be alive: its last heartbeat is younger than
// livesFor. A single lost connection is restored before that.
func (s *Sidecar) Ready() error {
	if since := time.Since(time.Unix(0, s.lastBeat.Load())); since > livesFor {
		return fmt.Errorf("the database has not heard of this sidecar for %d s", int(livesFor.Seconds()))
	}
	return nil
}

// Figures are metrics of the database for operators.
type Figures struct {
	Budgets map[string]float64 `json:"budgets"` // share of the epsilon that is left, by data set
	Queued  int                `json:"queued"`  // jobs that wait
	Oldest  float64            `json:"oldest"`  // how long the oldest of them has waited, in seconds

	Running  int            `json:"running"`  // jobs that a worker has
	Parked   int            `json:"parked"`   // charged jobs that could not be read or fitted and will be tried again
	Failures map[string]int `json:"failures"` // failed jobs by SQLSTATE, without those refused for their budget
	Sidecars int            `json:"sidecars"` // number of sidecars that the database takes to be alive
	Verified *Verified      `json:"verified"` // nil if never verified
}

// Verified is the result of the last dpsidecar verify.
type Verified struct {
	OK  bool    `json:"ok"`
	Age float64 `json:"age"` // in seconds
}

// Figures queries the database. The sidecar must be Ready.
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

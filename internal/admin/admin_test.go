package admin

import (
	"context"
	"errors"
	"io"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"dpsidecar/internal/job"
)

// fake is a sidecar that is well or is not, with a database that answers or does not.
type fake struct{ err, silent error }

func (f *fake) Ready() error { return f.err }
func (f *fake) Figures(context.Context) (job.Figures, error) {
	return job.Figures{Budgets: map[string]float64{"claims": 0.25}, Queued: 3, Oldest: 7, Running: 2, Parked: 1, Sidecars: 4,
		Failures: map[string]int{"DP004": 5}, Verified: &job.Verified{Age: 9}}, errors.Join(f.err, f.silent)
}

func TestEndpoints(t *testing.T) {
	m, s := NewMetrics("v1"), &fake{}
	handler := m.handler(s)
	m.Ended("done")
	m.Pulled(time.Second)
	m.Ran(2 * time.Second)
	get := func(path string) (int, string) {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		body, _ := io.ReadAll(w.Result().Body)
		return w.Code, string(body)
	}
	well := []string{
		`dpsidecar_budget_remaining_ratio{dataset="claims"} 0.25`, "dpsidecar_queue_jobs 3", "dpsidecar_queue_age_seconds 7", "dpsidecar_ready 1",
		`dpsidecar_jobs_total{outcome="done"} 1`, `dpsidecar_jobs_total{outcome="failed"} 0`, "dpsidecar_pull_seconds_sum 1", "dpsidecar_run_seconds_sum 2",
		`dpsidecar_build_info{version="v1"} 1`, "dpsidecar_running_jobs 2", "dpsidecar_parked_jobs 1", "dpsidecar_sidecars 4",
		`dpsidecar_job_failures_total{sqlstate="DP004"} 5`, "dpsidecar_verify_ok 0", "dpsidecar_verify_age_seconds 9",
	}
	if code, text := get("/metrics"); code != 200 {
		t.Errorf("/metrics: %d", code)
	} else {
		for _, want := range well {
			if !strings.Contains(text, want+"\n") {
				t.Errorf("no %q in\n%s", want, text)
			}
		}
	}
	for path, want := range map[string]int{"/live": 200, "/ready": 200, "/": 404} {
		if code, _ := get(path); code != want {
			t.Errorf("%s: %d, want %d", path, code, want)
		}
	}
	// A database that has just stopped to answer: probe and metric do not flap.
	s.silent = errors.New("no answer")
	if code, _ := get("/ready"); code != 200 {
		t.Errorf("without an answer, /ready: %d", code)
	}
	if _, text := get("/metrics"); strings.Contains(text, "dpsidecar_queue") || !strings.Contains(text, "dpsidecar_ready 1\n") {
		t.Errorf("/ready says yes, and without an answer:\n%s", text)
	}
	s.err = errors.New("gone")
	for path, want := range map[string]int{"/live": 200, "/ready": 503, "/metrics": 200} {
		if code, _ := get(path); code != want {
			t.Errorf("without a database, %s: %d, want %d", path, code, want)
		}
	}
	if _, text := get("/metrics"); strings.Contains(text, "dpsidecar_queue") || !strings.Contains(text, "dpsidecar_ready 0\n") {
		t.Errorf("figures of a database that does not answer:\n%s", text)
	}
}

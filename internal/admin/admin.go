// Package admin is the HTTP listener for operators: whether the program runs, whether the database has
// received a heartbeat lately, and metrics for Prometheus. The durations of pulls and fits depend on the
// data, so none of this is for analysts.
package admin

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"dpsidecar/internal/job"
)

// Sidecar is the interface of *job.Sidecar that the listener uses.
type Sidecar interface {
	Ready() error
	Figures(ctx context.Context) (job.Figures, error)
}

// outcomes are the possible ends of an attempt at a job:
//
//	done         released
//	failed       not possible; nothing was spent
//	refused      the budget does not cover it
//	dropped      nobody waits for it any more, or another sidecar has taken it over
//	parked       charged, but could not be read or planned this time; it will be tried again
//	panicked     as parked, because of a bug in dpsidecar
//	out_of_time  charged, and ended at the last step of its ladder
//	handed_back  ended by a shutdown or an error; it will be tried again
var outcomes = []string{"done", "failed", "refused", "dropped", "parked", "panicked", "out_of_time", "handed_back"}

// Metrics counts and times attempts at jobs. It is a job.Watcher.
type Metrics struct {
	registry *prometheus.Registry
	jobs     *prometheus.CounterVec
	pull     prometheus.Histogram
	run      prometheus.Histogram
}

// NewMetrics returns metrics of a program of the given version, with no attempts yet.
func NewMetrics(version string) *Metrics {
	seconds := prometheus.ExponentialBuckets(0.01, 4, 9) // 0.01 s to about eleven minutes
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		jobs: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "dpsidecar_jobs_total", Help: "Attempts at jobs by what became of them."}, []string{"outcome"}),
		pull: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "dpsidecar_pull_seconds", Help: "How long reading the rows took; depends on the data.", Buckets: seconds}),
		run: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "dpsidecar_run_seconds", Help: "How long the fit took; depends on the data.", Buckets: seconds}),
	}
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "dpsidecar_build_info", Help: "1, with the version as a label.", ConstLabels: prometheus.Labels{"version": version}})
	build.Set(1)
	m.registry.MustRegister(m.jobs, m.pull, m.run, build)
	for _, outcome := range outcomes {
		m.jobs.WithLabelValues(outcome)
	}
	return m
}

// Ended implements job.Watcher.
func (m *Metrics) Ended(outcome string) { m.jobs.WithLabelValues(outcome).Inc() }

// Pulled implements job.Watcher.
func (m *Metrics) Pulled(took time.Duration) { m.pull.Observe(took.Seconds()) }

// Ran implements job.Watcher.
func (m *Metrics) Ran(took time.Duration) { m.run.Observe(took.Seconds()) }

// Serve answers on l until ctx ends: /live while the program runs, /ready while
// s is ready, /metrics for Prometheus.
func (m *Metrics) Serve(ctx context.Context, l net.Listener, s Sidecar) error {
	server := &http.Server{Handler: m.handler(s), ReadHeaderTimeout: 5 * time.Second}
	stop := context.AfterFunc(ctx, func() { server.Close() })
	defer stop()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func (m *Metrics) handler(s Sidecar) http.Handler {
	m.registry.MustRegister(databaseCollector{s})
	mux := http.NewServeMux()
	mux.HandleFunc("GET /live", func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("live\n")) })
	mux.HandleFunc("GET /ready", func(w http.ResponseWriter, _ *http.Request) {
		if err := s.Ready(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		w.Write([]byte("ready\n"))
	})
	mux.Handle("GET /metrics", promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{}))
	return mux
}

// databaseCollector queries the database for its figures whenever Prometheus collects.
type databaseCollector struct{ Sidecar }

var (
	readyDesc  = prometheus.NewDesc("dpsidecar_ready", "1 while the database has heard of this sidecar within 15 s, as /ready says.", nil, nil)
	budgetDesc = prometheus.NewDesc("dpsidecar_budget_remaining_ratio", "Share of a data set's epsilon that is left.", []string{"dataset"}, nil)
	queuedDesc = prometheus.NewDesc("dpsidecar_queue_jobs", "Jobs that wait for a sidecar.", nil, nil)
	oldestDesc = prometheus.NewDesc("dpsidecar_queue_age_seconds", "How long the oldest of them has waited.", nil, nil)

	runningDesc   = prometheus.NewDesc("dpsidecar_running_jobs", "Jobs that a worker has, of any sidecar.", nil, nil)
	parkedDesc    = prometheus.NewDesc("dpsidecar_parked_jobs", "Jobs that are spent and cannot be read now.", nil, nil)
	failuresDesc  = prometheus.NewDesc("dpsidecar_job_failures_total", "Jobs that have failed; refused budgets are none.", []string{"sqlstate"}, nil)
	sidecarsDesc  = prometheus.NewDesc("dpsidecar_sidecars", "Sidecars that the database believes to be alive.", nil, nil)
	verifyOKDesc  = prometheus.NewDesc("dpsidecar_verify_ok", "1 if the last dpsidecar verify found that the ledger holds.", nil, nil)
	verifyAgeDesc = prometheus.NewDesc("dpsidecar_verify_age_seconds", "How long ago that was.", nil, nil)
)

// Describe implements prometheus.Collector.
func (databaseCollector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{readyDesc, budgetDesc, queuedDesc, oldestDesc, runningDesc, parkedDesc, failuresDesc, sidecarsDesc, verifyOKDesc, verifyAgeDesc} {
		to <- d
	}
}

// Collect implements prometheus.Collector. If the database does not answer, its figures are left out.
func (d databaseCollector) Collect(to chan<- prometheus.Metric) {
	gauge := func(desc *prometheus.Desc, v float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, v, labels...)
	}
	if d.Ready() != nil {
		gauge(readyDesc, 0)
		return
	}
	gauge(readyDesc, 1)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	f, err := d.Figures(ctx)
	if err != nil {
		return
	}
	gauge(queuedDesc, float64(f.Queued))
	gauge(oldestDesc, f.Oldest)
	gauge(runningDesc, float64(f.Running))
	gauge(parkedDesc, float64(f.Parked))
	gauge(sidecarsDesc, float64(f.Sidecars))
	if v := f.Verified; v != nil {
		gauge(verifyOKDesc, map[bool]float64{true: 1}[v.OK])
		gauge(verifyAgeDesc, v.Age)
	}
	for sqlstate, jobs := range f.Failures {
		to <- prometheus.MustNewConstMetric(failuresDesc, prometheus.CounterValue, float64(jobs), sqlstate)
	}
	for dataset, left := range f.Budgets {
		gauge(budgetDesc, left, dataset)
	}
}

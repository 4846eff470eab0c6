// Package admin tells operators how a sidecar is: whether it lives, whether the
// database hears of it, and figures for Prometheus. How long pulls and fits take
// depends on the data, so none of this is for analysts.
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

// Sidecar is what is watched.
type Sidecar interface {
	Ready() error
	Figures(ctx context.Context) (job.Figures, error)
}

// Metrics count what happens to jobs. It is a job.Watcher.
type Metrics struct {
	registry *prometheus.Registry
	jobs     *prometheus.CounterVec
	pull     prometheus.Histogram
	run      prometheus.Histogram
}

// NewMetrics returns metrics of a program of this version.
func NewMetrics(version string) *Metrics {
	seconds := prometheus.ExponentialBuckets(0.01, 4, 9) // to eleven minutes
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
	for _, outcome := range []string{"done", "failed", "dropped", "parked", "panicked", "out_of_time", "handed_back"} {
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
	m.registry.MustRegister(database{s})
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

// database collects what only the database knows, when it is asked for.
type database struct{ Sidecar }

var (
	ready  = prometheus.NewDesc("dpsidecar_ready", "1 while the database has heard of this sidecar within 15 s, as /ready says.", nil, nil)
	budget = prometheus.NewDesc("dpsidecar_budget_remaining_ratio", "Share of a data set's epsilon that is left.", []string{"dataset"}, nil)
	queued = prometheus.NewDesc("dpsidecar_queue_jobs", "Jobs that wait for a sidecar.", nil, nil)
	oldest = prometheus.NewDesc("dpsidecar_queue_age_seconds", "How long the oldest of them has waited.", nil, nil)
)

// Describe implements prometheus.Collector.
func (database) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{ready, budget, queued, oldest} {
		to <- d
	}
}

// Collect implements prometheus.Collector. Without an answer from the database
// its figures are absent.
func (d database) Collect(to chan<- prometheus.Metric) {
	gauge := func(desc *prometheus.Desc, v float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, v, labels...)
	}
	if d.Ready() != nil {
		gauge(ready, 0)
		return
	}
	gauge(ready, 1)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	f, err := d.Figures(ctx)
	if err != nil {
		return
	}
	gauge(queued, float64(f.Queued))
	gauge(oldest, f.Oldest)
	for dataset, left := range f.Budgets {
		gauge(budget, left, dataset)
	}
}

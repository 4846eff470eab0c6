package privacy

import (
	"errors"
	"fmt"
	"math"
)

// ErrEvent marks an event with a parameter that is missing or out of range, ErrUnsupported one for which
// this package has no theorem. Costs are never estimated without proof.
var (
	ErrEvent       = errors.New("privacy: bad event")
	ErrUnsupported = errors.New("privacy: no theorem prices this event")
)

// Event is an immutable description of the mechanisms that run on a table. The ledger stores it as JSON
// permanently: kinds may be added, but are never changed.
type Event interface {
	kind() string // the JSON name
	check() error // nil or an error that wraps ErrEvent
	body() any    // the JSON value under that name
}

// Gaussian is normal noise on a sum. NoiseMultiplier is the ratio of its standard deviation to the
// replace-one l2 sensitivity.
//
// Discrete normal noise has the same zCDP and Renyi bounds. The theorems about trade-off functions hold for
// it with a surcharge on delta, an Approx{0, delta} beside the Gaussian: its distance in total variation
// from rounded normal noise, times 1 + e^epsilon. The surcharge of a Sampled Gaussian is charged; Best
// leaves out that of others, and states its size.
type Gaussian struct {
	NoiseMultiplier float64 `json:"noise_multiplier"`
}

// BoundedRange is a mechanism whose log-likelihood ratio between neighbours
// varies by at most Epsilon over the outputs: the exponential mechanism with
// weights exp(Epsilon u / (2 sensitivity)). It is Epsilon-DP.
type BoundedRange struct {
	Epsilon float64 `json:"epsilon"`
}

// Pure is an Epsilon-DP mechanism.
type Pure struct {
	Epsilon float64 `json:"epsilon"`
}

// ZCDP is a Rho-zero-concentrated private mechanism.
type ZCDP struct {
	Rho float64 `json:"rho"`
}

// Approx is an (Epsilon, Delta)-DP mechanism.
type Approx struct {
	Epsilon float64 `json:"epsilon"`
	Delta   float64 `json:"delta"`
}

// Repeat is Event, Count times with independent noise. Each run may depend on
// the answers of the earlier ones.
type Repeat struct {
	Count int
	Event Event
}

// Sampled is Event on a uniformly random subset of fixed size, Rate times the
// rows, drawn without replacement and not released; inside Repeat every run
// draws its own.
type Sampled struct {
	Rate  float64
	Event Event
}

// Parallel is Event on each of several disjoint parts of the rows. The parts are fixed
// by position after a random permutation, never by the values of rows, so that
// replacing a record changes one part.
type Parallel struct {
	Event Event
}

// Only is Event, normal noise on all rows, as the only charge of its account: its noise is that of Alone, and
// a ledger holds it against the exact trade-off function as long as nothing else is charged. It costs what
// Event costs.
type Only struct {
	Event Event
}

// Compose is all of its events, each of which may depend on the answers of the
// earlier ones. An empty Compose releases nothing.
type Compose []Event

func (Gaussian) kind() string     { return "gaussian" }
func (BoundedRange) kind() string { return "bounded_range" }
func (Pure) kind() string         { return "pure" }
func (ZCDP) kind() string         { return "zcdp" }
func (Approx) kind() string       { return "approx" }
func (Repeat) kind() string       { return "repeat" }
func (Sampled) kind() string      { return "sampled" }
func (Parallel) kind() string     { return "parallel" }
func (Only) kind() string         { return "only" }
func (Compose) kind() string      { return "compose" }

func (e Gaussian) check() error {
	if !(e.NoiseMultiplier > 0) || math.IsInf(e.NoiseMultiplier, 0) {
		return invalid(e, "noise_multiplier = %v; it must be positive and finite", e.NoiseMultiplier)
	}
	return nil
}

func (e BoundedRange) check() error { return checkCost(e, "epsilon", e.Epsilon) }
func (e Pure) check() error         { return checkCost(e, "epsilon", e.Epsilon) }
func (e ZCDP) check() error         { return checkCost(e, "rho", e.Rho) }

func (e Approx) check() error {
	if !(e.Delta >= 0 && e.Delta < 1) {
		return invalid(e, "delta = %v; it must be in [0, 1)", e.Delta)
	}
	return checkCost(e, "epsilon", e.Epsilon)
}

func (e Repeat) check() error {
	if e.Count < 1 {
		return invalid(e, "count = %d; it must be at least 1", e.Count)
	}
	return checkInner(e, e.Event)
}

func (e Sampled) check() error {
	if !(e.Rate > 0 && e.Rate <= 1) {
		return invalid(e, "rate = %v; it must be in (0, 1]", e.Rate)
	}
	return checkInner(e, e.Event)
}

func (e Parallel) check() error { return checkInner(e, e.Event) }

func (e Only) check() error {
	if !IsNoise(e.Event) {
		return invalid(e, "it holds something else than normal noise on all rows")
	}
	return checkInner(e, e.Event)
}

func (e Compose) check() error {
	for _, inner := range e {
		if err := checkInner(e, inner); err != nil {
			return err
		}
	}
	return nil
}

func checkCost(e Event, name string, v float64) error {
	if !(v >= 0) || math.IsInf(v, 0) {
		return invalid(e, "%s = %v; it must be non-negative and finite", name, v)
	}
	return nil
}

func checkInner(outer, inner Event) error {
	if inner == nil {
		return invalid(outer, "it contains no event")
	}
	return inner.check()
}

func invalid(e Event, format string, args ...any) error {
	return fmt.Errorf("%w: %s: %s", ErrEvent, e.kind(), fmt.Sprintf(format, args...))
}

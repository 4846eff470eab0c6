package mech

import "dpsidecar/internal/privacy"

// Mechanism is one that releases a Bounded: what Gaussian and Laplace have in common.
type Mechanism interface {
	Check() error
	Event() privacy.Event
	Release(dst []float64, b Bounded, src *Source)
}

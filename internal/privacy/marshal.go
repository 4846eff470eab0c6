package privacy

import (
	"encoding/json"
	"fmt"
)

// MarshalEvent writes e in the form that the ledger stores permanently: one object with one key, the
// event's kind, as in {"repeat":{"count":2,"event":{"pure":{"epsilon":0.1}}}}.
//
// Errors: wraps ErrEvent when a parameter is out of range.
func MarshalEvent(e Event) ([]byte, error) {
	if e == nil {
		return nil, fmt.Errorf("%w: nil", ErrEvent)
	}
	if err := e.check(); err != nil {
		return nil, err
	}
	return json.Marshal(taggedEvent{e})
}

// taggedEvent is marshalled as an object whose only key is the kind of the event.
type taggedEvent struct{ Event }

func (t taggedEvent) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[string]any{t.kind(): t.body()})
}

func (e Gaussian) body() any     { return e }
func (e BoundedRange) body() any { return e }
func (e Pure) body() any         { return e }
func (e ZCDP) body() any         { return e }
func (e Approx) body() any       { return e }

func (e Repeat) body() any {
	return struct {
		Count int         `json:"count"`
		Event taggedEvent `json:"event"`
	}{e.Count, taggedEvent{e.Event}}
}

func (e Sampled) body() any {
	return struct {
		Rate  float64     `json:"rate"`
		Event taggedEvent `json:"event"`
	}{e.Rate, taggedEvent{e.Event}}
}

func (e Parallel) body() any {
	return struct {
		Event taggedEvent `json:"event"`
	}{taggedEvent{e.Event}}
}

func (e Only) body() any {
	return struct {
		Event taggedEvent `json:"event"`
	}{taggedEvent{e.Event}}
}

func (e Compose) body() any {
	events := make([]taggedEvent, len(e))
	for i, inner := range e {
		events[i] = taggedEvent{inner}
	}
	return events
}

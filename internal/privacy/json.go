package privacy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
)

// MarshalEvent writes e in the form the ledger keeps for ever: one object with
// one key, the event's kind, as in {"repeat":{"count":2,"event":{"pure":{"epsilon":0.1}}}}.
//
// Errors: wraps ErrEvent when a parameter is out of range.
func MarshalEvent(e Event) ([]byte, error) {
	if e == nil {
		return nil, fmt.Errorf("%w: nil", ErrEvent)
	}
	if err := e.check(); err != nil {
		return nil, err
	}
	return json.Marshal(wire{e})
}

// wire gives an event its kind as the key of an enclosing object.
type wire struct{ Event }

func (w wire) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[string]any{w.kind(): w.body()})
}

func (e Gaussian) body() any     { return e }
func (e BoundedRange) body() any { return e }
func (e Pure) body() any         { return e }
func (e ZCDP) body() any         { return e }
func (e Approx) body() any       { return e }

func (e Repeat) body() any {
	return struct {
		Count int  `json:"count"`
		Event wire `json:"event"`
	}{e.Count, wire{e.Event}}
}

func (e Sampled) body() any {
	return struct {
		Rate  float64 `json:"rate"`
		Event wire    `json:"event"`
	}{e.Rate, wire{e.Event}}
}

func (e Parallel) body() any {
	return struct {
		Event wire `json:"event"`
	}{wire{e.Event}}
}

func (e Compose) body() any {
	events := make([]wire, len(e))
	for i, inner := range e {
		events[i] = wire{inner}
	}
	return events
}

// UnmarshalEvent reads what MarshalEvent writes and nothing else: an unknown,
// missing or repeated key, a value out of range or text after the event is an
// error that wraps ErrEvent.
func UnmarshalEvent(text []byte) (Event, error) {
	object, err := parseObject(text)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrEvent, err)
	}
	if len(object) != 1 {
		return nil, fmt.Errorf("%w: %d kinds in one object", ErrEvent, len(object))
	}
	for kind, body := range object {
		e, err := parseKind(kind, body)
		if err != nil {
			return nil, err
		}
		return e, e.check()
	}
	panic("unreachable")
}

func parseKind(kind string, body json.RawMessage) (Event, error) {
	if kind == "compose" {
		return parseCompose(body)
	}
	f := parseFields(kind, body)
	var e Event
	switch kind {
	case "gaussian":
		e = Gaussian{f.number("noise_multiplier")}
	case "bounded_range":
		e = BoundedRange{f.number("epsilon")}
	case "pure":
		e = Pure{f.number("epsilon")}
	case "zcdp":
		e = ZCDP{f.number("rho")}
	case "approx":
		e = Approx{f.number("epsilon"), f.number("delta")}
	case "repeat":
		e = Repeat{f.count("count"), f.event("event")}
	case "sampled":
		e = Sampled{f.number("rate"), f.event("event")}
	case "parallel":
		e = Parallel{f.event("event")}
	default:
		return nil, fmt.Errorf("%w: unknown kind %q", ErrEvent, kind)
	}
	return e, f.close()
}

func parseCompose(body json.RawMessage) (Event, error) {
	var parts []json.RawMessage
	if err := json.Unmarshal(body, &parts); err != nil || parts == nil {
		return nil, fmt.Errorf("%w: compose: not an array", ErrEvent)
	}
	events := make(Compose, len(parts))
	for i, part := range parts {
		var err error
		if events[i], err = UnmarshalEvent(part); err != nil {
			return nil, err
		}
	}
	return events, nil
}

// fields hands out the members of one object; the first error is kept.
type fields struct {
	kind string
	raw  map[string]json.RawMessage
	err  error
}

func parseFields(kind string, body json.RawMessage) *fields {
	raw, err := parseObject(body)
	f := &fields{kind: kind, raw: raw}
	if err != nil {
		f.fail("%v", err)
	}
	return f
}

func (f *fields) fail(format string, args ...any) {
	if f.err == nil {
		f.err = fmt.Errorf("%w: %s: %s", ErrEvent, f.kind, fmt.Sprintf(format, args...))
	}
}

func (f *fields) take(name string) json.RawMessage {
	text, ok := f.raw[name]
	if !ok || bytes.Equal(text, []byte("null")) {
		f.fail("%s is missing", name)
		return nil
	}
	delete(f.raw, name)
	return text
}

func (f *fields) number(name string) (v float64) {
	if text := f.take(name); text != nil && json.Unmarshal(text, &v) != nil {
		f.fail("%s is not a finite number", name)
	}
	return v
}

func (f *fields) count(name string) (v int) {
	if text := f.take(name); text != nil && json.Unmarshal(text, &v) != nil {
		f.fail("%s is not an integer", name)
	}
	return v
}

func (f *fields) event(name string) Event {
	text := f.take(name)
	if text == nil {
		return nil
	}
	e, err := UnmarshalEvent(text)
	if err != nil && f.err == nil {
		f.err = err
	}
	return e
}

func (f *fields) close() error {
	for name := range f.raw {
		f.fail("unknown member %q", name)
	}
	return f.err
}

// parseObject splits one JSON object into its members. Unlike json.Unmarshal it
// keeps the case of the keys and refuses a key that stands twice.
func parseObject(text []byte) (map[string]json.RawMessage, error) {
	dec := json.NewDecoder(bytes.NewReader(text))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return nil, fmt.Errorf("not a JSON object")
	}
	members := map[string]json.RawMessage{}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return nil, err
		}
		name := key.(string) // in an object the decoder returns nothing else here
		if _, twice := members[name]; twice {
			return nil, fmt.Errorf("member %q stands twice", name)
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return nil, err
		}
		members[name] = value
	}
	if _, err := dec.Token(); err != nil {
		return nil, err
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, fmt.Errorf("text after the object")
	}
	return members, nil
}

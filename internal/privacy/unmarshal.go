package privacy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
)

// UnmarshalEvent reads the format of MarshalEvent only: an unknown, missing or repeated key, a value out of
// range or text after the event is an error that wraps ErrEvent.
func UnmarshalEvent(text []byte) (Event, error) { return new(eventDecoder).event(text) }

// UnmarshalHistory reads {"events":[...]}, everything released so far, as the
// composition of its events. It is as strict as UnmarshalEvent.
func UnmarshalHistory(text []byte) (Event, error) { return new(eventDecoder).history(text) }

// UnmarshalTemplate reads a history as UnmarshalHistory does, except that noise
// multipliers may be left out, as in {"gaussian":{}} or with the value null. It
// returns the history as a function of one noise multiplier that stands in all
// those places, as Calibrate takes it.
//
// Errors: ErrEvent, also when no noise multiplier is left out.
func UnmarshalTemplate(text []byte) (func(z float64) (Event, error), error) {
	trial := eventDecoder{template: true, noiseMultiplier: 1}
	if _, err := trial.history(text); err != nil {
		return nil, err
	}
	if trial.filled == 0 {
		return nil, fmt.Errorf("%w: history: no noise_multiplier is left out", ErrEvent)
	}
	return func(z float64) (Event, error) {
		d := eventDecoder{template: true, noiseMultiplier: z}
		return d.history(text)
	}, nil
}

// eventDecoder decodes events. If template is set it uses noiseMultiplier for each Gaussian that has none,
// and counts these in filled.
type eventDecoder struct {
	template        bool
	noiseMultiplier float64
	filled          int
}

func (d *eventDecoder) history(text []byte) (Event, error) {
	object, err := parseObject(text)
	if err != nil {
		return nil, fmt.Errorf("%w: history: %w", ErrEvent, err)
	}
	body, ok := object["events"]
	if !ok || len(object) != 1 {
		return nil, fmt.Errorf(`%w: history: it must be {"events":[...]} and nothing else`, ErrEvent)
	}
	return d.compose(body)
}

func (d *eventDecoder) event(text []byte) (Event, error) {
	object, err := parseObject(text)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrEvent, err)
	}
	if len(object) != 1 {
		return nil, fmt.Errorf("%w: %d kinds in one object", ErrEvent, len(object))
	}
	for kind, body := range object {
		e, err := d.ofKind(kind, body)
		if err != nil {
			return nil, err
		}
		return e, e.check()
	}
	panic("unreachable")
}

// ofKind decodes the body of an event whose kind is known.
func (d *eventDecoder) ofKind(kind string, body json.RawMessage) (Event, error) {
	if kind == "compose" {
		return d.compose(body)
	}
	m := parseMembers(kind, body)
	var e Event
	switch kind {
	case "gaussian":
		e = Gaussian{d.gaussianNoise(m)}
	case "bounded_range":
		e = BoundedRange{m.number("epsilon")}
	case "pure":
		e = Pure{m.number("epsilon")}
	case "zcdp":
		e = ZCDP{m.number("rho")}
	case "approx":
		e = Approx{m.number("epsilon"), m.number("delta")}
	case "repeat":
		e = Repeat{m.integer("count"), d.inner(m)}
	case "sampled":
		e = Sampled{m.number("rate"), d.inner(m)}
	case "parallel":
		e = Parallel{d.inner(m)}
	case "only":
		e = Only{d.inner(m)}
	default:
		return nil, fmt.Errorf("%w: unknown kind %q", ErrEvent, kind)
	}
	return e, m.finish()
}

func (d *eventDecoder) compose(body json.RawMessage) (Event, error) {
	var parts []json.RawMessage
	if err := json.Unmarshal(body, &parts); err != nil || parts == nil {
		return nil, fmt.Errorf("%w: compose: not an array", ErrEvent)
	}
	events := make(Compose, len(parts))
	for i, part := range parts {
		var err error
		if events[i], err = d.event(part); err != nil {
			return nil, err
		}
	}
	return events, nil
}

// gaussianNoise returns the noise multiplier of a Gaussian, or that of the
// template where it is left out.
func (d *eventDecoder) gaussianNoise(m *members) float64 {
	if d.template && !m.has("noise_multiplier") {
		delete(m.unread, "noise_multiplier") // it may be present with the value null
		d.filled++
		return d.noiseMultiplier
	}
	return m.number("noise_multiplier")
}

// inner decodes the event inside another one.
func (d *eventDecoder) inner(m *members) Event {
	text := m.take("event")
	if text == nil {
		return nil
	}
	e, err := d.event(text)
	if err != nil && m.err == nil {
		m.err = err
	}
	return e
}

// members returns the members of an event's body by name and keeps the first error, which finish returns.
type members struct {
	kind   string
	unread map[string]json.RawMessage
	err    error
}

func parseMembers(kind string, body json.RawMessage) *members {
	all, err := parseObject(body)
	m := &members{kind: kind, unread: all}
	if err != nil {
		m.fail("%v", err)
	}
	return m
}

func (m *members) fail(format string, args ...any) {
	if m.err == nil {
		m.err = fmt.Errorf("%w: %s: %s", ErrEvent, m.kind, fmt.Sprintf(format, args...))
	}
}

// has reports whether a member has a value other than null.
func (m *members) has(name string) bool {
	text, ok := m.unread[name]
	return ok && !bytes.Equal(text, []byte("null"))
}

func (m *members) take(name string) json.RawMessage {
	if !m.has(name) {
		m.fail("%s is missing", name)
		return nil
	}
	text := m.unread[name]
	delete(m.unread, name)
	return text
}

func (m *members) number(name string) (v float64) {
	if text := m.take(name); text != nil && json.Unmarshal(text, &v) != nil {
		m.fail("%s is not a finite number", name)
	}
	return v
}

func (m *members) integer(name string) (v int) {
	if text := m.take(name); text != nil && json.Unmarshal(text, &v) != nil {
		m.fail("%s is not an integer", name)
	}
	return v
}

// finish returns the first error; a member that was not read is an error too.
func (m *members) finish() error {
	for name := range m.unread {
		m.fail("unknown member %q", name)
	}
	return m.err
}

// parseObject splits one JSON object into its members. Unlike json.Unmarshal it distinguishes the case of
// keys and refuses duplicate keys.
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
		name := key.(string) // a key is always a string here
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

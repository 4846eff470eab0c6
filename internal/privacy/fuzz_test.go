package privacy

import (
	"bytes"
	"errors"
	"math"
	"testing"
)

// FuzzEvent reads arbitrary text as an event. An accepted event survives being written
// and read again, and its cost is not negative.
func FuzzEvent(f *testing.F) {
	for _, text := range []string{
		`{"gaussian":{"noise_multiplier":1.5}}`,
		`{"repeat":{"count":2,"event":{"pure":{"epsilon":0.1}}}}`,
		`{"compose":[{"sampled":{"rate":0.1,"event":{"gaussian":{"noise_multiplier":2}}}},{"approx":{"epsilon":0,"delta":1e-9}},{"zcdp":{"rho":0.1}}]}`,
		`{"parallel":{"event":{"bounded_range":{"epsilon":1}}}}`,
		`{"repeat":{"count":9007199254740993,"event":{"repeat":{"count":9007199254740993,"event":{"zcdp":{"rho":1e308}}}}}}`,
		`{"pure":{"epsilon":1},"zcdp":{"rho":1}}`, `{"pure":{"epsilon":1,"epsilon":2}}`, `{"pure":{"Epsilon":1}}`, `{"pure":{"epsilon":null}}`,
		`{"compose":null}`, `{"compose":[[]]}`, `{"repeat":{"count":1e3,"event":{}}}`, `{"gaussian":{"noise_multiplier":1e-400}}`, `{} {}`, "", "\x00", `{"":{}}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		e, err := UnmarshalEvent(text)
		if err != nil {
			if !errors.Is(err, ErrEvent) {
				t.Errorf("an error of another kind: %v", err)
			}
			return
		}
		once, err := MarshalEvent(e)
		if err != nil {
			t.Fatalf("%q is taken and not written: %v", text, err)
		}
		again, err := UnmarshalEvent(once)
		if err != nil {
			t.Fatalf("%q is written and not read: %v", once, err)
		}
		if twice, err := MarshalEvent(again); err != nil || !bytes.Equal(once, twice) {
			t.Errorf("%q becomes %q, %v", once, twice, err)
		}
		c, err := Price(e)
		if err != nil || !(c.Epsilon >= 0 && c.Rho >= 0 && c.Delta >= 0) {
			t.Errorf("%q costs %+v, %v", text, c, err)
		}
	})
}

// FuzzHistory reads arbitrary text as a line for dpsidecar account, and prices it with
// the fast accountants (Renyi divergences are slow).
func FuzzHistory(f *testing.F) {
	for _, text := range []string{
		`{"events":[]}`, `{"events":null}`, `{"events":[{"pure":{"epsilon":0.25}}]}`,
		`{"events":[{"gaussian":{}},{"repeat":{"count":10,"event":{"gaussian":{"noise_multiplier":null}}}}]}`,
		`{"events":[{"sampled":{"rate":0.5,"event":{"compose":[{"gaussian":{"noise_multiplier":2}},{"gaussian":{"noise_multiplier":1e-200}}]}}}]}`,
		`{"events":[{"repeat":{"count":9223372036854775807,"event":{"parallel":{"event":{"approx":{"epsilon":1e308,"delta":0.9}}}}}}]}`,
		`{"events":[{"gaussian":{"noise_multiplier":1e200}}],"events":[]}`, `{"Events":[]}`, "[]",
	} {
		f.Add([]byte(text), 1e-6)
	}
	f.Fuzz(func(t *testing.T, text []byte, delta float64) {
		if template, err := UnmarshalTemplate(text); err == nil {
			if _, err := template(3); err != nil {
				t.Errorf("%q takes 1 and not 3: %v", text, err)
			}
		}
		history, err := UnmarshalHistory(text)
		if err != nil {
			return
		}
		for _, a := range []Accountant{PureSum{}, Concentrated{}} {
			epsilon, err := a.Epsilon(history, delta)
			switch {
			case err != nil && !errors.Is(err, ErrUnsupported) && !errors.Is(err, ErrEvent) && !errors.Is(err, ErrBudget):
				t.Errorf("%T: %q: an error of another kind: %v", a, text, err)
			case err == nil && (math.IsNaN(epsilon) || epsilon < 0):
				t.Errorf("%T: %q costs %v", a, text, epsilon)
			}
		}
	})
}

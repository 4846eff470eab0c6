package privacy

import (
	"errors"
	"reflect"
	"testing"
)

func TestHistoryIsReadStrictly(t *testing.T) {
	got, err := UnmarshalHistory([]byte(` {"events": [{"pure":{"epsilon":1}}, {"repeat":{"count":2,"event":{"gaussian":{"noise_multiplier":3}}}}] }`))
	if want := (Compose{Pure{1}, Repeat{2, Gaussian{3}}}); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%#v, %v; want %#v", got, err, want)
	}
	for _, text := range []string{
		``, `[]`, `{}`, `{"events":null}`, `{"events":{}}`, `{"Events":[]}`, `{"events":[],"events":[]}`, `{"events":[],"more":1}`, `{"events":[]} x`,
		`{"events":[{}]}`, `{"events":[{"gaussian":{}}]}`, `{"events":[{"gaussian":{"noise_multiplier":-1}}]}`, `{"events":[{"unknown":{}}]}`,
	} {
		if e, err := UnmarshalHistory([]byte(text)); !errors.Is(err, ErrEvent) {
			t.Errorf("%s: %#v, %v; want ErrEvent", text, e, err)
		}
	}
}

func TestTemplateFillsWhatIsLeftOut(t *testing.T) {
	history, err := UnmarshalTemplate([]byte(`{"events":[{"gaussian":{}},{"gaussian":{"noise_multiplier":3}},
		{"repeat":{"count":2,"event":{"sampled":{"rate":0.5,"event":{"gaussian" : { "noise_multiplier" : null } }}}}}]}`))
	if err != nil {
		t.Fatal(err)
	}
	got, err := history(1.5e-7)
	if want := (Compose{Gaussian{1.5e-7}, Gaussian{3}, Repeat{2, Sampled{.5, Gaussian{1.5e-7}}}}); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%#v, %v; want %#v", got, err, want)
	}
	for _, text := range []string{
		`{"events":[]}`, `{"events":[{"gaussian":{"noise_multiplier":3}}]}`, `{"events":[{"gaussian":{}},{"pure":{}}]}`,
		`{"events":[{"gaussian":{}}]}{"events":[]}`, `{"events":[{"gaussian":{"sigma":1}}]}`, `{"events":[{"gaussian":{}}],"\"gaussian\":{}":1}`,
	} {
		if _, err := UnmarshalTemplate([]byte(text)); !errors.Is(err, ErrEvent) {
			t.Errorf("%s: %v; want ErrEvent", text, err)
		}
	}
}

func TestLeavesAreCounted(t *testing.T) {
	got, err := leaves(Compose{
		Repeat{3, Compose{Gaussian{2}, Pure{1}}}, Gaussian{2}, Parallel{Repeat{2, BoundedRange{1}}}, Compose{},
		Sampled{1, Gaussian{2}}, Sampled{.5, Gaussian{4}}, Repeat{2, Sampled{.5, Gaussian{4}}}, Sampled{.5, Repeat{2, Pure{1}}}, Sampled{.5, Compose{}},
	})
	want := []term{{Gaussian{2}, 5}, {Pure{1}, 5}, {BoundedRange{1}, 2}, {Sampled{.5, Gaussian{4}}, 3}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v, %v; want %v", got, err, want)
	}
}

// Leaves never cost less than the whole: Price, which walks the event itself, agrees.
func TestLeavesCostWhatTheEventCosts(t *testing.T) {
	for _, c := range forms {
		list, err := leaves(c.event)
		if err != nil {
			t.Fatal(err)
		}
		got, err := total(list)
		want, _ := Price(c.event)
		if err != nil || !near(got.Epsilon, want.Epsilon) || !near(got.Rho, want.Rho) || !near(got.Delta, want.Delta) {
			t.Errorf("%s: %v, %v; want %v", c.text, got, err, want)
		}
	}
}

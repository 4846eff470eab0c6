package privacy

import (
	"errors"
	"math"
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
	for _, z := range []float64{0, -1, math.NaN(), math.Inf(1)} {
		if e, err := history(z); !errors.Is(err, ErrEvent) {
			t.Errorf("a noise multiplier of %v gives %#v, %v; want ErrEvent", z, e, err)
		}
	}
	for _, text := range []string{
		`{"events":[]}`, `{"events":[{"gaussian":{"noise_multiplier":null,"noise_multiplier":null}}]}`, `{"events":[{"gaussian":null}]}`,
		`{"events":[{"gaussian":{"noise_multiplier":3}}]}`, `{"events":[{"gaussian":{}},{"pure":{}}]}`,
		`{"events":[{"gaussian":{}}]}{"events":[]}`, `{"events":[{"gaussian":{"sigma":1}}]}`, `{"events":[{"gaussian":{}}],"\"gaussian\":{}":1}`,
	} {
		if _, err := UnmarshalTemplate([]byte(text)); !errors.Is(err, ErrEvent) {
			t.Errorf("%s: %v; want ErrEvent", text, err)
		}
	}
}

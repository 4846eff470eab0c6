package privacy

import (
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
)

var forms = []struct {
	event Event
	text  string
}{
	{Gaussian{2}, `{"gaussian":{"noise_multiplier":2}}`},
	{Pure{0.1}, `{"pure":{"epsilon":0.1}}`},
	{BoundedRange{0.1}, `{"bounded_range":{"epsilon":0.1}}`},
	{ZCDP{0.01}, `{"zcdp":{"rho":0.01}}`},
	{Approx{1, 1e-6}, `{"approx":{"epsilon":1,"delta":0.000001}}`},
	{Repeat{100, Gaussian{2}}, `{"repeat":{"count":100,"event":{"gaussian":{"noise_multiplier":2}}}}`},
	{Sampled{0.01, Pure{1}}, `{"sampled":{"rate":0.01,"event":{"pure":{"epsilon":1}}}}`},
	{Parallel{Pure{1}}, `{"parallel":{"event":{"pure":{"epsilon":1}}}}`},
	{Only{Compose{Gaussian{2}}}, `{"only":{"event":{"compose":[{"gaussian":{"noise_multiplier":2}}]}}}`},
	{Compose{Pure{1}, Compose{}, Repeat{2, ZCDP{1}}},
		`{"compose":[{"pure":{"epsilon":1}},{"compose":[]},{"repeat":{"count":2,"event":{"zcdp":{"rho":1}}}}]}`},
	{Pure{math.MaxFloat64}, `{"pure":{"epsilon":1.7976931348623157e+308}}`},
	{Pure{5e-324}, `{"pure":{"epsilon":5e-324}}`},
	{Pure{0}, `{"pure":{"epsilon":0}}`},
}

func TestEventHasTheLedgersForm(t *testing.T) {
	for _, c := range forms {
		text, err := MarshalEvent(c.event)
		if err != nil || string(text) != c.text {
			t.Errorf("MarshalEvent(%#v) = %s, %v; want %s", c.event, text, err, c.text)
		}
		e, err := UnmarshalEvent([]byte(c.text))
		if err != nil || !reflect.DeepEqual(e, c.event) {
			t.Errorf("UnmarshalEvent(%s) = %#v, %v; want %#v", c.text, e, err, c.event)
		}
	}
}

func TestEventTextMayBeSpacedAndReordered(t *testing.T) {
	e, err := UnmarshalEvent([]byte(" {\"approx\" : {\"delta\":1e-6,\n\"epsilon\":1}} "))
	if err != nil || e != (Approx{1, 1e-6}) {
		t.Fatalf("got %#v, %v", e, err)
	}
}

func TestUnmarshalEventRefuses(t *testing.T) {
	for _, text := range []string{
		``, `null`, `1`, `"pure"`, `[]`, `{}`, `{"pure"`, `{"pure":{"epsilon":1}`, `{"pure":{"epsilon":1}} {}`, `{"pure":{"epsilon":1}}x`,
		`{"Pure":{"epsilon":1}}`, `{"pure":{"Epsilon":1}}`, `{"laplace":{"scale":1}}`, `{"pure":null}`, `{"pure":1}`, `{"pure":[]}`,
		`{"pure":{}}`, `{"pure":{"epsilon":null}}`, `{"pure":{"epsilon":"1"}}`, `{"pure":{"epsilon":-1}}`, `{"pure":{"epsilon":1e400}}`,
		`{"pure":{"epsilon":NaN}}`, `{"pure":{"epsilon":1,"delta":0}}`, `{"pure":{"epsilon":1,"epsilon":2}}`,
		`{"pure":{"epsilon":1},"zcdp":{"rho":1}}`, `{"pure":{"epsilon":1},"pure":{"epsilon":2}}`,
		`{"gaussian":{"noise_multiplier":0}}`, `{"gaussian":{"noise_multiplier":-1}}`, `{"gaussian":{"noise_multiplier":1e-400}}`,
		`{"bounded_range":{"epsilon":-0.5}}`, `{"zcdp":{"rho":-1}}`, `{"zcdp":{"epsilon":1}}`,
		`{"approx":{"epsilon":1}}`, `{"approx":{"epsilon":1,"delta":1}}`, `{"approx":{"epsilon":1,"delta":-1e-9}}`,
		`{"repeat":{"count":0,"event":{"pure":{"epsilon":1}}}}`, `{"repeat":{"count":1.5,"event":{"pure":{"epsilon":1}}}}`,
		`{"repeat":{"count":99999999999999999999,"event":{"pure":{"epsilon":1}}}}`, `{"repeat":{"count":2}}`,
		`{"repeat":{"count":2,"event":{"pure":{"epsilon":-1}}}}`, `{"repeat":{"count":2,"event":null}}`,
		`{"sampled":{"rate":0,"event":{"pure":{"epsilon":1}}}}`, `{"sampled":{"rate":1.01,"event":{"pure":{"epsilon":1}}}}`,
		`{"parallel":{"event":{}}}`, `{"compose":{}}`, `{"compose":null}`, `{"compose":[null]}`, `{"compose":[{"pure":{}}]}`,
	} {
		if e, err := UnmarshalEvent([]byte(text)); !errors.Is(err, ErrEvent) {
			t.Errorf("UnmarshalEvent(%s) = %#v, %v; want ErrEvent", text, e, err)
		}
	}
}

var badEvents = []Event{
	nil, Gaussian{0}, Gaussian{math.NaN()}, Gaussian{math.Inf(1)}, Pure{-1}, Pure{math.NaN()}, Pure{math.Inf(1)},
	BoundedRange{math.NaN()}, ZCDP{math.Inf(1)}, Approx{1, 1}, Approx{1, math.NaN()}, Approx{-1, 0}, Repeat{0, Pure{1}}, Repeat{Count: 1},
	Sampled{0, Pure{1}}, Sampled{math.NaN(), Pure{1}}, Sampled{Rate: 1}, Parallel{}, Only{}, Only{Pure{1}}, Only{Gaussian{-1}}, Only{Compose{Gaussian{1}, Sampled{.5, Gaussian{1}}}}, Only{Only{Gaussian{1}}}, Compose{nil}, Compose{Parallel{Repeat{1, Pure{-1}}}},
}

func TestBadEventsAreNeitherWrittenNorPriced(t *testing.T) {
	for _, e := range badEvents {
		if text, err := MarshalEvent(e); !errors.Is(err, ErrEvent) {
			t.Errorf("MarshalEvent(%#v) = %s, %v", e, text, err)
		}
		if c, err := Price(e); !errors.Is(err, ErrEvent) {
			t.Errorf("Price(%#v) = %v, %v", e, c, err)
		}
	}
}

func FuzzUnmarshalEventRoundTrips(f *testing.F) {
	for _, c := range forms {
		f.Add(c.text)
	}
	f.Add(strings.Repeat(`{"parallel":{"event":`, 50))
	f.Fuzz(func(t *testing.T, text string) {
		e, err := UnmarshalEvent([]byte(text))
		if err != nil {
			return
		}
		again, err := MarshalEvent(e)
		if err != nil {
			t.Fatalf("%s was read but not written: %v", text, err)
		}
		if e2, err := UnmarshalEvent(again); err != nil || !reflect.DeepEqual(e, e2) {
			t.Fatalf("%s became %s: %v", text, again, err)
		}
	})
}

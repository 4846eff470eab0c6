package privacy

import (
	"reflect"
	"testing"
)

func TestLeavesAreCounted(t *testing.T) {
	got, err := leavesOf(Compose{
		Repeat{3, Compose{Gaussian{2}, Pure{1}}}, Gaussian{2}, Parallel{Repeat{2, BoundedRange{1}}}, Compose{},
		Sampled{1, Gaussian{2}}, Sampled{.5, Gaussian{4}}, Repeat{2, Sampled{.5, Gaussian{4}}}, Sampled{.5, Repeat{2, Pure{1}}}, Sampled{.5, Compose{}},
	})
	want := []leaf{{Gaussian{2}, 5}, {Pure{1}, 5}, {BoundedRange{1}, 2}, {Sampled{.5, Gaussian{4}}, 3}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v, %v; want %v", got, err, want)
	}
}

// Leaves never cost less than the whole: Price, which walks the event itself, agrees.
func TestLeavesCostWhatTheEventCosts(t *testing.T) {
	for _, c := range forms {
		leaves, err := leavesOf(c.event)
		if err != nil {
			t.Fatal(err)
		}
		got, err := totalCost(leaves)
		want, _ := Price(c.event)
		if err != nil || !near(got.Epsilon, want.Epsilon) || !near(got.Rho, want.Rho) || !near(got.Delta, want.Delta) {
			t.Errorf("%s: %v, %v; want %v", c.text, got, err, want)
		}
	}
}

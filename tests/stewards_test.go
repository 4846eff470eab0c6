package tests

import (
	"context"
	"testing"
)

// A steward who waits for another one changes what the other has left: a data set that was registered again
// meanwhile, not the registration of before, and labels that were declared meanwhile.
func TestAStewardWhoWaitsChangesWhatIsThere(t *testing.T) {
	for change, is := range map[string]string{
		`SELECT dp_set_categories($1, '{"region": [1, 2, 3]}')`:  `categories = '{"region": ["1", "2", "3"]}'`,
		`SELECT dp_set_scales($1, '{"age": 7}')`:                 `scales -> 'age' = '7'`,
		`SELECT dp_set_labels($1, '{"insured": [true, false]}')`: `labels -> 'insured' = '[1, 0]'`,
		`SELECT dp_unregister($1)`:                               ``,
	} {
		w := newWorld(t, 1, 0)
		first, second := w.connect(w.system.StewardURL()), w.connect(w.system.StewardURL())
		w.exec(first, `BEGIN`)
		w.exec(first, `SELECT dp_unregister($1)`, w.dataset)
		w.exec(first, `SELECT dp_register($1, $2::text::regclass, 'amount', '{age,region,insured}', 1)`, w.dataset, "public."+w.dataset)
		ended := make(chan error, 1)
		go func() {
			_, err := second.Exec(context.Background(), change, w.dataset)
			ended <- err
		}()
		w.eventually("it waits", func() bool {
			return one[bool](w, w.super, `SELECT EXISTS (SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query = $1)`, change)
		})
		w.exec(first, `COMMIT`)
		if err := <-ended; err != nil {
			t.Errorf("%s: %v", change, err)
			continue
		}
		open := one[int](w, w.super, `SELECT count(*) FROM dp_int.dataset WHERE name = $1 AND unregistered_at IS NULL`, w.dataset)
		if is == "" {
			if open != 0 {
				t.Errorf("%s: it is still registered", change)
			}
		} else if !one[bool](w, w.super, `SELECT `+is+` FROM dp_int.dataset WHERE name = $1 AND unregistered_at IS NULL`, w.dataset) {
			t.Errorf("%s: not what it says", change)
		}
		if wrong := w.verify(); len(wrong) > 0 {
			t.Errorf("%s: %v", change, wrong)
		}
	}
}

// A steward who lowers delta does not make a description another request, which would be charged again.
func TestALoweredDeltaKeepsDescriptions(t *testing.T) {
	w := newWorld(t, 4, 1e-6)
	ask := `SELECT * FROM dp_describe($1, 0.5)`
	w.exec(w.analyst, ask, w.dataset)
	w.exec(w.steward, `SELECT dp_set_budget($1, 4, 1e-7)`, w.dataset)
	entries := w.entries()
	w.exec(w.analyst, ask, w.dataset)
	if w.entries() != entries {
		t.Error("it was charged again")
	}
}

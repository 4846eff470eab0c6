package tests

import (
	"context"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
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

// Once a steward has lowered delta, a request without one still has its default, whichever way it is asked, and any other
// delta above the budget's is refused.
func TestALoweredDeltaRefusesNoDefault(t *testing.T) {
	w := newWorld(t, 4, 1e-6)
	w.exec(w.steward, `SELECT dp_set_budget($1, 4, 1e-9)`, w.dataset)
	for _, sql := range []string{
		`SELECT count(*) FROM dp_describe($1, 0.1)`, `SELECT count(*) FROM dp_scales($1, 0.1)`, `SELECT count(*) FROM dp_moments($1, 0.1)`, `SELECT count(*) FROM dp_linear_regress($1, 0.1)`,
		`SELECT count(*) FROM dp_score(dp_last_release($1), 0.1)`,
	} {
		w.exec(w.analyst, sql, w.dataset)
	}
	for _, model := range []string{"describe", "scales", "moments", "linear", "logistic"} {
		target := map[string]any{"linear": "amount", "logistic": "insured"}[model]
		features := map[string]any{"linear": "{age}", "logistic": "{age}"}[model]
		if told := one[string](w, w.analyst, `SELECT coalesce(string_agg(value, '; '), '') FROM dp_explain($1, $2, 0.11, NULL, $3::name, $4::name[]) WHERE property = 'possible' AND value NOT LIKE 'yes%'`,
			model, w.dataset, target, features); told != "" {
			t.Errorf("%s: %s", model, told)
		}
		_, err := w.analyst.Exec(t.Context(), `SELECT dp_submit($1, $2, 0.12, 5e-7, $3::name, $4::name[])`, model, w.dataset, target, features)
		w.wantError(err, "22023", "is above that of data set")
	}
}

// Answers of a former registration are not given again, and nobody is told that they are.
func TestAnotherRegistrationPromisesNoKeptAnswer(t *testing.T) {
	w := newWorld(t, 1, 1e-6)
	moments, fit := `SELECT count(*) FROM dp_moments($1, 0.4)`, `SELECT count(*) FROM dp_linear_regress($1, 0.5)`
	w.exec(w.analyst, moments, w.dataset)
	w.exec(w.analyst, fit, w.dataset)
	job := one[string](w, w.analyst, `SELECT id::text FROM dp.jobs WHERE dataset = $1 AND model = 'linear'`, w.dataset)
	_, err := w.analyst.Exec(t.Context(), `SELECT count(*) FROM dp_linear_regress($1, 0.95)`, w.dataset)
	w.wantError(err, "DP002", "Requests answered before can still be repeated at no cost.")

	w.exec(w.steward, `SELECT dp_unregister($1)`, w.dataset)
	steward, heard := w.listeningTo(w.system.StewardURL(), func(n *pgconn.Notice) string { return n.Hint })
	w.exec(steward, `SELECT dp_register($1, $2::text::regclass, 'amount', '{age,region,insured}', 0.5, 1e-6)`, w.dataset, "public."+w.dataset)
	if said := strings.Join(heard(), " "); !strings.Contains(said, "are not given again") || strings.Contains(said, "still given again") {
		t.Errorf("told %q", said)
	}
	_, err = w.analyst.Exec(t.Context(), `SELECT * FROM dp_result($1)`, job)
	if err != nil {
		t.Errorf("before dp_revoke: %v", err)
	}
	w.exec(w.steward, `SELECT dp_grant($1, $2)`, w.dataset, w.person)
	_, err = w.analyst.Exec(t.Context(), fit, w.dataset)
	w.wantError(err, "DP002", "Requests answered since its last registration can still be repeated at no cost.")
	_, err = w.analyst.Exec(t.Context(), `SELECT count(*) FROM dp_linear_from_moments($1)`, w.dataset)
	w.wantError(err, "55000", "Those of a former registration of the name are not used.")
	w.exec(w.steward, `SELECT dp_revoke($1, $2)`, w.dataset, w.person)
	w.exec(w.steward, `SELECT dp_grant($1, $2)`, w.dataset, w.person)
	_, err = w.analyst.Exec(t.Context(), `SELECT * FROM dp_result($1)`, job)
	w.wantError(err, "42501", "Its registration has ended")
}

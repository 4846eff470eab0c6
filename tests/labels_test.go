package tests

import (
	"context"
	"fmt"
	"strings"
	"testing"
)

// labelled gives the data set a label in several codes, of which none is declared.
func (w *world) labelled() {
	w.Helper()
	w.regressable("zcdp", 100, 1e-5)
	w.exec(w.super, fmt.Sprintf(`ALTER TABLE %[1]q ADD signed smallint, ADD coded numeric, ADD truth boolean;
		UPDATE %[1]q SET signed = 2 * label - 1, coded = label + 1, truth = label = 1`, w.dataset))
	w.exec(w.steward, `SELECT dp_unregister($1)`, w.dataset)
	w.exec(w.steward, `SELECT dp_register($1, $2::text::regclass, 'amount', '{age,region,label,signed,coded,truth}', 100, 1e-5,
		scales => '{"amount": 10000, "age": 50, "region": 3}')`, w.dataset, "public."+w.dataset)
	w.exec(w.steward, `SELECT dp_grant($1, $2)`, w.dataset, w.person)
}

const (
	arguments = `$1, 1, target => $2, features => '{age,region}', options => $3)`
	logistic  = `SELECT * FROM dp_logistic_regress(` + arguments
)

// A target that is not boolean is refused by every way to ask, unless both labels are named.
func TestLabelsMustBeNamed(t *testing.T) {
	w := newWorld(t, 1, 0)
	w.labelled()
	for _, target := range []string{"label", "signed", "coded", "amount"} {
		for _, options := range []string{`{}`, `{"positive_label": 1}`, `{"negative_label": -1}`, `{"fresh": true}`} {
			for _, call := range []string{`SELECT * FROM dp_logistic_regress(`, `SELECT * FROM dp_explain('logistic', `, `SELECT dp_submit('logistic', `} {
				_, err := w.analyst.Exec(context.Background(), call+arguments, w.dataset, target, options)
				w.wantError(err, "22023", `the labels of target "`+target+`" are not known`)
				w.wantError(err, "22023", "No privacy budget was spent")
			}
		}
	}
	for _, options := range []string{`{"negative_label": 1, "positive_label": 2}`, `{"positive_label": 5}`, `{"negative_label": "no"}`} {
		_, err := w.analyst.Exec(context.Background(), logistic, w.dataset, "truth", options)
		w.wantError(err, "22023", "labels of boolean column \"truth\" must be false and true")
		w.wantError(err, "22023", "No privacy budget was spent")
	}
	_, err := w.steward.Exec(context.Background(), `SELECT dp_set_labels($1, '{"truth": [1, 2]}')`, w.dataset)
	w.wantError(err, "22023", "must be false and true")
	w.exec(w.steward, `SELECT dp_set_labels($1, '{"truth": [false, true]}')`, w.dataset)
	if got := one[string](w, w.analyst, `SELECT labels ->> 'truth' FROM dp.datasets WHERE dataset = $1`, w.dataset); got != "[0, 1]" {
		t.Errorf("dp.datasets shows %s", got)
	}
	w.exec(w.steward, `SELECT dp_set_labels($1, '{}')`, w.dataset)
	if w.entries() != 0 {
		t.Errorf("%d entries", w.entries())
	}
	for target, options := range map[string]string{"truth": `{}`, "signed": `{"negative_label": -1, "positive_label": 1}`} {
		w.mustRegress(w.analyst, logistic, w.dataset, target, options)
	}
	for _, options := range []string{`{"negative_label": false, "positive_label": true}`, `{"negative_label": "false"}`} { // the same request
		w.mustRegress(w.analyst, logistic, w.dataset, "truth", options)
	}
	if w.entries() != 2 {
		t.Errorf("%d entries", w.entries())
	}
	// The hint is a statement that helps, and keeps what is declared for other columns.
	w.exec(w.steward, `SELECT dp_set_labels($1, '{"coded": [1, 2]}')`, w.dataset)
	_, err = w.analyst.Exec(context.Background(), logistic, w.dataset, "label", `{}`)
	said := hint(err)
	call := said[strings.Index(said, "dp_set_labels("):]
	w.exec(w.steward, `SELECT `+call[:strings.Index(call, ")")+1])
	for _, target := range []string{"label", "coded"} {
		w.mustRegress(w.analyst, logistic, w.dataset, target, `{}`)
	}
	steward, heard := w.hearingHints("steward")
	w.exec(steward, `SELECT dp_set_labels($1, '{"label": [0, 1]}')`, w.dataset)
	if said := strings.Join(heard(), "\n"); !strings.Contains(said, "labels are no longer declared for coded") || !strings.Contains(said, `{"coded": [1, 2], "label": [0, 1]}`) {
		t.Errorf("the steward hears %q", said)
	}
}

// A declared label is what both options say: the same request, whose kept answer stays when
// the declaration goes.
func TestDeclaredLabelsAreTheOptions(t *testing.T) {
	w := newWorld(t, 1, 0)
	w.labelled()
	w.exec(w.steward, `SELECT dp_set_labels($1, '{"label": [0, 1], "signed": [-1, 1.0], "coded": [1, 2]}')`, w.dataset)
	if got := one[string](w, w.analyst, `SELECT labels ->> 'signed' FROM dp.datasets WHERE dataset = $1`, w.dataset); got != "[-1, 1.0]" {
		t.Errorf("dp.datasets shows %s", got)
	}
	entries := int64(0)
	for target, options := range map[string]string{"label": `{"negative_label": 0, "positive_label": 1}`, "signed": `{"negative_label": -1, "positive_label": 1}`, "coded": `{"negative_label": 1, "positive_label": 2}`} {
		first := w.mustRegress(w.analyst, logistic, w.dataset, target, `{}`)
		second := w.mustRegress(w.analyst, logistic, w.dataset, target, options)
		if entries++; w.entries() != entries || first[1] != second[1] || first[1].Coef < 0.05 {
			t.Errorf("%s: %d entries; %v and %v", target, w.entries(), first, second)
		}
	}
	flipped := w.mustRegress(w.analyst, logistic, w.dataset, "coded", `{"negative_label": 2, "positive_label": 1}`) // options stand above a declaration
	for options, warns := range map[string]bool{`{}`: false, `{"negative_label": 2, "positive_label": 1}`: false, `{"negative_label": 0, "positive_label": 1}`: true} {
		said := w.explain(w.analyst, `SELECT * FROM dp_explain('logistic', $1, 1, target => 'coded', options => $2)`, w.dataset, options)
		if strings.Contains(said["warning"], "this request takes 0 and 1 as the labels of coded, which were declared to be 1 and 2") != warns {
			t.Errorf("labels %s beside declared ones: %q", options, said["warning"])
		}
	}
	if entries++; w.entries() != entries || flipped[1].Coef >= 0 {
		t.Errorf("%v in %d entries", flipped, w.entries())
	}
	w.exec(w.steward, `SELECT dp_set_labels($1, '{}')`, w.dataset)
	w.mustRegress(w.analyst, logistic, w.dataset, "label", `{}`) // as it was asked before labels had to be named
	if w.entries() != entries {
		t.Error("a kept answer was charged again")
	}
	_, err := w.analyst.Exec(context.Background(), logistic, w.dataset, "label", `{"fresh": true}`)
	w.wantError(err, "22023", "labels")
}

func TestBadLabelsAreExplained(t *testing.T) {
	w := newWorld(t, 1, 0)
	for _, c := range []struct{ labels, code, says string }{
		{`[0, 1]`, "22023", "JSON object"},
		{`{"note": [0, 1]}`, "42703", "neither target nor feature"},
		{`{"age": [0]}`, "22023", "two different numbers"},
		{`{"age": [1, 1.0]}`, "22023", "two different numbers"},
		{`{"age": ["0", "1"]}`, "22023", "two different numbers"},
		{`{"age": [0, 1e301]}`, "22023", "two different numbers"},
		{`{"age": 1}`, "22023", "two different numbers"},
	} {
		_, err := w.steward.Exec(context.Background(), `SELECT dp_set_labels($1, $2)`, w.dataset, c.labels)
		w.wantError(err, c.code, c.says)
		_, err = w.steward.Exec(context.Background(), `SELECT dp_register('other', $1::text::regclass, 'amount', '{age}', 1, labels => $2)`, "public."+w.dataset, c.labels)
		w.wantError(err, c.code, c.says)
	}
	_, err := w.steward.Exec(context.Background(), `SELECT dp_set_labels('nobody', '{}')`)
	w.wantError(err, "22023", "not registered")
	_, err = w.analyst.Exec(context.Background(), `SELECT dp_set_labels($1, '{}')`, w.dataset)
	w.wantError(err, "42501", "dp_set_labels")
}

package tests

import (
	"context"
	"fmt"
	"strings"
	"testing"
)

// Where other people have taken over the name of a table, those of before are asked for by every unknown table, as
// those of a table that is gone; and the account, by its number, where its name is that of two.
func TestANewPopulationForgetsNobody(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]string{
		"dropped":  `#CREATE TABLE public.kept AS TABLE public.%[1]s; #DROP TABLE public.%[1]s; #CREATE TABLE public.%[1]s AS TABLE public.kept`,
		"emptied":  `#CREATE TABLE public.kept AS TABLE public.%[1]s; #TRUNCATE public.%[1]s; #INSERT INTO public.%[1]s TABLE public.kept`,
		"replaced": `#CREATE TABLE public.kept AS TABLE public.%[1]s; #ALTER TABLE public.%[1]s RENAME TO former; #CREATE TABLE public.%[1]s AS TABLE public.kept; #SELECT dp_int.follow_renames(); #DROP TABLE public.former`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := servedWorld(t)
			w.script(fmt.Sprintf(change, w.dataset))
			if name != "emptied" {
				w.wantError(w.register("kept", "{}"), "22023", "may hold the people of")
			}
			w.exec(w.steward, `SELECT dp_unregister($1)`, w.dataset)
			if err := w.register(w.dataset, `{"new_population": "the people of 2026"}`); err != nil {
				t.Fatal(err, hint(err))
			}
			if spent := w.spent(); spent != 0 {
				t.Errorf("%g is spent of new people", spent)
			}
			err := w.register("kept", "{}")
			w.wantError(err, "22023", fmt.Sprintf("may hold the people of an earlier public.%s, ", w.dataset))
			w.wantError(err, "22023", fmt.Sprintf(`people of "%s" (account 1)`, w.dataset))
			err = w.register("kept", fmt.Sprintf(`{"account": %q}`, w.dataset))
			w.wantError(err, "22023", "is that of two accounts")
			w.wantError(err, "22023", `options {"account": 1}`)
			w.wantError(w.register("kept", `{"account": 77}`), "22023", "there is no account 77")
			w.wantError(w.register("kept", `{"account": 1.5}`), "22023", "there is no account 1.5")
			w.wantError(w.register("kept", `{"account": true}`), "22023", `option "account" must be a string or number`)
			w.mustShare("kept", `{"account": 1}`)
			if wrong := w.verify(); len(wrong) > 0 {
				t.Error(wrong)
			}
			w.exec(w.super, `CREATE TABLE public.third (amount float8, age float8)`)
			w.wantError(w.register("third", "{}"), "22023", "may hold the people of") // a copy may have a copy
		})
	}
}

// Of many tables that are gone a refusal names the first few.
func TestARefusalNamesFewTablesThatAreGone(t *testing.T) {
	t.Parallel()
	w := servedWorld(t)
	for i := range 8 {
		name := fmt.Sprintf("gone%d", i)
		w.exec(w.super, fmt.Sprintf(`CREATE TABLE public.%s AS TABLE public.%s; GRANT SELECT ON public.%[1]s TO dp_sidecar`, name, w.dataset))
		if err := w.register(name, `{"new_population": "others"}`); err != nil {
			t.Fatal(err, hint(err))
		}
		w.exec(w.steward, `SELECT dp_grant($1, $2)`, name, w.person)
		w.mustRegress(w.analyst, ask, name, 0.5)
	}
	for i := range 8 {
		w.exec(w.super, fmt.Sprintf(`DROP TABLE public.gone%d`, i))
	}
	w.exec(w.super, `CREATE TABLE public.unknown (amount float8, age float8); GRANT SELECT ON public.unknown TO dp_sidecar`)
	err := w.register("unknown", "{}")
	w.wantError(err, "22023", "may hold the people of public.gone0, public.gone1, public.gone2, public.gone3, public.gone4 and 3 more, which")
	if !strings.Contains(hint(err), `"gone4" (account `) || strings.Contains(hint(err), "gone5") || !strings.Contains(hint(err), "and 3 more, name") {
		t.Error(hint(err))
	}
}

// An account that was never charged may be left for the right one.
func TestAForgottenAccountIsCorrected(t *testing.T) {
	t.Parallel()
	w := servedWorld(t)
	w.exec(w.super, fmt.Sprintf(`CREATE TABLE public.copy AS TABLE public.%[1]s; CREATE TABLE public.used AS TABLE public.%[1]s`, w.dataset))
	account := fmt.Sprintf(`{"account": %q}`, w.dataset)
	for _, first := range []string{`{"new_population": "in error"}`, `{}`} {
		if err := w.register("copy", first); err != nil {
			t.Fatal(err, hint(err))
		}
		w.exec(w.steward, `SELECT dp_register('other', 'public.copy', 'amount', '{age}', 1)`)
		w.exec(w.steward, `SELECT dp_unregister('copy')`)
		w.wantError(w.register("copy", account), "22023", `for "other": an account that was never charged`) // its people would have two budgets
		w.exec(w.steward, `SELECT dp_unregister('other')`)
		w.mustShare("copy", account)
		w.exec(w.steward, `SELECT dp_unregister('copy')`)
		w.mustShare("copy", `{}`) // for ever after
		w.exec(w.steward, `SELECT dp_unregister('copy')`)
		w.exec(w.super, fmt.Sprintf(`DROP TABLE public.copy; CREATE TABLE public.copy2 AS TABLE public.%[1]s; ALTER TABLE public.copy2 RENAME TO copy`, w.dataset))
		w.exec(w.super, `DELETE FROM dp_int.account_relation WHERE relation = 'public.copy'; UPDATE dp_int.dataset SET relation_name = 'before' WHERE relation_name = 'copy'`) // once more from the beginning
	}
	if err := w.register("used", `{}`); err != nil {
		t.Fatal(err)
	}
	w.exec(w.steward, `SELECT dp_grant('used', $1)`, w.person)
	w.mustRegress(w.analyst, ask, "used", 0.5)
	w.exec(w.steward, `SELECT dp_unregister('used')`)
	err := w.register("used", account)
	w.wantError(err, "22023", "belong to different accounts")
	if wrong := w.verify(); len(wrong) > 0 {
		t.Error(wrong)
	}
}

// A statement whose reason is blank is none.
func TestReasonsAreNotBlank(t *testing.T) {
	w := newWorld(t, 1, 1e-6)
	for _, call := range []string{
		`SELECT dp_register('blank', $1::text::regclass, 'amount', '{age}', 1, options => '{"new_population": ""}')`,
		`SELECT dp_register('blank', $1::text::regclass, 'amount', '{age}', 1, options => '{"new_population": " \t "}')`,
		`SELECT dp_register('blank', $1::text::regclass, 'amount', '{age}', 1, options => '{"rows_stay": " "}')`,
		`SELECT dp_register('blank', $1::text::regclass, 'amount', '{age}', 1, 1e-6, unit => 'region', block => 'day', block_width => '1 day', block_origin => '2026-01-01', options => '{"one_block_a_person": " "}')`,
		`SELECT dp_register('blank', $1::text::regclass, 'amount', '{age}', 1, 1e-6, block => 'day', block_width => '1 day', block_origin => '2026-01-01', block_is_fixed => '  ')`,
		`SELECT dp_register('blank', $1::text::regclass, 'amount', '{age}', 1, options => '{"account": " "}')`,
	} {
		_, err := w.steward.Exec(context.Background(), call, "public."+w.dataset)
		if strings.Contains(call, `"account"`) {
			w.wantError(err, "22023", `data set " " is not registered`)
			continue
		}
		w.wantError(err, "22023", "is blank")
		if hint(err) == "" {
			t.Error("no hint", call)
		}
	}
}

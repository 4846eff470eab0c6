package tests

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"dpsidecar/internal/install"
	"dpsidecar/internal/ledger"
	"dpsidecar/internal/privacy"
	"dpsidecar/internal/version"
	"dpsidecar/sql"
)

// Every column of the ledger is in the hash, the database's and ours, and every
// total, release and job is held against it: whoever changes one, even as the
// owner of everything, is found out.
func TestVerifyNoticesEveryChange(t *testing.T) {
	t.Parallel()
	w := lonelyWorld(t, 10, 0) // whose ledgers are short: each change is verified by reading all
	w.serve()
	w.exec(w.steward, `SELECT dp_grant($1, $2, 5)`, w.dataset, w.person)
	w.mustRegress(w.analyst, ask, w.dataset, 0.5)
	w.mustRegress(w.analyst, ask, w.dataset, 0.25)
	ctx := context.Background()
	if wrong := w.verify(); len(wrong) > 0 {
		t.Fatal(wrong)
	}
	entry := fmt.Sprintf("(SELECT max(id) - 1 FROM dp_int.ledger WHERE dataset = '%s')", w.dataset)
	account := fmt.Sprintf("(SELECT account FROM dp_int.dataset WHERE name = '%s')", w.dataset)
	change := map[string]string{
		"a total":                    `UPDATE dp_int.account SET spent = 0 WHERE id = ` + account,
		"what is proven":             `UPDATE dp_int.account SET proven_epsilon = 0 WHERE id = ` + account,
		"a sum":                      `UPDATE dp_int.account SET spent_epsilon = 0 WHERE id = ` + account,
		"the rest":                   `UPDATE dp_int.account SET rest = 1 WHERE id = ` + account,
		"its rho":                    `UPDATE dp_int.account SET rest_rho = 1 WHERE id = ` + account,
		"a caller's sum":             `UPDATE dp_int.caller_total SET spent_epsilon = 0 WHERE account = ` + account,
		"a caller's total":           `UPDATE dp_int.caller_total SET spent = 0 WHERE account = ` + account,
		"the delta spent":            `UPDATE dp_int.account SET spent_delta = 1e-9 WHERE id = ` + account,
		"what a caller's sums prove": `UPDATE dp_int.caller_total SET proven_epsilon = 0 WHERE account = ` + account,
		"a personal limit":           `UPDATE dp_int.dataset_grant SET epsilon = 9, cap = 9 WHERE epsilon = 5`,
		"no personal limit":          `UPDATE dp_int.dataset_grant SET epsilon = NULL, cap = NULL WHERE epsilon = 5`,
		"its cap":                    `UPDATE dp_int.dataset_grant SET cap = 9 WHERE epsilon = 5`,
		"the budget":                 `UPDATE dp_int.account SET epsilon = 11 WHERE id = ` + account,
		"the cap":                    `UPDATE dp_int.account SET cap = 11 WHERE id = ` + account,
		"another account": `INSERT INTO dp_int.account (accounting, epsilon, delta, cap) SELECT accounting, epsilon, delta, cap FROM dp_int.account WHERE id = ` + account + `;
			UPDATE dp_int.account_relation SET account = (SELECT max(id) FROM dp_int.account) WHERE account = ` + account + `;
			SELECT dp_int.ledger_budget(n.id, d.name, 'x', jsonb_build_object('budget', dp_int.registered_budget(d) || dp_int.describe_budget(n, n.epsilon, n.delta))) FROM dp_int.account n, dp_int.dataset d WHERE n.id = (SELECT max(id) FROM dp_int.account) AND d.account = ` + account + `;
			UPDATE dp_int.dataset SET account = (SELECT max(id) FROM dp_int.account) WHERE account = ` + account,
		"a second account":  `INSERT INTO dp_int.account_relation SELECT account + 1000, relid, relation FROM dp_int.account_relation WHERE account = ` + account,
		"the head":          `UPDATE dp_int.account SET head = '\x00' WHERE id = ` + account,
		"a charge's job":    `UPDATE dp_int.job SET charge = NULL, state = 'failed', release = NULL WHERE id = (SELECT job FROM dp_int.ledger WHERE id = ` + entry + `)`,
		"a release":         `DELETE FROM dp_int.coefficient WHERE release IN (SELECT id FROM dp_int.release WHERE charge = ` + entry + `); UPDATE dp_int.job SET release = NULL, state = 'failed' WHERE charge = ` + entry + `; DELETE FROM dp_int.release WHERE charge = ` + entry,
		"the last entry":    `UPDATE dp_int.release SET charge = ` + entry + ` - 1 WHERE charge = ` + entry + ` + 1; UPDATE dp_int.job SET charge = NULL WHERE charge = ` + entry + ` + 1; DELETE FROM dp_int.ledger WHERE id = ` + entry + ` + 1`,
		"a forgotten table": `DELETE FROM dp_int.account_relation WHERE account = ` + account + `; UPDATE dp_int.dataset SET relid = 0, relation_name = 'gone', unregistered_at = now()`,
		"another table":     `UPDATE dp_int.dataset SET relation_name = 'another'`,
		"a double release":  `UPDATE dp_int.release SET charge = ` + entry + ` - 1 WHERE charge = ` + entry,
	}
	for column, value := range map[string]string{
		"seq": "99", "kind": "'budget'", "at": "at + interval '1 us'", "dataset": "'x'", "caller": "'x'", "job": "gen_random_uuid()", "event": "'{}'",
		"epsilon": "epsilon / 2", "rho": "rho / 2", "renyi": "renyi[1:100] || renyi[1:26]", "renyi_grid": "2", "delta": "1e-9", "arithmetic": "'float64-grid'", "previous": `'\x00'`, "hash": `'\x00'`,
	} {
		change["column "+column] = fmt.Sprintf(`UPDATE dp_int.ledger SET %s = %s WHERE id = %s`, column, value, entry)
	}
	for what, sql := range change {
		// The owner may switch off what protects the tables; the steward reads in
		// the same transaction what was done.
		script := `BEGIN; SET LOCAL session_replication_role = replica; ` +
			`ALTER TABLE dp_int.ledger DROP CONSTRAINT ledger_sign, DROP CONSTRAINT ledger_job, DROP CONSTRAINT ledger_curve; ` + sql
		if _, err := w.super.PgConn().Exec(ctx, script).ReadAll(); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		findings, err := ledger.Verify(ctx, w.super)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		noticed := map[bool]int{}
		for _, f := range findings {
			noticed[f.OK]++
		}
		if noticed[false] == 0 {
			t.Errorf("%s: changed and not noticed", what)
		}
		if strings.HasPrefix(what, "column ") && findings[len(findings)-1].OK {
			t.Errorf("%s: the chain computed outside the database does not notice", what)
		}
		w.exec(w.super, "ROLLBACK")
	}
	if wrong := w.verify(); len(wrong) > 0 {
		t.Fatal(wrong)
	}
	_, err := w.analyst.Exec(ctx, `SELECT * FROM dp_verify()`)
	w.wantError(err, "42501", "")
	for _, heads := range []string{`{}`, `"x"`, `[7]`, `[{"account": 1}]`, `[{"account": 1, "entry": 1}]`, `[{"account": 1, "entry": "1", "head": "00"}]`, `[{"account": null, "entry": 1, "head": "00"}]`,
		`[{"account": 1, "entry": 1e99, "head": "00"}]`, `[{"account": 1.5, "entry": 1, "head": "00"}]`, `[{"account": 1.0, "entry": 1, "head": "00"}]`, `[{"account": 1, "entry": 0, "head": "00"}]`} {
		_, err := w.steward.Exec(ctx, `SELECT * FROM dp_verify($1::jsonb)`, heads)
		w.wantError(err, "22023", "head")
	}
}

// A release is shown to whoever its data set is granted to, and answers again to whoever asks what its hash is of: both are
// those of its job, and of every job that it answered without a charge.
func TestVerifyHoldsReleasesAgainstJobs(t *testing.T) {
	t.Parallel()
	w := lonelyWorld(t, 10, 0)
	w.serve()
	w.exec(w.steward, `SELECT dp_register('another', $1::text::regclass, 'amount', '{age,region,insured}', 10)`, "public."+w.dataset) // of the same people
	w.mustRegress(w.analyst, ask, w.dataset, 0.5)
	w.mustRegress(w.analyst, ask, w.dataset, 0.25)
	again := one[string](w, w.analyst, `SELECT dp_submit('l1', $1, 0.5)::text`, w.dataset)
	w.eventually("the kept release answers", func() bool { return w.jobState(again) == "done" })
	if wrong := w.verify(); len(wrong) > 0 {
		t.Fatal(wrong)
	}
	const release = ` WHERE id = (SELECT id FROM dp_int.release WHERE eps = 0.5)`
	const job = ` WHERE id = (SELECT job FROM dp_int.release WHERE eps = 0.5)`
	follower := ` WHERE id = '` + again + `'`
	const another, other = `(SELECT id FROM dp_int.dataset WHERE name = 'another')`, `(SELECT id FROM dp_int.release WHERE eps = 0.25)`
	for what, change := range map[string]string{
		"a release's data set":           `release SET dataset = ` + another + release,
		"a release's request":            `release SET request_hash = o.request_hash FROM (SELECT request_hash FROM dp_int.release WHERE eps = 0.25) AS o` + release,
		"its eps":                        `release SET eps = 9` + release,
		"its delta":                      `release SET delta = 1e-9` + release,
		"its model":                      `release SET model = 'linear'` + release,
		"its caller":                     `release SET principal = p.id FROM (SELECT dp_int.admit_principal('dp_owner') AS id) AS p WHERE eps = 0.5`,
		"a job's data set":               `job SET dataset = ` + another + job,
		"a job's request":                `job SET request_hash = '\x00'` + job,
		"a job's answer":                 `job SET release = ` + other + job,
		"the answer that was kept":       `job SET release = ` + other + follower,
		"the request that it answered":   `job SET request_hash = '\x00'` + follower,
		"the data set that was answered": `job SET dataset = ` + another + follower,
	} {
		w.exec(w.super, "BEGIN")
		w.exec(w.super, "UPDATE dp_int."+change)
		if wrong := w.verify(); len(wrong) != 1 || !strings.HasPrefix(wrong[0], "every release has the data set and the request of its job") {
			t.Errorf("%s: %q", what, wrong)
		}
		w.exec(w.super, "ROLLBACK")
	}
}

// verify returns what is wrong, as the superuser sees it in its transaction.
func (w *world) verify() (wrong []string) {
	w.Helper()
	findings, err := ledger.Verify(context.Background(), w.super)
	if err != nil {
		w.Fatal(err)
	}
	for _, f := range findings {
		if !f.OK {
			wrong = append(wrong, f.Item+": "+f.Detail)
		}
	}
	return wrong
}

// A sidecar that charges less than its event costs is found out by the event.
func TestVerifyNoticesAPriceTooLow(t *testing.T) {
	t.Parallel()
	w := lonelyWorld(t, 9, 1e-6)
	w.exec(w.analyst, `SELECT dp_submit('l1', $1, 0.5)`, w.dataset)
	for _, c := range []struct {
		costs string
		ok    bool
	}{
		{`0.5, 0.03125, 0, '{}'`, true}, {`0.6, 0.04, 0, '{}'`, true}, {`NULL, 0.03125, 0, '{}'`, true},
		{`0.4, 0.03125, 0, '{}'`, false}, {`0.5, 0.03, 0, '{}'`, false}, {`0.5, 0.03125, 0, '{}', array_fill(0.001, '{126}'), 1`, false},
	} {
		w.exec(w.super, `BEGIN`)
		claim := one[string](w, w.super, `SELECT dp_int.job_claim(gen_random_uuid(), '30 s', NULL)::text`)
		w.exec(w.super, `SELECT dp_int.job_charge((c ->> 'id')::uuid, (c ->> 'token')::uuid, 1000, '{"bounded_range": {"epsilon": 0.5}}', `+c.costs+`) FROM (SELECT $1::jsonb AS c) AS claim`, claim)
		wrong := w.verify()
		if ok := len(wrong) == 0; ok != c.ok || !ok && !strings.HasPrefix(wrong[0], "every charge costs at least") {
			t.Errorf("%s: %v", c.costs, wrong)
		}
		w.exec(w.super, `ROLLBACK`)
	}
}

// A refund that nothing but its author asked for is noticed, inside the database and outside: one that gives back another
// sum, or another charge's, or the charge of a job that has read.
func TestVerifyNoticesAForgedRefund(t *testing.T) {
	t.Parallel()
	w := lonelyWorld(t, 1, 0)
	w.registerAgain("zcdp", 1, 1e-6)
	other := *w
	other.dataset = w.sixFeatures(1, 1e-6)
	other.mustCharge(privacy.ZCDP{Rho: .01})
	w.mustCharge(privacy.ZCDP{Rho: .012})
	charged := w.mustCharge(privacy.ZCDP{Rho: .01})
	const refund = `DO $$ DECLARE e dp_int.ledger; BEGIN
		SELECT * INTO e FROM dp_int.ledger WHERE kind = 'charge' ORDER BY id DESC LIMIT 1;
		e.kind := 'refund'; e.refunds := e.id; e.rho := -e.rho; e.delta := -e.delta; e.renyi := ARRAY(SELECT -r FROM unnest(e.renyi) WITH ORDINALITY AS c(r, o) ORDER BY o);
		%s;
		UPDATE dp_int.job SET charge = NULL, row_count = NULL, plan = NULL, state = 'claimed' WHERE id = e.job AND state = 'charged';
		PERFORM dp_int.ledger_append(e); END $$`
	read := fmt.Sprintf(`PERFORM dp_int.job_read('%s', '%s')`, charged.Job, charged.Token)
	const inside, outside = "every refund gives back all of its own charge, under which nothing had run", "every refund gives back all of its own charge, computed outside"
	for what, forged := range map[string]struct {
		change  string
		noticed []string
	}{
		"what it was":        {`e.rho := e.rho`, nil},
		"more than it was":   {`e.rho := e.rho * 2`, []string{inside, outside}},
		"as another":         {`e.event := '{"zcdp": {"rho": 1}}'`, []string{inside, outside}},
		"another curve":      {`e.renyi := ARRAY(SELECT 2 * r FROM unnest(e.renyi) WITH ORDINALITY AS c(r, o) ORDER BY o)`, []string{inside, outside}},
		"a job's that reads": {read, []string{inside}},
		"another account's":  {`e.refunds := (SELECT min(id) FROM dp_int.ledger WHERE kind = 'charge')`, []string{inside, outside}},
	} {
		w.exec(w.super, "BEGIN")
		w.exec(w.super, fmt.Sprintf(refund, forged.change))
		var missed []string
		wrong := w.verify()
		for _, item := range forged.noticed {
			if !slices.ContainsFunc(wrong, func(s string) bool { return strings.HasPrefix(s, item) }) {
				missed = append(missed, item)
			}
		}
		if len(missed) > 0 || forged.noticed == nil && len(wrong) > 0 {
			t.Errorf("%s: %q is not noticed; %q is", what, missed, wrong)
		}
		w.exec(w.super, "ROLLBACK")
	}
}

// A charge that nothing but the filter would have refused is noticed, under every
// accounting, even once it has been given back.
func TestVerifyNoticesAnOverdraft(t *testing.T) {
	t.Parallel()
	for accounting, delta := range map[string]float64{"pure": 0, "zcdp": 1e-6, "rdp": 1e-6} {
		w := lonelyWorld(t, 1, 0)
		w.registerAgain(accounting, 1, delta)
		w.mustCharge(privacy.Pure{Epsilon: .1})
		for _, forged := range []string{
			`jsonb_build_object('epsilon', 1.1, 'rho', 1, 'renyi', (SELECT jsonb_agg(2) FROM unnest(l.renyi)))`,
			`jsonb_build_object('delta', 1e-3)`,
		} {
			w.exec(w.super, "BEGIN")
			w.exec(w.super, `SELECT dp_int.ledger_append(jsonb_populate_record(l, `+forged+`)) FROM dp_int.ledger l WHERE kind = 'charge' AND dataset = $1`, w.dataset)
			w.exec(w.super, `SELECT dp_int.ledger_refund(max(id)) FROM dp_int.ledger WHERE kind = 'charge'`)
			if wrong := w.verify(); len(wrong) != 2 || !strings.Contains(wrong[0], "no charge went beyond the budget") || !strings.Contains(wrong[1], "computed outside") {
				t.Errorf("%s, %s: %q", accounting, forged, wrong)
			}
			w.exec(w.super, "ROLLBACK")
		}
	}
}

// Divergences count at the order that the ledger names. Whoever writes another into the account, with the sums of that, spends
// beyond the budget: that the account is not what its ledger says is noticed at once, and the overdraft even when it is again.
func TestVerifyNoticesAnotherOrder(t *testing.T) {
	t.Parallel()
	w := lonelyWorld(t, 4, 0)
	w.registerAgain("rdp", 4, 1e-6)
	charged := 0
	for ; ; charged++ {
		if _, err := w.charge(privacy.Gaussian{NoiseMultiplier: 2}); err != nil {
			break
		}
	}
	account := fmt.Sprint(one[int64](w, w.super, `SELECT account FROM dp_int.dataset WHERE name = $1 AND unregistered_at IS NULL`, w.dataset))
	order := one[string](w, w.super, `SELECT renyi_order::text FROM dp_int.account WHERE id = `+account)
	setOrder := func(order string) {
		w.exec(w.super, `UPDATE dp_int.account SET renyi_order = `+order+` WHERE id = `+account)
		for _, table := range []string{`account t SET spent = s.spent FROM (SELECT l.account AS id, sum(dp_int.cost(a, l)) AS spent FROM dp_int.ledger l JOIN dp_int.account a ON a.id = l.account GROUP BY 1) AS s WHERE s.id = t.id AND t.id = ` + account,
			`caller_total t SET spent = a.spent FROM dp_int.account a WHERE a.id = t.account AND a.id = ` + account} {
			w.exec(w.super, `UPDATE dp_int.`+table)
		}
		w.exec(w.super, `SELECT dp_int.prove(`+account+`)`)
	}
	const beyond, row = "no charge went beyond the budget that was in force:", "every account has the accounting and the budget that its ledger set last:"
	if wrong := w.verify(); len(wrong) > 0 {
		t.Fatal(wrong)
	}
	setOrder("1.25")
	if wrong := w.verify(); len(wrong) != 1 || !strings.HasPrefix(wrong[0], row) {
		t.Errorf("%d charges at order %s, and another order: %q", charged, order, wrong)
	}
	for range 2 {
		w.mustCharge(privacy.Gaussian{NoiseMultiplier: 2})
	}
	if wrong := w.verify(); len(wrong) != 3 || !strings.HasPrefix(wrong[0], beyond) || !strings.HasPrefix(wrong[1], row) || !strings.Contains(wrong[2], "computed outside") {
		t.Errorf("charges beyond the budget: %q", wrong)
	}
	setOrder(order)
	if wrong := w.verify(); len(wrong) != 2 || !strings.HasPrefix(wrong[0], beyond) || !strings.Contains(wrong[1], "computed outside") {
		t.Errorf("with the order of before: %q", wrong)
	}
}

// A budget lowered below what is spent, in epsilon or in delta, is no overdraft.
func TestVerifyUnderstandsALoweredBudget(t *testing.T) {
	w := newWorld(t, 1, 1e-6)
	w.mustCharge(privacy.ZCDP{Rho: .02})
	w.mustCharge(privacy.Approx{Epsilon: .01, Delta: 9e-8})
	w.exec(w.steward, `SELECT dp_set_budget($1, 1, 1e-9)`, w.dataset)
	w.exec(w.steward, `SELECT dp_set_budget($1, 0.1, 1e-9)`, w.dataset)
	if wrong := w.verify(); len(wrong) > 0 {
		t.Error(wrong)
	}
}

// The logarithms of another processor or C library may differ in their last digit, and with them the orders of filters. A ledger
// that was written by those, by a charge that fills filter 3, is as right here.
func TestVerifyOnAnotherProcessor(t *testing.T) {
	t.Parallel()
	w := lonelyWorld(t, 4, 1e-6)
	w.mustCharge(privacy.ZCDP{Rho: .05})
	w.mustCharge(privacy.Pure{Epsilon: one[float64](w, w.super, `
		SELECT (o * (a.cap * (1 - 1e-12) - a.rest_rho) * (1 - 1e-15))::float8
		  FROM dp_int.account a, dp_int.order_of_limit(a.accounting, a.epsilon, a.delta) AS o WHERE a.id = `+account, w.dataset)})
	if _, err := w.charge(privacy.Pure{Epsilon: 1e-9}); err == nil {
		t.Error("filter 3 is not full")
	}
	for _, factor := range []string{"1 + 1e-13", "1 - 1e-13"} {
		w.exec(w.super, "BEGIN")
		for _, f := range []string{"order_for_rho(float8,float8)", "order_for_mixture(float8,float8,float8)", "order_for_epsilon(float8,float8)"} {
			w.exec(w.super, `DO $do$ BEGIN
				EXECUTE regexp_replace(pg_get_functiondef('dp_int.`+f+`'::regprocedure), '1 \+ (x|lo)::numeric', '1 + (\1 * (`+factor+`))::numeric');
			END $do$`)
		}
		if wrong := w.verify(); len(wrong) > 0 {
			t.Errorf("orders times %s: %q", factor, wrong)
		}
		w.exec(w.super, "UPDATE dp_int.account SET proven_epsilon = proven_epsilon * 1.000001 WHERE id = "+account, w.dataset)
		if wrong := w.verify(); len(wrong) != 1 || !strings.HasPrefix(wrong[0], "every account ends where its chain ends") {
			t.Errorf("what is proven was changed: %q", wrong)
		}
		w.exec(w.super, "ROLLBACK")
	}
}

func TestVersionIsTheSchemas(t *testing.T) {
	w := newWorld(t, 1, 0)
	if v := one[string](w, w.analyst, `SELECT dp_version()`); !strings.HasPrefix(v, fmt.Sprintf("dpsidecar %s, schema %d with functions %s ", version.Number, install.Latest(), sql.Current().Fingerprint)) {
		t.Errorf("dp_version says %q, the schema is %d", v, install.Latest())
	}
}

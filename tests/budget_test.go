package tests

import (
	"context"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"dpsidecar/internal/ledger"
	"dpsidecar/internal/mech"
	"dpsidecar/internal/privacy"
)

// However the same people are registered again, what was spent stays spent.
func TestNoDisguiseGivesAFreshBudget(t *testing.T) {
	for name, disguise := range map[string]string{
		"a second name":         `SELECT dp_register('%[1]s_x', 'public.%[1]s', 'amount', '{age}', %[2]s)`,
		"unregister, register":  `SELECT dp_unregister('%[1]s'); SELECT dp_register('%[1]s_x', 'public.%[1]s', 'amount', '{age}', %[2]s)`,
		"a view":                `#CREATE VIEW public.%[1]s_v AS SELECT amount, age FROM public.%[1]s; #GRANT SELECT ON public.%[1]s_v TO dp_sidecar; SELECT dp_register('%[1]s_x', 'public.%[1]s_v', 'amount', '{age}', %[2]s)`,
		"a view on a view":      `#CREATE VIEW public.%[1]s_w AS SELECT * FROM public.%[1]s; #CREATE VIEW public.%[1]s_v AS SELECT amount, age FROM public.%[1]s_w; #GRANT SELECT ON public.%[1]s_v TO dp_sidecar; SELECT dp_register('%[1]s_x', 'public.%[1]s_v', 'amount', '{age}', %[2]s)`,
		"a materialized view":   `#CREATE MATERIALIZED VIEW public.%[1]s_v AS SELECT amount, age FROM public.%[1]s; #GRANT SELECT ON public.%[1]s_v TO dp_sidecar; SELECT dp_register('%[1]s_x', 'public.%[1]s_v', 'amount', '{age}', %[2]s)`,
		"a new name":            `#ALTER TABLE public.%[1]s RENAME TO %[1]s_r; SELECT dp_register('%[1]s_x', 'public.%[1]s_r', 'amount', '{age}', %[2]s)`,
		"drop and create":       `#CREATE TABLE public.%[1]s_c AS TABLE public.%[1]s; #DROP TABLE public.%[1]s; #ALTER TABLE public.%[1]s_c RENAME TO %[1]s; #GRANT SELECT ON public.%[1]s TO dp_sidecar; SELECT dp_register('%[1]s_x', 'public.%[1]s', 'amount', '{age}', %[2]s)`,
		"a copy, said to be so": `#CREATE TABLE public.%[1]s_c AS TABLE public.%[1]s; #GRANT SELECT ON public.%[1]s_c TO dp_sidecar; SELECT dp_register('%[1]s_x', 'public.%[1]s_c', 'amount', '{age}', %[2]s, options => '{"account": "%[1]s"}')`,
		"a child":               `#CREATE TABLE public.%[1]s_c (CHECK (age > 0)) INHERITS (public.%[1]s); #INSERT INTO public.%[1]s_c (amount, age) VALUES (1, 1); #GRANT SELECT ON public.%[1]s_c TO dp_sidecar; SELECT dp_register('%[1]s_x', 'public.%[1]s_c', 'amount', '{age}', %[2]s, options => '{"total": true}')`,
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 1, 0)
			w.mustRegress(w.analyst, ask, w.dataset, 1.0)
			w.script(fmt.Sprintf(disguise, w.dataset, "1"))
			w.exec(w.steward, `SELECT dp_grant($1, $2)`, w.dataset+"_x", w.person)
			_, err := regress(w.analyst, ask, w.dataset+"_x", 0.001)
			w.wantError(err, "DP002", "from 1 to 1.001, the budget is 1")
		})
	}
}

// script runs statements separated by semicolons as the steward, those with a
// leading # as the superuser.
func (w *world) script(text string) {
	w.Helper()
	for _, statement := range splitStatements(text) {
		if statement[0] == '#' {
			w.exec(w.super, statement[1:])
		} else {
			w.exec(w.steward, statement)
		}
	}
}

func TestASecondNameHasALimitOfItsOwn(t *testing.T) {
	w := newWorld(t, 5, 0)
	w.exec(w.steward, `SELECT dp_register($1, $2::text::regclass, 'amount', '{age}', 2)`, w.dataset+"_x", "public."+w.dataset)
	w.exec(w.steward, `SELECT dp_grant($1, $2)`, w.dataset+"_x", w.person)
	w.mustRegress(w.analyst, ask, w.dataset+"_x", 1.0)
	w.mustRegress(w.analyst, ask, w.dataset, 1.0)
	_, err := regress(w.analyst, ask, w.dataset+"_x", 0.5)
	w.wantError(err, "DP002", "from 2 to 2.5, the budget is 2")
	w.mustRegress(w.analyst, ask, w.dataset, 3.0)
	_, err = regress(w.analyst, ask, w.dataset, 0.001)
	w.wantError(err, "DP002", "from 5 to 5.001, the budget is 5")
}

// Whoever asks for too much is told what would do: it is admitted, and not much
// more would be.
func TestARefusalNamesTheEpsThatWouldDo(t *testing.T) {
	for _, accounting := range []string{"pure", "zcdp"} {
		for _, personal := range []bool{false, true} {
			w := newWorld(t, 4, 0)
			delta := 0.0
			if accounting != "pure" {
				delta = 1e-5
			}
			w.registerAgain(accounting, 4, delta)
			if personal {
				w.exec(w.steward, `SELECT dp_grant($1, $2, 1)`, w.dataset, w.person)
			}
			for _, call := range []string{
				`SELECT * FROM dp_l1_regress('%s', %s, features => '{age}', options => '{"method": "exponential_mechanism"}')`,
				`SELECT * FROM dp_l1_regress('%s', %s, features => '{age}', options => '{"method": "objective_perturbation"}')`,
				`SELECT * FROM dp_linear_regress('%s', %s, 1e-6, features => '{age}')`,
				`SELECT * FROM dp_linear_regress('%s', %s, 1e-6, features => '{age}', method => 'gd')`,
				`SELECT * FROM dp_linear_regress('%s', %s, 1e-6, features => '{age}', intercept => false, method => 'sample_aggregate', options => '{"aggregator": "centre"}')`,
			} {
				if delta == 0 && strings.Contains(call, "linear") || personal && strings.Contains(call, "sample_aggregate") {
					continue
				}
				ask, says, remedy := "9", "the budget of data set", "dp_set_budget"
				if personal { // too much for the person, and not for the data set
					ask = "1.5"
					says, remedy = fmt.Sprintf("the limit of %q on", w.person), fmt.Sprintf("dp_grant('%s', '%s', ...)", w.dataset, w.person)
				}
				_, err := regress(w.analyst, fmt.Sprintf(call, w.dataset, ask))
				w.wantError(err, "DP002", says)
				w.wantError(err, "DP002", remedy)
				var pg *pgconn.PgError
				if !errors.As(err, &pg) {
					t.Fatal(err)
				}
				named := regexp.MustCompile(`at most (?:about )?([0-9.]+)(?:, or| \(at its delta, below the budget's, it costs the [14] left\))`).FindStringSubmatch(pg.Hint)
				if strings.Contains(call, "sample_aggregate") {
					if named != nil {
						t.Errorf("%s is told %s", call, pg.Hint)
					}
					continue
				}
				if named == nil {
					t.Fatalf("%s names no eps: %s", call, pg.Hint)
				}
				eps, err := strconv.ParseFloat(named[1], 64)
				if err != nil {
					t.Fatal(err)
				}
				// dp_explain tells what would be admitted and spends nothing.
				for factor, affordable := range map[float64]bool{1: true, 1.6: false} {
					model, rest, _ := strings.Cut(strings.TrimPrefix(fmt.Sprintf(call, w.dataset, fmt.Sprint(factor*eps)), "SELECT * FROM dp_"), "_regress(")
					rest = strings.Replace(rest, "method => 'gd'", `options => '{"method": "gd"}'`, 1)
					if said := w.explain(w.analyst, fmt.Sprintf(`SELECT * FROM dp_explain('%s', %s`, model, rest)); (said["affordable"] == "yes") != affordable || !affordable && !strings.HasSuffix(said["affordable"], "; eps "+regexp.MustCompile(`^[^,(]*[0-9]`).FindString(named[0])+" would do") {
						t.Errorf("%s, personal limit %v, %s: %v times the eps %v named: affordable %s", accounting, personal, call, factor, eps, said["affordable"])
					}
				}
			}
		}
	}
}

// Where the budget of a data set and one's own limit both fall short, and one's own has no room at all, the steward
// has to raise both; the method is not to blame.
func TestARefusalNamesBothLimits(t *testing.T) {
	w := newWorld(t, 1, 0)
	bob := w.newAnalyst(w.person + "b")
	w.exec(w.steward, `SELECT dp_grant($1, $2, 0.4)`, w.dataset, w.person)
	w.mustRegress(w.analyst, ask, w.dataset, 0.4)
	w.mustRegress(bob, ask, w.dataset, 0.5)
	_, err := regress(w.analyst, ask, w.dataset, 0.15)
	w.wantError(err, "DP002", "the budget of data set")
	w.wantError(err, "DP002", fmt.Sprintf(`The limit of "%s", epsilon 0.4, does not cover it either, nor any smaller eps: ask the steward for dp_set_budget, and for a higher limit with dp_grant('%s', '%[1]s', ...). No privacy budget was spent.`, w.person, w.dataset))
	_, err = regress(bob, ask, w.dataset, 0.15)
	w.wantError(err, "DP002", "Ask with eps at most 0.1, or ask the steward for dp_set_budget")
}

func TestASecondNameNeverRaisesTheCap(t *testing.T) {
	w := newWorld(t, 1, 0)
	w.exec(w.steward, `SELECT dp_register($1, $2::text::regclass, 'amount', '{age}', 100)`, w.dataset+"_x", "public."+w.dataset)
	w.exec(w.steward, `SELECT dp_grant($1, $2)`, w.dataset+"_x", w.person)
	_, err := regress(w.analyst, ask, w.dataset+"_x", 1.5)
	w.wantError(err, "DP002", "from 0 to 1.5, the budget is 1")
}

// A delta that was forgotten at the first registration is no fate: before the first charge the hint says how all data sets get
// one, which works, and afterwards with what the newcomer can be registered. The hint of a name that is taken says what changes.
func TestAForgottenDeltaCanBeGivenBeforeTheFirstCharge(t *testing.T) {
	w := newWorld(t, 1, 0)
	register := func(name string, rest string) error {
		_, err := w.steward.Exec(context.Background(), `SELECT dp_register($1, $2::text::regclass, 'amount', '{age}', 1`+rest+`)`, name, "public."+w.dataset)
		return err
	}
	again := "again_" + w.dataset
	err := register(again, ", 1e-6")
	w.wantError(err, "22023", `dp_unregister "`+w.dataset+`", then dp_register and dp_grant each again, as this one, with the delta that all are to have`)
	w.wantError(err, "22023", "register this one with accounting => 'pure', delta => 0, which of the models only dp_l1_regress can use")
	err = register(w.dataset, ", 1e-6")
	for _, name := range []string{"dp_set_budget", "dp_set_scales", "dp_set_labels", "dp_set_categories", "dp_unregister", "dp_register it again and dp_grant it again"} {
		w.wantError(err, "42710", name)
	}
	if err := register(again, ", accounting => 'pure', delta => 0"); err != nil {
		t.Error(err)
	}
	w.exec(w.steward, `SELECT dp_unregister($1), dp_unregister($2)`, w.dataset, again)
	for _, name := range []string{w.dataset, again} {
		if err := register(name, ", 1e-6"); err != nil {
			t.Errorf("%v: %s", err, hint(err))
		}
	}
	w.wantError(register("third", ", 1e-7"), "22023", "register this one with accounting => 'zcdp', delta => 1e-06.")
	w.exec(w.steward, `SELECT dp_grant($1, $2)`, w.dataset, w.person)
	w.mustRegress(w.analyst, `SELECT * FROM dp_linear_regress($1, 0.1)`, w.dataset)
	err = register("third", ", 1e-7")
	w.wantError(err, "22023", "fixed since the first charge, and one delta. Register with accounting => 'zcdp', delta => 1e-06.")
	if strings.Contains(hint(err), "Nothing was charged") {
		t.Error(hint(err))
	}
}

func TestTwoAccountsDoNotMeet(t *testing.T) {
	w, v := newWorld(t, 1, 0), newWorld(t, 1, 0)
	w.exec(w.super, fmt.Sprintf(`CREATE VIEW public.%[1]s_v AS SELECT a.amount, b.age FROM public.%[1]s a JOIN public.%[2]s b USING (age)`, w.dataset, v.dataset))
	w.exec(w.super, fmt.Sprintf(`GRANT SELECT ON public.%s_v TO dp_sidecar`, w.dataset))
	_, err := w.steward.Exec(context.Background(), `SELECT dp_register($1, $2::text::regclass, 'amount', '{age}', 1, options => '{"total": true}')`, w.dataset+"_v", "public."+w.dataset+"_v")
	w.wantError(err, "22023", "different accounts")
}

func TestANewPopulationIsRecorded(t *testing.T) {
	t.Parallel()
	w := servedWorld(t) // of its own: after it every unknown table is asked about
	fresh := func() error {
		_, err := w.steward.Exec(context.Background(), `SELECT dp_register($1, $2::text::regclass, 'amount', '{age}', 1, options => '{"new_population": "the year 2027, other people"}')`,
			w.dataset+"_x", "public."+w.dataset)
		return err
	}
	w.wantError(fresh(), "22023", "dp_unregister")
	w.exec(w.steward, `SELECT dp_unregister($1)`, w.dataset)
	if err := fresh(); err != nil {
		t.Fatal(err)
	}
	w.exec(w.steward, `SELECT dp_grant($1, $2)`, w.dataset+"_x", w.person)
	w.mustRegress(w.analyst, ask, w.dataset+"_x", 1.0)
	said := one[string](w, w.steward, `SELECT event #>> '{budget,new_population}' FROM dp.ledger WHERE dataset = $1 AND event ? 'budget'`, w.dataset+"_x")
	if said != "the year 2027, other people" {
		t.Errorf("the ledger says %q", said)
	}
}

func TestPersonalLimits(t *testing.T) {
	w := newWorld(t, 10, 0)
	bob := w.newAnalyst(w.person + "b")
	w.exec(w.steward, `SELECT dp_grant($1, $2, 0.5)`, w.dataset, w.person+"b")
	w.mustRegress(bob, ask, w.dataset, 0.3)
	_, err := regress(bob, ask, w.dataset, 0.4)
	w.wantError(err, "DP002", `the epsilon spent by "`+w.person+`b" from 0.3 to 0.7, the limit is 0.5`)
	w.mustRegress(w.analyst, ask, w.dataset, 4.0)
	if again := w.mustRegress(bob, ask, w.dataset, 4.0); len(again) != 4 {
		t.Errorf("bob may repeat what was released: %v", again)
	}
	row := one[string](w, bob, `SELECT format('%s %s %s %s', epsilon_spent, my_epsilon_total, my_epsilon_spent, my_epsilon_remaining) FROM dp.budget WHERE dataset = $1`, w.dataset)
	if row != "4.3 0.5 0.3 0.2" {
		t.Errorf("bob's budget row: %s", row)
	}
	if row = one[string](w, w.analyst, `SELECT format('%s|%s', my_epsilon_total, my_epsilon_remaining) FROM dp.budget WHERE dataset = $1`, w.dataset); row != "|" {
		t.Errorf("without a limit: %s", row)
	}
	grants := all[string](w, w.steward, `SELECT concat_ws(' ', right(grantee, 1), epsilon, epsilon_spent) FROM dp.grants WHERE dataset = $1`, w.dataset)
	if want := []string{w.person[len(w.person)-1:] + " 4", "b 0.5 0.3"}; !slices.Equal(grants, want) {
		t.Errorf("dp.grants shows %q, want %q", grants, want)
	}
	_, err = bob.Exec(context.Background(), `SELECT FROM dp.grants`)
	w.wantError(err, "42501", "permission denied for view grants")
	if err := w.system.Login(context.Background(), w.person+"s", "dp_admin"); err != nil {
		t.Fatal(err)
	}
	conn, heard := w.hearingHints(w.person + "s")
	for _, c := range []struct{ limit, says string }{
		{"0.5", ""},
		{"0.7", fmt.Sprintf("the personal limit of %q on data set %q was epsilon 0.5, and is epsilon 0.7 now", w.person+"b", w.dataset)},
		{"NULL", "was epsilon 0.7, and there is none now HINT: If that is not meant: SELECT dp_grant('" + w.dataset + "', '" + w.person + "b', 0.7);"},
		{"NULL", ""},
		{"12", fmt.Sprintf("the personal limit of %q, epsilon 12, is above that of data set %q, 10, which holds for everybody", w.person+"b", w.dataset)},
		{"0.3", fmt.Sprintf("nothing is left of the personal limit on data set %q, epsilon 0.3: %q has spent epsilon 0.3 of these people", w.dataset, w.person+"b")},
	} {
		before := len(heard())
		w.exec(conn, `SELECT dp_grant($1, $2, `+c.limit+`)`, w.dataset, w.person+"b")
		if said := strings.Join(heard()[before:], "\n"); !strings.Contains(said, c.says) || (said == "") != (c.says == "") {
			t.Errorf("limit %s: %q", c.limit, said)
		}
	}
}

// Whoever asks for the first time in a transaction that stays open, as a member of a group, holds up who grants that person
// something, for a while, and nobody else.
func TestAFirstRequestHoldsNoOtherSteward(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 10, 0)
	group, member := w.person+"g", w.person+"m"
	w.exec(w.super, fmt.Sprintf(`CREATE ROLE %s`, group))
	if err := w.system.Login(context.Background(), member, "dp_analyst"); err != nil {
		t.Fatal(err)
	}
	w.exec(w.super, fmt.Sprintf(`GRANT %s TO %s`, group, member))
	w.exec(w.steward, `SELECT dp_grant($1, $2)`, w.dataset, group)
	asking, granting := w.connect(w.system.URL(member)), w.connect(w.system.StewardURL())
	w.exec(asking, `BEGIN`)
	w.exec(asking, `SELECT dp_submit('l1', $1, 0.1)`, w.dataset)
	grant := func() <-chan error {
		return w.waiting(granting, asking, `SELECT dp_grant($1, $2, 1)`, w.dataset, member)
	}
	done := grant()
	w.exec(w.steward, `SET lock_timeout = '2 s'`)
	w.exec(w.steward, `SELECT dp_set_budget($1, 9)`, w.dataset)
	w.wantError(<-done, "55P03", fmt.Sprintf("the first request of %q is in a transaction that is still open", member))
	done = grant()
	w.exec(asking, `COMMIT`)
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// A grant and its revocation, which goes through former data sets of the name first, wait for each other in one order.
func TestAGrantAndARevocationDoNotDeadlock(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 10, 0)
	w.registerAgain("pure", 10, 0) // granted before, and again
	granting, revoking, holder := w.connect(w.system.StewardURL()), w.connect(w.system.StewardURL()), w.connect(w.system.SuperuserURL())
	w.exec(holder, `BEGIN`)
	w.exec(holder, `SELECT FROM dp_int.dataset_grant g JOIN dp_int.dataset d ON d.id = g.dataset WHERE d.name = $1 AND d.unregistered_at IS NULL FOR UPDATE OF g`, w.dataset)
	granted := w.waiting(granting, holder, `SELECT dp_grant($1, $2, 3)`, w.dataset, w.person)
	revoked := w.waiting(revoking, granting, `SELECT dp_revoke($1, $2)`, w.dataset, w.person)
	w.exec(holder, `COMMIT`)
	for what, err := range map[string]error{"grant": <-granted, "revocation": <-revoked} {
		if err != nil {
			t.Errorf("the %s: %v", what, err)
		}
	}
	if one[bool](w, w.super, `SELECT EXISTS (SELECT FROM dp_int.dataset_grant g JOIN dp_int.dataset d ON d.id = g.dataset WHERE d.name = $1)`, w.dataset) {
		t.Error("a grant is left")
	}
}

// A job whose account another job's charge holds is told so, and not to end the sidecar's session.
func TestAChargeThatHoldsAnAccountIsNoGrant(t *testing.T) {
	t.Parallel()
	w := lonelyWorld(t, 10, 0) // where nobody else locks accounts
	ctx := context.Background()
	const event = `{"bounded_range": {"epsilon": 0.5}}`
	charge := func(conn *pgx.Conn) error {
		var job, token string
		if err := w.super.QueryRow(ctx, insertClaimed, w.dataset, w.person).Scan(&job, &token); err != nil {
			t.Fatal(err)
		}
		w.exec(w.super, `UPDATE dp_int.job SET attempt = 2 WHERE id = $1::text::uuid`, job)
		_, err := conn.Exec(ctx, `SELECT dp_int.job_charge($1::text::uuid, $2::text::uuid, 1000, '`+event+`', 0.5, 0.03125, 0, '{}')`, job, token)
		return err
	}
	sidecar, other := w.connect(w.system.URL("dp_sidecar")), w.connect(w.system.URL("dp_sidecar"))
	w.exec(sidecar, `BEGIN`)
	if err := charge(sidecar); err != nil {
		t.Fatal(err)
	}
	err := charge(other)
	w.wantError(err, "55P03", "is held by the charge of another job")
	if h := hint(err); h != "Jobs of these people are charged one after another: ask again. No privacy budget was spent." {
		t.Error(h)
	}
	w.exec(sidecar, `ROLLBACK`)
	w.exec(w.steward, `BEGIN`)
	w.exec(w.steward, `SELECT dp_grant($1, $2, 3)`, w.dataset, w.person)
	err = charge(other)
	w.wantError(err, "55P03", `is held by the open transaction of session`)
	if h := hint(err); !strings.HasPrefix(h, "Somebody called dp_grant or the like without a COMMIT") {
		t.Error(h)
	}
	w.exec(w.steward, `ROLLBACK`)
}

// Under another delta a personal limit is another rho.
func TestPersonalLimitsFollowTheDelta(t *testing.T) {
	w := newWorld(t, 4, 1e-6)
	w.exec(w.steward, `SELECT dp_grant($1, $2, 0.5)`, w.dataset, w.person)
	const converted = `SELECT g.cap = dp_int.cap(a.accounting, a.renyi_order, g.epsilon, a.delta) AND g.cap < a.cap
		FROM dp_int.dataset_grant g JOIN dp_int.dataset d ON d.id = g.dataset JOIN dp_int.account a ON a.id = d.account WHERE d.name = $1`
	for _, delta := range []float64{1e-6, 1e-9, 1e-4} {
		w.exec(w.steward, `SELECT dp_set_budget($1, 4, $2)`, w.dataset, delta)
		if !one[bool](w, w.super, converted, w.dataset) {
			t.Errorf("at delta %v the limit is that of another", delta)
		}
	}
	w.exec(w.steward, `SELECT dp_set_budget($1, 5)`, w.dataset)
	if got := one[string](w, w.steward, `SELECT concat_ws(' ', epsilon_total, delta_total) FROM dp.budget WHERE dataset = $1`, w.dataset); got != "5 0.0001" {
		t.Errorf("without a delta: %s", got)
	}
}

func TestAGrantToAGroupCoversItsMembers(t *testing.T) {
	w := newWorld(t, 10, 0)
	w.exec(w.steward, `SELECT dp_revoke($1, $2)`, w.dataset, w.person)
	_, err := regress(w.analyst, ask, w.dataset, 0.1)
	w.wantError(err, "42501", "not granted")
	if visible := one[int64](w, w.analyst, `SELECT count(*) FROM dp.datasets WHERE dataset = $1`, w.dataset); visible != 0 {
		t.Error("a data set that is not granted is shown")
	}
	group := w.person + "s"
	w.exec(w.super, fmt.Sprintf(`CREATE ROLE %s; GRANT %s TO %s`, group, group, w.person))
	w.exec(w.steward, `SELECT dp_grant($1, $2, 0.2)`, w.dataset, group)
	w.mustRegress(w.analyst, ask, w.dataset, 0.1)
	_, err = regress(w.analyst, ask, w.dataset, 0.15)
	w.wantError(err, "DP002", "from 0.1 to 0.25, the limit is 0.2")
}

// Whoever loses a grant of their own, and has one through a group, loses a limit: the steward is told.
func TestARevokedGrantTellsOfGroups(t *testing.T) {
	w := newWorld(t, 10, 0)
	if err := w.system.Login(context.Background(), w.person+"x", "dp_admin"); err != nil {
		t.Fatal(err)
	}
	conn, heard := w.listening(w.person + "x")
	group := w.person + "s"
	w.exec(w.super, fmt.Sprintf(`CREATE ROLE %s; GRANT %[1]s TO %s; GRANT dp_analyst TO %[1]s`, group, w.person))
	_, err := conn.Exec(context.Background(), `SELECT dp_revoke($1, $2)`, w.dataset, group)
	w.wantError(err, "22023", "is not granted")
	for _, limit := range []string{"NULL", "2.5"} {
		w.exec(conn, fmt.Sprintf(`SELECT dp_grant($1, $2, %s)`, limit), w.dataset, group)
		w.exec(conn, `SELECT dp_grant($1, $2, 1)`, w.dataset, w.person)
		_, err := regress(w.analyst, ask, w.dataset, 1.5)
		w.wantError(err, "DP002", "the limit is 1") // one's own is the one that holds
		before := len(heard())
		w.exec(conn, `SELECT dp_revoke($1, $2)`, w.dataset, w.person)
		said := strings.Join(heard()[before:], "\n")
		want := fmt.Sprintf("%q may still ask data set %q as a member of %q, ", w.person, w.dataset, group)
		if limit == "NULL" {
			want += "without a personal limit"
		} else {
			want += "with a personal limit of epsilon 2.5"
		}
		if !strings.Contains(said, want) {
			t.Errorf("said %q, want %s", said, want)
		}
	}
	_, err = conn.Exec(context.Background(), `SELECT dp_revoke($1, $2)`, w.dataset, w.person)
	w.wantError(err, "22023", fmt.Sprintf("as a member of %q", group))
	before := len(heard())
	w.exec(conn, `SELECT dp_revoke($1, $2)`, w.dataset, group)
	if said := heard()[before:]; len(said) > 0 {
		t.Errorf("nothing is left, and it says %q", said)
	}
}

// Releases of a data set that was unregistered are seen until its grants are taken back, by its name.
func TestReleasesOfAFormerDataSetAreClosed(t *testing.T) {
	for _, again := range []bool{false, true} {
		w := newWorld(t, 4, 0)
		w.mustRegress(w.analyst, ask, w.dataset, 1.0)
		release := one[string](w, w.analyst, `SELECT dp_last_release($1)::text`, w.dataset)
		w.exec(w.steward, `SELECT dp_unregister($1)`, w.dataset)
		if again {
			w.exec(w.steward, `SELECT dp_register($1, $2::text::regclass, 'amount', '{age}', 4)`, w.dataset, "public."+w.dataset)
		}
		const coefficients = `SELECT count(*) FROM dp_coef($1::uuid)`
		if n := one[int64](w, w.analyst, coefficients, release); n == 0 {
			t.Errorf("%d coefficients before", n)
		}
		w.exec(w.steward, `SELECT dp_revoke($1, $2)`, w.dataset, w.person)
		if n := one[int64](w, w.analyst, `SELECT count(*) FROM dp.releases`); n != 0 {
			t.Errorf("%d releases after", n)
		}
		_, err := w.analyst.Exec(context.Background(), coefficients, release)
		if err == nil {
			t.Error("its coefficients are shown")
		}
		_, err = w.steward.Exec(context.Background(), `SELECT dp_revoke($1, $2)`, w.dataset, w.person)
		w.wantError(err, "22023", "is not granted to")
		if wrong := w.verify(); len(wrong) > 0 {
			t.Error(wrong)
		}
	}
	w := newWorld(t, 1, 0)
	_, err := w.steward.Exec(context.Background(), `SELECT dp_revoke('nobody''s', $1)`, w.person)
	w.wantError(err, "22023", "is not registered")
}

// Jobs that a data set leaves behind say that it is gone, not that a grant is missing; without a registration none helps.
func TestJobsOfAFormerDataSetSayThatItIsGone(t *testing.T) {
	w := lonelyWorld(t, 4, 0)
	other := w.newAnalyst(w.person + "b")
	const submit, said = `SELECT dp_submit('l1', $1, 0.5)::text`, `SELECT concat_ws(' ', status, sqlstate, message, hint) FROM dp_status($1)`
	waits, revoked := one[string](w, w.analyst, submit, w.dataset), one[string](w, other, submit, w.dataset)
	w.exec(w.steward, `SELECT dp_unregister($1)`, w.dataset)
	w.exec(w.steward, `SELECT dp_revoke($1, $2)`, w.dataset, w.person+"b")
	want := fmt.Sprintf(`failed 42501 data set %q is no longer registered as it was when this was asked Ask the steward whether it is registered again, and granted: then ask anew. No privacy budget was spent.`, w.dataset)
	if is := one[string](w, other, said, revoked); is != want {
		t.Errorf("revoked: %s", is)
	}
	if _, err := w.system.Serve(context.Background()); err != nil {
		t.Fatal(err)
	}
	w.eventually("the job that waited says so", func() bool { return one[string](w, w.analyst, said, waits) == want })
}

func TestRaisingAndLoweringABudget(t *testing.T) {
	w := newWorld(t, 1, 0)
	w.mustRegress(w.analyst, ask, w.dataset, 1.0)
	w.exec(w.steward, `SELECT dp_set_budget($1, 1.5, 0)`, w.dataset)
	w.mustRegress(w.analyst, ask, w.dataset, 0.25)
	w.exec(w.steward, `SELECT dp_set_budget($1, 0.5, 0)`, w.dataset)
	if left := one[float64](w, w.steward, `SELECT epsilon_remaining FROM dp.budget WHERE dataset = $1`, w.dataset); left != 0 {
		t.Errorf("%g left of a budget below what is spent", left)
	}
	_, err := regress(w.analyst, ask, w.dataset, 0.001)
	w.wantError(err, "DP002", "")
	_, err = w.steward.Exec(context.Background(), `SELECT dp_set_budget($1, 2, 1e-6)`, w.dataset)
	w.wantError(err, "22023", "pure accounting")
	if n := one[int64](w, w.steward, `SELECT count(*) FROM dp.ledger WHERE dataset = $1 AND event ? 'budget'`, w.dataset); n != 3 {
		t.Errorf("%d budget entries, want 3", n)
	}
}

// Under zCDP accounting a release at eps costs eps^2/8 if that is cheaper: a budget of
// (1, 1e-6), rho 0.024356, holds 19 releases at 0.1 where pure accounting holds 10.
func TestZCDPAccountingComposesTightly(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, 1e-6)
	_, err := regress(w.analyst, ask, w.dataset, 1.5)
	w.wantError(err, "DP002", "the budget is 1 at delta 1e-06")
	for i := range 19 {
		w.mustRegress(w.analyst, `SELECT * FROM dp_l1_regress($1, 0.1, options => jsonb_build_object('radius', $2::float8, 'method', 'exponential_mechanism'))`, w.dataset, 5+i)
	}
	spent := w.spent()
	if spent < 0.98 || spent > 1 {
		t.Errorf("19 releases at 0.1 prove epsilon %g, want just below 1", spent)
	}
	_, err = regress(w.analyst, `SELECT * FROM dp_l1_regress($1, 0.1, options => '{"method": "exponential_mechanism", "radius": 50}')`, w.dataset)
	w.wantError(err, "DP002", "")
}

// wantRefusal checks the type of the ledger's No and what it says.
func (w *world) wantRefusal(err error, says string) {
	w.Helper()
	var no *ledger.Refusal
	if !errors.As(err, &no) || no.SQLSTATE != "DP002" || !strings.Contains(no.Message, says) {
		w.Fatalf("%v, want a refusal that says %q", err, says)
	}
}

// Of a delta of 1e-6 a tenth is there for the deltas of mechanisms.
func TestDeltasOfMechanismsHaveAReserve(t *testing.T) {
	for _, accounting := range []string{"zcdp", "rdp"} {
		w := newWorld(t, 1, 1e-6)
		w.registerAgain(accounting, 1, 1e-6)
		w.mustCharge(privacy.Approx{Epsilon: .01, Delta: 6e-8})
		last := w.mustCharge(privacy.Approx{Epsilon: .01, Delta: 4e-8})
		_, err := w.charge(privacy.Approx{Epsilon: .01, Delta: 1e-20})
		w.wantRefusal(err, "delta")
		w.mustCharge(privacy.Pure{Epsilon: .01})
		w.exec(w.super, giveBack, last.Job, last.Token)
		w.mustCharge(privacy.Approx{Epsilon: .01, Delta: 4e-8})
		_, err = w.charge(privacy.Approx{Epsilon: 1e-9, Delta: math.Nextafter(0, 1)})
		w.wantRefusal(err, "delta")
	}
}

// What is calibrated to all of a budget, its deltas included, is admitted, and
// leaves nothing.
func TestARequestMayTakeTheWholeBudget(t *testing.T) {
	for _, b := range []privacy.Budget{{Epsilon: 1, Delta: 1e-6}, {Epsilon: .1, Delta: 3e-9}, {Epsilon: 7.3, Delta: 1e-5}} {
		reserve := privacy.Reserve(b.Delta)
		half := privacy.Approx{Delta: reserve / 2}
		for accounting, a := range map[string]privacy.Accountant{
			"zcdp": privacy.Concentrated{},
			"rdp":  privacy.AtOrder{Order: privacy.RecommendedOrder(b), Renyi: new(privacy.Renyi)},
		} {
			w := newWorld(t, b.Epsilon, b.Delta)
			w.registerAgain(accounting, b.Epsilon, b.Delta)
			event := func(z float64) (privacy.Event, error) {
				return privacy.Repeat{Count: 3, Event: privacy.Gaussian{NoiseMultiplier: z}}, nil
			}
			z, err := privacy.Calibrate(a, privacy.Budget{Epsilon: b.Epsilon, Delta: b.Delta - reserve}, event)
			if err != nil {
				t.Fatal(err)
			}
			e, _ := event(z)
			w.mustCharge(privacy.Compose{e, half, half})
			if spent := w.spent(); spent > b.Epsilon || spent < b.Epsilon*(1-1e-8) {
				t.Errorf("%v under %s: %v is spent", b, accounting, spent)
			}
			_, err = w.charge(privacy.Gaussian{NoiseMultiplier: 1e4})
			w.wantRefusal(err, "does not cover this request")
		}
	}
}

var refusal = regexp.MustCompile(`from ([0-9.]+) to ([0-9.]+), the budget is ([0-9.]+)`)

// A refusal tells in epsilon, in every accounting, what is spent, as dp.budget has it
// but rounded upward, and what the request would make of it: more than the budget.
func TestARefusalTellsWhatTheRequestCosts(t *testing.T) {
	t.Parallel()
	for accounting, delta := range map[string]float64{"pure": 0, "zcdp": 1e-6, "rdp": 1e-6} {
		w := newWorld(t, 1, delta)
		w.registerAgain(accounting, 1, delta)
		w.mustCharge(privacy.Pure{Epsilon: .1})
		for _, eps := range []float64{3, .05, .001} {
			var err error
			for err == nil {
				_, err = w.charge(privacy.Pure{Epsilon: eps})
			}
			said := refusal.FindStringSubmatch(err.Error())
			if said == nil {
				t.Fatalf("%s: %v", accounting, err)
			}
			spent, _ := strconv.ParseFloat(said[1], 64)
			after, _ := strconv.ParseFloat(said[2], 64)
			if was := w.spent(); spent < was || spent > was+1e-6 || after <= 1 || said[3] != "1" {
				t.Errorf("%s, %v more: %v is spent, and the refusal says %q", accounting, eps, was, said[0])
			}
		}
	}
}

// A cost above the eps that was asked for has a reason, which the refusal gives.
func TestARefusalSaysWhyItCostsMore(t *testing.T) {
	w := newWorld(t, 4, 1e-6)
	w.exec(w.steward, `SELECT dp_set_budget($1, 4, 1e-9)`, w.dataset) // a request that gives none has 1e-6 still
	_, err := regress(w.analyst, `SELECT * FROM dp_linear_regress($1, $2)`, w.dataset, 3.9)
	w.wantError(err, "DP002", " rather than its eps 3.9, as it asks for a delta of 1e-06 and is counted at the budget's, and 4 is left")
	w.exec(w.steward, `SELECT dp_set_budget($1, 4, 1e-6)`, w.dataset)
	_, err = regress(w.analyst, `SELECT * FROM dp_l1_regress($1, $2)`, w.dataset, 5)
	w.wantError(err, "DP002", "it costs epsilon 5, and 4 is left")
	w.mustRegress(w.analyst, ask, w.dataset, 1.0)
	_, err = regress(w.analyst, `SELECT * FROM dp_linear_regress($1, $2, 1e-6)`, w.dataset, 3.9)
	w.wantError(err, "DP002", " rather than its eps 3.9, as it is added up with what was asked before, and 3 is left")
}

// Under rdp accounting samples are cheap: a budget of (1, 1e-6) holds 201 times
// 50 steps on a hundredth of the rows, which zCDP cannot tell from all rows.
func TestRDPAccountingOfSamples(t *testing.T) {
	w := newWorld(t, 1, 1e-6)
	fit := privacy.Repeat{Count: 50, Event: privacy.Sampled{Rate: .01, Event: privacy.Gaussian{NoiseMultiplier: 5}}}
	_, err := w.charge(fit)
	w.wantRefusal(err, "from 0 to ")
	w.registerAgain("rdp", 1, 1e-6)
	var history privacy.Compose
	for err = nil; err == nil; _, err = w.charge(fit) {
		history = append(history, fit)
	}
	w.wantRefusal(err, "the budget is 1 at delta 1e-06")
	history = history[1:]
	proven, err := privacy.AtOrder{Order: 25, Renyi: new(privacy.Renyi)}.Epsilon(history, .9e-6)
	if spent := w.spent(); err != nil || len(history) != 201 || spent < proven-1e-9 || spent > proven+1.001e-6 { // it is shown rounded upward
		t.Errorf("%d fits, %v is spent; privacy proves %v, %v", len(history), spent, proven, err)
	}
	if order := one[float64](w, w.analyst, `SELECT renyi_order FROM dp.datasets WHERE dataset = $1 AND accounting = 'rdp'`, w.dataset); order != 25 {
		t.Errorf("order %v", order)
	}
}

// A grant without a limit says nothing of one, under any accounting.
func TestAGrantWithoutALimitTellsOfNone(t *testing.T) {
	for _, accounting := range []string{"pure", "zcdp", "rdp"} {
		w := newWorld(t, 10, map[string]float64{"zcdp": 1e-6, "rdp": 1e-6}[accounting])
		w.registerAgain(accounting, 10, map[string]float64{"zcdp": 1e-6, "rdp": 1e-6}[accounting])
		w.exec(w.steward, `SELECT dp_grant($1, $2)`, w.dataset, w.person)
		w.mustRegress(w.analyst, fmt.Sprintf(`SELECT * FROM dp_%s_regress($1, 1)`, map[string]string{"pure": "l1", "zcdp": "linear", "rdp": "linear"}[accounting]), w.dataset)
		conn, heard := w.listeningAt(w.system.StewardURL())
		w.exec(conn, `SELECT dp_grant($1, $2)`, w.dataset, w.person)
		if said := heard(); len(said) > 0 {
			t.Errorf("%s: %q", accounting, said)
		}
	}
}

func TestRDPAccountingIsFixedByTheFirstCharge(t *testing.T) {
	w := newWorld(t, 1, 1e-6)
	w.registerAgain("rdp", 1, 1e-6)
	order := func() float64 {
		return one[float64](w, w.steward, `SELECT renyi_order FROM dp.datasets WHERE dataset = $1`, w.dataset)
	}
	w.exec(w.steward, `SELECT dp_set_budget($1, 5, 1e-6)`, w.dataset)
	if order() != privacy.RecommendedOrder(privacy.Budget{Epsilon: 5, Delta: 1e-6}) {
		t.Errorf("order %v before the first charge", order())
	}
	w.mustCharge(privacy.Gaussian{NoiseMultiplier: 50})
	was := order()
	w.exec(w.steward, `SELECT dp_set_budget($1, 10, 1e-6)`, w.dataset)
	if order() != was {
		t.Errorf("order %v became %v", was, order())
	}
	w.exec(w.steward, `SELECT dp_set_budget($1, 0.01, 1e-6)`, w.dataset) // below what the order can prove: nothing is left
	_, err := w.charge(privacy.Gaussian{NoiseMultiplier: 1e5})
	w.wantRefusal(err, "does not cover this request")
	refused := func(says, sql string, args ...any) {
		t.Helper()
		_, err := w.steward.Exec(context.Background(), sql, append([]any{w.dataset}, args...)...)
		w.wantError(err, "22023", says)
	}
	refused("at most 20", `SELECT dp_set_budget($1, 20.5, 1e-6)`)
	refused("rdp accounting", `SELECT dp_set_budget($1, 1, 0)`)
	refused("epsilon must be above", `SELECT dp_grant($1, $2, 0.01)`, w.person)
	_, err = w.steward.Exec(context.Background(), `SELECT dp_grant($1, $2, 0.01)`, w.dataset, w.person)
	least := regexp.MustCompile(`above ([0-9]\.[0-9]{1,6})\.$`).FindStringSubmatch(hint(err)) // rounded upward, so that it suffices
	if least == nil {
		t.Fatalf("the hint is %q", hint(err))
	}
	w.exec(w.steward, `SELECT dp_grant($1, $2, $3::text::float8)`, w.dataset, w.person, least[1])
	w.exec(w.steward, `SELECT dp_unregister($1)`, w.dataset)
	for accounting, delta := range map[string]float64{"zcdp": 1e-6, "pure": 0} {
		refused("these people's account has rdp accounting", `SELECT dp_register($1, $2::text::regclass, 'amount', '{age}', 10, $3, accounting => $4)`,
			"public."+w.dataset, delta, accounting)
	}
	refused("Register with accounting => 'rdp', delta => 1e-06", `SELECT dp_register($1, $2::text::regclass, 'amount', '{age}', 10)`, "public."+w.dataset)
	v := newWorld(t, 1, 1e-6)
	v.exec(v.steward, `SELECT dp_unregister($1)`, v.dataset)
	for says, epsilon := range map[string]float64{"at most 20": 21, "leaves nothing": 1e-4} {
		_, err := v.steward.Exec(context.Background(), `SELECT dp_register($1, $2::text::regclass, 'amount', '{age}', $3, 1e-6, accounting => 'rdp')`,
			v.dataset, "public."+v.dataset, epsilon)
		v.wantError(err, "22023", says)
	}
}

// A claim tells the worker how its charge will be accounted for, and the entry
// keeps the whole price of the event.
func TestAClaimAndItsEntryNameTheAccounting(t *testing.T) {
	t.Parallel()
	w := lonelyWorld(t, 1, 1e-6)
	w.registerAgain("rdp", 1, 1e-6)
	w.exec(w.analyst, `SELECT dp_submit('l1', $1, 0.5)`, w.dataset)
	worker := w.connect(w.system.URL("dp_sidecar"))
	said := one[string](w, worker, `SELECT format('%s %s', c #>> '{dataset,accounting}', c #> '{dataset,order}') FROM dp_int.job_claim(gen_random_uuid(), '30 s', NULL) AS c`)
	if said != "rdp 25" {
		t.Errorf("the claim says %s", said)
	}
	e := privacy.Compose{privacy.Gaussian{NoiseMultiplier: 40}, privacy.Approx{Delta: 1e-9}}
	if _, err := chargeAs(context.Background(), w.super, w.super, w.dataset, w.person, ledger.Entry{Event: e, Arithmetic: mech.Float64Grid, Rows: 1}); err != nil {
		t.Fatal(err)
	}
	curve := all[float64](w, w.steward, `SELECT unnest(renyi)::float8 FROM dp.ledger WHERE kind = 'charge' AND epsilon IS NULL AND arithmetic = 'float64-grid' AND delta = 1e-9 AND renyi_grid = 1`)
	want, _ := new(privacy.Renyi).Curve(e)
	for i := range want {
		if len(curve) != len(want) || math.Abs(curve[i]-want[i]) > 1e-14*want[i] {
			t.Fatalf("curve %v, want %v", curve, want)
		}
	}
}

func TestTheLedgerIsAppendOnly(t *testing.T) {
	w := newWorld(t, 1, 0)
	w.mustRegress(w.analyst, ask, w.dataset, 0.5)
	for _, sql := range []string{`UPDATE dp_int.ledger SET epsilon = 0`, `DELETE FROM dp_int.ledger`, `TRUNCATE dp_int.ledger CASCADE`} {
		_, err := w.super.Exec(context.Background(), sql)
		w.wantError(err, "42501", "append-only")
	}
	broken := all[int64](w, w.super, `
		SELECT l.id FROM dp_int.ledger l
		  LEFT JOIN dp_int.ledger p ON p.account = l.account AND p.seq = l.seq - 1
		 WHERE l.hash <> dp_int.ledger_hash(l) OR l.previous <> coalesce(p.hash, '\x')`)
	if len(broken) > 0 {
		t.Errorf("the chain is broken at %v", broken)
	}
	event := one[string](w, w.steward, `SELECT event::text FROM dp.ledger WHERE dataset = $1 AND kind = 'charge'`, w.dataset)
	if !strings.HasPrefix(event, `{"compose": [{"pure": {"epsilon": 0.0`) {
		t.Errorf("event %s", event)
	}
}

// A cost is a number from 0 on, in every unit: one below 0 would give back what was spent.
func TestNoCostGivesBudgetBack(t *testing.T) {
	t.Parallel()
	for _, delta := range []float64{0, 1e-6} {
		w := lonelyWorld(t, 1, delta)
		w.exec(w.analyst, `SELECT dp_submit('l1', $1, 0.5, options => '{"method": "exponential_mechanism"}')`, w.dataset)
		job, token := w.abandon(claimed)
		for _, c := range [][3]string{
			{"-0.5", "-0.03125", "0"}, {"NaN", "NaN", "0"}, {"Infinity", "Infinity", "0"}, {"0.5", "0.03125", "-1e-9"}, {"0.5", "0.03125", "1"}, {"0.5", "0.03125", "NaN"},
		} {
			_, err := w.connect(w.system.URL("dp_sidecar")).Exec(context.Background(),
				`SELECT dp_int.job_charge($1, $2, 1000, '{"bounded_range": {"epsilon": 0.5}}', $3::text::numeric, $4::text::numeric, $5::text::numeric, '{}')`, job, token, c[0], c[1], c[2])
			w.wantError(err, "DP005", "cannot state the cost")
		}
		if w.spent() != 0 || w.entries() != 0 {
			t.Errorf("spent %g in %d entries", w.spent(), w.entries())
		}
	}
}

// A steward who sets a smaller delta, or registers people again with one, is told that what was spent counts as more. A
// larger one, or another epsilon, says nothing of the kind.
func TestASmallerDeltaSaysThatMoreIsSpent(t *testing.T) {
	w := newWorld(t, 4, 1e-5)
	w.mustCharge(privacy.ZCDP{Rho: .01})
	before := one[string](w, w.super, `SELECT dp_int.shown_epsilon(a.proven_epsilon) FROM dp_int.account a JOIN dp_int.dataset d ON d.account = a.id WHERE d.name = $1`, w.dataset)
	steward, heard := w.listening("steward")
	w.exec(steward, `SELECT dp_set_budget($1, 4, 1e-7)`, w.dataset)
	after := one[string](w, w.super, `SELECT dp_int.shown_epsilon(a.proven_epsilon) FROM dp_int.account a JOIN dp_int.dataset d ON d.account = a.id WHERE d.name = $1`, w.dataset)
	want := "dpsidecar: at delta 1e-07 what is spent counts as epsilon " + after + ", not " + before
	if told := heard(); before == after || !slices.Contains(told, want) {
		t.Errorf("told %q, want %q", told, want)
	}
	told := len(heard())
	w.exec(steward, `SELECT dp_set_budget($1, 3, 1e-7)`, w.dataset)
	w.exec(steward, `SELECT dp_set_budget($1, 3, 1e-5)`, w.dataset)
	if more := heard()[told:]; len(more) > 0 {
		t.Errorf("told %q", more)
	}
	w.exec(w.steward, `SELECT dp_unregister($1)`, w.dataset)
	told = len(heard())
	w.exec(steward, `SELECT dp_register($1, $2::text::regclass, 'amount', '{age}', 4, 1e-7)`, w.dataset, "public."+w.dataset)
	if more := heard()[told:]; !slices.Contains(more, want) {
		t.Errorf("told %q by a registration, want %q", more, want)
	}
}

// A delta lowered below what mechanisms have spent of it leaves nothing, not even
// to what has none of its own, and what is shown is what is proved at that delta.
func TestALoweredDeltaLeavesNothing(t *testing.T) {
	for _, accounting := range []string{"zcdp", "rdp"} {
		w := newWorld(t, 3, 1e-5)
		w.registerAgain(accounting, 3, 1e-5)
		w.mustCharge(privacy.Compose{privacy.Approx{Epsilon: .3, Delta: 1e-6}, privacy.ZCDP{Rho: .001}})
		before := w.spent()
		w.exec(w.steward, `SELECT dp_set_budget($1, 3, 1.05e-6)`, w.dataset)
		_, err := w.charge(privacy.ZCDP{Rho: .01})
		w.wantRefusal(err, "set below what earlier requests have spent of it")
		if spent := w.spent(); !(spent > before) || math.IsInf(spent, 0) {
			t.Errorf("%s: %v is spent at 5e-8, %v at 9e-6", accounting, spent, before)
		}
		w.exec(w.steward, `SELECT dp_set_budget($1, 3, 1e-9)`, w.dataset)
		_, err = w.charge(privacy.ZCDP{Rho: .01})
		w.wantRefusal(err, "set below what earlier requests have spent of it")
		if spent := w.spent(); !math.IsInf(spent, 1) {
			t.Errorf("%s: %v is spent at a delta below the mechanisms'", accounting, spent)
		}
		if spent := one[float64](w, w.super, `SELECT dp_int.proven($1, 25, 0.1, 0.0000001000000000000001, 0.0000001)`, accounting); !math.IsInf(spent, 1) {
			t.Errorf("%s: %v is proved at delta 0", accounting, spent)
		}
		if left := one[float64](w, w.steward, `SELECT epsilon_remaining FROM dp.budget WHERE dataset = $1`, w.dataset); left != 0 {
			t.Errorf("%s: %v is left", accounting, left)
		}
		w.exec(w.steward, `SELECT dp_set_budget($1, 3, 1e-5)`, w.dataset)
		w.mustCharge(privacy.ZCDP{Rho: .01})
		if wrong := w.verify(); len(wrong) > 0 {
			t.Error(wrong)
		}
	}
}

// A refund that brings the deltas back under the reserve is seen by every caller.
func TestARefundedDeltaIsSeenByEverybody(t *testing.T) {
	w := newWorld(t, 3, 1e-5)
	ctx, spend := context.Background(), ledger.Entry{Event: privacy.Approx{Epsilon: .1, Delta: 4e-7}, Rows: 1000}
	bob := w.newAnalyst("bob_" + w.person)
	if _, err := chargeAs(ctx, w.super, w.super, w.dataset, "bob_"+w.person, spend); err != nil {
		t.Fatal(err)
	}
	mine := w.mustCharge(spend.Event)
	w.exec(w.steward, `SELECT dp_set_budget($1, 3, 6e-7)`, w.dataset)
	spent := func() float64 {
		return one[float64](w, bob, `SELECT my_epsilon_spent FROM dp.budget WHERE dataset = $1`, w.dataset)
	}
	if v := spent(); !math.IsInf(v, 1) {
		t.Errorf("%v is spent", v)
	}
	w.exec(w.super, giveBack, mine.Job, mine.Token)
	if v := spent(); math.IsInf(v, 1) {
		t.Error("all is spent after the refund")
	}
}

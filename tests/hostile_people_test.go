package tests

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

// seen counts what somebody sees of the data set, its jobs and releases.
func (w *world) seen(conn *pgx.Conn) string {
	w.Helper()
	return one[string](w, conn, `SELECT format('%s data sets, %s budgets, %s jobs, %s releases, last release %s',
		(SELECT count(*) FROM dp.datasets WHERE dataset = $1), (SELECT count(*) FROM dp.budget WHERE dataset = $1), (SELECT count(*) FROM dp.jobs WHERE dataset = $1),
		(SELECT count(*) FROM dp.releases WHERE dataset = $1), dp_last_release($1) IS NOT NULL)`, w.dataset)
}

// Who has a dropped role's name is nobody's heir: neither of grants nor of jobs,
// releases and what was spent. A job left behind is refused, and spends nothing.
func TestADroppedRoleHasNoHeir(t *testing.T) {
	w := lonelyWorld(t, 10, 0)
	w.exec(w.steward, `SELECT dp_grant($1, $2, 0.5)`, w.dataset, w.person)
	left := one[string](w, w.analyst, `SELECT dp_submit('l1', $1, 0.2)::text`, w.dataset)
	w.exec(w.super, `REVOKE dp_analyst FROM `+w.person)
	w.exec(w.super, `ALTER ROLE `+w.person+` RENAME TO older`)
	w.exec(w.super, `ALTER ROLE older RENAME TO `+w.person)
	w.exec(w.super, `DROP ROLE `+w.person)
	if err := w.system.Login(context.Background(), w.person, "dp_analyst"); err != nil {
		t.Fatal(err)
	}
	heir := w.connect(w.system.URL(w.person))
	none := "0 data sets, 0 budgets, 0 jobs, 0 releases, last release f"
	if seen := w.seen(heir); seen != none {
		t.Errorf("before any answer the heir sees %s", seen)
	}
	if _, err := w.system.Serve(context.Background()); err != nil {
		t.Fatal(err)
	}
	w.eventually("the job that was left is refused", func() bool {
		return one[string](w, w.steward, `SELECT concat(status, ' ', sqlstate) FROM dp.jobs WHERE id = $1`, left) == "failed 42501"
	})
	_, err := regress(heir, ask, w.dataset, 0.1)
	w.wantError(err, "42501", "not granted")
	_, err = heir.Exec(context.Background(), `SELECT dp_cancel($1)`, left)
	w.wantError(err, "22023", "you have no job")
	_, err = heir.Exec(context.Background(), `SELECT * FROM dp_result($1)`, left)
	w.wantError(err, "22023", "you have no job")
	w.exec(w.steward, `SELECT dp_grant($1, $2, 0.5)`, w.dataset, w.person)
	w.mustRegress(heir, ask, w.dataset, 0.3)
	if seen := w.seen(heir); seen != "1 data sets, 1 budgets, 1 jobs, 1 releases, last release t" {
		t.Errorf("with a grant of his own the heir sees %s", seen)
	}
	// Both are told apart where they have spent.
	w.exec(w.super, `DROP ROLE `+w.person)
	if err := w.system.Login(context.Background(), w.person, "dp_analyst"); err != nil {
		t.Fatal(err)
	}
	third := w.connect(w.system.URL(w.person))
	w.exec(w.steward, `SELECT dp_grant($1, $2, 0.5)`, w.dataset, w.person)
	w.mustRegress(third, ask, w.dataset, 0.4)
	if n := one[int64](w, w.super, `SELECT count(*) FROM dp_int.caller_total WHERE caller = $1`, w.person); n != 2 {
		t.Errorf("%d totals for two people of one name", n)
	}
	if wrong := w.verify(); len(wrong) > 0 {
		t.Error(wrong)
	}
	// A grant to a role that is gone can be taken back by its name.
	w.exec(w.super, `DROP ROLE `+w.person)
	w.exec(w.steward, `SELECT dp_revoke($1, $2)`, w.dataset, w.person)
	_, err = w.steward.Exec(context.Background(), `SELECT dp_revoke($1, $2)`, w.dataset, w.person)
	w.wantError(err, "22023", "not granted")
}

// A renamed role is who it was: its limit, its jobs and its grants stay, also those
// of a job that waits.
func TestARenamedRoleStaysWhoItWas(t *testing.T) {
	w := lonelyWorld(t, 10, 0)
	w.exec(w.steward, `SELECT dp_grant($1, $2, 0.5)`, w.dataset, w.person)
	waiting := one[string](w, w.analyst, `SELECT dp_submit('l1', $1, 0.4)::text`, w.dataset)
	renamed := w.person + "_renamed"
	rename := func(from, to string) {
		w.exec(w.super, fmt.Sprintf(`ALTER ROLE %s RENAME TO %s`, from, to))
		w.exec(w.super, fmt.Sprintf(`CREATE ROLE %s LOGIN IN ROLE dp_analyst`, from))
	}
	rename(w.person, renamed)
	if _, err := w.system.Serve(context.Background()); err != nil {
		t.Fatal(err)
	}
	w.eventually("the job is done", func() bool { return one[string](w, w.analyst, `SELECT status FROM dp_status($1)`, waiting) == "done" })
	if seen := w.seen(w.analyst); seen != "1 data sets, 1 budgets, 1 jobs, 1 releases, last release t" {
		t.Errorf("under a new name: %s", seen)
	}
	_, err := regress(w.analyst, ask, w.dataset, 0.2)
	w.wantError(err, "DP002", `"`+renamed+`"`)
	w.mustRegress(w.analyst, ask, w.dataset, 0.1)
	if row := one[string](w, w.analyst, `SELECT format('%s of %s', my_epsilon_spent, my_epsilon_total) FROM dp.budget WHERE dataset = $1`, w.dataset); row != "0.5 of 0.5" {
		t.Errorf("under a new name: spent %s", row)
	}
	if names := strings.Join(all[string](w, w.steward, `SELECT caller FROM dp.ledger WHERE dataset = $1 AND kind = 'charge' ORDER BY id`, w.dataset), " "); names != renamed+" "+renamed {
		t.Errorf("charged to %s", names)
	}
	if wrong := w.verify(); len(wrong) > 0 {
		t.Error(wrong)
	}
}

// A copy of the database in another cluster, in which the same OIDs are other people's,
// hands nobody what was another's until a name is bound.
func TestRolesOfAnotherClusterAreNobody(t *testing.T) {
	w := lonelyWorld(t, 10, 0)
	if _, err := w.system.Serve(context.Background()); err != nil {
		t.Fatal(err)
	}
	w.exec(w.steward, `SELECT dp_grant($1, $2, 0.5)`, w.dataset, w.person)
	w.mustRegress(w.analyst, ask, w.dataset, 0.4)
	lost := w.newAnalyst("lost")
	w.mustRegress(lost, ask, w.dataset, 0.4)
	w.exec(w.super, `UPDATE dp_int.principal SET cluster = cluster + 1`) // as a dump from elsewhere has it
	if seen := w.seen(w.analyst); seen != "0 data sets, 0 budgets, 0 jobs, 0 releases, last release f" {
		t.Errorf("who has the OID here sees %s", seen)
	}
	_, err := regress(w.analyst, ask, w.dataset, 0.4)
	w.wantError(err, "42501", "not granted")
	_, err = w.steward.Exec(context.Background(), `SELECT dp_grant($1, $2)`, w.dataset, w.person)
	w.wantError(err, "55000", "dp_int.rebind_roles()")
	w.exec(w.super, `ALTER ROLE lost RENAME TO found`)
	bound := all[string](w, w.super, `SELECT format('%s %s', principal, bound) FROM dp_int.rebind_roles() ORDER BY 1`)
	if want := fmt.Sprintf("[%s t lost f]", w.person); fmt.Sprint(bound) != want {
		t.Errorf("bound %v, want %s", bound, want)
	}
	_, err = regress(w.analyst, ask, w.dataset, 0.2)
	w.wantError(err, "DP002", "0.1 of 0.5")
	if seen := w.seen(lost); !strings.HasPrefix(seen, "0 data sets") {
		t.Errorf("who is not bound sees %s", seen)
	}
	w.exec(w.steward, `SELECT dp_grant($1, 'found')`, w.dataset) // a new person, from here on
	if wrong := w.verify(); len(wrong) > 0 {
		t.Error(wrong)
	}
}

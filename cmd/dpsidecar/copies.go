package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"dpsidecar/internal/install"
)

const adoptManual = `A database that was restored from a dump, or made from a template, knows that it is a
copy, and answers nothing until it is adopted. Copy and original both hold what is left of
every budget, and both protect the same people: say which of them goes on.

  --original-is-gone   The original is lost, or will never answer again. What is left is left
                       here. If the copy is older than the last charge, what was spent since is
                       forgotten: see dpsidecar verify --expect, and lower the budgets by it.
  --this-is-a-copy     The original goes on. Here nothing is left to spend; what was released
                       is answered again, free. A steward may give the copy a share with
                       dp_set_budget, after taking as much away from the original's.

Data sets are bound to the relations of this database by their names, after the checks of
dp_register. Jobs that were charged when the copy was made are abandoned: the original may
release under their charge. The loopback points here, with a new password. The ledger says
all of this. A copy of the cluster's files (a snapshot, a promoted standby) cannot know that
it is one: unless it takes the original's place, give it --this-is-a-copy before anybody asks.
`

const verifyManual = `The last lines are the heads: the newest entry of every account. A ledger whose newest
entries were cut off, or an older backup, is sound in itself; only heads that were kept
outside the database show it. dpsidecar serve logs the new head with every charge. FILE holds
such lines, as text or JSON, or what verify has printed, among any others; each must be of
this database.
`

const uninstallManual = `Writes the ledger and its heads, releases, coefficients and registrations into DIR first.
Then functions, views and tables go, the loopback, and each role dp_* that nothing in the
cluster depends on; others are listed. Nothing goes while a sidecar is connected, or while a
view, function, constraint or the like of somebody's depends on one of dpsidecar's.

The people in the tables stay protected by the budget that was spent, nowhere else written
than in those files: whoever installs again must register with what was left.
`

var errWhich = errors.New("copy and original both hold what is left of every budget: say --original-is-gone or --this-is-a-copy, see dpsidecar adopt --help")

func setupAdopt(fs *flag.FlagSet) action {
	admin := connectionFlags(fs, "admin-url", "admin-password-file", "")
	loopback := addLoopbackFlags(fs)
	gone := fs.Bool("original-is-gone", false, "the original will never answer again: what is left of budgets is left here")
	copied := fs.Bool("this-is-a-copy", false, "the original goes on: here nothing is left until a steward sets a budget")
	return func(ctx context.Context, c console, _ []string) error {
		if *gone == *copied {
			return fmt.Errorf("%w: %w", errUsage, errWhich)
		}
		config, err := loopback.config()
		if err != nil {
			return err
		}
		if config.Admin, err = admin.config(c.getenv); err != nil {
			return err
		}
		result, adopted, err := install.Adopt(ctx, config, *gone)
		if err != nil {
			printMissing(c.out, config.Admin.Database, err)
			return err
		}
		printInstalled(c.out, config.Admin.Database, result)
		printAdopted(c, adopted, *gone)
		return nil
	}
}

func printAdopted(c console, adopted []install.Adopted, gone bool) {
	fmt.Fprintln(c.out, "\nAdopted, with the epsilon that is left here:")
	for _, a := range adopted {
		fmt.Fprintf(c.out, "  %s  (%s)  %g\n", a.Dataset, a.Relation, a.Remaining)
	}
	if gone {
		fmt.Fprintln(c.out, "\nThe original must never answer again. Compare the ledger with heads that were kept\noutside, dpsidecar verify --expect FILE: what is missing was spent, and is not counted here.")
	} else {
		fmt.Fprintln(c.out, "\nThe original goes on. A steward may give this copy a share of a budget with\ndp_set_budget, after taking as much away from the original's.")
	}
}

// printDrop prints the statements that remove roles which stay only for their rights on tables. dp_owner owns
// what keeps it, and loopbacks belong to other databases.
func printDrop(w io.Writer, stay []string) {
	var roles []string
	for _, r := range stay {
		if slices.Contains([]string{"dp_admin", "dp_analyst", "dp_sidecar"}, r) {
			roles = append(roles, r)
		}
	}
	if len(roles) == 0 {
		return
	}
	list := strings.Join(roles, ", ")
	fmt.Fprintf(w, "If no other database of the cluster has dpsidecar, these statements remove %s with all rights:\n  DROP OWNED BY %[1]s;  -- in each database where a role has rights\n  DROP ROLE %[1]s;\n", list)
}

func setupUninstall(fs *flag.FlagSet) action {
	admin := connectionFlags(fs, "admin-url", "admin-password-file", "")
	dir := fs.String("export", "", "first write ledger, releases, coefficients and registrations into new files in `DIR`; required")
	confirm := fs.String("confirm", "", "the name of the `DATABASE`, to show that it is meant; required")
	return func(ctx context.Context, c console, _ []string) error {
		config, err := admin.config(c.getenv)
		if err != nil {
			return err
		}
		database := cmp.Or(config.Database, config.User) // the server's default
		switch {
		case *dir == "":
			return fmt.Errorf("%w: the ledger and all releases would be lost: say with --export where to write them first", errUsage)
		case *confirm != database:
			return fmt.Errorf("%w: this removes dpsidecar from database %q, with all releases: confirm it with --confirm %s", errUsage, database, database)
		}
		files, stay, err := install.Uninstall(ctx, config, *dir)
		for _, f := range files {
			fmt.Fprintln(c.out, "wrote", filepath.Clean(f))
		}
		if err != nil {
			return err
		}
		fmt.Fprintf(c.out, "dpsidecar is removed from database %s.\n", database)
		if len(stay) > 0 {
			fmt.Fprintf(c.out, "Roles that stay, because something still depends on them, another database or rights on tables: %s.\n", strings.Join(stay, ", "))
			printDrop(c.out, stay)
		}
		return nil
	}
}

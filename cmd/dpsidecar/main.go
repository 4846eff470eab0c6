// Command dpsidecar fits regressions with differential privacy from SQL: it installs the database side,
// works on the jobs, and has a demonstration.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	err := run(ctx, os.Args[1:], console{os.Stdout, os.Stderr, os.Getenv})
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
	case errors.Is(err, errUsage):
		fmt.Fprintln(os.Stderr, describe(err))
		os.Exit(2)
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		fmt.Fprintln(os.Stderr, "dpsidecar: interrupted")
		os.Exit(130)
	default:
		fmt.Fprintln(os.Stderr, "dpsidecar:", describe(err))
		os.Exit(1)
	}
}

// console is the part of the process that a command uses.
type console struct {
	out, log io.Writer
	getenv   func(string) string
}

var errUsage = errors.New("dpsidecar: wrong usage")

// command is one subcommand. setup declares its flags and returns the action that runs once the flags are
// set; args are the remaining arguments.
type command struct {
	name, args, summary string
	setup               func(fs *flag.FlagSet) func(ctx context.Context, c console, args []string) error
}

func commands() []command {
	return []command{
		{"install", "", "put roles, schema and loopback into a database", setupInstall},
		{"adopt", "", "make a restored or cloned database an installation of its own", setupAdopt},
		{"migrate", "up | down | version", "move the schema of a database", setupMigrate},
		{"serve", "", "run the sidecar", setupServe},
		{"check", "", "is everything in place?", setupCheck},
		{"ready", "", "ask a sidecar at its admin listener whether it is ready, for health checks", setupReady},
		{"verify", "", "recompute the ledger and hold releases, charges and jobs against it", setupVerify},
		{"uninstall", "", "export the ledger and all releases, and remove dpsidecar from a database", setupUninstall},
		{"dev", "", "run a private Postgres with everything installed", setupDev},
		{"demo", "", "show private regression on a throw-away Postgres", setupDemo},
		{"experiments", "", "re-run the studies of the papers: tables and plots", setupExperiments},
		{"account", "", "print what histories cost: one on each line of standard input", setupAccount},
		{"audit", "", "try to refute what the mechanisms promise", setupAudit},
		{"version", "", "print the version", setupVersion},
	}
}

// manuals holds the text of help after the flags, by command.
var manuals = map[string]string{"account": accountManual, "adopt": adoptManual, "uninstall": uninstallManual, "verify": verifyManual}

func run(ctx context.Context, args []string, c console) error {
	if len(args) == 0 {
		usage(c.log)
		return errUsage
	}
	for _, cmd := range commands() {
		if cmd.name == args[0] {
			return cmd.run(ctx, c, args[1:])
		}
	}
	switch args[0] {
	case "help", "-h", "-help", "--help":
		return help(ctx, args[1:], c)
	case "-version", "--version":
		return run(ctx, []string{"version"}, c)
	}
	return fmt.Errorf("%w: there is no command %q; see dpsidecar help", errUsage, args[0])
}

// help lists the commands, or the flags of the command that is named.
func help(ctx context.Context, args []string, c console) error {
	if len(args) == 0 {
		usage(c.out)
		return nil
	}
	for _, cmd := range commands() {
		if cmd.name == args[0] && len(args) == 1 {
			return cmd.run(ctx, c, []string{"--help"})
		}
	}
	return fmt.Errorf("%w: there is no command %q; see dpsidecar help", errUsage, strings.Join(args, " "))
}

func usage(w io.Writer) {
	fmt.Fprint(w, "dpsidecar fits regressions with differential privacy, from SQL.\n\nusage: dpsidecar COMMAND [flags]\n\n")
	for _, cmd := range commands() {
		fmt.Fprintf(w, "  %-11s %-20s %s\n", cmd.name, cmd.args, cmd.summary)
	}
	fmt.Fprint(w, "\ndpsidecar help COMMAND lists the flags. Each may stand in the environment, as\nDPSIDECAR_ and its name in capitals, or in the file that --config names.\n")
}

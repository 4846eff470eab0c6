package main

import (
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"dpsidecar/internal/admin"
	"dpsidecar/internal/demo"
	"dpsidecar/internal/dev"
	"dpsidecar/internal/install"
	"dpsidecar/internal/job"
	"dpsidecar/internal/ledger"
	"dpsidecar/internal/spill"
	"dpsidecar/internal/version"
	"dpsidecar/sql"
)

// action runs a command once its flags have their values.
type action = func(ctx context.Context, c console, args []string) error

func setupInstall(fs *flag.FlagSet) action {
	admin := connectionFlags(fs, "admin-url", "admin-password-file", "")
	loopback := addLoopbackFlags(fs)
	script := fs.Bool("print-sql", false, "print all SQL that an installation runs, and run nothing")
	sidecar := fs.String("sidecar-password-file", "", "read the password of dp_sidecar from `FILE`, which is made if it is missing; else it is made and printed once")
	return func(ctx context.Context, c console, _ []string) (err error) {
		config, err := loopback.config()
		if err != nil {
			return err
		}
		if *script {
			return install.Print(c.out)
		}
		if config.Admin, err = admin.config(c.getenv); err != nil {
			return err
		}
		if *sidecar != "" {
			if config.SidecarPassword, err = readOrMakePassword(*sidecar); err != nil {
				return err
			}
		}
		result, err := install.Run(ctx, config)
		if err != nil {
			printMissing(c.out, config.Admin.Database, err)
			printEarlier(c.out, result)
			return err
		}
		printInstalled(c.out, config.Admin.Database, result)
		return nil
	}
}

// loopbackFlags are the flags for the address at which the server reaches itself.
type loopbackFlags struct {
	host *string
	port *uint
}

func addLoopbackFlags(fs *flag.FlagSet) loopbackFlags {
	return loopbackFlags{
		fs.String("loopback-host", "", "`HOST` where the server reaches itself, and a standby its primary; else as it is, in a new installation or a copy 127.0.0.1"),
		fs.Uint("loopback-port", 0, "`PORT` where the server reaches itself; else as it is, in a new installation or a copy the server's own"),
	}
}

func (l loopbackFlags) config() (install.Config, error) {
	if *l.port > 65535 {
		return install.Config{}, fmt.Errorf("%w: no port %d", errUsage, *l.port)
	}
	return install.Config{LoopbackHost: *l.host, LoopbackPort: uint16(*l.port)}, nil
}

// printMissing prints the script that an administrator must run first, if err reports that it has not been
// run.
func printMissing(w io.Writer, database string, err error) {
	var missing *install.PrerequisiteError
	if errors.As(err, &missing) {
		fmt.Fprintf(w, "-- Let an administrator run this in database %s, then try again:\n\n%s\n", database, missing.Script)
	}
}

// printInstalled prints the outcome of an installation, and its checks.
func printInstalled(w io.Writer, database string, r install.Result) {
	fmt.Fprintf(w, "dpsidecar is installed in database %s, schema version %d.\n\n", database, r.Version)
	printChecks(w, r.Checks)
	printEarlier(w, r)
	if r.SidecarPassword != "" {
		fmt.Fprintf(w, "\nThe password of dp_sidecar, shown this once: %s\n", r.SidecarPassword)
	}
}

// printEarlier prints which roles were there before a first installation, if any were.
func printEarlier(w io.Writer, r install.Result) {
	if r.Earlier != "" {
		fmt.Fprintf(w, "\nThese roles were there before, and keep their passwords: %s.\n", r.Earlier)
		fmt.Fprintln(w, "If no other database of this server has dpsidecar, somebody else made them, and may be logged in as one of them: run dpsidecar uninstall, which drops them, and install again.")
	}
}

// printChecks prints the checks, and reports whether all passed.
func printChecks(w io.Writer, checks []install.Check) bool {
	passed := true
	for _, check := range checks {
		mark := "ok"
		if !check.OK {
			mark, passed = "NO", false
		}
		fmt.Fprintf(w, "  %-3s %s: %s\n", mark, check.Item, check.Detail)
	}
	return passed
}

// readOrMakePassword reads the password in the file; if there is no file it creates one with a random
// password.
func readOrMakePassword(file string) (string, error) {
	password, err := readPassword(file)
	if !errors.Is(err, fs.ErrNotExist) {
		return password, err
	}
	password = rand.Text()
	return password, os.WriteFile(file, []byte(password+"\n"), 0o600)
}

func setupMigrate(fs *flag.FlagSet) action {
	admin := connectionFlags(fs, "admin-url", "admin-password-file", "")
	return func(ctx context.Context, c console, args []string) error {
		if len(args) != 1 {
			return fmt.Errorf("%w: migrate up, down or version", errUsage)
		}
		move, ok := map[string]func(context.Context, *pgx.ConnConfig) (int, error){
			"up": upgrade, "down": install.Down, "version": install.Version,
		}[args[0]]
		if !ok {
			return fmt.Errorf("%w: migrate up, down or version", errUsage)
		}
		config, err := admin.config(c.getenv)
		if err != nil {
			return err
		}
		at, err := move(ctx, config)
		if err != nil {
			return err
		}
		fmt.Fprintf(c.out, "version %d of %d\n", at, install.Latest())
		return nil
	}
}

// upgrade calls install.Up if dpsidecar is installed in the database. Otherwise Up would make a schema
// without the loopback connection, through which calls queue requests.
func upgrade(ctx context.Context, admin *pgx.ConnConfig) (int, error) {
	at, err := install.Version(ctx, admin)
	if err == nil && at == 0 {
		err = errors.New("dpsidecar is not installed in this database: run dpsidecar install, which also creates its loopback connection")
	}
	if err != nil {
		return at, err
	}
	return install.Up(ctx, admin)
}

func setupServe(fs *flag.FlagSet) action {
	database := connectionFlags(fs, "database-url", "password-file", "dp_sidecar")
	jobs := fs.Int("jobs", 4, "work on `N` jobs at a time; give twice the number of cores")
	jobTime := fs.Duration("job-time", time.Hour, "end a job that has read and fitted for this `TIME`; the same request tries again under its charge")
	lease := fs.Duration("lease", 30*time.Second, "a job whose sidecar is silent for this `TIME` goes to another")
	grace := fs.Duration("grace", 20*time.Second, "on SIGTERM, jobs have this `TIME` to end")
	listen := fs.String("admin-listen", "", "answer /live, /ready and /metrics at this `ADDRESS`, for instance 127.0.0.1:9464; else nowhere")
	limit := memory(-1)
	fs.Func("job-memory", "refuse a job that needs more memory than this `SIZE`, for instance 4GiB, 0 for no limit; else three quarters of the machine's, shared among jobs",
		func(text string) error { return limit.UnmarshalText([]byte(text)) })
	spillDir := fs.String("spill-dir", "", "keep rows that need more than job-memory in files without a name in `DIR`; else they stay in the database or such a job is refused")
	servers := ""
	fs.Func("node", "ask a foreign server directly whose tables are partitions of a data set: `SERVER=URL`, again for each, or several with blanks between them",
		func(text string) error { servers += " " + text; return nil })
	log := loggingFlags(fs)
	return func(ctx context.Context, c console, _ []string) error {
		if *jobs < 1 || *jobTime < time.Second || *lease < time.Second || *grace < 0 {
			return fmt.Errorf("%w: jobs is at least 1, job-time and lease at least 1s, grace at least 0s; they are %d, %v, %v and %v", errUsage, *jobs, *jobTime, *lease, *grace)
		}
		logger, err := log.logger(c)
		if err != nil {
			return err
		}
		if *spillDir != "" {
			if err := spill.Check(*spillDir); err != nil {
				return fmt.Errorf("%w: --spill-dir: %w", errUsage, err)
			}
		}
		asked, err := nodes(servers)
		if err != nil {
			return err
		}
		pool, err := pgxpool.ParseConfig("")
		if err != nil {
			return err
		}
		if pool.ConnConfig, err = database.config(c.getenv); err != nil {
			return err
		}
		if limit < 0 {
			limit = memory(memoryPerJob(*jobs))
		}
		metrics := admin.NewMetrics(version.String())
		s := job.New(job.Config{
			Database: pool, Jobs: *jobs, JobTime: *jobTime, Lease: *lease, Grace: *grace, Memory: int64(limit), SpillDir: *spillDir, Nodes: asked,
			Schema: sql.Current(), Watch: metrics, Version: version.String(), Log: logger,
		})
		if *listen == "" {
			return s.Run(ctx)
		}
		l, err := net.Listen("tcp", *listen)
		if err != nil {
			return err
		}
		logger.Info("admin listener", "address", l.Addr().String())
		return serveWith(ctx, s, func(ctx context.Context) error { return metrics.Serve(ctx, l, s) })
	}
}

// serveWith runs the sidecar and the admin listener until either ends.
func serveWith(ctx context.Context, s *job.Sidecar, listen func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	listener := make(chan error, 1)
	go func() { defer cancel(); listener <- listen(ctx) }()
	err := s.Run(ctx)
	cancel()
	return errors.Join(err, <-listener)
}

func setupCheck(fs *flag.FlagSet) action {
	database := connectionFlags(fs, "database-url", "password-file", "dp_sidecar")
	return func(ctx context.Context, c console, _ []string) error {
		config, err := database.config(c.getenv)
		if err != nil {
			return err
		}
		config.RuntimeParams["client_encoding"] = "UTF8" // names of data sets may have any letters
		conn, err := pgx.ConnectConfig(ctx, config)
		if err != nil {
			return err
		}
		defer conn.Close(ctx)
		// dp_check_install of another version would give advice for that version.
		if err := job.CheckSchema(ctx, conn, sql.Current()); err != nil {
			return err
		}
		checks, err := install.CheckAll(ctx, conn)
		if err != nil {
			return err
		}
		if !printChecks(c.out, checks) {
			return errors.New("not everything is in place")
		}
		return nil
	}
}

func setupVerify(fs *flag.FlagSet) action {
	database := connectionFlags(fs, "database-url", "password-file", "")
	expect := fs.String("expect", "", "hold the ledger against the heads in `FILE`: what verify printed or serve logged before")
	return func(ctx context.Context, c console, _ []string) error {
		kept, err := readHeads(*expect)
		if err != nil {
			return err
		}
		config, err := database.config(c.getenv)
		if err != nil {
			return err
		}
		config.RuntimeParams["client_encoding"] = "UTF8" // names of data sets may have any letters
		conn, err := pgx.ConnectConfig(ctx, config)
		if err != nil {
			return err
		}
		defer conn.Close(ctx)
		// All statements read the same snapshot.
		tx, err := conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
		if err != nil {
			return err
		}
		// A long ledger takes longer than the limits that a database may have. They are lifted for the transaction alone, as
		// the session may be a pooler's; Postgres has the last since 17.
		if _, err := tx.Exec(ctx, `SELECT pg_catalog.set_config(name, '0', true)
			FROM (VALUES ('statement_timeout'), ('idle_in_transaction_session_timeout'), ('transaction_timeout')) AS v(name)
			WHERE pg_catalog.current_setting(name, true) IS NOT NULL`); err != nil {
			return err
		}
		findings, err := ledger.Verify(ctx, tx, kept...)
		if err != nil {
			return adviseVerify(ctx, tx, conn, err)
		}
		heads, err := ledger.Heads(ctx, tx)
		if err != nil {
			return adviseSteward(err)
		}
		passed := true
		for _, f := range findings {
			mark := "ok"
			if !f.OK {
				mark, passed = "NO", false
			}
			fmt.Fprintln(c.out, strings.TrimRight(fmt.Sprintf("  %-3s %s  %s", mark, f.Item, f.Detail), " "))
		}
		if err := recordVerify(ctx, tx, conn, passed); err != nil {
			fmt.Fprintln(c.log, "dpsidecar: the result is not recorded for the metrics:", describe(err))
		}
		if !passed {
			return errors.New("the ledger does not hold")
		}
		for _, h := range heads {
			fmt.Fprintln(c.out, h)
		}
		return nil
	}
}

// readHeads reads kept heads from a file; none without a file.
func readHeads(file string) ([]ledger.Head, error) {
	if file == "" {
		return nil, nil
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	heads, err := ledger.ReadHeads(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return heads, nil
}

// recordVerify ends the snapshot of a verification and records its result in the database, for the metrics.
// A standby cannot record it, which is an error.
func recordVerify(ctx context.Context, tx pgx.Tx, conn *pgx.Conn, passed bool) error {
	if err := tx.Rollback(ctx); err != nil {
		return err
	}
	_, err := conn.Exec(ctx, "SELECT dp.record_verify($1)", passed)
	return err
}

func setupDev(fs *flag.FlagSet) action {
	port := fs.Uint("port", 0, "`PORT` of Postgres; else the one it had, or a free one")
	dir := fs.String("dir", "", "keep the cluster in `DIR` and use it again; else nothing is kept")
	log := loggingFlags(fs)
	return func(ctx context.Context, c console, _ []string) error {
		if *port > 65535 {
			return fmt.Errorf("%w: no port %d", errUsage, *port)
		}
		logger, err := log.logger(c)
		if err != nil {
			return err
		}
		s, err := dev.Start(ctx, dev.Options{Dir: *dir, Port: int(*port), Version: version.String(), Log: logger})
		if err != nil {
			return err
		}
		if _, err := s.Serve(ctx); err != nil {
			return errors.Join(err, s.Stop())
		}
		fmt.Fprintf(c.out, "DPSIDECAR_SUPERUSER_URL=%s\nDPSIDECAR_STEWARD_URL=%s\nDPSIDECAR_ANALYST_URL=%s\nready\n",
			s.SuperuserURL(), s.StewardURL(), s.AnalystURL())
		<-ctx.Done()
		return s.Stop()
	}
}

func setupDemo(*flag.FlagSet) action {
	return func(ctx context.Context, c console, _ []string) error {
		return demo.Run(ctx, c.out)
	}
}

func setupVersion(*flag.FlagSet) action {
	return func(_ context.Context, c console, _ []string) error {
		_, err := fmt.Fprintf(c.out, "dpsidecar %s, schema %d with functions %s, %s\n", version.String(), install.Latest(), sql.Current().Fingerprint, runtime.Version())
		return err
	}
}

package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// run parses the command line, sets the remaining flags from the environment and the settings file, and
// runs the command.
func (cmd command) run(ctx context.Context, c console, args []string) error {
	fs := cmd.flags()
	do := cmd.setup(fs)
	describeWantedValues(fs)
	rest, err := parse(fs, args)
	if errors.Is(err, flag.ErrHelp) {
		cmd.help(c.out, fs)
		return err
	} else if err != nil {
		return fmt.Errorf("%w: %w; see dpsidecar %s --help", errUsage, err, cmd.name)
	}
	if cmd.args == "" && len(rest) > 0 {
		if strings.Contains(rest[0], "://") { // it may hold a password
			return fmt.Errorf("%w: %s takes no argument: name a database with a flag, see dpsidecar %[2]s --help", errUsage, cmd.name)
		}
		return fmt.Errorf("%w: %s takes no argument %q", errUsage, cmd.name, rest[0])
	}
	if err := fillFlags(fs, c.getenv); err != nil {
		return err
	}
	return do(ctx, c, rest)
}

// flags returns a flag set with the flag that every command has. It prints nothing.
func (cmd command) flags() *flag.FlagSet {
	fs := flag.NewFlagSet(cmd.name, flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.String("config", "", "read settings from `FILE`: lines of name = value, named like the flags")
	return fs
}

// help prints the command's flags and its manual.
func (cmd command) help(w io.Writer, fs *flag.FlagSet) {
	fmt.Fprintf(w, "usage: dpsidecar %s [flags] %s\n%s\n\n", cmd.name, cmd.args, sentence(cmd.summary))
	fs.VisitAll(func(f *flag.Flag) {
		value, text := flag.UnquoteUsage(f)
		if f.DefValue != "" && f.DefValue != "0" {
			text += ", default " + f.DefValue
		}
		fmt.Fprintf(w, "  --%s %s\n      %s (%s)\n", f.Name, value, text, environmentVariable(f.Name))
	})
	if text := manuals[cmd.name]; text != "" {
		fmt.Fprint(w, "\n"+text)
	}
}

// sentence capitalises a summary and adds a full stop.
func sentence(s string) string {
	s = strings.ToUpper(s[:1]) + s[1:]
	if strings.HasSuffix(s, "?") {
		return s
	}
	return s + "."
}

// parse accepts flags before, between and after the arguments.
func parse(fs *flag.FlagSet, args []string) (rest []string, err error) {
	for {
		if err := fs.Parse(args); err != nil {
			return nil, err
		}
		if fs.NArg() == 0 {
			return rest, nil
		}
		rest = append(rest, fs.Arg(0))
		args = fs.Args()[1:]
	}
}

// flagWithHint is a flag whose error says which values it takes; package flag's own error is "parse error".
type flagWithHint struct {
	flag.Value
	want string
}

func (d flagWithHint) Set(text string) error {
	if d.Value.Set(text) != nil {
		return errors.New("want " + d.want)
	}
	return nil
}

func (d flagWithHint) IsBoolFlag() bool {
	b, ok := d.Value.(interface{ IsBoolFlag() bool })
	return ok && b.IsBoolFlag()
}

// describeWantedValues adds a hint to the errors of flags of the usual types.
func describeWantedValues(fs *flag.FlagSet) {
	fs.VisitAll(func(f *flag.Flag) {
		getter, _ := f.Value.(flag.Getter)
		if getter == nil {
			return // a type of this package, with an error of its own
		}
		want := ""
		switch getter.Get().(type) {
		case bool:
			want = "true or false"
		case int:
			want = "a whole number"
		case uint:
			want = "a whole number, not negative"
		case time.Duration:
			want = "a time like 30s or 1m30s"
		case *slog.Level:
			want = "debug, info, warn or error"
		default:
			return
		}
		f.Value = flagWithHint{f.Value, want}
	})
}

// environmentVariable returns the environment variable for a flag.
func environmentVariable(name string) string {
	return "DPSIDECAR_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
}

// fillFlags sets every flag that is not on the command line from the environment or, if it is not set
// there, from the settings file.
func fillFlags(fs *flag.FlagSet, getenv func(string) string) error {
	given := map[string]bool{}
	fs.Visit(func(f *flag.Flag) { given[f.Name] = true })
	set := func(name, value, source string) error {
		if value == "" || given[name] {
			return nil
		}
		given[name] = true
		if err := fs.Set(name, value); err != nil {
			return fmt.Errorf("%w: %s: invalid value %q: %w", errUsage, source, value, err)
		}
		return nil
	}
	var err error
	fs.VisitAll(func(f *flag.Flag) {
		err = errors.Join(err, set(f.Name, getenv(environmentVariable(f.Name)), environmentVariable(f.Name)))
	})
	if err != nil {
		return err
	}
	file := fs.Lookup("config").Value.String()
	settings, err := readSettings(file)
	if err != nil {
		return err
	}
	for _, s := range settings {
		if fs.Lookup(s.name) != nil {
			err = errors.Join(err, set(s.name, s.value, fmt.Sprintf("%s:%d: %s", file, s.line, s.name)))
		}
	}
	return err
}

type setting struct {
	name, value string
	line        int
}

// readSettings reads a file of settings. It may hold settings of several commands, but every setting must
// belong to some command.
func readSettings(file string) ([]setting, error) {
	if file == "" {
		return nil, nil
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	known := settingNames()
	var all []setting
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		name, value, ok := strings.Cut(line, "=")
		name = strings.TrimSpace(name)
		if !ok || !slices.Contains(known, name) {
			return nil, fmt.Errorf("%w: %s:%d: no setting %q", errUsage, file, n, name)
		}
		all = append(all, setting{name, strings.TrimSpace(value), n})
	}
	return all, lines.Err()
}

// settingNames returns the flags of all commands.
func settingNames() (names []string) {
	for _, cmd := range commands() {
		fs := flag.NewFlagSet("", flag.ContinueOnError)
		cmd.setup(fs)
		fs.VisitAll(func(f *flag.Flag) { names = append(names, f.Name) })
	}
	return names
}

// connection describes how a command reaches the database: a URL; PG* and the password file of libpq for
// parts that the URL leaves out; and a file with the password.
type connection struct {
	name              string // of the flag for the URL
	url, passwordFile *string
	user              string // used if no user is given
}

func connectionFlags(fs *flag.FlagSet, url, passwordFile, user string) connection {
	return connection{
		url,
		fs.String(url, "", "`URL` of the database; PG* and DATABASE_URL serve too"),
		fs.String(passwordFile, "", "read the password from `FILE`; else from PGPASSFILE or ~/.pgpass"),
		user,
	}
}

func (c connection) config(getenv func(string) string) (*pgx.ConnConfig, error) {
	url := *c.url
	if url == "" {
		url = getenv("DATABASE_URL")
	}
	if url == "" && getenv("PGDATABASE") == "" && getenv("PGSERVICE") == "" {
		return nil, fmt.Errorf("%w: no database is named: give --%s, DATABASE_URL or PGDATABASE", errUsage, c.name)
	}
	if url == "" && getenv("PGUSER") == "" && c.user != "" {
		url = "user=" + c.user
	}
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, c.unreadable(err)
	}
	if *c.passwordFile != "" {
		if config.Password, err = readPassword(*c.passwordFile); err != nil {
			return nil, err
		}
	}
	return config, nil
}

// unreadable returns the error for a connection string that cannot be parsed; err leaves its password out.
func (c connection) unreadable(err error) error {
	if *c.url == "" { // DATABASE_URL or PG*
		return fmt.Errorf("%w: in the environment: %w; want DATABASE_URL=postgres://USER@HOST:PORT/DATABASE, or PGHOST, PGPORT and PGDATABASE", errUsage, err)
	}
	return fmt.Errorf("%w: --%s: %w; want postgres://USER@HOST:PORT/DATABASE", errUsage, c.name, err)
}

// readPassword returns the first line of a file, which must not be readable by everybody.
func readPassword(file string) (string, error) {
	info, err := os.Stat(file)
	if err != nil {
		return "", err
	}
	if info.Mode().IsRegular() && info.Mode().Perm()&0o007 != 0 && runtime.GOOS != "windows" {
		return "", fmt.Errorf("%s holds a password, and everybody can read it (mode %#o): chmod o= %[1]s, or 600", file, info.Mode().Perm())
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	password, _, _ := strings.Cut(string(text), "\n")
	password = strings.TrimSuffix(password, "\r")
	if password == "" {
		return "", fmt.Errorf("%s holds no password", file)
	}
	return password, nil
}

// logging holds the settings of a command's log.
type logging struct {
	format *string
	level  slog.Level
}

func loggingFlags(fs *flag.FlagSet) *logging {
	l := &logging{format: fs.String("log-format", "text", "`FORMAT` of the log: text or json")}
	fs.TextVar(&l.level, "log-level", slog.LevelInfo, "least `LEVEL` that is logged: debug, info, warn or error")
	return l
}

func (l *logging) logger(c console) (*slog.Logger, error) {
	options := &slog.HandlerOptions{Level: l.level, ReplaceAttr: logError}
	switch *l.format {
	case "text":
		return slog.New(slog.NewTextHandler(c.log, options)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(c.log, options)), nil
	}
	return nil, fmt.Errorf("%w: log-format is text or json, not %q", errUsage, *l.format)
}

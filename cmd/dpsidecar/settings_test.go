package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

// settingsTable is docs/reference/configuration.md from its first heading of a
// command on.
func settingsTable() string {
	var b strings.Builder
	for _, cmd := range commands() {
		fmt.Fprintf(&b, "\n## dpsidecar %s\n\n%s\n\n| flag | environment | default | meaning |\n|---|---|---|---|\n",
			strings.TrimSpace(cmd.name+" "+cmd.args), sentence(cmd.summary))
		fs := cmd.flags()
		cmd.setup(fs)
		fs.VisitAll(func(f *flag.Flag) {
			value, text := flag.UnquoteUsage(f)
			fmt.Fprintf(&b, "| `--%s` | `%s` | %s | %s |\n", strings.TrimSpace(f.Name+" "+value), environmentVariable(f.Name), code(f.DefValue), strings.ReplaceAll(text, "|", `\|`))
		})
		if text := manuals[cmd.name]; text != "" {
			fmt.Fprintf(&b, "\n```text\n%s```\n", text)
		}
	}
	return b.String()
}

func code(s string) string {
	if s == "" {
		return ""
	}
	return "`" + s + "`"
}

// The table of all settings is generated: DPSIDECAR_UPDATE=1 go test writes it.
func TestConfigurationIsDocumented(t *testing.T) {
	const file = "../../docs/reference/configuration.md"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	head, _, found := strings.Cut(string(text), "\n## ")
	want := strings.TrimRight(head, "\n") + "\n" + settingsTable()
	if os.Getenv("DPSIDECAR_UPDATE") != "" {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if !found || string(text) != want {
		t.Errorf("%s is not what the code says: run DPSIDECAR_UPDATE=1 go test ./cmd/dpsidecar -run TestConfigurationIsDocumented", file)
	}
}

func TestMemoryIsWrittenWithUnits(t *testing.T) {
	for text, want := range map[string]int64{"0": 0, "1024": 1024, "512MiB": 512 << 20, "1.5 GiB": 3 << 29, "2TiB": 2 << 40} {
		var m memory
		if err := m.UnmarshalText([]byte(text)); err != nil || int64(m) != want {
			t.Errorf("%s is %d: %v", text, m, err)
		}
	}
	for _, text := range []string{"", "much", "-1", "4GB", "NaN", "1e30TiB"} {
		if err := new(memory).UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q is a size", text)
		}
	}
	if out, err := dpsidecar(t, nil, "serve", "--job-memory", "4GB"); !errors.Is(err, errUsage) {
		t.Errorf("%v: %s", err, out)
	}
	if one, two := memoryPerJob(1), memoryPerJob(2); one < 0 || two != one/2 {
		t.Errorf("a job may have %d, or %d of two", one, two)
	}
}

// The script for those who read first holds everything in its order and needs no database.
func TestInstallPrintsItsSQL(t *testing.T) {
	out, err := dpsidecar(t, nil, "install", "--print-sql")
	if err != nil || !strings.Contains(out, "FUNCTION public.dp_l1_regress") || !strings.Contains(out, "CREATE SERVER dp_loop") ||
		strings.Index(out, "010_roles") > strings.Index(out, "FUNCTION public.dp_l1_regress") {
		t.Errorf("%v: %d bytes", err, len(out))
	}
}

func TestNodesAreNamedServers(t *testing.T) {
	servers, err := nodes(" north=postgres://r@north.example/a  south=postgres://r:secret@south.example:5433/b?sslmode=disable")
	if err != nil || len(servers) != 2 || servers["north"].Host != "north.example" || servers["south"].Port != 5433 {
		t.Errorf("%v: %v", servers, err)
	}
	for _, text := range []string{"north", "=postgres://r:secret@h/a", "north=", "north=postgres://r:secret@h:port/a", "postgres://r:secret@h/a?x=y"} {
		out, err := dpsidecar(t, nil, "serve", "--node", text)
		if !errors.Is(err, errUsage) || strings.Contains(err.Error()+out, "secret") {
			t.Errorf("%s: %v: %s", text, err, out)
		}
	}
}

// A URL without its flag is a common mistake, and may hold a password.
func TestAWrongArgumentIsNotShownIfItIsAURL(t *testing.T) {
	out, err := dpsidecar(t, nil, "verify", "postgres://steward:secret@h/a")
	if !errors.Is(err, errUsage) || strings.Contains(err.Error()+out, "secret") || !strings.Contains(err.Error(), "verify takes no argument") {
		t.Errorf("%v: %s", err, out)
	}
}

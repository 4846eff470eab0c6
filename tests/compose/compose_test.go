// Package compose checks docker-compose.yml and the Dockerfile without a
// container engine. It is a module of its own: what it needs to read a compose
// file is no business of dpsidecar's.
package compose

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
)

const root = "../.."

// load reads the compose file as `docker compose config` does: it is validated
// against the specification, with no environment but this.
func load(t *testing.T, env ...string) *types.Project {
	t.Helper()
	options, err := cli.NewProjectOptions([]string{filepath.Join(root, "docker-compose.yml")}, cli.WithWorkingDirectory(root), cli.WithEnv(env))
	if err != nil {
		t.Fatal(err)
	}
	project, err := options.LoadProject(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return project
}

func TestServices(t *testing.T) {
	if got, want := load(t).ServiceNames(), []string{"dpsidecar", "install", "postgres"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// Nothing starts before what it needs: the sidecar waits for the one-shot
// installation, which waits for a Postgres that answers.
func TestOrder(t *testing.T) {
	services := load(t).Services
	for _, c := range []struct{ service, needs, condition string }{
		{"install", "postgres", types.ServiceConditionHealthy},
		{"dpsidecar", "postgres", types.ServiceConditionHealthy},
		{"dpsidecar", "install", types.ServiceConditionCompletedSuccessfully},
	} {
		if got := services[c.service].DependsOn[c.needs].Condition; got != c.condition {
			t.Errorf("%s waits for %s until %q, want %q", c.service, c.needs, got, c.condition)
		}
	}
	if services["install"].Restart != types.RestartPolicyNo {
		t.Error("install runs more than once")
	}
}

// What stays up says whether it is well. The sidecar does so itself: its image
// holds nothing else that could be run.
func TestHealthChecks(t *testing.T) {
	services := load(t).Services
	for _, s := range services {
		if s.Restart == types.RestartPolicyNo {
			continue
		}
		check := s.HealthCheck
		if check == nil || check.Disable || len(check.Test) < 2 {
			t.Errorf("%s has no health check", s.Name)
		} else if check.Interval == nil || check.Timeout == nil || check.Retries == nil {
			t.Errorf("%s: how long until it is unhealthy?", s.Name)
		}
	}
	if got, want := services["dpsidecar"].HealthCheck.Test, []string{"CMD", "/dpsidecar", "ready"}; !slices.Equal(got, want) {
		t.Errorf("dpsidecar is checked by %q, want %q", got, want)
	}
}

// The admin listener has no password: it is published, on this machine alone,
// at the port that the documentation names.
func TestAdminListener(t *testing.T) {
	s := load(t).Services["dpsidecar"]
	listen := s.Environment["DPSIDECAR_ADMIN_LISTEN"]
	if listen == nil || len(s.Ports) != 1 {
		t.Fatalf("dpsidecar publishes %d ports", len(s.Ports))
	}
	host, port, err := net.SplitHostPort(*listen)
	if err != nil || host != "" && !net.ParseIP(host).IsUnspecified() {
		t.Errorf("%s is not reached from outside the container: %v", *listen, err)
	}
	p := s.Ports[0]
	if p.HostIP != "127.0.0.1" || p.Protocol != "tcp" || fmt.Sprint(p.Target) != port {
		t.Errorf("%s:%s leads to %d/%s, and dpsidecar listens at %s", p.HostIP, p.Published, p.Target, p.Protocol, *listen)
	}
	if at := p.HostIP + ":" + p.Published; !strings.Contains(read(t, "docs/reference/metrics.md"), at) {
		t.Errorf("docs/reference/metrics.md does not know %s", at)
	}
}

// settings are the environment variables of every command, with their defaults:
// a test of dpsidecar holds the table to what the program has.
func settings(t *testing.T) map[string]map[string]string {
	t.Helper()
	all := map[string]map[string]string{}
	for section := range strings.SplitSeq(read(t, "docs/reference/configuration.md"), "\n## dpsidecar ") {
		name := strings.Fields(section)[0]
		all[name] = map[string]string{}
		for _, row := range regexp.MustCompile("(?m)^\\| `--[^`]*` \\| `(\\w+)` \\| `?([^`|]*?)`? \\|").FindAllStringSubmatch(section, -1) {
			all[name][row[1]] = row[2]
		}
	}
	return all
}

// What our image runs are commands that there are, and they know every setting.
func TestCommands(t *testing.T) {
	known := settings(t)
	for _, s := range load(t).Services {
		if s.Build == nil {
			continue
		}
		if len(s.Entrypoint) > 0 {
			t.Errorf("%s replaces the image's entry point", s.Name)
		}
		if len(s.Command) != 1 || known[s.Command[0]] == nil {
			t.Fatalf("%s runs %q", s.Name, s.Command)
		}
		for name := range s.Environment {
			if _, ok := known[s.Command[0]][name]; !ok {
				t.Errorf("dpsidecar %s does not know %s", s.Command[0], name)
			}
		}
	}
	if _, ok := known["ready"]["DPSIDECAR_ADMIN_LISTEN"]; !ok {
		t.Error("dpsidecar ready does not know where serve listens")
	}
}

// A sidecar that is stopped has the time it gives its jobs.
func TestStopsGracefully(t *testing.T) {
	grace, err := time.ParseDuration(settings(t)["serve"]["DPSIDECAR_GRACE"])
	if err != nil {
		t.Fatal(err)
	}
	if given := load(t).Services["dpsidecar"].StopGracePeriod; given == nil || time.Duration(*given) <= grace {
		t.Errorf("killed after %v, jobs have %v", given, grace)
	}
}

var secretName = regexp.MustCompile(`(?i)password|secret|token`)

// passwordsInSight lists environment variables that hold a password instead of
// the name of a secret's file.
func passwordsInSight(s types.ServiceConfig) (found []string) {
	for name, value := range s.Environment {
		switch {
		case value == nil:
			found = append(found, name+" is taken from the caller")
		case strings.HasSuffix(name, "_FILE"):
			mounted := func(c types.ServiceSecretConfig) bool { return *value == "/run/secrets/"+c.Source }
			if !slices.ContainsFunc(s.Secrets, mounted) {
				found = append(found, name+" names no secret of "+s.Name)
			}
		case secretName.MatchString(name), regexp.MustCompile(`://[^/@]*:[^/@]*@`).MatchString(*value):
			found = append(found, name+" holds a password")
		}
	}
	return found
}

func TestPasswordsComeFromFiles(t *testing.T) {
	project := load(t)
	for _, s := range project.Services {
		for _, what := range passwordsInSight(s) {
			t.Errorf("%s: %s", s.Name, what)
		}
		for _, secret := range s.Secrets {
			if _, ok := project.Secrets[secret.Source]; !ok {
				t.Errorf("%s: secret %s does not exist", s.Name, secret.Source)
			}
		}
	}
	ignored, err := os.ReadFile(filepath.Join(root, ".gitignore"))
	if err != nil {
		t.Fatal(err)
	}
	for name, secret := range project.Secrets {
		dir, err := filepath.Rel(mustAbs(t, root), filepath.Dir(secret.File))
		if err != nil || !bytes.Contains(ignored, []byte("/"+dir+"/\n")) {
			t.Errorf("secret %s in %s could be committed", name, secret.File)
		}
	}
}

func TestPasswordsInSightAreFound(t *testing.T) {
	for name, value := range map[string]string{
		"POSTGRES_PASSWORD": "pw", "DATABASE_URL": "postgres://u:pw@h/d", "PASSWORD_FILE": "/run/secrets/other",
	} {
		var s types.ServiceConfig
		s.Environment = types.MappingWithEquals{name: &value}
		if len(passwordsInSight(s)) != 1 {
			t.Errorf("%s=%s is not found", name, value)
		}
	}
}

// No service can do more than it must.
func TestLeastPrivilege(t *testing.T) {
	for _, s := range load(t).Services {
		if s.Privileged || s.NetworkMode == "host" || s.Pid == "host" || len(s.CapAdd) > 0 {
			t.Errorf("%s asks for privileges", s.Name)
		}
		if s.Build != nil && (!s.ReadOnly || !slices.Contains(s.CapDrop, "ALL")) {
			t.Errorf("%s can write or keeps capabilities", s.Name)
		}
		for _, port := range s.Ports {
			if port.HostIP != "127.0.0.1" {
				t.Errorf("%s listens to the world on %s", s.Name, port.Published)
			}
		}
	}
}

// The image builds from this tree: every file it copies is there and is sent.
func TestBuildContext(t *testing.T) {
	for _, s := range load(t).Services {
		if s.Build != nil && s.Build.Context != mustAbs(t, root) {
			t.Errorf("%s builds from %s", s.Name, s.Build.Context)
		}
	}
	dockerfile := read(t, "Dockerfile")
	sent := read(t, ".dockerignore")
	copies := regexp.MustCompile(`(?m)^COPY ([^-].*) \S+$`).FindAllStringSubmatch(dockerfile, -1)
	if len(copies) == 0 {
		t.Fatal("the image copies nothing")
	}
	for _, c := range copies {
		for _, name := range strings.Fields(c[1]) {
			if _, err := os.Stat(filepath.Join(root, name)); err != nil {
				t.Error(err)
			}
			if !strings.Contains(sent, "!"+name+"\n") {
				t.Errorf(".dockerignore keeps %s from the build", name)
			}
		}
	}
}

var user = regexp.MustCompile(`(?m)^USER (.*)$`)

// runsAsRoot reports whether containers of an image may run as root: its last
// stage must end as a user, by number, which needs no list of users.
func runsAsRoot(dockerfile string) bool {
	stage := dockerfile[strings.LastIndex(dockerfile, "\nFROM "):]
	users := user.FindAllStringSubmatch(stage, -1)
	return len(users) == 0 || !regexp.MustCompile(`^[1-9]\d*(:[1-9]\d*)?$`).MatchString(users[len(users)-1][1])
}

func TestNobodyIsRoot(t *testing.T) {
	if runsAsRoot(read(t, "Dockerfile")) {
		t.Error("the image runs as root")
	}
	for _, s := range load(t).Services {
		if s.User != "" {
			t.Errorf("%s runs as %s, not as its image's user", s.Name, s.User)
		}
	}
	for _, end := range []string{"", "USER root", "USER 0:0", "USER 65532:0", "USER 65532:65532\nUSER root"} {
		if !runsAsRoot("FROM a AS build\nUSER 1000\nFROM b\n" + end + "\n") {
			t.Errorf("%q is not found", end)
		}
	}
}

// The program is where the health check and the entry point look for it.
func TestEntryPoint(t *testing.T) {
	for _, line := range []string{"-o /dpsidecar ./cmd/dpsidecar", "COPY --from=build /dpsidecar /dpsidecar", `ENTRYPOINT ["/dpsidecar"]`} {
		if !strings.Contains(read(t, "Dockerfile"), line+"\n") {
			t.Errorf("the Dockerfile has no %s", line)
		}
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func mustAbs(t *testing.T, name string) string {
	t.Helper()
	abs, err := filepath.Abs(name)
	if err != nil {
		t.Fatal(err)
	}
	return abs
}

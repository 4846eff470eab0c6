// Package compose checks docker-compose.yml and the Dockerfile without a
// container engine. It is a module of its own: what it needs to read a compose
// file is no business of dpsidecar's.
package compose

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
)

const root = "../.."

// load reads the compose file as `docker compose config` does: it is validated
// against the specification, with no environment of ours.
func load(t *testing.T) *types.Project {
	t.Helper()
	options, err := cli.NewProjectOptions([]string{filepath.Join(root, "docker-compose.yml")}, cli.WithWorkingDirectory(root))
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

// What stays up says whether it is well.
func TestHealthChecks(t *testing.T) {
	for _, s := range load(t).Services {
		if s.Restart != types.RestartPolicyNo && (s.HealthCheck == nil || len(s.HealthCheck.Test) < 2) {
			t.Errorf("%s has no health check", s.Name)
		}
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
	if !regexp.MustCompile(`(?m)^USER [1-9]`).MatchString(dockerfile) {
		t.Error("the image runs as root")
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

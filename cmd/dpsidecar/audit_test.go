package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A claim that holds ends well; a mechanism that is not known is wrong usage.
func TestAuditAsACommand(t *testing.T) {
	picture := filepath.Join(t.TempDir(), "bounds.png")
	for _, c := range []struct {
		args []string
		says string
		code int
	}{
		{[]string{"--method", "gd", "--runs", "60", "--plot", picture}, "gd", 0},
		{[]string{"--method", "l7"}, `"l7"`, 2},
		{[]string{"--runs", "1"}, "--runs", 2},
		{[]string{"more"}, "more", 2},
	} {
		cmd := exec.CommandContext(t.Context(), os.Args[0], append([]string{"audit"}, c.args...)...)
		var out bytes.Buffer
		cmd.Env, cmd.Stdout, cmd.Stderr = append(os.Environ(), mainVariable+"=1"), &out, &out
		if err := cmd.Run(); err != nil && !errors.As(err, new(*exec.ExitError)) {
			t.Fatal(err)
		}
		if code := cmd.ProcessState.ExitCode(); code != c.code || !strings.Contains(out.String(), c.says) {
			t.Errorf("%q: exit %d, %s", c.args, code, out.String())
		}
	}
	if b, err := os.ReadFile(picture); err != nil || !bytes.HasPrefix(b, []byte("\x89PNG")) {
		t.Errorf("the picture: %v", err)
	}
}

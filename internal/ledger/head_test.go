package ledger

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// Heads are found in whatever lines logs are collected as, and nowhere else.
func TestHeadsAreReadFromLogs(t *testing.T) {
	hash := strings.Repeat("0a", 32)
	want := Head{Account: 12, Entry: 345, Hash: hash}
	for _, line := range []string{
		want.String(),
		`time=2026-01-01T00:00:00Z level=INFO msg=charged job=x dataset="a b" account=12 entry=345 head=` + hash,
		`{"time":"2026-01-01T00:00:00Z","level":"INFO","msg":"charged","account":12,"entry":345,"head":"` + hash + `"}`,
		`{"head":"` + hash + `","account":12,"msg":"charged","entry":345}`,
		`{"log":"{\"msg\":\"charged\",\"account\":12,\"entry\":345,\"head\":\"` + hash + `\"}\n","stream":"stderr"}`,
		`{"account": 12, "entry": 345, "head": "` + hash + `"}`,
	} {
		heads, err := ReadHeads(strings.NewReader("  ok  something\n" + line + "\n"))
		if err != nil || len(heads) != 1 || heads[0] != want {
			t.Errorf("%s: %v %v", line, heads, err)
		}
	}
	for _, line := range []string{"", "account=12 entry=345", "account=12 entry=345 head=0a", `{"account":12}`, fmt.Sprintf("account=%s entry=1 head=%s", strings.Repeat("9", 30), hash)} {
		if heads, err := ReadHeads(strings.NewReader(line)); !errors.Is(err, ErrNoHeads) {
			t.Errorf("%s: %v %v", line, heads, err)
		}
	}
}

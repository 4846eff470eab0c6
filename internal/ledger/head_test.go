package ledger

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// Heads are found in whatever lines logs are collected as, and nowhere else.
func TestHeadsAreReadFromLogs(t *testing.T) {
	hash := strings.Repeat("0a", 32)
	want := Head{Account: 12, Entry: 345, Hash: hash}
	named := fmt.Sprintf("account=5 entry=18 head=%s", strings.Repeat("0b", 32)) // as a data set may be called
	for _, line := range []string{
		want.String(),
		fmt.Sprintf(`level=INFO msg=charged dataset=%q account=12 entry=345 head=%s`, named, hash),
		fmt.Sprintf(`level=INFO msg=charged dataset="{}" account=12 entry=345 head=%s`, hash),
		fmt.Sprintf(`{"msg":"charged","dataset":%q,"account":12,"entry":345,"head":%q}`, named, hash),
		fmt.Sprintf(`{"account":12,"dataset":%q,"entry":345,"head":%q}`, named, hash),
		fmt.Sprintf(`{"log":%q}`, fmt.Sprintf(`level=INFO msg=charged dataset=%q account=12 entry=345 head=%s`, named, hash)),
		fmt.Sprintf(`Jan 01 host dpsidecar[7]: {"msg":"charged","dataset":%q,"account":12,"entry":345,"head":%q}`, named, hash),
		`time=2026-01-01T00:00:00Z level=INFO msg=charged job=x dataset="a b" account=12 entry=345 head=` + hash,
		`{"time":"2026-01-01T00:00:00Z","level":"INFO","msg":"charged","account":12,"entry":345,"head":"` + hash + `"}`,
		`{"head":"` + hash + `","account":12,"msg":"charged","entry":345}`,
		`{"log":"{\"msg\":\"charged\",\"account\":12,\"entry\":345,\"head\":\"` + hash + `\"}\n","stream":"stderr"}`,
		`{"account": 12, "entry": 345, "head": "` + hash + `"}`,
		fmt.Sprintf(`{"severity":"INFO","jsonPayload":{"msg":"charged","dataset":%q,"account":12,"entry":345,"head":%q}}`, named, hash),
		fmt.Sprintf(`2026-01-01 {app="dpsidecar"} pod{7}: {"msg":"charged","account":12,"entry":345,"head":%q}`, hash),
		fmt.Sprintf(`{"stream":{"app":"dpsidecar"},"values":[["1700000000","level=INFO msg=charged dataset=x %s"]]}`, want),
	} {
		heads, err := ReadHeads(strings.NewReader("  ok  something\n" + line + "\n"))
		if err != nil || len(heads) != 1 || heads[0] != want {
			t.Errorf("%s: %v %v", line, heads, err)
		}
	}
	// Braces without end are read in time.
	for _, line := range []string{strings.Repeat("{", 1<<20), strings.Repeat(`{"a":`, 1<<18), strings.Repeat(`{"a":[`, 4000) + strings.Repeat("]}", 4000)} {
		if heads, err := ReadHeads(strings.NewReader(line)); !errors.Is(err, ErrNoHeads) {
			t.Errorf("%.20s...: %v %v", line, heads, err)
		}
	}
	two := Head{Account: 13, Entry: 1, Hash: hash}
	for _, line := range []string{fmt.Sprintf("%s; %s", want, two),
		fmt.Sprintf(`{"a":1},{"account":12,"entry":345,"head":%q},{"account":13,"entry":1,"head":%q}`, hash, hash),
		fmt.Sprintf(`[{"account":12,"entry":345,"head":%q}, {"account":13,"entry":1,"head":%q}]`, hash, hash),
		fmt.Sprintf(`{"values":[["1","%s"],["2","%s"]]}`, want, two)} {
		if heads, err := ReadHeads(strings.NewReader(line)); err != nil || !slices.Equal(heads, []Head{want, two}) {
			t.Errorf("%s: %v %v", line, heads, err)
		}
	}
	for _, line := range []string{"", "account=12 entry=345", "account=12 entry=345 head=0a", `{"account":12}`, fmt.Sprintf("msg=refused dataset=%q", named), fmt.Sprintf(`{"msg":"refused","dataset":%q}`, named),
		fmt.Sprintf(`{"attributes":[{"key":"dataset","value":{"stringValue":%q}}]}`, named),
		fmt.Sprintf(`{"log":%q}`, fmt.Sprintf(`{"msg":"refused","dataset":%q,"error":%q}`, named, fmt.Sprintf("data set %q is not granted", named))), fmt.Sprintf("account=%s entry=1 head=%s", strings.Repeat("9", 30), hash)} {
		if heads, err := ReadHeads(strings.NewReader(line)); !errors.Is(err, ErrNoHeads) {
			t.Errorf("%s: %v %v", line, heads, err)
		}
	}
}

package ledger

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
)

// ErrNoHeads is returned for a text without any head.
var ErrNoHeads = errors.New("ledger: no line with account=, entry= and head=")

// String formats the head as logs and dpsidecar verify write it; ReadHeads reads this form.
func (h Head) String() string {
	return fmt.Sprintf("account=%d entry=%d head=%s", h.Account, h.Entry, h.Hash)
}

// Heads returns the newest entry of every account. db is a steward's connection.
func Heads(ctx context.Context, db Querier) ([]Head, error) {
	rows, err := db.Query(ctx, "SELECT DISTINCT ON (account) account, seq, hash FROM dp.ledger ORDER BY account, seq DESC")
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[Head])
}

// A head in a line of text, and what is quoted there: names and messages, which may have any text.
var (
	headText = regexp.MustCompile(`\baccount=(\d+) entry=(\d+) head=([0-9a-f]{64})\b`)
	quoted   = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)
)

// ReadHeads finds heads in the output of dpsidecar verify or the log of dpsidecar serve, as text or as
// JSON, among any other lines.
//
// Errors: ErrNoHeads.
func ReadHeads(r io.Reader) (heads []Head, err error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		heads = append(heads, headsOfLine(lines.Text())...)
	}
	if lines.Err() == nil && len(heads) == 0 {
		return nil, ErrNoHeads
	}
	return heads, lines.Err()
}

// mostBraces is the number of braces in a line that begin no JSON, as those of labels before it, from which on the rest
// of the line is not looked through: each may take a reading of all of it.
const mostBraces = 16

// headsOfLine returns the heads in a line: those in its JSON, if there are any, or else those in its text.
func headsOfLine(line string) (heads []Head) {
	for rest, others := line, 0; others < mostBraces; {
		at := strings.IndexByte(rest, '{')
		if at < 0 {
			break
		}
		values := json.NewDecoder(strings.NewReader(rest[at:]))
		values.UseNumber()
		var value any
		if values.Decode(&value) != nil {
			rest, others = rest[at+1:], others+1
			continue
		}
		heads = append(heads, headsOfJSON(value)...)
		rest = rest[at+int(values.InputOffset()):]
	}
	if heads != nil {
		return heads
	}
	for _, m := range headText.FindAllStringSubmatch(quoted.ReplaceAllString(line, ""), -1) {
		account, accountErr := strconv.ParseInt(m[1], 10, 64)
		entry, entryErr := strconv.ParseInt(m[2], 10, 64)
		if accountErr == nil && entryErr == nil {
			heads = append(heads, Head{account, entry, m[3]})
		}
	}
	return heads
}

// headsOfJSON returns the heads in a JSON value: an object that is one, and those of what objects and lists hold, at any
// depth and also in lines held as strings, as log collectors write them. The name of a data set is no head.
func headsOfJSON(value any) (heads []Head) {
	switch v := value.(type) {
	case map[string]any:
		if h, ok := headOfObject(v); ok {
			return []Head{h}
		}
		if v["key"] == "dataset" { // an attribute as OpenTelemetry writes it, beside its value
			return nil
		}
		for _, key := range slices.Sorted(maps.Keys(v)) {
			if !strings.EqualFold(key, "dataset") {
				heads = append(heads, headsOfJSON(v[key])...)
			}
		}
	case []any:
		for _, element := range v {
			heads = append(heads, headsOfJSON(element)...)
		}
	case string:
		return headsOfLine(v)
	}
	return heads
}

// headOfObject returns the head that an object is, if it is one.
func headOfObject(object map[string]any) (Head, bool) {
	account, _ := object["account"].(json.Number)
	entry, _ := object["entry"].(json.Number)
	hash, _ := object["head"].(string)
	h := Head{Hash: hash}
	h.Account, _ = account.Int64() // 0 with an error
	h.Entry, _ = entry.Int64()
	return h, h.Account > 0 && h.Entry > 0 && len(hash) == 64
}

// headCheck compares heads that are kept outside the database with its ledger.
type headCheck struct {
	kept   map[int64]map[int64][]string // hashes by account and entry; removed when their entry is found
	length map[int64]int64              // length of each chain in the ledger
	wrong  []string                     // messages about differences found so far
}

// newHeadCheck returns a check of the kept heads.
func newHeadCheck(kept []Head) *headCheck {
	h := &headCheck{map[int64]map[int64][]string{}, map[int64]int64{}, nil}
	for _, head := range kept {
		if h.kept[head.Account] == nil {
			h.kept[head.Account] = map[int64][]string{}
		}
		h.kept[head.Account][head.Entry] = append(h.kept[head.Account][head.Entry], head.Hash)
	}
	return h
}

// compare compares the recomputed hash of a ledger entry with the kept heads of the same entry number.
func (h *headCheck) compare(l line) {
	h.length[l.Account] = max(h.length[l.Account], l.Seq)
	hash, err := l.hash()
	for _, kept := range h.kept[l.Account][l.Seq] {
		if err != nil || kept != hash || kept != l.Hash {
			h.wrong = append(h.wrong, fmt.Sprintf("account %d: entry %d is another one, it was changed or this is another ledger", l.Account, l.Seq))
			break
		}
	}
	delete(h.kept[l.Account], l.Seq)
}

// finding returns the result of the check: accounts whose chain was cut or changed.
func (h *headCheck) finding() Finding {
	wrong := h.wrong
	for _, account := range slices.SortedFunc(maps.Keys(h.kept), cmp.Compare) {
		missing := slices.Max(append(slices.Collect(maps.Keys(h.kept[account])), 0))
		switch length := h.length[account]; {
		case missing == 0:
		case length == 0:
			wrong = append(wrong, fmt.Sprintf("account %d is gone, with %d entries or more", account, missing))
		default:
			wrong = append(wrong, fmt.Sprintf("account %d: it had %d entries or more and has %d, it was cut or is an older copy", account, missing, length))
		}
	}
	return Finding{"every head that was kept outside is in its chain", len(wrong) == 0, strings.Join(wrong, "; ")}
}

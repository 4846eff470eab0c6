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
		if h, ok := readHead(lines.Text()); ok {
			heads = append(heads, h)
		}
	}
	if lines.Err() == nil && len(heads) == 0 {
		return nil, ErrNoHeads
	}
	return heads, lines.Err()
}

// readHead returns the head in a line, if it has one: that of its JSON object, that of a line which the object holds as a
// string, as log collectors write it, or that of its text. The name of a data set is none of these.
func readHead(line string) (h Head, ok bool) {
	if at := strings.Index(line, "{"); at >= 0 {
		var object map[string]any
		_ = json.NewDecoder(strings.NewReader(line[at:])).Decode(&object) // what is no object is text
		if json.NewDecoder(strings.NewReader(line[at:])).Decode(&h) == nil && h.Account > 0 && h.Entry > 0 && len(h.Hash) == 64 {
			return h, true
		}
		for _, key := range slices.Sorted(maps.Keys(object)) {
			if inner, is := object[key].(string); is && key != "dataset" {
				if h, ok := readHead(inner); ok {
					return h, true
				}
			}
		}
	}
	m := headText.FindStringSubmatch(quoted.ReplaceAllString(line, ""))
	if m == nil {
		return Head{}, false
	}
	account, accountErr := strconv.ParseInt(m[1], 10, 64)
	entry, entryErr := strconv.ParseInt(m[2], 10, 64)
	return Head{account, entry, m[3]}, accountErr == nil && entryErr == nil
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

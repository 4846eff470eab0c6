package arrowio

import (
	"cmp"
	"container/heap"
	"context"
	"fmt"
	"hash/maphash"
	"math"
	"slices"
	"strings"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"dpsidecar/internal/dpsco"
	"dpsidecar/internal/mech"
)

// Unit says whose a row is: rows with the same value of a column are one person's. A row
// where it is NULL is nobody's.
type Unit struct {
	Column  string
	MaxRows int // complete rows that are kept of a person, public
}

// MostRows is how many rows of all persons a pull may keep.
const MostRows = math.MaxInt32

// keyTypes are the types of columns that tell persons apart: equal values, and only those,
// have equal bytes. Text is compared by its bytes under a deterministic collation, which
// registration checks; of character(n) blanks at the end say nothing.
var keyTypes = map[uint32]string{
	pgtype.Int2OID: "smallint", pgtype.Int4OID: "integer", pgtype.Int8OID: "bigint", pgtype.UUIDOID: "uuid",
	pgtype.TextOID: "text", pgtype.VarcharOID: "character varying", pgtype.BPCharOID: "character", pgtype.ByteaOID: "bytea",
}

// keyType returns the type of a unit's column.
//
// Errors: ErrUnsupportedType; the server's.
func keyType(ctx context.Context, conn *pgx.Conn, relation pgx.Identifier, column string) (uint32, error) {
	rows := conn.PgConn().ExecParams(ctx, "SELECT "+pgx.Identifier{column}.Sanitize()+" FROM "+relation.Sanitize()+" WHERE false", nil, nil, nil, nil)
	rows.NextRow()
	fields := slices.Clone(rows.FieldDescriptions())
	if _, err := rows.Close(); err != nil {
		return 0, fmt.Errorf("describe %s: %w", relation.Sanitize(), err)
	}
	oid := fields[0].DataTypeOID
	if _, ok := keyTypes[oid]; !ok {
		return 0, fmt.Errorf("%w: unit %q; supported are %s", ErrUnsupportedType, column, strings.Join(UnitTypeNames(), ", "))
	}
	return oid, nil
}

// UnitTypeNames returns the types that a unit's column may have, as SQL spells them, sorted.
func UnitTypeNames() (names []string) {
	for _, name := range keyTypes {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// DescribeUnit reports whether a column can tell persons apart. It scans no row.
//
// Errors: ErrUnsupportedType; the server's.
func DescribeUnit(ctx context.Context, conn *pgx.Conn, relation pgx.Identifier, unit Unit) error {
	_, err := keyType(ctx, conn, relation, unit.Column)
	return err
}

// CountUnits returns N, the number of persons in a relation, on q's snapshot.
func CountUnits(ctx context.Context, q Querier, relation pgx.Identifier, unit Unit) (n int64, err error) {
	column, name := pgx.Identifier{unit.Column}.Sanitize(), relation.Sanitize()
	sql := fmt.Sprintf("SELECT pg_catalog.count(*) FROM (SELECT DISTINCT %s FROM %s WHERE %[1]s IS NOT NULL) AS units", column, name)
	if err := q.QueryRow(ctx, sql).Scan(&n); err != nil {
		return 0, fmt.Errorf("count the units of %s: %w", name, err)
	}
	return n, nil
}

// PullUnits is Pull for exactly req.Rows persons: of each it keeps the complete rows, or
// MaxRows of them at random, or where there is none a row of NaN. Rows first[u] to
// first[u+1] are person u's, the first of them drawn at random. Fewer persons are padded with
// such that have a row of NaN, of more a random subset is kept.
//
// Memory: 16 bytes a value that is kept, and about 100 bytes and the key of each person.
// Keys are dropped when it returns.
//
// Privacy: as Pull, with "all rows of a person" for "row": replacing them by any others
// replaces at most one record. Proof: the rows of person u go into its record through their
// multiset alone. Complete rows are chosen one by one; of more than MaxRows every subset is
// equally likely, whatever the order of the scan; they are sorted by their bits; and one is
// drawn to be first. All draws are fresh, so that given them other records do not change.
// Keys are equal when their bytes are: no two persons share a record. Of more than req.Rows persons
// those are kept whose keys come first in an order that depends on nothing but a random
// seed: replacing one key by another replaces at most one of the kept.
//
// Errors: as Pull.
func PullUnits(ctx context.Context, conn *pgx.Conn, req Request, unit Unit, src *mech.Source) (rec arrow.Record, first []int, err error) {
	if conn.PgConn().TxStatus() == 'I' {
		panic("arrowio: PullUnits outside the transaction that counted the persons")
	}
	types, err := columnTypes(ctx, conn, req)
	if err != nil {
		return nil, nil, err
	}
	oid, err := keyType(ctx, conn, req.Relation, unit.Column)
	if err != nil {
		return nil, nil, err
	}
	kept := newUnits(len(types), req.Rows, unit.MaxRows, src)
	d := newDecoder(types, nil)
	d.keyed, d.buffer, d.emit = true, make([]byte, 0, 64), func(row []float64) { kept.add(d.key, row) }
	if err := copyQuery(ctx, conn, keyedQuery(req, unit.Column, oid), d); err != nil {
		return nil, nil, fmt.Errorf("copy %s: %w", req.Relation.Sanitize(), err)
	}
	columns, first := kept.finish()
	return record(schema(req.Columns, types), columns), first, nil
}

// keyedQuery is req's query with the key before its columns. Text travels in the
// database's own encoding: a conversion could fail, or make two keys one.
func keyedQuery(req Request, column string, oid uint32) string {
	key := pgx.Identifier{column}.Sanitize()
	switch oid {
	case pgtype.TextOID, pgtype.VarcharOID, pgtype.BPCharOID:
		key = "pg_catalog.convert_to(" + key + "::pg_catalog.text, pg_catalog.getdatabaseencoding())"
	}
	return "SELECT " + key + ", " + strings.TrimPrefix(req.query(), "SELECT ")
}

// Grouped returns the data of a record whose rows are grouped by first.
func Grouped(x dpsco.Data, first []int, unit Unit) dpsco.Data {
	x.N, x.First, x.MaxRows = len(first)-1, first, unit.MaxRows
	return x
}

// units keeps rows by person while they arrive in any order.
type units struct {
	width, maxRows, most int
	src                  *mech.Source

	numbers map[string]int32 // of persons, by key
	keys    []string         // by number
	seen    []uint64         // complete rows that arrived
	head    []int32          // row that was kept last; none where there is none

	values [][]float64 // kept rows one after the other, in chunks
	next   []int32     // of the same person, or of those that are free again
	free   int32

	seed  maphash.Seed
	order []uint64 // of persons: hashes of their keys; nil unless there are too many
	heap  []int32  // persons, the one that leaves next at the top
}

const (
	none      = int32(-1)
	chunkRows = 1 << 13
)

func newUnits(width int, most int64, maxRows int, src *mech.Source) *units {
	return &units{width: width, maxRows: maxRows, most: int(most), src: src, numbers: map[string]int32{}, free: none, seed: maphash.MakeSeed()}
}

// add takes the next row; nil is the key of nobody.
func (s *units) add(key []byte, row []float64) {
	if key == nil {
		return
	}
	u, known := s.numbers[string(key)]
	if !known {
		if u = s.admit(string(key)); u == none {
			return
		}
	}
	if slices.ContainsFunc(row, math.IsNaN) {
		return
	}
	if s.seen[u]++; s.seen[u] <= uint64(s.maxRows) {
		s.head[u] = s.store(row, s.head[u])
		return
	}
	// Source: as reservoir.
	if k := s.src.Uint64n(s.seen[u]); k < uint64(s.maxRows) {
		at := s.head[u]
		for range k {
			at = s.next[at]
		}
		copy(s.row(at), row)
	}
}

// row is a kept row.
func (s *units) row(at int32) []float64 {
	i := int(at) % chunkRows * s.width
	return s.values[at/chunkRows][i : i+s.width]
}

// store keeps a row before the others of its person, where one was given up if there is any.
func (s *units) store(row []float64, next int32) int32 {
	at := s.free
	if at != none {
		s.free = s.next[at]
	} else {
		at = int32(len(s.next))
		if at%chunkRows == 0 {
			s.values = append(s.values, make([]float64, chunkRows*s.width))
		}
		s.next = append(s.next, none)
	}
	s.next[at] = next
	copy(s.row(at), row)
	return at
}

// admit gives a new person a number, or none.
func (s *units) admit(key string) int32 {
	u := int32(len(s.keys))
	if len(s.keys) < s.most {
		s.keys, s.seen, s.head = append(s.keys, key), append(s.seen, 0), append(s.head, none)
	} else if u = s.displace(key); u == none {
		return none
	}
	s.numbers[key] = u
	return u
}

// displace gives up the person who comes last in the order, and returns the number, or none
// where the new one does. Who was given up never comes back: the last only moves forward.
func (s *units) displace(key string) int32 {
	if s.most == 0 {
		return none
	}
	if s.order == nil {
		for u, k := range s.keys {
			s.order, s.heap = append(s.order, maphash.String(s.seed, k)), append(s.heap, int32(u))
		}
		heap.Init(byOrder{s})
	}
	last, hash := s.heap[0], maphash.String(s.seed, key)
	if cmp.Or(cmp.Compare(hash, s.order[last]), cmp.Compare(key, s.keys[last])) > 0 {
		return none
	}
	delete(s.numbers, s.keys[last])
	for at := s.head[last]; at != none; {
		rest := s.next[at]
		s.next[at], s.free = s.free, at
		at = rest
	}
	s.keys[last], s.order[last], s.seen[last], s.head[last] = key, hash, 0, none
	heap.Fix(byOrder{s}, 0)
	return last
}

// byOrder is a heap of persons with the last one at its top, of fixed size.
type byOrder struct{ *units }

func (h byOrder) Len() int { return len(h.heap) }
func (h byOrder) Less(i, j int) bool {
	u, v := h.heap[i], h.heap[j]
	return cmp.Or(cmp.Compare(h.order[u], h.order[v]), cmp.Compare(h.keys[u], h.keys[v])) > 0
}
func (h byOrder) Swap(i, j int) { h.heap[i], h.heap[j] = h.heap[j], h.heap[i] }
func (h byOrder) Push(any)      { panic("arrowio: the heap does not grow") }
func (h byOrder) Pop() any      { panic("arrowio: the heap does not shrink") }

// finish returns the rows by columns, and where each person's begin.
func (s *units) finish() (columns [][]float64, first []int) {
	first = make([]int, 1, s.most+1)
	for u := range s.most {
		size := 1
		if u < len(s.seen) {
			size = max(1, int(min(s.seen[u], uint64(s.maxRows))))
		}
		first = append(first, first[u]+size)
	}
	columns = make([][]float64, s.width)
	for j := range columns {
		columns[j] = make([]float64, first[s.most])
	}
	rows := make([]int32, 0, s.maxRows)
	for u := range s.most {
		rows = s.rowsOf(rows[:0], u)
		for k, at := range rows {
			for j, v := range s.row(at) {
				columns[j][first[u]+k] = v
			}
		}
		if len(rows) == 0 {
			for _, column := range columns {
				column[first[u]] = math.NaN()
			}
		}
	}
	return columns, first
}

// rowsOf lists a person's rows: sorted by their bits, so that their order says nothing about
// other rows, and then one drawn at random put first.
func (s *units) rowsOf(rows []int32, u int) []int32 {
	if u >= len(s.head) {
		return rows
	}
	for at := s.head[u]; at != none; at = s.next[at] {
		rows = append(rows, at)
	}
	slices.SortFunc(rows, func(a, b int32) int { return compareBits(s.row(a), s.row(b)) })
	if len(rows) > 1 {
		k := s.src.Uint64n(uint64(len(rows)))
		rows[0], rows[k] = rows[k], rows[0]
	}
	return rows
}

// compareBits orders rows; those that it calls equal are the same bits.
func compareBits(a, b []float64) int {
	for j, v := range a {
		if c := cmp.Compare(math.Float64bits(v), math.Float64bits(b[j])); c != 0 {
			return c
		}
	}
	return 0
}

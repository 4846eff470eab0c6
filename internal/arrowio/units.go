package arrowio

import (
	"bytes"
	"cmp"
	"container/heap"
	"context"
	"fmt"
	"hash/maphash"
	"math"
	"math/bits"
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
	MaxRows int // rows that are kept of a person, public

	Incomplete bool // rows with missing values are kept too, not only complete ones, but for rows of levels that do not count
}

// needed are the columns without whose values a row is not kept.
func (u Unit) needed(req Request) (columns []int) {
	for j, name := range req.Columns {
		if _, tells := req.Only[name]; tells || !u.Incomplete {
			columns = append(columns, j)
		}
	}
	return columns
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

// PullUnits is Pull for exactly req.Rows persons: of each it keeps the rows that unit says, or
// MaxRows of them at random, or where there is none a row of NaN. Rows first[u] to
// first[u+1] are person u's, the first of them drawn at random. Fewer persons are padded with
// such that have a row of NaN, of more a random subset is kept.
//
// Memory: 16 bytes a value that is kept, 4 a row, and 80 for each person beside a key of more
// than 16 bytes, which takes 64 at most.
// Keys are dropped when it returns.
//
// Privacy: as Pull, with "all rows of a person" for "row": replacing them by any others
// replaces at most one record. Proof: the rows of person u go into its record through their
// multiset alone. Whether a row may be kept is seen from it alone; of more than MaxRows every subset is
// equally likely, whatever the order of the scan; they are sorted by their bits; and one is
// drawn to be first. All draws are fresh, so that given them other records do not change.
// Keys are equal when their bytes are, so that no two persons share a record; of keys of
// hashedKey bytes and more when their SHA-512 is, of which no two texts with the same one
// are known. Of more than req.Rows persons those are kept whose keys come first in an order that depends on nothing but a random
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
	kept.needed = unit.needed(req)
	d := newDecoder(types, nil)
	d.keyed, d.buffer, d.emit = true, make([]byte, 0, 64), func(row []float64) { kept.add(d.key, row) }
	if err := copyQuery(ctx, conn, keyedQuery(req, types, unit.Column, oid), d); err != nil {
		return nil, nil, fmt.Errorf("copy %s: %w", req.Relation.Sanitize(), err)
	}
	columns, first := kept.finish()
	return record(schema(req, types), columns), first, nil
}

// hashedKey is from how many bytes on a key travels as its hash, which has as many: keys that
// are shorter never have the bytes of a hash. The server cannot send a row of more than
// a gigabyte, and would raise an error.
const hashedKey = 64

// keyedQuery is a pull's query with the key before its columns. Text travels in the
// database's own encoding: a conversion could fail, or make two keys one.
func keyedQuery(req Request, types []columnType, column string, oid uint32) string {
	key, varies := pgx.Identifier{column}.Sanitize(), true
	switch oid {
	case pgtype.TextOID, pgtype.VarcharOID, pgtype.BPCharOID:
		key = "pg_catalog.convert_to(" + key + "::pg_catalog.text, pg_catalog.getdatabaseencoding())"
	case pgtype.ByteaOID:
		key += "::pg_catalog.bytea"
	default:
		varies = false
	}
	if varies {
		key = fmt.Sprintf("CASE WHEN pg_catalog.octet_length(%s) OPERATOR(pg_catalog.<) %d THEN %[1]s ELSE pg_catalog.sha512(%[1]s) END", key, hashedKey)
	}
	return req.from(append([]string{key}, req.expressions(types)...))
}

// Grouped returns the data of a record whose rows are grouped by first.
func Grouped(x dpsco.Data, first []int, unit Unit) dpsco.Data {
	x.N, x.First, x.MaxRows = len(first)-1, first, unit.MaxRows
	return x
}

// units keeps rows by person while they arrive in any order.
type units struct {
	width, maxRows, most int
	needed               []int // columns without whose values a row is not kept
	src                  *mech.Source

	seed    maphash.Seed
	slots   []int32 // persons by hash: the first of a chain; a power of two of them
	persons []person
	heap    []int32 // persons, the one who leaves next at the top; nil unless there are too many

	values [][]float64 // kept rows one after the other, in chunks
	next   []int32     // of the same person, or of those that are free again
	free   int32

	waiting []person // of rows that arrived and are not placed yet
	rows    []float64
	touched uint64
}

// person is a key and where its rows are, in one line of the cache.
type person struct {
	hash        uint64 // of the key
	size        int32
	short       [16]byte // the key, with zeros after it, if it fits
	long        string   // else
	chain, head int32    // the next person of the same slot; the row that was kept last; none
	seen        uint64   // rows that arrived and may be kept
}

const (
	none      = int32(-1)
	chunkRows = 1 << 13
	batchRows = 64
)

func newUnits(width int, most int64, maxRows int, src *mech.Source) *units {
	s := &units{width: width, maxRows: maxRows, most: int(most), src: src, free: none, seed: maphash.MakeSeed()}
	for j := range width {
		s.needed = append(s.needed, j)
	}
	s.slots = make([]int32, 1<<bits.Len(uint(2*most)))
	for i := range s.slots {
		s.slots[i] = none
	}
	return s
}

// newPerson is a person without rows.
func (s *units) newPerson(key []byte) person {
	p := person{hash: maphash.Bytes(s.seed, key), size: int32(len(key)), chain: none, head: none}
	if copy(p.short[:], key) < len(key) {
		p.short, p.long = [16]byte{}, string(key)
	}
	return p
}

// is reports whether two persons have the same key, byte by byte.
func (p *person) is(q *person) bool {
	return p.hash == q.hash && p.size == q.size && p.short == q.short && p.long == q.long
}

// compare orders persons by hash; only those with the same key are equal.
func (p *person) compare(q *person) int {
	return cmp.Or(cmp.Compare(p.hash, q.hash), cmp.Compare(p.size, q.size), bytes.Compare(p.short[:], q.short[:]), cmp.Compare(p.long, q.long))
}

// slot is where the chain of a person begins.
func (s *units) slot(p *person) *int32 { return &s.slots[p.hash&uint64(len(s.slots)-1)] }

// add takes the next row; nil is the key of nobody.
func (s *units) add(key []byte, row []float64) {
	if key == nil {
		return
	}
	s.waiting, s.rows = append(s.waiting, s.newPerson(key)), append(s.rows, row...)
	if len(s.waiting) == batchRows {
		s.placeWaiting()
	}
}

// placeWaiting places the rows that wait. That their persons are all touched first, which
// says nothing, lets the processor fetch them together: one after the other takes twice as long.
func (s *units) placeWaiting() {
	var first [batchRows]int32
	for i := range s.waiting {
		first[i] = *s.slot(&s.waiting[i])
	}
	for _, u := range first[:len(s.waiting)] {
		if u != none {
			s.touched += s.persons[u].hash
		}
	}
	for i, p := range s.waiting {
		s.place(p, s.rows[i*s.width:(i+1)*s.width])
	}
	s.waiting, s.rows = s.waiting[:0], s.rows[:0]
}

// place gives a row to its person.
func (s *units) place(owner person, row []float64) {
	u := s.find(owner)
	if u == none {
		return
	}
	for _, j := range s.needed {
		if math.IsNaN(row[j]) {
			return
		}
	}
	p := &s.persons[u]
	if p.seen++; p.seen <= uint64(s.maxRows) {
		p.head = s.store(row, p.head)
		return
	}
	// Source: as reservoir.
	if k := s.src.Uint64n(p.seen); k < uint64(s.maxRows) {
		at := p.head
		for range k {
			at = s.next[at]
		}
		copy(s.row(at), row)
	}
}

// find returns a person's number, perhaps a new one, or none where others are kept.
func (s *units) find(p person) int32 {
	slot := s.slot(&p)
	for u := *slot; u != none; u = s.persons[u].chain {
		if s.persons[u].is(&p) {
			return u
		}
	}
	u := int32(len(s.persons))
	if len(s.persons) < s.most {
		s.persons = append(s.persons, person{})
	} else if u = s.displaced(&p); u == none {
		return none
	}
	p.chain = *slot
	s.persons[u], *slot = p, u
	if s.heap != nil {
		heap.Fix(byOrder{s}, 0)
	}
	return u
}

// displaced is the number of the person who comes last in the order and is given up for
// another, or none where that one comes later. Who was given up never comes back: the last
// only moves forward.
func (s *units) displaced(p *person) int32 {
	if s.most == 0 {
		return none
	}
	if s.heap == nil {
		for u := range s.persons {
			s.heap = append(s.heap, int32(u))
		}
		heap.Init(byOrder{s})
	}
	u := s.heap[0]
	last := &s.persons[u]
	if p.compare(last) > 0 {
		return none
	}
	for at := last.head; at != none; {
		rest := s.next[at]
		s.next[at], s.free = s.free, at
		at = rest
	}
	link := s.slot(last)
	for *link != u {
		link = &s.persons[*link].chain
	}
	*link = last.chain
	return u
}

// byOrder is a heap of persons with the last one at its top, of fixed size.
type byOrder struct{ *units }

func (h byOrder) Len() int { return len(h.heap) }
func (h byOrder) Less(i, j int) bool {
	return h.persons[h.heap[i]].compare(&h.persons[h.heap[j]]) > 0
}
func (h byOrder) Swap(i, j int) { h.heap[i], h.heap[j] = h.heap[j], h.heap[i] }
func (h byOrder) Push(any)      { panic("arrowio: the heap does not grow") }
func (h byOrder) Pop() any      { panic("arrowio: the heap does not shrink") }

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

// finish returns the rows by columns, and where each person's begin.
func (s *units) finish() (columns [][]float64, first []int) {
	s.placeWaiting()
	first = make([]int, 1, s.most+1)
	for u := range s.most {
		size := 1
		if u < len(s.persons) {
			size = max(1, int(min(s.persons[u].seen, uint64(s.maxRows))))
		}
		first = append(first, first[u]+size)
	}
	columns = make([][]float64, s.width)
	for j := range columns {
		columns[j] = make([]float64, first[s.most])
	}
	rows := make([]int32, 0, s.maxRows)
	for u := range s.most {
		if u%batchRows == 0 {
			s.touch(u, min(u+batchRows, len(s.persons)))
		}
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

// touch reads a number of every row of some persons, as placeWaiting does of persons.
func (s *units) touch(from, to int) {
	var at [batchRows]int32
	left := 0
	for u := from; u < to; u++ {
		if at[left] = s.persons[u].head; at[left] != none {
			left++
		}
	}
	for left > 0 {
		all := left
		left = 0
		for _, row := range at[:all] {
			s.touched += math.Float64bits(s.row(row)[0])
			if at[left] = s.next[row]; at[left] != none {
				left++
			}
		}
	}
}

// rowsOf lists a person's rows: sorted by their bits, so that their order says nothing about
// other rows, and then one drawn at random put first.
func (s *units) rowsOf(rows []int32, u int) []int32 {
	if u >= len(s.persons) {
		return rows
	}
	for at := s.persons[u].head; at != none; at = s.next[at] {
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

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

	"dpsidecar/internal/dpsco/table"
	"dpsidecar/internal/mech"
)

// Unit determines the person of a row: rows with the same value of a column belong to one person. A row in
// which it is NULL belongs to nobody.
type Unit struct {
	Column  string
	MaxRows int // public: number of rows kept of each person

	Incomplete bool // keep rows with missing values too, except rows of levels that are not used
}

// needed returns the indices of the columns that must have a value for a row to be kept.
func (u Unit) needed(req Request) (columns []int) {
	for j, name := range req.Columns {
		if _, tells := req.Only[name]; tells || !u.Incomplete {
			columns = append(columns, j)
		}
	}
	return columns
}

// MaxRows is the largest number of rows, of all persons together, that a pull may keep.
const MaxRows = math.MaxInt32

// keyTypes are the supported types of unit columns: values are equal if and only if their bytes are equal.
// Text is compared by its bytes under a deterministic collation, which registration checks; trailing blanks
// of character(n) are ignored.
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

// DescribeUnit checks that the values of a column can identify persons. It scans no row.
//
// Errors: ErrUnsupportedType; the server's.
func DescribeUnit(ctx context.Context, conn *pgx.Conn, relation pgx.Identifier, unit Unit) error {
	_, err := keyType(ctx, conn, relation, unit.Column)
	return err
}

// CountUnits returns N, the number of persons in a relation, on conn's snapshot.
//
// Errors: ErrUnsupportedType; the server's.
func CountUnits(ctx context.Context, conn *pgx.Conn, relation pgx.Identifier, unit Unit) (n int64, err error) {
	column, name := pgx.Identifier{unit.Column}.Sanitize(), relation.Sanitize()
	oid, err := keyType(ctx, conn, relation, unit.Column)
	if err != nil {
		return 0, err
	}
	sql := fmt.Sprintf("SELECT pg_catalog.count(*) FROM (SELECT DISTINCT %s FROM %s WHERE %s IS NOT NULL) AS units", underDomain(column, keyTypes[oid]), name, column)
	if err := conn.QueryRow(ctx, sql).Scan(&n); err != nil {
		return 0, fmt.Errorf("count the units of %s: %w", name, err)
	}
	return n, nil
}

// PullUnits is Pull for exactly req.Rows persons. Of each it keeps the rows that unit admits, or a random
// subset of MaxRows of them; a person without such rows gets a row of NaN. Rows first[u] to first[u+1] are
// person u's, the first of them drawn at random. If there are fewer persons, persons with a row of NaN are
// added; of more persons a random subset is kept.
//
// Memory: 16 bytes for each value kept, 4 for each row, and 80 for each person, plus at most 64 for a key
// of more than 16 bytes. Keys are dropped when it returns.
//
// Privacy: as Pull, with "all rows of a person" for "row": replacing them by any others replaces at most
// one record. Proof: the record of person u depends on the multiset of the person's rows alone. Whether a
// row may be kept depends on that row alone; of more than MaxRows every subset is equally likely, for any
// order of the scan; they are sorted by their bits; and one is drawn to be first. All draws are
// independent, so that given them other records do not change. Keys are equal if and only if their bytes
// are, so no two persons share a record; keys of hashedKey bytes and more are equal if their SHA-512 is,
// for which no collision is known. If there are more than req.Rows persons, those are kept whose keys come
// first in an order that depends on a random seed only: replacing one key by another replaces at most one
// of the kept persons.
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

// hashedKey is the length in bytes from which a key is replaced by its hash, which has the same length:
// shorter keys never equal a hash. The server cannot send a row of more than a gigabyte, and would raise an
// error.
const hashedKey = 64

// keyedQuery returns a pull's query with the key before its columns. Text is sent in the database's own
// encoding: a conversion could fail, or map two keys to one.
func keyedQuery(req Request, types []columnType, column string, oid uint32) string {
	key, varies := pgx.Identifier{column}.Sanitize(), true
	switch oid {
	case pgtype.TextOID, pgtype.VarcharOID, pgtype.BPCharOID:
		key = "pg_catalog.convert_to(" + key + "::pg_catalog.text, pg_catalog.getdatabaseencoding())"
	case pgtype.ByteaOID:
		key += "::pg_catalog.bytea"
	default:
		key, varies = underDomain(key, keyTypes[oid]), false
	}
	if varies {
		key = fmt.Sprintf("CASE WHEN pg_catalog.octet_length(%s) OPERATOR(pg_catalog.<) %d THEN %[1]s ELSE pg_catalog.sha512(%[1]s) END", key, hashedKey)
	}
	return req.from(append([]string{key}, req.expressions(types)...))
}

// Grouped returns the data of a record whose rows are grouped by first.
func Grouped(x table.Data, first []int, unit Unit) table.Data {
	x.N, x.First, x.MaxRows = len(first)-1, first, unit.MaxRows
	return x
}

// units groups the kept rows by person; rows arrive in any order.
type units struct {
	width, maxRows, most int
	needed               []int // columns that must have a value for a row to be kept
	src                  *mech.Source

	seed    maphash.Seed
	slots   []int32 // heads of hash chains of persons; the length is a power of two
	persons []person
	heap    []int32 // persons, the one to be displaced next at the top; nil while there is room for all

	values [][]float64 // kept rows one after the other, in chunks
	next   []int32     // next row of the same person, or next free row
	free   int32

	waiting []person // persons of rows that have arrived and are not placed yet
	rows    []float64
	touched uint64
}

// person is a key with the location of its rows, in one cache line.
type person struct {
	hash        uint64 // of the key
	size        int32
	short       [16]byte // the key, padded with zeros, if it fits
	long        string   // the key otherwise
	chain, head int32    // next person of the same slot, and the row stored last; or none
	seen        uint64   // number of admitted rows that have arrived
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

// newPerson returns a person without rows.
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

// compare orders persons by hash; only persons with the same key are equal.
func (p *person) compare(q *person) int {
	return cmp.Or(cmp.Compare(p.hash, q.hash), cmp.Compare(p.size, q.size), bytes.Compare(p.short[:], q.short[:]), cmp.Compare(p.long, q.long))
}

// slot returns the head of a person's chain.
func (s *units) slot(p *person) *int32 { return &s.slots[p.hash&uint64(len(s.slots)-1)] }

// add takes the next row; a nil key belongs to nobody.
func (s *units) add(key []byte, row []float64) {
	if key == nil {
		return
	}
	s.waiting, s.rows = append(s.waiting, s.newPerson(key)), append(s.rows, row...)
	if len(s.waiting) == batchRows {
		s.placeWaiting()
	}
}

// placeWaiting places the waiting rows. It first reads a field of all of their persons, so that the
// processor fetches them from memory together: one after the other takes twice as long.
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

// place adds a row to its person.
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
	// As in reservoir: Vitter 1985, Algorithm R.
	if k := s.src.Uint64n(p.seen); k < uint64(s.maxRows) {
		at := p.head
		for range k {
			at = s.next[at]
		}
		copy(s.row(at), row)
	}
}

// find returns the index of a person, adding it if it is new; none if the person is not among those kept.
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

// displaced returns the index of the kept person who is last in the order and gives way to p; none if p
// comes after that person. A person who was given up cannot return, because the last kept key only
// decreases.
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

// byOrder is a heap of fixed size of persons, with the last in the order at its top.
type byOrder struct{ *units }

func (h byOrder) Len() int { return len(h.heap) }
func (h byOrder) Less(i, j int) bool {
	return h.persons[h.heap[i]].compare(&h.persons[h.heap[j]]) > 0
}
func (h byOrder) Swap(i, j int) { h.heap[i], h.heap[j] = h.heap[j], h.heap[i] }
func (h byOrder) Push(any)      { panic("arrowio: the heap does not grow") }
func (h byOrder) Pop() any      { panic("arrowio: the heap does not shrink") }

// row returns a kept row.
func (s *units) row(at int32) []float64 {
	i := int(at) % chunkRows * s.width
	return s.values[at/chunkRows][i : i+s.width]
}

// store stores a row as the first of its person's list, in a free place if there is one.
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

// finish returns the rows by columns, and the index of the first row of each person.
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

// touch reads a number of every row of several persons, for the same reason as placeWaiting.
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

// rowsOf returns a person's rows sorted by their bits, so that their order does not depend on other rows,
// and then with a row drawn at random moved to the front.
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

// compareBits orders rows; rows that compare as equal have the same bits.
func compareBits(a, b []float64) int {
	for j, v := range a {
		if c := cmp.Compare(math.Float64bits(v), math.Float64bits(b[j])); c != 0 {
			return c
		}
	}
	return 0
}

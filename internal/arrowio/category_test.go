package arrowio

import (
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgtype"
)

// kind is the type of a category with these levels, all of which count.
func kind(k categoryKind, levels ...string) columnType {
	t, err := k.columnType(levels, levels)
	if err != nil {
		panic(err)
	}
	return t
}

var (
	texts = kind(categoryKinds[pgtype.TextOID], "north", "south", "", "süd ")
	some  = kind(categoryKinds[pgtype.BPCharOID], "n", "so", "*")
	// colors has a level that is no label, and a label that is no level.
	colors = enumType([]string{"green", "blue", "red"}, []string{"red", "green", "grey"}, []string{"red", "green", "grey"})
)

// A value is the level whose bytes it has, whatever type it travels as; any other says
// nothing, but for "*", which takes all but NULL. Those of an enum are places: of green, blue, red, of NULL, and of others.
func TestAValueIsItsLevel(t *testing.T) {
	nan := math.NaN()
	subset, err := categoryKinds[pgtype.TextOID].columnType([]string{"a", "b", "c", "*"}, []string{"b", "*"})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		t     columnType
		field []byte
		want  float64
	}{
		{texts, []byte("north"), 0}, {texts, []byte("south"), 1}, {texts, []byte{}, 2}, {texts, []byte("süd "), 3},
		{texts, []byte("North"), nan}, {texts, []byte("north "), nan}, {texts, []byte("su\u0308d "), nan}, {texts, []byte("nort"), nan}, {texts, []byte("northern parts"), nan},
		{texts, []byte("*"), nan}, {texts, nil, nan}, {texts, []byte("\xff\xfe"), nan}, {texts, []byte(strings.Repeat("x", 1<<20)), nan}, {texts, []byte(strings.Repeat(" ", 1<<20)), nan},
		{some, []byte("so"), 1}, {some, []byte("so "), 2}, {some, []byte("s o"), 2}, {some, []byte(" n"), 2}, {some, []byte("so" + strings.Repeat(" ", 1<<20)), 2}, {some, []byte{}, 2}, {some, nil, nan},
		{colors, words(0, 1), 1}, {colors, words(0, 2), nan}, {colors, words(0, 3), 0}, {colors, words(0, 4), nan}, {colors, words(0, 5), nan}, {colors, nil, nan},
		{enumType([]string{"red", "green"}, []string{"green", "*"}, []string{"*"}), words(0, 1), 0}, {enumType([]string{"red", "green"}, []string{"green", "*"}, []string{"*"}), words(0, 2), nan},
		{enumType([]string{"red"}, []string{"red", "*"}, []string{"red", "*"}), words(0, 2), nan}, {enumType([]string{"red"}, []string{"red", "*"}, []string{"red", "*"}), words(0, 3), 1},
		{kind(categoryKinds[pgtype.BoolOID], "true", "false"), []byte{1}, 0}, {kind(categoryKinds[pgtype.BoolOID], "true", "false"), []byte{0}, 1},
		{kind(categoryKinds[pgtype.Int2OID], "-2", "7"), []byte{0xff, 0xfe}, 0}, {kind(categoryKinds[pgtype.Int2OID], "-2", "7"), []byte{0, 8}, nan},
		{kind(categoryKinds[pgtype.Int4OID], "-2147483648", "*"), words(0x8000, 0), 0}, {kind(categoryKinds[pgtype.Int4OID], "-2147483648", "*"), words(0, 0), 1},
		{kind(categoryKinds[pgtype.Int8OID], "9223372036854775807", "0"), words(0x7fff, 0xffff, 0xffff, 0xffff), 0},
		{subset, []byte("b"), 0}, {subset, []byte("z"), 1}, {subset, []byte("a"), nan}, {subset, []byte("c"), nan}, {subset, nil, nan},
	} {
		for _, cut := range []int{1 << 30, 1, 7} {
			var got []float64
			d := newDecoder([]columnType{c.t, supportedTypes[pgtype.BoolOID]}, func(row []float64) { got = append(got, row...) })
			if len(c.field) > 1<<10 && cut == 1 {
				cut = 1 << 12
			}
			b := stream(tuple(c.field, []byte{1}))
			for part := range slices.Chunk(b, min(cut, len(b))) {
				if _, err := d.Write(part); err != nil {
					t.Fatal(err)
				}
			}
			if err := d.close(); err != nil || !same(got, []float64{c.want, 1}) && !(len(got) == 2 && math.IsNaN(got[0]) && math.IsNaN(c.want) && got[1] == 1) {
				t.Errorf("%.20q in parts of %d: %v, want %v; %v", c.field, cut, got, c.want, err)
			}
			if cap(d.carry) > 1<<13 {
				t.Errorf("%.20q: carried %d bytes", c.field, cap(d.carry))
			}
		}
	}
}

func TestLevelsMustFitTheirType(t *testing.T) {
	for oid, level := range map[uint32]string{pgtype.Int2OID: "32768", pgtype.Int4OID: "one", pgtype.Int8OID: "1.5", pgtype.BoolOID: "maybe"} {
		if _, err := categoryKinds[oid].columnType([]string{level, "*"}, nil); err == nil {
			t.Errorf("%q is a level of type %d", level, oid)
		}
	}
	wide := stream(tuple([]byte{0, 0, 0, 0, 0}))
	d := newDecoder([]columnType{kind(categoryKinds[pgtype.Int4OID], "1", "2")}, func([]float64) {})
	if _, err := d.Write(wide); !errors.Is(err, ErrStream) {
		t.Errorf("an integer of five bytes: %v", err)
	}
}

// One value changes one row, and it says nothing else: where the rows of a level are read as a
// level's dummies, every other row is the same bit by bit.
func TestAValueChangesItsRowAlone(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	values := [][]byte{[]byte("north"), []byte("south"), []byte(""), []byte("elsewhere"), []byte(strings.Repeat("north", 99)), nil, []byte("north ")}
	read := func(rows [][]byte) [][]float64 {
		s := newReservoir(1, int64(len(rows)), nil, nil)
		var tuples [][]byte
		for _, v := range rows {
			tuples = append(tuples, tuple(v))
		}
		d := newDecoder([]columnType{texts}, s.add)
		for _, part := range split(stream(tuples...), r) {
			if _, err := d.Write(part); err != nil {
				t.Fatal(err)
			}
		}
		return dummies(s.columns[0], 4, nil)
	}
	for range 300 {
		rows := make([][]byte, 9)
		for i := range rows {
			rows[i] = values[r.IntN(len(values))]
		}
		before, i := read(rows), r.IntN(len(rows))
		rows[i] = values[r.IntN(len(values))]
		after := read(rows)
		for k, column := range before {
			for j, v := range column {
				if j != i && math.Float64bits(v) != math.Float64bits(after[k][j]) {
					t.Fatalf("row %d changed when row %d did", j, i)
				}
				if !(v == 0 || v == 1 || math.IsNaN(v)) {
					t.Fatalf("a dummy is %v", v)
				}
			}
		}
	}
}

// A description has no value of a row whose level does not count, and every other row as it
// came: how many rows there are says nothing about levels.
func TestRowsOfOtherLevelsHaveNoPlaceInADescription(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 5))
	req := Request{Columns: []string{"age", "region", "ward"}, Filters: 1, Levels: map[string][]string{"region": {"north", "south", "*"}, "ward": {"a", "b"}},
		Only: map[string][]string{"region": {"north", "south"}, "ward": {"a"}}}
	types := []columnType{supportedTypes[pgtype.Float8OID], texts, texts}
	for range 100 {
		came := make([][]float64, 3)
		for range 50 {
			for j := range came {
				came[j] = append(came[j], []float64{math.NaN(), 0, float64(r.IntN(2)), 1}[r.IntN(4)])
			}
		}
		kept := [][]float64{slices.Clone(came[0]), slices.Clone(came[1]), slices.Clone(came[2])}
		x := Positions(record(schema(req, types), kept), req.Only)
		if x.N != 50 || len(x.X) != 1 {
			t.Fatalf("%d rows, %d features", x.N, len(x.X))
		}
		for i := range x.N {
			want := []float64{came[0][i], came[1][i]}
			if math.IsNaN(came[1][i] + came[2][i]) {
				want = []float64{math.NaN(), math.NaN()}
			}
			for j, column := range [][]float64{x.Y, x.X[0]} {
				if math.Float64bits(column[i]) != math.Float64bits(want[j]) {
					t.Fatalf("row %d came as %v, %v, %v: column %d has %v", i, came[0][i], came[1][i], came[2][i], j, column[i])
				}
			}
		}
	}
}

// FuzzCategories feeds arbitrary bytes to categories of every size, whole and cut in two.
func FuzzCategories(f *testing.F) {
	types := []columnType{texts, some, kind(categoryKinds[pgtype.Int2OID], "1", "*"), colors}
	f.Add(stream(tuple([]byte("north"), []byte("n   "), []byte{0, 1}, words(0, 1))), 30)
	f.Add(stream(tuple([]byte("northern"), []byte("n  x"), nil, nil), tuple(nil, nil, nil, nil)), 33)
	f.Add(stream(tuple(nil, []byte(strings.Repeat(" ", 300)), []byte{0, 2}, []byte{})), 200)
	f.Add(append(stream()[:headerSize], binary.BigEndian.AppendUint32([]byte{0, 4}, math.MaxInt32)...), 22)
	f.Fuzz(func(t *testing.T, b []byte, cut int) {
		cut = max(0, min(cut, len(b)))
		whole, err := decodeAll(types, b)
		parts, errParts := decodeAll(types, b[:cut], b[cut:])
		if !same(whole, parts) || (err == nil) != (errParts == nil) {
			t.Errorf("cut at %d: %v %v; whole: %v %v", cut, parts, errParts, whole, err)
		}
		for i, v := range whole {
			if !math.IsNaN(v) && !(v == math.Trunc(v) && v >= 0 && int(v) < 4) {
				t.Errorf("value %d is %v", i, v)
			}
		}
	})
}

package arrowio

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5/pgtype"
)

// mixed are the columns of the streams below: fixed sizes, the separate path of
// float8, and a type of varying size.
var mixed = []columnType{
	supportedTypes[pgtype.Float8OID], supportedTypes[pgtype.NumericOID],
	supportedTypes[pgtype.BoolOID], supportedTypes[pgtype.DateOID],
}

// header is how every stream of Postgres begins.
var header = append([]byte(signature), make([]byte, 8)...)

// stream joins a header, tuples and a trailer.
func stream(tuples ...[]byte) []byte {
	return slices.Concat(header, slices.Concat(tuples...), []byte{0xff, 0xff})
}

// tuple encodes one row; a nil field is NULL.
func tuple(fields ...[]byte) []byte {
	b := binary.BigEndian.AppendUint16(nil, uint16(len(fields)))
	for _, f := range fields {
		if f == nil {
			b = binary.BigEndian.AppendUint32(b, math.MaxUint32)
			continue
		}
		b = binary.BigEndian.AppendUint32(b, uint32(len(f)))
		b = append(b, f...)
	}
	return b
}

func words(n ...uint16) []byte {
	var b []byte
	for _, w := range n {
		b = binary.BigEndian.AppendUint16(b, w)
	}
	return b
}

// genuine is a stream as Postgres would send it, and the values in it.
func genuine() (b []byte, values []float64) {
	nan := math.NaN()
	return stream(
			tuple(binary.BigEndian.AppendUint64(nil, math.Float64bits(-2.5)), words(2, 1, 0, 4, 12, 3456), []byte{1}, words(0, 1)),
			tuple(nil, nil, nil, nil),
			tuple(binary.BigEndian.AppendUint64(nil, math.Float64bits(math.Inf(1))), words(1, 0xffff, 0x4000, 1, 5000), []byte{0}, words(0x7fff, 0xffff)),
		), []float64{
			-2.5, 123456, 1, 946771200,
			nan, nan, nan, nan,
			nan, -.5, 0, nan,
		}
}

// decodeAll writes the parts in turn and returns every value decoded.
func decodeAll(types []columnType, parts ...[]byte) (values []float64, err error) {
	d := newDecoder(types, func(row []float64) { values = append(values, row...) })
	for _, p := range parts {
		if _, err := d.Write(p); err != nil {
			return values, err
		}
	}
	return values, d.close()
}

// same compares bit by bit, so that NaN equals NaN.
func same(a, b []float64) bool {
	return slices.EqualFunc(a, b, func(x, y float64) bool { return math.Float64bits(x) == math.Float64bits(y) })
}

// split cuts b at random places; empty parts occur.
func split(b []byte, r *rand.Rand) [][]byte {
	var parts [][]byte
	for len(b) > 0 {
		n := r.IntN(min(len(b), 1+r.IntN(40)) + 1)
		parts, b = append(parts, b[:n]), b[n:]
	}
	return parts
}

func TestDecoderReadsAGenuineStream(t *testing.T) {
	b, want := genuine()
	if got, err := decodeAll(mixed, b); err != nil || !same(got, want) {
		t.Errorf("got %v, %v; want %v", got, err, want)
	}
}

func TestDecoderIgnoresHowAStreamIsCut(t *testing.T) {
	b, want := genuine()
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		if got, err := decodeAll(mixed, split(b, r)...); err != nil || !same(got, want) {
			t.Fatalf("got %v, %v; want %v", got, err, want)
		}
	}
}

func TestDecoderPassesOverAHeaderExtension(t *testing.T) {
	b, want := genuine()
	extended := slices.Concat([]byte(signature), []byte{0, 0, 0, 1, 0, 0, 0, 5}, []byte("extra"), b[headerSize:])
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		if got, err := decodeAll(mixed, split(extended, r)...); err != nil || !same(got, want) {
			t.Fatalf("got %v, %v; want %v", got, err, want)
		}
	}
}

func TestDecoderRefusesEveryTruncation(t *testing.T) {
	b, _ := genuine()
	for n := range b {
		if _, err := decodeAll(mixed, b[:n]); !errors.Is(err, ErrStream) {
			t.Errorf("the first %d of %d bytes: %v", n, len(b), err)
		}
	}
}

func TestDecoderRefusesMalformedStreams(t *testing.T) {
	b, _ := genuine()
	float := make([]byte, 8)
	for name, bad := range map[string][]byte{
		"wrong signature":       append([]byte("PGCOPY\n\xff\n\n\x00"), b[len(signature):]...),
		"object identifiers":    slices.Concat([]byte(signature), []byte{0, 1, 0, 0, 0, 0, 0, 0}, b[headerSize:]),
		"negative extension":    slices.Concat([]byte(signature), []byte{0, 0, 0, 0, 0x80, 0, 0, 0}, b[headerSize:]),
		"too few fields":        stream(tuple(float, nil, nil)),
		"too many fields":       stream(tuple(float, nil, nil, nil, nil)),
		"no fields":             stream(tuple()),
		"negative field count":  stream(words(0xfffe)),
		"negative field length": stream(words(4, 0xffff, 0xfffe)),
		"huge field length":     stream(words(4, 0x7fff, 0xffff)),
		"float8 of no bytes":    stream(tuple([]byte{}, nil, nil, nil)),
		"float8 of four bytes":  stream(tuple(float[:4], nil, nil, nil)),
		"short numeric":         stream(tuple(nil, make([]byte, 7), nil, nil)),
		"long numeric":          stream(tuple(nil, make([]byte, numericHeader+1<<17), nil, nil)),
		"wide boolean":          stream(tuple(nil, nil, []byte{0, 0}, nil)),
		"bytes after trailer":   append(bytes.Clone(b), 0),
	} {
		for _, parts := range [][][]byte{{bad}, split(bad, rand.New(rand.NewPCG(1, 2)))} {
			if _, err := decodeAll(mixed, parts...); !errors.Is(err, ErrStream) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// TestDecoderCarriesLittle writes tuples with the longest numeric in small parts.
func TestDecoderCarriesLittle(t *testing.T) {
	d := newDecoder(mixed, func([]float64) {})
	b := stream(slices.Repeat(tuple(nil, make([]byte, supportedTypes[pgtype.NumericOID].maxSize), nil, nil), 3))
	for part := range slices.Chunk(b, 101) {
		if _, err := d.Write(part); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.close(); err != nil || cap(d.carry) > 1<<18 {
		t.Errorf("carried up to %d bytes, %v", cap(d.carry), err)
	}
}

// FuzzDecoder feeds arbitrary bytes, whole and cut in two. Nothing may panic,
// the cut may not matter, and only whole rows may come out.
func FuzzDecoder(f *testing.F) {
	b, _ := genuine()
	f.Add(b, 40)
	f.Add(stream(), 3)
	f.Add(stream(tuple(nil, words(0, 0, 0xc000, 0), nil, nil)), 30)
	f.Add(stream(words(4, 0x7fff, 0xffff)), 25)
	f.Add(header, 19)
	f.Fuzz(func(t *testing.T, b []byte, cut int) {
		cut = max(0, min(cut, len(b)))
		whole, err := decodeAll(mixed, b)
		parts, errParts := decodeAll(mixed, b[:cut], b[cut:])
		if !same(whole, parts) || (err == nil) != (errParts == nil) {
			t.Errorf("cut at %d: %v %v; whole: %v %v", cut, parts, errParts, whole, err)
		}
		if len(whole)%len(mixed) != 0 || len(whole) > len(b) {
			t.Errorf("%d values from %d bytes", len(whole), len(b))
		}
	})
}

func BenchmarkDecoder(b *testing.B) {
	const columns, rows = 10, 1024
	types := slices.Repeat([]columnType{supportedTypes[pgtype.Float8OID]}, columns)
	row := tuple(slices.Repeat([][]byte{make([]byte, 8)}, columns)...)
	s := newReservoir(columns, rows, nil, nil)
	d := newDecoder(types, s.add)
	d.Write(header)
	b.SetBytes(int64(len(row)))
	for i := 0; b.Loop(); i++ {
		if i%rows == 0 {
			s.seen = 0
		}
		d.Write(row)
	}
}

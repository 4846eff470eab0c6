package arrowio

import (
	"encoding/binary"
	"math"
	"testing"

	"github.com/jackc/pgx/v5/pgtype"
)

func BenchmarkDecoder(b *testing.B) {
	types := make([]columnType, 10)
	tuple := binary.BigEndian.AppendUint16(nil, 10)
	for j := range types {
		types[j] = supported[pgtype.Float8OID]
		tuple = binary.BigEndian.AppendUint32(tuple, 8)
		tuple = binary.BigEndian.AppendUint64(tuple, math.Float64bits(float64(j)+.5))
	}
	s := newSample(10, 1024, nil)
	d := newDecoder(types, s.add)
	d.state = betweenTuples
	b.SetBytes(int64(len(tuple)))
	b.ResetTimer()
	for i := range b.N {
		if i&1023 == 0 {
			s.seen = 0
		}
		d.Write(tuple)
	}
}

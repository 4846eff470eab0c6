package arrowio

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"testing"
)

// arrivals is a connection whose reads return one arrival at a time, as far as
// the caller has room, and then io.EOF.
type arrivals struct {
	net.Conn
	parts [][]byte
}

func (a *arrivals) Read(p []byte) (int, error) {
	if len(a.parts) == 0 {
		return 0, io.EOF
	}
	n := copy(p, a.parts[0])
	if a.parts[0] = a.parts[0][n:]; len(a.parts[0]) == 0 {
		a.parts = a.parts[1:]
	}
	return n, nil
}

func TestPatientConnPassesEveryByte(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var parts [][]byte
	for range 50 {
		part := make([]byte, 1+r.IntN(2*sendBuffer))
		for i := range part {
			part[i] = byte(r.Uint32())
		}
		parts = append(parts, part)
	}
	c := &batchingConn{Conn: &arrivals{parts: slices.Clone(parts)}, buf: make([]byte, 3*sendBuffer/2)}
	var got []byte
	for {
		p := make([]byte, 1+r.IntN(3000))
		n, err := c.Read(p)
		got = append(got, p[:n]...)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil || n == 0 {
			t.Fatalf("%d, %v", n, err)
		}
	}
	if !bytes.Equal(got, slices.Concat(parts...)) {
		t.Errorf("%d bytes came out otherwise than they went in", len(got))
	}
}

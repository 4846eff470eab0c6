package arrowio

import (
	"context"
	"net"
	"syscall"

	"github.com/jackc/pgx/v5"
)

// Tune makes later connections of a configuration stream faster. Pull works
// without, but for each 8 KiB that the server sends it is then interrupted to
// wake us: on two busy cores a pull takes a tenth longer.
//
// A tuned connection holds a buffer of 256 KiB.
func Tune(config *pgx.ConnConfig) {
	dial := config.DialFunc
	config.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return &patientConn{Conn: c, buf: make([]byte, 256<<10)}, nil
	}
}

// sendBuffer is what a Postgres server sends at a time in mid-stream.
const sendBuffer = 8192

// patientConn reads much at a time. When a read shows that it has caught up with
// a stream, it lets the server get ahead by what half a millisecond brings.
// Deadlines and Close act on it within that time; answers shorter than
// sendBuffer are not delayed.
type patientConn struct {
	net.Conn
	buf  []byte
	r, w int // buf[r:w] is not yet read
	last int // bytes of the last read from Conn
}

func (c *patientConn) Read(p []byte) (int, error) {
	if c.r == c.w {
		if sendBuffer <= c.last && c.last < len(c.buf) {
			nap()
		}
		n, err := c.Conn.Read(c.buf)
		c.r, c.w, c.last = 0, n, n
		if n == 0 {
			return 0, err
		}
	}
	n := copy(p, c.buf[c.r:c.w])
	c.r += n
	return n, nil
}

// nap sleeps in the kernel. (time.Sleep would leave the poller on the watch,
// woken by every arrival.) To wake early does no harm.
func nap() {
	_ = syscall.Nanosleep(&syscall.Timespec{Nsec: 500_000}, nil)
}

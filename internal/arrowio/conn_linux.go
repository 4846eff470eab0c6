package arrowio

import (
	"context"
	"net"
	"syscall"

	"github.com/jackc/pgx/v5"
)

// Tune makes connections that are opened with the configuration read streams faster.
// Pull works without it, but then every 8 KiB that the server sends wake this process
// up and interrupt the server: with two busy cores a pull takes a tenth longer.
//
// A tuned connection holds a buffer of 256 KiB.
func Tune(config *pgx.ConnConfig) {
	dial := config.DialFunc
	config.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return &batchingConn{Conn: c, buf: make([]byte, 256<<10)}, nil
	}
}

// sendBuffer is the number of bytes that a Postgres server sends at a time within a stream.
const sendBuffer = 8192

// batchingConn reads as much as it can at a time. If a read within a stream did not fill the buffer, the
// client has caught up with the server: the next read then waits for half a millisecond, in which more
// arrives. Deadlines and Close take effect after that time at the latest; answers shorter than sendBuffer
// are not delayed.
type batchingConn struct {
	net.Conn
	buf  []byte
	r, w int // buf[r:w] is not yet read
	last int // bytes of the last read from Conn
}

func (c *batchingConn) Read(p []byte) (int, error) {
	if c.r == c.w {
		if sendBuffer <= c.last && c.last < len(c.buf) {
			sleep()
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

// sleep waits in the kernel for half a millisecond; waking up earlier is harmless. During time.Sleep, Go's
// network poller would still be woken up by every arrival.
func sleep() {
	_ = syscall.Nanosleep(&syscall.Timespec{Nsec: 500_000}, nil)
}

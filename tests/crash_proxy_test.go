package tests

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
)

// moment is a place in a job's life, told from the messages between a sidecar
// and Postgres.
type moment string

const (
	atAnyTime  moment = "any time"
	atClaimed  moment = "claimed"  // the claim is committed, and the sidecar does not know yet
	atPlanned  moment = "planned"  // the charge is not sent yet
	atCharged  moment = "charged"  // the charge is committed, and the sidecar does not know yet
	atEntering moment = "entering" // the point of no return is not sent yet
	atReading  moment = "reading"  // it is committed, and nothing is read yet
	atPulling  moment = "pulling"  // the rows are not asked for yet
	atCopying  moment = "copying"  // the first rows are on their way
	atSummed   moment = "summed"   // the sums of a pass are made
	atChecked  moment = "checked"  // the relation was compared with its registration
	atCounted  moment = "counted"  // rows are counted
	atComputed moment = "computed" // the release is not sent yet
	atPublish  moment = "publish"  // it is committed, and the sidecar does not know yet
)

var moments = []moment{atAnyTime, atClaimed, atPlanned, atCharged, atEntering, atReading, atCopying, atComputed, atPublish}

// before and after are the moments on either side of a statement.
func before(sql string) moment {
	switch {
	case strings.Contains(sql, "dp_int.job_charge("):
		return atPlanned
	case strings.Contains(sql, "dp_int.job_read("):
		return atEntering
	case strings.Contains(sql, "dp_int.job_publish("):
		return atComputed
	case strings.HasPrefix(sql, "COPY "):
		return atPulling
	}
	return ""
}

func after(sql string) moment {
	switch {
	case strings.Contains(sql, "dp_int.job_claim("):
		return atClaimed
	case strings.Contains(sql, "dp_int.job_charge("):
		return atCharged
	case strings.Contains(sql, "dp_int.job_read("):
		return atReading
	case strings.Contains(sql, "dp_int.job_publish("):
		return atPublish
	case strings.Contains(sql, "string_agg(answer::pg_catalog.text"):
		return atSummed
	case strings.Contains(sql, "dp_int.dataset_recheck(") || strings.Contains(sql, "dp_int.job_recheck("):
		return atChecked
	case strings.Contains(sql, "SELECT pg_catalog.count(*) FROM"):
		return atCounted
	}
	return ""
}

// proxy forwards one sidecar's connections. At the moment that is set it holds the
// message back and runs a function; then it forwards the message, if the connection
// is still there.
type proxy struct {
	listener net.Listener
	server   string

	mu    sync.Mutex
	ends  map[net.Conn]bool
	at    moment
	then  func()
	group sync.WaitGroup
}

func newProxy(tb testing.TB, server string) *proxy {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	w := &proxy{listener: l, server: server, ends: map[net.Conn]bool{}}
	w.group.Go(w.accept)
	tb.Cleanup(func() {
		l.Close()
		w.cut()
		w.group.Wait()
	})
	return w
}

func (w *proxy) port() int { return w.listener.Addr().(*net.TCPAddr).Port }

func (w *proxy) accept() {
	for {
		client, err := w.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", w.server)
		if err != nil {
			client.Close()
			continue
		}
		w.mu.Lock()
		w.ends[client], w.ends[server] = true, true
		w.mu.Unlock()
		c := &proxied{proxy: w, statements: map[string]string{}}
		both := func(pump func(io.Writer, *bufio.Reader) error, to, from net.Conn) func() {
			return func() {
				_ = pump(to, bufio.NewReader(from)) // either end may go at any time
				w.close(to, from)
			}
		}
		w.group.Go(both(c.asks, server, client))
		w.group.Go(both(c.answers, client, server))
	}
}

func (w *proxy) close(ends ...net.Conn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range ends {
		c.Close()
		delete(w.ends, c)
	}
}

// cut ends every connection.
func (w *proxy) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for c := range w.ends {
		c.Close()
	}
}

// set has then run once, when the first connection reaches the moment.
func (w *proxy) set(at moment, then func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.at, w.then = at, then
}

// reach runs what is set for a moment.
func (w *proxy) reach(at moment) {
	w.mu.Lock()
	then := w.then
	if at == "" || then == nil || w.at != at {
		w.mu.Unlock()
		return
	}
	w.then = nil
	w.mu.Unlock()
	then()
}

// proxied is one connection through a proxy. Client and server send in turn.
type proxied struct {
	proxy      *proxy
	statements map[string]string // prepared, by name

	mu     sync.Mutex
	sql    string // under way
	row    bool   // it has returned one that is not null
	failed bool
}

// asks forwards what the sidecar says.
func (c *proxied) asks(to io.Writer, from *bufio.Reader) error {
	frame, err := readFrame(from, 0) // the first message has no type
	for err == nil {
		if _, err = to.Write(frame); err != nil {
			break
		}
		if frame, err = readFrame(from, 1); err == nil {
			c.proxy.reach(before(c.begin(frame)))
		}
	}
	return err
}

// begin notes the statement that a message starts and returns it.
func (c *proxied) begin(frame []byte) string {
	body := frame[5:]
	var sql string
	switch frame[0] {
	case 'P': // prepare: name, statement
		name, rest, _ := bytes.Cut(body, []byte{0})
		text, _, _ := bytes.Cut(rest, []byte{0})
		c.statements[string(name)] = string(text)
		return ""
	case 'B': // bind: portal, name
		_, rest, _ := bytes.Cut(body, []byte{0})
		name, _, _ := bytes.Cut(rest, []byte{0})
		sql = c.statements[string(name)]
	case 'Q':
		sql = string(bytes.TrimRight(body, "\x00"))
	default:
		return ""
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sql, c.row, c.failed = sql, false, false
	return sql
}

// answers forwards what the server says.
func (c *proxied) answers(to io.Writer, from *bufio.Reader) error {
	for {
		frame, err := readFrame(from, 1)
		if err != nil {
			return err
		}
		c.proxy.reach(c.reached(frame))
		if _, err := to.Write(frame); err != nil {
			return err
		}
	}
}

// reached is the moment that a message of the server brings about.
func (c *proxied) reached(frame []byte) moment {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch frame[0] {
	case 'D': // row: number of columns, length of the first
		c.row = c.row || len(frame) >= 11 && int32(binary.BigEndian.Uint32(frame[7:])) >= 0
	case 'E':
		c.failed = true
	case 'd':
		return atCopying
	case 'Z': // ready: what was asked is committed
		sql, done := c.sql, c.row && !c.failed
		c.sql = ""
		if done {
			return after(sql)
		}
	}
	return ""
}

// readFrame reads one message of the protocol: a type of so many bytes, and a
// length that counts itself.
func readFrame(from io.Reader, typed int) ([]byte, error) {
	head := make([]byte, typed+4)
	if _, err := io.ReadFull(from, head); err != nil {
		return nil, err
	}
	length := int(binary.BigEndian.Uint32(head[typed:])) - 4
	if length < 0 || length > 1<<26 {
		return nil, io.ErrUnexpectedEOF
	}
	frame := append(head, make([]byte, length)...)
	_, err := io.ReadFull(from, frame[len(head):])
	return frame, err
}

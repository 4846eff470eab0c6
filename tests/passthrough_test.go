package tests

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// impostor is a server that is none: whoever logs in to it with the keys of another login, it logs in to the
// world's server as him, and asks there who he is. It returns its port and the answers.
func (w *world) impostor() (port int, told <-chan string) {
	w.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { l.Close() })
	answers := make(chan string, 100)
	go func() {
		for client, err := l.Accept(); err == nil; client, err = l.Accept() {
			go func() {
				defer client.Close()
				server, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", w.system.Cluster.Port()))
				if err != nil {
					return
				}
				defer server.Close()
				for _, c := range []net.Conn{client, server} {
					c.SetDeadline(time.Now().Add(time.Minute))
				}
				if who, err := takeOver(client, server); err == nil {
					answers <- who
				}
			}()
		}
	}()
	return l.Addr().(*net.TCPAddr).Port, answers
}

// takeOver forwards a login between client and server, and goes on with the session in the client's place.
func takeOver(client, server io.ReadWriter) (who string, err error) {
	var length [4]byte
	if _, err := io.ReadFull(client, length[:]); err != nil { // a startup message has no type
		return "", err
	}
	server.Write(length[:])
	if _, err := io.CopyN(server, client, int64(binary.BigEndian.Uint32(length[:]))-4); err != nil {
		return "", err
	}
	const authentication, ok, asks = 'R', 0, 10 // AuthenticationOk; AuthenticationSASL, and 11 that it continues
	for {
		kind, body, err := message(server, client, func(kind byte, body []byte) bool {
			return kind != authentication || binary.BigEndian.Uint32(body) != ok
		})
		if err != nil || kind != authentication {
			return "", fmt.Errorf("no login: %q %w", body, err)
		}
		switch binary.BigEndian.Uint32(body) {
		case ok:
			sql := "SELECT session_user\x00"
			server.Write(append(binary.BigEndian.AppendUint32([]byte{'Q'}, uint32(len(sql)+4)), sql...))
			for {
				kind, body, err := message(server, io.Discard, nil)
				if err != nil {
					return "", err
				} else if kind == 'D' {
					return string(body[6:]), nil // one column
				}
			}
		case asks, asks + 1:
			if _, _, err := message(client, server, nil); err != nil {
				return "", err
			}
		}
	}
}

// message reads a message and forwards it, unless keep says that it stays.
func message(from io.Reader, to io.Writer, forwards func(kind byte, body []byte) bool) (kind byte, body []byte, err error) {
	var head [5]byte
	if _, err := io.ReadFull(from, head[:]); err != nil {
		return 0, nil, err
	}
	body = make([]byte, binary.BigEndian.Uint32(head[1:])-4)
	if _, err := io.ReadFull(from, body); err != nil {
		return 0, nil, err
	}
	if forwards == nil || forwards(head[0], body) {
		_, err = to.Write(bytes.Join([][]byte{head[:], body}, nil))
	}
	return head[0], body, err
}

// Since Postgres 18 reading a foreign table can log in to its server with the keys of the reader's own login. Its owner,
// who is anybody with USAGE on the wrapper, passes them on to the server that they are of, and has a session there.
func TestTheOwnerOfAForeignServerIsNotLoggedInAsTheSidecar(t *testing.T) {
	t.Parallel()
	w := lonelyWorld(t, 10, 0)
	if one[int](w, w.super, `SELECT current_setting('server_version_num')::int`) < 180000 {
		t.Skip("postgres_fdw passes no logins on before Postgres 18")
	}
	port, told := w.impostor()
	m := w.owner()
	const item = `SELECT ok || ' ' || detail FROM dp_check_install() WHERE item = 'no foreign server logs in as who reads it'`
	if got := one[string](w, w.super, item); got != "true as it should be" {
		t.Error(got)
	}
	w.exec(w.super, `CREATE EXTENSION postgres_fdw; GRANT USAGE ON FOREIGN DATA WRAPPER postgres_fdw TO mallory`)
	if got := one[string](w, w.super, item); !strings.HasPrefix(got, "true as far as is known; but mallory may make foreign servers") {
		t.Error(got)
	}
	w.exec(m, fmt.Sprintf(`CREATE SERVER far FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '127.0.0.1', port '%d', dbname 'dpsidecar', sslmode 'disable');
		CREATE USER MAPPING FOR mallory SERVER far OPTIONS (user 'dp_sidecar', use_scram_passthrough 'true');
		CREATE FOREIGN TABLE mal.far (y float8, x float8) SERVER far; CREATE VIEW mal.near AS SELECT y, x FROM mal.far; GRANT SELECT ON mal.near TO dp_sidecar`, port))
	w.serve()
	register := func() error {
		_, err := w.steward.Exec(context.Background(), `SELECT dp_register('m', 'mal.near', 'y', '{x}', 100, options => '{"total": true, "new_population": "a test"}')`)
		return err
	}
	err := register()
	w.wantError(err, "22023", "its foreign server far may log in as dp_sidecar")
	if !strings.Contains(hint(err), "ALTER SERVER far OPTIONS (ADD use_scram_passthrough 'false')") {
		t.Error(hint(err))
	}
	w.exec(m, `ALTER SERVER far OPTIONS (ADD use_scram_passthrough 'false')`) // goes before that of the mapping
	if err := register(); err != nil {
		t.Fatal(err)
	}
	w.exec(w.steward, `SELECT dp_grant('m', 'mallory')`)
	_, err = regress(m, ask, "m", 0.5)
	w.wantError(err, "DP004", "")
	w.exec(m, `ALTER SERVER far OPTIONS (SET use_scram_passthrough 'true')`)
	_, err = regress(m, ask, "m", 0.5)
	w.wantError(err, "DP004", "its foreign server far may log in as dp_sidecar")
	w.idle()
	select {
	case who := <-told:
		t.Errorf("mallory is logged in as %s", who)
	default:
	}
	// A server of a superuser's is trusted with the login; and here it is what tells that the impostor is one.
	w.exec(w.super, `ALTER SERVER far OWNER TO postgres`)
	regress(m, ask, "m", 0.5)
	select {
	case who := <-told:
		if who != "dp_sidecar" {
			t.Errorf("logged in as %s", who)
		}
	case <-time.After(time.Minute):
		t.Error("the impostor is not believed")
	}
}

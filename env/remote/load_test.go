package remote

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vagen/env/remote/internal/pyjson"
	"vagen/env/remote/internal/wire"
)

// loadBoundary is the boundary of all requests of a load.
const loadBoundary = "gym_env_00000000000000000000000000000000"

// loader is one connection of a load. Its requests are prepared bytes, and it only finds
// the end of an answer, so that the service is measured: an HTTP client takes more time than
// a fast server.
type loader struct {
	conn net.Conn
	in   *bufio.Reader
}

func newLoader(url string) (*loader, error) {
	conn, err := net.DialTimeout("tcp", strings.TrimPrefix(url, "http://"), time.Minute)
	if err != nil {
		return nil, err
	}
	return &loader{conn: conn, in: bufio.NewReaderSize(conn, 64<<10)}, nil
}

// do sends a request and reads its answer into dst.
func (l *loader) do(dst, request []byte) ([]byte, error) {
	if err := l.conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		return dst, err
	}
	if _, err := l.conn.Write(request); err != nil {
		return dst, err
	}
	status, size := 0, -1
	for {
		line, err := l.in.ReadSlice('\n')
		if err != nil {
			return dst, err
		}
		line = bytes.TrimRight(line, "\r\n")
		if len(line) == 0 {
			break
		}
		name, value, isHeader := bytes.Cut(line, []byte(": "))
		switch {
		case status == 0 && len(line) >= 12:
			status, err = strconv.Atoi(string(line[9:12]))
		case isHeader && bytes.EqualFold(name, []byte("content-length")):
			size, err = strconv.Atoi(string(value))
		}
		if err != nil {
			return dst, err
		}
	}
	if size < 0 {
		return dst, errors.New("an answer without a length")
	}
	dst = append(dst[:0], make([]byte, size)...)
	if _, err := io.ReadFull(l.in, dst); err != nil {
		return dst, err
	}
	if status != http.StatusOK {
		return dst, fmt.Errorf("status %d: %s", status, dst)
	}
	return dst, nil
}

// loadRequest writes a request of the Lite protocol.
func loadRequest(t testing.TB, path string, in Info) []byte {
	data, err := pyjson.Append(nil, in, pyjson.Lite)
	require.NoError(t, err)
	body := wire.Encode(loadBoundary, data, nil, "image/png")
	head := fmt.Sprintf("POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: multipart/form-data; boundary=\"%s\"\r\nContent-Length: %d\r\n\r\n",
		path, loadBoundary, len(body))
	return append([]byte(head), body...)
}

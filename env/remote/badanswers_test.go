package remote

import (
	"bytes"
	"context"
	"encoding/binary"
	"hash/crc32"
	"image"
	"image/png"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"vagen/env/internal/envtest"
	"vagen/env/remote/internal/wire"
)

// rawService is a TCP server that reads a request and writes the given bytes, or nothing
// if they are nil.
func rawService(t *testing.T, answer []byte) string {
	t.Helper()
	var lc net.ListenConfig
	ln, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var conns sync.WaitGroup
	silent := make(chan struct{})
	conns.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			conns.Go(func() {
				defer conn.Close()
				_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
				seen := make([]byte, 0, 4096)
				for !bytes.Contains(seen, []byte("--\r\n")) {
					chunk := make([]byte, 4096)
					n, err := conn.Read(chunk)
					if err != nil {
						return
					}
					seen = append(seen, chunk[:n]...)
				}
				if answer == nil {
					<-silent
					return
				}
				_, _ = conn.Write(answer)
			})
		}
	})
	t.Cleanup(func() {
		close(silent)
		ln.Close()
		conns.Wait()
	})
	return "http://" + ln.Addr().String()
}

// body is a multipart response as bytes on the wire.
func httpBody(json string, images ...[]byte) (head, body []byte) {
	const boundary = "gym_env_0123456789abcdef0123456789abcdef"
	body = wire.Encode(boundary, []byte(json), images, "image/png")
	return []byte("HTTP/1.1 200 OK\r\nContent-Type: " + wire.ContentType("multipart/mixed", boundary) + "\r\n"), body
}

func sized(head, body []byte) []byte {
	return append(append(append([]byte{}, head...), "Content-Length: "+strconv.Itoa(len(body))+"\r\n\r\n"...), body...)
}

// bomb is a PNG whose header declares 60,000 by 60,000 pixels.
func bomb(t *testing.T) []byte {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, png.Encode(&b, image.NewGray(image.Rect(0, 0, 1, 1))))
	p := b.Bytes()
	binary.BigEndian.PutUint32(p[16:], 60_000)
	binary.BigEndian.PutUint32(p[20:], 60_000)
	binary.BigEndian.PutUint32(p[29:], crc32.ChecksumIEEE(p[12:29]))
	return p
}

// For every invalid answer the client returns an error that names the problem, in time,
// and leaks no goroutine.
func TestBadAnswersAreErrors(t *testing.T) {
	const good, pic = `{"session_id": "s", "obs": "start", "info": {}}`, `{"session_id": "s", "obs": "see <image>"}`
	pixel, err := wire.EncodeImage(image.NewRGBA(image.Rect(0, 0, 2, 2)), wire.PNG)
	require.NoError(t, err)
	head, body := httpBody(good)
	with := func(json string, images ...[]byte) []byte {
		h, b := httpBody(json, images...)
		return sized(h, b)
	}
	text := func(s string) []byte {
		return sized([]byte("HTTP/1.1 200 OK\r\nContent-Type: multipart/mixed; boundary=B\r\n"), []byte(s))
	}
	for _, c := range []struct {
		name   string
		answer []byte
		want   error
		says   string
	}{
		{"silence", nil, context.DeadlineExceeded, "no answer within 1s"},
		{"no HTTP", []byte("hello\r\n\r\n"), nil, "malformed HTTP"},
		{"nothing", []byte{}, io.EOF, ""},
		{"half a header", head[:20], nil, "malformed MIME header"},
		{"half a body", sized(head, body)[:len(head)+80], io.ErrUnexpectedEOF, ""},
		{"no end and no length", append(append(append([]byte{}, head...), "Connection: close\r\n\r\n"...),
			body[:len(body)-6]...), ErrProtocol, "the closing boundary is missing"},
		{"a length that never comes", append(append([]byte{}, head...), "Content-Length: 99999\r\n\r\n"...),
			io.ErrUnexpectedEOF, ""},
		{"chunks that end early", append(append([]byte{}, head...), "Transfer-Encoding: chunked\r\n\r\n5\r\nab"...),
			io.ErrUnexpectedEOF, ""},
		{"more than is allowed", sized(head, append(bytes.Repeat([]byte(" "), 100_000), body...)), ErrTooLarge,
			"100000 bytes are allowed"},
		{"no boundary", sized([]byte("HTTP/1.1 200 OK\r\nContent-Type: multipart/mixed\r\n"), body), ErrProtocol,
			"Missing boundary"},
		{"another kind", sized([]byte("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n"), []byte("<p>login</p>")), ErrProtocol,
			"Missing boundary"},
		{"not JSON", text("--B\r\nContent-Type: application/json\r\n\r\n{oops\r\n--B--\r\n"), ErrProtocol,
			`not JSON: "{oops"`},
		{"a list", text("--B\r\nContent-Type: application/json\r\n\r\n[1]\r\n--B--\r\n"), ErrProtocol,
			"session_id is missing"},
		{"too deep", text("--B\r\nContent-Type: application/json\r\n\r\n" + strings.Repeat("[", 9000) + "\r\n--B--\r\n"),
			ErrProtocol, "not JSON"},
		{"too many parts", text(strings.Repeat("--B\r\nContent-Type: x/y\r\n\r\nz\r\n", 70) + "--B--\r\n"), ErrProtocol,
			"more than 65 parts"},
		{"no text", with(`{"session_id": "s", "obs": 5}`), ErrProtocol, "must be text, found int64"},
		{"a mark too many", with(pic), ErrProtocol, "1 image marks and 0 images"},
		{"an image too many", with(pic, pixel, pixel), ErrProtocol, "1 image marks and 2 images"},
		{"no image", with(pic, []byte("GIF89a...")), ErrProtocol, "neither PNG nor JPEG"},
		{"half an image", with(pic, pixel[:40]), ErrProtocol, "image 0"},
		{"an image that is too large", with(pic, bomb(t)), wire.ErrLimit, "60000×60000"},
	} {
		t.Run(c.name, func(t *testing.T) {
			checkGoroutines(t)
			o := patientOptions(ownTransport(t))
			o.URLs, o.Timeout, o.Limits.Body = []string{rawService(t, c.answer)}, time.Second, 100_000
			client, err := NewClient(o)
			require.NoError(t, err)
			_, err = client.Reset(t.Context(), 1)
			require.Error(t, err)
			if c.want != nil {
				assert.ErrorIs(t, err, c.want)
			}
			assert.ErrorContains(t, err, c.says)
			assert.ErrorContains(t, err, "remote: POST /connect at "+o.URLs[0])
			assert.Less(t, len(err.Error()), 700)
			_ = client.Close()
		})
	}
}

// Bytes after the answer are ignored.
func TestSecondAnswerIsIgnored(t *testing.T) {
	checkGoroutines(t)
	head, body := httpBody(`{"session_id": "s", "obs": "start"}`)
	answer := sized(head, body)
	o := patientOptions(ownTransport(t))
	o.Transport.(*http.Transport).DisableKeepAlives = true
	o.URLs = []string{rawService(t, append(answer, answer...))}
	client, err := NewClient(o)
	require.NoError(t, err)
	for range 3 {
		got := envtest.Reset(t, client, 1)
		assert.Equal(t, "start", got.Text)
	}
}

// Environments may send metrics of any type; only numbers are kept.
func TestOutcomeKeepsWhatItCanUse(t *testing.T) {
	client, _ := scripted(t, nil, started, data(`{"obs": "o", "reward": true, "done": 1, "info": {
		"metrics": {"turn_metrics": {"a": true, "b": 2, "c": 0.5, "d": "x", "e": NaN, "f": null}, "traj_metrics": {}},
		"success": true, "actions": ["up", 5], "think": "t", "llm_raw_response": "raw"}}`))
	envtest.Reset(t, client, 1)
	out := envtest.Play(t, client, "x")
	assert.Equal(t, 1.0, out.Reward.Sum())
	assert.True(t, out.Done)
	assert.True(t, out.Success)
	assert.Equal(t, map[string]float64{"a": 1, "b": 2, "c": 0.5}, map[string]float64(out.Turn))
	assert.Equal(t, []string{"up"}, out.Response.Actions)
	assert.Equal(t, map[string]string{"think": "t"}, out.Response.Sections)
	assert.Equal(t, "x", client.Info()["metrics"].(map[string]any)["turn_metrics"].(map[string]any)["d"],
		"Info has everything")
}

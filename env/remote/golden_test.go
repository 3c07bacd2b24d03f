package remote

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vagen/env"
	"vagen/env/frozenlake"
	"vagen/env/remote/internal/pyjson"
	"vagen/env/remote/internal/wire"
	"vagen/env/sokoban"
	"vagen/internal/golden"
	"vagen/internal/testkit"
)

// exchange is one recorded request and its response.
type exchange struct {
	ID     string `json:"id"`
	Group  string `json:"group"`
	Note   string `json:"note"`
	Status int    `json:"status"`

	host    string
	request []byte // as it was on the wire
	method  string
	path    string
	asked   []byte // body of the request
	header  http.Header
	answer  []byte // body of the response
	reply   http.Header
}

// exchanges reads a folder of recordings.
func exchanges(t *testing.T, folder string) []exchange {
	t.Helper()
	var index struct {
		Exchanges []exchange `json:"exchanges"`
	}
	golden.Read(t, folder+"/index.json", &index)
	require.NotEmpty(t, index.Exchanges)
	for i := range index.Exchanges {
		e := &index.Exchanges[i]
		var err error
		e.request = testkit.Read(t, golden.Path(t, folder, e.ID+".req.http"))
		r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(e.request)))
		require.NoError(t, err, e.ID)
		e.host, e.method, e.path, e.header = r.Host, r.Method, r.URL.RequestURI(), r.Header
		e.asked, err = io.ReadAll(r.Body)
		require.NoError(t, err, e.ID)
		raw := testkit.Read(t, golden.Path(t, folder, e.ID+".resp.http"))
		a, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(raw)), r)
		require.NoError(t, err, e.ID)
		require.Equal(t, e.Status, a.StatusCode, e.ID)
		e.reply = a.Header
		// Some texts were replaced by shorter ones without correcting the length.
		e.answer, err = io.ReadAll(a.Body)
		if err != nil {
			require.ErrorIs(t, err, io.ErrUnexpectedEOF, e.ID)
		}
		if _, length, ok := bytes.Cut(raw, []byte("\r\n\r\n")); ok {
			e.answer = length
		}
	}
	return index.Exchanges
}

// placeholder stands for texts that were not recorded.
const placeholder = "(observation text)"

// The parts of bodies that differ from run to run.
var own = []struct {
	find *regexp.Regexp
	put  string
}{
	{regexp.MustCompile(`gym_env_[0-9a-f]{32}`), "BOUNDARY"},
	{regexp.MustCompile(`"(session_id)": ?"[0-9a-f]{32}"`), `"$1":"ID"`},
	{regexp.MustCompile(`"(created_at|last_access|idle_seconds|will_timeout_in)":[-+.0-9e]+`), `"$1":0`},
	{regexp.MustCompile(`Session [0-9a-f]{32} not`), "Session ID not"},
}

// masked removes parts that differ from run to run, and images, whose bytes depend on the
// encoder.
func masked(kind string, body []byte) string {
	if m, err := wire.Decode(kind, body, 1000); err == nil {
		for _, img := range m.Images {
			body = bytes.ReplaceAll(body, img, []byte("IMAGE"))
		}
	}
	text := string(body)
	for _, o := range own {
		text = o.find.ReplaceAllString(text, o.put)
	}
	return text
}

// stage is a service in place of a recorded one, with the settings of the recording.
type stage struct {
	server *httptest.Server
	known  map[string]string // recorded session id → ours
	stubs  map[string]*stub  // by our session id
	last   *stub
}

func newStage(t *testing.T, host string, all []exchange) *stage {
	st := &stage{known: map[string]string{}, stubs: map[string]*stub{}}
	s := serve(t, func(o *ServerOptions) {
		o.AdmitTimeout = 500 * time.Millisecond // the slot may become free a moment after the answer
		o.MaxSessions = 0                       // the recording says how many
		for _, e := range all {
			if e.host != host {
				continue
			}
			var said struct {
				InFlight any    `json:"max_inflight"`
				Sessions int    `json:"max_sessions"`
				Timeout  any    `json:"session_timeout"`
				Detail   string `json:"detail"`
			}
			_ = json.Unmarshal(e.answer, &said)
			if n, ok := said.InFlight.(float64); ok {
				o.MaxInFlight = int(n)
			}
			o.MaxSessions = max(o.MaxSessions, said.Sessions)
			if key := e.header.Get("X-API-Key"); key != "" && e.Status == http.StatusOK {
				o.APIKey = key
			}
		}
		o.Lite = func(config map[string]any) (env.Env, error) {
			e, err := newStub(config)
			if err != nil {
				return nil, err
			}
			st.last = e
			return e, nil
		}
		for _, e := range all {
			if e.host != host {
				continue
			}
			for name, f := range map[string]env.Factory{"frozenlake": frozenlake.FromConfig, "sokoban": sokoban.FromConfig} {
				if strings.Contains(e.Group, name) {
					o.Lite = f
				}
			}
		}
	})
	st.server = httptest.NewServer(s)
	t.Cleanup(st.server.Close)
	return st
}

// translated puts our session ids where the recorded ones are.
func (st *stage) translated(body []byte) []byte {
	for theirs, ours := range st.known {
		body = bytes.ReplaceAll(body, []byte(theirs), []byte(ours))
	}
	return body
}

// play sends a recorded request to the stage.
func (st *stage) play(t *testing.T, e exchange) (*http.Response, []byte) {
	t.Helper()
	r, err := http.NewRequest(e.method, st.server.URL+e.path, bytes.NewReader(st.translated(e.asked)))
	require.NoError(t, err)
	for name, values := range e.header {
		if name != "Content-Length" && name != "Accept-Encoding" {
			r.Header[name] = values
		}
	}
	a, err := st.server.Client().Do(r)
	require.NoError(t, err, e.ID)
	defer a.Body.Close()
	body, err := io.ReadAll(a.Body)
	require.NoError(t, err, e.ID)
	return a, body
}

// occupy keeps the only slot busy with a step of the session that a request is
// about, as some other client did in the recording. The result ends that.
func (st *stage) occupy(t *testing.T, e exchange) (free func()) {
	t.Helper()
	m, err := wire.Decode(e.header.Get("Content-Type"), st.translated(e.asked), 10)
	require.NoError(t, err)
	id := m.Data["session_id"].(string)
	one := st.stubs[id]
	require.NotNil(t, one, "%s: no session to keep busy", e.ID)
	one.hold, one.enter = make(chan struct{}), make(chan struct{})
	data, err := pyjson.Append(nil, Info{{"session_id", id}, {"method", "step"}}, pyjson.Lite)
	require.NoError(t, err)
	busy := e
	b := wire.NewBoundary()
	busy.asked, busy.header = wire.Encode(b, data, nil, ""), e.header.Clone()
	busy.header.Set("Content-Type", wire.ContentType("multipart/form-data", b))
	done := make(chan struct{})
	go func() {
		defer close(done)
		st.play(t, busy)
	}()
	<-one.enter
	return func() {
		close(one.hold)
		<-done
		one.hold = nil
	}
}

// The recordings are those of the original service
// (testdata/remote/README.md says how they were made). A server like it must
// answer them with the same bytes, except for parts that differ from run to run.
func TestServerAnswersAsTheOriginalService(t *testing.T) {
	const folder = "remote"
	all := exchanges(t, folder)
	tally := golden.Of(t, folder)
	stages := map[string]*stage{}
	for _, e := range all {
		run := tally.Next("%s", e.ID)
		st := stages[e.host]
		if st == nil {
			st = newStage(t, e.host, all)
			stages[e.host] = st
		}
		free := func() {}
		if strings.Contains(string(e.answer), `"server busy"`) {
			free = st.occupy(t, e)
		}
		got, body := st.play(t, e)
		free()
		st.compare(run, e, got, body)
	}
}

// compare compares our response with the recorded one.
func (st *stage) compare(run *golden.Run, e exchange, got *http.Response, body []byte) {
	run.Helper()
	run.Equal("status", got.StatusCode, e.Status)
	run.Equal("headers", headerNames(got.Header), headerNames(e.reply))
	kind, want := got.Header.Get("Content-Type"), e.reply.Get("Content-Type")
	run.Equal("content type", masked("", []byte(kind)), masked("", []byte(want)))
	ours, err := wire.Decode(kind, body, 100)
	if err != nil { // not multipart
		if !strings.Contains(string(e.answer), placeholder) {
			run.Equal("body", masked(kind, body), masked(want, e.answer))
		}
		return
	}
	theirs, err := wire.Decode(want, e.answer, 100)
	require.NoError(run, err, e.ID)
	if id, ok := theirs.Data["session_id"].(string); ok {
		mine := ours.Data["session_id"].(string)
		st.known[id], st.stubs[mine] = mine, st.last
	}
	if text, _ := theirs.Data["obs"].(string); strings.Contains(text, placeholder) {
		delete(ours.Data, "obs")
		delete(theirs.Data, "obs")
		compareValues(run, ours.Data, theirs.Data)
	} else {
		run.Equal("body", masked(kind, body), masked(want, e.answer))
	}
	run.Equal("images", len(ours.Images), len(theirs.Images))
	for i := range min(len(ours.Images), len(theirs.Images)) {
		if strings.Contains(e.Group, "stub") { // pictures of real environments are our own
			samePixels(run, ours.Images[i], theirs.Images[i])
		}
	}
}

// compareValues compares decoded objects whose session ids differ.
func compareValues(run *golden.Run, got, want map[string]any) {
	run.Helper()
	delete(got, "session_id")
	delete(want, "session_id")
	a, err := pyjson.Append(nil, got, pyjson.Legacy)
	require.NoError(run, err)
	b, err := pyjson.Append(nil, want, pyjson.Legacy)
	require.NoError(run, err)
	run.Equal("values", string(a), string(b))
}

func samePixels(run *golden.Run, got, want []byte) {
	run.Helper()
	room := 1 << 20
	a, err := wire.DecodeImage(got, &room)
	require.NoError(run, err)
	b, err := wire.DecodeImage(want, &room)
	require.NoError(run, err)
	run.Equal("size", a.Bounds(), b.Bounds())
	run.Equal("pixels", pixelText(a), pixelText(b))
}

// headerNames lists the headers of a response. Connection is about the server's
// connections, not about the answer.
func headerNames(h http.Header) string {
	var names []string
	for name := range h {
		if name != "Connection" {
			names = append(names, strings.ToLower(name))
		}
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

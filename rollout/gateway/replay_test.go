package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/golden"
	"vagen/internal/testkit"
	"vagen/mask"
	"vagen/policy"
	"vagen/reward"
	"vagen/rollout"
)

var update = flag.Bool("update", false, "write the outcomes of the recorded exchanges instead of comparing them")

// recording is a recorded request and its answer.
type recording struct {
	Client, Scenario string
	N                int
	Request          struct {
		Method, Path string
		Headers      map[string]string
		Body         json.RawMessage
	}
	Response struct {
		Status  int
		Body    json.RawMessage
		SSE     []json.RawMessage
		Dropped string
		Gone    string  `json:"client_gone"`
		Policy  *string // what the policy wrote, instead of the answer
	}
}

// lost reports whether the client did not get the answer. The streams of err_stream end with an error, which
// most files leave out.
func (x *recording) lost() bool {
	return x.Response.Status != 200 || x.Response.Dropped != "" || x.Response.Gone != "" || x.Scenario == "err_stream"
}

// outcome says what became of the calls of a scenario: each begins a row, continues or forks
// one, gets an earlier answer (again), or is refused; "lost" is added where the answer did
// not arrive.
type outcome struct {
	Calls     []string
	Rows      int // of the trajectory
	Discarded int // turns
}

// TestRecordedExchanges replays what real clients sent, see ../../testdata/gateway/README.md.
func TestRecordedExchanges(t *testing.T) {
	files := recordedFiles(t)
	var expected map[string]outcome
	const list = "../../testdata/gateway/expected.json"
	raw := testkit.Read(t, list)
	require.NoError(t, json.Unmarshal(raw, &expected))
	runs, order := map[string][]*recording{}, []string{}
	cases, numbers, seen := map[string]int{}, map[string]int{}, map[string]bool{}
	for _, f := range files {
		raw := testkit.Read(t, f)
		x := new(recording)
		require.NoError(t, json.Unmarshal(raw, x), f)
		folder := filepath.Base(filepath.Dir(f))
		cases[folder]++
		name := folder + "/" + x.Scenario
		if folder == "tool-images" {
			name = folder + "/" + strings.TrimSuffix(filepath.Base(f), ".json")
		}
		at := func() string { return fmt.Sprint(name, " ", numbers[name], " ", x.N) }
		if seen[at()] || numbers[name] == 0 { // the numbers begin again; concurrent calls are in any order
			numbers[name]++
		}
		seen[at()] = true
		key := fmt.Sprintf("%s#%d", name, numbers[name])
		if runs[key] == nil {
			order = append(order, key)
		}
		runs[key] = append(runs[key], x)
	}
	for _, key := range order {
		got := replay(t, key, runs[key])
		if *update {
			expected[key] = got
		} else if want, ok := expected[key]; ok {
			require.Equal(t, want, got, key)
		}
	}
	for _, folder := range slices.Sorted(maps.Keys(cases)) {
		t.Logf("golden: gateway/%s: %d cases", folder, cases[folder])
	}
	if *update {
		raw, err := json.Marshal(expected)
		require.NoError(t, err)
		raw = bytes.ReplaceAll(raw, []byte("},"), []byte("},\n"))
		testkit.Write(t, list, append(raw, '\n'))
	}
}

// recordedFiles returns the exchanges, those of a client in order. Clients that the folder of recorded numbers lacks
// are in testdata.
func recordedFiles(t *testing.T) (files []string) {
	seen := map[string]string{} // the root by client
	for _, root := range []string{golden.Root(t), "../../testdata"} {
		found, err := filepath.Glob(filepath.Join(root, "gateway", "*", "[0-9a-z]*.json"))
		require.NoError(t, err)
		sort.Strings(found)
		for _, f := range found {
			client := filepath.Base(filepath.Dir(f))
			if seen[client] == "" {
				seen[client] = root
			}
			if seen[client] == root {
				files = append(files, f)
			}
		}
	}
	return files
}

// replay plays a scenario as one episode.
func replay(t *testing.T, name string, xs []*recording) outcome {
	var out outcome
	s := &scripted{}
	var now *recording
	s.next = func(policy.Prompt) string { return now.policyText() }
	ids := map[string]string{} // recorded to ours
	var g *Gateway
	var e *Episode
	g = opened(t, func(ctx context.Context, ep *Episode) (*Score, error) {
		e = ep
		for _, x := range xs {
			now = x
			out.Calls = append(out.Calls, send(t, g, ep, x, ids))
		}
		return &Score{Reward: 1}, nil
	})
	tr := play(t, g, s, map[string]any{"constraints": Count})
	if errors.Is(tr.Err, ErrNoTurns) {
		return out
	}
	require.NoError(t, tr.Err, name)
	require.Len(t, tr.Turns, len(e.turns)-int(tr.Metrics["agent/discarded"]))
	out.Rows, out.Discarded = len(tr.Rows), int(tr.Metrics["agent/discarded"])
	checkRows(t, tr)
	return out
}

// play plays one episode.
func play(t testing.TB, g *Gateway, p policy.Policy, config map[string]any) *rollout.Trajectory {
	t.Helper()
	return playMany(t, g, p, 1, config)[0]
}

// checkRows computes the log-probs of rows again and compares them with the recorded ones.
func checkRows(t testing.TB, tr *rollout.Trajectory) {
	t.Helper()
	turns := 0
	for r := range tr.Rows {
		row := &tr.Rows[r]
		turns += row.Turns()
		require.Len(t, row.LogProbs, row.Len())
		all := row.Tokens()
		response := row.Response(nil)
		for i := range all {
			if response[i] {
				require.Equal(t, logProb(all[:i+1], imagesBefore(tr, r, i)), row.LogProbs[i], "row %d token %d", r, i)
			} else {
				require.Zero(t, row.LogProbs[i])
			}
		}
		for _, turn := range tr.Turns {
			if turn.Row == r {
				require.Contains(t, text(all), turn.Response)
			}
		}
	}
	require.Equal(t, len(tr.Turns), turns, "every turn is in one row")
	_, err := rollout.NewBatch([]*rollout.Trajectory{tr}, mask.Options{}, reward.PerTurn)
	require.NoError(t, err)
}

// imagesBefore returns the images of a row that were read before a token.
func imagesBefore(tr *rollout.Trajectory, r, token int) []policy.Image {
	row := &tr.Rows[r]
	n, turn := len(row.Images), row.Turns()
	for k := len(tr.Turns) - 1; k >= 0; k-- {
		if tr.Turns[k].Row != r {
			continue
		}
		turn--
		if start, _, _ := row.TurnAt(turn); start <= token {
			break
		}
		n -= len(tr.Turns[k].Observation.Images)
	}
	return row.Images[:n]
}

// send sends a recorded request and says what became of it.
func send(t *testing.T, g *Gateway, e *Episode, x *recording, ids map[string]string) string {
	path := x.Request.Path
	if at := strings.Index(path, "/v1/"); at >= 0 {
		path = path[at:]
	} else if at := strings.Index(path, "/chat/"); at >= 0 {
		path = "/v1" + path[at:]
	}
	body := strings.ReplaceAll(string(x.Request.Body), "RECORDED", e.ID[:8]) // in the ids of answers
	for was, is := range ids {
		body = strings.ReplaceAll(body, `"`+was+`"`, `"`+is+`"`)
	}
	r := httptest.NewRequest(x.Request.Method, "http://127.0.0.1/episodes/"+e.ID+path, strings.NewReader(body))
	for k, v := range x.Request.Headers {
		r.Header.Set(k, v)
	}
	rec := httptest.NewRecorder()
	w := http.ResponseWriter(rec)
	if x.lost() {
		w = &cutting{rec, 0}
	}
	before := len(e.turns)
	retries := e.state.counts["agent/retries"]
	g.server.Handler.ServeHTTP(w, r)
	if rec.Code == 200 && !x.lost() {
		x.learn(rec.Body.Bytes(), ids)
	}
	what := "other"
	switch {
	case rec.Code >= 400:
		var bad struct{ Error struct{ Param string } }
		_ = json.Unmarshal(rec.Body.Bytes(), &bad)
		return "refused: " + bad.Error.Param
	case e.state.counts["agent/retries"] > retries:
		what = "again"
	case len(e.turns) > before:
		what = e.place(before)
	}
	if x.lost() {
		what += ", lost"
	}
	return what
}

// place says where a turn went.
func (e *Episode) place(turn int) string {
	c := e.turns[turn]
	if c.parent == e.root {
		return "begin"
	}
	for _, k := range c.parent.kids {
		if k != c && k.answer != nil && k.turn < turn {
			return "fork"
		}
	}
	return "continue"
}

// learn maps the ids of a recorded answer to those of ours.
func (x *recording) learn(ours []byte, ids map[string]string) {
	var was, is struct {
		ID     string `json:"id"`
		Output []struct {
			ID   string `json:"id"`
			Type string `json:"type"`
		} `json:"output"`
	}
	if json.Unmarshal(x.Response.Body, &was) != nil || json.Unmarshal(ours, &is) != nil || !strings.HasPrefix(was.ID,
		"resp_") {
		return
	}
	ids[was.ID] = is.ID
	for _, a := range was.Output {
		for _, b := range is.Output {
			if a.Type == b.Type && a.ID != "" {
				ids[a.ID] = b.ID
			}
		}
	}
}

package remote

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"vagen/env"
	"vagen/env/remote/internal/pyjson"
	"vagen/env/remote/internal/wire"
	"vagen/internal/floats"
)

// For any request to the Lite routes, the answer has the form that clients expect, and the
// limit on sessions holds.
func FuzzLiteService(f *testing.F) {
	for _, text := range []string{
		`{"env_config": {"images": 1}, "seed": 3}`, `{"session_id": "s", "method": "step", "params": {"action_str": "x"}}`,
		`{"session_id": "s", "method": "reset", "params": {"seed": -1}}`, `{"session_id": "s", "method": "close"}`, `[1]`,
		`{"env_config": 5}`, `{x`,
	} {
		f.Add(true, "multipart/form-data; boundary=B", []byte("--B\r\nContent-Type: application/json\r\n\r\n"+text+
			"\r\n--B--\r\n"))
		f.Add(false, "multipart/form-data; boundary=B", []byte("--B\r\nContent-Type: application/json\r\n\r\n"+text+
			"\r\n--B--\r\n"))
	}
	f.Fuzz(func(t *testing.T, connect bool, kind string, body []byte) {
		s := serve(t, func(o *ServerOptions) {
			o.MaxSessions = 2
			o.Lite = func(config map[string]any) (env.Env, error) {
				e, err := newStub(config)
				if err == nil {
					// Sizes that a client may ask for are not what is tested.
					e.o.Images, e.o.Width, e.o.Height = max(0, min(e.o.Images, 3)), 2, 2
					e.o.Wait, e.o.Hang = "", ""
				}
				return e, err
			}
		})
		s.lite.add(&session{id: "s", env: &stub{o: stubOptions{Goal: 3}}, inform: &stub{}})
		s.quota.taken++
		path := "/call"
		if connect {
			path = "/connect"
		}
		a := ask(t, s, http.MethodPost, path, body, func(r *http.Request) { r.Header.Set("Content-Type", kind) })
		switch a.status {
		case http.StatusOK:
			if a.data == nil {
				t.Fatalf("an answer without data: %q", a.text)
			}
		case http.StatusBadRequest, http.StatusNotFound, http.StatusServiceUnavailable, http.StatusInternalServerError:
			if a.detail == "" && !strings.Contains(a.text, `{"detail":"`) {
				t.Fatalf("status %d without a reason: %q", a.status, a.text)
			}
		default:
			t.Fatalf("status %d: %q", a.status, a.text)
		}
		if n := s.lite.len(); n > 2 || n != s.quota.taken {
			t.Fatalf("%d sessions, %d counted", n, s.quota.taken)
		}
	})
}

var legacyPaths = []string{"/environments", "/batch/reset", "/batch/step", "/batch/reward", "/batch/system_prompt",
	"/batch/close", "/reset/a", "/step/a"}

// For any request to the legacy routes, the answer is JSON or an error page.
func FuzzLegacyService(f *testing.F) {
	for i, text := range []string{
		`{"ids2configs": {"b": {"env_name": "stub", "env_config": {"goal": 2}}}}`, `{"ids2seeds": {"a": null}}`,
		`{"ids2actions": {"a": "x"}}`,
		`{"env_ids": ["a"]}`, `{"env_ids": ["a", "z"]}`, `{"env_ids": "a"}`, `{"seed": 1e3}`, `{"action": 5}`, `null`, `[]`,
		`{"ids2configs": {"b": 1}}`,
	} {
		f.Add(i, []byte(text))
	}
	f.Fuzz(func(t *testing.T, route int, body []byte) {
		var closed atomic.Int64
		s := serve(t, func(o *ServerOptions) { o.Lite, o.Legacy, o.MaxSessions = nil, legacyStubs(t, &closed), 50 })
		createA(t, s)
		post(t, s, "/batch/reset", `{"ids2seeds": {"a": 1}}`)
		path := legacyPaths[uint(route)%uint(len(legacyPaths))]
		if strings.Contains(string(body), "_on") || strings.Contains(string(body), "images") {
			return // the stub's own traps
		}
		a := ask(t, s, http.MethodPost, path, body, func(r *http.Request) { r.Header.Set("Content-Type", kindJSON) })
		if !slices.Contains([]int{200, 400, 500, 503}, a.status) {
			t.Fatalf("status %d: %q", a.status, a.text)
		}
		if a.data == nil && !strings.HasPrefix(a.text, "<!doctype html>") {
			t.Fatalf("neither an object nor a page: %q", a.text)
		}
	})
}

// For any answer to a step, the client returns an error or an outcome that keeps the
// contract of env.Env.
func FuzzAnswerToAStep(f *testing.F) {
	f.Add("multipart/mixed; boundary=B", []byte("--B\r\nContent-Type: application/json\r\n\r\n"+
		`{"obs": "o", "reward": 1, "done": false, "info": {"metrics": {"turn_metrics": {"a": NaN}}}}`+"\r\n--B--\r\n"))
	f.Add(kindJSON, []byte(`{"results": {"id": [{"obs_str": "x"}, 0.5, true, {"actions": [1, "a"], "format_correct": 1}]}, "rewards": {"id": 1}}`))
	f.Fuzz(func(t *testing.T, kind string, body []byte) {
		o := patientOptions(&script{answers: []answerFunc{raw(http.StatusOK, kind, string(body))}})
		o.Limits, o.Name = Limits{Body: 1 << 20, Parts: 5, Pixels: 10_000}, "stub"
		lite, err := NewClient(o)
		if err != nil {
			t.Fatal(err)
		}
		lite.session, lite.ready = "s", true
		legacy, err := NewLegacyClient(o)
		if err != nil {
			t.Fatal(err)
		}
		legacy.id, legacy.ready = "id", true
		for _, e := range []env.Env{lite, legacy} {
			out, err := e.Step(context.Background(), "x")
			if err != nil {
				continue
			}
			if marks := strings.Count(out.Observation.Text, env.ImageMark); marks != len(out.Observation.Images) {
				t.Fatalf("%d marks, %d images", marks, len(out.Observation.Images))
			}
			if sum := out.Reward.Sum(); !floats.Finite(sum) {
				t.Fatalf("reward %v", sum)
			}
			for _, v := range out.Turn {
				if !floats.Finite(v) {
					t.Fatalf("metric %v", v)
				}
			}
		}
	})
}

// The service receives the options of a configuration unchanged.
func FuzzEnvironmentOptions(f *testing.F) {
	f.Add([]byte(`{"a": 1, "b": [1.5, {"c": "é"}], "d": null}`))
	f.Fuzz(func(t *testing.T, config []byte) {
		v, err := pyjson.Parse(config)
		options, ok := v.(map[string]any)
		if err != nil || !ok {
			return
		}
		sent, err := pyjson.Append(nil, integral(options), pyjson.Lite)
		if err != nil {
			return // nested too deeply
		}
		b := wire.NewBoundary()
		m, err := wire.Decode(wire.ContentType("multipart/form-data", b), wire.Encode(b, sent, nil, ""), 2)
		if err != nil {
			t.Fatal(err)
		}
		again, err := pyjson.Append(nil, m.Data, pyjson.Lite)
		if err != nil || string(again) != string(sent) {
			t.Fatalf("%q became %q, %v", sent, again, err)
		}
	})
}

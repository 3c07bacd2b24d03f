package view_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"image"
	"image/png"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// fake is a server with the answers of the viewer's API that tests of the page need:
// two runs, ten thousand episodes, and texts that would do harm if they were parsed.
type fake struct {
	*httptest.Server
	mu       sync.Mutex
	lines    int
	episodes int
	written  []chan string // events of the listeners
	noEvents bool          // the stream of events fails, so the page polls
}

// hostile are texts that open a dialog or make an element if they are parsed as HTML.
var hostile = []string{
	`<img src=x onerror="alert(1)">`, `<script>alert(2)</script>`, `"><svg onload=alert(3)>`,
	`</script><script>alert(4)</script>`,
	`<!--<script>`, `javascript:alert(5)`, `<iframe srcdoc="<script>alert(6)</script>">`, `<style>*{display:none}</style>`,
	`{{constructor.constructor('alert(7)')()}}`, "\u2028alert(8)\u2029",
}

const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'"

func newFake(t *testing.T) *fake {
	f := &fake{lines: 40, episodes: 10000}
	m := http.NewServeMux()
	m.HandleFunc("/api/runs", f.json(f.runs))
	m.HandleFunc("/api/runs/{run}/metrics", f.json(f.metrics))
	m.HandleFunc("/api/runs/{run}/episodes", f.json(f.list))
	m.HandleFunc("/api/runs/{run}/episode", f.json(f.episode))
	m.HandleFunc("/api/runs/{run}/credit", f.json(f.credit))
	m.HandleFunc("/api/runs/{run}/measured", f.measured)
	m.HandleFunc("/api/runs/{run}/image", picture)
	m.HandleFunc("/api/config", f.json(f.config))
	m.HandleFunc("/api/estimators", f.json(estimators))
	m.HandleFunc("/api/events", f.events)
	m.Handle("/", http.FileServerFS(os.DirFS("static")))
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Security-Policy", policy)
		w.Header().Set("X-Content-Type-Options", "nosniff")
		m.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		f.mu.Lock()
		for _, c := range f.written {
			close(c)
		}
		f.written = nil
		f.mu.Unlock()
		f.Close()
	})
	return f
}

func (f *fake) json(answer func(*http.Request) any) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		defer f.mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(answer(r))
	}
}

type object = map[string]any

func (f *fake) runs(*http.Request) any {
	run := func(id, name string, seed int, problems ...string) object {
		return object{"id": id, "name": name, "steps": f.lines, "live": true, "updated": f.lines, "problems": problems,
			"episodes": f.episodes, "estimator": "bi_level_gae", "seed": seed}
	}
	return object{"runs": []object{run("r0", "default-seed0", 0),
		run("r1", "no-turn-gamma "+hostile[0], 1, "metrics.jsonl ends in the middle of a line; the line is left out.")}}
}

func (f *fake) metrics(r *http.Request) any {
	after, _ := strconv.Atoi(r.FormValue("after"))
	series := map[string][][2]any{}
	shift := float64(r.PathValue("run")[1])
	for step := after + 1; step <= f.lines; step++ {
		for i, name := range []string{
			"train/success", "train/score", "actor/entropy", "actor/ppo_kl", "actor/pg_loss", "critic/vf_loss",
			"critic/vf_explained_var", "response_length/mean", "train/format_correct", "critic/score/mean",
			"perf/host_memory_mb", "time/step", "val/success",
		} {
			if name != "val/success" || step%10 == 0 {
				y := 1 - math.Exp(-float64(step)/14) + 0.1*math.Sin(float64(step+i)+shift)
				series[name] = append(series[name], [2]any{step, y})
			}
		}
	}
	return object{"lines": f.lines, "reset": after > f.lines, "series": series}
}

func (f *fake) config(r *http.Request) any {
	n := len(strings.Split(r.FormValue("runs"), ","))
	keys := []object{}
	for _, k := range [][3]string{
		{"algorithm.adv_estimator", "bi_level_gae", "bi_level_gae"}, {"algorithm.gamma", "1.0", "1.0"},
		{"algorithm.lam", "0.95", "0.95"},
		{"algorithm.high_level_gamma", "0.95", "1.0"}, {"env.name", "frozenlake", "frozenlake"}, {"trainer.seed", "0", "1"},
		{"trainer.experiment_name", "default", hostile[1]},
	} {
		keys = append(keys, object{"key": k[0], "values": k[1 : 1+n]})
	}
	return object{"keys": keys}
}

// summary is the i-th episode of the list.
func (f *fake) summary(i int) object {
	success := i%3 != 0
	end := map[bool]string{true: "terminated", false: "max_turns"}[success]
	reward := math.Round((float64(i%7)/5-0.4)*100) / 100
	excerpt := "<observation>The player is above the hole.</observation><answer>Down, Right</answer>"
	if i%50 == 6 {
		excerpt = hostile[i/50%len(hostile)]
	}
	kind := map[bool]string{true: "val", false: "train"}[i%10 == 9]
	return object{
		"key": fmt.Sprintf("%s/%d/%d-%d", kind, i/250+1, i%250/4, i%4), "kind": kind, "step": i/250 + 1, "group": i % 250 / 4,
		"index": i % 4, "env": []string{"frozenlake", "sokoban"}[i/5%2],
		"seed": 1000 + i, "end": end, "success": success, "reward": reward, "turns": 3, "tokens": 172, "scores": true,
		"measured": i == 1, "excerpt": excerpt,
	}
}

func (f *fake) list(r *http.Request) any {
	all := []object{}
	low, noLow := strconv.ParseFloat(r.FormValue("min"), 64)
	high, noHigh := strconv.ParseFloat(r.FormValue("max"), 64)
	for i := range f.episodes {
		e := f.summary(i)
		fits := func(name string) bool {
			want := r.FormValue(name)
			return want == "" || fmt.Sprint(e[name]) == want
		}
		if !fits("kind") || !fits("success") || !fits("env") || !fits("end") || !fits("step") ||
			!strings.Contains(e["excerpt"].(string), r.FormValue("text")) ||
			noLow == nil && e["reward"].(float64) < low || noHigh == nil && e["reward"].(float64) > high {
			continue
		}
		all = append(all, e)
	}
	if order := r.FormValue("order"); strings.HasSuffix(order, "reward") {
		slices.SortStableFunc(all, func(a, b object) int {
			if order[0] == '-' {
				a, b = b, a
			}
			return cmp.Compare(a["reward"].(float64), b["reward"].(float64))
		})
	}
	offset, _ := strconv.Atoi(r.FormValue("offset"))
	limit, _ := strconv.Atoi(r.FormValue("limit"))
	part := all[min(offset, len(all)):min(offset+limit, len(all))]
	return object{"total": len(all), "facets": object{"env": []string{"frozenlake", "sokoban"}, "end": []string{
		"terminated", "max_turns"}, "step": []int{1, 2, 3, 40}}, "episodes": part}
}

func (f *fake) find(key string) object {
	for i := range f.episodes {
		if e := f.summary(i); e["key"] == key {
			return e
		}
	}
	return f.summary(0)
}

func (f *fake) episode(r *http.Request) any {
	e := f.find(r.FormValue("key"))
	evil := strings.Join(hostile, "\n")
	said := []string{
		"<think>The goal is two steps to the right.</think><observation>The player is left of the goal. A hole is below.</observation><prediction>The player will be nearer to the goal.</prediction><answer>Right</answer>",
		"<think>I go down now.</think><observation>The hole is right of the player.</observation><prediction>The player will be at the goal.</prediction><answer>Down</answer>",
		"<think>" + evil + "</think><answer>Right</answer>",
	}
	turns := []object{}
	var texts []string
	var pieces []object
	var turn []int
	piece := func(kind string, t int, words ...string) {
		pieces = append(pieces, object{"kind": kind, "start": len(texts), "end": len(texts) + len(words)})
		for _, w := range words {
			texts, turn = append(texts, w), append(turn, t)
		}
	}
	piece("prompt", -1, strings.SplitAfter(
		"<|im_start|> system\n You walk over a frozen lake. Answer with Left, Down, Right or Up. <|im_end|>", " ")...)
	for i, text := range said {
		reward := []object{{"format": 0.05, "grounding": 0.05}, {"format": 0.05, "hole": -0.5}, {"success": 1.0}}[i]
		turns = append(turns, object{
			"row": 0, "observation": "You see the lake. <image>\n" +
				map[bool]string{true: evil, false: "The player is at (1, 2)."}[i == 2],
			"images": []any{fmt.Sprintf("/api/runs/r0/image?kind=train&step=1&name=%d.png", i)}, "cut": i == 1,
			"response": text, "stop": "end", "format": i != 2,
			"actions": []string{[]string{"Right", "Down", "Right"}[i]}, "reward": reward, "metrics": object{},
			"claims": []object{{"kind": "grounding", "said": "The player is left of the goal.",
				"truth": "player (1,2), goal (1,4)", "score": 1}, {"kind": "worldmodeling", "said": "The player will be nearer.",
				"truth": "player (1,3), goal (1,4)", "score": nil}},
		})
		piece("observation", i, append(slices.Repeat([]string{"<|image_pad|>"}, 16),
			strings.SplitAfter("You see the lake. \n", " ")...)...)
		piece("response", i, strings.SplitAfter(strings.ReplaceAll(strings.ReplaceAll(text, "<", " <"), ">", "> "), " ")...)
	}
	n := len(texts)
	columns := map[string][]any{}
	names := []string{
		"loss", "sampled", "old", "reference", "value", "entropy", "reward", "advantage", "return", "log_ratio",
	}
	for _, name := range names {
		columns[name] = make([]any, n)
	}
	ids := make([]int, n)
	for i := range n {
		ids[i] = 1000 + i
		columns["loss"][i] = 0
	}
	for _, p := range pieces {
		if p["kind"] != "response" {
			continue
		}
		for i := p["start"].(int); i < p["end"].(int); i++ {
			for k, name := range names {
				columns[name][i] = 0.5 + 0.4*math.Sin(float64(i+k))
			}
			columns["loss"][i] = 1
		}
	}
	row := object{"tokens": ids, "texts": texts, "pieces": pieces, "turn": turn, "columns": columns}
	for k, v := range (object{"error": "", "config": object{}, "metrics": object{}, "turns": turns, "rows": []object{row},
		"problems": []string{}}) {
		e[k] = v
	}
	return e
}

func (f *fake) credit(r *http.Request) any {
	gamma, err := strconv.ParseFloat(r.FormValue("gamma"), 64)
	if err != nil {
		gamma = 1
	}
	if r.FormValue("estimator") == "grpo" {
		return object{"rows": []any{}, "turns": []any{},
			"problem": "grpo needs the group, and only one episode of it was stored."}
	}
	row := f.episode(r).(object)["rows"].([]object)[0]
	turn, loss := row["turn"].([]int), row["columns"].(map[string][]any)["loss"]
	adv, ret := make([]any, len(turn)), make([]any, len(turn))
	claims := []float64{0.25 * gamma, -0.7 * gamma * gamma, 0.4}
	if r.FormValue("estimator") == "gae" {
		claims = []float64{0.1 * gamma, 0.05 * gamma, 0.1}
	}
	for i := range turn {
		if loss[i] == 0 {
			continue
		}
		adv[i] = claims[turn[i]] + 0.2*math.Sin(float64(i))*gamma
		ret[i] = adv[i].(float64) + 0.3
	}
	return object{"rows": []object{{"advantage": adv, "return": ret}},
		"turns": []object{{"claim": claims[0]}, {"claim": claims[1]}, {"claim": claims[2]}}, "problem": ""}
}

func (f *fake) measured(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	if e := f.find(r.FormValue("key")); e["measured"] != true {
		w.WriteHeader(http.StatusNotFound)
		_ = json.NewEncoder(w).Encode(object{"error": "not measured"})
		return
	}
	turn := func(i int, a, low, high, regret float64, decided bool) object {
		return object{"turn": i, "q": 0.5 + a, "v": 0.5, "advantage": a, "low": low, "high": high, "n": 16,
			"decided": decided, "regret": regret,
			"alternatives": []object{{"actions": []string{"Right"}, "q": 0.9, "low": 0.75, "high": 1.05},
				{"actions": []string{"Left"}, "q": 0.4, "low": 0.2, "high": 0.6}}, "claims": object{"gae": 0.1}}
	}
	_ = json.NewEncoder(w).Encode(object{"turns": []object{turn(0, 0.12, -0.05, 0.29, 0.05, false),
		turn(1, -0.55, -0.75, -0.35, 0.95, true), turn(2, 0.3, 0.1, 0.5, 0, true)}, "mistake": 1})
}

func estimators(*http.Request) any {
	params := func(names ...string) (ps []object) {
		for _, n := range names {
			ps = append(ps, object{"name": n, "kind": "number", "default": 1.0, "max": 1.0})
		}
		return ps
	}
	return object{"estimators": []object{
		{"name": "gae", "about": "Generalized advantage estimation over the tokens that the model wrote.",
			"params": params("gamma", "lam")},
		{"name": "bi_level_gae", "about": "Advantages of turns, then of the tokens in them.",
			"params": params("gamma", "lam", "high_level_gamma")},
		{"name": "grpo", "about": "Score of the episode, relative to its group.", "params": []object{
			{"name": "normalize_distance", "kind": "flag", "default": 0.0, "max": 1.0},
			{"name": "history_length", "kind": "whole", "default": 2.0, "max": 8.0}}},
	}}
}

// picture is black.
func picture(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "image/png")
	_ = png.Encode(w, image.NewGray(image.Rect(0, 0, 48, 48)))
}

func (f *fake) events(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	if f.noEvents {
		f.mu.Unlock()
		http.Error(w, "no events here", http.StatusServiceUnavailable)
		return
	}
	c := make(chan string, 16)
	f.written = append(f.written, c)
	f.mu.Unlock()
	w.Header().Set("Content-Type", "text/event-stream")
	w.WriteHeader(http.StatusOK)
	w.(http.Flusher).Flush()
	for {
		select {
		case <-r.Context().Done():
			return
		case e, ok := <-c:
			if !ok {
				return
			}
			fmt.Fprint(w, e)
			w.(http.Flusher).Flush()
		}
	}
}

// grow adds lines to the metrics of the runs, and episodes.
func (f *fake) grow(lines, episodes int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lines += lines
	f.episodes += episodes
	for _, c := range f.written { // 16 events wait, which is more than a test makes
		c <- fmt.Sprintf("event: metrics\ndata: {\"run\":\"r0\",\"lines\":%d}\n\n", f.lines)
		if episodes > 0 {
			c <- "event: episodes\ndata: {\"run\":\"r0\"}\n\n"
		}
	}
}

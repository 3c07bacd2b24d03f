package evaluation

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vagen/internal/traintest"
	"vagen/policy/chat"
	"vagen/rollout"
	"vagen/rollout/evaluate"
	"vagen/train/config"
	"vagen/train/queue"
	"vagen/train/worker"
)

// The test binary is also the program of workers and evaluators: this variable has the role.
const roleVariable = "VAGEN_EVALUATION_ROLE"

func TestMain(m *testing.M) {
	traintest.Main(m, roleVariable, map[string]func() error{"worker": workProcess, "evaluator": func() error {
		_, err := played(context.Background(), os.Getenv("CONFIG"), "run.queue=embedded", "run.queue_options.listen="+os.Getenv("LISTEN"), "run.queue_options.lease=1", "run.queue_options.tries=20")
		return err
	}})
}

func workProcess() error {
	o := worker.DefaultOptions()
	o.URL, o.Slots = os.Getenv("URL"), 2
	count := 0
	o.OnTask = func(rollout.Episode) {
		count++
		traintest.DieOnce("worker"+os.Getenv("NUMBER"), count)
	}
	return worker.Work(context.Background(), o)
}

// api is a service like OpenAI's whose answers depend on the request only.
type api struct {
	asked, now, most atomic.Int64
	status           atomic.Int64 // of all answers; 0 is 200
	key              string
}

func (s *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.asked.Add(1)
	defer s.now.Add(-1)
	for n := s.now.Add(1); ; {
		if old := s.most.Load(); n <= old || s.most.CompareAndSwap(old, n) {
			break
		}
	}
	if s.key != "" && r.Header.Get("Authorization") != "Bearer "+s.key {
		http.Error(w, `{"error":{"message":"wrong key","code":"invalid_api_key"}}`, http.StatusUnauthorized)
		return
	}
	if code := int(s.status.Load()); code != 0 {
		http.Error(w, `{"error":{"message":"no credit","code":"insufficient_quota"}}`, code)
		return
	}
	var in struct {
		Messages []json.RawMessage `json:"messages"`
		Seed     int64             `json:"seed"`
	}
	if json.NewDecoder(r.Body).Decode(&in) != nil {
		http.Error(w, "{}", http.StatusBadRequest)
		return
	}
	h := fnv.New64()
	for _, m := range in.Messages {
		h.Write(m)
	}
	move := []string{"Right", "Down", "Left"}[(h.Sum64()+uint64(in.Seed))%3]
	fmt.Fprintf(w, `{"choices":[{"message":{"content":"<think>-</think><answer>%s</answer>"},"finish_reason":"stop"}],"usage":{"prompt_tokens":%d,"completion_tokens":5}}`, move, 100*len(in.Messages))
}

const queueText = `
envs:
  - {name: FrozenLake, n_envs: 10, tag_id: seen, seed: [1, 100, 1], max_turns: 3, response_length_per_turn: 32, config: {render_mode: vision, size: 3}}
  - {name: FrozenLake, n_envs: 10, tag_id: read, harness: compact, compact_budget: 400, max_turns: 3, response_length_per_turn: 32, config: {render_mode: text, size: 3}}
run: {backend: mine, max_concurrent_jobs: 16, live_summary: false}
backends:
  mine: {base_url: "ADDRESS/v1", model: served, key_env: EVAL_KEY, extra: {top_a: 3}, max_concurrency: 3, price: {prompt: 1, completion: 10}, max_retries: 0}
`

const evalKey = "sk-evaluation-7d1c0b9a55aa"

// served starts a service and writes an evaluation of it. Only workers need the key.
func served(t *testing.T) (s *api, path string) {
	t.Helper()
	t.Setenv("EVAL_KEY", evalKey)
	s = &api{key: evalKey}
	h := httptest.NewServer(s)
	t.Cleanup(h.Close)
	return s, evalFile(t, strings.Replace(queueText, "ADDRESS", h.URL, 1))
}

// played plays an evaluation and returns the folder of its results.
func played(ctx context.Context, path string, overrides ...string) (dir string, err error) {
	e, err := Load(path, overrides, os.LookupEnv)
	if err != nil {
		return "", err
	}
	log := slog.New(slog.DiscardHandler)
	to := &evaluate.Evaluation{Dir: e.Dir(), Model: e.Backend.Name, Tasks: e.Tasks, Resume: evaluate.Resume(e.Config.Run.Resume), Concurrency: e.Config.Run.Jobs,
		Done: func(over, _ int) { traintest.DieOnce("evaluator", over) }}
	if e.Config.Run.Queue != "" {
		shut, err := e.Connect(ctx, to, log)
		if err != nil {
			return "", err
		}
		_, err = to.Run(ctx)
		if end := shut(); err == nil {
			err = end
		}
		return to.Dir, err
	}
	var shut func()
	if to.Policy, to.Independent, shut, err = e.Open(ctx, log); err != nil {
		return "", err
	}
	defer shut()
	_, err = to.Run(ctx)
	return to.Dir, err
}

// workers starts workers in this process; stop returns their errors.
func workers(t *testing.T, url string, n int, change func(o *worker.Options)) (stop func() []error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	ended := make(chan error, n)
	for range n {
		o := worker.DefaultOptions()
		o.URL, o.Slots = url, 4
		if change != nil {
			change(&o)
		}
		go func() { ended <- worker.Work(ctx, o) }()
	}
	return func() (errs []error) {
		cancel()
		for range n {
			errs = append(errs, <-ended)
		}
		return errs
	}
}

// results reads all files of a folder.
func results(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		raw, err := os.ReadFile(path)
		name, _ := filepath.Rel(dir, path)
		out[name] = string(raw)
		return err
	}))
	return out
}

// sameFiles compares folders by their files.
func sameFiles(t *testing.T, want, got map[string]string) {
	t.Helper()
	for name, raw := range want {
		require.Equal(t, raw, got[name], name)
	}
	require.Len(t, got, len(want))
}

// TestAnEvaluationWithWorkersWritesTheBytesOfOneProcess: all files, with one worker and with three,
// with as many requests at once as the limit allows for all of them.
func TestAnEvaluationWithWorkersWritesTheBytesOfOneProcess(t *testing.T) {
	s, path := served(t)
	dir, err := played(t.Context(), path, "experiment.dump_dir=alone")
	require.NoError(t, err)
	want := results(t, dir)
	require.Contains(t, want, "summary.json")
	require.Greater(t, len(want), 40)
	asked := s.asked.Load()
	for _, n := range []int{1, 3} {
		listen := traintest.FreeAddress(t)
		stop := workers(t, "nats://"+listen, n, nil)
		dir, err := played(t.Context(), path, fmt.Sprint("experiment.dump_dir=queue", n), "run.queue=embedded", "run.queue_options.listen="+listen)
		require.NoError(t, err)
		for _, err := range stop() {
			require.NoError(t, err)
		}
		sameFiles(t, want, results(t, dir))
	}
	require.Equal(t, 3*asked, s.asked.Load())
	require.LessOrEqual(t, s.most.Load(), int64(3))
}

// TestAnEvaluationSurvivesDeaths: three workers that are killed while they play, and an evaluator
// that is killed while it stores results. Its files are those of one process.
func TestAnEvaluationSurvivesDeaths(t *testing.T) {
	_, path := served(t)
	dir, err := played(t.Context(), path, "experiment.dump_dir=alone")
	require.NoError(t, err)
	want := results(t, dir)
	listen, marks := traintest.FreeAddress(t), t.TempDir()
	common := []string{"MARKS=" + marks, "DEATHS=worker1:2,worker2:3,worker3:4,evaluator:6"}
	deaths := traintest.Supervise(t, 4, func(i int) *exec.Cmd {
		if i == 0 {
			return traintest.Process(t, roleVariable+"=evaluator", append(common, "CONFIG="+path, "LISTEN="+listen, "EVAL_KEY=")...)
		}
		return traintest.Process(t, roleVariable+"=worker", append(common, "URL=nats://"+listen, fmt.Sprint("NUMBER=", i))...)
	}, func([]*exec.Cmd) {})
	require.GreaterOrEqual(t, deaths, 2)
	require.FileExists(t, filepath.Join(marks, "evaluator:6"))
	sameFiles(t, want, results(t, filepath.Join(filepath.Dir(path), "rollouts")))
}

// TestTheBudgetIsThatOfAllWorkers: it ends the evaluation, is not exceeded, and a larger one
// resumes. So does a service without credit.
func TestTheBudgetIsThatOfAllWorkers(t *testing.T) {
	s, path := served(t)
	dir, err := played(t.Context(), path, "experiment.dump_dir=alone")
	require.NoError(t, err)
	want := results(t, dir)
	listen := traintest.FreeAddress(t)
	settings := []string{"run.queue=embedded", "run.queue_options.listen=" + listen}
	// Episodes of an evaluation that ended may wait for its answers when the workers stop.
	stop := workers(t, "nats://"+listen, 3, func(o *worker.Options) { o.Drain = time.Second })
	before := s.asked.Load()
	const budget = 0.004 // of requests that cost 0.00025 and more
	_, err = played(t.Context(), path, append(settings, fmt.Sprint("backends.mine.budget=", budget))...)
	require.ErrorIs(t, err, chat.ErrBudget)
	require.Positive(t, s.asked.Load()-before)
	require.LessOrEqual(t, s.asked.Load()-before, int64(budget/0.00025))
	s.status.Store(http.StatusPaymentRequired)
	_, err = played(t.Context(), path, settings...)
	require.ErrorContains(t, err, "no credit")
	require.NotContains(t, err.Error(), evalKey)
	s.status.Store(0)
	dir, err = played(t.Context(), path, settings...)
	require.NoError(t, err)
	for _, err := range stop() {
		require.NoError(t, err)
	}
	sameFiles(t, want, results(t, dir))
}

// TestAWorkerWithoutTheRightKeyEnds with the reason, and its episodes stay for others.
func TestAWorkerWithoutTheRightKeyEnds(t *testing.T) {
	s, path := served(t)
	listen := traintest.FreeAddress(t)
	over := make(chan error, 1)
	go func() {
		_, err := played(context.Background(), path, "run.queue=embedded", "run.queue_options.listen="+listen)
		over <- err
	}()
	o := worker.DefaultOptions()
	o.URL = "nats://" + listen
	require.NoError(t, os.Unsetenv("EVAL_KEY"))
	err := worker.Work(t.Context(), o)
	require.ErrorIs(t, err, chat.ErrKey)
	require.ErrorContains(t, err, "EVAL_KEY")
	require.Zero(t, s.asked.Load())
	t.Setenv("EVAL_KEY", "sk-another-key-0123")
	err = worker.Work(t.Context(), o)
	require.ErrorIs(t, err, chat.ErrKey)
	require.ErrorContains(t, err, "wrong key")
	require.NotContains(t, err.Error(), "sk-another")
	t.Setenv("EVAL_KEY", evalKey)
	stop := workers(t, "nats://"+listen, 1, nil)
	require.NoError(t, <-over)
	require.NoError(t, stop()[0])
}

// TestAnEvaluationWhoseWorkersCannotReachTheServiceEndsWithTheReason, and resumes when it answers.
func TestAnEvaluationWhoseWorkersCannotReachTheServiceEndsWithTheReason(t *testing.T) {
	s, path := served(t)
	h := httptest.NewServer(s)
	address := h.Listener.Addr().String()
	h.Close() // nothing listens there now
	listen := traintest.FreeAddress(t)
	set := []string{"run.queue=embedded", "run.queue_options.listen=" + listen, "run.queue_options.no_worker_timeout=1", "backends.mine.base_url=http://" + address + "/v1"}
	stop := workers(t, "nats://"+listen, 2, nil)
	_, err := played(t.Context(), path, set...)
	require.ErrorIs(t, err, queue.ErrNoWorkers)
	require.ErrorContains(t, err, address)
	require.ErrorContains(t, err, "1s")
	require.NotContains(t, err.Error(), evalKey)
	for _, err := range stop() {
		require.ErrorIs(t, err, chat.ErrUnreachable)
	}
	l, err := net.Listen("tcp", address)
	require.NoError(t, err)
	again := &http.Server{Handler: s}
	t.Cleanup(func() { again.Close() })
	go again.Serve(l)
	stop = workers(t, "nats://"+listen, 1, nil)
	_, err = played(t.Context(), path, set...)
	require.NoError(t, err)
	require.NoError(t, stop()[0])
}

// TestWorkersCannotUseALocalModel, and a queue that cannot be used is refused.
func TestWorkersCannotUseALocalModel(t *testing.T) {
	_, err := Load(evalFile(t, evalText), []string{"run.backend=local", "run.queue=embedded"}, nothing)
	require.ErrorIs(t, err, config.ErrConfig)
	require.ErrorContains(t, err, "which workers cannot use")
	for set, text := range map[string]string{
		"run.queue=http://h": "run.queue", "run.queue_options.lease=0": "Lease", "run.queue_options.tries=0": "Tries", "run.queue_options.no_worker_timeout=-1": "NoWorkers",
		"run.queue_options.listen=0.0.0.0:4222": "Listen", "run.queue_options.key_env=NO_SUCH_KEY": "NO_SUCH_KEY",
	} {
		_, path := served(t)
		e, err := Load(path, []string{"run.queue=embedded", set}, nothing)
		require.NoError(t, err)
		w, err := e.Workers(e.Dir(), nil)
		require.NoError(t, err)
		err = w.Check(t.Context())
		require.ErrorIs(t, err, config.ErrConfig, set)
		require.ErrorContains(t, err, text, set)
		require.NoDirExists(t, e.Dir())
	}
}

package worker

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"vagen/policy"
	"vagen/policy/chat"
	"vagen/reward/judge"
	"vagen/rollout"
	"vagen/rollout/evaluate"
	"vagen/train/config"
	"vagen/train/queue"
	"vagen/train/worker/internal/gate"
)

// Evaluation is an evaluation of a model behind an API whose episodes workers play.
type Evaluation struct {
	// Chat are the options of the model. Transport, Log and Gate are not sent to workers, which
	// read the key from their own environment.
	Chat chat.Options
	// OwnKey lets a worker use the API's own key at any address, if Chat.KeyEnv is empty and the
	// key is set.
	OwnKey bool
	Parts  map[string]Part // by the tag of the task
	Queue  string          // as run.queue
	Keys   config.QueueConfig
	Jobs   int    // episodes in the queue at a time
	Dir    string // folder of the results
	Getenv func(name string) (string, bool)
	Log    *slog.Logger // nil discards
}

// Part is what workers need to know of a task, beside what is in its episodes and its player.
type Part struct {
	Harness string // name among rollout.Builtin
	Options rollout.HarnessOptions
	State   *judge.StateReward // of the environments; nil for none
}

// service is the setup of an evaluation for workers.
type service struct {
	Chat   chat.Options
	OwnKey bool
	Parts  map[string]Part
	Lease  time.Duration
}

// idName is the file in the folder of the queue with the evaluation's random id.
const idName = "id"

// options returns those of the queue. The id is "" before the evaluation started.
func (e *Evaluation) options(id string) (queue.Options, error) {
	o, err := queueOptions(e.Queue, &e.Keys, e.Dir, id, e.Getenv, e.Log)
	o.Window = e.Jobs
	return o, err
}

// id reads the id of an evaluation that was interrupted, "" if there is none.
func (e *Evaluation) id() (string, error) {
	raw, err := os.ReadFile(filepath.Join(e.Dir, queueFolder, idName))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return string(raw), err
}

// Check reports errors that would prevent episodes from being played by workers. It changes
// nothing. Errors wrap config.ErrConfig.
func (e *Evaluation) Check(ctx context.Context) error {
	id, err := e.id()
	var o queue.Options
	if err == nil {
		o, err = e.options(id)
	}
	if err == nil {
		err = queue.Probe(ctx, o)
	}
	return asConfig(err)
}

// Open connects the evaluation to its workers.
func (e *Evaluation) Open(ctx context.Context) (*Dealer, error) {
	d, err := e.open(ctx)
	return d, asConfig(err)
}

func (e *Evaluation) open(ctx context.Context) (*Dealer, error) {
	id, err := e.id()
	if err != nil {
		return nil, fmt.Errorf("worker: %w", err)
	}
	folder := filepath.Join(e.Dir, queueFolder)
	if id == "" {
		id = "evaluation-" + rand.Text()[:12]
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return nil, fmt.Errorf("worker: %w", err)
		}
		if err := os.WriteFile(filepath.Join(folder, idName), []byte(id), 0o644); err != nil {
			return nil, fmt.Errorf("worker: %w", err)
		}
	}
	o, err := e.options(id)
	if err != nil {
		return nil, err
	}
	limits, err := chat.NewLimits(e.Chat)
	if err != nil {
		return nil, fmt.Errorf("worker: %w", err)
	}
	sent := e.Chat
	sent.Transport, sent.Log, sent.Gate = nil, nil, nil
	raw, err := json.Marshal(setup{Service: &service{sent, e.OwnKey, e.Parts, o.Lease}})
	if err != nil {
		return nil, fmt.Errorf("worker: %w", err)
	}
	d := &Dealer{limits: limits, folder: folder, log: e.Log}
	d.keeper = gate.Keep(limits, o.Lease, d.fail)
	o.Setup, o.Hear, o.Done = raw, d.keeper.Hear, d.done
	if d.queue, err = queue.Open(ctx, o); err != nil {
		d.keeper.Close()
		return nil, err
	}
	return d, nil
}

// Dealer deals the episodes of an evaluation. It keeps the limits of the API for all workers.
type Dealer struct {
	queue  *queue.Queue
	keeper *gate.Keeper
	limits *chat.Limits
	folder string
	log    *slog.Logger
	store  func(t *rollout.Trajectory, used policy.Usage) error // of the Deal that runs

	mu     sync.Mutex
	failed error // that concerns all workers
	cancel context.CancelCauseFunc
}

var _ evaluate.Dealer = (*Dealer)(nil)

// fail ends the Deal that runs, and those after it.
func (d *Dealer) fail(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.failed = cmp.Or(d.failed, err)
	if d.cancel != nil {
		d.cancel(d.failed)
	}
}

// Deal implements evaluate.Dealer.
func (d *Dealer) Deal(ctx context.Context, t *evaluate.Task, episodes []rollout.Episode, done func(t *rollout.Trajectory, used policy.Usage) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	d.mu.Lock()
	d.cancel = cancel
	if d.failed != nil {
		cancel(d.failed)
	}
	d.mu.Unlock()
	p := t.Player
	p.Policy, p.Dealer, p.Tag = elsewhere{}, d.queue, t.Tag
	d.store = done
	_, _, err := p.Play(ctx, episodes, t.Seed)
	if errors.Is(err, queue.ErrFailed) || errors.Is(err, rollout.ErrNotStarted) { // each episode is stored with its reason
		return nil
	}
	return err
}

// done stores an episode.
func (d *Dealer) done(_ context.Context, t *rollout.Trajectory, raw []byte) error {
	r, err := readReport(raw)
	if err != nil {
		return err
	}
	return d.store(t, r.Used)
}

// URL returns the address for workers.
func (d *Dealer) URL() string { return d.queue.URL() }

// Usage returns what the workers have used of the API.
func (d *Dealer) Usage() chat.Usage { return d.limits.Usage() }

// Close removes everything of the evaluation from the server, so that no worker plays an episode
// that no evaluation waits for, and closes the connection. What is missing is played by the next
// evaluation.
func (d *Dealer) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	err := d.queue.Finish(ctx)
	err = errors.Join(err, d.queue.Close())
	d.keeper.Close()
	if err == nil {
		err = os.RemoveAll(d.folder)
	}
	return err
}

// elsewhere stands for the policy of workers in the checks of a player.
type elsewhere struct{}

var errElsewhere = errors.New("worker: the policy is in the workers")

func (elsewhere) Generate(context.Context, []policy.Prompt, policy.Sampling) ([]policy.Completion, error) {
	return nil, errElsewhere
}
func (elsewhere) Forget(...uint64)                 {}
func (elsewhere) Count(policy.Prompt) (int, error) { return 0, errElsewhere }

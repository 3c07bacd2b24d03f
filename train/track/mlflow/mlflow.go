package mlflow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"vagen/internal/durable"
	"vagen/internal/mlflow"
	"vagen/rollout"
	"vagen/train/config"
	"vagen/train/track"
)

// Sink sends metrics to an MLflow server, over its REST API: the project is the
// experiment, the experiment's name that of the run, the configuration its
// parameters. Metrics that are not finite are left out.
//
// It never keeps training waiting and never fails it. Metrics wait in memory
// while the server is away, which the log says once, and are sent when it is back;
// when too many wait, the oldest are dropped and counted. A run that goes on is
// continued under its id, without sending what the server has. A rollback takes back
// what waits; what has been sent MLflow keeps, with the values of the way that was
// gone instead behind it at the same steps.
type Sink struct {
	client *mlflow.Client
	config config.Config
	path   string // where the run's id is kept
	log    *slog.Logger
	delay  rollout.Backoff

	mu      sync.Mutex
	waiting []mlflow.Metric
	dropped int
	back    *int64 // step of the last rollback, until the goroutine has seen it
	err     error  // of the run, as Ended was told
	closed  bool

	wake  chan struct{}
	quit  chan struct{} // Close waits no longer than that
	done  chan struct{}
	stop  context.CancelFunc
	start time.Time

	// Of the goroutine that sends.
	run  string           // "" until the server has answered
	have map[string]int64 // steps that the server has already
	away bool             // the last attempt has failed
}

const (
	maxWaiting    = 1 << 18          // metrics, about 20 MB
	closePatience = 15 * time.Second // for what is left at the end
	mlflowName    = "mlflow.json"
)

// New starts to send to the server that the environment names as for MLflow's
// own programs: MLFLOW_TRACKING_URI and, where it wants them,
// MLFLOW_TRACKING_TOKEN or MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD.
// The run's id is kept in the folder dir. An address that is missing or none is an
// ErrConfig; whether somebody answers there is found out later.
func New(dir string, c *config.Config, getenv func(string) (string, bool), log *slog.Logger) (*Sink, error) {
	client, err := mlflow.FromEnvironment(getenv)
	if err != nil {
		return nil, fmt.Errorf("mlflow: %w: trainer.logger: %w", config.ErrConfig, err)
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	ctx, stop := context.WithCancel(context.Background())
	m := &Sink{
		client: client, config: *c, path: filepath.Join(dir, mlflowName), log: log, stop: stop, start: time.Now(),
		delay: rollout.Backoff{Min: time.Second, Max: time.Minute, Multiplier: 2},
		wake:  make(chan struct{}, 1), quit: make(chan struct{}), done: make(chan struct{}),
	}
	go m.work(ctx)
	return m, nil
}

// Event implements Sink.
func (m *Sink) Event(e track.Event) error {
	now := time.Now().UnixMilli()
	m.mu.Lock()
	defer m.mu.Unlock()
	if e.Kind == track.KindRollback {
		step := int64(e.Step)
		m.back = &step
		m.waiting = slices.DeleteFunc(m.waiting, func(x mlflow.Metric) bool { return x.Step > step })
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(e.Metrics)) {
		if x := e.Metrics[name]; !math.IsNaN(x) && !math.IsInf(x, 0) {
			m.waiting = append(m.waiting, mlflow.Metric{Key: mlflow.Name(name), Value: x, Time: now, Step: int64(e.Step)})
		}
	}
	if over := len(m.waiting) - maxWaiting; over > 0 {
		m.waiting = slices.Delete(m.waiting, 0, over)
		m.dropped += over
	}
	m.nudge()
	return nil
}

func (m *Sink) nudge() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// Ended implements Ender: the run's state on the server tells how it ended.
func (m *Sink) Ended(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.err = err
}

// Close implements Sink. It waits some seconds for what has not been sent.
func (m *Sink) Close() error {
	m.mu.Lock()
	first := !m.closed
	m.closed = true
	m.nudge()
	m.mu.Unlock()
	if first {
		timer := time.AfterFunc(closePatience, m.stop)
		defer timer.Stop()
		close(m.quit)
	}
	<-m.done
	m.stop()
	return nil
}

// work sends what is waiting until the sink is closed.
func (m *Sink) work(ctx context.Context) {
	defer close(m.done)
	for failed := 0; ; {
		closed, err := m.send(ctx)
		switch {
		case errors.Is(err, mlflow.ErrRefused):
			m.log.Error("MLflow refuses this run; its metrics are in the run's folder alone", "server", m.client.String(), "err", err)
			<-m.quit
			return
		case err != nil:
			failed++
			if !m.away {
				m.away = true
				m.log.Warn("MLflow does not answer; metrics wait", "server", m.client.String(), "err", err)
			}
		case m.away:
			m.away, failed = false, 0
			m.log.Info("MLflow answers again", "server", m.client.String())
		}
		if closed && err == nil {
			return
		}
		if ctx.Err() != nil {
			m.mu.Lock()
			lost := len(m.waiting) + m.dropped
			m.mu.Unlock()
			m.log.Warn("the run is over, and MLflow does not have all of it; it is whole in metrics.jsonl", "server", m.client.String(), "metrics", lost)
			return
		}
		m.wait(ctx, failed)
	}
}

// wait waits for something to send, or until it is time for another attempt.
func (m *Sink) wait(ctx context.Context, failed int) {
	if failed == 0 {
		select {
		case <-m.wake:
		case <-ctx.Done():
		}
		return
	}
	delay := m.delay.Delay(failed, 0, 0)
	select {
	case <-m.quit: // the last attempts are made at short intervals
		delay = m.delay.Min
	default:
	}
	timer := time.NewTimer(delay)
	defer timer.Stop()
	quit := m.quit
	if delay == m.delay.Min {
		quit = nil
	}
	select {
	case <-timer.C:
	case <-quit:
	case <-ctx.Done():
	}
}

// send sends all that is waiting, and the end of the run when it is closed.
func (m *Sink) send(ctx context.Context) (closed bool, err error) {
	if m.run == "" {
		if err := m.begin(ctx); err != nil {
			return false, err
		}
	}
	m.mu.Lock()
	batch := m.waiting
	closed, failure := m.closed, m.err
	if dropped := m.dropped; dropped > 0 {
		m.dropped = 0
		m.log.Warn("metrics were dropped while MLflow was away; they are in metrics.jsonl", "metrics", dropped)
	}
	m.waiting = nil
	if m.back != nil { // later steps come again, with other values
		for name, step := range m.have {
			m.have[name] = min(step, *m.back)
		}
		m.back = nil
	}
	m.mu.Unlock()
	fresh := make([]mlflow.Metric, 0, len(batch))
	for _, x := range batch {
		if last, known := m.have[x.Key]; !known || x.Step > last {
			fresh = append(fresh, x)
		}
	}
	err = m.client.Metrics(ctx, m.run, fresh)
	switch {
	case errors.Is(err, mlflow.ErrRefused):
		m.log.Warn("MLflow refuses some metrics", "server", m.client.String(), "metrics", len(fresh), "err", err)
		err = nil
	case err != nil:
		m.mu.Lock()
		m.waiting = append(fresh, m.waiting...)
		m.mu.Unlock()
		return closed, err
	}
	if !closed {
		return false, nil
	}
	status := mlflow.Finished
	switch {
	case errors.Is(failure, context.Canceled):
		status = mlflow.Killed
	case failure != nil:
		status = mlflow.Failed
	}
	return true, m.client.Status(ctx, m.run, status, time.Now())
}

// kept is what a run's folder says of its counterpart on the server.
type kept struct {
	Server string `json:"server"`
	Run    string `json:"run_id"`
}

// begin makes the run on the server, or finds the one that is continued.
func (m *Sink) begin(ctx context.Context) error {
	var old kept
	if raw, err := os.ReadFile(m.path); err == nil && json.Unmarshal(raw, &old) == nil && old.Server == m.client.String() && old.Run != "" {
		have, err := m.client.Latest(ctx, old.Run)
		if err == nil {
			err = m.client.Status(ctx, old.Run, mlflow.Running, time.Time{})
		}
		if err == nil {
			m.run, m.have = old.Run, have
			return nil
		}
		if !errors.Is(err, mlflow.ErrRefused) {
			return err
		}
		m.log.Warn("the run that was begun is not to be had from MLflow; another one begins", "run_id", old.Run, "err", err)
	}
	experiment, err := m.client.Experiment(ctx, m.config.Trainer.Project)
	if err != nil {
		return err
	}
	run, err := m.client.Begin(ctx, experiment, m.config.Trainer.Experiment, m.start)
	if err != nil {
		return err
	}
	m.run = run
	raw, _ := json.Marshal(kept{m.client.String(), run}) // never fails for texts
	if err := durable.WriteFile(m.path, append(raw, '\n')); err != nil {
		m.log.Warn("the id of MLflow's run cannot be kept; if this run goes on later, it will be another one there", "err", err)
	}
	var params []mlflow.Pair
	for _, k := range config.SafeKeys(&m.config) {
		params = append(params, mlflow.Pair{Key: k.Path, Value: config.ValueText(k.Value)})
	}
	if err := m.client.Params(ctx, run, params); err != nil {
		m.log.Warn("MLflow does not have all parameters of the run", "err", err)
	}
	return nil
}

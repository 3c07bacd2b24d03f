// Package mlflow sends the metrics of a run to an MLflow server.
package mlflow

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"vagen/internal/durable"
	"vagen/train/track"
)

// Sink sends metrics to an MLflow server, over its REST API. Metrics that are not finite are left out.
//
// It never keeps training waiting and never fails it. Metrics wait in memory
// while the server is away, which the log says once, and are sent when it is back;
// when too many wait, the oldest are dropped and counted. A run that goes on is
// continued under its id, without sending what the server has. A rollback takes back
// what waits; what has been sent MLflow keeps, with the values of the way that was
// gone instead behind it at the same steps.
type Sink struct {
	client *client
	o      Options
	path   string // where the run's id is kept
	log    *slog.Logger

	mu      sync.Mutex
	waiting []metric
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
	minDelay      = time.Second      // before the second attempt, doubled from attempt to attempt
	maxDelay      = time.Minute
	mlflowName    = "mlflow.json"
)

// Options say what a Sink calls the run on the server and what it sends besides
// metrics.
type Options struct {
	Dir        string            // folder in which the run's id is kept, in mlflow.json
	Project    string            // name of the experiment on the server
	Experiment string            // name of the run
	Params     map[string]string // parameters of the run, without secrets
	// Getenv looks up the variables that MLflow's own programs read:
	// MLFLOW_TRACKING_URI and, where the server needs them, MLFLOW_TRACKING_TOKEN or
	// MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD; nil is os.LookupEnv.
	Getenv func(string) (string, bool)
	Log    *slog.Logger // nil discards
}

// New starts a Sink. It does not wait for the server. An address that is missing
// or malformed is an ErrSetting.
func New(o Options) (*Sink, error) {
	if o.Getenv == nil {
		o.Getenv = os.LookupEnv
	}
	client, err := fromEnvironment(o.Getenv)
	if err != nil {
		return nil, err
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	ctx, stop := context.WithCancel(context.Background())
	m := &Sink{
		client: client, o: o, path: filepath.Join(o.Dir, mlflowName), log: o.Log, stop: stop, start: time.Now(),
		wake: make(chan struct{}, 1), quit: make(chan struct{}), done: make(chan struct{}),
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
		m.waiting = slices.DeleteFunc(m.waiting, func(x metric) bool { return x.Step > step })
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(e.Metrics)) {
		if x := e.Metrics[name]; !math.IsNaN(x) && !math.IsInf(x, 0) {
			m.waiting = append(m.waiting, metric{Key: validName(name), Value: x, Time: now, Step: int64(e.Step)})
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
		case errors.Is(err, errRefused):
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
	delay := minDelay
	for n := 1; n < failed && delay < maxDelay; n++ {
		delay = min(2*delay, maxDelay)
	}
	select {
	case <-m.quit: // the last attempts are made at short intervals
		delay = minDelay
	default:
	}
	timer := time.NewTimer(delay)
	defer timer.Stop()
	quit := m.quit
	if delay == minDelay {
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
	fresh := make([]metric, 0, len(batch))
	for _, x := range batch {
		if last, known := m.have[x.Key]; !known || x.Step > last {
			fresh = append(fresh, x)
		}
	}
	err = m.client.logMetrics(ctx, m.run, fresh)
	switch {
	case errors.Is(err, errRefused):
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
	status := finished
	switch {
	case errors.Is(failure, context.Canceled):
		status = killed
	case failure != nil:
		status = failed
	}
	return true, m.client.setStatus(ctx, m.run, status, time.Now())
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
		have, err := m.client.latestSteps(ctx, old.Run)
		if err == nil {
			err = m.client.setStatus(ctx, old.Run, running, time.Time{})
		}
		if err == nil {
			m.run, m.have = old.Run, have
			return nil
		}
		if !errors.Is(err, errRefused) {
			return err
		}
		m.log.Warn("MLflow run not found; starting a new one", "run_id", old.Run, "err", err)
	}
	experiment, err := m.client.experiment(ctx, m.o.Project)
	if err != nil {
		return err
	}
	run, err := m.client.begin(ctx, experiment, m.o.Experiment, m.start)
	if err != nil {
		return err
	}
	m.run = run
	raw, _ := json.Marshal(kept{m.client.String(), run}) // never fails for texts
	if err := durable.WriteFile(m.path, append(raw, '\n')); err != nil {
		m.log.Warn("the id of MLflow's run cannot be kept; if this run goes on later, it will be another one there", "err", err)
	}
	var params []pair
	for _, key := range slices.Sorted(maps.Keys(m.o.Params)) {
		params = append(params, pair{key, m.o.Params[key]})
	}
	if err := m.client.logParams(ctx, run, params); err != nil {
		m.log.Warn("MLflow does not have all parameters of the run", "err", err)
	}
	return nil
}

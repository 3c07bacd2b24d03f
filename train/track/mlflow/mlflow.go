// Package mlflow sends the metrics of a run to an MLflow server. New opens a Sink; Check says
// before a run whether the environment names a server.
package mlflow

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"vagen/internal/durable"
	"vagen/internal/floats"
	"vagen/internal/regular"
	"vagen/internal/retry"
	"vagen/internal/silent"
	"vagen/internal/unmade"
	"vagen/train/track"
)

// Sink sends the metrics in a run's metrics.jsonl to an MLflow server over its REST API,
// with the time of sending. Metrics that are not finite are omitted.
//
// The sink never blocks training and never fails it. While the server does not respond,
// which is logged once, metrics remain in the file and are sent later. A resumed run
// continues MLflow's run with its id and sends the metrics that the server does not have.
// After a rollback MLflow keeps the values that were sent, and gets the new values of the
// same steps in addition.
type Sink struct {
	client *client
	o      Options
	path   string // where the run's id is kept
	log    *slog.Logger

	mu     sync.Mutex
	read   int64  // bytes of the metrics file that were sent or are being sent
	back   *int64 // step of the last rollback, until the goroutine has seen it
	err    error  // error of the run, from Ended
	closed bool

	wake  chan struct{}
	quit  chan struct{} // closed by Close
	done  chan struct{}
	stop  context.CancelFunc
	start time.Time

	// Used only by the goroutine that sends.
	run  string           // id of MLflow's run; "" until the server has responded
	have map[string]int64 // newest step on the server, by metric
	away bool             // the last attempt failed
}

var (
	_ track.Sink  = (*Sink)(nil)
	_ track.Ender = (*Sink)(nil)
)

const (
	closePatience = 15 * time.Second // time to send the remaining metrics in Close
	minDelay      = time.Second      // before the second attempt, doubled from attempt to attempt
	maxDelay      = time.Minute
	mlflowName    = "mlflow.json"
)

// Options have the run's names on the server and what a Sink sends besides
// metrics.
type Options struct {
	Dir        string            // folder in which the run's id is kept, in mlflow.json
	Metrics    string            // file that a track.JSONLines writes, which is before the Sink among the run's sinks
	Project    string            // name of the experiment on the server
	Experiment string            // name of the run
	Params     map[string]string // parameters of the run, without secrets
	// Done is the step that a resumed run continues from. With Redo its later steps may differ from those
	// that the server has, because of a rollback or another configuration, and are sent again.
	Done int
	Redo bool
	Log  *slog.Logger // nil discards
}

// New starts a Sink. It reads the environment variables that MLflow's own programs read:
// MLFLOW_TRACKING_URI and, where the server needs them, MLFLOW_TRACKING_TOKEN or
// MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD. An address that is missing or malformed
// is an ErrSetting, as is an empty Metrics. New does not wait for the server.
func New(o Options) (*Sink, error) {
	if o.Metrics == "" {
		return nil, fmt.Errorf("mlflow: %w: Metrics is empty, must be the path of a run's metrics.jsonl", ErrSetting)
	}
	client, err := fromEnvironment()
	if err != nil {
		return nil, err
	}
	o.Log = silent.Log(o.Log)
	ctx, stop := context.WithCancel(context.Background())
	m := &Sink{
		client: client, o: o, path: filepath.Join(o.Dir, mlflowName), log: o.Log, stop: stop, start: time.Now(),
		wake: make(chan struct{}, 1), quit: make(chan struct{}), done: make(chan struct{}),
	}
	go m.work(ctx)
	return m, nil
}

// Event implements Sink: the event's line is in the file.
func (m *Sink) Event(e track.Event) error {
	if m.client == nil {
		return unmade.Error("mlflow.Sink", "New")
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if e.Kind == track.KindRollback {
		step := int64(e.Step)
		m.back = &step
		if i, err := os.Stat(m.o.Metrics); err == nil { // now without the lines of the undone steps
			m.read = min(m.read, i.Size())
		}
		return nil
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

// Ended implements Ender: it sets the final status of the run on the server.
func (m *Sink) Ended(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.err = err
}

// Close implements Sink. It waits up to 15 seconds for metrics that have not been sent.
func (m *Sink) Close() error {
	if m.done == nil { // of a zero value
		return nil
	}
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

// work sends waiting metrics until the sink is closed.
func (m *Sink) work(ctx context.Context) {
	defer close(m.done)
	pauses := retry.Doubling(minDelay, maxDelay).Pauses(retry.Jitter(retry.Seed(m.path), 0))
	for {
		closed, err := m.send(ctx)
		switch {
		case errors.Is(err, errRefused):
			m.log.Error("MLflow refuses this run; its metrics are only in the run's folder", "server", m.client.String(), "err",
				err)
			<-m.quit
			return
		case err != nil:
			if !m.away {
				m.away = true
				m.log.Warn("MLflow does not respond; metrics will be sent later", "server", m.client.String(), "err", err)
			}
		case m.away:
			m.away = false
			pauses.Reset()
			m.log.Info("MLflow responds again", "server", m.client.String())
		}
		if closed && err == nil {
			return
		}
		if ctx.Err() != nil {
			m.log.Warn("the run ended before all metrics were sent to MLflow; metrics.jsonl has all of them", "server",
				m.client.String())
			return
		}
		if err == nil {
			select {
			case <-m.wake:
			case <-ctx.Done():
			}
			continue
		}
		after := afterOf(err)
		delay, _ := pauses.Next(after)
		m.wait(ctx, delay, after)
	}
}

// wait waits before the next attempt. Close shortens an own delay, not one that the server
// asks for.
func (m *Sink) wait(ctx context.Context, delay, after time.Duration) {
	quit := m.quit
	if after > 0 {
		quit = nil
	}
	select {
	case <-m.quit: // after Close, retry at short intervals
		delay, _ = retry.Honour(minDelay, after)
		quit = nil
	default:
	}
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-quit:
	case <-ctx.Done():
	}
}

// send sends the metrics that were not sent yet, and when the sink is closed the end of the run.
func (m *Sink) send(ctx context.Context) (closed bool, err error) {
	if m.run == "" {
		if err := m.begin(ctx); err != nil {
			return false, err
		}
	}
	var failure error
	for {
		m.mu.Lock()
		closed, failure = m.closed, m.err
		begin := m.read
		batch, err := m.next()
		m.mu.Unlock()
		if err == nil && len(batch) == 0 {
			break
		}
		if err == nil {
			err = logBatches(ctx, m.client, m.run, "metrics", batch, maxMetrics)
		}
		switch {
		case errors.Is(err, errRefused) && m.client.deleted(ctx, m.run):
			return closed, fmt.Errorf("mlflow: %w: the run %s was deleted on the server", errRefused, m.run)
		case refusesContent(err):
			m.log.Warn("MLflow refuses some metrics", "server", m.client.String(), "metrics", len(batch), "err", err)
		case err != nil:
			m.mu.Lock()
			m.read = min(m.read, begin)
			m.mu.Unlock()
			if errors.Is(err, errRefused) { // after it accepted the run: credentials expired, or a proxy answers
				err = errors.New(err.Error())
			}
			return closed, err
		}
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

// next reads metrics that the server does not have, of at least one event and at most
// one request if the event fits, and none at the end of the file.
func (m *Sink) next() ([]metric, error) {
	if m.back != nil { // later steps will be sent again, with new values
		m.forget(*m.back)
		m.back = nil
	}
	f, err := regular.Open(m.o.Metrics)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("mlflow: %w", err)
	}
	defer f.Close()
	if _, err := f.Seek(m.read, io.SeekStart); err != nil {
		return nil, fmt.Errorf("mlflow: %w", err)
	}
	lines := bufio.NewReader(f)
	var out []metric
	for now := time.Now().UnixMilli(); ; {
		line, err := lines.ReadBytes('\n')
		if err == io.EOF { // what follows the last line end is still being written
			return out, nil
		}
		if err != nil {
			return nil, fmt.Errorf("mlflow: %w", err)
		}
		e, err := track.ParseEvent(line)
		if err != nil {
			e = track.Event{}
			m.log.Warn("a line is not an event and is not sent to MLflow", "file", m.o.Metrics, "byte", m.read, "err", err)
		}
		event := m.missing(e, now)
		if len(out) > 0 && len(out)+len(event) > maxMetrics {
			return out, nil
		}
		out = append(out, event...)
		m.read += int64(len(line))
	}
}

// forget makes later steps than step be sent again.
func (m *Sink) forget(step int64) {
	for name, have := range m.have {
		m.have[name] = min(have, step)
	}
}

// missing returns the finite metrics of an event that the server does not have.
func (m *Sink) missing(e track.Event, now int64) (out []metric) {
	for _, name := range slices.Sorted(maps.Keys(e.Metrics)) {
		x := metric{Key: validName(name), Value: e.Metrics[name], Time: now, Step: int64(e.Step)}
		if last, known := m.have[x.Key]; floats.Finite(x.Value) && (!known || x.Step > last) {
			out = append(out, x)
		}
	}
	return out
}

// serverRun is stored in the run's folder and identifies the run on the server.
type serverRun struct {
	Server string `json:"server"`
	Run    string `json:"run_id"`
	Redo   bool   `json:"redo,omitempty"` // Options.Redo of any process so far: the server may have steps of before
}

// begin creates the run on the server, or finds the existing one of a resumed run.
func (m *Sink) begin(ctx context.Context) error {
	var old serverRun
	if raw, err := regular.ReadFile(m.path); err == nil && json.Unmarshal(raw, &old) == nil &&
		old.Server == m.client.String() &&
		old.Run != "" {
		have, _, err := m.client.state(ctx, old.Run)
		if err == nil {
			err = m.client.setStatus(ctx, old.Run, running, time.Time{})
		}
		if err == nil {
			m.run, m.have = old.Run, have
			if old.Redo || m.o.Redo {
				m.forget(int64(m.o.Done))
				m.store(serverRun{old.Server, old.Run, true})
			}
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
	m.store(serverRun{m.client.String(), run, false})
	var params []pair
	for _, key := range slices.Sorted(maps.Keys(m.o.Params)) {
		params = append(params, pair{key, m.o.Params[key]})
	}
	if err := m.client.logParams(ctx, run, params); err != nil {
		m.log.Warn("not all parameters of the run were sent to MLflow", "err", err)
	}
	return nil
}

// store writes the run's id to the run's folder.
func (m *Sink) store(r serverRun) {
	raw, _ := json.Marshal(r) // never fails for strings
	if err := durable.WriteFile(m.path, append(raw, '\n')); err != nil {
		m.log.Warn("the id of the MLflow run could not be stored; if this run is resumed, it will be a new run in MLflow",
			"err", err)
	}
}

package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"vagen/internal/clock"
	"vagen/internal/field"
	"vagen/internal/pace"
	"vagen/internal/rng"
	"vagen/rollout"
)

// WorkerOptions are those of Work.
type WorkerOptions struct {
	Connection
	// Slots is the number of episodes that are played at a time.
	Slots int
	// Open opens environments and policy of a batch. It is called once for each. An error ends
	// Work, because the other tasks of the batch would fail, too; the tasks stay in the queue.
	Open func(ctx context.Context, b Batch) (Opened, error)
	// Drain is how long episodes that are being played may take after ctx has ended. Those that
	// are not complete then are given to other workers.
	Drain time.Duration
	// OnTask is called before an episode is played, for tests; nil does nothing.
	OnTask func(e rollout.Episode)
}

// DefaultWorkerOptions returns one episode at a time and a minute for episodes that are being
// played when the worker stops.
func DefaultWorkerOptions() WorkerOptions {
	return WorkerOptions{Connection: Connection{Name: "vagen"}, Slots: 1, Drain: time.Minute}
}

// Work plays tasks of a queue until ctx ends. It waits for the server and for a trainer, also
// when they end in between. Wrong credentials or certificates, missing permissions, another protocol and an
// environment or policy that cannot be opened are errors.
func Work(ctx context.Context, o WorkerOptions) error {
	w, err := newWorker(ctx, o)
	if err != nil || w == nil {
		return err
	}
	defer w.nc.Close()
	defer w.ticker.Stop()
	err = w.run(ctx)
	w.end(err)
	return err
}

// worker is a running Work.
type worker struct {
	opts     WorkerOptions
	id       string // of this call of Work
	names    names
	nc       *nats.Conn
	js       jetstream.JetStream
	reported *serverErrors

	limit int64 // of the body of a message, if the server allows more

	slots    chan struct{}
	finished chan outcome

	// alone lets the last try of a task run without other tasks: such a task locks it, the
	// others lock it for reading, until their results are on the server. The workers that played
	// the task before ended, so it may end this process, too; then no other episode is lost.
	alone sync.RWMutex

	mu     sync.Mutex
	held   map[*held]bool     // tasks whose lease is extended
	lease  time.Duration      // of the server; 0 before it is known
	ticker *time.Ticker       // three times a lease
	opened map[string]*opened // by deal
	order  []string           // of opened
}

// held is a task that this worker has.
type held struct {
	m      jetstream.Msg
	task   task
	unlock func() // of worker.alone; nil if it is not locked
}

// opened is a batch as this worker plays it.
type opened struct {
	batch    string
	ctx      context.Context // of its episodes: ends with the batch
	end      context.CancelFunc
	once     sync.Once
	err      error
	unusable bool // err is that of WorkerOptions.Open
	settings settings
	Opened
	bucket jetstream.ObjectStore
	sent   sync.Map // names of images in the bucket
}

// outcome is a task with its result.
type outcome struct {
	*held
	of         *opened
	trajectory *rollout.Trajectory
	report     []byte
	fault      string // kind of a failure
	err        error
}

// newWorker connects. It returns nil without an error if ctx ends before.
func newWorker(ctx context.Context, o WorkerOptions) (*worker, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	options, reported, err := o.dial()
	if err != nil {
		return nil, err
	}
	w := &worker{
		opts: o, id: nonce(), reported: reported, limit: maxPayload, names: namesOf(o.Name),
		slots: make(chan struct{}, o.Slots), finished: make(chan outcome, 2*maxGrouped),
		held: map[*held]bool{}, ticker: time.NewTicker(DefaultOptions().Lease / 3), opened: map[string]*opened{},
	}
	for logged := false; ; {
		if _, err = o.secret(); err == nil {
			if w.nc, err = nats.Connect(o.URL, options...); err == nil {
				break
			}
			err = access(err)
		}
		if !errors.Is(err, ErrServer) && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		if !logged {
			logged = true
			o.log().Info("waiting for the queue's server", "url", o.URL, "err", err)
		}
		if clock.Wait(ctx, pace.Connect) != nil {
			return nil, nil
		}
	}
	if w.js, err = jetstream.New(w.nc, jetstream.WithDefaultTimeout(pace.Answer)); err != nil {
		w.nc.Close()
		return nil, access(err)
	}
	return w, nil
}

// run takes tasks until ctx ends.
func (w *worker) run(ctx context.Context) error {
	parent := ctx
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	playing, abort := context.WithCancel(context.WithoutCancel(ctx)) // ends after the drain
	defer abort()
	var players, sender, others sync.WaitGroup
	done := make(chan struct{})
	others.Go(func() { w.extend(playing, done) })
	sender.Go(func() { w.send(playing) })
	tasks := make(chan *held)
	err := w.take(ctx, func(h *held) {
		select {
		case tasks <- h: // to a goroutine that is idle, whose stack has grown already
		default:
			players.Go(func() { w.playAll(playing, h, tasks, cancel) })
		}
	})
	close(tasks)
	if w.nc.IsClosed() {
		abort() // no result can be sent
	}
	drained := make(chan struct{})
	go func() {
		players.Wait()
		close(drained)
	}()
	t := time.NewTimer(w.opts.Drain)
	defer t.Stop()
	select {
	case <-drained:
	case <-t.C:
		w.opts.log().Warn("episodes did not end in time and are given to other workers", "drain", w.opts.Drain)
		abort()
		<-drained
	}
	close(w.finished)
	stuck := time.AfterFunc(w.opts.Drain+time.Second, abort) // results that the server does not take
	defer stuck.Stop()
	sender.Wait()
	close(done)
	others.Wait()
	if err == nil && parent.Err() == nil {
		err = context.Cause(ctx)
	}
	return err
}

// playAll plays a task, and others until there are no more.
func (w *worker) playAll(ctx context.Context, h *held, tasks <-chan *held, failed func(error)) {
	for ok := true; ok; h, ok = <-tasks {
		if err := w.play(ctx, h); err != nil {
			failed(err)
		}
		<-w.slots
	}
}

// play plays a task. An error means that this worker can play none of its batch.
func (w *worker) play(ctx context.Context, h *held) error {
	if len(h.m.Data()) > maxTask || json.Unmarshal(h.m.Data(), &h.task) != nil {
		w.opts.log().Warn("a task cannot be read and is dropped", "bytes", len(h.m.Data()))
		w.done(h)
		h.m.Term() // if it fails, the task comes again
		return nil
	}
	of := w.open(ctx, &h.task)
	if of.err != nil {
		if isOver(of.err) { // if the server lost the settings, the trainer deals its tasks again
			w.done(h)
			h.m.Term()
			return nil
		}
		if !of.unusable {
			clock.Wait(ctx, time.Second/4)
		}
		w.giveBack(ctx, h)
		if !of.unusable || ctx.Err() != nil {
			return nil
		}
		return of.err
	}
	deliveries := 1
	if md, err := h.m.Metadata(); err == nil {
		deliveries = int(md.NumDelivered)
	}
	tries := of.settings.Tries
	w.lock(h, deliveries >= max(2, tries))
	out := outcome{held: h, of: of}
	if deliveries > tries {
		out.fault, out.err = faultDied, fmt.Errorf("%d workers that played the episode ended before it did", deliveries-1)
	} else if out.trajectory, out.report, out.err = w.episode(of.ctx, of, &h.task); out.err != nil {
		if ctx.Err() != nil {
			w.giveBack(ctx, h)
			return nil
		}
		if of.ctx.Err() != nil { // the batch is over
			w.done(h)
			h.m.Term()
			return nil
		}
		out.fault = faultFailed
		w.opts.log().Warn("an episode failed", "group", h.task.Episode.Group, "index", h.task.Episode.Index, "err", out.err)
	}
	w.finished <- out
	return nil
}

// isOver reports whether a batch could not be opened because the server has not got it. The trainer
// sends it before its tasks, and removes it at the end.
func isOver(err error) bool {
	return errors.Is(err, jetstream.ErrBucketNotFound) || errors.Is(err, jetstream.ErrObjectNotFound)
}

// episode plays the episode of a task.
func (w *worker) episode(ctx context.Context, of *opened, t *task) (out *rollout.Trajectory, report []byte, err error) {
	e, err := t.Episode.decode()
	if err != nil {
		return nil, nil, err
	}
	if w.opts.OnTask != nil {
		w.opts.OnTask(e)
	}
	err = safely(func() error {
		p := of.Player()
		of.settings.Limits.apply(p)
		p.Workers, p.UncountedRemote, p.Dealer, p.Log = 1, false, nil, w.opts.Log
		// Keys far apart, which also spread the conversations of all workers over servers.
		p.FirstKey = rng.Derive(of.settings.Seed, rng.Sample, uint64(e.Group), uint64(e.Index), uint64(t.Number)) << 20
		observed := func() []byte { return nil }
		if of.Observe != nil {
			ctx, observed = of.Observe(ctx, p)
		}
		ts, _, err := p.Play(ctx, []rollout.Episode{e}, of.settings.Seed)
		if errors.Is(err, rollout.ErrNotStarted) {
			err = nil // the trajectory has the reason
		}
		if err == nil {
			out, report = ts[0], observed()
		}
		if len(report) > maxReport {
			err = fmt.Errorf("queue: the report has %d bytes, at most %d are allowed", len(report), maxReport)
		}
		return err
	})
	return out, report, err
}

func (o *WorkerOptions) check() error {
	c := field.Options("queue", ErrOption)
	o.Connection.check(c)
	c.Positive("Slots", o.Slots)
	if o.URL == Embedded {
		c.Bad("URL", "%q, must be that of a trainer or a NATS server, such as nats://host:4222", o.URL)
	}
	if o.Drain < 0 {
		c.Bad("Drain", "%v, must not be negative", o.Drain)
	}
	if o.Open == nil {
		c.Bad("Open", "nil, must open environments and policy")
	}
	return c.Err()
}

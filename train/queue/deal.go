package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"vagen/internal/clock"
	"vagen/internal/pace"
	"vagen/rollout"
)

// deal is a batch that is being played.
type deal struct {
	q        *Queue
	settings settings
	batch    string
	nonce    string // of this process and batch
	episodes []rollout.Episode
	encoded  []json.RawMessage

	out      []*rollout.Trajectory
	missing  int
	attempts []int       // of each task
	sent     []time.Time // when this process published each task last; zero if it did not
	todo     []int       // tasks to publish
	pending  int         // tasks that were published and have no result
	first    error       // failure of an episode
	failed   error       // of Options.Done: the batch ends

	bucket   jetstream.ObjectStore
	all      jetstream.ObjectStore // settings of deals
	results  jetstream.Stream
	consumer jetstream.Consumer

	progress  time.Time // of the last result
	warned    time.Time // of the last warning
	disturbed time.Time // when the server last did not answer
	heard     sync.Once // that results cannot be delivered
}

// newDeal prepares a batch.
func (q *Queue) newDeal(
	ctx context.Context, p *rollout.Player, episodes []rollout.Episode, seed uint64,
) (*deal, error) {
	d := &deal{
		q: q, nonce: nonce(), episodes: episodes, encoded: make([]json.RawMessage, len(episodes)),
		out: make([]*rollout.Trajectory, len(episodes)), attempts: make([]int, len(episodes)),
		sent: make([]time.Time, len(episodes)), missing: len(episodes),
		progress: time.Now(), warned: time.Now(),
	}
	d.settings = settings{Batch: Batch{Run: q.opts.Run, Tag: p.Tag, Setup: q.opts.Setup}, Seed: seed,
		Lease: q.opts.Lease, Tries: q.opts.Tries, Limits: limitsOf(p)}
	var err error
	if d.batch, err = d.encode(); err != nil {
		return nil, err
	}
	if q.opts.Policy != nil {
		if d.settings.Policy, err = q.opts.Policy(ctx, p.Policy); err != nil {
			return nil, fmt.Errorf("queue: %w", err)
		}
	}
	return d, nil
}

// encode encodes the episodes and returns the name of the batch. An episode that the server would
// refuse is an error.
func (d *deal) encode() (name string, err error) {
	const around = 4096 // header, and the names of batch and deal, which are not known yet
	most := min(maxTask, d.q.nc.MaxPayload()) - around
	for i, e := range d.episodes {
		of, err := newEpisode(e)
		if err == nil {
			d.encoded[i], err = json.Marshal(&of)
		}
		if err == nil && int64(len(d.encoded[i])) > most {
			err = fmt.Errorf("%w: environment and options have %d bytes, at most %d are allowed", ErrOption, len(d.encoded[i]),
				most)
		}
		if err != nil {
			return "", fmt.Errorf("queue: episode %d: %w", i, err)
		}
	}
	return batchName(&d.settings, d.encoded)
}

// run plays the batch.
func (d *deal) run(ctx context.Context) error {
	if err := d.retry(ctx, "the queue cannot be prepared", func() error { return d.prepare(ctx) }); err != nil {
		return err
	}
	defer d.close()
	if s, err := d.q.nc.Subscribe(d.q.names.troubleOf(d.batch), d.hear); err == nil {
		defer s.Unsubscribe()
	}
	d.restart()
	for d.missing > 0 {
		if d.failed != nil {
			return d.failed
		}
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		if err := ended(d.q.nc); err != nil {
			return err
		}
		d.publish(ctx)
		n, err := d.read(ctx)
		if err != nil {
			d.disturbed = time.Now()
			d.warn("results cannot be read", err)
			clock.Wait(ctx, pace.Tick)
		}
		if n == 0 {
			if err := d.findLost(ctx); errors.Is(err, errStopped) || errors.Is(err, ErrOtherRun) ||
				errors.Is(err, ErrNoWorkers) {
				return err
			} else if err != nil {
				d.disturbed = time.Now()
				d.warn("the queue cannot be examined", err)
			}
		}
	}
	if d.failed != nil {
		return d.failed
	}
	for _, t := range d.out {
		if t.End != rollout.EndWorker {
			return nil
		}
	}
	return fmt.Errorf("queue: %w: %d episodes, the first failure: %w", ErrFailed, len(d.out), d.first)
}

// restart marks all tasks without a result to be published.
func (d *deal) restart() {
	d.todo, d.pending = nil, 0
	for i, t := range d.out {
		if t == nil {
			d.todo = append(d.todo, i)
		}
	}
}

// retry repeats what fails because of the server, until ctx ends. What other tries cannot
// change is returned.
func (d *deal) retry(ctx context.Context, what string, f func() error) error {
	for {
		err := d.q.reported.explain(f())
		if err == nil || errors.Is(err, ErrOtherRun) || errors.Is(err, ErrAccess) || errors.Is(err, ErrOption) {
			return err
		}
		if d.q.server.failed() {
			return d.stopped(err)
		}
		if err := ended(d.q.nc); err != nil && ctx.Err() == nil {
			return err
		}
		d.warn(what, err)
		if err := clock.Wait(ctx, pace.Tick); err != nil {
			return err
		}
	}
}

// hear counts and logs, once in a batch, that a worker has results that the server does not take.
// Otherwise a run would wait without a reason in its own log.
func (d *deal) hear(m *nats.Msg) {
	d.q.count.undelivered.Add(1)
	d.heard.Do(func() {
		d.q.opts.log().Warn("queue: a worker cannot deliver results and keeps trying", "err", shorten(string(m.Data)))
	})
}

// warn logs a lasting condition twice a minute.
func (d *deal) warn(text string, err error) {
	d.q.count.refused.Add(1)
	if time.Since(d.warned) > 30*time.Second {
		d.warned = time.Now()
		d.q.opts.log().Warn("queue: "+text, "missing", d.missing, "of", len(d.out), "err", err)
	}
}

// prepare creates the batch's bucket, removes other batches, and reads the results that an
// earlier process received of the same batch.
func (d *deal) prepare(ctx context.Context) error {
	q := d.q
	if err := q.claim(ctx); err != nil {
		return err
	}
	stored, err := d.clear(ctx)
	if err != nil {
		return err
	}
	if err := d.openBucket(ctx); err != nil {
		return access(err)
	}
	if err := d.announce(ctx); err != nil {
		return err
	}
	if err := d.subscribe(ctx); err != nil {
		return err
	}
	for got := 0; got < stored; {
		n, err := d.read(ctx)
		if err != nil {
			return access(err)
		}
		got += n
		if n == 0 {
			break // look finds out what is missing
		}
	}
	if n := len(d.out) - d.missing; n > 0 && q.deals == 0 {
		q.count.resumed.Add(int64(n))
		q.opts.log().Info("results of this batch are in the queue already", "episodes", n, "of", len(d.out))
	}
	q.deals++
	return nil
}

// clear removes all tasks, and the results and buckets of other batches. Only the first
// batch of a process finds results of its own, which it returns the number of: later in a
// process the same batch would have another policy.
func (d *deal) clear(ctx context.Context) (stored int, err error) {
	q := d.q
	if err := d.purgeTasks(ctx); err != nil {
		return 0, access(err)
	}
	if d.results, err = q.js.Stream(ctx, q.names.results); err != nil {
		return 0, access(err)
	}
	info, err := d.results.Info(ctx, jetstream.WithSubjectFilter(q.names.resultOf("*")))
	if err != nil {
		return 0, access(err)
	}
	own := q.names.resultOf(d.batch)
	for subject, n := range info.State.Subjects {
		if subject == own && q.deals == 0 {
			stored = int(n)
			continue
		}
		if err := d.results.Purge(ctx, jetstream.WithPurgeSubject(subject)); err != nil {
			return 0, access(err)
		}
	}
	keep := d.batch
	if q.deals > 0 {
		keep = ""
	}
	return stored, dropBuckets(ctx, q.js, q.names, keep)
}

// subscribe reads the results of the batch from the beginning.
func (d *deal) subscribe(ctx context.Context) (err error) {
	d.consumer, err = d.results.CreateConsumer(ctx, jetstream.ConsumerConfig{
		FilterSubject: d.q.names.resultOf(d.batch), AckPolicy: jetstream.AckNonePolicy,
		DeliverPolicy:     jetstream.DeliverAllPolicy,
		InactiveThreshold: 5 * time.Minute, MemoryStorage: true,
	})
	return access(err)
}

// close ends the reading of results. That the server may not hear of it does not matter: it
// ends by itself.
func (d *deal) close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if d.consumer != nil {
		d.results.DeleteConsumer(ctx, d.consumer.CachedInfo().Name)
	}
}

// publish fills the window with tasks. Tasks that the server does not take stay in todo.
func (d *deal) publish(ctx context.Context) {
	q := d.q
	for len(d.todo) > 0 && d.pending < q.opts.Window && ctx.Err() == nil {
		n := min(len(d.todo), q.opts.Window-d.pending, 512)
		futures := make([]jetstream.PubAckFuture, n)
		var failed error
		for k, i := range d.todo[:n] {
			d.sent[i] = time.Now().Round(0) // by the clock that a server's leases end by, which may be set
			raw, err := json.Marshal(&taskOf[json.RawMessage]{d.batch, d.nonce, i, d.attempts[i], d.encoded[i]})
			if err == nil {
				futures[k], err = q.js.PublishAsync(q.names.taskOf(d.batch, d.nonce), raw,
					jetstream.WithMsgID(fmt.Sprintf("%s/%d/%d", d.nonce, i, d.attempts[i])))
			}
			failed = errors.Join(failed, err)
		}
		var unsent []int
		within, cancel := context.WithTimeoutCause(ctx, confirmTimeout, nats.ErrTimeout)
		for k, i := range d.todo[:n] {
			if err := confirmed(within, futures[k]); err != nil {
				unsent, failed = append(unsent, i), err
				continue
			}
			d.pending++
		}
		cancel()
		d.todo = append(unsent, d.todo[n:]...)
		if failed != nil {
			d.warn("the server takes no tasks", failed)
			return
		}
	}
}

// confirmTimeout limits the wait for the server's answers to messages that were sent together.
const confirmTimeout = 10 * time.Second

// confirmed waits for the server's answer to a message.
func confirmed(ctx context.Context, f jetstream.PubAckFuture) error {
	if f == nil {
		return errors.New("the message was not sent")
	}
	select {
	case <-f.Ok():
		return nil
	case err := <-f.Err():
		return err
	case <-ctx.Done():
		select {
		case <-f.Ok():
			return nil
		default:
			return context.Cause(ctx)
		}
	}
}

// read reads the results that arrive within pace.Tick, and returns the number of messages.
func (d *deal) read(ctx context.Context) (n int, err error) {
	batch, err := d.consumer.Fetch(256, jetstream.FetchMaxWait(pace.Tick))
	if err != nil {
		return 0, err
	}
	ctx, stop := context.WithCancel(ctx)
	ahead := d.readAhead(ctx, batch.Messages())
	defer func() {
		stop()
		for r := range ahead { // nothing reads the deal's objects after this
			<-r.ready
		}
	}()
	for r := range ahead {
		n++
		<-r.ready
		d.receive(ctx, r)
		if d.missing == 0 || d.failed != nil {
			return n, nil
		}
		if len(d.todo) > 0 && d.pending < d.q.opts.Window/2 {
			d.publish(ctx)
		}
		if ctx.Err() != nil {
			return n, nil
		}
	}
	return n, batch.Error()
}

// announce stores the settings of the batch for workers.
func (d *deal) announce(ctx context.Context) error {
	q := d.q
	raw, err := json.Marshal(&d.settings)
	if err != nil {
		return fmt.Errorf("queue: %w", err)
	}
	if len(raw) > maxSettings {
		return fmt.Errorf("queue: %w: settings and policy of a batch have %d bytes, at most %d are allowed", ErrOption,
			len(raw), maxSettings)
	}
	d.all, err = q.js.CreateOrUpdateObjectStore(ctx,
		jetstream.ObjectStoreConfig{Bucket: q.names.settings, Storage: jetstream.MemoryStorage})
	if err == nil {
		err = writeObject(ctx, d.all, d.nonce, raw)
	}
	return access(err)
}

package queue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"vagen/internal/clock"
	"vagen/internal/pace"
	"vagen/internal/unmade"
	"vagen/policy"
	"vagen/rollout"
)

// PolicySource returns what workers need to sample with a policy as it is now.
type PolicySource func(ctx context.Context, p policy.Policy) ([]byte, error)

// Queue gives episodes to workers. It is a rollout.Dealer; batches are played one after the
// other.
type Queue struct {
	opts     Options
	names    names
	nc       *nats.Conn
	js       jetstream.JetStream
	server   *embedded // nil for one by URL
	reported *serverErrors
	count    counters
	seen     attendance

	mu    sync.Mutex
	deals int // number of batches so far
}

var _ rollout.Dealer = (*Queue)(nil)

var errZero = unmade.Error("queue.Queue", "Open")

const (
	errCodeCreate = jetstream.ErrorCode(10049) // of a server that could not create a stream's files
	createTries   = 10
)

// counters are those of Gauges.
type counters struct {
	played, resumed, duplicates, faults, died, invalid, unusable, redealt, refused, undelivered atomic.Int64
}

// Open connects to the server, or starts it, and claims the queue for the run. Errors of
// credentials wrap ErrAccess, others of the server ErrServer. If the queue belongs to another
// run, the error wraps ErrOtherRun.
func Open(ctx context.Context, o Options) (*Queue, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	q, err := o.connect()
	if err != nil {
		return nil, err
	}
	q.seen = attendance{q: q, live: map[string]time.Time{}}
	err = q.reported.explain(q.claim(ctx))
	if err == nil {
		_, err = q.nc.Subscribe(q.names.presence, q.seen.hear)
	}
	if err != nil {
		return nil, errors.Join(err, q.Close())
	}
	if q.server != nil {
		command := "vagen worker --queue " + q.URL()
		if file := q.KeyFile(); file != "" {
			command += " --key-file " + file
		}
		o.log().Info("workers of this run connect to the embedded server", "command", command, "files", o.Dir)
	}
	return q, nil
}

// Probe checks that Open would succeed, without starting or changing anything.
func Probe(ctx context.Context, o Options) error {
	if err := o.Check(); err != nil {
		return err
	}
	if o.URL == Embedded {
		return o.probeListen()
	}
	q, err := o.connect()
	if err != nil {
		return err
	}
	defer q.nc.Close()
	_, err = q.owner(ctx)
	return q.reported.explain(err)
}

// URL returns the address for workers.
func (q *Queue) URL() string {
	if q.server == nil {
		return q.opts.URL
	}
	return strings.Replace(q.server.ClientURL(), "0.0.0.0", "HOST", 1)
}

// owner checks that the queue is this run's or nobody's, and reports whether it exists.
func (q *Queue) owner(ctx context.Context) (exists bool, err error) {
	s, err := q.js.Stream(ctx, q.names.results) // a file, unlike the tasks
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return false, nil
	}
	if err != nil {
		return false, access(err)
	}
	info := s.CachedInfo()
	if run := info.Config.Metadata[runKey]; run != q.opts.Run {
		return true, fmt.Errorf("queue: %w: %q on %s belongs to the run %q and has %d messages of its results, this run is %q: choose another name, or, if that run is over, remove it with vagen worker --discard %s",
			ErrOtherRun, q.opts.Name, q.opts.URL, run, info.State.Msgs, q.opts.Run, run)
	}
	if v := info.Config.Metadata[protocolKey]; v != protocol {
		return true, fmt.Errorf("queue: %w: %q on %s has messages of protocol %q, this program has %q: resume with the program that began the run", ErrServer, q.opts.Name, q.opts.URL, v, protocol)
	}
	return true, nil
}

// claim creates the streams, or opens those of this run.
//
// Tasks and settings, which may contain secrets of environments, are kept in the server's memory
// only; the trainer sends them again if they are lost.
func (q *Queue) claim(ctx context.Context) error {
	if _, err := q.owner(ctx); err != nil {
		return err
	}
	workers, err := q.consumer(ctx)
	if err != nil {
		return err
	}
	meta := map[string]string{runKey: q.opts.Run, protocolKey: protocol, consumerKey: workers}
	if err := q.createResults(ctx, jetstream.StreamConfig{
		Name: q.names.results, Subjects: []string{q.names.resultOf("*")}, Metadata: meta, Storage: jetstream.FileStorage,
		Retention: jetstream.LimitsPolicy, Discard: jetstream.DiscardNew,
	}); err != nil {
		return access(err)
	}
	tasks, err := q.js.CreateOrUpdateStream(ctx, jetstream.StreamConfig{
		Name: q.names.tasks, Subjects: []string{q.names.taskOf("*", "*")}, Metadata: meta, Storage: jetstream.MemoryStorage,
		Retention: jetstream.WorkQueuePolicy, Discard: jetstream.DiscardNew, MaxMsgs: int64(2 * q.opts.Window),
		MaxMsgSize: maxTask,
	})
	if err != nil {
		return access(err)
	}
	_, err = tasks.CreateOrUpdateConsumer(ctx, jetstream.ConsumerConfig{
		Durable: workers, AckPolicy: jetstream.AckExplicitPolicy, AckWait: q.opts.Lease, MaxAckPending: 2 * q.opts.Window,
	})
	return access(err)
}

// createResults creates the stream of results, or opens it. A server that has just removed its last
// stream of files also removes the folder above, in the background, and may do so under a stream
// that is being created: it then says that it cannot create the store, which the next try can.
func (q *Queue) createResults(ctx context.Context, c jetstream.StreamConfig) error {
	for try := 1; ; try++ {
		_, err := q.js.CreateOrUpdateStream(ctx, c)
		var api *jetstream.APIError
		if !errors.As(err, &api) || api.ErrorCode != errCodeCreate || try == createTries {
			return err
		}
		if err := clock.Wait(ctx, pace.Tick/5); err != nil {
			return err
		}
	}
}

// consumer returns the name of the consumer of tasks, a new one if there is no stream of tasks.
func (q *Queue) consumer(ctx context.Context) (string, error) {
	s, err := q.js.Stream(ctx, q.names.tasks)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return "workers-" + nonce(), nil
	}
	if err != nil {
		return "", access(err)
	}
	return cmp.Or(s.CachedInfo().Config.Metadata[consumerKey], "workers-"+nonce()), nil
}

// Deal implements rollout.Dealer. It waits for workers as long as ctx allows, also while the
// server cannot be reached or its disk is full, unless those that there were ended with errors:
// see Options.NoWorkers, after which the error wraps ErrNoWorkers.
func (q *Queue) Deal(
	ctx context.Context, p *rollout.Player, episodes []rollout.Episode, seed uint64,
) ([]*rollout.Trajectory, rollout.Timing, error) {
	if q.js == nil {
		return nil, rollout.Timing{}, errZero
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	begin := time.Now()
	if len(episodes) == 0 {
		return nil, rollout.Timing{}, nil
	}
	d, err := q.newDeal(ctx, p, episodes, seed)
	if err == nil {
		err = d.run(ctx)
	}
	took := rollout.Timing{Generate: time.Since(begin)}
	if err != nil {
		return nil, took, err
	}
	return d.out, took, nil
}

// Gauges returns counts since Open, by name.
func (q *Queue) Gauges() map[string]float64 {
	c := &q.count
	out := map[string]float64{}
	for name, n := range map[string]*atomic.Int64{
		"played": &c.played, "resumed": &c.resumed, "duplicates": &c.duplicates, "faults": &c.faults, "died": &c.died,
		"invalid": &c.invalid, "unusable": &c.unusable, "redealt": &c.redealt, "refused": &c.refused,
		"undelivered": &c.undelivered,
	} {
		out["queue_"+name] = float64(n.Load())
	}
	return out
}

// Finish removes everything of the run from the server. It is called when the run is complete.
// A nil queue has nothing.
func (q *Queue) Finish(ctx context.Context) error {
	if q == nil {
		return nil
	}
	if q.js == nil {
		return errZero
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	return discard(ctx, q.js, q.names)
}

// discard removes the streams and buckets of a queue.
func discard(ctx context.Context, js jetstream.JetStream, n names) error {
	var errs []error
	if err := dropBuckets(ctx, js, n, ""); err != nil {
		errs = append(errs, err)
	}
	for _, name := range []string{n.results, n.tasks} {
		if err := drop(ctx, js, name); err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
			errs = append(errs, access(err))
		}
	}
	return errors.Join(errs...)
}

// drop removes a stream, its messages first: a server that is still busy with the files of an
// earlier stream of this name leaves those of this one, and the next stream would have them.
func drop(ctx context.Context, js jetstream.JetStream, name string) error {
	s, err := js.Stream(ctx, name)
	if err == nil {
		err = s.Purge(ctx)
	}
	if err == nil {
		err = js.DeleteStream(ctx, name)
	}
	return err
}

// dropBuckets removes the buckets of all batches but one, and that of their settings.
func dropBuckets(ctx context.Context, js jetstream.JetStream, n names, except string) error {
	list := js.ObjectStoreNames(ctx)
	var old []string
	for name := range list.Name() {
		// Another queue's name may begin with this one's and an underscore, which no batch contains.
		rest, own := strings.CutPrefix(name, n.prefix)
		if own && !strings.Contains(rest, "_") && name != n.bucket(except) {
			old = append(old, name)
		}
	}
	errs := []error{}
	if err := list.Error(); err != nil {
		errs = append(errs, access(err))
	}
	for _, name := range old {
		if err := js.DeleteObjectStore(ctx, name); err != nil && !errors.Is(err, jetstream.ErrBucketNotFound) &&
			!errors.Is(err, jetstream.ErrStreamNotFound) {
			errs = append(errs, access(err))
		}
	}
	return errors.Join(errs...)
}

// Discard removes a queue that belongs to a run, for a run that will not be resumed.
func Discard(ctx context.Context, c Connection, run string) error {
	o := DefaultOptions()
	o.Connection, o.Run = c, run
	if err := o.Check(); err != nil {
		return err
	}
	q, err := o.connect()
	if err != nil {
		return err
	}
	defer q.nc.Close()
	exists, err := q.owner(ctx)
	switch {
	case err != nil:
		return q.reported.explain(err)
	case !exists:
		return fmt.Errorf("queue: %w: there is no queue %q on %s", ErrServer, o.Name, o.URL)
	}
	return discard(ctx, q.js, q.names)
}

// Close closes the connection and stops an embedded server. The queue keeps its messages,
// so that a run that is not complete resumes with the results that it has. A nil queue has nothing to
// close.
func (q *Queue) Close() error {
	if q == nil {
		return nil
	}
	q.nc.Close()
	return q.server.stop()
}

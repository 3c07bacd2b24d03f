package queue

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"vagen/internal/clock"
	"vagen/internal/pace"
	"vagen/rollout"
	"vagen/rollout/store"
)

// incoming is a message of a worker. Nothing in it is trusted.
type incoming struct {
	jetstream.Msg
	places  []place
	ts      []store.Stored
	reports []string
	invalid error         // the message is no result of any task
	err     error         // its trajectories cannot be read
	ready   chan struct{} // closed when the other fields are set
}

// fault returns the kind of the failure that a message reports, or "".
func (r *incoming) fault() string { return r.Headers().Get(faultHeader) }

// readAhead reads messages, in order, and decodes several at a time, because images have to be
// fetched. It closes the channel when there are no more messages or ctx has ended.
func (d *deal) readAhead(ctx context.Context, messages <-chan jetstream.Msg) <-chan *incoming {
	out := make(chan *incoming, aheadMessages)
	go func() {
		defer close(out)
		for {
			r := &incoming{ready: make(chan struct{})}
			var ok bool
			select {
			case r.Msg, ok = <-messages:
			case <-ctx.Done():
			}
			if !ok {
				return
			}
			select {
			case out <- r:
			case <-ctx.Done():
				return
			}
			go func() {
				defer close(r.ready)
				d.unpack(ctx, r)
			}()
		}
	}()
	return out
}

// aheadMessages limits the messages that are decoded before they are used, and so the memory that
// large ones need.
const aheadMessages = 3

// unpack sets the fields of a message that depend on its content.
func (d *deal) unpack(ctx context.Context, r *incoming) {
	r.places, r.invalid = readPlaces(r.Headers().Get(tasksHeader), len(d.out))
	if r.invalid == nil && r.fault() != "" && len(r.places) > 1 {
		r.invalid = fmt.Errorf("it reports a failure of %d tasks, must be one", len(r.places))
	}
	if r.invalid != nil || r.fault() != "" {
		return
	}
	if r.ts, r.err = d.decode(ctx, r.Msg, r.places); r.err == nil {
		r.reports, r.err = readReports(r.Headers().Get(reportHeader), len(r.places))
	}
}

// receive uses a message of a worker.
func (d *deal) receive(ctx context.Context, r *incoming) {
	if r.invalid != nil {
		d.q.opts.log().Warn("a worker sent a message that is no result", "err", r.invalid)
		d.q.count.invalid.Add(1)
		return
	}
	if kind := r.fault(); kind != "" {
		d.fault(ctx, r.places[0], d.believed(kind, r.places[0]), errors.New(shorten(string(r.Data()))))
		return
	}
	if ctx.Err() != nil {
		return
	}
	if r.err != nil {
		d.q.count.invalid.Add(1)
		for _, p := range r.places {
			d.fault(ctx, p, faultFailed, fmt.Errorf("%w: %w", ErrResult, r.err))
		}
		return
	}
	for i, p := range r.places {
		d.accept(ctx, p, r.ts[i].Trajectory, r.reports[i])
	}
}

// decode reads the trajectories of a message, one for each place.
func (d *deal) decode(ctx context.Context, m jetstream.Msg, places []place) ([]store.Stored, error) {
	body := m.Data()
	if name := m.Headers().Get(objectHeader); name != "" {
		var err error
		if body, err = d.object(ctx, name, maxResult); err != nil {
			return nil, err
		}
	}
	ts, err := store.Decode(body, len(places), func(name string) ([]byte, error) {
		return d.object(ctx, name, store.MaxImageBytes)
	})
	if err == nil && len(ts) != len(places) {
		err = fmt.Errorf("%d trajectories for %d tasks", len(ts), len(places))
	}
	return ts, err
}

// object reads an object of the batch's bucket. The first try has little time, because the chunks
// of an object that a worker made up never arrive, which is examined then; later ones suffice for
// large objects on slow connections.
func (d *deal) object(ctx context.Context, name string, limit int64) ([]byte, error) {
	var err error
	for try := range 3 { // another worker may be writing the same image
		if try > 0 && clock.Wait(ctx, pace.Tick/5) != nil {
			return nil, context.Cause(ctx)
		}
		var raw []byte
		within := []time.Duration{firstTransfer, transferTimeout / 4, transferTimeout}[try]
		if raw, err = readObject(ctx, within, d.bucket, name, limit); err == nil || errors.Is(err, errTooLong) {
			return raw, err
		}
		if forged := d.forged(ctx, name); forged != nil {
			err = forged
			break
		}
	}
	return nil, fmt.Errorf("object %q: %w", shorten(name), err)
}

// firstTransfer limits the first try to read an object; tests shorten it.
var firstTransfer = time.Second

// errForged means that an object is not one that a worker writes.
var errForged = errors.New("it is no object of a worker")

// forged examines an object that could not be read: an error wraps errForged if waiting for it has no
// use. A worker writes all chunks of an object before its description, and never links.
func (d *deal) forged(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, confirmTimeout)
	defer cancel()
	var former string
	for {
		info, err := d.bucket.GetInfo(ctx, name)
		if err != nil {
			return nil // it may be there soon
		}
		if info.Opts != nil && info.Opts.Link != nil {
			return fmt.Errorf("%w: it is a link", errForged)
		}
		chunks := "$O." + d.q.names.bucket(d.batch) + ".C." + info.NUID
		of, err := d.q.js.Stream(ctx, "OBJ_"+d.q.names.bucket(d.batch))
		var state *jetstream.StreamInfo
		if err == nil {
			state, err = of.Info(ctx, jetstream.WithSubjectFilter(chunks))
		}
		switch {
		case err != nil:
			return nil
		case info.Size == 0, state.State.Subjects[chunks] > 0 && state.State.Subjects[chunks] >= uint64(info.Chunks):
			return nil
		case info.NUID == former:
			return fmt.Errorf("%w: %d of its %d chunks are there", errForged, state.State.Subjects[chunks], info.Chunks)
		}
		former = info.NUID // when an object is replaced, the chunks of the former one are removed
		if clock.Wait(ctx, firstTransfer/10) != nil {
			return nil
		}
	}
}

// transferTimeout limits the transfer of an object. NATS's own limit, 5 s, is too short for a large
// one on a slow connection.
const transferTimeout = time.Minute

// errTooLong means that an object is longer than allowed.
var errTooLong = errors.New("it is too long")

// readObject reads an object of at most limit bytes.
func readObject(
	ctx context.Context, within time.Duration, from jetstream.ObjectStore, name string, limit int64,
) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	r, err := from.Get(ctx, name)
	if err != nil {
		return nil, err
	}
	raw, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err = errors.Join(err, r.Close()); int64(len(raw)) > limit {
		return nil, fmt.Errorf("object %q: %w: it has more than %d bytes", shorten(name), errTooLong, limit)
	}
	return raw, err
}

// writeObject writes an object.
func writeObject(ctx context.Context, to jetstream.ObjectStore, name string, raw []byte) error {
	ctx, cancel := context.WithTimeout(ctx, transferTimeout)
	defer cancel()
	_, err := to.PutBytes(ctx, name, raw)
	return err
}

// accept uses a trajectory, unless its task has a result.
func (d *deal) accept(ctx context.Context, p place, t *rollout.Trajectory, report string) {
	if d.failed != nil {
		return
	}
	if d.out[p.number] != nil {
		d.q.count.duplicates.Add(1)
		return
	}
	e := &d.episodes[p.number]
	err := checkResult(t, e, d.q.opts.CheckRow)
	if err == nil {
		t.Episode = *e // files do not have all of it, and no secrets
		if err = d.finish(ctx, p.number, t, []byte(report)); err == nil {
			d.q.count.played.Add(1)
			return
		}
		if !errors.Is(err, ErrResult) {
			d.failed = err
			return
		}
	}
	d.q.count.invalid.Add(1)
	if !errors.Is(err, ErrResult) {
		err = fmt.Errorf("%w: %w", ErrResult, err)
	}
	d.fault(ctx, p, faultFailed, err)
}

// believed is the kind of a failure that a worker reports. That workers ended is only believed, and
// the episode given up without further tries, once the leases of so many can have ended; before, it
// is a failure as others are.
func (d *deal) believed(kind string, p place) string {
	sent := d.sent[p.number]
	if kind == faultDied && (sent.IsZero() || time.Since(sent) < time.Duration(d.q.opts.Tries)*d.q.opts.Lease) {
		d.q.count.invalid.Add(1)
		return faultFailed
	}
	return kind
}

// fault counts a failure of a task, and plays it again or gives it up.
func (d *deal) fault(ctx context.Context, p place, kind string, err error) {
	if d.out[p.number] != nil || p.attempt != d.attempts[p.number] {
		d.q.count.duplicates.Add(1)
		return
	}
	e := &d.episodes[p.number]
	err = fmt.Errorf("queue: group %d, index %d, attempt %d: %w", e.Group, e.Index, p.attempt, err)
	d.attempts[p.number]++
	d.q.count.faults.Add(1)
	if kind == faultDied {
		d.q.count.died.Add(1)
	}
	if kind == faultDied || d.attempts[p.number] >= d.q.opts.Tries {
		if d.first == nil {
			d.first = err
		}
		d.q.count.unusable.Add(1)
		if err := d.finish(ctx, p.number, &rollout.Trajectory{Episode: *e, End: rollout.EndWorker, Err: err},
			nil); err != nil {
			d.failed = err
		}
		return
	}
	d.q.opts.log().Debug("an episode failed in a worker and is played again", "err", err)
	d.todo = append(d.todo, p.number)
	d.pending--
}

// finish makes a trajectory the result of a task, if the trainer accepts it.
func (d *deal) finish(ctx context.Context, i int, t *rollout.Trajectory, report []byte) error {
	if d.q.opts.Done != nil {
		if err := d.q.opts.Done(ctx, t, report); err != nil {
			return err
		}
	}
	d.out[i] = t
	d.missing--
	d.pending--
	d.progress = time.Now()
	return nil
}

func shorten(text string) string {
	text = strings.ToValidUTF8(text, "�")
	if r := []rune(text); len(r) > maxText {
		return string(r[:maxText]) + "…"
	}
	return text
}

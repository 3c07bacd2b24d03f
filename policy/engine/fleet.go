package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"vagen/internal/clock"
	"vagen/internal/retry"
	"vagen/internal/unmade"
	"vagen/policy"
)

// Fleet is one or several servers with the same model. It is safe for concurrent use.
type Fleet struct {
	opts  Options
	codec *Codec
	log   *slog.Logger
	api   protocol
	wire  *wire

	model   string   // name of the base model
	base    string   // version of the base weights when the fleet was opened
	length  int      // longest context; 0 is unknown
	current *Version // nil before the first Publish

	mu         sync.Mutex // protects the servers
	servers    []*server
	users      int           // calls that need the same weights until they end
	publishing bool          // base and current may change: there are no users
	changed    chan struct{} // closed and replaced when the state of a server or these two change

	ctx    context.Context // of probes
	cancel context.CancelFunc
	probes sync.WaitGroup
	ids    atomic.Uint64
	nonce  string // distinguishes the ids of this process
	count  counters
}

// Errors of values that only the functions of this package make.
var (
	errFleet = unmade.Error("engine.Fleet", "Open")
	errCodec = unmade.Error("engine.Codec", "LoadCodec")
)

// Open connects to all servers of a fleet, waits for Options.Startup for those that are still
// starting, and checks that they serve the codec's model: the
// same base model and weights everywhere, and the same tokenizer. The error lists the
// problems of all servers.
func Open(ctx context.Context, codec *Codec, o Options) (*Fleet, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	if codec == nil || codec.text.Tok == nil {
		return nil, errCodec
	}
	f := &Fleet{opts: o, codec: codec, log: cmp.Or(o.Log, slog.New(slog.DiscardHandler)), changed: make(chan struct{}),
		nonce: nonce()}
	w := newWire(&o)
	f.wire = w
	if f.api = &(vllm{w, o.Model}); o.Kind == SGLang {
		f.api = &sglang{w}
	}
	for _, a := range o.Addresses {
		base, _ := parseAddress(a)
		f.servers = append(f.servers, &server{base: base, healthy: true, sync: make(chan struct{}, 1)})
	}
	errs := make([]error, len(f.servers))
	f.each(func(i int, s *server) { errs[i] = f.await(ctx, s) })
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	first := f.servers[0]
	f.model, f.base, f.length = first.known.model, first.known.version, first.known.length
	for _, s := range f.servers[1:] {
		if s.known.model != f.model {
			errs = append(errs, differs(s, first, "serves", s.known.model, f.model))
		}
		if s.known.version != f.base && !o.Follow { // they may be changing
			errs = append(errs, differs(s, first, "has weights of version", s.known.version, f.base))
		}
		if s.known.length != f.length {
			errs = append(errs, differs(s, first, "has a context of", fmt.Sprint(s.known.length), fmt.Sprint(f.length)))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	f.ctx, f.cancel = context.WithCancel(context.WithoutCancel(ctx))
	return f, nil
}

func differs(s, first *server, what, got, want string) error {
	return fmt.Errorf("engine: %s: %w: it %s %s, %s %s: all servers must be the same", s.base, ErrModel, what, got,
		first.base, want)
}

// each calls do for every server concurrently.
func (f *Fleet) each(do func(i int, s *server)) {
	var wg sync.WaitGroup
	for i, s := range f.servers {
		wg.Go(func() { do(i, s) })
	}
	wg.Wait()
}

// await inspects a server until it answers, for at most Options.Startup. A server with another
// model, or one that refuses the key, is not waited for.
func (f *Fleet) await(ctx context.Context, s *server) error {
	start, delays := time.Now(), retry.Steady(f.opts.ProbeMin, min(f.opts.ProbeMax, max(f.opts.ProbeMin, startDelay)))
	for tries := 1; ; tries++ {
		err := f.inspect(ctx, s)
		waited := time.Since(start)
		switch {
		case err == nil, !errors.Is(err, ErrServer), f.opts.Startup == 0:
			return err
		case ctx.Err() != nil:
			return fmt.Errorf("%w: %w", err, context.Cause(ctx))
		case waited >= f.opts.Startup:
			return fmt.Errorf("%w (it was asked %d times in %v)", err, tries, waited.Round(time.Millisecond))
		case tries == 1:
			f.log.Warn("a server does not answer yet; waiting for it to start", "server", s.base, "at_most", f.opts.Startup,
				"err", err)
		}
		delay, _ := retry.Honour(delays.Delay(tries-1, 0), afterOf(err))
		if ended := clock.Wait(ctx, min(delay, f.opts.Startup-waited)); ended != nil {
			return fmt.Errorf("%w: %w", err, ended)
		}
	}
}

// startDelay is the longest delay between two questions to a server that is starting.
const startDelay = 5 * time.Second

// inspect asks a server what it serves and compares its tokenizer with the codec's.
func (f *Fleet) inspect(ctx context.Context, s *server) error {
	ctx, cancel := context.WithTimeoutCause(ctx, inspectTimeout, fmt.Errorf("no answer within %v", inspectTimeout))
	defer cancel()
	var err error
	if s.known, err = f.api.describe(ctx, s.base); err != nil {
		return err
	}
	got, err := f.api.tokens(ctx, s.base, s.known.model, sample, f.codec.vars)
	if err != nil {
		return err
	}
	want, _, err := f.codec.text.Prompt(nil, []policy.Message{{Role: policy.User, Text: sample}}, nil)
	if err != nil {
		return fmt.Errorf("engine: %w", err)
	}
	if at := difference(got, want); got != nil && at >= 0 {
		return fmt.Errorf("engine: %s: %w: its tokenizer and chat template make %d tokens of a message, ours %d, and they differ from token %d on", s.base, ErrModel, len(got), len(want), at)
	}
	return f.inspectVocabulary(ctx, s)
}

// inspectTimeout limits the calls of one inspect.
const inspectTimeout = time.Minute

// sample is a text whose tokens differ between the tokenizers of most models.
const sample = "Turn 12: the agent moves <answer>Left, Down</answer>\n\tπ≈3.14159, naïve 数据 😀 don't"

// difference returns the first position at which two lists differ, −1 for none.
func difference(a, b []int32) int {
	for i := range max(len(a), len(b)) {
		if i >= len(a) || i >= len(b) || a[i] != b[i] {
			return i
		}
	}
	return -1
}

// inspectVocabulary generates one token from a probe with the model's largest token id and
// checks that the server reads it, and that its text of the response is the codec's.
func (f *Fleet) inspectVocabulary(ctx context.Context, s *server) error {
	probe, err := f.codec.text.Tok.Encode(sample)
	if err != nil {
		return fmt.Errorf("engine: %w", err)
	}
	probe = append(probe, int32(f.codec.text.Tok.VocabSize()-1))
	r := &request{id: f.nextID(), model: s.known.model, tokens: probe, prompt: probe, vocab: f.codec.text.Vocab, max: 1,
		stop: f.codec.stops()}
	a, err := f.api.generate(ctx, s.base, r)
	if errors.Is(err, ErrRefused) {
		return fmt.Errorf("engine: %s: %w: it refuses the token %d, the last of our vocabulary: %w", s.base, ErrModel,
			probe[len(probe)-1], err)
	}
	if err != nil {
		return err
	}
	if a.aborted { // it may have no tokens
		return &serverError{server: s.base, call: "generate", kind: ErrAborted, detail: "the first request"}
	}
	if err := errors.Join(r.checkPrompt(a), r.check(a)); err != nil {
		return fmt.Errorf("engine: %s: %w: %w", s.base, ErrModel, err)
	}
	if want := f.codec.text.Tok.Decode(a.tokens, true); a.text != "" && a.text != want &&
		a.text != f.codec.text.Tok.Decode(a.tokens, false) {
		return fmt.Errorf("engine: %s: %w: token %d is %q there, %q here", s.base, ErrModel, a.tokens[0], a.text, want)
	}
	return nil
}

// Model returns the name of the base model on the servers.
func (f *Fleet) Model() string { return f.model }

// Codec returns the codec of the fleet's model.
func (f *Fleet) Codec() *Codec { return f.codec }

// Healthy returns the number of servers that are used now, and of all.
func (f *Fleet) Healthy() (healthy, all int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range f.servers {
		if s.healthy {
			healthy++
		}
	}
	return healthy, len(f.servers)
}

// Close stops the probes and waits for them. Servers keep their weights and adapters.
func (f *Fleet) Close() error {
	if f.cancel == nil {
		return nil
	}
	f.mu.Lock()
	f.cancel()
	f.mu.Unlock()
	f.probes.Wait()
	f.wire.http.CloseIdleConnections()
	return nil
}

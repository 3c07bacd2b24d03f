package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"vagen/env"
	"vagen/internal/cli"
	"vagen/policy/engine"
	"vagen/policy/vlm"
	"vagen/rollout"
	"vagen/rollout/gateway"
	"vagen/rollout/store"
	"vagen/train/rundir"
)

func gatewayCommand() *cli.Command {
	return &cli.Command{
		Name: "gateway", Args: "[key=value …]", Max: -1,
		About: "Let agents that speak OpenAI's or Anthropic's protocols ask a model, and keep their episodes.",
		Help: `POST /episodes opens an episode, with task, group and seed if the client likes, and returns
its base URL and key. POST …/reward pays it, and POST …/finish ends it. An ended episode
is written to --out, in files like those of trainer.rollout_data_dir: tokens and
log-probs of every row, rewards, and why it failed if it did.

The model is a folder, or with --engine behind servers of vLLM or SGLang. key=value sets
the options constraints, reward_command, reward_timeout and host of the environment agent.
A token is required if other machines can reach the address; see docs/agents.md.

On SIGTERM or Ctrl-C no further episode is opened, open ones continue for up to
--drain-timeout, and those that have ended are written.

  vagen gateway --model DIR --out episodes constraints=count`,
		Setup: func(f *flag.FlagSet) cli.Run {
			g := new(gatewayOptions)
			g.flags(f)
			return g.serve
		},
	}
}

// gatewayOptions holds the flags.
type gatewayOptions struct {
	model, out, addr string
	engines          cli.StringList
	kind             string
	vlm              *vlm.Options
	player           rollout.Player
	token            *keySource
	key              *keySource // of the engines
	open, perFile    int
	seed             uint64
	idle, drain      time.Duration
}

func (g *gatewayOptions) flags(f *flag.FlagSet) {
	f.StringVar(&g.model, "model", "", "`folder` or id on the hub of the model; with --engine of its tokenizer")
	f.Var(&g.engines, "engine", "`URL` of a server that generates; may be repeated")
	f.StringVar(&g.kind, "engine-kind", string(engine.VLLM), "what the servers are: vllm or sglang")
	g.key = keyFlags(f, "engine-key", "key of the servers")
	f.StringVar(&g.out, "out", "", "`folder` for the episodes")
	f.StringVar(&g.addr, "addr", "127.0.0.1:8001", "`address` to listen on; port 0 selects a free port")
	g.token = keyFlags(f, "token", "token that clients must send")
	f.IntVar(&g.open, "episodes", 64, "maximum open episodes; requests for more get status 429")
	f.IntVar(&g.perFile, "per-file", 16, "episodes of a file")
	f.IntVar(&g.player.MaxTurns, "max-turns", 100, "maximum answers of an episode")
	s := &g.player.Sampling
	f.IntVar(&s.MaxTokens, "max-tokens", 1024, "maximum tokens of an answer")
	f.IntVar(&g.player.Budget.Response, "max-length", 0, "maximum tokens of a row; 0 is what the model reads")
	f.Float64Var(&s.Temperature, "temperature", 1, "divides the logits; what clients ask for is counted, not honoured")
	f.Float64Var(&s.TopP, "top-p", 1, "keep the smallest set of tokens with this probability")
	f.Uint64Var(&g.seed, "seed", 0, "seed of sampling")
	f.DurationVar(&g.idle, "idle-timeout", 10*time.Minute, "an episode without a call for this long fails; 0 is never")
	f.DurationVar(&g.player.EpisodeTimeout, "episode-timeout", 0,
		"an episode fails when its agent has taken this long, without the model's time; 0 is never")
	f.DurationVar(&g.drain, "drain-timeout", time.Minute, "time limit for open episodes when the gateway stops")
	g.vlm = modelFlags(f)
}

// check reports flags that cannot mean anything.
func (g *gatewayOptions) check(c *cli.Call) error {
	switch {
	case g.model == "":
		return cli.Usagef("--model is missing")
	case g.out == "":
		return cli.Usagef("--out is missing: the folder for the episodes")
	case g.open < 1 || g.perFile < 1 || g.player.MaxTurns < 1 || g.player.Sampling.MaxTokens < 1:
		return cli.Usagef("--episodes is %d, --per-file %d, --max-turns %d and --max-tokens %d; all must be positive",
			g.open, g.perFile, g.player.MaxTurns, g.player.Sampling.MaxTokens)
	case g.player.Budget.Response < 0:
		return cli.Usagef("--max-length is %d, must not be negative", g.player.Budget.Response)
	case g.idle < 0 || g.player.EpisodeTimeout < 0 || g.drain < 0:
		return cli.Usagef("--idle-timeout is %v, --episode-timeout %v and --drain-timeout %v, must not be negative", g.idle,
			g.player.EpisodeTimeout, g.drain)
	}
	if err := g.player.Sampling.Check(); err != nil {
		return cli.Usagef("--temperature and --top-p: %w", err)
	}
	// Agents come when they like; only parts of several devices need rounds.
	g.player.Continuous = len(g.engines) > 0 || g.vlm.Devices == 1 && !g.vlm.SameBytes
	if len(g.engines) == 0 {
		err := c.Idle("there is no --engine, the server that it is about", "engine-kind", "engine-key-env",
			"engine-key-file")
		if err == nil && g.player.Continuous {
			err = c.Idle("a model on one device reads the context of every agent by itself", "share-prefix")
		}
		return err
	}
	var own []string // flags of a model in this process
	f := flag.NewFlagSet("", flag.ContinueOnError)
	modelFlags(f)
	f.VisitAll(func(f *flag.Flag) { own = append(own, f.Name) })
	return c.Idle("--engine is, too: servers generate, not the model in this process", own...)
}

func (g *gatewayOptions) serve(ctx context.Context, c *cli.Call) error {
	if err := g.check(c); err != nil {
		return err
	}
	options, err := cli.Options(c.Args)
	if err != nil {
		return err
	}
	for _, name := range []string{"command", "url", "wait", "listen", "token_env", "processes"} {
		if _, given := options[name]; given {
			return cli.Usagef("%s is not an option here: agents come from outside, to --addr with --token", name)
		}
	}
	options["wait"], options["token_env"] = true, g.token.env // which the programs that score do not inherit
	s := gateway.Settings{Listen: g.addr, Open: true, Idle: g.idle, Log: c.Log}
	s.Host, _ = options["host"].(string)
	if s.Token, err = g.token.read(); err != nil {
		return err
	}
	keep, err := openKeeper(g.out, g.perFile, c)
	if err != nil {
		return err
	}
	gate, err := gateway.New(s)
	if err != nil {
		return errors.Join(asUsage(err, gateway.ErrToken), keep.close())
	}
	err = g.play(ctx, c, gate, options, keep)
	return errors.Join(err, gate.Close(), keep.close())
}

// play plays episodes until the context ends and those that are open have ended.
func (g *gatewayOptions) play(ctx context.Context, c *cli.Call, gate *gateway.Gateway, options map[string]any,
	keep *keeper) error {
	if _, err := gate.Env(options); err != nil {
		return asUsage(err, env.ErrOption)
	}
	shut, err := g.policy(ctx, c)
	if err != nil {
		return err
	}
	p := &g.player
	p.Envs, p.Log, p.EnvTimeout = new(env.Registry), c.Log, forever
	p.SetWorkers(0)
	p.Envs.SetRemote(gateway.Name)
	if err := p.Envs.Register(gateway.Name, gate.Env); err != nil {
		return errors.Join(err, shut())
	}
	var stopping atomic.Bool
	stop := func() {
		if stopping.Swap(true) {
			return
		}
		c.Log.Info("shutting down")
		gate.Drain()
		time.AfterFunc(g.drain, func() { _ = gate.Close() }) // open episodes fail; it is closed again
	}
	next := keep.file << 32 // not what earlier files have: equal indices are sampled alike
	episode := func() rollout.Episode {
		next++
		return rollout.Episode{Env: gateway.Name, Config: options, Index: next}
	}
	p.Next = func(t *rollout.Trajectory) (rollout.Episode, bool) {
		if keep.add(t); keep.err != nil {
			stop() // close returns the error
		}
		return episode(), !stopping.Load()
	}
	first := make([]rollout.Episode, g.open)
	for i := range first {
		first[i] = episode()
	}
	defer context.AfterFunc(ctx, stop)()
	c.Log.Info("serving agents", "address", gate.URL(), "episodes", g.open)
	_, _, err = p.Play(context.WithoutCancel(ctx), first, g.seed)
	if errors.Is(err, rollout.ErrNotStarted) {
		err = nil // the last episodes were offered, but no client began them
	}
	return errors.Join(err, shut())
}

// forever is no limit: Settings.Idle limits the time between two calls.
const forever = 100 * 365 * 24 * time.Hour

// policy opens the model or connects to the servers.
func (g *gatewayOptions) policy(ctx context.Context, c *cli.Call) (shut func() error, err error) {
	if !g.player.Continuous {
		g.player.Patience = 5 * time.Millisecond
	}
	if len(g.engines) == 0 {
		g.vlm.Continuous = g.player.Continuous
		m, err := openModel(ctx, c, g.model, g.vlm)
		if err != nil {
			return nil, err
		}
		g.player.Policy = m
		return m.Close, nil
	}
	o := engine.DefaultOptions()
	o.Kind, o.Addresses, o.Log = engine.Kind(g.kind), g.engines, c.Log
	if o.Key, err = g.key.read(); err != nil {
		return nil, err
	}
	dir, err := modelFolder(ctx, c, g.model)
	if err != nil {
		return nil, err
	}
	codec, err := engine.LoadCodec(dir, nil)
	if err != nil {
		return nil, asUsage(err, badInput...)
	}
	fleet, err := engine.Open(ctx, codec, o)
	if err != nil {
		return nil, asUsage(err, engine.ErrOption)
	}
	g.player.Policy = engine.NewPolicy(fleet)
	return fleet.Close, nil
}

// keeper writes episodes to files, some at a time.
type keeper struct {
	call    *cli.Call
	gallery *store.Gallery
	unlock  func() error
	per     int
	file    int // number of the next one
	held    []*rollout.Trajectory
	ends    map[rollout.End]int
	err     error // of writing
}

// openKeeper locks a folder and continues after its last file.
func openKeeper(dir string, per int, c *cli.Call) (*keeper, error) {
	k := &keeper{call: c, per: per, ends: map[rollout.End]int{}}
	err := os.MkdirAll(dir, 0o755)
	if err == nil {
		k.unlock, err = rundir.Dir(dir).Lock()
	}
	if err != nil {
		return nil, err
	}
	// after locking, because it removes files that are not complete
	k.gallery, err = store.OpenGallery(dir, store.GalleryOptions{Log: c.Log})
	entries, unread := os.ReadDir(dir)
	if err = errors.Join(err, unread); err != nil {
		return nil, errors.Join(err, k.unlock())
	}
	for _, e := range entries {
		if step, _, ok := rundir.StepOf(e.Name()); ok {
			k.file = max(k.file, step+1)
		}
	}
	return k, nil
}

// add keeps an episode, unless no client began it.
func (k *keeper) add(t *rollout.Trajectory) {
	if errors.Is(t.Err, gateway.ErrClosed) && len(t.Turns) == 0 {
		return
	}
	k.ends[t.End]++
	if k.held = append(k.held, t); len(k.held) >= k.per {
		k.write()
	}
}

func (k *keeper) write() {
	if len(k.held) == 0 || k.err != nil {
		return
	}
	if k.err = k.gallery.Save(rundir.EpisodesName(k.file), k.file, k.held); k.err != nil {
		k.call.Log.Error("episodes not written", "err", k.err)
	}
	k.file, k.held = k.file+1, nil
}

func (k *keeper) close() error {
	k.write()
	k.call.Log.Info("episodes", "ends", k.ends)
	if err := errors.Join(k.err, k.unlock()); err != nil {
		return fmt.Errorf("writing episodes: %w", err)
	}
	return nil
}

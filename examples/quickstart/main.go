// Quickstart trains a small vision-language agent from random weights on a CPU, and plays unseen levels of
// FrozenLake, Sokoban or Navigation.
//
// It makes a Qwen2.5-VL of half a million parameters (for Navigation, which it plays as text,
// a Qwen2 of fewer), shows it scripted episodes until it knows how to answer, and then lets
// it learn by playing: PPO with VAGEN's bi-level advantages, masks, turn rewards and state
// rewards. Everything it writes goes to a folder: configuration, metrics, curve, checkpoint,
// and episodes with their pictures.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"

	"vagen/env"
	"vagen/policy"
	"vagen/policy/vlm"
	"vagen/rollout"
	"vagen/train"
	"vagen/train/config"
	"vagen/train/run"
	"vagen/train/track"
	"vagen/train/track/curve"
	"vagen/train/track/curve/plot"
	"vagen/train/view"
)

// options are the flags.
type options struct {
	seed    uint64
	steps   int
	workers int
	out     string
	backend string
	recipe  string
	name    string // of the run
}

// maxSeed limits seeds, so that no two seeds share training levels.
const maxSeed = 1 << 37

func main() {
	o, err := parse(os.Args[1:], os.Stderr)
	if err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return
		}
		os.Exit(2) // parse has written the error
	}
	ctx, stop := run.UntilSignal(context.Background())
	defer stop()
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(25) // garbage would otherwise be the larger part of this small run
	}
	if err := quickstart(ctx, o, os.Stdout, os.Stderr); err != nil {
		code := run.ExitCode(ctx, err)
		if code > 1 {
			err = errors.New("interrupted")
		}
		fmt.Fprintln(os.Stderr, "quickstart:", err)
		os.Exit(code)
	}
}

// parse reads the flags. Errors are written to w, with the usage.
func parse(args []string, w io.Writer) (options, error) {
	var o options
	f := flag.NewFlagSet("quickstart", flag.ContinueOnError)
	f.SetOutput(w)
	f.Uint64Var(&o.seed, "seed", 0, "decides everything that is random")
	f.IntVar(&o.steps, "steps", -1, "training steps; -1 is the number of the recipe")
	f.IntVar(&o.workers, "workers", runtime.NumCPU(), "environments worked on at once; changes no result")
	f.StringVar(&o.out, "out", "", "folder to write to; default runs/<recipe>-seed<seed>")
	f.StringVar(&o.backend, "backend", "auto", "auto, xla, cuda or go")
	f.StringVar(&o.recipe, "recipe", "default", "what to train:"+recipeNames())
	if err := f.Parse(args); err != nil {
		return o, err
	}
	err := o.check(f.Args())
	if err != nil {
		fmt.Fprintf(w, "quickstart: %v\n", err)
	}
	o.name = fmt.Sprintf("%s-seed%d", o.recipe, o.seed)
	if o.out == "" {
		o.out = filepath.Join("runs", o.name)
	}
	return o, err
}

// check reports what flags cannot mean. The configuration checks the rest.
func (o *options) check(rest []string) error {
	if len(rest) > 0 {
		return fmt.Errorf("there are only flags, but %q is given", rest)
	}
	if _, ok := recipes[o.recipe]; !ok {
		return fmt.Errorf("there is no recipe %q; choose one of%s", o.recipe, recipeNames())
	}
	if o.steps < -1 {
		return fmt.Errorf("-steps is %d, must be -1 or more", o.steps)
	}
	if o.seed >= maxSeed {
		return fmt.Errorf("-seed is %d, must be below %d", o.seed, uint64(maxSeed))
	}
	return nil
}

func quickstart(ctx context.Context, o options, out, complaints io.Writer) error {
	r := recipes[o.recipe]
	c := r.configure(o)
	if err := c.Validate(); err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(complaints, nil))
	backend, err := vlm.ChooseBackend(ctx, o.backend, log)
	if err != nil {
		return err
	}
	if backend == "go" {
		r = r.reduced()
		c = r.configure(o)
		fmt.Fprintln(out, "The pure-Go backend is about twenty times slower than XLA: this run is cut down to show that\n"+
			"everything works. Do not expect the success rate to rise.")
	}
	refs, err := references(ctx, c, r)
	if err != nil {
		return err
	}
	var model *vlm.Model
	session, err := run.Open(ctx, c, run.Options{
		Dir: o.out, Console: out, Log: log,
		Learner: func(ctx context.Context, dir string) (_ policy.Learner, err error) {
			model, err = newModel(ctx, filepath.Join(dir, "initial"), r, c, log)
			return model, err
		},
		Curve: curve.Curve{
			Title: r.title + ", " + c.Trainer.Experiment, Marks: refs,
		},
		DrawCurve: plot.PNG,
	})
	if err != nil {
		return err
	}
	params, _ := model.Parameters()
	fmt.Fprintf(out, "quickstart, recipe %s: %s\n%.2f M trained parameters on %s, results in %s\n", o.recipe, r.about,
		float64(params)/1e6, model.Backend(), session.Folder.Path)
	if err := errors.Join(learn(ctx, session, model, r), session.Close()); err != nil {
		return err
	}
	page := filepath.Join(o.out, "report.html")
	if err := writeReport(page, o.out, log); err != nil {
		return err
	}
	first, last := session.Curve.Ends()
	for _, m := range refs[1:] {
		fmt.Fprintf(out, "%s %.2f\n", m.Name, m.Value)
	}
	fmt.Fprintf(out, "success: random %.2f, warm start %.2f, trained %.2f\n", refs[0].Value, first, last)
	fmt.Fprintf(out, "report with curves, episodes and credit: %s\n", page)
	return nil
}

// writeReport writes what the run did as a page in one file.
func writeReport(path, dir string, log *slog.Logger) error {
	var page bytes.Buffer
	if err := (&view.Report{Runs: []string{dir}, Episodes: 40, Log: log}).Write(&page); err != nil {
		return err
	}
	return os.WriteFile(path, page.Bytes(), 0o644)
}

// learn trains by imitation, then by reinforcement learning.
func learn(ctx context.Context, session *run.Run, model *vlm.Model, r recipe) error {
	if err := warmUp(ctx, model, session.Envs, session.Config, r, session.Sinks); err != nil {
		return err
	}
	// What reinforcement learning starts from, and keeps as its reference, is the run's model for
	// commands that open the run.
	path := session.Config.Agent.Model.Path
	if err := model.Export(ctx, path); err != nil {
		return err
	}
	if err := session.RecordInputs(ctx, map[string]string{"model": path}); err != nil {
		return err
	}
	return session.Train(ctx)
}

// newModel creates the model's folder and opens it.
func newModel(ctx context.Context, dir string, r recipe, c config.Config, log *slog.Logger) (*vlm.Model, error) {
	if err := vlm.Create(dir, r.shape, r.words, c.Run.Seed); err != nil {
		return nil, err
	}
	return vlm.Open(ctx, dir, run.ModelOptions(&c, log))
}

// references plays the validation levels with the recipe's scripted players. The rate of each
// is averaged over twenty plays, unless chance has no part in them.
func references(ctx context.Context, c config.Config, r recipe) ([]curve.Mark, error) {
	var marks []curve.Mark
	for _, p := range r.players {
		plays := 20
		if p.fixed {
			plays = 1
		}
		m := curve.Mark{Name: p.name}
		for i := range plays {
			rate, err := p.rate(ctx, r, c, uint64(i))
			if err != nil {
				return nil, err
			}
			m.Value += rate / float64(plays)
		}
		marks = append(marks, m)
	}
	return marks, nil
}

// warmUp imitates a player whose moves are mostly random and whose statements are correct.
func warmUp(
	ctx context.Context, model *vlm.Model, envs *env.Registry, c config.Config, r recipe, sinks []track.Sink,
) error {
	// Levels before the training levels, which neither training nor validation uses.
	next := c.Env.Seed
	for n, l := range r.lessons {
		next -= int64(l.transcripts)
		l.Seed = c.Run.Seed + uint64(n)
		recorded := demonstrations(model, envs, c, r, l, next, uint64(n))
		if err := train.Imitate(ctx, model, l.transcripts, recorded, l.Imitation, sinks...); err != nil {
			return err
		}
	}
	return model.Tie(ctx)
}

// demonstrations plays the scripted episodes of a lesson, those of an optimiser step when it needs them: all
// at once, their pictures would take a gigabyte.
func demonstrations(
	model *vlm.Model, envs *env.Registry, c config.Config, r recipe, l lesson, first int64, n uint64,
) train.Transcripts {
	return func(ctx context.Context, members []int) ([]*rollout.Trajectory, error) {
		episodes := make([]rollout.Episode, len(members))
		for k, i := range members {
			episodes[k] = rollout.Episode{Env: c.Env.Name, Config: c.Env.Config, Seed: first + int64(i), Group: i,
				MaxTurns: l.turns}
		}
		return rollout.Demonstrate(ctx, model, envs, episodes, func(e env.Env, ep rollout.Episode, turn int) (string, error) {
			t, ok := e.(env.Teacher)
			if !ok {
				return "", fmt.Errorf("%T has no scripts", e)
			}
			return t.Teach("shortest_path", r.noise, rollout.ScriptRand(c.Run.Seed, n, uint64(ep.Group), uint64(turn)))
		})
	}
}

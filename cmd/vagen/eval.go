package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"path/filepath"
	"slices"

	"vagen/env"
	"vagen/internal/cli"
	"vagen/internal/regular"
	"vagen/internal/settings"
	"vagen/policy/vlm"
	"vagen/rollout/evaluate"
	"vagen/train"
	"vagen/train/config"
	"vagen/train/evaluation"
	"vagen/train/run"
)

func evalCommand() *cli.Command {
	return &cli.Command{
		Name: "eval", Args: "CONFIG [key=value …]", Max: -1,
		About: "Evaluate a model on environments.",
		Help: `CONFIG is YAML with a list of environments (envs, or files in datasets) and a
backend: a model behind an API, or one in this process. It may also be a training
configuration: its validation levels are then played with the model in
actor_rollout_ref.model.path, as in training, for example with

  vagen eval runs/a/b/config.yaml actor_rollout_ref.model.path=runs/a/b/checkpoints/step_40/actor

The result of each episode is written when it ends, to a folder below tag_<tag_id>; a
stopped evaluation resumes with the missing episodes. Tables are written to the
standard output and to summary.txt, .md and .json. If no episode, or none of those that
were played, can be used, the exit code is 1.`,
		Setup: func(f *flag.FlagSet) cli.Run {
			var o evalOptions
			f.StringVar(&o.out, "out", "", "`folder` for results, instead of experiment.dump_dir")
			f.StringVar(&o.format, "format", "text", "`format` of the tables: text, markdown or json")
			f.StringVar(&o.preset, "preset", "", "`name` of a preset of training to start from")
			dry := f.Bool("dry-run", false, "check everything except the service and show what would be played, without playing")
			keys := f.Bool("explain", false, "list the keys of evaluations, backends and sampling instead")
			return func(ctx context.Context, c *cli.Call) (err error) {
				if *keys {
					return explainEval(c)
				}
				if !slices.Contains([]string{"text", "markdown", "json"}, o.format) {
					return cli.Usagef("--format is %q, must be text, markdown or json", o.format)
				}
				e, err := o.prepare(ctx, c)
				if err != nil {
					return asUsage(err, badPath...)
				}
				defer func() { err = errors.Join(err, e.close()) }()
				if *dry {
					return e.printPlan(c)
				}
				return e.run(ctx, c, o.format)
			}
		},
	}
}

type evalOptions struct{ out, format, preset string }

// evalJob is an evaluation that is ready to run.
type evalJob struct {
	*evaluate.Evaluation
	open  func(ctx context.Context) (shut func(), err error) // sets its policy
	shut  func()
	envs  *env.Registry // nil if the policy closes them, too
	about string
}

func (e *evalJob) close() error {
	if e.shut != nil {
		e.shut()
	}
	if e.envs == nil {
		return nil
	}
	return e.envs.Close()
}

// prepare reads either form of configuration.
func (o *evalOptions) prepare(ctx context.Context, c *cli.Call) (*evalJob, error) {
	path, overrides := splitConfig(c.Args)
	if path == "" && o.preset == "" {
		return nil, cli.Usagef("CONFIG is missing: give a file, or --preset")
	}
	if path != "" && o.preset == "" {
		raw, err := regular.ReadFile(path)
		if err != nil {
			return nil, cli.Usagef("%w", err)
		}
		if evaluation.IsConfig(raw) {
			return o.ofEval(ctx, c, path, overrides)
		}
	}
	return o.ofTraining(ctx, c)
}

// ofEval prepares an evaluation configuration.
func (o *evalOptions) ofEval(ctx context.Context, c *cli.Call, path string, overrides []string) (*evalJob, error) {
	plan, err := evaluation.Load(path, overrides)
	if err != nil {
		return nil, err
	}
	for _, n := range plan.Notes {
		c.Log.Warn("configuration note", "note", n)
	}
	if err := plan.Check(ctx, c.Log); err != nil {
		return nil, err
	}
	identity, err := plan.Identity(ctx)
	if err != nil {
		return nil, err
	}
	if o.out == "" {
		o.out = plan.Dir()
	}
	e := &evalJob{about: plan.Backend.API + " " + plan.Backend.Model, Evaluation: &evaluate.Evaluation{
		Dir: o.out, Model: plan.Backend.Name, Identity: identity, Tasks: plan.Tasks,
		Resume: evaluate.Resume(plan.Config.Run.Resume), Concurrency: plan.Config.Run.Jobs, Live: plan.Config.Run.Live,
		Log: c.Log,
	}}
	e.open = func(ctx context.Context) (shut func(), err error) {
		e.Policy, e.Independent, shut, err = plan.Open(ctx, c.Log)
		return shut, err
	}
	return e, nil
}

// ofTraining prepares the validation levels of a training configuration.
func (o *evalOptions) ofTraining(ctx context.Context, c *cli.Call) (*evalJob, error) {
	cfg, err := source(o.preset, c.Args).Load()
	if err != nil {
		return nil, err
	}
	if cfg.Trainer.Stage == config.StageSFTThen { // what is played is the second stage
		cfg.Trainer.Stage = config.StageRL
	}
	for _, n := range inThisProcess(&cfg) {
		c.Log.Warn("configuration note", "note", n)
	}
	model, a := cfg.Agent.Model.Path, &cfg.Agent.Model
	folder, adapter, err := evaluation.ModelAt(a.Path, a.Adapter)
	if err != nil {
		return nil, err
	}
	if a.Path = folder; adapter != "" {
		a.Adapter, a.LoRARank = adapter, 0 // the adapter has its own rank
	}
	envs, levels, err := run.Prepare(ctx, &cfg, nil, c.Log)
	if err != nil {
		return nil, err
	}
	e := &evalJob{about: "local " + model, envs: envs,
		Evaluation: &evaluate.Evaluation{Model: model, Live: true, Log: c.Log}}
	t := &train.Trainer{Config: cfg, Envs: envs, Levels: levels, Log: c.Log, Handled: train.OuterKeys()}
	if err := o.validate(ctx, e, t, adapter); err != nil {
		return nil, errors.Join(err, e.close())
	}
	return e, nil
}

// validate makes an evaluation play the validation levels of a trainer.
func (o *evalOptions) validate(ctx context.Context, e *evalJob, t *train.Trainer, adapter string) error {
	c := &t.Config
	folder := c.Agent.Model.Path
	if err := run.Preflight(ctx, c, t.Envs, t.Levels); err != nil {
		return err
	}
	weights, err := evaluation.Weights(ctx, folder, adapter)
	if err != nil {
		return err
	}
	if o.out == "" {
		o.out = filepath.Join(run.Dir(c), "evaluation")
	}
	e.Dir, e.Identity = o.out, identity(weights, c)
	task, err := t.Task("val") // replaced when the model is open
	if err != nil {
		return err
	}
	e.Tasks = []evaluate.Task{task}
	e.open = func(ctx context.Context) (func(), error) {
		options := run.ModelOptions(c, t.Log)
		options.Critic, options.CriticPath, options.Reference, options.ReferencePath = vlm.NoCritic, "", false, ""
		options.OffloadCritic, options.OffloadCriticMoments, options.OffloadReference = false, false, false
		m, err := vlm.Open(ctx, folder, options)
		if err != nil {
			return nil, err
		}
		shut := func() {
			if err := m.Close(); err != nil { // the file of autotune may not have been written
				t.Log.Error("closing the model failed", "err", err)
			}
		}
		t.Learner, e.Policy = m, m
		if e.Tasks[0], err = t.Task("val"); err != nil {
			shut()
			return nil, err
		}
		return shut, nil
	}
	return nil
}

// identity names a policy by all that decides what it writes: results of others are not continued.
func identity(weights string, c *config.Config) string {
	out := fmt.Sprint(weights, c.Model.BFloat16)
	if t := c.Model.RolloutDType; t != "float32" {
		out += " " + t
	}
	if len(c.Data.Template) > 0 {
		out += fmt.Sprint(" ", c.Data.Template)
	}
	return out
}

// inThisProcess removes the settings of a training configuration that the evaluation does not use,
// because it plays and generates in its own process, and returns notes on them.
func inThisProcess(c *config.Config) (notes []string) {
	if c.Run.Queue != "" {
		notes = append(
			notes,
			"run.queue and run.queue_options: no effect on vagen eval with a training configuration, "+
				"which plays its episodes in this process",
		)
	}
	if c.UsesEngine() {
		notes = append(notes, "actor_rollout_ref.rollout.engine: no effect on vagen eval with a training configuration, which generates with the model in this process")
	}
	c.Run.Queue, c.Agent.Rollout.Engine.Addresses, c.Run.Partial = "", nil, false
	return notes
}

// printPlan shows what would be played.
func (e *evalJob) printPlan(c *cli.Call) error {
	missing, err := e.Missing()
	if err != nil {
		return asUsage(err)
	}
	rows := [][]string{{"tag", "env", "episodes", "missing"}}
	for i, t := range e.Tasks {
		rows = append(rows, []string{t.Tag, t.Episodes[0].Env, fmt.Sprint(len(t.Episodes)), fmt.Sprint(len(missing[i]))})
	}
	if err := c.Table(rows); err != nil {
		return err
	}
	_, err = fmt.Fprintf(c.Out, "\n%s, results in %s\n", e.about, e.Dir)
	return err
}

// run plays and shows the tables, even if no episode can be used.
func (e *evalJob) run(ctx context.Context, c *cli.Call, format string) error {
	var err error
	if e.shut, err = e.open(ctx); err != nil {
		return asUsage(err)
	}
	e.Done = func(done, all int) {
		if step := max(1, all/20); done%step == 0 || done == all {
			c.Log.Info("episodes played", "done", done, "of", all)
		}
	}
	report, err := e.Run(ctx)
	if report == nil {
		return asUsage(err)
	}
	var shown error
	switch format {
	case "json":
		shown = c.JSON(report)
	case "markdown":
		shown = report.WriteMarkdown(c.Out)
	default:
		shown = report.WriteText(c.Out)
	}
	c.Log.Info("results written", "folder", e.Dir)
	return errors.Join(err, shown)
}

// explainEval lists the keys of an evaluation.
func explainEval(c *cli.Call) error {
	if len(c.Args) > 0 {
		return cli.Usagef("CONFIG is %s, but --explain only lists keys", c.Args[0])
	}
	if err := c.Idle("--explain only lists keys", "out", "format", "preset"); err != nil {
		return err
	}
	cfg, backend, chat := evaluation.Default(), evaluation.DefaultBackend(), evaluation.ChatConfig{TopP: 1}
	var rows [][]string
	for _, group := range []struct {
		prefix string
		of     any
	}{{"", &cfg}, {"backends.NAME.", &backend}, {"default_chat_config.", &chat}} {
		for _, k := range settings.Keys(group.of) {
			rows = append(rows, []string{group.prefix + k.Path, value(k.Value), k.Doc})
		}
	}
	if err := c.Table(rows); err != nil {
		return err
	}
	_, err := fmt.Fprintln(c.Out, "\nchat_config, harness, max_turns and the lengths of an entry of envs override "+
		"the keys above.")
	return err
}

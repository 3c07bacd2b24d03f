package replay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"vagen/env"
	"vagen/policy/vlm"
	"vagen/train/config"
	"vagen/train/proof"
)

// VerifyOptions says which steps Verify replays, and with what.
type VerifyOptions struct {
	Steps int // number of steps to replay; 0 replays none
	// Seed draws the steps. Whoever verifies draws it at random: a run whose steps to replay are
	// known in advance can be forged in the others.
	Seed      uint64
	Overrides []string // of the form key=value, which set secrets, as for Step
	Envs      *env.Registry
	Log       *slog.Logger
}

// Verify compares the files of a run with its chain, see proof.Verify, and replays some
// steps. It changes nothing.
//
// A step can be replayed if its episodes are stored and the checkpoint directly before it
// exists; step 1 needs none. The steps are drawn with o.Seed. On the kind of machine
// that the run was trained on a replay must equal the record bit by bit; elsewhere its
// log-probs must be within proof.LogProbTolerance and its metrics close, and the report says so.
func Verify(ctx context.Context, path string, o VerifyOptions) (*proof.Report, error) {
	r, err := proof.Verify(ctx, path)
	if err != nil || r.Facts == nil {
		return r, err
	}
	r.Add("other files", proof.Unchecked,
		"curve.png, best_actor, hf, samples in episodes, stored images, and files of loggers are not recorded")
	if o.Steps < 1 {
		r.Add("replay", proof.Unchecked, "no step was replayed, as asked for")
		return r, nil
	}
	return r, o.replay(ctx, path, r)
}

// replay replays a sample of the steps.
func (o *VerifyOptions) replay(ctx context.Context, path string, r *proof.Report) error {
	rec, err := openRecord(path, o.Overrides, o.Log)
	if err != nil {
		return err
	}
	c := rec.config
	candidates, err := r.Replayable(&c)
	if err != nil {
		return err
	}
	if len(candidates) == 0 {
		r.Add("replay", proof.Unchecked,
			"no step can be replayed: none has stored episodes (trainer.rollout_data_dir) and a checkpoint directly before it")
		return nil
	}
	exact, err := o.sameMachine(ctx, &c, r)
	if err != nil {
		return err
	}
	// Recorded episodes of servers are replayed, not played again.
	exact = exact && (c.Repeats() || c.UsesEngine()) && !strings.HasPrefix(r.Facts.Backend, "xla:cuda")
	steps := proof.Sample(candidates, o.Steps, o.Seed)
	r.Add("replay", proof.Passed, "%d of %d steps that can be replayed were drawn with seed %d",
		len(steps), len(candidates), o.Seed)
	for _, step := range steps {
		x, err := Step(ctx, path, o.Overrides, step, o.Envs, o.Log)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		switch {
		case errors.Is(err, config.ErrConfig): // such as recorded episodes without images: nothing is wrong with the run
			r.Add("replay", proof.Unchecked, "step %d: %v", step, err)
			continue
		case err != nil:
			r.Add("replay", proof.Faulty, "step %d: %v", step, err)
			continue
		}
		report(r, x, exact, c.Model.BFloat16)
	}
	if rest := len(r.Steps()) - len(steps); rest > 0 {
		r.Add("replay", proof.Unchecked, "%d other steps; %d of all steps can be replayed", rest, len(candidates))
	}
	return nil
}

// report adds the result of a replay.
func report(r *proof.Report, x *Result, exact, bfloat16 bool) {
	switch {
	case x.Same():
		r.Add("replay", proof.Passed, "step %d: %d episodes with %d tokens, and all metrics, are equal bit by bit", x.Step,
			x.Episodes, x.Tokens)
	case !exact:
		n, limit := &x.Closeness, proof.LogProbTolerance
		if bfloat16 {
			limit *= proof.BFloat16Factor
		}
		if err := n.Within(x.Episodes, limit); err != nil {
			r.Add("replay", proof.Faulty, "step %d: beyond the tolerance for another machine: %v", x.Step, err)
			return
		}
		text := fmt.Sprintf("step %d: within the tolerance for another machine: %d of %d episodes have the same tokens; log-probs of the %d equal tokens differ by at most %.2g",
			x.Step, n.Episodes, x.Episodes, n.Tokens, n.LogProb)
		if n.Episodes == x.Episodes {
			text += fmt.Sprintf(", metrics by at most %.2g", n.MetricRatio)
		}
		r.Add("replay", proof.Passed, "%s", text)
	case x.First != nil:
		r.Add("replay", proof.Faulty, "step %d: %v", x.Step, x.First)
	default:
		r.Add("replay", proof.Faulty, "step %d: metrics differ: %s", x.Step,
			strings.Join(x.Metrics[:min(3, len(x.Metrics))], ", "))
	}
}

// sameMachine reports whether this process computes the same bits as the run did, and adds
// the differences.
func (o *VerifyOptions) sameMachine(ctx context.Context, c *config.Config, r *proof.Report) (bool, error) {
	backend, err := vlm.ChooseBackend(ctx, c.Model.Backend, o.Log)
	if err != nil {
		return false, err
	}
	here := proof.NewFacts(nil, 0, backend)
	differences := r.Facts.MachineDifferences(here)
	plugin, err := vlm.Plugin(ctx, backend)
	if err != nil {
		return false, err
	}
	now := map[string]string{}
	if plugin != "" {
		if now, err = proof.SumInputs(ctx, map[string]string{"plugin": plugin}); err != nil {
			return false, err
		}
	}
	if was := r.Input("plugin"); was != now["plugin"] && was != "" && now["plugin"] != "" {
		differences = append(differences, proof.Difference{What: "SHA-256 of the plugin", A: was, B: now["plugin"]})
	}
	for _, d := range differences {
		r.Add("machine", proof.Unchecked, "%v: replays are compared within tolerances", d)
	}
	for _, d := range r.Facts.CodeDifferences(here) {
		r.Add("code", proof.Unchecked, "%v: a difference of the replay can come from the code", d)
	}
	return len(differences) == 0, nil
}
